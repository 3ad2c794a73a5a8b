"""Positions in a log that grows: which bytes of its files lie between two log offsets.

The position of a partition is the log offset after the last batch that was read. Compaction moves
batches to other bytes and other files but never renumbers them, so a position survives it. A piece
begins right after the last batch before its first offset. So the bytes of neighbouring pieces
join: nothing is read twice or left out, not even bytes that cannot be read. A batch at the end of
the last segment that is not complete yet waits, and so does what cannot be framed there.
Knows no records. Cost: the headers of the new batches; those of the last segment the first time.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from coterie._core.codec.compression import crc32c
from coterie.base.user_files import open_regular
from coterie.errors import LogError
from coterie.log.batch_headers import V2_BYTES, batch_headers, check_of_ends
from coterie.log.folders import (
    MAP_FROM_BYTES,
    Segment,
    cut_points,
    find_segments,
    read_segment,
    unreadable,
)
from coterie.log.mapped import intact
from coterie.log.topic_id import CREATED_AGAIN, topic_id_of
from coterie.state.parallel_scan import weight
from coterie_spark.replay_job.plan import SPARK_PIECE_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")
Offsets = Mapping[str, int]
"""The next log offset of each partition; the text ``null`` is the unknown partition."""

BASE_OFFSET = np.dtype(">i8")  # the first field of every batch
SEGMENT_OFFSETS = 1 << 31  # a segment's offsets are 32 bits from its base offset, or less
ATTEMPTS = 3  # at a log whose files Kafka renames meanwhile
LEAST_WINDOW = 64 << 10
NO_OFFSET = (1 << 63) - 1  # after every other
LOGGER = logging.getLogger("coterie_spark")


@dataclass(frozen=True)
class StreamPiece:
    """Bytes of a segment that a stream reads: the batches from ``first`` up to ``after``.

    ``check`` is the checksum of the ends of these bytes: a cleaned segment has others.
    """

    segment: Segment
    start: int
    end: int
    first: int
    after: int
    check: int
    number: int = 0


@dataclass(frozen=True)
class Mark:
    """The last known batch of a file: its place, and the offset after it."""

    start: int
    end: int
    after: int
    size: int  # of the file


def key_of(partition: int | None) -> str:
    return "null" if partition is None else str(partition)


def settled(work: Callable[[], T], attempts: int = ATTEMPTS) -> T:
    """Return the result of reading a log, begun again if a file is renamed meanwhile."""
    try:
        return work()
    except LogError as error:
        if attempts == 1 or not is_renamed(error):
            raise
    return settled(work, attempts - 1)


def is_renamed(error: LogError) -> bool:
    """Whether a file of a listing is no longer there."""
    return isinstance(error.__cause__, FileNotFoundError)


def read_range(segment: Segment, start: int, end: int | None = None) -> memoryview:
    """Return a range of a segment's bytes; a file that has been replaced may have fewer."""
    stop = segment.size if end is None else end
    try:
        if segment.compression is not None or stop - start >= MAP_FROM_BYTES:
            size = min(segment.size, os.stat(segment.path).st_size)
            return memoryview(read_segment(replace(segment, size=size)))[start:end]
        with open_regular(segment.path) as file:
            file.seek(start)
            return memoryview(file.read(stop - start))
    except OSError as error:
        raise unreadable(segment.path, error) from error


def headers_from(
    segment: Segment, start: int, max_bytes: int | None = None
) -> tuple[NDArray[Any], bool]:
    """Return the headers of a segment's whole batches from a place on; positions are absolute.

    With ``max_bytes``, at most so many bytes of batches, but one batch at least. The second value
    is whether there are no more.
    """
    window = None if max_bytes is None else max(max_bytes, LEAST_WINDOW)
    while True:
        data = read_range(segment, start, None if window is None else start + window)
        with intact(data):
            headers = batch_headers(data)
        is_end = window is None or len(data) < window
        if is_end or len(headers):
            break
        window *= 2  # type: ignore[operator]
    if max_bytes is not None:
        ends = headers["position"] + headers["size"]
        some = max(int(np.searchsorted(ends, max_bytes, "right")), 1)
        is_end = is_end and some >= len(headers)
        headers = headers[:some]
    headers["position"] += start
    return headers, is_end


