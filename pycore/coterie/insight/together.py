"""A large log read by threads of this process, with the answers of one.

A partition that is more than a thread's share of the log is cut into parts, runs of whole segments.
Each reading of it takes the parts at once, and what they found is put together in log order, as
``coterie.insight.parts`` does for other processes. Any other partition is one thread's work, and
some are read ahead of the one whose answer is wanted. Pays as the core reads without the GIL.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, TypeVar

from coterie.insight.facts import PartitionFacts
from coterie.insight.reading import Begin, Reader, ReadSegment, read_pieces
from coterie.insight.tallies import feed
from coterie.log.folders import Log, Segment, find_segments, read_segment
from coterie.replay import crew
from coterie.replay.engine import Progress, Silent
from coterie.state.partial import ScanOptions

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from typing_extensions import Buffer

    from coterie.insight.commits import Commits

PART_BYTES = 1 << 30  # progress is told after it
PART_BYTES_MIN = 64 << 20  # each part meets its keys anew, and is merged
SHARES = 2  # of a log, for each thread: partitions are of different sizes

Part = tuple[Segment, ...]
T = TypeVar("T")


class Going:
    """Whether somebody still wants what threads read; once nobody does, there is no more to it."""

    def __init__(self) -> None:
        self.on = True

    def read(self, segment: Segment) -> Buffer:
        """Return a segment's bytes."""
        return read_segment(segment) if self.on else b""

    def among(self, pieces: Iterable[Commits]) -> Iterator[Commits]:
        """Yield pieces."""
        for records in pieces:
            if not self.on:
                return
            yield records


class Cut:
    """A partition in parts, which threads read.

    Parameters
    ----------
    parts : list of tuple of Segment
        In log order.
    pool
        The threads.
    threads : int
        How many they are: so many parts are read, or wait to be absorbed, at once.
    going : Going
        Whether to go on.
    progress : Progress
        Is told when a part was read. A question reads a log once or more: a part counts half at
        its first readings, and :meth:`close` tells the rest.
    """

    def __init__(
        self, parts: list[Part], pool: Executor, threads: int, going: Going, progress: Progress
    ) -> None:
        self.parts = parts
        self.pool = pool
        self.threads = threads
        self.going = going
        self.progress = progress
        self.left = sum(map(size_of, parts))

    @property
    def copies(self) -> int:
        """How many copies of a tally exist at once in :meth:`take_each`, the whole's among them."""
        return min(len(self.parts), self.threads + 1)

    def survey(self, options: ScanOptions, read: ReadSegment) -> Reader:
        """Read the partition for its state, and what reading it again must know."""
        each = self._each(lambda part: Reader(part, options, read))
        whole = next(each)
        for found in each:
            whole.absorb(found)
        return whole

    def take(self, log: Reader, columns: Collection[str] | None, takers: Sequence[Any]) -> None:
        """Have tallies take the pieces of a log that was surveyed; ``columns`` of ``RecordScan``.

        Each part's go to copies of them, which they absorb.
        """
        untouched = pickle.dumps(takers, pickle.HIGHEST_PROTOCOL)
        each = (pickle.loads(untouched) for _ in self.parts)  # one is let go once absorbed
        self.take_each(log, columns, each, takers)

    def take_each(
        self,
        log: Reader,
        columns: Collection[str] | None,
        each: Iterable[Sequence[Any]],
        whole: Sequence[Any],
    ) -> None:
        """Have the tallies of each part take its pieces, and those of the whole absorb them.

        The first part may fill those of the whole itself. ``each`` is asked for the tallies of a
        part when that is read next.
        """

        def fed(part: Part, begin: Begin, takers: Sequence[Any]) -> Sequence[Any]:
            pieces = read_pieces(part, log.options, begin, self.going.read, columns)
            feed(self.going.among(pieces), takers)
            return takers

        for found in self._each(fed, log.begins(), each):
            for one, later in zip(whole, found, strict=True):
                if later is not one:
                    one.absorb(later)
            del found, later  # before another part is read

    def _each(self, work: Callable[..., T], *columns: Iterable[Any]) -> Iterator[T]:
        """Do something with each part, as many at once as there are threads; yield in log order."""
        ahead: deque[tuple[Part, Future[T]]] = deque()
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


def parts_of(segments: Sequence[Segment], count: int) -> list[Part]:
    """Return at most so many runs of neighbouring segments, about even."""
    sizes = list(map(crew.weight, segments))
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
    work: Callable[[PartitionFacts], T],
    *,
    groups: Collection[str] | None = None,
    at_ms: int | None = None,
    since_ms: int | None = None,
    progress: Progress | None = None,
) -> Generator[T, None, None]:
    """Yield what ``work`` makes of each partition's facts, in order of their number.

    Threads read a large log: ``work`` is called on any of them, and changes nothing but its facts.
    Otherwise as ``coterie.insight.facts.read_facts``. Close it: what it reads ahead goes on until
    then.
    """
    from concurrent.futures import ThreadPoolExecutor

    progress = progress or Silent()
    listing = find_segments(log)
    progress.total(listing.size)
    only = None if groups is None else frozenset(groups)
    whole = sum(map(crew.weight, listing.segments))
    threads = crew.cores() if whole >= 2 * PART_BYTES_MIN else 1
    if threads == 1:
        for number, segments in listing.partitions().items():
            yield work(PartitionFacts(number, segments, only, at_ms, since_ms=since_ms))
            progress.advance(size_of(segments))
        return
    going, pool = Going(), ThreadPoolExecutor(threads)
    ahead: deque[tuple[PartitionFacts, Future[T] | None]] = deque()

    def taken(facts: PartitionFacts, found: Future[T] | None) -> T:
        made = work(facts) if found is None else found.result()
        if facts.cut is None:
            progress.advance(size_of(facts.segments))
        else:
            facts.cut.close()
        return made

    try:
        for number, segments in listing.partitions().items():
            parts = parts_of(segments, part_count(sum(map(crew.weight, segments)), whole, threads))
            facts = PartitionFacts(number, segments, only, at_ms, going.read, since_ms)
            if len(parts) > 1:
                facts.cut = Cut(parts, pool, threads, going, progress)
            if len(ahead) == crew.AHEAD_PER_THREAD * threads:
                yield taken(*ahead.popleft())
            ahead.append((facts, None if facts.cut else pool.submit(work, facts)))
        while ahead:
            yield taken(*ahead.popleft())
    finally:
        going.on = False
        pool.shutdown(cancel_futures=True)
