"""A log folded on several threads: units are scanned ahead, and taken in log order.

A *unit* is a run of neighbouring segments of one partition, or parts of them. Threads scan units
into partial states, the caller absorbs those in their order, so that every answer is that of one
thread. What is scanned ahead is bounded: a window of units. Pays where the core runs without the
GIL: for plain commits, which nearly all records are.
"""

from __future__ import annotations

import gc
import itertools
import os
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from coterie._core.fold.merge import absorb
from coterie.log.folders import Listing, Segment, cut_points, read_segment
from coterie.state.partial import PartialState, ScanOptions

if TYPE_CHECKING:
    from concurrent.futures import Future

    from typing_extensions import Buffer

    from coterie._core.fold.fold import PartitionFold

UNIT_BYTES = 1 << 30  # each unit meets its keys anew, and is merged; progress is told after it
UNIT_BYTES_MIN = 16 << 20  # below, a thread and a merge cost more than they bring
UNITS_PER_THREAD = 2  # of several partitions, which are seldom cut, and of different sizes
AHEAD_PER_THREAD = 2  # units that are scanned and not yet taken, or being scanned
SCAN_PIECE_BYTES = 128 << 20  # in one go: a segment of Kafka's default size, 100 MiB, is whole
HISTORY_PIECE_BYTES = 16 << 20  # a piece's commits are held until it is written, 80 bytes each
CUT_BYTES = 1 << 20  # so often a shared segment may be cut
CUT_OFF_BYTES_MIN = 16 << 20  # of a segment: less is not worth that two units share it
INFLATION = 8  # of a segment compressed as a file, roughly: only balances units


class Shared:
    """A segment that several units share: kept once a thread has read it and found where to cut."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._lock = threading.Lock()
        self._opened: tuple[memoryview, list[int]] | None = None

    def opened(self, read: Callable[[Segment], Buffer]) -> tuple[memoryview, list[int]]:
        """Return its bytes, and where they may be cut."""
        with self._lock:
            if self._opened is None:
                data = memoryview(read(self._segment))
                self._opened = data, cut_points(data, CUT_BYTES)
        return self._opened


class Part(NamedTuple):
    """A segment; where it is shared, what lies in it from about ``start`` to about ``stop``.

    "About": each is moved back to the nearest place where the segment may be cut. A part that ends
    with the segment, as it was listed, goes on to the end of the file.
    """

    segment: Segment
    start: int
    stop: int
    shared: Shared | None = None

    @property
    def size(self) -> int:
        """Bytes of the file, as it was listed."""
        return self.stop - self.start

    def opened(self, read: Callable[[Segment], Buffer]) -> tuple[memoryview, int, int]:
        """Return the segment's bytes, and where the part begins and ends in them."""
        if self.shared is None:
            data = memoryview(read(self.segment))
            return data, 0, len(data)
        data, cuts = self.shared.opened(read)
        start, stop = (cuts[bisect_right(cuts, place) - 1] for place in (self.start, self.stop))
        return data, start, len(data) if self.stop == self.segment.size else stop


def whole(segment: Segment) -> Part:
    """Return all of a segment."""
    return Part(segment, 0, segment.size)


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
    """Return on how many threads to fold a log: one where a unit's commits would be held."""
    if options.history or listing.size < 2 * UNIT_BYTES_MIN:
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
                for _ in scan_part(state.fold(segment.partition), whole(segment)):
                    yield Step(segment.partition, 0)
                yield Step(segment.partition, segment.size)
        else:
            unit_bytes = unit_bytes or unit_size(listing.segments, threads)
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
    fold: PartitionFold,
    part: Part,
    read: Callable[[Segment], Buffer] = read_segment,
    piece_bytes: int | None = None,
) -> Iterator[None]:
    """Let a fold go on with pieces of a segment, and yield after each."""
    if has_ended(fold):
        return
    data, at, stop = part.opened(read)
    if at == stop > 0:  # nothing lies between two places that were moved back
        return
    if piece_bytes is None:
        piece_bytes = SCAN_PIECE_BYTES if fold.history is None else HISTORY_PIECE_BYTES
    expected = -1
    while True:
        at += fold.scan(
            data[at:stop],
            file=part.segment.name,
            position=at,
            expected_offset=expected,
            max_bytes=piece_bytes,
        )
        yield
        if at >= stop:
            return
        expected = fold.expected_offset


def has_ended(fold: PartitionFold) -> bool:
    """Whether what follows in the partition does not count."""
    return fold.failed or fold.cut or fold.stopped


def unit_size(segments: Sequence[Segment], threads: int) -> int:
    """Return how many bytes a unit should have, so that no thread waits for another at the end.

    A single partition is cut into as many units as there are threads, or a multiple of that, unless
    they were less than ``UNIT_BYTES_MIN``. Smaller units cost CPU time, as each meets its keys anew
    and is merged. For one partition of 1 GB, units of 256 MB cost 12 % more than one thread, and
    units of 500 MB 5 to 7 %.
    """
    total = sum(map(weight, segments))
    alone = len({segment.partition for segment in segments}) == 1
    at_once = threads if alone else UNITS_PER_THREAD * threads
    rounds = max(1, -(-total // (at_once * UNIT_BYTES)))
    return max(-(-total // (at_once * rounds)), UNIT_BYTES_MIN)


def units_of(segments: Iterable[Segment], unit_bytes: int) -> Iterator[list[Part]]:
    """Yield a log's units in their order. No segment is opened for it.

    Each partition is cut evenly: a short rest is a state to make and to merge, as a long one is,
    and an odd one keeps all threads but one waiting.
    """
    for _, group in itertools.groupby(segments, lambda segment: segment.partition):
        theirs = list(group)
        total = sum(map(weight, theirs))
        share = max(1, -(-total // max(1, round(total / unit_bytes))))
        unit: list[Part] = []
        done = 0
        for segment in theirs:
            cuts = cuts_of(segment, share - done % share, share)
            shared = Shared(segment) if any(0 < cut < segment.size for cut in cuts) else None
            start = 0
            for cut in cuts:
                if cut > start:
                    unit.append(Part(segment, start, cut, shared))
                    start = cut
                if unit and done + cut < total:  # empty segments at the end are no unit
                    yield unit
                    unit = []
            if start < segment.size or segment.size == 0:
                unit.append(Part(segment, start, segment.size, shared))
            done += weight(segment)
        if unit:
            yield unit


def cuts_of(segment: Segment, first: int, share: int) -> list[int]:
    """Return where units end in a segment: after ``first`` bytes and every ``share`` further.

    What is compressed as a file is not cut, nor is a short piece cut off: the unit ends at the
    nearer end of the segment.
    """
    size = segment.size
    cuts = []
    for place in range(first, weight(segment) + 1, share):
        if segment.compression is None and CUT_OFF_BYTES_MIN < place < size - CUT_OFF_BYTES_MIN:
            cuts.append(place)
        else:
            cuts.append(0 if place < weight(segment) / 2 else size)
    return sorted({*cuts})


def weight(segment: Segment) -> int:
    """Return the bytes to look at, as far as can be told beforehand."""
    return segment.size * (INFLATION if segment.compression else 1)
