"""How far back a log can be trusted: compaction forgets what was superseded.

Only segments before the last one of a partition are ever cleaned, and whatever is taken out of
them leaves a gap in the offsets (spec: log format, section 9). What superseded it lies in a
cleaned segment too. So a state is whole from the time on at which the last segment begins; before
that it may lack commits that were current then. Source: LogCleaner, LogCleanerManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

PIECE_FIELDS = (
    *("file", "position", "bytes", "batches", "records", "first_offset", "last_offset"),
    *("max_timestamp", "gap", "first_timestamp"),
)


class Piece(NamedTuple):
    """What a fold says of a piece it scanned; times are ms, -1: none.

    ``gap``: within it, offsets are missing. ``first_timestamp``: of its first batch.
    """

    file: str
    position: int
    bytes: int
    batches: int
    records: int
    first_offset: int
    last_offset: int
    max_timestamp: int
    gap: bool
    first_timestamp: int


def pieces_of(segments: Iterable[Sequence[Any]]) -> list[Piece]:
    """Name the fields of ``PartitionFold.segments``."""
    return [Piece(*segment) for segment in segments]


def trusted_from(segments: Iterable[Sequence[Any]]) -> int | None:
    """Return the time (epoch ms) from which a partition's state is whole; None: from its start.

    Parameters
    ----------
    segments
        ``PartitionFold.segments`` of one partition, in log order.
    """
    pieces = pieces_of(segments)
    full = [piece for piece in pieces if piece.batches]
    if not full:
        return None
    active = pieces[-1].file
    expected, missing, missing_in_active = 0, False, False
    for piece in full:
        if piece.first_offset > expected:
            missing = True
            missing_in_active |= piece.file == active and piece.position > 0
        missing |= piece.gap
        missing_in_active |= piece.gap and piece.file == active
        expected = max(expected, piece.last_offset + 1)
    if not missing:
        return None
    if missing_in_active:  # then it was not the active one when the log was cleaned
        return max(piece.max_timestamp for piece in full)
    earlier = [piece.max_timestamp for piece in full if piece.file != active]
    first = [piece.first_timestamp for piece in full if piece.file == active][:1]
    return max(earlier + first)
