"""Cut a log into pieces and deal the pieces to tasks. Imports no Spark, opens no file.

The parallelism comes from cutting a partition's log, never from groups, because one busy group can
fill a partition. A *piece* is whole batches of one segment. A *unit* is a run of neighbouring
pieces of one partition, scanned into one partial state. A *task* is a list of units for one worker.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from coterie._core.codec.batch import LogReader
from coterie.log.folders import Segment, cut_points
from coterie.state.parallel_scan import INFLATION

SPARK_PIECE_BYTES = 128 << 20  # a segment of Kafka's default size, 100 MiB, stays whole
SPARK_PIECE_BYTES_MIN = 32 << 20  # below, starting a task costs more than it brings
TASK_BYTES_MIN = 4 << 20
TASK_BYTES = 4 << 30  # a task sends a state for each of its partitions; a lost task is repeated
TASKS_PER_CORE = 3  # so that one slow task does not leave the other cores idle

Cut = tuple[int, int, int]
"""Start and end of a piece in its segment's bytes (end -1: all the rest), and the offset that its
first batch should have (-1: not known)."""

WHOLE: Cut = (0, -1, -1)


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
        """Estimated bytes to scan."""
        if self.end >= 0:
            return self.end - self.start
        size = self.segment.size - self.start
        return size * INFLATION if self.segment.compression else size


Unit = list[Piece]
Task = list[Unit]


def piece_bytes(segments: Iterable[Segment], cores: int) -> int:
    """Return the maximum bytes of a piece, for these segments and cores."""
    total = sum(segment.size for segment in segments)
    return min(max(total // (TASKS_PER_CORE * cores), SPARK_PIECE_BYTES_MIN), SPARK_PIECE_BYTES)


def cut_segment(data: memoryview, max_bytes: int) -> list[Cut]:
    """Cut a segment's bytes at batch boundaries; reads headers, and whole batches at a cut only."""
    points = cut_points(data, max_bytes)
    cuts, expected = [], -1
    for start, end in itertools.pairwise(points):
        cuts.append((start, end, expected))
        expected = _offset_after(data, start, end, expected)
    return cuts or [WHOLE]


def _offset_after(data: memoryview, start: int, end: int, expected: int) -> int:
    """Return the offset after the last readable batch of a piece."""
    points = cut_points(data[start:end], 1)  # every batch of the piece
    for first, last in zip(reversed(points[:-1]), reversed(points[1:]), strict=True):
        batch = next(LogReader(data[start + first : start + last]), None)
        if batch is not None:
            return batch.last_offset + 1
    return expected


def pieces_of(segments: Sequence[Segment], cuts: Mapping[int, Sequence[Cut]]) -> list[Piece]:
    """Return numbered pieces in log order; a segment whose index is not in ``cuts`` stays whole."""
    pieces: list[Piece] = []
    for index, segment in enumerate(segments):
        for start, end, expected in cuts.get(index, [WHOLE]):
            pieces.append(Piece(segment, len(pieces), start, end, expected))
    return pieces


def deal(pieces: Iterable[Piece], cores: int, task_bytes: int | None = None) -> list[Task]:
    """Deal pieces in order to tasks of about the same number of bytes.

    Neighbours of one partition in one task are one unit. A task has at most ``task_bytes``
    (None: ``TASK_BYTES``) and one piece more.
    """
    pieces = list(pieces)
    total = sum(piece.weight for piece in pieces)
    max_bytes = TASK_BYTES if task_bytes is None else task_bytes
    bytes_per_task = min(max(total // (TASKS_PER_CORE * cores), TASK_BYTES_MIN), max_bytes)
    tasks: list[Task] = []
    filled = bytes_per_task
    for piece in pieces:
        if filled >= bytes_per_task:
            tasks.append([])
            filled = 0
        task = tasks[-1]
        if task and task[-1][-1].segment.partition == piece.segment.partition:
            task[-1].append(piece)
        else:
            task.append([piece])
        filled += piece.weight
    return tasks
