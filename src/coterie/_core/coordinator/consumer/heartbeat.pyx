"""Heartbeats of the consumer protocol, and classic members in consumer groups.

A heartbeat that changes nothing costs two look-ups and a timer.
Source: GroupMetadataManager.java (consumerGroupHeartbeat, classicGroupJoinToConsumerGroup).
"""
cimport cython
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.classic.group cimport GroupMetadata
from coterie._core.coordinator.classic.protocol cimport Joins
from coterie._core.coordinator.codes cimport (
    FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH, GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED,
    ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, INVALID_REQUEST, INVALID_SESSION_TIMEOUT,
    MEMBER_ID_REQUIRED, NONE, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID, UNKNOWN_SERVER_ERROR,
    UNRELEASED_INSTANCE_ID, UNSUPPORTED_ASSIGNOR, write_error)
from coterie._core.coordinator.consumer.assignors cimport TopicUse
from coterie._core.coordinator.consumer.conversion cimport (
    downgrade_by, expire_member, fence_members, leave_group, may_downgrade, read_subscription,
    upgraded, written_assignment)
from coterie._core.coordinator.consumer.group cimport (
    ASSIGNMENT_INTERVAL, ASSIGNOR_BUMPS, CLASSIC_GROUP, CLASSIC_JOIN_ENDS_REGEX, CURRENT,
    DISABLED_JOINS, EPOCHS_FROM_1, EPOCH_0_PASSES, KNOWN_INSTANCE_HAS_ROOM, MEMBER,
    PARTITION_METADATA, STABLE_MEMBER, TARGET, UNREADABLE_IS_REFUSED, UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS, ConsumerGroup, ConsumerMember, Current, Timers, epoch_record,
    group_tombstones, new_current, new_group, new_member, new_record, preferred, tombstone)
from coterie._core.coordinator.consumer.protocol cimport (
    JOIN, LEAVE, LEAVE_FOR_NOW, REFRESH_MS, SYNC, Answer, Before, ConsumerProtocol, Heartbeat,
    PendingWrites, encoded, pending_writes, respond_committed, write_records)
from coterie._core.coordinator.consumer.reconcile cimport (
    all_within, assign_targets, assignor_of, hash_with, reconciled, regex_step, run_tasks,
    subscribed, updated_fields, will_be_homogeneous)
from coterie._core.coordinator.consumer.values cimport (
    Assignment, ClassicPart, MemberFields, TopicId, no_partitions)
from coterie._core.coordinator.runtime cimport (
    CLASSIC, CONSUMER, EMPTY, EVERY_TYPE, NO_GROUP, NO_TIMER, OTHER, Group, Request, Runtime,
    new_request, Operation)

from coterie.errors import CorruptData
from coterie.base.operations import NUMBER


# ---- heartbeats of the consumer protocol: find the member, then bring it up to date --------------
# A heartbeat that changes nothing costs two look-ups and a timer.
# Source: GroupMetadataManager.java (consumerGroupHeartbeat, classicGroupJoinToConsumerGroup).

cdef int HEARTBEAT = NUMBER["consumer_group_heartbeat"]

cdef enum:                         # where the details of a heartbeat have what
    RACK_ID = 0
    REBALANCE_TIMEOUT_MS = 1
    NAMES = 2
    REGEX = 3
    ASSIGNOR = 4
    OWNED = 5
    CLIENT_ID = 6
    CLIENT_HOST = 7
    INTERVAL_MS = 2                # and where an answer has the interval


cdef int register_heartbeats(ConsumerProtocol protocol) except -1:
    """Take the heartbeats, resolutions and timers of a coordinator's consumer groups."""
    protocol.expire_member, protocol.run_tasks = expire_member, run_tasks
    protocol.runtime.register("consumer_group_heartbeat", protocol, decide_heartbeat, EVERY_TYPE)
    protocol.runtime.register("run_tasks", protocol, decide_run_tasks, NO_GROUP)


