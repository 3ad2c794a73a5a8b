"""Which offsets are removed or expire next, when, and by which of Kafka's rules.

The rule of a group and the test of an offset are the coordinator's own code (``expiry_rule``,
``expired`` of ``coterie._core.structures.expiry``). A newer group (KIP-848 and the like) goes by
its commits and subscriptions in any state (ConsumerGroup.offsetExpirationCondition). Kafka 4.x
retains an offset with an undecided transactional commit, of any type of group
(OffsetMetadataManager.cleanupExpiredOffsets).
A broker checks every ``offsets.retention.check.interval.ms`` (10 minutes), so an offset is removed
at the first check after ``expires_at``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from coterie._core.structures.expiry import expired
from coterie.base.ordering import key_order
from coterie.base.times import MAX_MS
from coterie.insight.groups import epochs
from coterie.insight.offsets.key_removals import KeyRemovals
from coterie.insight.offsets.removal_reasons import (
    PENDING,
    UNKNOWN,
    expiry_of,
    is_of_4x,
    parts_of,
)
from coterie.insight.offsets.removals import removals_of
from coterie.insight.records.aggregates import Aggregate, aggregates_of
from coterie.insight.records.partition_view import PartitionView, RecordFilter
from coterie.state.rows import (
    head_rows,
    pending_rows,
    visible_offsets,
)

NAME = "expire"
REMOVALS = "expire.removals"  # an aggregate
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
    "pending": "bool",  # an undecided transaction holds another commit, or did at the removal
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
    "pending_transaction": "kept: an undecided transactional commit (Kafka 4.x), or only such",
    "rebalance": "removed as the group rebalanced, since each commit (2.4 to 2.8.1, 3.0.0, 3.1.0)",
    "deleted": "removed before any rule would have: by someone, or under a shorter retention",
    "unknown": "removed, and the log has lost the commit, or the group's record",
}


@dataclass(frozen=True)
class Parameters:
    """The time and the retention.

    Attributes
    ----------
    now_ms : int or None
        The time (epoch ms) at which offsets are judged; None: the time of the log's newest
        record, which the asker finds.
    retention_ms : int
        ``offsets.retention.minutes`` of the broker, in ms.
    what_if_ms : tuple of int
        Further retentions, for comparison.
    """

    now_ms: int | None = None
    retention_ms: int = DEFAULT_RETENTION_MS
    what_if_ms: tuple[int, ...] = ()


class OffsetState(NamedTuple):
    """An offset with its group's state, its rule, and the time that its retention counts from."""

    group: str
    head: dict[str, Any]
    offset: dict[str, Any]
    rule: str
    base_ms: int
    retained: bool
    pending: bool
    removed_ms: int | None


def states(view: PartitionView, parameters: Any) -> tuple[RecordFilter, ...]:
    return (view.record_filter,)


def aggregates(
    view: PartitionView, parameters: Parameters
) -> dict[str, tuple[RecordFilter, Aggregate]]:
    return {REMOVALS: (view.record_filter, KeyRemovals())}


def rows(view: PartitionView, parameters: Parameters) -> Iterator[dict[str, Any]]:
    """Yield one row for each present offset, for each removal, and for each group without offsets.

    Rows are sorted by group in Java's order, topic, partition; the removals of an offset come in
    log order before its present row.
    """
    visible = [(group, row) for group, row in visible_offsets(view.fold) if row is not None]
    undecided = {
        (group, row["topic"], row["partition"]) for group, _, row in pending_rows(view.fold)
    }
    pending = {group for group, _, _ in undecided}
    heads = head_rows(view.fold, (*(group for group, _ in visible), *sorted(pending)))
    holds = is_of_4x(view)
    states = [standing(group, heads[group], row, undecided, holds) for group, row in visible]
    removals = aggregates_of(view, aggregates, parameters)[REMOVALS]
    states = [*removed(view, removals, parameters.retention_ms), *states]
    idle = idle_since(heads, states, epochs.empty_since(view.newer_records))
    judged_rows = list(judged(view.number, states, idle, parameters))
    with_offsets = {group for group, _ in visible}
    judged_rows += [
        without_offsets(view.number, group, head, idle, group in pending)
        for group, head in heads.items()
        if group not in with_offsets and head["type"] != "share"
    ]
    order = key_order()
    judged_rows.sort(
        key=lambda row: order((row["group_id"], row["topic"] or "", row["partition"] or 0))
    )
    yield from judged_rows


def standing(
    group: str, head: dict[str, Any], offset: dict[str, Any], undecided: Any, holds: bool
) -> OffsetState:
    """Return the state of a present offset; ``holds``: transactions hold offsets (4.x)."""
    is_pending = (group, offset["topic"], offset["partition"]) in undecided
    rule, base_ms, retained = expiry_of(head, offset, pending=holds and is_pending)
    return OffsetState(group, head, offset, rule, base_ms, retained, is_pending, None)


