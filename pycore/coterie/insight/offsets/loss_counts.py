"""How many records each partition skipped, and what stands still at the end: for metrics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from coterie.insight.offsets.loss_findings import Losses, Thresholds
from coterie.insight.records.key_index import Key
from coterie.insight.records.partition_view import PartitionView

DEFAULT = Thresholds()
Row = dict[str, Any]


class LossCounts(NamedTuple):
    """What the metrics of one partition of the offsets topic need.

    Attributes
    ----------
    skipped : dict
        Key -> the number of records that it skipped.
    stalled : dict
        Key -> since when it stands still (epoch ms).
    open_since : dict
        Group -> the times since when transactions hold offsets of it (epoch ms; None: unknown), one
        for each transaction.
    """

    skipped: dict[Key, int]
    stalled: dict[Key, int]
    open_since: dict[str, list[int | None]]

    def fields_of(self, group: str, rows: list[Row]) -> Row:
        """Return the fields of a group's row; ``rows``: of its partitions, which are filled in."""
        for row in rows:
            key = group, row["topic"], row["partition"]
            row["skipped"] = self.skipped.get(key, 0)
            row["stalled_since"] = self.stalled.get(key)
        since = self.open_since.get(group, [])
        return {
            "skipped": sum(row["skipped"] for row in rows),
            "stalled": sum(row["stalled_since"] is not None for row in rows),
            "stalled_since": earliest(row["stalled_since"] for row in rows),
            "open_transactions": len(since),
            "open_since": earliest(since),
        }


def loss_counts(view: PartitionView, losses: Losses) -> LossCounts:
    """Return the counts of a partition; ``losses`` must be filled."""
    skipped: dict[Key, int] = {}
    stalled: dict[Key, int] = {}
    for row in losses.skip_rows(view):
        if view.is_requested(row["timestamp"], row["log_offset"]):
            key = row["group_id"], row["topic"], row["partition"]
            skipped[key] = skipped.get(key, 0) + row["moved"]
    for stall, _ in losses.owned_stalls(view):
        if stall.until_ms is None:
            stalled[stall.key] = stall.since_ms
    open_since: dict[str, list[int | None]] = {}
    for transaction in losses.open_transactions():
        since_ms = None if transaction.since_ms < 0 else transaction.since_ms
        open_since.setdefault(transaction.group, []).append(since_ms)
    return LossCounts(skipped, stalled, open_since)


def earliest(times: Iterable[int | None]) -> int | None:
    """Return the first of the times that are known."""
    return min((ms for ms in times if ms is not None), default=None)