cdef int decide_heartbeat(component, Operation op) except -1:
    cdef ConsumerProtocol protocol = <ConsumerProtocol>component
    cdef Heartbeat request
    cdef tuple payload
    payload = steady_answer(protocol, op.group, op.group_id, op.member_id, op.instance,
                            op.generation_id, op.details)
    if payload is not None:
        return protocol.runtime.respond_committed(op.group_id, op.id, op.number, NONE, payload)
    request = Heartbeat.__new__(Heartbeat)
    request.group_id = op.group_id
    request.member_id = op.member_id
    request.epoch = op.generation_id
    request.instance_id = op.instance
    (request.rack_id, request.rebalance_timeout_ms, request.names, request.regex,
     request.assignor, request.owned, request.client_id, request.client_host,
     request.version) = op.details
    return answer_heartbeat(protocol, op.id, op.group, request)


cdef int decide_run_tasks(component, Operation op) except -1:
    run_tasks(<ConsumerProtocol>component)
    return (<ConsumerProtocol>component).show_groups()


cdef int answer_heartbeat(ConsumerProtocol protocol, int64_t id, Group group,
                          Heartbeat request) except -1:
    cdef list records = []
    cdef tuple payload = None
    cdef int error = check_request(protocol, request)
    if error == NONE:
        error = protocol.runtime.partitions.refusal(request.group_id, False)
    if error == NONE:
        protocol.error = NONE
        payload = join_or_heartbeat(protocol, group, request, records)
        error = protocol.error
    if error == NONE and records:
        error = write_error(write_records(protocol, request.group_id, records))
    if error != NONE:
        protocol.runtime.respond(id, HEARTBEAT, error, None)
    else:
        protocol.runtime.respond_committed(request.group_id, id, HEARTBEAT, NONE, payload)
    return protocol.finish_event()


cdef ConsumerMember steady_member(ConsumerProtocol protocol, Group found, str group_id,
                                  str member_id, str instance, int32_t epoch):
    """The member, if a heartbeat that names nothing changes nothing; else None.

    What `answer_heartbeat` finds out step by step, looked at together: the short way for members
    that have all partitions of their target.
    """
    cdef ConsumerGroup group
    cdef ConsumerMember member
    if found is None or found.group_type != CONSUMER or epoch <= 0 or not member_id:
        return None
    group = <ConsumerGroup>found
    member = group.members.get(member_id)
    if (member is None or member.epoch != epoch or member.state != STABLE_MEMBER
            or group.target_epoch != epoch or group.epoch != epoch
            or epoch < group.refresh_epoch
            or protocol.runtime.wheel.clock_ms >= group.refresh_ms
            or group.regex_count
            or (instance is not None and not is_instance(group, member, instance))
            or protocol.runtime.partitions.refusal(group_id, False) != NONE):
        return None
    return member


cdef bint is_instance(ConsumerGroup group, ConsumerMember member, str instance) except -1:
    return (instance and member.fields.instance_id == instance
            and group.instances.get(instance) == member.member_id)


cdef tuple steady_answer(ConsumerProtocol protocol, Group found, str group_id, str member_id,
                         str instance, int32_t epoch, tuple details):
    """The response to a steady heartbeat, which names and changes nothing; else None."""
    cdef ConsumerMember member = steady_member(protocol, found, group_id, member_id, instance,
                                               epoch)
    if member is None or (details is not member.last_steady_heartbeat
                          and not names_nothing(member.fields, details)):
        return None
    member.last_steady_heartbeat = details
    return unchanged_answer(member, start_session(
        protocol, group_id, timers_of_member(protocol, group_id, member)))


cdef object steady_interval(ConsumerProtocol protocol, Group found, str group_id, str member_id,
                            str instance, int32_t epoch, str client_id, str client_host):
    """Take a heartbeat that names nothing; its interval, or None if it is not steady."""
    cdef ConsumerMember member = steady_member(protocol, found, group_id, member_id, instance,
                                               epoch)
    if member is None or not is_client(member.fields, client_id, client_host):
        return None
    return start_session(protocol, group_id, timers_of_member(protocol, group_id, member))


cdef bint is_client(MemberFields fields, str client_id, str client_host) except -1:
    """Whether a heartbeat comes from the client that a member is."""
    return (fields.classic is None and client_id == fields.client_id
            and client_host == fields.client_host)


cdef bint names_nothing(MemberFields fields, tuple details) except -1:
    """Whether a heartbeat names nothing, and comes from the client that a member is."""
    return (details[RACK_ID] is None and details[REBALANCE_TIMEOUT_MS] == -1
            and details[NAMES] is None and details[REGEX] is None
            and details[ASSIGNOR] is None and details[OWNED] is None
            and is_client(fields, <str>details[CLIENT_ID], <str>details[CLIENT_HOST]))


