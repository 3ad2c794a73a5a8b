"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup of classic clients in consumer groups.

A join is a heartbeat of the consumer protocol with what the first protocol's metadata says; it is
answered once its records are committed. A member hears of a new assignment by its heartbeats.
Source: GroupMetadataManager.java (classicGroupJoinToConsumerGroup, classicGroupSyncToConsumerGroup,
classicGroupHeartbeatToConsumerGroup, classicGroupLeaveToConsumerGroup).
Rules: docs/rules/consumer-groups.md#classic-members.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.classic.joins cimport Joins
from coterie._core.coordinator.codes cimport (
    FENCED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL,
    INVALID_SESSION_TIMEOUT, MEMBER_ID_REQUIRED, NONE, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID,
    UNKNOWN_SERVER_ERROR, write_error)
from coterie._core.coordinator.consumer.conversion cimport read_subscription, written_assignment
from coterie._core.coordinator.consumer.departures cimport fence_members
from coterie._core.coordinator.consumer.group cimport (
    KAFKA_4_2, UNRELEASED_PARTITIONS, UNREVOKED_PARTITIONS, ConsumerGroup, ConsumerMember, Timers,
    group_tombstones)
from coterie._core.coordinator.consumer.heartbeat cimport join_classic
from coterie._core.coordinator.consumer.pending cimport (
    Answer, Before, PendingWrites, pending_writes)
from coterie._core.coordinator.consumer.protocol cimport JOIN, SYNC, ConsumerProtocol, Heartbeat
from coterie._core.coordinator.consumer.topic_use cimport TopicUse
from coterie._core.coordinator.consumer.values cimport Assignment, ClassicPart, TopicId
from coterie._core.coordinator.consumer.writes cimport (
    encoded, respond_committed, write_records)
from coterie._core.coordinator.runtime cimport (
    CONSUMER, NO_TIMER, OTHER, Group, Request, Runtime, new_request)

from coterie.errors import CorruptData
from coterie.operations import NUMBER

cdef int HEARTBEAT = NUMBER["heartbeat"], LEAVE_GROUP = NUMBER["leave_group"]
cdef int SYNC_GROUP = NUMBER["sync_group"]


@cython.final
cdef class Joined(Answer):
    """The answer to a join; its timers start once it is committed."""

    cdef ConsumerProtocol consumer
    cdef str group_id
    cdef str member_id
    cdef int64_t session_timeout_ms
    cdef int64_t sync_timeout_ms
    cdef bint downgrades

    cdef int completed(self, int error) except -1:
        cdef Timers timers
        if error == NONE and not self.downgrades:
            timers = self.consumer.timers_of(self.group_id, self.member_id)
            self.runtime.disarm(&timers.join)
            self.consumer.arm_session(timers, self.session_timeout_ms)
            self.consumer.arm_other(timers, SYNC, self.sync_timeout_ms)
        return Answer.completed(self, error)


@cython.final
cdef class Synced(Answer):
    """The answer to a sync; the session goes on once all before it is committed."""

    cdef ConsumerProtocol consumer
    cdef str group_id
    cdef str member_id
    cdef int64_t session_timeout_ms

    cdef int completed(self, int error) except -1:
        cdef Timers timers
        if error == NONE:
            timers = self.consumer.timers_of(self.group_id, self.member_id)
            self.runtime.disarm(&timers.sync)
            self.consumer.arm_session(timers, self.session_timeout_ms)
        return Answer.completed(self, error)


cdef int decide_join_group(component, int op, int64_t id, Group group, str group_id,
                           int32_t generation_id, str member_id, str instance,
                           tuple details) except -1:
    return (<ClassicMembers>component).join(new_request(id, op), <ConsumerGroup>group, member_id,
                                            instance, details)


cdef int decide_join_other(component, int op, int64_t id, Group group, str group_id,
                           int32_t generation_id, str member_id, str instance,
                           tuple details) except -1:
    cdef ClassicMembers members = <ClassicMembers>component
    cdef int error = members.runtime.partitions.refusal(group_id, False)
    return members.runtime.answer(new_request(id, op),
                                  INCONSISTENT_GROUP_PROTOCOL if error == NONE else error, "")


