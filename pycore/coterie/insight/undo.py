"""Where a group was: its own committed offsets as of a time, beside the latest ones.

Not what a reset by timestamp gives (that looks for records of the topic), but what the group had
committed. Both states are folds of the same log, so transactions, tombstones and deletions count
as they do for a broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from coterie.insight.facts import PartitionFacts
from coterie.ordering import key_order
from coterie.state.rows import head_rows, pending_by_group, visible_offsets

NAME = "undo"
FIELDS = {
    "group_id": "string",
    "offsets_partition": "int32",
    "topic": "string",
    "partition": "int32",
    "change": "string",  # of CHANGES
    "offset": "int64",  # as of the time; null: there was none
    "latest_offset": "int64",  # as of the end of the log; null: there is none any more
    "difference": "int64",  # what a reset would add to the latest; null without both
    "leader_epoch": "int32",
    "metadata": "string",  # of then; Kafka's tool commits none
    "commit_timestamp": "timestamp",
    "latest_commit_timestamp": "timestamp",
    "pending": "bool",  # an open transaction holds another offset for the partition
    "state": "string",  # of the group at the end of the log; null: it is gone
    "trusted_from": "timestamp",  # before that a compacted log may lack what was current
}
SAME, MOVED, NEW, DELETED = CHANGES = ("same", "moved", "new", "deleted")
Key = tuple[str, str, int]


@dataclass(frozen=True)
class Ask:
    """As of when: epoch ms, by the records' own timestamps."""

    at_ms: int


def rows(facts: PartitionFacts, ask: Ask) -> Iterator[dict[str, Any]]:
    """Yield one row a group, topic and partition that has an offset then or now.

    Groups stand as Java sorts them, then topics, then partitions. ``change`` is ``same``;
    ``moved``; ``new``: the group had none then; ``deleted``: it has none now.
    """
    then = offsets_by_key(facts.fold_at(ask.at_ms))
    latest = offsets_by_key(facts.fold)
    states = {group: head["state"] for group, head in head_rows(facts.fold, ()).items()}
    simple = {group for group, _, _ in latest}
    pending = {
        (group, row["topic"], row["partition"])
        for group, producers in pending_by_group(facts.fold).items()
        for producer in producers
        for row in producer["offsets"]
    }
    for key in sorted({*then, *latest}, key=key_order):
        group, topic, partition = key
        before, now = then.get(key, {}), latest.get(key, {})
        offset, latest_offset = before.get("offset"), now.get("offset")
        yield {
            "group_id": group,
            "offsets_partition": facts.number,
            "topic": topic,
            "partition": partition,
            "change": change_of(offset, latest_offset),
            "offset": offset,
            "latest_offset": latest_offset,
            "difference": difference(offset, latest_offset),
            "leader_epoch": before.get("leader_epoch"),
            "metadata": before.get("metadata"),
            "commit_timestamp": before.get("commit_timestamp"),
            "latest_commit_timestamp": now.get("commit_timestamp"),
            "pending": key in pending,
            "state": states.get(group, "Empty" if group in simple else None),
            "trusted_from": facts.trusted_from_ms,
        }


def change_of(offset: int | None, latest: int | None) -> str:
    """Return how the latest offset differs from the one of then."""
    if offset is None:
        return NEW
    if latest is None:
        return DELETED
    return SAME if offset == latest else MOVED


def difference(offset: int | None, latest: int | None) -> int | None:
    """Return what a reset would add to the latest offset; None without both."""
    return None if offset is None or latest is None else offset - latest


def offsets_by_key(fold: Any) -> dict[Key, dict[str, Any]]:
    """Return the offsets that readers see by (group, topic, partition)."""
    found = {}
    for group, row in visible_offsets(fold):
        assert row is not None  # all are wanted
        found[group, row["topic"], row["partition"]] = row
    return found
