"""Which offsets are gone or go next, when, and by which of Kafka's rules.

The rule of a group and the test of an offset are the coordinator's own
(``expiry_rule``, ``expired`` of ``coterie._core.structures.expiry``). A newer group (KIP-848 and
the like) goes by its commits and its subscriptions in any state, and an offset with an undecided
transactional commit waits (OffsetMetadataManager.cleanupExpiredOffsets,
ConsumerGroup.offsetExpirationCondition).
A broker looks every ``offsets.retention.check.interval.ms`` (10 minutes), so an offset is gone at
the first look after ``expires_at``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from coterie._core.fold import partial
from coterie._core.structures.expiry import expired, expiry_rule
from coterie.insight.groups import epochs
from coterie.insight.records.key_index import Key
from coterie.insight.records.partition_view import PartitionView, RecordFilter
from coterie.ordering import key_order
from coterie.state.partial import Tracking
from coterie.state.rows import (
    head_rows,
    metadata_row,
    pending_by_group,
    simple_row,
    visible_offsets,
)
from coterie.times import MAX_MS

NAME = "expire"
DEFAULT_RETENTION_MS = 7 * 86_400_000  # offsets.retention.minutes
FIELDS = {
    "group_id": "string",
    "offsets_partition": "int32",
    "type": "string",  # classic, consumer, share, streams
    "state": "string",  # by the group's last record; of a removed offset: by the last before
    "idle_since": "timestamp",  # without members since; null: it has members
    "topic": "string",  # null, as what follows: a group without offsets
    "partition": "int32",
    "offset": "int64",
    "commit_timestamp": "timestamp",
    "status": "string",  # of STATUSES
    "rule": "string",  # of RULES
    "since": "timestamp",  # what retention counts from; null: nothing counts
    "expires_at": "timestamp",  # null: never, as things stand
    "remaining_ms": "int64",  # from now to expires_at; below 0: it is overdue
    "removed_at": "timestamp",  # of the tombstone
    "pending": "bool",  # an undecided transaction holds another commit of it
    "what_if": [{"retention_ms": "int64", "expires_at": "timestamp", "expired": "bool"}],
}
REMOVED, EXPIRED, DUE, KEPT = STATUSES = ("removed", "expired", "due", "kept")
RULES = {
    "empty_since": "all offsets of a group, since it has no members",
    "empty_commit": "the same where the log does not say since when: since each commit",
    "not_subscribed": "topics that the group's members do not subscribe to, since each commit",
    "standalone": "a group that never had members, since each commit",
    "explicit": "the time that the commit itself carries (retention_time_ms of old clients)",
    "no_offsets": "a group without members and offsets goes at the next look",
    "subscribed": "kept: a member subscribes to the topic",
    "members": "kept: a group that has members, of another type or with unknown topics",
    "pending_transaction": "kept: an undecided transactional commit (newer groups)",
    "deleted": "removed before any rule would have: by someone, or under a shorter retention",
    "unknown": "removed, and the log has lost the commit",
}
EVERY_COMMIT = {"empty_commit", "not_subscribed", "standalone"}
COMMIT = {  # of a key's track: its last commit
    "offset": "commit_offset",
    "commit_timestamp": "commit_timestamp",
    "expire_timestamp": "expire_timestamp",
}


@dataclass(frozen=True)
class Ask:
    """As of when, and under which retention.

    Attributes
    ----------
    now_ms : int or None
        Epoch ms that offsets are judged at; None: the time of the log's newest record, which the
        asker finds.
    retention_ms : int
        ``offsets.retention.minutes`` of the broker, in ms.
    what_if_ms : tuple of int
        Other retentions to compare with.
    """

    now_ms: int | None = None
    retention_ms: int = DEFAULT_RETENTION_MS
    what_if_ms: tuple[int, ...] = ()


class Held(NamedTuple):
    """An offset with what decides over it; ``at_ms``: as of when it is judged."""

    group: str
    head: dict[str, Any]
    offset: dict[str, Any]
    rule: str
    base_ms: int
    kept: bool
    pending: bool
    removed_ms: int | None


def tracked(view: PartitionView) -> RecordFilter:
    """Return the state that tells what was removed."""
    return view.record_filter._replace(tracking=Tracking())


def states(view: PartitionView, ask: Any) -> tuple[RecordFilter, ...]:
    """Return the states that are looked at."""
    return (tracked(view),)


def rows(view: PartitionView, ask: Ask) -> Iterator[dict[str, Any]]:
    """Yield one row an offset that is there or was removed, and one a group without any.

    Groups stand as Java sorts them, then topics, then partitions.
    """
    view.read(tracked(view))
    present = [(group, row) for group, row in visible_offsets(view.fold) if row is not None]
    pending = pending_by_group(view.fold)
    heads = head_rows(view.fold, (*(group for group, _ in present), *pending))
    undecided = {
        (group, row["topic"], row["partition"])
        for group, producers in pending.items()
        for producer in producers
        for row in producer["offsets"]
    }
    held = [standing(group, heads[group], row, undecided) for group, row in present]
    there = {(one.group, one.offset["topic"], one.offset["partition"]) for one in held}
    held += removed(view, there)
    idle = idle_since(heads, held, epochs.empty_since(view.newer_records))
    found = list(judged(view.number, held, idle, ask))
    full = {group for group, _, _ in there} | set(pending)
    found += [
        without_offsets(view.number, group, head, idle)
        for group, head in heads.items()
        if group not in full and head["type"] != "share"
    ]
    order = key_order()
    found.sort(key=lambda row: order((row["group_id"], row["topic"] or "", row["partition"] or 0)))
    yield from found


def standing(group: str, head: dict[str, Any], offset: dict[str, Any], undecided: Any) -> Held:
    """Return a present offset with what decides over it."""
    is_pending = (group, offset["topic"], offset["partition"]) in undecided
    rule, base_ms, kept = decided(head, offset)
    if head["type"] != "classic" and is_pending and not kept:
        rule, kept = "pending_transaction", True
    return Held(group, head, offset, rule, base_ms, kept, is_pending, None)


def decided(head: dict[str, Any], offset: dict[str, Any]) -> tuple[str, int, bool]:
    """Return an offset's rule, since when its retention counts, and whether it is kept."""
    topics = head["subscribed_topics"]
    since_ms = -1 if head["current_state_timestamp"] is None else head["current_state_timestamp"]
    if head["type"] == "classic":
        state, kind = head["state"], head["protocol_type"]
        rule = expiry_rule(kind, state == "Empty", state == "Stable", since_ms, topics is not None)
    else:
        rule = "not_subscribed"
    if rule is None:
        return "members", -1, True
    if rule == "not_subscribed" and offset["topic"] in topics:
        return "subscribed", -1, True
    base_ms = offset["commit_timestamp"] if rule in EVERY_COMMIT else since_ms
    return rule if offset["expire_timestamp"] is None else "explicit", base_ms, False


