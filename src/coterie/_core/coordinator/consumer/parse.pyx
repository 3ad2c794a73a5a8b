"""Records of consumer groups from their bytes, for a load.

What no consumer group is concerned by is None: offsets, unknown kinds. A value that cannot be read,
or of an unknown version, is CorruptData, as Kafka's serde throws.
Source: GroupCoordinatorRecordSerde.java. Rules: docs/rules/log-format.md#keys.
"""
from libc.stdint cimport int32_t

from coterie._core.coordinator.consumer.group cimport (
    CLASSIC_GROUP, CURRENT, GROUP_EPOCH, MEMBER, OFFSET, OTHER_GROUP, PARTITION_METADATA, REGEX,
    TARGET, TARGET_EPOCH, Current, Record, new_record, tombstone)
from coterie._core.coordinator.consumer.image cimport MetadataImage
from coterie._core.coordinator.consumer.values cimport (
    Assignment, ClassicPart, MemberFields, Resolved, TopicId, new_assignment, no_partitions)
from libc.stdlib cimport free, malloc

from base64 import urlsafe_b64decode

from coterie._core.codec.text import decode_utf8
from coterie._core.codec.schema import decode_key, decode_value
from coterie.errors import CorruptData

# A group takes 8 bytes for each partition of a topic, so a damaged number must not count.
LAST_PARTITION = 9_999_999

# Versions of the keys that make a group of another type.
OTHER_GROUPS = dict.fromkeys((10, 11, 12, 13, 14), "share") | dict.fromkeys(
    (17, 18, 19, 20, 21, 22, 23), "streams")
OTHER_EPOCHS = (11, 17)            # without the record of its epoch there is no such group


cdef Assignment assignment_of(list rows, MetadataImage image):
    """An assignment of decoded rows; of a topic that comes twice the last counts."""
    cdef dict by_topic = {}
    for row in rows:
        numbers = sorted(set(row["partitions"]))
        if numbers:
            if numbers[0] < 0 or max(numbers) > LAST_PARTITION:
                raise CorruptData(f"no topic has partitions {numbers[0]} to {max(numbers)}")
            by_topic[image.topic_id(urlsafe_b64decode(row["topicId"] + "=="))] = numbers
    return assignment_from(by_topic)


def assignment_from(dict by_topic not None):
    """Make an assignment of sorted partitions by TopicId; each topic has some."""
    cdef list ordered
    cdef int32_t* ends
    cdef int32_t* partitions
    cdef int32_t count = 0, total = 0
    cdef Py_ssize_t n
    if not by_topic:
        return no_partitions()
    ordered = sorted(by_topic, key=order_of)
    for numbers in by_topic.values():
        total += <int32_t>len(numbers)
    ends = <int32_t*>malloc((len(ordered) + total) * sizeof(int32_t))
    if ends == NULL:
        raise MemoryError
    partitions = ends + len(ordered)
    try:
        for n in range(len(ordered)):
            for number in by_topic[ordered[n]]:
                partitions[count] = number
                count += 1
            ends[n] = count
        return new_assignment(ordered, ends, partitions)
    finally:
        free(ends)


def order_of(TopicId topic not None):
    return topic.upper, topic.lower


def parse_record(bytes key, bytes value, MetadataImage image not None):
    """Return (group id, Record) of a record of a consumer group or a classic one; else None."""
    cdef int kind
    cdef Record record
    cdef Current current
    if key is None or len(key) < 2:
        return None
    kind = int.from_bytes(key[:2], "big", signed=True)
    if kind in (0, OFFSET):
        return decode_key(key)["data"]["group"], (
            tombstone(OFFSET, None) if value is None else new_record(OFFSET, None, None))
    if kind in OTHER_GROUPS and (value is not None or kind in OTHER_EPOCHS):
        size = int.from_bytes(key[2:4], "big")
        return decode_utf8(key[4:4 + size]), (
            tombstone(OTHER_GROUP, None) if value is None
            else new_record(OTHER_GROUP, OTHER_GROUPS[kind], None))
    if kind not in (CLASSIC_GROUP, GROUP_EPOCH, PARTITION_METADATA, MEMBER, TARGET_EPOCH, TARGET,
                    CURRENT, REGEX):
        return None
    fields = decode_key(key)["data"]
    group_id = fields.get("groupId", fields.get("group"))
    name = fields.get("memberId", fields.get("regularExpression"))
    if value is None:
        return group_id, tombstone(kind, name)
    record = new_record(kind, name, None)
    if kind in (CLASSIC_GROUP, PARTITION_METADATA):
        return group_id, record
    data = decode_value(kind, value)["data"]
    if kind == GROUP_EPOCH:
        record.epoch = data["epoch"]
        record.hash = data.get("metadataHash", 0)
    elif kind == TARGET_EPOCH:
        record.epoch = data["assignmentEpoch"]
    elif kind == TARGET:
        record.value = assignment_of(data["topicPartitions"], image)
    elif kind == CURRENT:
        current = Current.__new__(Current)
        current.epoch, current.previous_epoch = data["memberEpoch"], data["previousMemberEpoch"]
        current.state = data["state"] if data["state"] in (0, 1, 2) else 127
        current.assigned = assignment_of(data["assignedPartitions"], image)
        current.revoking = assignment_of(data["partitionsPendingRevocation"], image)
        record.value = current
    elif kind == REGEX:
        record.value = resolved_of(data)
    else:
        record.value = fields_of(data, image)
    return group_id, record


cdef Resolved resolved_of(dict data):
    cdef Resolved made = Resolved.__new__(Resolved)
    made.topics = frozenset(data["topics"])
    made.version, made.at_ms = data["version"], data["timestamp"]
    return made


cdef MemberFields fields_of(dict data, MetadataImage image):
    cdef MemberFields made = MemberFields.__new__(MemberFields)
    cdef ClassicPart part
    made.instance_id, made.rack_id = data["instanceId"], data["rackId"]
    made.client_id, made.client_host = data["clientId"], data["clientHost"]
    made.names = image.names_of(tuple(data["subscribedTopicNames"]))
    made.regex = data["subscribedTopicRegex"]
    made.rebalance_timeout_ms = data["rebalanceTimeoutMs"]
    made.assignor = data["serverAssignor"]
    classic = data.get("classicMemberMetadata")
    if classic is not None:
        part = made.classic = ClassicPart.__new__(ClassicPart)
        part.session_timeout_ms = classic["sessionTimeoutMs"]
        part.protocols = tuple([(one["name"], one["metadata"])
                                for one in classic["supportedProtocols"]])
    return made