cdef int check_request(ConsumerProtocol protocol, Heartbeat r) except -1:
    """What is wrong with a request by itself."""
    if not r.member_id and (r.version >= 1 or r.epoch > 0 or r.epoch == LEAVE):
        return INVALID_REQUEST
    if not r.group_id or r.instance_id == "" or r.rack_id == "":
        return INVALID_REQUEST
    if r.epoch == 0 and (r.rebalance_timeout_ms == -1 or r.owned is None or r.owned
                         or (r.names is None and r.regex is None)):
        return INVALID_REQUEST
    if r.epoch < LEAVE_FOR_NOW or (r.epoch == LEAVE_FOR_NOW and r.instance_id is None):
        return INVALID_REQUEST
    if r.assignor is not None and r.assignor not in protocol.assignors:
        return UNSUPPORTED_ASSIGNOR
    return NONE


cdef tuple join_or_heartbeat(ConsumerProtocol protocol, Group found, Heartbeat r, list records):
    """Find the member, then update it; the payload of the response."""
    cdef ConsumerGroup group = None
    cdef ConsumerMember member, replaced = None
    cdef bint is_new
    if found is not None and found.group_type == CONSUMER:
        group = <ConsumerGroup>found
    if r.epoch < 0:
        if group is None:
            return protocol.refuse(GROUP_ID_NOT_FOUND)
        return leave_group(protocol, group, r, records)
    if group is None:
        if r.epoch != 0:
            return protocol.refuse(GROUP_ID_NOT_FOUND)
        if found is not None:
            if found.group_type != CLASSIC:
                return protocol.refuse(GROUP_ID_NOT_FOUND)
            if (<GroupMetadata>found).state == EMPTY:
                records.append(tombstone(CLASSIC_GROUP, None))
            else:
                group = upgraded(protocol, <GroupMetadata>found, records)
                if group is None:
                    return None
        if group is None:
            group = new_group(r.group_id, protocol.rules)
    if not has_room(protocol, group, r.member_id, r.instance_id):
        return protocol.refuse(GROUP_MAX_SIZE_REACHED)
    if not r.member_id:
        r.member_id = protocol.new_member_id()
    member = find_member(protocol, group, r)
    if member is None:
        return None
    replaced, protocol.replaced = protocol.replaced, None
    is_new = replaced is None and not member.present
    if replaced is not None:
        replace_member(protocol, group, replaced, member, records)
    return update_member(protocol, group, r, member, replaced, is_new, records)


cdef bint has_room(ConsumerProtocol protocol, ConsumerGroup group, str member_id,
                   str instance) except -1:
    return (len(group.members) < protocol.max_size or member_id in group.members
            or (protocol.rules & KNOWN_INSTANCE_HAS_ROOM and instance in group.instances))


cdef tuple join_classic(ConsumerProtocol protocol, ConsumerGroup group, Heartbeat r, bint id_made,
                        list records):
    """Let a classic client join: see ``update_member``; None, and why not."""
    cdef ConsumerMember member = group.members.get(r.member_id), old = None
    cdef str known
    protocol.error = NONE
    if r.instance_id is None:
        if member is None:
            member = new_member(r.member_id)
        return update_member(protocol, group, r, member, None, not member.present, records)
    known = group.instances.get(r.instance_id)
    if known is None and not id_made or known is not None and known not in group.members:
        return protocol.refuse(UNKNOWN_MEMBER_ID)
    if not id_made:
        if known != r.member_id:
            return protocol.refuse(FENCED_INSTANCE_ID)
        return update_member(protocol, group, r, member, None, False, records)
    if known is None:
        return update_member(protocol, group, r, new_member(r.member_id), None, True, records)
    old = group.members[known]
    member = successor_of(protocol, old, r.member_id)
    replace_member(protocol, group, old, member, records)
    return update_member(protocol, group, r, member, old, False, records)


