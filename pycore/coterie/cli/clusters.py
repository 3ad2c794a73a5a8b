"""Commands that connect to a cluster: the event loop that they run in, and copies with progress."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from coterie.cli.endsampling import EndSampler
from coterie.cli.failures import Terminated, say
from coterie.cli.groupnames import SPECIAL
from coterie.cli.progress import TerminalProgress
from coterie.extras import missing_module
from coterie.times import epoch_ms, format_time

if TYPE_CHECKING:
    from coterie.cluster.cluster import Cluster
    from coterie.cluster.copying import CopyObserver, CopyPlan, CopyResult

Found = TypeVar("Found")
Work = Callable[["Cluster", asyncio.Event], Awaitable[Found]]


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
    if config.unused and not again:
        say(f"coterie: {client_file}: no effect here: {', '.join(sorted(config.unused))}")
    return Cluster(addresses, config)


async def copy(
    cluster: Cluster,
    stop: asyncio.Event,
    plan: CopyPlan,
    sample_s: int | None = None,
    sampled_groups: Container[str] | None = None,
    observer: CopyObserver | None = None,
) -> list[CopyResult]:
    """Copy, with progress on standard error.

    End offsets are sampled every ``sample_s`` seconds from when the copy is complete on; once, if
    it then ends. ``sampled_groups``: only of the topics that these commit to; None: all.
    ``observer`` learns how far the copy is, and what it waits for.
    """
    from coterie.cluster.copying import CopyObserver, copy_partitions
    from coterie.cluster.stopping import run_until

    with TerminalProgress() as progress:
        sampler = None
        if sample_s is not None:
            sampler = EndSampler(plan.out, epoch_ms, progress.notice, sampled_groups)
        sampling: list[asyncio.Task[None]] = []

        class Shown(CopyObserver):
            async def begun(self, partitions: tuple[int, ...]) -> None:
                if sampler is not None and not sampler.has_read:
                    await sampler.read_copy(partitions)

            def progress(self, done: int, total: int) -> None:
                if observer is not None:
                    observer.progress(done, total)
                progress.stage(f"fetched {done:,} of {total:,} offsets")

            def appended(self, partition: int, batches: memoryview) -> None:
                progress.advance(len(batches))
                if sampler is not None:
                    sampler.take(partition, batches)

            def waiting(self, reasons: Mapping[str, str]) -> None:
                if observer is not None:
                    observer.waiting(reasons)

            def complete(self, at_ms: int) -> None:
                if observer is not None:
                    observer.complete(at_ms)
                if plan.follow:
                    progress.notice(f"complete until {format_time(at_ms)}; following")
                if plan.follow and sampler is not None and sample_s is not None:
                    task = asyncio.ensure_future(sampler.repeat(cluster, sample_s))
                    task.add_done_callback(lambda _: stop.set())  # it ends only by a failure
                    sampling.append(task)

            def notice(self, line: str) -> None:
                progress.notice(line)

        try:
            results = await copy_partitions(
                cluster, plan, now_ms=epoch_ms, observer=Shown(), stop=stop
            )
        finally:
            for task in sampling:
                task.cancel()
            ended = await asyncio.gather(*sampling, return_exceptions=True)
        for failure in ended:
            if isinstance(failure, Exception):
                raise failure
        if sampler is not None and not plan.follow and not stop.is_set():
            await run_until(stop, sampler.sample(cluster))
            if stop.is_set():
                return results
            # The copy has to be complete until the sample, or `lag` calls it beyond the log.
            more = await copy_partitions(
                cluster, plan, now_ms=epoch_ms, observer=Shown(), stop=stop
            )
            before = {result.partition: result.fetched_bytes for result in results}
            results = [
                replace(
                    result, fetched_bytes=result.fetched_bytes + before.get(result.partition, 0)
                )
                for result in more
            ]
        return results


def fetched(servers: str, client_file: str | None, groups: Iterable[str], out: Path) -> None:
    """Copy the offsets topic into an empty folder: of groups, only their partitions."""
    plan = plan_of(groups, out)
    on_cluster(servers, client_file, lambda cluster, stop: copy(cluster, stop, plan))


def plan_of(groups: Iterable[str], out: Path) -> CopyPlan:
    """Return the plan of a copy: of groups, only their partitions.

    A pattern among ``groups`` may match a group of any partition.
    """
    from coterie.cluster.copying import CopyPlan

    ids = tuple(groups)
    return CopyPlan(out, groups=() if any(map(SPECIAL.search, ids)) else ids)
