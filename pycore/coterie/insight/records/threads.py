"""A large log read by threads of this process, with the answers of one.

A partition that is more than a thread's share of the log is cut into parts
(``coterie.insight.records.cut``). Any other partition is one thread's work, and some are read ahead
of the one whose answer is wanted. Pays as the core reads without the GIL.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Generator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from coterie.insight.records.cut import Cancellation, CutPartition, SegmentRun, size_of
from coterie.insight.records.partition_view import PartitionView
from coterie.log.folders import Log, Segment, find_segments
from coterie.replay import parallel_scan
from coterie.replay.engine import Progress, Silent

if TYPE_CHECKING:
    from concurrent.futures import Future

PART_BYTES = 1 << 30  # progress is told after it
PART_BYTES_MIN = 64 << 20  # each part meets its keys anew, and is merged
SHARES = 2  # of a log, for each thread: partitions are of different sizes

T = TypeVar("T")


def parts_of(segments: Sequence[Segment], count: int) -> list[SegmentRun]:
    """Return at most so many runs of neighbouring segments, about even."""
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
    """Return into how many parts to cut a partition of so many bytes, of a log of ``whole``."""
    if size < 2 * PART_BYTES_MIN or size * SHARES * threads <= whole:
        return 1
    rounds = -(-size // (threads * PART_BYTES))
    return min(rounds * threads, size // PART_BYTES_MIN)


def each_partition(
    log: Log,
    work: Callable[[PartitionView], T],
    *,
    groups: Collection[str] | None = None,
    at_ms: int | None = None,
    since_ms: int | None = None,
    progress: Progress | None = None,
) -> Generator[T, None, None]:
    """Yield what ``work`` makes of each partition's facts, in order of their number.

    Threads read a large log: ``work`` is called on any of them, and changes nothing but its facts.
    Otherwise as ``coterie.insight.records.partition_view.read_facts``. Close it: what it reads
    ahead goes on until then.
    """
    from concurrent.futures import ThreadPoolExecutor

    progress = progress or Silent()
    listing = find_segments(log)
    progress.total(listing.size)
    only = None if groups is None else frozenset(groups)
    whole = sum(map(parallel_scan.weight, listing.segments))
    threads = parallel_scan.cores() if whole >= 2 * PART_BYTES_MIN else 1
    if threads == 1:
        for number, segments in listing.partitions().items():
            yield work(PartitionView(number, segments, only, at_ms, since_ms=since_ms))
            progress.advance(size_of(segments))
        return
    cancellation, pool = Cancellation(), ThreadPoolExecutor(threads)
    ahead: deque[tuple[PartitionView, Future[T] | None]] = deque()

    def taken(view: PartitionView, found: Future[T] | None) -> T:
        made = work(view) if found is None else found.result()
        if view.cut is None:
            progress.advance(size_of(view.segments))
        else:
            view.cut.close()
        return made

    try:
        for number, segments in listing.partitions().items():
            parts = parts_of(
                segments, part_count(sum(map(parallel_scan.weight, segments)), whole, threads)
            )
            view = PartitionView(number, segments, only, at_ms, cancellation.read, since_ms)
            if len(parts) > 1:
                view.cut = CutPartition(parts, pool, threads, cancellation, progress)
            if len(ahead) == parallel_scan.AHEAD_PER_THREAD * threads:
                yield taken(*ahead.popleft())
            ahead.append((view, None if view.cut else pool.submit(work, view)))
        while ahead:
            yield taken(*ahead.popleft())
    finally:
        cancellation.on = False
        pool.shutdown(cancel_futures=True)