cdef ConsumerMember successor_of(ConsumerProtocol protocol, ConsumerMember old, str member_id):
    """A static member under a new id: all of the old one's, at epoch 0."""
    cdef ConsumerMember member = new_member(member_id)
    member.fields, member.state = old.fields, old.state
    member.assigned, member.revoking = old.assigned, old.revoking
    member.target, member.previous = old.target, old.previous
    member.epoch = member.previous_epoch = 0
    return member


cdef ConsumerMember find_member(ConsumerProtocol protocol, ConsumerGroup group, Heartbeat r):
    cdef ConsumerMember member = group.members.get(r.member_id), old
    cdef str known
    if r.instance_id is None:
        if member is None:
            if r.epoch != 0:
                protocol.error = UNKNOWN_MEMBER_ID
                return None
            member = new_member(r.member_id)
        protocol.error = check_epoch(protocol, member, r)
        return member if protocol.error == NONE else None
    known = group.instances.get(r.instance_id)
    if known is not None and known not in group.members:
        protocol.error = UNKNOWN_MEMBER_ID     # it had another instance id when it went
        return None
    if r.epoch == 0:
        if known is None:
            return new_member(r.member_id) if member is None else member
        old = group.members[known]
        if old.fields.classic is None and old.epoch != LEAVE_FOR_NOW:
            protocol.error = UNRELEASED_INSTANCE_ID
            return None
        protocol.replaced = old
        return successor_of(protocol, old, r.member_id)
    if known is None:
        protocol.error = UNKNOWN_MEMBER_ID
    elif known != r.member_id:
        protocol.error = FENCED_INSTANCE_ID
    else:
        protocol.error = check_epoch(protocol, member, r)
    return member if protocol.error == NONE else None


cdef int check_epoch(ConsumerProtocol protocol, ConsumerMember member, Heartbeat r) except -1:
    if r.epoch == member.epoch or (r.epoch == 0 and protocol.rules & EPOCH_0_PASSES):
        return NONE
    if (r.epoch < member.epoch and r.epoch == member.previous_epoch and r.owned is not None
            and all_within(r.owned, member.assigned)):
        return NONE
    return FENCED_MEMBER_EPOCH


cdef int replace_member(ConsumerProtocol protocol, ConsumerGroup group, ConsumerMember old,
                        ConsumerMember member, list records) except -1:
    """A static member comes back under another id, or its own."""
    records += (
        tombstone(CURRENT, old.member_id), tombstone(TARGET, old.member_id),
        tombstone(MEMBER, old.member_id), new_record(MEMBER, member.member_id, member.fields),
        new_record(TARGET, member.member_id,
                   no_partitions() if old.target is None else old.target),
        new_record(CURRENT, member.member_id, new_current(
            member.state, member.epoch, member.previous_epoch, member.assigned, member.revoking)))
    return 0


