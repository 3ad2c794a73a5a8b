"""What happened to a group's offsets since the time to go back to: removals, and new topics.

The reason of a removal is inferred from the records (``coterie.insight.offsets.removal_reasons``):
it expired if it may have. Else the topic was deleted, if no tool could delete the offset or if
several of the requested groups lost offsets of only this topic at the same moment.
"""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

from coterie._core.fold.fold_state import Committed
from coterie.base.times import format_time
from coterie.insight.offsets.key_removals import KeyRemovals
from coterie.insight.offsets.removal_reasons import (
    MIN_RETENTION_MS,
    UNKNOWN,
    Neighbours,
    Way,
    parts_of,
)
from coterie.insight.offsets.removals import removals_of
from coterie.insight.records.key_index import Key
from coterie.insight.records.partition_view import PartitionView

EXPIRED, EXPIRED_OR_TOPIC_DELETED, TOPIC_DELETED, DELETED, _ = REASONS = (
    *("expired", "expired_or_topic_deleted", "topic_deleted", "deleted", UNKNOWN),
)
CREATED_AGAIN = "the topic was created again"
IN_WORDS = {
    EXPIRED: "expired or deleted",
    EXPIRED_OR_TOPIC_DELETED: "expired at its commit's own expire time, or deleted with the topic",
    TOPIC_DELETED: "the topic was deleted",
    DELETED: "deleted by a tool or a client, or with the topic",
    UNKNOWN: "the log has lost the commit or the group's record, so the reason is not known",
}
SHORTER = ", or expired under a retention below --retention"


class Removed(NamedTuple):
    """The first removal of an offset since the time to go back to.

    ``again``: how many more there were. ``resumed``: the offset was committed again. ``early``: it
    may have expired under a shorter retention, though not under the broker's.
    """

    at_ms: int
    reason: str
    again: int
    resumed: bool
    early: bool = False


def removed_since(
    view: PartitionView, removals: KeyRemovals, at_ms: int, retention_ms: int
) -> dict[Key, Removed]:
    """Return the first removal of each key after a time (epoch ms), with its reason."""
    by_group = removals_of(removals)
    neighbours = Neighbours(by_group)
    first: dict[Key, Removed] = {}
    for moment in chain.from_iterable(by_group.values()):
        if moment.until_ms <= at_ms:
            continue
        for part, before in parts_of(view, moment):
            is_alone = not neighbours.others(part)
            ways = (before.ways(part, ms) for ms in (retention_ms, MIN_RETENTION_MS))
            for row, way, least in zip(part.rows, *ways, strict=True):
                if row.removed_ms is None or row.removed_ms <= at_ms:
                    continue
                if row.key in first:
                    first[row.key] = first[row.key]._replace(again=first[row.key].again + 1)
                    continue
                reason = reason_of(way, is_alone=is_alone)
                early = least.expired and not way.expired
                resumed = row.resumed is not None
                first[row.key] = Removed(row.removed_ms, reason, 0, resumed, early)
    return first


def reason_of(way: Way, *, is_alone: bool) -> str:
    """Return why an offset was removed, by its group's records alone.

    ``is_alone``: no other group lost offsets of only its topic at the moment.
    """
    if way.rule == UNKNOWN and way.expired:
        return UNKNOWN
    if way.expired:
        return EXPIRED if way.deleted else EXPIRED_OR_TOPIC_DELETED
    return DELETED if way.deleted and is_alone else TOPIC_DELETED


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
        why = IN_WORDS[removed.reason] + (SHORTER if removed.early else "")
        parts.append(f"removed at {format_time(removed.at_ms)}{more}: {why}")
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
