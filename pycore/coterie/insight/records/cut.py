"""A partition cut into parts, runs of whole segments, which threads read concurrently.

The results are merged in log order. ``coterie.insight.records.log_parts`` does the same across
processes.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from coterie.insight.records.log_reader import (
    ReadingContext,
    ReadSegment,
    SurveyedLog,
    feed,
    read_pieces,
)
from coterie.log.folders import Segment, read_segment
from coterie.state.partial import ScanOptions
from coterie.state.replay_engine import Progress

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from typing_extensions import Buffer

    from coterie.insight.records.record_columns import RecordColumns

SegmentRun = tuple[Segment, ...]
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

    def until_cancelled(self, pieces: Iterable[RecordColumns]) -> Iterator[RecordColumns]:
        """Yield pieces until :meth:`cancel`."""
        for records in pieces:
            if self.cancelled:
                return
            yield records


class CutPartition:
    """A partition cut into parts, which threads read.

    Parameters
    ----------
    parts : list of tuple of Segment
        In log order.
    pool
        The threads.
    threads : int
        Their number: the most parts that are read, or read and not merged yet, at a time.
    cancellation : Cancellation
        Ends the reading early.
    progress : Progress
        Advances after each part. A question may read a log more than once, so a reading advances
        it by half a part's size, and :meth:`close` by the rest.
    """

    def __init__(
        self,
        parts: list[SegmentRun],
        pool: Executor,
        threads: int,
        cancellation: Cancellation,
        progress: Progress,
    ) -> None:
        self.parts = parts
        self.pool = pool
        self.threads = threads
        self.cancellation = cancellation
        self.progress = progress
        self.remaining = sum(map(size_of, parts))

    @property
    def copies(self) -> int:
        """The most copies of an aggregate in :meth:`take_each`, the merged one included."""
        return min(len(self.parts), self.threads + 1)

    def survey(self, options: ScanOptions, read: ReadSegment) -> SurveyedLog:
        """Read the partition for its state, and for what a second reading needs."""
        logs = self._each(lambda part: SurveyedLog(part, options, read))
        whole = next(logs)
        for later in logs:
            whole.absorb(later)
        return whole

    def take(
        self, log: SurveyedLog, columns: Collection[str] | None, consumers: Sequence[Any]
    ) -> None:
        """Feed the pieces of a surveyed log to aggregates.

        ``columns``: of ``RecordScan``; None: all. Each part feeds a copy of the aggregates, which
        the aggregates absorb.
        """
        pickled = pickle.dumps(consumers, pickle.HIGHEST_PROTOCOL)
        copies = (pickle.loads(pickled) for _ in self.parts)  # lazily: a copy is freed when merged
        self.take_each(log, columns, copies, consumers)

    def take_each(
        self,
        log: SurveyedLog,
        columns: Collection[str] | None,
        each: Iterable[Sequence[Any]],
        whole: Sequence[Any],
    ) -> None:
        """Feed each part's pieces to the aggregates of the part, and merge these into ``whole``.

        ``each`` yields the aggregates of the next part when its reading begins. The first part may
        fill ``whole`` itself.
        """

        def fill(
            part: SegmentRun, context: ReadingContext, consumers: Sequence[Any]
        ) -> Sequence[Any]:
            pieces = read_pieces(part, log.options, context, self.cancellation.read, columns)
            feed(self.cancellation.until_cancelled(pieces), consumers)
            return consumers

        for of_part in self._each(fill, log.reading_contexts(), each):
            for merged, later in zip(whole, of_part, strict=True):
                if later is not merged:
                    merged.absorb(later)
            del of_part, later  # before another part is read

    def _each(self, work: Callable[..., T], *columns: Iterable[Any]) -> Iterator[T]:
        """Run ``work`` on each part, one a thread, and yield the results in log order."""
        ahead: deque[tuple[SegmentRun, Future[T]]] = deque()
        rows = zip(self.parts, *columns, strict=True)
        while True:
            for part, *row in islice(rows, self.threads - len(ahead)):
                ahead.append((part, self.pool.submit(work, part, *row)))
            if not ahead:
                return
            part, future = ahead.popleft()
            yield future.result()
            del future  # frees the merged result before another part is read
            self._advance(size_of(part) // 2)

    def _advance(self, size: int) -> None:
        size = min(size, self.remaining)
        self.remaining -= size
        self.progress.advance(size)

    def close(self) -> None:
        self._advance(self.remaining)


def size_of(part: Iterable[Segment]) -> int:
    return sum(segment.size for segment in part)