cdef tuple update_member(ConsumerProtocol protocol, ConsumerGroup group, Heartbeat r,
                         ConsumerMember member, ConsumerMember replaced, bint is_new, list records):
    """Bring the member, the group's epoch, the targets and the assignment up to date."""
    cdef MemberFields had = member.fields
    cdef MemberFields fields = updated_fields(protocol, member, r)
    cdef int32_t epoch = group.epoch, target_epoch = group.target_epoch
    cdef int64_t digest
    cdef object interval_ms = protocol.heartbeat_interval_ms
    cdef bint bump, homogeneous = group.homogeneous
    cdef Assignment target
    cdef Current current
    cdef ConsumerMember holder
    cdef str lost_regex = None
    cdef Timers timers
    cdef int error = NONE
    if fields is not had or is_new:
        records.append(new_record(MEMBER, member.member_id, fields))
    bump = fields.names is not had.names or (
        group.epoch == 0 and not group.rules & EPOCHS_FROM_1)
    if (r.classic is None or protocol.rules & CLASSIC_JOIN_ENDS_REGEX) and (
            fields.regex or had.regex or group.regex_count):
        bump |= regex_step(protocol, group, had, fields, records)
        if protocol.error != NONE:
            return None
        if had.regex and had.regex != fields.regex and group.regex_count.get(had.regex) == 1:
            lost_regex = had.regex
    if not bump and r.classic is None and group.rules & ASSIGNOR_BUMPS:
        bump = (assignor_of(protocol, group, member, fields, replaced)
                != preferred(group.assignor_count, protocol.assignors))
    if bump or protocol.runtime.wheel.clock_ms >= group.refresh_ms or epoch < group.refresh_epoch:
        digest = hash_with(protocol, group, had, fields, lost_regex, is_new)
        homogeneous = will_be_homogeneous(protocol, group, had, fields, is_new)
        if bump or digest != group.metadata_hash:
            epoch += 1
            records.append(epoch_record(epoch, digest))
        protocol.set_refresh(group, protocol.runtime.wheel.clock_ms + REFRESH_MS, epoch)
        if group.has_partition_metadata:
            records.append(tombstone(PARTITION_METADATA, None))
    if r.classic is not None and replaced is not None and may_downgrade(
            protocol, group, (replaced.member_id,), 1):
        return downgrade_by(protocol, group, r, member, replaced, fields,
                            epoch > target_epoch if group.rules & ASSIGNMENT_INTERVAL else bump,
                            records)
    if epoch > target_epoch and may_assign(protocol, group):
        target = assign_targets(protocol, group, member, fields, replaced, homogeneous, epoch,
                                records)
        target_epoch = epoch
    else:
        holder = member
        if fields.instance_id is not None and replaced is None:
            holder = group.members.get(group.instances.get(fields.instance_id, ""))
        target = (no_partitions() if holder is None or holder.target is None else holder.target)
    current = reconciled(group, member, target_epoch, target, r.owned,
                         subscribed(protocol, group, fields), fields is not had and (
                             fields.names is not had.names
                             or (fields.regex or "") != (had.regex or "")), &error)
    if error != NONE:
        return protocol.refuse(error)
    timers = timers_of_member(protocol, group.group_id, member)
    if current is not None:
        records.append(new_record(CURRENT, member.member_id, current))
        if r.classic is not None:
            pass                       # its join and sync timers are enough
        elif current.state == UNREVOKED_PARTITIONS:
            protocol.arm_rebalance(timers, current.epoch, fields.rebalance_timeout_ms)
        else:
            protocol.runtime.disarm(&timers.rebalance)
    if r.classic is None:              # else its session starts when the join is written
        interval_ms = start_session(protocol, group.group_id, timers)
    return heartbeat_answer(member, current, r, interval_ms)


cdef bint may_assign(ConsumerProtocol protocol, ConsumerGroup group) except -1:
    """Whether the interval since the group's last target is over."""
    cdef int64_t interval_ms
    if not group.rules & ASSIGNMENT_INTERVAL or not group.target_ms:
        return True
    interval_ms = protocol.setting(group.group_id, "consumer.assignment.interval.ms",
                                   protocol.assignment_interval_ms)
    return protocol.runtime.wheel.clock_ms >= group.target_ms + interval_ms


cdef inline Timers timers_of_member(ConsumerProtocol protocol, str group_id,
                                    ConsumerMember member):
    if member.timers is not None:
        return member.timers
    return protocol.timers_of(group_id, member.member_id)


cdef object start_session(ConsumerProtocol protocol, str group_id, Timers timers):
    """Start a member's session anew; the interval of its heartbeats."""
    if not protocol.group_configs:
        protocol.arm_session(timers, protocol.session_timeout_ms)
        return protocol.heartbeat_interval_ms
    protocol.arm_session(timers, protocol.setting(
        group_id, "consumer.session.timeout.ms", protocol.session_timeout_ms))
    return protocol.setting(group_id, "consumer.heartbeat.interval.ms",
                            protocol.heartbeat_interval_ms)


cdef tuple heartbeat_answer(ConsumerMember member, Current current, Heartbeat r,
                            object interval_ms):
    """The payload: member id, epoch, interval, and the assignment if it is to be shown."""
    cdef int32_t epoch = member.epoch if current is None else current.epoch
    cdef Assignment assigned = member.assigned if current is None else current.assigned
    if (r.epoch == 0 or (r.rebalance_timeout_ms != -1 and r.owned is not None
                         and (r.names is not None or r.regex is not None))
            or not assigned.equals(member.assigned)):
        return (member.member_id, epoch, interval_ms, assigned)
    if current is not None:
        return (member.member_id, epoch, interval_ms, None)
    return unchanged_answer(member, interval_ms)


