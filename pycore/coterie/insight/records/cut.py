"""A partition in parts, runs of whole segments, which threads of this process read at once.

What they find is put together in log order, as ``coterie.insight.records.log_parts`` does for other
processes.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from coterie.insight.records.log_reader import Begin, ReadSegment, SurveyedLog, feed, read_pieces
from coterie.log.folders import Segment, read_segment
from coterie.replay.engine import Progress
from coterie.state.partial import ScanOptions

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from typing_extensions import Buffer

    from coterie.insight.records.record_columns import RecordColumns

SegmentRun = tuple[Segment, ...]
T = TypeVar("T")


class Cancellation:
    """Whether somebody still wants what threads read; once nobody does, there is no more to it."""

    def __init__(self) -> None:
        self.on = True

    def read(self, segment: Segment) -> Buffer:
        """Return a segment's bytes."""
        return read_segment(segment) if self.on else b""

    def among(self, pieces: Iterable[RecordColumns]) -> Iterator[RecordColumns]:
        """Yield pieces."""
        for records in pieces:
            if not self.on:
                return
            yield records


class CutPartition:
    """A partition in parts, which threads read.

    Parameters
    ----------
    parts : list of tuple of Segment
        In log order.
    pool
        The threads.
    threads : int
        How many they are: so many parts are read, or wait to be absorbed, at once.
    cancellation : Cancellation
        Whether to go on.
    progress : Progress
        Is told when a part was read. A question reads a log once or more: a part counts half at
        its first readings, and :meth:`close` tells the rest.
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
        self.left = sum(map(size_of, parts))

    @property
    def copies(self) -> int:
        """How many copies of an aggregate :meth:`take_each` has at once, the whole's included."""
        return min(len(self.parts), self.threads + 1)

    def survey(self, options: ScanOptions, read: ReadSegment) -> SurveyedLog:
        """Read the partition for its state, and what reading it again must know."""
        each = self._each(lambda part: SurveyedLog(part, options, read))
        whole = next(each)
        for found in each:
            whole.absorb(found)
        return whole

    def take(
        self, log: SurveyedLog, columns: Collection[str] | None, consumers: Sequence[Any]
    ) -> None:
        """Let aggregates take the pieces of a surveyed log.

        ``columns``: of ``RecordScan``; None: all.

        Each part's go to copies of them, which they absorb.
        """
        untouched = pickle.dumps(consumers, pickle.HIGHEST_PROTOCOL)
        each = (pickle.loads(untouched) for _ in self.parts)  # one is let go once absorbed
        self.take_each(log, columns, each, consumers)

    def take_each(
        self,
        log: SurveyedLog,
        columns: Collection[str] | None,
        each: Iterable[Sequence[Any]],
        whole: Sequence[Any],
    ) -> None:
        """Have the aggregates of each part take its pieces, and those of the whole absorb them.

        The first part may fill those of the whole itself. ``each`` is asked for the aggregates of a
        part when that is read next.
        """

        def fed(part: SegmentRun, begin: Begin, consumers: Sequence[Any]) -> Sequence[Any]:
            pieces = read_pieces(part, log.options, begin, self.cancellation.read, columns)
            feed(self.cancellation.among(pieces), consumers)
            return consumers

        for found in self._each(fed, log.begins(), each):
            for one, later in zip(whole, found, strict=True):
                if later is not one:
                    one.absorb(later)
            del found, later  # before another part is read

    def _each(self, work: Callable[..., T], *columns: Iterable[Any]) -> Iterator[T]:
        """Do something with each part, as many at once as there are threads; yield in log order."""
        ahead: deque[tuple[SegmentRun, Future[T]]] = deque()
        rows = zip(self.parts, *columns, strict=True)
        while True:
            for part, *row in islice(rows, self.threads - len(ahead)):
                ahead.append((part, self.pool.submit(work, part, *row)))
            if not ahead:
                return
            part, found = ahead.popleft()
            yield found.result()
            del found  # and with it what was absorbed, before another part is read
            self._tell(size_of(part) // 2)

    def _tell(self, size: int) -> None:
        size = min(size, self.left)
        self.left -= size
        self.progress.advance(size)

    def close(self) -> None:
        """Say that all was read."""
        self._tell(self.left)


def size_of(part: Iterable[Segment]) -> int:
    """Return the bytes of some segments' files."""
    return sum(segment.size for segment in part)
