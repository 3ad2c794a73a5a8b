"""Read a large log with threads of this process, with the same answers as with one thread.

A partition that exceeds a thread's share of the log is cut into parts
(``coterie.insight.records.cut``). One thread reads each other partition, and some partitions are
read ahead. Threads pay off because the core reads without the GIL.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from coterie.insight.records.cut import Cancellation, CutPartition, SegmentRun, size_of
from coterie.insight.records.partition_view import PartitionView
from coterie.log.folders import Log, Segment, find_segments
from coterie.log.joined import order_of
from coterie.state import parallel_scan
from coterie.state.replay_engine import Progress, Silent

if TYPE_CHECKING:
    from concurrent.futures import Future

PART_BYTES = 1 << 30  # progress is reported after each part
PART_BYTES_MIN = 64 << 20  # a part numbers its keys anew and is merged, which must pay off
SHARES = 2  # of a log, for each thread: partitions differ in size

T = TypeVar("T")


def parts_of(segments: Sequence[Segment], count: int) -> list[SegmentRun]:
    """Split segments into at most ``count`` runs of about the same size.

    Several partitions are one run: each thread would read its own as a whole log.
    """
    if len(order_of(segments)) > 1:
        return [tuple(segments)]
    sizes = list(map(parallel_scan.weight, segments))
    total = max(sum(sizes), 1)
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    numbers = [
        min((2 * end - size) * count // (2 * total), count - 1)
        for end, size in zip(ends, sizes, strict=True)
    ]
    pairs = groupby(zip(numbers, segments, strict=True), key=lambda pair: pair[0])
    return [tuple(segment for _, segment in run) for _, run in pairs]


def part_count(size: int, whole: int, threads: int) -> int:
    """Return the number of parts for a partition of ``size`` bytes in a log of ``whole`` bytes."""
    if size < 2 * PART_BYTES_MIN or size * SHARES * threads <= whole:
        return 1
    rounds = -(-size // (threads * PART_BYTES))
    return min(rounds * threads, size // PART_BYTES_MIN)


@contextmanager
def each_partition(
    log: Log,
    work: Callable[[PartitionView], T],
    *,
    groups: Collection[str] | None = None,
    at_ms: int | None = None,
    since_ms: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Iterator[T]]:
    """Give the results of ``work`` for each partition, in order of their number.

    Threads read a large log, ahead of the results and until the context ends. A result may be a
    view, which reads more of the log until then. ``work`` may run on any thread, so it may change
    only its own view. Parameters and errors are those of
    ``coterie.insight.records.partition_view.read_partitions``.
    """
    from concurrent.futures import ThreadPoolExecutor

    progress = progress or Silent()
    listing = find_segments(log)
    progress.total(listing.size)
    only = None if groups is None else frozenset(groups)
    whole = sum(map(parallel_scan.weight, listing.segments))
    threads = parallel_scan.cores() if whole >= 2 * PART_BYTES_MIN else 1
    reading = Cancellation()

    def views(pool: ThreadPoolExecutor) -> Iterator[PartitionView]:
        for number, segments in listing.partitions().items():
            size = sum(map(parallel_scan.weight, segments))
            parts = parts_of(segments, part_count(size, whole, threads)) if threads > 1 else []
            view = PartitionView(number, segments, only, at_ms, reading.read, since_ms)
            if len(parts) > 1:
                view.cut = CutPartition(parts, pool, threads, reading, progress)
            yield view

    def result_of(view: PartitionView, future: Future[T] | None) -> T:
        result = work(view) if future is None else future.result()
        if view.cut is None:
            progress.advance(size_of(view.segments))
        else:
            view.cut.close()
        return result

    def results(pool: ThreadPoolExecutor) -> Iterator[T]:
        ahead: deque[tuple[PartitionView, Future[T] | None]] = deque()
        most_ahead = parallel_scan.AHEAD_PER_THREAD * threads - 1 if threads > 1 else 0
        for view in views(pool):
            in_background = threads > 1 and view.cut is None
            ahead.append((view, pool.submit(work, view) if in_background else None))
            if len(ahead) > most_ahead:
                yield result_of(*ahead.popleft())
        while ahead:
            yield result_of(*ahead.popleft())

    with ThreadPoolExecutor(threads) as pool:
        try:
            yield results(pool)
        finally:
            reading.cancel()