def removed(view: PartitionView, removals: KeyRemovals, retention_ms: int) -> Iterator[OffsetState]:
    """Yield the offsets that were removed, with the state of their group before."""
    moments = chain.from_iterable(removals_of(removals).values())
    for part, before in chain.from_iterable(parts_of(view, moment) for moment in moments):
        for row, way in zip(part.rows, before.ways(part, retention_ms), strict=True):
            if not view.is_requested(row.removed_ms, row.tombstone.log_offset):
                continue
            group, topic, partition = row.key
            offset = {
                "topic": topic,
                "partition": partition,
                "offset": row.offset,
                "commit_timestamp": row.commit_ms,
                "expire_timestamp": row.expire_ms,
            }
            rule = way.rule if way.expired or way.rule == UNKNOWN else "deleted"
            state = group, before.head, offset, rule, way.base_ms, way.retained
            pending = before.pending and row.pending
            yield OffsetState(*state, pending, row.tombstone.timestamp)


def idle_since(
    heads: dict[str, dict[str, Any]], states: Iterable[OffsetState], newer: dict[str, int]
) -> dict[str, int | None]:
    """Return since when each group has no members: by its state's time, else its last commit's.

    ``newer``: that time for groups of the newer protocols, as far as their epochs show it.
    """
    since: dict[str, int | None] = {
        group: newer.get(group) if head["type"] != "classic" else head["current_state_timestamp"]
        for group, head in heads.items()
        if not head["members"]
    }
    unknown = {group for group, at_ms in since.items() if at_ms is None}
    for state in states:
        if state.group in unknown and state.removed_ms is None:
            since[state.group] = max(since[state.group] or -1, state.offset["commit_timestamp"])
    return since


def judged(
    number: int | None,
    states: list[OffsetState],
    idle: dict[str, int | None],
    parameters: Parameters,
) -> Iterator[dict[str, Any]]:
    assert parameters.now_ms is not None  # the asker sets it
    times = {
        name: [-1 if (ms := state.offset[name]) is None else ms for state in states]
        for name in ("commit_timestamp", "expire_timestamp")
    }
    columns = {
        "base_ms": np.array([state.base_ms for state in states], dtype=np.int64),
        "keep": np.array([state.retained for state in states], dtype=np.bool_),
    }
    commit_ms, expire_ms = (np.array(column, dtype=np.int64) for column in times.values())
    expired_by_retention = [
        (
            retention_ms,
            expired(commit_ms, expire_ms, parameters.now_ms, retention_ms, **columns).tolist(),
        )
        for retention_ms in (parameters.retention_ms, *parameters.what_if_ms)
    ]
    for index, state in enumerate(states):
        verdicts = [(retention_ms, flags[index]) for retention_ms, flags in expired_by_retention]
        yield _row(number, state, idle.get(state.group), verdicts, parameters.now_ms)


def _row(
    number: int | None,
    state: OffsetState,
    idle_ms: int | None,
    verdicts: list[tuple[int, bool]],
    now_ms: int,
) -> dict[str, Any]:
    expires = [
        None if state.retained else _expires_at(state, retention_ms) for retention_ms, _ in verdicts
    ]
    status = KEPT if state.retained else EXPIRED if verdicts[0][1] else DUE
    if state.removed_ms is not None:
        status = REMOVED
    has_own = state.offset["expire_timestamp"] is not None
    return {
        "group_id": state.group,
        "offsets_partition": number,
        "type": state.head["type"],
        "state": state.head["state"],
        "idle_since": idle_ms,
        "topic": state.offset["topic"],
        "partition": state.offset["partition"],
        "offset": state.offset["offset"],
        "commit_timestamp": state.offset["commit_timestamp"],
        "status": status,
        "rule": state.rule,
        "since": None if state.retained or has_own else state.base_ms,
        "expires_at": expires[0],
        "remaining_ms": None if expires[0] is None else _clamped(expires[0] - now_ms),
        "removed_at": state.removed_ms,
        "pending": state.pending,
        "what_if": [
            {"retention_ms": retention_ms, "expires_at": at_ms, "expired": flag}
            for (retention_ms, flag), at_ms in zip(verdicts[1:], expires[1:], strict=True)
        ],
    }


def _clamped(length_ms: int) -> int:
    return max(min(length_ms, MAX_MS), -MAX_MS)


def _expires_at(state: OffsetState, retention_ms: int) -> int | None:
    """Return when an offset expires; None: never, as the sum exceeds any time."""
    explicit: int | None = state.offset["expire_timestamp"]
    at_ms = state.base_ms + retention_ms if explicit is None else explicit
    return at_ms if at_ms <= MAX_MS else None


def without_offsets(
    number: int | None,
    group: str,
    head: dict[str, Any],
    idle: dict[str, int | None],
    pending: bool,
) -> dict[str, Any]:
    """Return the row of a group without offsets; ``pending``: a transaction holds some."""
    empty = head["state"] == "Empty" and not pending
    return dict.fromkeys(FIELDS) | {
        "group_id": group,
        "offsets_partition": number,
        "type": head["type"],
        "state": head["state"],
        "idle_since": idle.get(group),
        "status": EXPIRED if empty else KEPT,
        "rule": "no_offsets" if empty else PENDING if pending else "members",
        "pending": pending,
        "what_if": [],
    }
