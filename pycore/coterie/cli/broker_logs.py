"""Options for a broker's own logs, which add causes to the records of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

from coterie.base.log_layouts import LogReader
from coterie.base.times import log_zone
from coterie.base.user_files import open_lines
from coterie.cli.failures import Failed, say
from coterie.errors import CoterieError
from coterie.insight.questions import server_log
from coterie.insight.questions.server_log_lines import BrokerLogLine

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
UTC = "Z"
Reader = Callable[[Iterable[str], str, LogReader], Iterator[BrokerLogLine]]


def zone_of(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Check a zone; raise a usage error if it is unknown."""
    try:
        log_zone(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None
    return value


def server_log_option(command: Decorated) -> Decorated:
    """``--server-log FILE``, repeatable, as ``server_logs``."""
    return click.option(
        "--server-log",
        "server_logs",
        metavar="FILE",
        multiple=True,
        help="The broker's server log, packed or not: reasons, evictions, times; repeatable.",
    )(command)


def request_log_options(command: Decorated) -> Decorated:
    """``--request-log FILE``, repeatable, as ``request_logs``, and ``--log-zone``."""
    command = click.option(
        "--log-zone",
        default=UTC,
        show_default=True,
        metavar="ZONE",
        callback=zone_of,
        help="Zone of the times in a broker's logs that have none, as +02:00 or Europe/Berlin.",
    )(command)
    return click.option(
        "--request-log",
        "request_logs",
        metavar="FILE",
        multiple=True,
        help="kafka.request.logger's at DEBUG: who joined and left, and why (KIP-800); repeatable.",
    )(command)


def read_logs(
    server_logs: Iterable[str], request_logs: Iterable[str], zone: str
) -> tuple[BrokerLogLine, ...]:
    """Read a broker's logs; raise if one cannot be read."""
    servers, requests = tuple(server_logs), tuple(request_logs)
    if zone != UTC and not servers + requests:
        raise click.UsageError("--log-zone is for the times of a broker's logs; none is given")
    return (
        *read_kind(servers, server_log.read_server_log, zone),
        *read_kind(requests, server_log.read_request_log, zone),
    )


def read_kind(names: Iterable[str], read: Reader, zone: str) -> Iterator[BrokerLogLine]:
    """Yield the lines about groups in logs of one kind; warn of lines that are not understood.

    Raises
    ------
    Failed
        A log cannot be read, or none of its lines is understood.
    """
    for name in names:
        log = LogReader(zone)
        broker_log_lines = list(read_one(name, read, zone, log))
        if log.example and not log.understood:
            raise Failed(
                f"{name}: no line is understood, as {log.example}; is it the log of this option?"
            )
        if log.missed:
            lines = "1 line about groups is"
            if log.missed > 1:
                lines = f"{log.missed:,} lines about groups are"
            say(f"coterie: {name}: {lines} not understood, as {log.example}")
        elif not broker_log_lines:
            say(f"coterie: {name}: says nothing of any group; is it the log of this option?")
        yield from broker_log_lines


def read_one(name: str, read: Reader, zone: str, log: LogReader) -> Iterator[BrokerLogLine]:
    """Yield the lines about groups in one log."""
    try:
        with open_lines(Path(name), errors="replace") as lines:
            yield from read(lines, zone, log)
    except CoterieError as error:
        raise Failed(f"{name}: {error}") from error
