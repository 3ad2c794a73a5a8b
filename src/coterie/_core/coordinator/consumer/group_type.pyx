"""Upgrades of classic groups to consumer groups, and downgrades.

Source: GroupMetadataManager.java (maybeUpgradeClassicGroup, convertToClassicGroup).
"""
from libc.stdint cimport int32_t

from coterie._core.coordinator.classic.group cimport GroupMetadata
from coterie._core.coordinator.classic.group_records cimport group_batch
from coterie._core.coordinator.classic.member cimport MemberMetadata
from coterie._core.coordinator.classic.member_table cimport next_member
from coterie._core.coordinator.codes cimport (
    GROUP_ID_NOT_FOUND, NONE, REBALANCE_IN_PROGRESS, UNKNOWN_SERVER_ERROR)
from coterie._core.coordinator.consumer.conversion cimport classic_group, consumer_records
from coterie._core.coordinator.consumer.group cimport (
    CLASSIC_GROUP, CURRENT, REGEX, ConsumerGroup, ConsumerMember, Current, Record, group_tombstones,
    new_group, new_record)
from coterie._core.coordinator.consumer.member_fields cimport subscribed
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol, Heartbeat
from coterie._core.coordinator.consumer.reconcile cimport reconciled
from coterie._core.coordinator.consumer.values cimport MemberFields, no_partitions
from coterie._core.coordinator.runtime cimport Request

from coterie._core.coordinator.consumer.values import utf16_units
from coterie._core.coordinator.runtime import Thrown
from coterie.errors import CorruptData


cdef ConsumerGroup upgraded(ConsumerProtocol protocol, GroupMetadata classic, list records):
    """A classic group as a consumer group, and its records; None, and why not."""
    cdef ConsumerGroup group
    cdef ConsumerMember member
    cdef MemberMetadata waiting
    cdef Py_ssize_t place = 0
    cdef Request request
    if (protocol.policy not in ("upgrade", "bidirectional") or classic.protocol_type != "consumer"
            or classic.members.count > protocol.max_size):
        protocol.error = GROUP_ID_NOT_FOUND
        return None
    while (waiting := next_member(&classic.members, &place)) is not None:
        if waiting.awaiting_join is not None:
            request = waiting.awaiting_join
            waiting.awaiting_join = None
            classic.num_members_awaiting_join -= 1
            protocol.runtime.answer(request, REBALANCE_IN_PROGRESS, waiting.member_id)
        if waiting.awaiting_sync is not None:
            request = waiting.awaiting_sync
            waiting.awaiting_sync = None
            protocol.runtime.answer(request, REBALANCE_IN_PROGRESS, None)
    try:
        records += consumer_records(classic, protocol.image)
    except CorruptData:
        protocol.error = GROUP_ID_NOT_FOUND
        return None
    except Thrown:
        protocol.error = UNKNOWN_SERVER_ERROR
        return None
    group = new_group(classic.group_id, protocol.revision)
    for record in records:
        if (<Record>record).kind != CLASSIC_GROUP:
            group.apply(<Record>record, None)
    for member in group.order:
        protocol.arm_session(protocol.timers_of(group.group_id, member.member_id),
                             member.fields.classic.session_timeout_ms)
    return group


cdef bint may_downgrade(ConsumerProtocol protocol, ConsumerGroup group, object leaving,
                        Py_ssize_t joining) except -1:
    """Whether the group becomes a classic one when these members go and classic ones join."""
    cdef ConsumerMember member
    cdef Py_ssize_t left = joining
    if protocol.policy not in ("downgrade", "bidirectional") or not (
            group.classic_count or joining):
        return False
    for member in group.order:
        if member.member_id not in leaving:
            if member.fields.classic is None:
                return False
            left += 1
    return 0 < left <= protocol.classic_max_size


cdef tuple downgrade_by(ConsumerProtocol protocol, ConsumerGroup group, Heartbeat r,
                        ConsumerMember member, ConsumerMember replaced, MemberFields fields,
                        bint bump, list records):
    """A classic client replaces the last static member of the consumer protocol."""
    cdef Current current = None
    cdef int error = NONE
    cdef GroupMetadata classic
    cdef int32_t generation = member.epoch
    if not bump:
        current = reconciled(group, member, group.target_epoch,
                             no_partitions() if member.target is None else member.target,
                             r.owned, subscribed(protocol, group, fields), False, &error)
        if error != NONE:
            return protocol.refuse(error)
    if current is not None:
        records.append(new_record(CURRENT, member.member_id, current))
        generation = current.epoch
    classic = classic_group(group, (), replaced, member.member_id, fields,
                            protocol.rebalances.ties, protocol.runtime.wheel.clock_ms)
    set_successor(protocol, group, classic, replaced.member_id, member.member_id, bump, records)
    return (member.member_id, generation, 0, None)


cdef int set_successor(ConsumerProtocol protocol, ConsumerGroup group, GroupMetadata classic,
                       str old_id, str new_id, bint rebalances, list records) except -1:
    """Add the records of a downgrade; `write_records` puts the classic group in force."""
    cdef Record record
    for record in group_tombstones(group):
        if record.name is not None and record.name == old_id and record.kind != REGEX:
            record.name = new_id
        records.append(record)
    if new_id is not None:
        sort_names(records)
    records.append(new_record(CLASSIC_GROUP, None, group_batch(classic, None).pair(0)[1]))
    protocol.successor, protocol.rebalances_successor = classic, rebalances
    return 0


cdef int sort_names(list records) except -1:
    """Sort each run of tombstones of members, once one has another name."""
    cdef Py_ssize_t start = 0, stop, count = len(records)
    cdef Record record
    while start < count:
        record = <Record>records[start]
        stop = start + 1
        while (stop < count and record.tombstone and (<Record>records[stop]).tombstone
                and (<Record>records[stop]).kind == record.kind):
            stop += 1
        if stop > start + 1:
            records[start:stop] = sorted(records[start:stop], key=name_order)
        start = stop


def name_order(Record record not None):
    return utf16_units(record.name)
