"""Conversions between the protocols, and departures, which may cause them.

Source: GroupMetadataManager.java (convertToConsumerGroup, convertToClassicGroup,
consumerGroupLeave, consumerGroupFenceMember).
"""
cimport cython
from libc.stdint cimport int32_t, int64_t

from coterie._core.codec.schema import decode_assignment, decode_subscription, encode_assignment
from coterie._core.coordinator.classic.group cimport (
    GroupMetadata, MemberMetadata, group_batch, new_group as new_classic_group, new_member,
    next_member)
from coterie._core.coordinator.codes cimport (
    COORDINATOR_LOAD_IN_PROGRESS, FENCED_INSTANCE_ID, GROUP_ID_NOT_FOUND, NONE, NOT_COORDINATOR,
    REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID, UNKNOWN_SERVER_ERROR)
from coterie._core.coordinator.consumer.group cimport (
    CLASSIC_GROUP, CURRENT, EMPTIED_HAS_TARGET, MEMBER, PARTITION_EPOCHS, REGEX, STABLE_MEMBER,
    TARGET, ConsumerGroup, ConsumerMember, Current, Record, Timers, epoch_record, group_tombstones,
    new_current, new_group, new_record, target_epoch_record, tombstone)
from coterie._core.coordinator.consumer.group import assignment_from
from coterie._core.coordinator.consumer.protocol cimport (
    JOIN, LEAVE, LEAVE_FOR_NOW, REBALANCE, SESSION, SYNC, ConsumerProtocol, Heartbeat, Waiting,
    pending_writes, show_member, write_records)
from coterie._core.coordinator.consumer.reconcile cimport reconciled, subscribed
from coterie._core.coordinator.consumer.values cimport (
    Assignment, ClassicPart, MemberFields, MetadataImage, Names, Resolved, TopicId, add_count,
    at_epoch, no_partitions, utf16_sorted)
from coterie._core.coordinator.consumer.values import utf16_units
from coterie._core.coordinator.runtime cimport (
    BY_REBALANCE_TIMEOUT, BY_SESSION_TIMEOUT, BY_SYNC_TIMEOUT, CONSUMER, NO_TIMER, STABLE, Group,
    Request)
from coterie._core.coordinator.runtime import KafkaThrows

from coterie.errors import CorruptData


# ---- A classic group as records of a consumer group, and a consumer group as a classic one -------
# Both ways members keep their ids and what is assigned to them. What the consumer protocol's bytes
# say goes by the image: topics that it does not have are left out. Changes no group.
# Source: ConsumerGroup.java (fromClassicGroup), ClassicGroup.java (fromConsumerGroup),
# modern/MemberAssignment, Utils.java (toConsumerProtocolAssignment).

cdef dict by_topic(rows, MetadataImage image):
    """Partitions of topics that exist, by TopicId; of a topic that comes twice all count."""
    cdef dict made = {}
    for row in rows or ():
        topic = image.topics.get(row["topic"])
        if topic is not None:
            made.setdefault(topic, set()).update(row["partitions"])
    return {topic: sorted(numbers) for topic, numbers in made.items() if numbers}


cdef tuple read_subscription(bytes metadata, MetadataImage image):
    """(names, rack, owned partitions by topic id) of a subscription; CorruptData."""
    read = decode_subscription(metadata)
    if read is None:
        raise CorruptData("a subscription without bytes")
    fields = read["data"]
    return (tuple(fields["topics"]), fields.get("rackId"),
            {(<TopicId>topic).raw: tuple(numbers) for topic, numbers in by_topic(
                fields.get("ownedPartitions"), image).items()})


cdef bytes written_assignment(Assignment assignment, bytes metadata):
    """An assignment in the version of a member's subscription; topics that are gone left out."""
    cdef TopicId topic
    cdef list rows = []
    version = int.from_bytes(metadata[:2], "big")       # never negative: it was read before
    for topic, (_, partitions) in zip(assignment.topics, assignment.rows()):
        if topic.name is not None:
            rows.append({"topic": topic.name, "partitions": list(partitions)})
    return encode_assignment({"version": version, "data": {
        "assignedPartitions": rows, "userData": None}})


cdef Assignment read_assignment(bytes raw, MetadataImage image):
    if not raw:
        return no_partitions()
    data = decode_assignment(raw)["data"]
    if data.get("userData"):
        raise CorruptData("an assignment with user data")
    return assignment_from(by_topic(data["assignedPartitions"], image), False)


