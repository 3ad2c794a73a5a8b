"""Fold a log on several threads: units are scanned in parallel, and merged in log order.

A *unit* is a run of neighbouring segments of one partition, or parts of them. Threads scan units
into partial states. The caller merges these in log order, so the result equals that of one thread.
The number of units scanned ahead is bounded. Threads help because the core scans plain commits,
which are nearly all records, without the GIL.
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

from coterie._core.fold.fold import absorb
from coterie.log.folders import Listing, Segment, cut_points, read_segment
from coterie.log.mapped import intact
from coterie.state.partial import PartialState, ScanOptions

if TYPE_CHECKING:
    from concurrent.futures import Future

    from typing_extensions import Buffer

    from coterie._core.fold.fold import PartitionFold

UNIT_BYTES = 1 << 30  # each unit finds its keys again, and is merged; progress moves after it
UNIT_BYTES_MIN = 16 << 20  # below, a thread and a merge cost more than they save
UNITS_PER_THREAD = 2  # for several partitions, which have different sizes and are seldom cut
AHEAD_PER_THREAD = 2  # units being scanned, or scanned and not yet merged
SCAN_PIECE_BYTES = 128 << 20  # a segment of Kafka's default size, 100 MiB, is one piece
HISTORY_PIECE_BYTES = 16 << 20  # the commits of a piece are in memory, 80 bytes each
CUT_BYTES = 1 << 20  # distance of the places where a shared segment may be cut
CUT_OFF_BYTES_MIN = 16 << 20  # do not cut off less of a segment
INFLATION = 8  # of a compressed file, roughly: only balances units
MANY_OBJECTS = 100_000  # new ones, which the next collection would visit for milliseconds


class Shared:
    """A segment of several units: read once, by the first thread that needs it."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._lock = threading.Lock()
        self._opened: tuple[memoryview, list[int]] | None = None

    def opened(self, read: Callable[[Segment], Buffer]) -> tuple[memoryview, list[int]]:
        """Return the segment's bytes, and the positions where they may be cut."""
        with self._lock:
            if self._opened is None:
                data = memoryview(read(self._segment))
                with intact(data):
                    self._opened = data, cut_points(data, CUT_BYTES)
        return self._opened


class Part(NamedTuple):
    """A segment, or a part of a shared one from about ``start`` to about ``stop``.

    Both are moved back to the nearest place where the segment may be cut. A part that ends at the
    listed size of the segment includes bytes there that are no batch.
    """

    segment: Segment
    start: int
    stop: int
    shared: Shared | None = None

    @property
    def size(self) -> int:
        return self.stop - self.start

    def opened(self, read: Callable[[Segment], Buffer]) -> tuple[memoryview, int, int]:
        """Return the segment's bytes, and the part's start and end in them."""
        if self.shared is None:
            data = memoryview(read(self.segment))
            return data, 0, len(data)
        data, cuts = self.shared.opened(read)
        start, stop = (cuts[bisect_right(cuts, place) - 1] for place in (self.start, self.stop))
        return data, start, len(data) if self.stop == self.segment.size else stop


class PartTo(Part):
    """A part of a segment that ends exactly at ``stop``, the beginning of a batch."""

    def opened(self, read: Callable[[Segment], Buffer]) -> tuple[memoryview, int, int]:
        """Return the segment's bytes, and the part's start and end in them."""
        return memoryview(read(self.segment)), self.start, self.stop


def whole(segment: Segment) -> Part:
    return Part(segment, 0, segment.size)


class Step(NamedTuple):
    """Progress of a fold: bytes of a partition's files that were scanned since the last step."""

    partition: int | None
    size: int


def cores() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_for(listing: Listing, options: ScanOptions) -> int:
    """Return the number of threads for a log; 1 with history, since commits would fill memory."""
    if options.history or listing.size < 2 * UNIT_BYTES_MIN:
        return 1
    return cores()


