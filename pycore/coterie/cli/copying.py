"""Copies of a cluster's partitions, with progress on standard error and samples of end offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Coroutine, Mapping
from dataclasses import replace
from typing import Any

from coterie.base.times import epoch_ms, format_time
from coterie.cli.end_sampling import EndSampler
from coterie.cli.progress import TerminalProgress
from coterie.live.cluster import Cluster
from coterie.live.copying import CopyObserver, CopyPlan, CopyResult, copy_partitions
from coterie.live.stopping import run_until


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
    with TerminalProgress() as progress:
        sampler = None
        if sample_s is not None:
            sampler = EndSampler(plan.out, epoch_ms, progress.notice, sampled_groups, plan.keep_ms)
        shown = _Shown(progress, sampler, plan.follow, observer or CopyObserver())

        async def copied() -> list[CopyResult]:
            return await copy_partitions(cluster, plan, now_ms=epoch_ms, observer=shown, stop=stop)

        if sampler is None or sample_s is None:
            return await copied()
        if plan.follow:

            async def sample() -> None:
                await shown.is_complete.wait()
                await sampler.repeat(cluster, sample_s)

            return await _beside(sample(), copied(), stop)
        results = await copied()
        if not stop.is_set():
            await run_until(stop, sampler.sample(cluster))
        if stop.is_set():
            return results
        before = {result.partition: result.fetched_bytes for result in results}
        # The copy has to be complete until the sample, or `lag` calls it beyond the log.
        return [
            replace(result, fetched_bytes=result.fetched_bytes + before.get(result.partition, 0))
            for result in await copied()
        ]


async def _beside(
    endless: Coroutine[Any, Any, None],
    work: Coroutine[Any, Any, list[CopyResult]],
    stop: asyncio.Event,
) -> list[CopyResult]:
    """Return what ``work`` returns; stop it if ``endless`` fails, and raise why."""
    task = asyncio.ensure_future(endless)
    task.add_done_callback(lambda _: stop.set())
    try:
        results = await work
    finally:
        task.cancel()
        (ended,) = await asyncio.gather(task, return_exceptions=True)
    if isinstance(ended, Exception):
        raise ended
    return results


class _Shown(CopyObserver):
    """Shows the progress, and passes on what the sampler and another observer take."""

    def __init__(
        self,
        progress: TerminalProgress,
        sampler: EndSampler | None,
        follow: bool,
        observer: CopyObserver,
    ) -> None:
        self.is_complete = asyncio.Event()
        self._progress, self._sampler = progress, sampler
        self._follow, self._observer = follow, observer

    async def begun(self, partitions: tuple[int, ...]) -> None:
        if self._sampler is not None and not self._sampler.has_read:
            await self._sampler.read_copy(partitions)

    def progress(self, done: int, total: int) -> None:
        self._observer.progress(done, total)
        if done > 0:  # how many bytes the others have is not known before they come
            self._progress.total(round(self._progress.done * total / done))
        self._progress.stage(f"fetched {done:,} of {total:,} offsets")

    def appended(self, partition: int, batches: memoryview) -> None:
        self._progress.advance(len(batches))
        if self._sampler is not None:
            self._sampler.take(partition, batches)

    def waiting(self, reasons: Mapping[str, str]) -> None:
        self._observer.waiting(reasons)

    def complete(self, at_ms: int) -> None:
        self.is_complete.set()
        self._observer.complete(at_ms)
        if self._follow:
            self._progress.notice(f"complete until {format_time(at_ms)}; following")

    def notice(self, line: str) -> None:
        self._progress.notice(line)
