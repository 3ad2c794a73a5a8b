"""The time range of a partition's records, which is the default of time options."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from coterie.insight.records.partition_view import PartitionView

NAME = "time_range"
FIELDS = {
    "offsets_partition": "int32",
    "first_timestamp": "timestamp",
    "newest_timestamp": "timestamp",
}


@dataclass(frozen=True)
class Parameters:
    """No parameters."""


def rows(view: PartitionView, parameters: Parameters) -> Iterator[dict[str, Any]]:
    """Yield one row: the first batch's time and the newest record's; None: no time."""
    pieces = view.fold.segments
    first = [piece.first_timestamp for piece in pieces if piece.first_timestamp >= 0]
    newest = [piece.max_timestamp for piece in pieces if piece.max_timestamp >= 0]
    yield {
        "offsets_partition": view.number,
        "first_timestamp": min(first, default=None),
        "newest_timestamp": max(newest, default=None),
    }