def fold_log(
    state: PartialState, listing: Listing, threads: int, unit_bytes: int | None = None
) -> Generator[Step, None, None]:
    """Fold a log into ``state`` on ``threads`` threads; yield after each step.

    Close the generator to stop the scan of later units.
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
    """Pause Python's garbage collector.

    A fold makes no cycles, and collections took a tenth of the time. Many new objects become part
    of the oldest generation, so that the first collection afterwards does not visit them.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            # What the caller has frozen stays so; to count it takes a while if there is any.
            if gc.get_count()[0] >= MANY_OBJECTS and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def take(state: PartialState, unit: list[Part], scanned: Future[PartitionFold]) -> Step:
    """Merge the next unit of a partition into the state.

    Raises
    ------
    LogError
        The unit cannot be read, and the partition has not ended before it.
    """
    partition = unit[0].segment.partition
    if partition not in state.partitions:
        state.partitions[partition] = scanned.result()
    elif not has_ended(state.partitions[partition]):
        absorb(state.partitions[partition], scanned.result())
    return Step(partition, sum(part.size for part in unit))


def scan_unit(unit: Sequence[Part], options: ScanOptions, going: Sequence[bool]) -> PartitionFold:
    """Scan a unit into a new fold; stop early when ``going`` is empty."""
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
    """Scan the pieces of a part into a fold; yield after each."""
    if has_ended(fold):
        return
    data, at, stop = part.opened(read)
    if at == stop > 0:  # both places were moved back to the same cut
        return
    if piece_bytes is None:
        piece_bytes = SCAN_PIECE_BYTES if fold.history is None else HISTORY_PIECE_BYTES
    expected = -1
    while True:
        with intact(data):
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
    """Return whether the rest of the partition does not count."""
    return fold.failed or fold.cut or fold.stopped


def unit_size(segments: Sequence[Segment], threads: int) -> int:
    """Return the size of a unit, in bytes, so that all threads finish at about the same time.

    A single partition is cut into as many units as there are threads, or a multiple of that, but
    not below ``UNIT_BYTES_MIN``. Smaller units cost CPU time, because each finds its keys again
    and is merged. For one partition of 1 GB, units of 256 MB cost 12 % more than one thread, and
    units of 500 MB 5 to 7 %.
    """
    total = sum(map(weight, segments))
    alone = len({segment.partition for segment in segments}) == 1
    at_once = threads if alone else UNITS_PER_THREAD * threads
    rounds = max(1, -(-total // (at_once * UNIT_BYTES)))
    return max(-(-total // (at_once * rounds)), UNIT_BYTES_MIN)


def units_of(segments: Iterable[Segment], unit_bytes: int) -> Iterator[list[Part]]:
    """Yield a log's units in order, without opening a segment.

    Each partition is cut evenly: a short unit costs a state and a merge like a long one, and an
    odd unit leaves only one thread working.
    """
    for _, group in itertools.groupby(segments, lambda segment: segment.partition):
        of_partition = list(group)
        total = sum(map(weight, of_partition))
        share = max(1, -(-total // max(1, round(total / unit_bytes))))
        unit: list[Part] = []
        done = 0
        for segment in of_partition:
            cuts = cuts_of(segment, share - done % share, share)
            shared = Shared(segment) if any(0 < cut < segment.size for cut in cuts) else None
            start = 0
            for cut in cuts:
                if cut > start:
                    unit.append(Part(segment, start, cut, shared))
                    start = cut
                if unit and done + cut < total:  # empty segments at the end make no unit
                    yield unit
                    unit = []
            if start < segment.size or segment.size == 0:
                unit.append(Part(segment, start, segment.size, shared))
            done += weight(segment)
        if unit:
            yield unit


def cuts_of(segment: Segment, first: int, share: int) -> list[int]:
    """Return the ends of units in a segment: after ``first`` bytes, then every ``share`` bytes.

    A compressed file is not cut. The last unit may be longer or shorter than ``share``, so that no
    very short one remains.
    """
    size = segment.size
    cuts = []
    for place in range(first, weight(segment) + 1, share):
        cut_off = min(place, size - place)
        if segment.compression is None and cut_off >= CUT_OFF_BYTES_MIN:
            cuts.append(place)
        else:
            cuts.append(0 if place < weight(segment) / 2 else size)
    return sorted({*cuts})


def weight(segment: Segment) -> int:
    """Return the estimated number of bytes to scan."""
    return segment.size * (INFLATION if segment.compression else 1)
