"""The groups that a log has any record of: what a pattern for ``--group`` is matched with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from coterie.insight.records.partition_view import PartitionView

NAME = "group_names"
FIELDS = {"group_id": "string"}


@dataclass(frozen=True)
class Ask:
    """Nothing to choose."""


def rows(view: PartitionView, ask: Ask) -> Iterator[dict[str, Any]]:
    """Yield one row a group, in Java's order of their ids."""
    for group in view.group_ids:
        yield {"group_id": group}
