"""Read the partitions of a large log with threads of this process, one a thread, some ahead.

Threads pay off because the core reads without the GIL. One partition is read by one thread:
docs/architecture.md has what a second one would save and cost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from coterie.insight.records.partition_view import PartitionView
from coterie.log.folders import Log, Segment, find_segments, read_segment
from coterie.state import parallel_scan
from coterie.state.replay_engine import Progress, Silent

if TYPE_CHECKING:
    from concurrent.futures import Future

    from typing_extensions import Buffer

LARGE_BYTES = 128 << 20  # below, threads cost more than they save

T = TypeVar("T")


class Cancellation:
    """Stops the threads that read a log, once their results are no longer needed."""

    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True

    def read(self, segment: Segment) -> Buffer:
        """Return a segment's bytes; raise CancelledError after :meth:`cancel`.

        Without them an answer would be wrong.
        """
        if self.cancelled:
            raise CancelledError
        return read_segment(segment)


class Advancing:
    """Reads a partition's segments, and advances progress.

    A question may read a log more than once, so a reading of a segment advances it by half its
    size, and :meth:`close` by the rest.
    """

    def __init__(self, size: int, progress: Progress) -> None:
        self.remaining = size
        self.progress = progress

    def read(self, segment: Segment) -> Buffer:
        self._advance(segment.size // 2)
        return read_segment(segment)

    def close(self) -> None:
        self._advance(self.remaining)

    def _advance(self, size: int) -> None:
        size = min(size, self.remaining)
        self.remaining -= size
        self.progress.advance(size)


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
    partitions = listing.partitions()
    is_large = sum(map(parallel_scan.weight, listing.segments)) >= LARGE_BYTES
    threads = parallel_scan.cores() if is_large and len(partitions) > 1 else 1
    cancellation = Cancellation()

    def in_this_thread() -> Iterator[T]:
        for number, segments in partitions.items():
            reading = Advancing(sum(segment.size for segment in segments), progress)
            result = work(PartitionView(number, segments, only, at_ms, reading.read, since_ms))
            reading.close()
            yield result

    def in_threads(pool: ThreadPoolExecutor) -> Iterator[T]:
        ahead: deque[tuple[int, Future[T]]] = deque()
        for number, segments in partitions.items():
            view = PartitionView(number, segments, only, at_ms, cancellation.read, since_ms)
            ahead.append((sum(segment.size for segment in segments), pool.submit(work, view)))
            if len(ahead) >= parallel_scan.AHEAD_PER_THREAD * threads:
                yield next_of(ahead)
        while ahead:
            yield next_of(ahead)

    def next_of(ahead: deque[tuple[int, Future[T]]]) -> T:
        size, future = ahead.popleft()
        result = future.result()
        progress.advance(size)
        return result

    if threads == 1:
        yield in_this_thread()
        return
    with ThreadPoolExecutor(threads) as pool:
        try:
            yield in_threads(pool)
        finally:
            cancellation.cancel()
