"""Frozen views of a group, for tests and reports. Reading one changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coterie._core.coordinator.coordinator import Coordinator
from coterie._core.structures.offsets import Offset, OffsetMap
from coterie.consumer_groups import DescribedConsumerGroup, described_group
from coterie.values import OffsetAndMetadata

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class MemberSnapshot:
    """One member; ``protocols`` in order of preference."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    protocol_type: str | None
    protocols: tuple[tuple[str, bytes], ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    assignment: bytes
    is_new: bool
    is_awaiting_join: bool
    is_awaiting_sync: bool


@dataclass(frozen=True, slots=True)
class TimerSnapshot:
    """An armed timer: ``kind`` is session, pending, join or sync."""

    kind: str
    member_id: str | None
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """The present state of a group; members in the order in which they were added."""

    group_id: str
    state: str
    current_state_timestamp: int | None
    protocol_type: str | None
    protocol_name: str | None
    generation_id: int
    leader_id: str | None
    members: tuple[MemberSnapshot, ...]
    static_members: dict[str, str]
    pending_members: tuple[str, ...]
    pending_sync_members: tuple[str, ...]
    supported_protocols: dict[str, int]
    subscribed_topics: frozenset[str] | None
    new_member_added: bool
    timers: tuple[TimerSnapshot, ...]
    offsets: dict[Key, OffsetAndMetadata]
    pending_offsets: dict[Key, OffsetAndMetadata]
    pending_txn_offsets: dict[int, dict[Key, OffsetAndMetadata]]


def _value(entry: Offset) -> OffsetAndMetadata:
    expire = entry.expire_timestamp
    return OffsetAndMetadata(
        entry.offset,
        entry.leader_epoch,
        entry.metadata,
        entry.commit_timestamp,
        None if expire == -1 else expire,
    )


def snapshot_of(core: Coordinator, group_id: str) -> GroupSnapshot | DescribedConsumerGroup | None:
    """Return the view of one group of a coordinator."""
    group: Any = core.group(group_id)
    if group is None:
        row = core.consumer_group(group_id)
        return None if row is None else described_group(*row)
    since = group.current_state_timestamp
    offsets = core.offsets_of(group_id)
    if offsets is None:
        offsets = OffsetMap()
    return GroupSnapshot(
        group.group_id,
        group.current_state,
        None if since == -1 else since,
        group.protocol_type,
        group.protocol_name,
        group.generation_id,
        group.leader_id,
        tuple(
            MemberSnapshot(
                m.member_id, m.group_instance_id, m.client_id, m.client_host, m.protocol_type,
                m.protocols, m.session_timeout_ms, m.rebalance_timeout_ms, m.assignment,
                m.is_new, m.is_awaiting_join, m.is_awaiting_sync,
            )
            for m in group.all_members
        ),
        group.all_static_members,
        tuple(group.pending_member_ids),
        tuple(group.pending_sync_members),
        group.supported_protocols,
        group.subscribed_topics,
        group.new_member_added,
        tuple(TimerSnapshot(*timer) for timer in core.timers_of(group_id)),
        {key: _value(entry) for key, entry in offsets.items()},
        {key: _value(entry) for key, entry in offsets.pending.items()},
        {
            producer: {key: _value(entry) for key, entry in undecided.items()}
            for producer, undecided in offsets.pending_txn.items()
        },
    )  # fmt: skip
