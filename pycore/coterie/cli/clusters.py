"""Commands that connect to a cluster: the event loop that they run in, and what they copy."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from coterie.base.extras import missing_module
from coterie.cli.failures import Terminated, say
from coterie.cli.group_names import SPECIAL

if TYPE_CHECKING:
    from coterie.live.cluster import Cluster
    from coterie.live.copying import CopyPlan

Found = TypeVar("Found")
Work = Callable[["Cluster", asyncio.Event], Awaitable[Found]]


def need_client_library() -> None:
    """Raise the error that names the extra ``cluster`` if it is not installed."""
    try:
        import coterie.live.connections  # noqa: F401
    except ModuleNotFoundError as error:
        raise missing_module(error) from error


def on_cluster(
    servers: str,
    client_file: str | None,
    work: Work[Found],
    *,
    endless: bool = False,
    again: bool = False,
) -> Found:
    """Connect to a cluster, and return what ``work`` returns there.

    ``work`` gets an event that SIGINT, SIGTERM and SIGHUP set, so that it ends in order. A signal
    ends the command as one that was interrupted, except for ``endless`` work, which has no other
    end. Ignored signals stay ignored. ``again``: this is not the command's first connection, so
    properties without an effect have been named.

    Raises
    ------
    click.UsageError
        ``servers`` names no broker.
    CoterieError
        The properties are wrong, the extra ``cluster`` is missing, or ``work`` failed.
    """
    not_connected = cluster_of(servers, client_file, again=again)
    received: list[int] = []

    async def run() -> Found:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()

        def end(number: int) -> None:
            received.append(number)
            stop.set()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:
                loop.add_signal_handler(number, end, number)
        async with not_connected as cluster:
            return await work(cluster, stop)

    found = asyncio.run(run())
    if received and not endless:
        raise KeyboardInterrupt if received[0] == signal.SIGINT else Terminated
    return found


def cluster_of(servers: str, client_file: str | None, *, again: bool = False) -> Cluster:
    """Return a cluster that is not connected yet; see :func:`on_cluster`."""
    from coterie.errors import ArgumentError
    from coterie.live.client_config import ClientConfig, read_client_config

    need_client_library()
    from coterie.live.cluster import Cluster, addresses_of

    try:
        addresses = addresses_of(servers)
    except ArgumentError as error:
        raise click.UsageError(f"--bootstrap-server: {error}") from None
    config = ClientConfig() if client_file is None else read_client_config(client_file)
    if config.unused and not again:
        say(f"coterie: {client_file}: no effect here: {', '.join(sorted(config.unused))}")
    return Cluster(addresses, config)


def fetched(servers: str, client_file: str | None, groups: Iterable[str], out: Path) -> None:
    """Copy the offsets topic into an empty folder: of groups, only their partitions."""
    need_client_library()
    from coterie.cli.copying import copy

    plan = plan_of(groups, out)
    on_cluster(servers, client_file, lambda cluster, stop: copy(cluster, stop, plan))


def plan_of(groups: Iterable[str], out: Path) -> CopyPlan:
    """Return the plan of a copy: of groups, only their partitions.

    A pattern among ``groups`` may match a group of any partition.
    """
    from coterie.live.copying import CopyPlan

    ids = tuple(groups)
    return CopyPlan(out, groups=() if any(map(SPECIAL.search, ids)) else ids)
