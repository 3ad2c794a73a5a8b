"""Where the times of a log go back, and what a time such as that of ``--at`` means there.

Records have the time of the broker that wrote them. It goes back if a broker's clock was set back,
or by a little if the partition gets a leader whose clock is behind. What was written between a step
back and the first batch that makes up for it has no time of its own that can be trusted: it counts
as written at the time of that batch. So a time of a request means a place in the log.
Rules: docs/log.md#times-that-go-back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coterie._core.fold.record_scan import RecordScan
from coterie.base.times import format_duration, format_time
from coterie.log.folders import Segment, read_segment
from coterie.log.joined import STEP_BITS
from coterie.log.mapped import intact

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from coterie._core.fold.fold_state import Scanned

ORDINARY_MS = 1_000  # the clocks of two brokers differ by less
TIMES_PIECE_BYTES = 4 << 20
Array = np.ndarray[Any, Any]


class ClockStep(NamedTuple):
    """A batch whose time is earlier than that of the batch before it; times in epoch ms."""

    file: str
    position: int
    log_offset: int
    before_ms: int
    after_ms: int

    @property
    def by_ms(self) -> int:
        return self.before_ms - self.after_ms

    def in_words(self) -> str:
        span = f"from {format_time(self.before_ms)} to {format_time(self.after_ms)}"
        return f"the time goes back by {format_duration(self.by_ms)}, {span}"


class BatchTimes(NamedTuple):
    """The batches of a piece of a file: times (-1: none), log offsets and positions.

    ``ends`` are the offsets after the batches' records, ``records`` their numbers.
    """

    file: str
    times: Array
    log_offsets: Array
    ends: Array
    positions: Array
    records: Array


class ClockSteps:
    """Finds the steps back of at least ``least_ms``, piece by piece."""

    COLUMNS: frozenset[str] = frozenset()

    def __init__(self, least_ms: int = ORDINARY_MS) -> None:
        self.least_ms = least_ms
        self.steps: list[ClockStep] = []
        self.last_ms = -1  # of the last batch with a time
        self.partition = 0  # of a joined log: times of different partitions are not compared

    def take_batches(self, batches: BatchTimes) -> None:
        known = np.flatnonzero(batches.times >= 0)
        if not len(known):
            return
        times = batches.times[known]
        partition = int(batches.log_offsets[known[0]]) >> STEP_BITS
        if partition != self.partition:
            self.partition, self.last_ms = partition, -1
        before = np.append(self.last_ms, times[:-1])
        for at in np.flatnonzero(before - times >= self.least_ms).tolist():
            self.steps.append(_step(batches, known[at], int(before[at])))
        self.last_ms = int(times[-1])

    def read(
        self, segments: Iterable[Segment], read: Callable[[Segment], Buffer] = read_segment
    ) -> None:
        for batches in batch_times(segments, read):
            self.take_batches(batches)

    def take(self, records: Any) -> None:
        """Take the next piece of a log: columns with ``batches``."""
        self.take_batches(times_of(records.files[records.file_number], records.batches))


def _step(batches: BatchTimes, at: int, before_ms: int) -> ClockStep:
    log_offset, position = int(batches.log_offsets[at]), int(batches.positions[at])
    return ClockStep(batches.file, position, log_offset, before_ms, int(batches.times[at]))


def times_of(file: str, batches: Array) -> BatchTimes:
    """Return the times of a piece's batches, as ``RecordScan.scan`` returns them."""
    times = np.maximum(batches["first_ms"], batches["until_ms"])
    offsets = batches["first_offset"]
    records = batches["records"]
    ends = offsets + np.maximum(records, 1)
    return BatchTimes(file, times, offsets, ends, batches["position"], records)


def batch_times(
    segments: Iterable[Segment],
    read: Callable[[Segment], Buffer] = read_segment,
    begin: tuple[str, int] | None = None,
) -> Iterator[BatchTimes]:
    """Yield the times of all batches of a partition; ``begin``: a file and a position in it."""
    scan = RecordScan(groups=frozenset(), columns=(), check_crc=False)
    for segment in segments:
        at = 0
        if begin is not None:
            if segment.name != begin[0]:
                continue
            at, begin = begin[1], None
        data = memoryview(read(segment))
        while at < len(data):
            with intact(data):
                piece, at = scan.scan(data, position=at, max_bytes=TIMES_PIECE_BYTES)
            yield times_of(segment.name, piece["batches"])


class Cut(NamedTuple):
    """The end of a log as of a time.

    Attributes
    ----------
    file, position
        Where the first batch that is left out begins.
    log_offset : int
        That batch.
    at_ms : int
        The time.
    left_out : int
        The number of batches from there on whose own time is not after ``at_ms``.
    """

    file: str
    position: int
    log_offset: int
    at_ms: int
    left_out: int


class Begin(NamedTuple):
    """Where a log is since a time: at a batch.

    Records before ``log_offset`` precede it. Of those before ``next_offset``, their own times
    decide. All later ones follow it, also the ``earlier`` batches whose own time is earlier than
    ``since_ms``.
    """

    log_offset: int
    next_offset: int
    since_ms: int
    earlier: int


