"""A log folded on several threads: units are scanned ahead, and taken in log order.

A *unit* is a run of neighbouring pieces of one partition. Threads scan units into partial states,
the caller absorbs those in their order, so that every answer is that of one thread. What is
scanned ahead is bounded: a window of units. Pays where the core runs without the GIL: for plain
commits, which nearly all records are.
"""

from __future__ import annotations

import gc
import itertools
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from coterie._core.fold.partial import absorb
from coterie.errors import LogError
from coterie.log.folders import SCAN_PIECE_BYTES, Listing, Segment, cut_points, read_segment
from coterie.state.partial import PartialState, ScanOptions

if TYPE_CHECKING:
    from concurrent.futures import Future

    from typing_extensions import Buffer

    from coterie._core.fold.fold import PartitionFold

UNIT_BYTES = 256 << 20  # two segments of Kafka's default size: each state has to be merged
UNIT_BYTES_MIN = 16 << 20  # below, a thread and a merge cost more than they bring
UNITS_PER_THREAD = 2  # each unit meets its keys anew, and is merged: 8 % of the time at 4
AHEAD_PER_THREAD = 2  # units that are scanned and not yet taken, or being scanned
HISTORY_PIECE_BYTES = 16 << 20  # a piece's commits are held until it is written, 80 bytes each
INFLATION = 8  # of a segment compressed as a file, roughly: only balances units


class Part(NamedTuple):
    """Pieces of a segment that lie together; without ``cuts`` the whole of it, not read yet."""

    segment: Segment
    data: memoryview | None = None
    cuts: Sequence[int] = ()

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.cuts[-1] - self.cuts[0] if self.cuts else self.segment.size

    @property
    def weight(self) -> int:
        """Bytes to look at, as far as can be told beforehand."""
        return self.size * (INFLATION if self.segment.compression else 1)


class Step(NamedTuple):
    """How far a fold is: so many bytes more of a partition's files."""

    partition: int | None
    size: int


def cores() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_for(listing: Listing, options: ScanOptions) -> int:
    """Return on how many threads to fold a log.

    One where each record needs Python objects, and where a unit's commits would be held.
    """
    if options.history or options.groups is not None or listing.size < 2 * UNIT_BYTES_MIN:
        return 1
    return cores()


def fold_log(
    state: PartialState, listing: Listing, threads: int, unit_bytes: int | None = None
) -> Generator[Step, None, None]:
    """Fold a log into ``state`` on so many threads, and yield whenever more of it is there.

    Close it: what it scans ahead goes on until then.
    """
    with resting_collector():
        if threads == 1:
            for segment in listing.segments:
                for _ in scan_part(state.fold(segment.partition), Part(segment)):
                    yield Step(segment.partition, 0)
                yield Step(segment.partition, segment.size)
        else:
            spread = listing.size // (UNITS_PER_THREAD * threads)
            unit_bytes = unit_bytes or min(max(spread, UNIT_BYTES_MIN), UNIT_BYTES)
            yield from _fold_together(state, units_of(listing.segments, unit_bytes), threads)


def _fold_together(
    state: PartialState, units: Iterable[list[Part]], threads: int
) -> Generator[Step, None, None]:
    from concurrent.futures import ThreadPoolExecutor

    ahead: deque[tuple[list[Part], Future[PartitionFold]]] = deque()
    pool = ThreadPoolExecutor(threads)
    going = [True]
    try:
        for unit in units:
            if len(ahead) == AHEAD_PER_THREAD * threads:
                yield take(state, *ahead.popleft())
            ahead.append((unit, pool.submit(scan_unit, unit, state.options, going)))
        while ahead:
            yield take(state, *ahead.popleft())
    finally:
        going.clear()
        pool.shutdown(cancel_futures=True)


@contextmanager
def resting_collector() -> Iterator[None]:
    """Let Python's garbage collector rest.

    A fold makes no cycles, and to walk what it keeps of groups again and again took a tenth of
    the time. What it has made counts as old afterwards: the first collection would walk it all.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            if not gc.get_freeze_count():  # what the caller froze stays frozen
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def take(state: PartialState, unit: list[Part], scanned: Future[PartitionFold]) -> Step:
    """Let the next unit of a partition follow on what is there.

    Raises
    ------
    LogError
        It cannot be read. Nobody asks for a unit behind the end of what counts.
    """
    partition = unit[0].segment.partition
    if partition not in state.partitions:
        state.partitions[partition] = scanned.result()
    elif not has_ended(state.partitions[partition]):
        absorb(state.partitions[partition], scanned.result())
    return Step(partition, sum(part.size for part in unit))


def scan_unit(unit: Sequence[Part], options: ScanOptions, going: Sequence[bool]) -> PartitionFold:
    """Scan a unit into a fold of its own, as long as somebody wants it."""
    fold = options.new_fold()
    for part in unit:
        for _ in scan_part(fold, part):
            if not going:
                return fold
    return fold


def scan_part(
    fold: PartitionFold, part: Part, read: Callable[[Segment], Buffer] = read_segment
) -> Iterator[None]:
    """Let a fold go on with pieces of a segment, and yield after each."""
    if has_ended(fold):
        return
    data, cuts = part.data, part.cuts
    if data is None:
        data = memoryview(read(part.segment))
        cuts = cut_points(data, SCAN_PIECE_BYTES if fold.history is None else HISTORY_PIECE_BYTES)
    for start, end in itertools.pairwise(cuts if len(cuts) > 1 else [0, 0]):
        fold.scan(data[start:end], file=part.segment.name, position=start)
        yield


def has_ended(fold: PartitionFold) -> bool:
    """Whether what follows in the partition does not count."""
    return fold.failed or fold.cut or fold.stopped


def units_of(segments: Iterable[Segment], unit_bytes: int) -> Iterator[list[Part]]:
    """Yield a log's units in their order; a segment is opened only when its turn comes.

    Each partition is cut evenly: a short rest is a state to make and to merge, as a long one is,
    and an odd one keeps all threads but one waiting.
    """
    for _, group in itertools.groupby(segments, lambda segment: segment.partition):
        theirs = list(group)
        total = sum(Part(segment).weight for segment in theirs)
        share = max(1, -(-total // max(1, round(total / unit_bytes))))
        unit: list[Part] = []
        done, end = 0, share
        for segment in theirs:
            for part in parts_of(segment, share, end - done):
                if unit and done + part.weight / 2 > end:  # the cut is nearer than what follows it
                    yield unit
                    unit = []
                    end = max(end, done // share * share) + share
                unit.append(part)
                done += part.weight
        yield unit


def parts_of(segment: Segment, unit_bytes: int, rest_bytes: int) -> Iterator[Part]:
    """Yield a segment whole, or piece by piece where a unit ends inside of it.

    That is where it is larger than a unit, or than the rest of the one that has begun.
    """
    near = SCAN_PIECE_BYTES // 2  # nearer to an end of the segment no piece would be cut off
    is_larger = segment.size > max(unit_bytes, SCAN_PIECE_BYTES)
    if segment.compression is not None or not (
        is_larger or near < rest_bytes < segment.size - near
    ):
        yield Part(segment)
        return
    try:
        data = memoryview(read_segment(segment))
    except LogError:
        yield Part(segment)  # said when its turn comes, if it counts then
        return
    for piece in itertools.pairwise(cut_points(data, SCAN_PIECE_BYTES)):
        yield Part(segment, data, piece)
