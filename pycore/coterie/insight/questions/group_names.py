"""The groups with any record in a log: a pattern of ``--group`` is matched against them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from coterie.insight.records.partition_view import PartitionView

NAME = "group_names"
FIELDS = {"group_id": "string"}


@dataclass(frozen=True)
class Parameters:
    """No parameters."""


def aggregates(view: PartitionView, parameters: Parameters) -> dict[str, Any]:
    """Return nothing: the first reading of a part finds its groups."""
    return {}


def rows(view: PartitionView, parameters: Parameters) -> Iterator[dict[str, Any]]:
    """Yield one row for each group, in Java's order of their ids."""
    for group in view.group_ids:
        yield {"group_id": group}
