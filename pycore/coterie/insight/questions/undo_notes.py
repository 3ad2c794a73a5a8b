"""What happened to a group's offsets since the time to go back to: removals, and new topics.

The reason of a removal is inferred from the records:

- It expired if its rule says so (``expire.expiry_of``).
- A member subscribed to the topic: then the offset neither expires nor can be deleted, so the topic
  was deleted (OffsetMetadataManager.deleteOffsets, GroupCoordinator.handleDeleteOffsets).
- Several of the requested groups lost offsets of the topic at the same moment: the same.
- Else a tool or a client deleted it, or the topic was deleted: the records do not show which.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from coterie._core.fold.producers import Committed
from coterie.insight.offsets.key_removals import KeyRemoval, KeyRemovals
from coterie.insight.questions import expire
from coterie.insight.records.key_index import Key
from coterie.insight.records.partition_view import PartitionView
from coterie.times import format_time

EXPIRED, TOPIC_DELETED, DELETED, UNKNOWN = REASONS = (
    *("expired", "topic_deleted", "deleted", "unknown"),
)
CREATED_AGAIN = "the topic was created again"
MOMENT_MS = 1_000  # the most time between the tombstones that a deleted topic leaves
IN_WORDS = {
    EXPIRED: "expired",
    TOPIC_DELETED: "the topic was deleted",
    DELETED: "deleted by a tool or a client, or with the topic",
    UNKNOWN: "the log has lost the commit, so the reason is not known",
}


class Removed(NamedTuple):
    """The first removal of an offset since the time to go back to.

    ``again``: how many more there were. ``resumed``: the offset was committed again.
    """

    at_ms: int
    reason: str
    again: int
    resumed: bool


def removed_since(
    view: PartitionView, removals: KeyRemovals, at_ms: int, retention_ms: int
) -> dict[Key, Removed]:
    """Return the first removal of each key after a time (epoch ms), with its reason."""
    rows = [
        (row, ms) for row in removals.rows() if (ms := row.removed_ms) is not None and ms > at_ms
    ]
    groups = groups_by_moment(rows)
    first: dict[Key, Removed] = {}
    for row, removed_ms in rows:
        if row.key in first:
            first[row.key] = first[row.key]._replace(again=first[row.key].again + 1)
            continue
        reason = reason_of(view, row, removed_ms, retention_ms)
        if reason == DELETED and len(groups_near(groups, row.key[1], removed_ms)) > 1:
            reason = TOPIC_DELETED
        first[row.key] = Removed(removed_ms, reason, 0, row.resumed is not None)
    return first


def reason_of(view: PartitionView, removal: KeyRemoval, removed_ms: int, retention_ms: int) -> str:
    """Return why an offset was removed, by its group's records alone."""
    group, topic, partition = removal.key
    head = expire.head_before(view, group, removal.tombstone.log_offset)
    offset = {
        "topic": topic,
        "partition": partition,
        "commit_timestamp": removal.commit_ms,
        "expire_timestamp": None,
    }
    rule, base_ms, retained = expire.expiry_of(head, offset)
    if rule == UNKNOWN:
        return UNKNOWN
    if retained:
        return TOPIC_DELETED if rule == "subscribed" else DELETED
    return EXPIRED if removed_ms >= base_ms + retention_ms else DELETED


def groups_by_moment(rows: Iterable[tuple[KeyRemoval, int]]) -> dict[tuple[str, int], set[str]]:
    """Return the groups that lost offsets of a topic, by topic and second."""
    groups: dict[tuple[str, int], set[str]] = {}
    for row, removed_ms in rows:
        group, topic, _ = row.key
        groups.setdefault((topic, removed_ms // MOMENT_MS), set()).add(group)
    return groups


def groups_near(groups: dict[tuple[str, int], set[str]], topic: str, at_ms: int) -> set[str]:
    """Return the groups that lost offsets of a topic at about a time."""
    before = at_ms // MOMENT_MS - 1
    near = (groups.get((topic, second), set()) for second in range(before, before + 3))
    return set().union(*near)


def note(
    removed: Removed | None,
    then: Committed | None,
    latest: Committed | None,
    *,
    has_new_id: bool = False,
) -> str | None:
    """Return what to know before the offset of then is restored; None: nothing.

    ``has_new_id``: the latest commit has another topic id than the one of then. A later record has
    no lower leader epoch, unless the topic is another one.
    """
    parts = []
    if removed is not None:
        more = f", and {removed.again} more times" if removed.again else ""
        parts.append(f"removed at {format_time(removed.at_ms)}{more}: {IN_WORDS[removed.reason]}")
    if has_new_id:
        parts.append("the topic id changed")
    is_new = has_new_id
    is_new |= removed is not None and removed.reason == TOPIC_DELETED and removed.resumed
    if then is not None and latest is not None and latest.offset >= then.offset:
        old, new = then.leader_epoch, latest.leader_epoch
        if 0 <= new < old:
            parts.append(f"the leader epoch went back from {old} to {new}")
            is_new = True
    if is_new and then is not None:
        parts.append(f"{CREATED_AGAIN}, and offset {then.offset} is of the old one")
    return "; ".join(parts) or None
