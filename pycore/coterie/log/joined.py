"""Several partitions read as one log: the older first, for groups that have records in each.

Log offsets of partitions overlap. So those of each later partition are read with ``1 << STEP_BITS``
more than those of the one before, and order, gaps and markers are those of one log. ``place_of``
gives the partition and the offset back. Each reading copies a segment.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from coterie.log.trust import trusted_from

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from coterie._core.fold.fold_state import Scanned
    from coterie.log.folders import Segment

STEP_BITS = 50  # a partition that gets a million records a second fills them in 35 years
HEAD = struct.Struct(">qi")  # of a batch: base offset, length of what follows


def order_of(segments: Iterable[Segment]) -> tuple[int | None, ...]:
    """Return the partitions of a log, the oldest first; usually one."""
    return tuple(dict.fromkeys(segment.partition for segment in segments))


def reader_of(
    order: Sequence[int | None], read: Callable[[Segment], Buffer]
) -> Callable[[Segment], Buffer]:
    """Return a function that reads a segment of a joined log."""

    def read_later(segment: Segment) -> Buffer:
        return moved(read(segment), order.index(segment.partition) << STEP_BITS)

    return read if len(order) < 2 else read_later


def moved(data: Buffer, step: int) -> Buffer:
    """Return the batches of a segment with log offsets that are greater by ``step``."""
    if not step:
        return data
    copy, at = bytearray(data), 0
    while at + HEAD.size <= len(copy):
        base_offset, length = HEAD.unpack_from(copy, at)
        if length < 0 or not 0 <= base_offset < step:
            break  # a fault, which is reported when the batch is read
        HEAD.pack_into(copy, at, base_offset + step, length)
        at += HEAD.size + length
    return copy


def place_of(order: Sequence[int | None], log_offset: int) -> tuple[int | None, int]:
    """Return the partition of a record of a joined log, and its offset there (-1: none)."""
    at = 0 if log_offset < 0 else log_offset >> STEP_BITS
    return order[at], log_offset - (at << STEP_BITS)


def trusted_from_each(
    order: Sequence[int | None], segments: Iterable[Segment], scanned: Iterable[Scanned]
) -> int | None:
    """Return the time since which all partitions of a log are complete; None: always.

    ``scanned``: ``PartitionFold.segments`` of these segments.
    """
    if len(order) < 2:
        return trusted_from(scanned)
    partition_of = {segment.name: segment.partition for segment in segments}
    pieces: dict[int | None, list[Scanned]] = {}
    for piece in scanned:
        first, last = (place_of(order, end)[1] for end in (piece.first_offset, piece.last_offset))
        own = pieces.setdefault(partition_of[piece.file], [])
        own.append(piece._replace(first_offset=first, last_offset=last))
    return max(filter(None, map(trusted_from, pieces.values())), default=None)


def in_own_partition(row: dict[str, Any], order: Sequence[int | None]) -> dict[str, Any]:
    """Return a row of a joined log with the log offsets of its records in their own partitions."""
    own = {name: _own(name, value, order) for name, value in row.items()}
    if row.get("log_offset") is not None and "offsets_partition" in row:
        own["offsets_partition"], _ = place_of(order, row["log_offset"])
    return own


def _own(name: str, value: Any, order: Sequence[int | None]) -> Any:
    if isinstance(value, list):
        return [_own(name, part, order) for part in value]
    if isinstance(value, dict):
        return in_own_partition(value, order)
    is_place = name.endswith("log_offset") and value is not None
    return place_of(order, value)[1] if is_place else value