def first_offset(segment: Segment) -> int:
    """Return the base offset in a segment's name, or else that of its first batch."""
    if segment.base_offset is not None:
        return segment.base_offset
    headers, _ = headers_from(segment, 0, 1)
    return int(headers["base_offset"][0]) if len(headers) else NO_OFFSET


def places(headers: NDArray[Any], segment: Segment, before: int) -> NDArray[np.int64]:
    """Return the last offset of each batch; a damaged one that cannot be right repeats the last.

    ``before`` is the last offset before these batches.
    """
    last: NDArray[np.int64] = headers["last_offset"].copy()
    base = segment.base_offset
    if base is not None:
        last[(last < base) | (last - base >= SEGMENT_OFFSETS)] = before
    return np.maximum.accumulate(np.maximum(last, before))


@dataclass
class LogPositions:
    """The positions of a log of plain paths. The marks are only a cache."""

    paths: Sequence[str]
    partitions: frozenset[int] | None = None
    marks: dict[str, Mark] = field(default_factory=dict)

    def segments(self) -> dict[str, list[Segment]]:
        """Return the segments of each partition in log order."""
        chosen = self.partitions
        return {
            key_of(number): segments
            for number, segments in find_segments(self.paths).partitions().items()
            if chosen is None or number in chosen
        }

    def segments_of(self, key: str, by_partition: Mapping[str, list[Segment]]) -> list[Segment]:
        """Return the segments of a partition; raise LogError if it is gone."""
        if key not in by_partition:
            raise LogError(
                f"partition {key} is gone from {', '.join(self.paths)}: bring it back, or start"
                " with a new checkpoint"
            )
        return by_partition[key]

    def topic_ids(self, known: Mapping[str, str]) -> dict[str, str]:
        """Return the topic id of each partition that has one.

        Raises
        ------
        LogError
            A partition has another id than the ``known`` one: its offsets are those of another log.
        """
        found = {key: topic_id_of(segments) for key, segments in self.segments().items()}
        for key, topic_id in known.items():
            now = found.get(key)
            if now not in (None, topic_id):
                raise LogError(
                    f"partition {key} in {', '.join(self.paths)}: {CREATED_AGAIN} (topic id"
                    f" {topic_id}, now {now}); start with a new checkpoint and a new output folder"
                )
        return {key: topic_id for key, topic_id in found.items() if topic_id is not None}

    def ends(self, start: Offsets) -> dict[str, int]:
        """Return the offsets after the last whole batch of each partition.

        Raises
        ------
        LogError
            A partition of ``start`` is gone, or ends before its position.
        """
        return settled(lambda: self._ends(start))

    def _ends(self, start: Offsets) -> dict[str, int]:
        by_partition = self.segments()
        for key in start:
            self.segments_of(key, by_partition)
        ends = {key: self._end(found, start.get(key, 0)) for key, found in by_partition.items()}
        return {key: end for key, end in ends.items() if end}

    def _end(self, segments: list[Segment], start: int) -> int:
        end = 0
        for segment in reversed(segments):
            mark = self.mark(segment)
            headers, _ = headers_from(segment, mark.end)
            end = self.put_mark(segment, mark, headers).after
            if end or start >= (segment.base_offset or 0) > 0:
                break  # an empty segment begins at the end of the log
        known = max(end, segments[-1].base_offset or 0)
        if known < start:
            raise LogError(
                f"{segments[-1].name}: the log ends at offset {known}, but was read up to {start}:"
                " it was truncated, or is another log; start with a new checkpoint"
            )
        return max(end, start)

    def advance(self, start: Offsets, ends: Offsets, max_bytes: int) -> dict[str, int]:
        """Return the offsets after about ``max_bytes``, shared among partitions with new batches.

        Each of these yields one batch at least.
        """
        return settled(lambda: self._advance(start, ends, max_bytes))

    def _advance(self, start: Offsets, ends: Offsets, max_bytes: int) -> dict[str, int]:
        by_partition, new = self.segments(), dict(ends)
        sizes: list[tuple[int, str, int, int]] = []
        for key, end in ends.items():
            if end > start.get(key, 0):
                segments = self.segments_of(key, by_partition)
                index, place = self.locate(segments, start.get(key, 0))
                sizes.append((sum(map(weight, segments[index:])) - place, key, index, place))
        left = max_bytes
        for done, (_, key, index, place) in enumerate(sorted(sizes)):
            share = left // (len(sizes) - done)
            first = start.get(key, 0)
            offset, taken = self._walk(by_partition[key][index:], place, first, share)
            new[key] = min(offset, ends[key])
            left = max(left - taken, 0)
        return new

    def _walk(
        self, segments: list[Segment], place: int, first: int, max_bytes: int
    ) -> tuple[int, int]:
        """Return the offset after at most ``max_bytes`` from a place on, and the bytes.

        ``first`` is the offset of the place. A damaged batch that has no place of its own is not
        the last: a stream would stay before it.
        """
        after, taken = first, 0
        for segment in segments:
            is_end = False
            while not is_end:
                headers, is_end = headers_from(segment, place, max_bytes - taken)
                if len(headers):
                    after = int(places(headers, segment, after - 1)[-1]) + 1
                    end = int(headers["position"][-1] + headers["size"][-1])
                    taken, place = taken + end - place, end
                if after > first and (not is_end or taken >= max_bytes):
                    return after, taken
            place = 0
        return after, taken

    def locate(self, segments: Sequence[Segment], offset: int) -> tuple[int, int]:
        """Return the place after the last batch before an offset: segment and byte."""
        begin = segments[0].base_offset
        bases = [-1 if begin is None else begin, *map(first_offset, segments[1:])]
        index = max((i for i, base in enumerate(bases) if base < offset), default=0)
        segment = segments[index]
        mark = self.mark(segment)
        if mark.after == offset or offset <= bases[0]:
            return index, mark.end if mark.after == offset else 0
        if mark.after > offset:
            mark = Mark(0, 0, 0, segment.size)
        headers, _ = headers_from(segment, mark.end)
        earlier = int(np.searchsorted(places(headers, segment, mark.after - 1), offset))
        return index, self.put_mark(segment, mark, headers[:earlier]).end

    def mark(self, segment: Segment) -> Mark:
        """Return the mark of a file if it still holds; else that of its beginning."""
        known = self.marks.get(segment.path)
        if known is not None and known.size <= segment.size:
            if known.size == segment.size and segment.compression is not None:
                return known
            headers, _ = headers_from(segment, known.start, known.end - known.start)
            # A file that the cleaner has written under this name may have no batch here.
            after = (places(headers[:1], segment, -1)[:1] + 1).tolist()
            if after == [known.after] and headers["size"][0] == known.end - known.start:
                return known
        return Mark(0, 0, 0, segment.size)

    def put_mark(self, segment: Segment, mark: Mark, headers: NDArray[Any]) -> Mark:
        """Move a file's mark to the last of the batches after it."""
        if not len(headers):
            return mark
        last = headers[-1]
        start, after = int(last["position"]), int(places(headers, segment, mark.after - 1)[-1]) + 1
        moved = Mark(start, start + int(last["size"]), after, segment.size)
        self.marks[segment.path] = moved
        return moved

    def pieces(self, start: Offsets, end: Offsets) -> list[StreamPiece]:
        """Return the pieces from one position of the log to another, in log order."""
        found = settled(lambda: list(self._pieces(start, end)))
        return [replace(piece, number=number) for number, piece in enumerate(found)]

    def _pieces(self, start: Offsets, end: Offsets) -> Iterable[StreamPiece]:
        by_partition = self.segments()
        for key, after in end.items():
            first = start.get(key, 0)
            if after > first:
                yield from self.between(self.segments_of(key, by_partition), first, after)

    def between(self, segments: list[Segment], first: int, after: int) -> Iterable[StreamPiece]:
        """Yield the pieces of a partition between two offsets."""
        index, place = self.locate(segments, first)
        last, stop = self.locate(segments, after)
        if first:
            report_missing(segments[index : last + 1], place, first, after)
        for number in range(index, last + 1):
            segment = segments[number]
            begin = first if number == index else first_offset(segment)
            until = after if number == last else first_offset(segments[number + 1])
            end = stop if number == last else None
            for cut, low, high in pieces_of_range(segment, place, end, begin, until):
                yield StreamPiece(segment, *cut, low, high, check_of(segment, *cut))
            place = 0


