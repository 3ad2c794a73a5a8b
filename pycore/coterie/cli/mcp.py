"""``coterie mcp``: the questions as read-only tools for an agent."""

from __future__ import annotations

import click

from coterie.base.extras import missing_module
from coterie.cli.broker_logs import request_log_options, server_log_option
from coterie.cli.logs import check_source
from coterie.cli.params import bootstrap_options
from coterie.errors import ArgumentError
from coterie.log.folders import find_segments


@click.command("mcp")
@click.argument("logs", metavar="LOG...", nargs=-1, type=click.Path())
@bootstrap_options(required=False)
@server_log_option
@request_log_options
@click.option(
    "--end-offsets",
    "ends_file",
    metavar="FILE",
    help="End offsets for the tools lag and groups, as for `coterie lag`. With --bootstrap-server, "
    "lag has by default those of each call.",
)
@click.option(
    "--copy",
    "copies",
    metavar="COPY",
    multiple=True,
    type=click.Path(),
    help="The log of another broker, for the tool compare; repeatable.",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Serve HTTP at this address of the machine itself, not standard input and output. Port 0 "
    "chooses one.",
)
def command(
    logs: tuple[str, ...],
    servers: str | None,
    client_file: str | None,
    server_logs: tuple[str, ...],
    request_logs: tuple[str, ...],
    log_zone: str,
    ends_file: str | None,
    copies: tuple[str, ...],
    listen: str | None,
) -> None:
    """Serve the questions as tools for an agent, by the Model Context Protocol.

    The tools only read. An agent chooses groups, times and thresholds, but no file and no cluster:
    these are the ones given here. Each call reads the log anew; with --bootstrap-server it copies
    the topic anew. The prompt `incident` leads from a symptom to an answer.
    """
    check_source(logs, servers, {"--command-config": client_file})
    if copies and len(logs) != 1:
        raise click.UsageError("--copy goes with one LOG, with which the copies are compared")
    for log in (logs, *((copy,) for copy in copies)):
        if log:
            find_segments(log)  # a wrong path is an error now
    try:
        from coterie.cli import agent_server
        from coterie.cli.agent_tools import Source
    except ModuleNotFoundError as error:
        raise missing_module(error) from error

    cluster = {"--bootstrap-server": servers, "--command-config": client_file}
    files = [("--server-log", file) for file in server_logs]
    files += [("--request-log", file) for file in request_logs]
    if files:
        files.append(("--log-zone", log_zone))
    if ends_file is not None:
        files.append(("--end-offsets", ends_file))
    source = Source(
        log=logs,
        cluster=tuple(f"{name}={value}" for name, value in cluster.items() if value is not None),
        files=tuple(files),
        copies=copies,
    )
    if listen is None:
        agent_server.serve_stdio(source)
        return
    from coterie.server.options import PLAINTEXT, place_of

    try:
        place = place_of(listen, protocols=PLAINTEXT)
        if not place.is_loopback:
            raise ArgumentError(f"{listen} is not a loopback address; use 127.0.0.1")
    except ArgumentError as error:
        raise click.UsageError(f"--listen: {error}") from None
    agent_server.serve_http(source, place)