def removed(view: PartitionView, there: set[Key]) -> Iterator[Held]:
    """Yield the offsets whose last record is a tombstone, as they were before it."""
    log = view.read(tracked(view))
    found = partial.tracks(log.fold)
    gone = np.flatnonzero((found["last"] > 0) & (found["last_gone"] == 1))
    for key, row in zip(log.keys(gone), found[gone], strict=True):
        removed_ms = int(row["last_timestamp"])
        if key in there or not view.is_asked(removed_ms):
            continue
        told = {name: int(row[field]) for name, field in COMMIT.items()}
        has_commit = row["commit"] > 0
        offset = _offset(told if has_commit else None, *key[1:])
        head = head_before(view, key[0], int(row["last_log_offset"]))
        if has_commit:
            yield Held(key[0], head, offset, *decided(head, offset), False, removed_ms)
        else:
            yield Held(key[0], head, offset, "unknown", -1, True, False, removed_ms)


def _offset(told: dict[str, int] | None, topic: str, partition: int) -> dict[str, Any]:
    """Return a removed offset; ``told``: its last commit, None: the log has lost it."""
    expires = -1 if told is None else told["expire_timestamp"]
    return {
        "topic": topic,
        "partition": partition,
        "offset": None if told is None else told["offset"],
        "commit_timestamp": None if told is None else told["commit_timestamp"],
        "expire_timestamp": None if expires == -1 else expires,
    }


def head_before(view: PartitionView, group: str, log_offset: int) -> dict[str, Any]:
    """Return a group's own fields as they were before a record."""
    life = view.lives.get(group)
    if life is not None:
        index = bisect_left([place.log_offset for place in life.records.places], log_offset)
        value = life.records[index - 1].value if index else None
        if value is not None:
            return {"type": "classic", **metadata_row(value)}
    return {"type": "classic", **simple_row()}


