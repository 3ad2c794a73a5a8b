"""Pieces of segments, as ``PartitionFold.segments`` has them, joined again."""

from __future__ import annotations

from collections.abc import Iterable

from coterie._core.fold.fold_state import Scanned


def join_pieces(pieces: Iterable[Scanned]) -> list[Scanned]:
    """Return ``PartitionFold.segments`` with neighbouring pieces of one file as one."""
    joined: list[Scanned] = []
    for piece in pieces:
        before = joined[-1] if joined else None
        if before and (before.file, before.position + before.bytes) == (piece.file, piece.position):
            joined[-1] = _join(before, piece)
        else:
            joined.append(piece)
    return joined


def _join(before: Scanned, piece: Scanned) -> Scanned:
    first = before if before.batches else piece  # a piece without a batch has no offsets and times
    has_both = before.batches and piece.batches
    misses = has_both and piece.first_offset > before.last_offset + 1
    return Scanned(
        file=before.file,
        position=before.position,
        bytes=before.bytes + piece.bytes,
        batches=before.batches + piece.batches,
        records=before.records + piece.records,
        first_offset=first.first_offset,
        last_offset=max(before.last_offset, piece.last_offset),
        max_timestamp=max(before.max_timestamp, piece.max_timestamp),
        gap=before.gap or piece.gap or bool(misses),
        first_timestamp=first.first_timestamp,
    )