class _Seeker:
    """Looks for the first batch later than a time, and for the step back before it.

    Attributes
    ----------
    latest_ms : int
        The latest time so far.
    stretch : tuple or None
        The first batch after a step back from ``latest_ms``: file, position and offset.
    in_stretch : int
        The number of batches with a time since then.
    crossing : tuple or None
        The first batch later than the time: file, position, offset, offset after it.
    """

    def __init__(self, at_ms: int, latest_ms: int) -> None:
        self.at_ms = at_ms
        self.latest_ms = latest_ms
        self.stretch: tuple[str, int, int] | None = None
        self.in_stretch = 0
        self.crossing: tuple[str, int, int, int] | None = None

    def take(self, batches: BatchTimes) -> int:
        """Take the next batches; return how many of them precede the crossing."""
        times = batches.times
        after = np.flatnonzero(times > self.at_ms)
        stop = int(after[0]) if len(after) else len(times)
        known = np.flatnonzero(times[:stop] >= 0)
        reached = np.maximum.accumulate(np.append(self.latest_ms, times[known]))
        highs = np.flatnonzero(times[known] >= reached[:-1])
        behind = known[int(highs[-1]) + 1 :] if len(highs) else known
        if len(highs):
            self.stretch, self.in_stretch = None, 0
        self.in_stretch += len(behind)
        if len(behind) and self.stretch is None:
            self.stretch = self._place(batches, int(behind[0]))
        self.latest_ms = int(reached[-1])
        if len(after):
            end = int(batches.ends[stop])
            self.crossing = (*self._place(batches, stop), end)
        return stop

    @staticmethod
    def _place(batches: BatchTimes, at: int) -> tuple[str, int, int]:
        return batches.file, int(batches.positions[at]), int(batches.log_offsets[at])


def cut_at(
    segments: Sequence[Segment],
    scanned: Iterable[Scanned] | None,
    at_ms: int,
    read: Callable[[Segment], Buffer] = read_segment,
) -> Cut | None:
    """Return where a log ends as of a time; None: its order and its times agree on that.

    It ends before the first later batch, or before the step back that this batch makes up for.
    ``scanned``: ``PartitionFold.segments`` of these segments; None: not known. The log is read from
    the pieces on that hold the place.
    """
    begin = _begin(segments, scanned, at_ms)
    if begin is None:
        return None
    seeker = _Seeker(at_ms, begin[1])
    end: tuple[str, int, int] | None = None
    left_out = 0
    for batches in batch_times(segments, read, begin[0]):
        start = 0
        if seeker.crossing is None:
            start = seeker.take(batches)
            if seeker.crossing is None:
                continue
            end, left_out = seeker.stretch, seeker.in_stretch
            start += end is None  # the records of the first later batch go by their own times
        times = batches.times[start:]
        if end is None and len(times):
            end = batches.file, int(batches.positions[start]), int(batches.log_offsets[start])
        left_out += int(((times >= 0) & (times <= at_ms)).sum())
    if end is None or (seeker.stretch is None and not left_out):
        return None
    return Cut(*end, at_ms, left_out)


def begin_of(
    segments: Sequence[Segment],
    scanned: Iterable[Scanned] | None,
    since_ms: int,
    read: Callable[[Segment], Buffer] = read_segment,
) -> Begin | None:
    """Return where a log is since a time; None: all of it is earlier.

    It begins with the first batch that is not earlier, or with the step back that this batch makes
    up for. ``scanned``: as for :func:`cut_at`. The log is read from the pieces on that hold the
    place.
    """
    begin = _begin(segments, scanned, since_ms - 1)
    if begin is None:
        return None
    seeker = _Seeker(since_ms - 1, begin[1])
    place: tuple[int, int] | None = None
    earlier = 0
    for batches in batch_times(segments, read, begin[0]):
        times = batches.times
        if seeker.crossing is None:
            times = times[seeker.take(batches) :]
            if seeker.crossing is None:
                continue
            earlier = seeker.in_stretch
            place = seeker.crossing[2:]
            if seeker.stretch is not None:
                place = seeker.stretch[2], seeker.stretch[2]
        earlier += int(((times >= 0) & (times < since_ms)).sum())
    return None if place is None else Begin(*place, since_ms, earlier)


def _begin(
    segments: Sequence[Segment], scanned: Iterable[Scanned] | None, at_ms: int
) -> tuple[tuple[str, int], int] | None:
    """Return where to look for the first batch later than a time, and the latest time before.

    That is the last piece before it with a new latest time. None: no batch is later.
    """
    if scanned is None:
        return ((segments[0].name, 0), -1) if segments else None
    latest = latest_before = -1
    place: tuple[str, int] | None = None
    for piece in scanned:
        is_later = piece.max_timestamp > at_ms
        if place is None or (piece.max_timestamp >= latest and not is_later):
            place, latest_before = (piece.file, piece.position), latest
        if is_later:
            return place, latest_before
        latest = max(latest, piece.max_timestamp)
    return None