def idle_since(
    heads: dict[str, dict[str, Any]], held: Iterable[Held], newer: dict[str, int]
) -> dict[str, int | None]:
    """Return since when each group has no members: its state's time, else its last commit's.

    ``newer`` has that time of groups of the newer protocols, as far as their epochs tell it.
    """
    since: dict[str, int | None] = {
        group: newer.get(group) if head["type"] != "classic" else head["current_state_timestamp"]
        for group, head in heads.items()
        if not head["members"]
    }
    untold = {group for group, told in since.items() if told is None}
    for one in held:
        if one.group in untold and one.removed_ms is None:
            since[one.group] = max(since[one.group] or -1, one.offset["commit_timestamp"])
    return since


def judged(
    number: int | None, held: list[Held], idle: dict[str, int | None], ask: Ask
) -> Iterator[dict[str, Any]]:
    """Yield the row of each offset."""
    assert ask.now_ms is not None  # the asker found it
    times = {
        name: [-1 if (ms := one.offset[name]) is None else ms for one in held]
        for name in ("commit_timestamp", "expire_timestamp")
    }
    columns = {
        "base_ms": np.array([one.base_ms for one in held], dtype=np.int64),
        "keep": np.array([one.kept for one in held], dtype=np.bool_),
    }
    commit_ms, expire_ms = (np.array(column, dtype=np.int64) for column in times.values())
    asked = [
        (retention_ms, expired(commit_ms, expire_ms, ask.now_ms, retention_ms, **columns).tolist())
        for retention_ms in (ask.retention_ms, *ask.what_if_ms)
    ]
    for index, one in enumerate(held):
        over = [(retention_ms, flags[index]) for retention_ms, flags in asked]
        yield _row(number, one, idle.get(one.group), over, ask.now_ms)


def _row(
    number: int | None, one: Held, idle_ms: int | None, over: list[tuple[int, bool]], now_ms: int
) -> dict[str, Any]:
    expires = [None if one.kept else _expires_at(one, retention_ms) for retention_ms, _ in over]
    status = KEPT if one.kept else EXPIRED if over[0][1] else DUE
    rule = one.rule
    if one.removed_ms is not None:
        status = REMOVED
        in_time = expires[0] is not None and one.removed_ms >= expires[0]
        rule = rule if in_time or rule == "unknown" else "deleted"
    return {
        "group_id": one.group,
        "offsets_partition": number,
        "type": one.head["type"],
        "state": one.head["state"],
        "idle_since": idle_ms,
        "topic": one.offset["topic"],
        "partition": one.offset["partition"],
        "offset": one.offset["offset"],
        "commit_timestamp": one.offset["commit_timestamp"],
        "status": status,
        "rule": rule,
        "since": None if one.kept or one.rule == "explicit" else one.base_ms,
        "expires_at": expires[0],
        "remaining_ms": None if expires[0] is None else _clamped(expires[0] - now_ms),
        "removed_at": one.removed_ms,
        "pending": one.pending,
        "what_if": [
            {"retention_ms": retention_ms, "expires_at": at_ms, "expired": flag}
            for (retention_ms, flag), at_ms in zip(over[1:], expires[1:], strict=True)
        ],
    }


def _clamped(length_ms: int) -> int:
    return max(min(length_ms, MAX_MS), -MAX_MS)


def _expires_at(one: Held, retention_ms: int) -> int | None:
    """Return when it goes; None: never, for the sum is beyond any time."""
    explicit: int | None = one.offset["expire_timestamp"]
    at_ms = one.base_ms + retention_ms if explicit is None else explicit
    return at_ms if at_ms <= MAX_MS else None


def without_offsets(
    number: int | None, group: str, head: dict[str, Any], idle: dict[str, int | None]
) -> dict[str, Any]:
    """Return the row of a group that has no offsets."""
    empty = head["state"] == "Empty"
    return dict.fromkeys(FIELDS) | {
        "group_id": group,
        "offsets_partition": number,
        "type": head["type"],
        "state": head["state"],
        "idle_since": idle.get(group),
        "status": EXPIRED if empty else KEPT,
        "rule": "no_offsets" if empty else "members",
        "pending": False,
        "what_if": [],
    }
