"""The newest records of each group in a partition: the age of a group that is in several."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from coterie.insight.records.partition_view import PartitionView
from coterie.state.several_partitions import newest_ms

NAME = "newest_commits"
FIELDS = {"group_id": "string", "commit_ms": "int64", "metadata_ms": "int64"}


@dataclass(frozen=True)
class Parameters:
    """No parameters."""


def rows(view: PartitionView, parameters: Parameters) -> Iterator[dict[str, Any]]:
    """Yield one row for each group: the fields of ``Times``."""
    for group, times in newest_ms(view.fold).items():
        yield {"group_id": group, **times._asdict()}