cdef list consumer_records(GroupMetadata group, MetadataImage image, int rules):
    """The records that make a classic group a consumer group; CorruptData if that is impossible.

    Thrown before the first generation of a group with members, and for members that do not support
    its protocol.
    """
    cdef MemberMetadata member
    cdef MemberFields fields
    cdef Assignment assigned
    cdef dict members = {}
    cdef list records = [tombstone(CLASSIC_GROUP, None)], targets = [], currents = []
    cdef set names = set()
    for member in group.all_members:
        members[member.member_id] = member
    for member_id in utf16_sorted(members):
        member = <MemberMetadata>members[member_id]
        texts, rack, _ = read_subscription(member.metadata_of(group.protocol_name), image)
        fields = MemberFields.__new__(MemberFields)
        fields.instance_id, fields.rack_id = member.group_instance_id, rack
        fields.client_id, fields.client_host = member.client_id, member.client_host
        fields.names, fields.regex = image.names_of(texts), ""
        fields.rebalance_timeout_ms = member.rebalance_timeout_ms
        fields.classic = classic_part(member.session_timeout_ms, member.protocols)
        names.update(texts)
        records.append(new_record(MEMBER, member_id, fields))
        assigned = read_assignment(member.assignment, image)
        targets.append(new_record(TARGET, member_id, assigned))
        currents.append(new_record(CURRENT, member_id, new_current(
            STABLE_MEMBER, group.generation_id, group.generation_id,
            at_epoch(assigned, group.generation_id) if rules & PARTITION_EPOCHS else assigned,
            no_partitions())))
    return [*records, epoch_record(group.generation_id, image.hash_of(names)), *targets,
            target_epoch_record(group.generation_id, 0), *currents]


cdef ClassicPart classic_part(int32_t session_ms, tuple protocols):
    cdef ClassicPart part = ClassicPart.__new__(ClassicPart)
    part.session_timeout_ms, part.protocols = session_ms, protocols
    return part


cdef GroupMetadata classic_group(ConsumerGroup group, object leaving, ConsumerMember replaced,
                                 str new_id, MemberFields fields, int ties, int64_t now_ms):
    """The classic group that a consumer group becomes: Stable, with members' targets assigned.

    Without the members that leave; with a static member's new id and fields in place of the
    replaced one's.
    """
    cdef GroupMetadata made = new_classic_group(group.group_id, now_ms)
    cdef ConsumerMember member
    cdef dict rows = {}
    for member in group.order:
        if member is not replaced and member.member_id not in leaving:
            rows[member.member_id] = member
    for member_id in utf16_sorted(rows):
        member = <ConsumerMember>rows[member_id]
        add_classic(made, member_id, member.fields, member.target)
    if replaced is not None:               # joins last; the first one leads
        add_classic(made, new_id, fields, replaced.target)
    made.generation_id = group.epoch       # a bump by the same records comes later
    made.protocol_type = "consumer"
    made.ties = ties
    made.protocol_name = made.vote()
    made.state = STABLE
    made.subscribe()
    return made


cdef int add_classic(GroupMetadata group, str member_id, MemberFields fields,
                     Assignment target) except -1:
    """Add a member of a consumer group that speaks the classic protocol to a classic group."""
    cdef ClassicPart part = fields.classic
    cdef MemberMetadata member = new_member(
        member_id, fields.instance_id, part.protocols, "consumer", fields.rebalance_timeout_ms,
        part.session_timeout_ms)
    member.client_id, member.client_host = fields.client_id, fields.client_host
    member.assignment = written_assignment(no_partitions() if target is None else target,
                                           part.protocols[0][1])
    group.add_member(member, None)
    return 0


# ---- upgrades of classic groups to consumer groups, and downgrades -------------------------------
# Source: GroupMetadataManager.java (maybeUpgradeClassicGroup, convertToClassicGroup).

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
        records += consumer_records(classic, protocol.image, protocol.rules)
    except CorruptData:
        protocol.error = GROUP_ID_NOT_FOUND
        return None
    except KafkaThrows:
        protocol.error = UNKNOWN_SERVER_ERROR
        return None
    group = new_group(classic.group_id, protocol.rules)
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


# ---- members that leave, are fenced, or whose timers fire ----------------------------------------
# Source: GroupMetadataManager.java (consumerGroupLeave, consumerGroupFenceMember).

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
            member.state, LEAVE_FOR_NOW, member.previous_epoch,
            at_epoch(member.assigned, 0) if group.rules & PARTITION_EPOCHS else member.assigned,
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
    if group.rules & EMPTIED_HAS_TARGET and len(member_ids) == len(group.members):
        records.append(target_epoch_record(group.epoch + 1, 0))
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
