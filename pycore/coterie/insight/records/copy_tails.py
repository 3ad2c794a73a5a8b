"""What a copy has after the common history, by group: commits, generations, when.

Commits of transactions count whether or not they were committed. Costs as much as a replay of the
records; the groups are in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie._core.codec.schema import read_group_value
from coterie._core.fold.columns import KIND_NAMES, decode_columns
from coterie.base.ordering import java_order
from coterie.errors import CorruptData
from coterie.insight.records.common_prefix import COMPARED_BYTES
from coterie.insight.records.partition_copy import PartitionCopy

if TYPE_CHECKING:
    from numpy.typing import NDArray

OFFSET, GROUP = KIND_NAMES.index("offset"), KIND_NAMES.index("group")
NO_TIME = -1
Row = dict[str, Any]
GROUP_FIELDS: dict[str, Any] = {
    "group_id": "string",
    "records": "int64",
    "commits": "int64",
    "generations": ["int32"],
    "first_time": "timestamp",
    "last_time": "timestamp",
}


@dataclass
class GroupTail:
    records: int = 0
    commits: int = 0
    generations: set[int] = field(default_factory=set)
    first_ms: int | None = None
    last_ms: int | None = None

    def add_times(self, timestamps: NDArray[np.int64]) -> None:
        """Extend the span of time by records; one without a time does not count."""
        timed = timestamps[timestamps != NO_TIME]
        if len(timed):
            first_ms, last_ms = int(timed.min()), int(timed.max())
            self.first_ms = first_ms if self.first_ms is None else min(self.first_ms, first_ms)
            self.last_ms = last_ms if self.last_ms is None else max(self.last_ms, last_ms)

    def row(self, group_id: str) -> Row:
        """Return the row with ``GROUP_FIELDS``."""
        return {
            "group_id": group_id,
            "records": self.records,
            "commits": self.commits,
            "generations": sorted(self.generations),
            "first_time": self.first_ms,
            "last_time": self.last_ms,
        }


@dataclass
class Tail:
    """The records from an offset on; those of groups in order of their names."""

    records: int
    first_epoch: int | None
    groups: list[Row]

    @property
    def commits(self) -> int:
        return sum(int(group["commits"]) for group in self.groups)

    @property
    def generations(self) -> int:
        return sum(len(group["generations"]) for group in self.groups)


def tail_of(copy: PartitionCopy, begin: int) -> Tail:
    """Read the records of a copy from the offset ``begin`` on."""
    groups: dict[str, GroupTail] = {}
    records, first_epoch = 0, None
    for headers in copy.pieces_from(begin, COMPARED_BYTES):
        records += _add(groups, decode_columns(copy.joined(headers), raw=True), begin)
        if first_epoch is None and len(headers):
            first_epoch = int(headers["leader_epoch"][0])
    rows = [groups[group_id].row(group_id) for group_id in sorted(groups, key=java_order)]
    return Tail(records, first_epoch, rows)


def _add(groups: dict[str, GroupTail], columns: dict[str, Any], begin: int) -> int:
    """Add the records of a piece to the groups; return their number."""
    chosen = columns["log_offset"] >= begin
    group, kind = columns["group"][chosen], columns["kind"][chosen]
    timestamp = columns["timestamp"][chosen]
    for number in np.unique(group[group >= 0]):
        of_group = group == number
        tail = groups.setdefault(columns["groups"][number], GroupTail())
        tail.records += int(of_group.sum())
        tail.commits += int((kind[of_group] == OFFSET).sum())
        tail.add_times(timestamp[of_group])
    for at in np.flatnonzero(chosen & (columns["kind"] == GROUP)):
        start, size = columns["value_at"][at], columns["value_size"][at]
        try:
            generation = read_group_value(bytes(columns["bytes"][start : start + size])).generation
        except CorruptData:
            continue
        groups[columns["groups"][columns["group"][at]]].generations.add(generation)
    return int(chosen.sum())