def pieces_of_range(
    segment: Segment, start: int, end: int | None, first: int, after: int
) -> Iterator[tuple[tuple[int, int], int, int]]:
    """Yield the pieces of a range of a segment: the bytes, and the offsets that bound them."""
    stop = segment.size if end is None else end
    if segment.compression is None and stop - start <= SPARK_PIECE_BYTES:
        if stop > start:
            yield (start, stop), first, after
        return
    data = read_range(segment, start, end)
    with intact(data):
        cuts = (
            cut_points(data, SPARK_PIECE_BYTES) if segment.compression is None else [0, len(data)]
        )
        inner = [int(np.frombuffer(data[cut : cut + 8], BASE_OFFSET)[0]) for cut in cuts[1:-1]]
    bounds = [first, *inner, after]
    for place, (a, b) in enumerate(itertools.pairwise(cuts)):
        if b > a:
            yield (start + a, start + b), bounds[place], bounds[place + 1]


def check_of(segment: Segment, start: int, end: int) -> int:
    """Return the checksum of the ends of a range of a segment's bytes."""
    if segment.compression is not None:
        return check_of_ends(read_range(segment, start, end))
    size = min(V2_BYTES, end - start)
    return crc32c(
        bytes(read_range(segment, start, start + size))
        + bytes(read_range(segment, end - size, end))
    )


