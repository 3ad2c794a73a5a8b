"""A classic group as records of a consumer group, and a consumer group as a classic one.

Both ways members keep their ids and what is assigned to them. What the consumer protocol's bytes
say goes by the image: topics that it does not have are left out. Changes no group.
Source: ConsumerGroup.java (fromClassicGroup), ClassicGroup.java (fromConsumerGroup),
modern/MemberAssignment, Utils.java (toConsumerProtocolAssignment).
"""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.classic.group cimport GroupMetadata, new_group
from coterie._core.coordinator.classic.member cimport MemberMetadata, new_member
from coterie._core.coordinator.consumer.group cimport (
    CLASSIC_GROUP, CURRENT, MEMBER, STABLE_MEMBER, TARGET, ConsumerGroup, ConsumerMember,
    epoch_record, new_current, new_record, target_epoch_record, tombstone)
from coterie._core.coordinator.consumer.image cimport MetadataImage
from coterie._core.coordinator.consumer.values cimport (
    Assignment, ClassicPart, MemberFields, TopicId, no_partitions, utf16_sorted)
from coterie._core.coordinator.outputs cimport STABLE

from coterie._core.codec.schema import decode_assignment, decode_subscription, encode_assignment
from coterie._core.coordinator.consumer.parse import assignment_from
from coterie.errors import CorruptData


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
    return assignment_from(by_topic(data["assignedPartitions"], image))


cdef list consumer_records(GroupMetadata group, MetadataImage image):
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
            STABLE_MEMBER, group.generation_id, group.generation_id, assigned, no_partitions())))
    return [*records, epoch_record(group.generation_id, image.hash_of(names)), *targets,
            target_epoch_record(group.generation_id), *currents]


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
    cdef GroupMetadata made = new_group(group.group_id, now_ms)
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
