"""How a log is cut into pieces and the pieces are dealt to tasks. Knows no Spark, opens no file.

The parallelism comes from cutting a partition's log, never from groups: one busy group can fill a
partition. A *piece* is whole batches of one segment; a *unit* is a run of neighbouring pieces of
one partition, scanned into one partial state; a *task* is what one worker does in one go.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from coterie._core.codec.reader import LogReader
from coterie.log.folders import Segment, cut_points
from coterie.replay.parallel_scan import INFLATION

SPARK_PIECE_BYTES = 128 << 20  # a segment of Kafka's default size, 100 MiB, stays whole
SPARK_PIECE_BYTES_MIN = 32 << 20  # below, starting a task costs more than it brings
TASK_BYTES_MIN = 4 << 20
TASK_BYTES = 4 << 30  # each task ships a state for each of its partitions; a lost one is done again
TASKS_PER_CORE = 3  # so that one slow task does not leave the other cores idle

Cut = tuple[int, int, int]
"""Start and end of a piece in its segment's bytes (end -1: all the rest), and the offset that its
first batch should have (-1: not known)."""

WHOLE: Cut = (0, -1, -1)
_WORD = 0xFFFFFFFF


@dataclass(frozen=True)
class Piece:
    """Whole batches of a segment: ``number`` is its place in its partition's log."""

    segment: Segment
    number: int
    start: int
    end: int
    expected_offset: int

    @property
    def weight(self) -> int:
        """Bytes to look at, as far as can be told beforehand."""
        if self.end >= 0:
            return self.end - self.start
        size = self.segment.size - self.start
        return size * INFLATION if self.segment.compression else size


Unit = list[Piece]
Task = list[Unit]


def piece_bytes(segments: Iterable[Segment], cores: int) -> int:
    """Return how many bytes a piece should have at most, for these segments on so many cores."""
    total = sum(segment.size for segment in segments)
    return min(max(total // (TASKS_PER_CORE * cores), SPARK_PIECE_BYTES_MIN), SPARK_PIECE_BYTES)


def cut_segment(data: memoryview, max_bytes: int) -> list[Cut]:
    """Cut a segment's bytes at batch boundaries. Only headers are read, but for those at a cut."""
    points = cut_points(data, max_bytes)
    cuts, expected = [], -1
    for start, end in itertools.pairwise(points):
        cuts.append((start, end, expected))
        expected = _offset_after(data, start, end, expected)
    return cuts or [WHOLE]


def _offset_after(data: memoryview, start: int, end: int, expected: int) -> int:
    """Return the offset that follows the last batch of a piece that can be read."""
    points = cut_points(data[start:end], 1)  # every batch of the piece
    for first, last in zip(reversed(points[:-1]), reversed(points[1:]), strict=True):
        batch = next(LogReader(data[start + first : start + last]), None)
        if batch is not None:
            return batch.last_offset + 1
    return expected


def pieces_of(segments: Sequence[Segment], cuts: Mapping[int, Sequence[Cut]]) -> list[Piece]:
    """Return numbered pieces in log order; ``cuts`` by index of the segment, else it is whole."""
    pieces: list[Piece] = []
    for index, segment in enumerate(segments):
        for start, end, expected in cuts.get(index, [WHOLE]):
            pieces.append(Piece(segment, len(pieces), start, end, expected))
    return pieces


def deal(pieces: Iterable[Piece], cores: int, task_bytes: int | None = None) -> list[Task]:
    """Deal pieces, in their order, to tasks of about the same number of bytes.

    Neighbours of one partition that fall to one task are one unit. A task has ``task_bytes`` and
    a piece at most (None: ``TASK_BYTES``).
    """
    pieces = list(pieces)
    total = sum(piece.weight for piece in pieces)
    most = TASK_BYTES if task_bytes is None else task_bytes
    wanted = min(max(total // (TASKS_PER_CORE * cores), TASK_BYTES_MIN), most)
    tasks: list[Task] = []
    filled = wanted
    for piece in pieces:
        if filled >= wanted:
            tasks.append([])
            filled = 0
        task = tasks[-1]
        if task and task[-1][-1].segment.partition == piece.segment.partition:
            task[-1].append(piece)
        else:
            task.append([piece])
        filled += piece.weight
    return tasks


def salts(tasks: int) -> list[int]:
    """Return for each task an integer that Spark's partitioning by hash sends to it.

    So each row goes where it should: a hash of the rows' own numbers puts two partitions of the
    topic into one task, and none into another.
    """
    found: dict[int, int] = {}
    for value in itertools.count():
        found.setdefault(spark_hash(value) % tasks, value)
        if len(found) == tasks:
            return [found[task] for task in range(tasks)]
    raise AssertionError


def spark_hash(value: int) -> int:
    """Return Spark's hash of an int, as its partitioning takes it.

    Source: Murmur3_x86_32.hashInt with the seed 42 of HashPartitioning.
    """
    mixed = _rotated(value * 0xCC9E2D51, 15) * 0x1B873593
    found = _rotated(42 ^ mixed, 13) * 5 + 0xE6546B64
    found = (found & _WORD) ^ 4  # bytes of an int
    found = ((found ^ found >> 16) * 0x85EBCA6B) & _WORD
    found = ((found ^ found >> 13) * 0xC2B2AE35) & _WORD
    found ^= found >> 16
    return found - (1 << 32) if found >> 31 else found


def _rotated(value: int, bits: int) -> int:
    value &= _WORD
    return (value << bits | value >> (32 - bits)) & _WORD