def report_missing(segments: list[Segment], place: int, first: int, after: int) -> None:
    """Log the offsets that compaction or retention removed before they were read."""
    expected, missing = first, 0
    for segment in segments:
        headers, _ = headers_from(segment, place)
        headers = headers[(headers["magic"] == 2) & (headers["last_offset"] >= expected)]
        headers = headers[headers["last_offset"] < after]
        if len(headers):
            before = np.concatenate([[expected - 1], headers["last_offset"][:-1]])
            missing += int(np.maximum(headers["base_offset"] - before - 1, 0).sum())
            expected = int(headers["last_offset"][-1]) + 1
        place = 0
    if missing:
        LOGGER.warning(
            "%s: %d of the offsets from %d to %d are gone: the log was compacted before they were"
            " read",
            segments[0].name,
            missing,
            first,
            after - 1,
        )


def bytes_of_piece(
    paths: Sequence[str], piece: StreamPiece
) -> Iterable[tuple[Segment, int, memoryview]]:
    """Yield the bytes of a piece, each with its segment and place; found again if they moved.

    Raises
    ------
    LogError
        They moved again meanwhile.
    """
    try:
        data = read_range(piece.segment, piece.start, piece.end)
    except LogError as error:
        if not is_renamed(error):
            raise
        data = memoryview(b"")
    if len(data) == piece.end - piece.start and check_of_ends(data) == piece.check:
        yield piece.segment, piece.start, data
        return
    number = piece.segment.partition
    log = LogPositions(paths, None if number is None else frozenset({number}))
    key = key_of(number)
    moved = settled(
        lambda: list(log.between(log.segments_of(key, log.segments()), piece.first, piece.after))
    )
    for there in moved:
        data = read_range(there.segment, there.start, there.end)
        if check_of_ends(data) != there.check:
            raise LogError(f"{there.segment.name}: was replaced while it was read; read it again")
        yield there.segment, there.start, data
