"""Heartbeats of the consumer protocol: find the member, then bring it up to date.

A heartbeat that changes nothing costs two look-ups and a timer.
Source: GroupMetadataManager.java (consumerGroupHeartbeat, classicGroupJoinToConsumerGroup).
"""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.classic.group cimport GroupMetadata
from coterie._core.coordinator.codes cimport (
    FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH, GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED,
    INVALID_REQUEST, NONE, UNKNOWN_MEMBER_ID, UNRELEASED_INSTANCE_ID, UNSUPPORTED_ASSIGNOR,
    write_error)
from coterie._core.coordinator.consumer.departures cimport leave_group
from coterie._core.coordinator.consumer.group cimport (
    CLASSIC_GROUP, CURRENT, KAFKA_4_1_2, KAFKA_4_2, MEMBER, PARTITION_METADATA, STABLE_MEMBER,
    TARGET, UNREVOKED_PARTITIONS, ConsumerGroup, ConsumerMember, Current, Timers, epoch_record,
    new_current, new_group, new_member, new_record, tombstone)
from coterie._core.coordinator.consumer.group_type cimport downgrade_by, may_downgrade, upgraded
from coterie._core.coordinator.consumer.member_fields cimport (
    hash_with, subscribed, updated_fields, will_be_homogeneous)
from coterie._core.coordinator.consumer.protocol cimport (
    LEAVE, LEAVE_FOR_NOW, REFRESH_MS, ConsumerProtocol, Heartbeat)
from coterie._core.coordinator.consumer.reconcile cimport all_within, reconciled
from coterie._core.coordinator.consumer.resolutions cimport regex_step
from coterie._core.coordinator.consumer.targets cimport assign_targets
from coterie._core.coordinator.consumer.values cimport Assignment, MemberFields, no_partitions
from coterie._core.coordinator.consumer.writes cimport write_records
from coterie._core.coordinator.outputs cimport EMPTY
from coterie._core.coordinator.runtime cimport CLASSIC, CONSUMER, Group

from coterie.operations import NUMBER

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


cdef tuple settled_answer(ConsumerProtocol protocol, Group found, str group_id, str member_id,
                          int32_t epoch, tuple details):
    """The payload if a heartbeat names nothing and there is nothing to do, as mostly; else None.

    What `answer_heartbeat` finds out step by step, looked at together: the short way for members
    without an instance id that have all partitions of their target.
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
            or (details is not member.settled and not names_nothing(member.fields, details))
            or protocol.runtime.partitions.refusal(group_id, False) != NONE):
        return None
    member.settled = details
    return unchanged_answer(member, start_session(
        protocol, group_id, timers_of_member(protocol, group_id, member)))


cdef bint names_nothing(MemberFields fields, tuple details) except -1:
    """Whether a heartbeat names nothing, and comes from the client that a member is."""
    return (details[RACK_ID] is None and details[REBALANCE_TIMEOUT_MS] == -1
            and details[NAMES] is None and details[REGEX] is None
            and details[ASSIGNOR] is None and details[OWNED] is None
            and fields.classic is None
            and <str>details[CLIENT_ID] == fields.client_id
            and <str>details[CLIENT_HOST] == fields.client_host)


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
            group = new_group(r.group_id, protocol.revision)
    if len(group.members) >= protocol.max_size and r.member_id not in group.members:
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
    if r.epoch == member.epoch or (r.epoch == 0 and protocol.revision >= KAFKA_4_2):
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
    bump = group.epoch == 0 or fields.names is not had.names
    if (r.classic is None or protocol.revision >= KAFKA_4_1_2) and (
            fields.regex or had.regex or group.regex_count):
        bump |= regex_step(protocol, group, had, fields, records)
        if protocol.error != NONE:
            return None
        if had.regex and had.regex != fields.regex and group.regex_count.get(had.regex) == 1:
            lost_regex = had.regex
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
        return downgrade_by(protocol, group, r, member, replaced, fields, bump, records)
    if epoch > target_epoch:
        target = assign_targets(protocol, group, member, fields, replaced, homogeneous, epoch,
                                records)
        target_epoch = epoch
    else:
        holder = member
        if fields.instance_id is not None and replaced is None:
            holder = group.members.get(group.instances.get(fields.instance_id, ""), member)
        target = no_partitions() if holder.target is None else holder.target
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
