"""Options of commands that connect to a cluster, and the event loop that they run in."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from coterie.cli.failures import Terminated, say
from coterie.extras import missing_module

if TYPE_CHECKING:
    from coterie.cluster.cluster import Cluster

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Found = TypeVar("Found")
Work = Callable[["Cluster", asyncio.Event], Awaitable[Found]]


def epoch_ms() -> int:
    """Return the system time in ms since the epoch."""
    return time.time_ns() // 1_000_000


def bootstrap_options(*, required: bool) -> Callable[[Decorated], Decorated]:
    """``--bootstrap-server`` and ``--command-config``, as ``servers`` and ``client_file``."""

    def add(command: Decorated) -> Decorated:
        command = click.option(
            "--command-config",
            "client_file",
            type=click.Path(dir_okay=False),
            metavar="FILE",
            help="Kafka's client properties, as for Kafka's own tools.",
        )(command)
        return click.option(
            "--bootstrap-server",
            "servers",
            metavar="HOST:PORT[,...]",
            required=required,
            help="Brokers of the cluster; any that answers names the others.",
        )(command)

    return add


def on_cluster(
    servers: str, client_file: str | None, work: Work[Found], *, endless: bool = False
) -> Found:
    """Connect to a cluster, and return what ``work`` returns there.

    ``work`` gets an event that SIGINT and SIGTERM set, so that it ends in order. A signal ends the
    command as one that was interrupted, except for ``endless`` work, which has no other end.

    Raises
    ------
    click.UsageError
        ``servers`` names no broker.
    CoterieError
        The properties are wrong, the extra ``cluster`` is missing, or ``work`` failed.
    """
    from coterie.cluster.client_config import ClientConfig, read_client_config
    from coterie.errors import ArgumentError

    try:
        from coterie.cluster.cluster import Cluster, addresses_of
    except ModuleNotFoundError as error:
        raise missing_module(error) from error
    try:
        addresses = addresses_of(servers)
    except ArgumentError as error:
        raise click.UsageError(f"--bootstrap-server: {error}") from None
    config = ClientConfig() if client_file is None else read_client_config(client_file)
    if config.unused:
        say(f"coterie: {client_file}: no effect here: {', '.join(sorted(config.unused))}")
    received: list[int] = []

    async def run() -> Found:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()

        def end(number: int) -> None:
            received.append(number)
            stop.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, end, number)
        async with Cluster(addresses, config) as cluster:
            return await work(cluster, stop)

    found = asyncio.run(run())
    if received and not endless:
        raise KeyboardInterrupt if received[0] == signal.SIGINT else Terminated
    return found
