"""Members that leave, are fenced, or whose timers fire.

Source: GroupMetadataManager.java (consumerGroupLeave, consumerGroupFenceMember).
"""
cimport cython
from libc.stdint cimport int32_t

from coterie._core.coordinator.codes cimport (
    COORDINATOR_LOAD_IN_PROGRESS, FENCED_INSTANCE_ID, NONE, NOT_COORDINATOR, UNKNOWN_MEMBER_ID)
from coterie._core.coordinator.consumer.conversion cimport classic_group
from coterie._core.coordinator.consumer.group cimport (
    CURRENT, MEMBER, REGEX, TARGET, ConsumerGroup, ConsumerMember, Timers, epoch_record,
    new_current, new_record, tombstone)
from coterie._core.coordinator.consumer.group_type cimport may_downgrade, set_successor
from coterie._core.coordinator.consumer.pending cimport Waiting, pending_writes
from coterie._core.coordinator.consumer.protocol cimport (
    JOIN, LEAVE, LEAVE_FOR_NOW, REBALANCE, SESSION, SYNC, ConsumerProtocol, Heartbeat)
from coterie._core.coordinator.consumer.values cimport (
    MemberFields, Names, Resolved, add_count, no_partitions, utf16_sorted)
from coterie._core.coordinator.consumer.writes cimport show_member, write_records
from coterie._core.coordinator.outputs cimport (
    BY_REBALANCE_TIMEOUT, BY_SESSION_TIMEOUT, BY_SYNC_TIMEOUT)
from coterie._core.coordinator.runtime cimport CONSUMER, NO_TIMER, Group

cdef enum:
    RETRY_MS = 500                 # after the write of a timer failed


cdef tuple leave_group(ConsumerProtocol protocol, ConsumerGroup group, Heartbeat r, list records):
    cdef ConsumerMember member = group.members.get(r.member_id)
    if r.instance_id is None:
        if member is None:
            return protocol.refuse(UNKNOWN_MEMBER_ID)
    elif group.instances.get(r.instance_id) not in group.members:
        return protocol.refuse(UNKNOWN_MEMBER_ID)
    elif group.instances[r.instance_id] != r.member_id:
        return protocol.refuse(FENCED_INSTANCE_ID)
    if r.epoch == LEAVE:
        records += fence_members(protocol, group, [r.member_id])
    else:
        records.append(new_record(CURRENT, r.member_id, new_current(
            member.state, LEAVE_FOR_NOW, member.previous_epoch, member.assigned,
            no_partitions())))
    return (r.member_id, r.epoch, 0, None)


cdef list fence_members(ConsumerProtocol protocol, ConsumerGroup group, list member_ids):
    """Records that remove members; their timers are cancelled.

    If only classic members are left the group becomes a classic one: then none is cancelled.
    """
    cdef list records = []
    cdef dict names_count = dict(group.names_count), regexes = dict(group.regex_count)
    cdef dict topics = dict(group.topic_count)
    cdef MemberFields fields
    cdef list lost = []
    if may_downgrade(protocol, group, member_ids, 0):
        set_successor(
            protocol, group, classic_group(group, member_ids, None, None, None,
                                           protocol.rebalances.ties,
                                           protocol.runtime.wheel.clock_ms),
            None, None, True, records)
        return records
    for member_id in utf16_sorted(member_ids):
        records += (tombstone(CURRENT, member_id), tombstone(TARGET, member_id),
                    tombstone(MEMBER, member_id))
        protocol.forget_timers(group.group_id, member_id)
        fields = (<ConsumerMember>group.members[member_id]).fields
        if names_count[fields.names] == 1:
            for name in fields.names.ordered:
                add_count(topics, name, -1)
        add_count(names_count, fields.names, -1)
        if fields.regex:
            if regexes[fields.regex] == 1:
                lost.append(fields.regex)
            add_count(regexes, fields.regex, -1)
    for regex in utf16_sorted(lost):
        records.append(tombstone(REGEX, regex))
        if regex in group.resolved:
            for name in (<Resolved>group.resolved[regex]).topics:
                add_count(topics, name, -1)
    if len(names_count) == 1 and not group.resolved:
        digest = protocol.image.hash_of_names(<Names>next(iter(names_count)))
    else:
        digest = protocol.image.hash_of(topics)
    records.append(epoch_record(group.epoch + 1, digest))
    return records


@cython.final
cdef class Expired(Waiting):
    """A timer that fired: it is armed again if its write fails, also one without records."""

    cdef ConsumerProtocol protocol
    cdef Timers timers
    cdef int kind
    cdef int32_t rebalance_epoch

    cdef int completed(self, int error) except -1:
        cdef Timers timers
        if error in (NONE, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS):
            return 0
        timers = self.protocol.timers_of(self.timers.group_id, self.timers.member_id)
        if self.kind == SESSION:
            return self.protocol.arm_session(timers, RETRY_MS)
        if self.kind != REBALANCE:
            return self.protocol.arm_other(timers, self.kind, RETRY_MS)
        return self.protocol.arm_rebalance(timers, self.rebalance_epoch, RETRY_MS)


cdef int cause_of(int kind) noexcept:
    """Why a member is fenced when a timer of this kind fires."""
    if kind == SESSION:
        return BY_SESSION_TIMEOUT
    return BY_SYNC_TIMEOUT if kind == SYNC else BY_REBALANCE_TIMEOUT


cdef int expire_member(ConsumerProtocol protocol, Timers timers, int kind) except -1:
    """A session ended, or a member did not give up its partitions in time."""
    cdef Group known = protocol.runtime.find(timers.group_id)
    cdef ConsumerMember member = None
    cdef Expired expired
    cdef int32_t epoch
    cdef int error
    if kind == SESSION:
        timers.session = NO_TIMER
    elif kind == REBALANCE:
        timers.rebalance = NO_TIMER
    elif kind == JOIN:
        timers.join = NO_TIMER
    else:
        timers.sync = NO_TIMER
    expired = Expired.__new__(Expired)
    expired.protocol, expired.timers, expired.kind = protocol, timers, kind
    expired.rebalance_epoch = timers.rebalance_epoch
    if known is not None and known.group_type == CONSUMER:
        member = (<ConsumerGroup>known).members.get(timers.member_id)
    if member is None or (kind == REBALANCE and member.epoch != timers.rebalance_epoch):
        if (timers.session == NO_TIMER and timers.rebalance == NO_TIMER
                and timers.join == NO_TIMER and timers.sync == NO_TIMER) and (
                protocol.find_timers(timers.group_id, timers.member_id) is timers):
            protocol.forget_timers(timers.group_id, timers.member_id)
        return pending_writes(protocol).wait((timers.group_id,), expired)
    epoch = member.epoch
    records = fence_members(protocol, <ConsumerGroup>known, [timers.member_id])
    error = write_records(protocol, timers.group_id, records)
    if error != NONE:
        return expired.completed(error)
    show_member(protocol, timers.group_id, timers.member_id, epoch, cause_of(kind))
    return pending_writes(protocol).wait((timers.group_id,), expired)