cdef tuple unchanged_answer(ConsumerMember member, object interval_ms):
    """The payload for a member of which nothing has changed, made once."""
    cdef tuple answer = member.answer
    if answer is None or answer[INTERVAL_MS] != interval_ms:
        answer = member.answer = (member.member_id, member.epoch, interval_ms, None)
    return answer


# ---- joinGroup, SyncGroup, Heartbeat, LeaveGroup of classic clients in consumer groups -----------
# A join is a heartbeat of the consumer protocol with what the first protocol's metadata says; it is
# answered once its records are committed. A member hears of a new assignment by its heartbeats.
# Source: GroupMetadataManager.java (classicGroupJoinToConsumerGroup,
# classicGroupSyncToConsumerGroup, classicGroupHeartbeatToConsumerGroup,
# classicGroupLeaveToConsumerGroup). Rules: docs/rules/consumer-groups.md#classic-members.

cdef int CLASSIC_HEARTBEAT = NUMBER["heartbeat"], LEAVE_GROUP = NUMBER["leave_group"]
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


cdef int decide_join_group(component, Operation op) except -1:
    return (<ClassicMembers>component).join(new_request(op.id, op.number), <ConsumerGroup>op.group,
                                            op.member_id, op.instance, op.details)


cdef int decide_join_other(component, Operation op) except -1:
    cdef ClassicMembers members = <ClassicMembers>component
    cdef int error = members.runtime.partitions.refusal(op.group_id, False)
    return members.runtime.answer(new_request(op.id, op.number),
                                  INCONSISTENT_GROUP_PROTOCOL if error == NONE else error, "")


cdef int decide_sync_group(component, Operation op) except -1:
    return (<ClassicMembers>component).sync(new_request(op.id, op.number), <ConsumerGroup>op.group,
                                            op.generation_id, op.member_id, op.instance, op.details)


cdef int decide_classic_heartbeat(component, Operation op) except -1:
    return (<ClassicMembers>component).heartbeat(op.id, <ConsumerGroup>op.group, op.generation_id,
                                                 op.member_id, op.instance)


cdef int decide_leave_group(component, Operation op) except -1:
    return (<ClassicMembers>component).leave(op.id, <ConsumerGroup>op.group, op.details)


cdef int32_t rejoin_epoch(ConsumerGroup group) noexcept:
    """The epoch that a classic member must have: below it, it has to join again."""
    return group.target_epoch if group.rules & ASSIGNMENT_INTERVAL else group.epoch


@cython.final
cdef class ClassicMembers:
    """Members of the classic protocol in consumer groups."""

    def __cinit__(self, Runtime runtime not None, ConsumerProtocol consumer not None,
                  Joins joins not None):
        self.runtime, self.consumer, self.joins = runtime, consumer, joins
        runtime.register("join_group", self, decide_join_group, CONSUMER)
        runtime.register("join_group", self, decide_join_other, OTHER)
        runtime.register("sync_group", self, decide_sync_group, CONSUMER)
        runtime.register("heartbeat", self, decide_classic_heartbeat, CONSUMER)
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
        if consumer.policy == "disabled" and consumer.rules & DISABLED_JOINS:
            return self.runtime.answer(request, INCONSISTENT_GROUP_PROTOCOL, "")
        if not name:
            name = consumer.new_member_id()
        if not has_room(consumer, group, name, instance):
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
            return self.runtime.answer(
                request, INCONSISTENT_GROUP_PROTOCOL if consumer.rules & UNREADABLE_IS_REFUSED
                else UNKNOWN_SERVER_ERROR, "")
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
        if rejoin_epoch(group) > member.epoch and member.state != UNREVOKED_PARTITIONS:
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
            return self.runtime.respond(id, CLASSIC_HEARTBEAT, error, None)
        timers = consumer.timers_of(group.group_id, member_id)
        consumer.arm_session(timers, member.fields.classic.session_timeout_ms)
        if (member.epoch < rejoin_epoch(group) or member.state == UNREVOKED_PARTITIONS
                or (member.state == UNRELEASED_PARTITIONS
                    and self.may_be_released(group, member))):
            if timers.join == NO_TIMER:
                consumer.arm_other(timers, JOIN, member.fields.rebalance_timeout_ms)
            error = REBALANCE_IN_PROGRESS
        return self.runtime.respond_committed(group.group_id, id, CLASSIC_HEARTBEAT, error, None)

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