cdef int decide_sync_group(component, int op, int64_t id, Group group, str group_id,
                           int32_t generation_id, str member_id, str instance,
                           tuple details) except -1:
    return (<ClassicMembers>component).sync(new_request(id, op), <ConsumerGroup>group,
                                            generation_id, member_id, instance, details)


cdef int decide_heartbeat(component, int op, int64_t id, Group group, str group_id,
                          int32_t generation_id, str member_id, str instance,
                          tuple details) except -1:
    return (<ClassicMembers>component).heartbeat(id, <ConsumerGroup>group, generation_id,
                                                 member_id, instance)


cdef int decide_leave_group(component, int op, int64_t id, Group group, str group_id,
                            int32_t generation_id, str member_id, str instance,
                            tuple details) except -1:
    return (<ClassicMembers>component).leave(id, <ConsumerGroup>group, details)


@cython.final
cdef class ClassicMembers:
    """Members of the classic protocol in consumer groups."""

    def __cinit__(self, Runtime runtime not None, ConsumerProtocol consumer not None,
                  Joins joins not None):
        self.runtime, self.consumer, self.joins = runtime, consumer, joins
        runtime.register("join_group", self, decide_join_group, CONSUMER)
        runtime.register("join_group", self, decide_join_other, OTHER)
        runtime.register("sync_group", self, decide_sync_group, CONSUMER)
        runtime.register("heartbeat", self, decide_heartbeat, CONSUMER)
        runtime.register("leave_group", self, decide_leave_group, CONSUMER)

    cdef int join(self, Request request, ConsumerGroup group, str member_id, str instance,
                  tuple details) except -1:
        cdef ConsumerProtocol consumer = self.consumer
        cdef int error = self.runtime.partitions.refusal(group.group_id, False)
        cdef str name = member_id
        cdef Heartbeat made
        cdef ClassicPart part
        cdef list records = []
        cdef tuple payload
        cdef Joined joined
        if error == NONE and not (
                self.joins.min_session_ms <= <int64_t>details[2] <= self.joins.max_session_ms):
            error = INVALID_SESSION_TIMEOUT
        if error != NONE:
            return self.runtime.answer(request, error, member_id)
        if not group.members:
            return self.join_emptied(request, group, member_id, instance, details)
        if consumer.policy == "disabled" and consumer.revision >= KAFKA_4_2:
            return self.runtime.answer(request, INCONSISTENT_GROUP_PROTOCOL, "")
        if not name:
            name = consumer.new_member_id()
        if len(group.members) >= consumer.max_size and name not in group.members:
            return self.runtime.answer(request, GROUP_MAX_SIZE_REACHED, "")
        if not self.supports(group, details[0], details[1]):
            return self.runtime.answer(request, INCONSISTENT_GROUP_PROTOCOL, "")
        if not member_id and details[6] and instance is None:
            return self.runtime.answer(request, MEMBER_ID_REQUIRED, name)
        made = Heartbeat.__new__(Heartbeat)
        try:
            made.names, made.rack_id, made.owned = read_subscription(
                details[1][0][1], consumer.image)
        except CorruptData:
            return self.runtime.answer(request, UNKNOWN_SERVER_ERROR, "")
        part = made.classic = ClassicPart.__new__(ClassicPart)
        part.session_timeout_ms, part.protocols = details[2], details[1]
        made.group_id, made.member_id, made.instance_id = group.group_id, name, instance
        made.rebalance_timeout_ms = details[3]
        made.client_id, made.client_host = details[4], details[5]
        payload = join_classic(consumer, group, made, not member_id, records)
        if payload is None:
            self.runtime.answer(request, consumer.error, "")
            return consumer.finish_event()
        error = NONE
        if records:
            error = write_error(write_records(consumer, group.group_id, records))
        if error != NONE:
            self.runtime.answer(request, error, "")
            return consumer.finish_event()
        joined = Joined.__new__(Joined)
        joined.runtime, joined.consumer = self.runtime, consumer
        joined.id, joined.op = request.id, request.op
        joined.payload = (payload[1], "consumer", details[1][0][0], "", name, False, ())
        joined.refused = (-1, None, "", "", "", False, ())
        joined.group_id, joined.member_id = group.group_id, name
        joined.session_timeout_ms = part.session_timeout_ms
        joined.sync_timeout_ms = details[3]
        joined.downgrades = self.runtime.find(group.group_id) is not group
        pending_writes(consumer).wait((group.group_id,), joined)
        return consumer.finish_event()

    cdef int join_emptied(self, Request request, ConsumerGroup group, str member_id,
                          str instance, tuple details) except -1:
        """An Empty consumer group ends; a classic one begins."""
        cdef ConsumerProtocol consumer = self.consumer
        cdef PendingWrites writes = pending_writes(consumer)
        if member_id:
            # Kafka drops the group from its memory before it finds that it has no such member;
            # what the log has of the group comes back with the next load.
            writes.change_unwritten(group.group_id)
            writes.unshown[group.group_id] = consumer.touched_now(group.group_id)
            self.runtime.drop_group(group)
            return self.runtime.answer(request, UNKNOWN_MEMBER_ID, member_id)
        consumer.touch(group.group_id)
        writes.change_unwritten(group.group_id)
        self.joins.before_group = encoded(
            consumer, group.group_id, group_tombstones(group))
        self.runtime.drop_group(group)
        try:
            self.joins.join(request, None, group.group_id, member_id, instance, details)
        except BaseException:
            self.joins.before_group = None
            if self.runtime.find(group.group_id) is None:  # no member id could be made
                writes.put_back(group.group_id, <Before>writes.unwritten.pop(group.group_id))
            raise
        return consumer.finish_event()

    cdef bint supports(self, ConsumerGroup group, str protocol_type, tuple protocols) except -1:
        """Whether some of these protocols is common to all classic members."""
        cdef ConsumerMember member
        cdef set names
        if protocol_type != "consumer" or not protocols:
            return False
        if not group.classic_count:
            return True
        names = {row[0] for row in protocols}
        for member in group.order:
            if member.fields.classic is not None:
                names &= {row[0] for row in member.fields.classic.protocols}
        return bool(names)

    cdef ConsumerMember member_of(self, ConsumerGroup group, str member_id, str instance):
        """The classic member of a request; None, and why not."""
        cdef ConsumerMember member = group.members.get(member_id)
        self.error = NONE
        if instance is not None:
            if group.instances.get(instance) not in group.members:
                self.error = UNKNOWN_MEMBER_ID
            elif group.instances[instance] != member_id:
                self.error = FENCED_INSTANCE_ID
        if self.error == NONE and (member is None or member.fields.classic is None):
            self.error = UNKNOWN_MEMBER_ID
        return member if self.error == NONE else None

    cdef int sync(self, Request request, ConsumerGroup group, int32_t generation_id,
                  str member_id, str instance, tuple details) except -1:
        cdef ConsumerProtocol consumer = self.consumer
        cdef int error = self.runtime.partitions.refusal(group.group_id, False)
        cdef ConsumerMember member = None
        cdef Timers timers
        cdef tuple protocol
        cdef Synced synced
        if error == NONE:
            member = self.member_of(group, member_id, instance)
            error = self.error
        if error == NONE and not group.members:
            error = UNKNOWN_MEMBER_ID
        if error != NONE:
            return self.runtime.answer(request, error, None)
        if generation_id != member.epoch:
            return self.runtime.answer(request, ILLEGAL_GENERATION, None)
        protocol = member.fields.classic.protocols[0]
        if (details[0] is not None and details[0] != "consumer") or (
                details[1] is not None and details[1] != protocol[0]):
            return self.runtime.answer(request, INCONSISTENT_GROUP_PROTOCOL, None)
        timers = consumer.timers_of(group.group_id, member_id)
        if group.epoch > member.epoch and member.state != UNREVOKED_PARTITIONS:
            if timers.join == NO_TIMER:
                consumer.arm_other(timers, JOIN, member.fields.rebalance_timeout_ms)
            return self.runtime.answer(request, REBALANCE_IN_PROGRESS, None)
        synced = Synced.__new__(Synced)
        synced.runtime, synced.consumer = self.runtime, consumer
        synced.id, synced.op = request.id, SYNC_GROUP
        synced.payload = (
            details[0], details[1], written_assignment(member.assigned, protocol[1]))
        synced.group_id, synced.member_id = group.group_id, member_id
        synced.session_timeout_ms = member.fields.classic.session_timeout_ms
        return pending_writes(consumer).wait((group.group_id,), synced)

    cdef int heartbeat(self, int64_t id, ConsumerGroup group, int32_t generation_id,
                       str member_id, str instance) except -1:
        cdef ConsumerProtocol consumer = self.consumer
        cdef int error = self.runtime.partitions.refusal(group.group_id, False)
        cdef ConsumerMember member = None
        cdef Timers timers
        if error == NONE:
            member = self.member_of(group, member_id, instance)
            error = self.error
        if error == NONE and generation_id != member.epoch:
            error = ILLEGAL_GENERATION
        if error != NONE:
            return self.runtime.respond(id, HEARTBEAT, error, None)
        timers = consumer.timers_of(group.group_id, member_id)
        consumer.arm_session(timers, member.fields.classic.session_timeout_ms)
        if (member.epoch < group.epoch or member.state == UNREVOKED_PARTITIONS
                or (member.state == UNRELEASED_PARTITIONS
                    and self.may_be_released(group, member))):
            if timers.join == NO_TIMER:
                consumer.arm_other(timers, JOIN, member.fields.rebalance_timeout_ms)
            error = REBALANCE_IN_PROGRESS
        return self.runtime.respond_committed(group.group_id, id, HEARTBEAT, error, None)

    cdef bint may_be_released(self, ConsumerGroup group, ConsumerMember member) except -1:
        """Whether no other member owns any partition that the member waits for."""
        cdef Assignment target = member.target
        cdef Py_ssize_t n
        cdef int32_t at, start = 0
        cdef TopicId topic
        cdef TopicUse use
        if target is None:
            return True
        for n in range(target.topic_count):
            topic = <TopicId>target.topics[n]
            use = group.uses.get(topic)
            for at in range(start, target.ends[n]):
                if (use is not None and not use.is_free(target.partitions[at])
                        and not member.assigned.holds(topic, target.partitions[at])):
                    return False
            start = target.ends[n]
        return True

    cdef int leave(self, int64_t id, ConsumerGroup group, tuple leaving) except -1:
        cdef ConsumerProtocol consumer = self.consumer
        cdef int error = self.runtime.partitions.refusal(group.group_id, False), code
        cdef list rows = []
        cdef dict gone = {}
        cdef str name
        cdef bint refused = False
        if error != NONE:
            return self.runtime.respond(id, LEAVE_GROUP, error, None)
        for member_id, instance in leaving:
            name = member_id
            code = NONE
            if instance is not None:
                if group.instances.get(instance) not in group.members:
                    code = UNKNOWN_MEMBER_ID
                elif member_id and group.instances[instance] != member_id:
                    code = FENCED_INSTANCE_ID
                else:
                    name = group.instances[instance]
            elif member_id not in group.members:
                code = UNKNOWN_MEMBER_ID
            if code == NONE:
                gone[name] = None
            refused |= code != NONE
            rows.append((member_id, instance, code))
        if gone:
            error = write_error(write_records(
                consumer, group.group_id, fence_members(consumer, group, list(gone))))
        if error != NONE:
            self.runtime.respond(id, LEAVE_GROUP, error, None)
        else:
            respond_committed(consumer, (group.group_id,), id, LEAVE_GROUP,
                              tuple(rows) if refused else leaving, None)
        return consumer.finish_event()
