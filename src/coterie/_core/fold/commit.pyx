"""The rare cases of parsing a commit: values of old versions, non-ASCII names, faults.

The usual case is inlined from commit.pxd. This is the rest: values read by the table of messages,
names as Java would read them, and a fault in words.
Knows single records; knows no batches and no state. Cost: a walk over the fields of a value, and
Python objects for names and faults.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

from coterie._core.codec.batch cimport Record
from coterie._core.codec.cursor cimport OK, Status, load_i16, load_i64
from coterie._core.codec.layout cimport MAX_FIELDS, Layout
from coterie._core.codec.schema cimport slot_of, value_layout, versions_of, walk_group
from coterie._core.codec.walk cimport Span, Versions, number_at, walk_value

from coterie._core.codec.schema import decode_key, decode_value
from coterie._core.codec.text import decode_utf8
from coterie.errors import CorruptData

cdef const Versions* COMMITS = versions_of(KEY_OFFSET_MAX)
cdef Layout OFFSET_COMMIT = value_layout(KEY_OFFSET_MAX)
cdef int OFFSET = slot_of(OFFSET_COMMIT, "offset")
cdef int LEADER_EPOCH = slot_of(OFFSET_COMMIT, "leaderEpoch")
cdef int METADATA = slot_of(OFFSET_COMMIT, "metadata")
cdef int COMMIT_TIMESTAMP = slot_of(OFFSET_COMMIT, "commitTimestamp")
cdef int EXPIRE_TIMESTAMP = slot_of(OFFSET_COMMIT, "expireTimestamp")
cdef int TOPIC_ID = slot_of(OFFSET_COMMIT, "topicId")


cdef Status read_any_value(const uint8_t* value, int32_t size, Commit* out) noexcept nogil:
    cdef Span spans[MAX_FIELDS]
    cdef Status status = walk_value(value, size, COMMITS, spans, NULL)
    if status != OK:
        return status
    out.offset = number_at(&spans[OFFSET], -1)
    out.leader_epoch = <int32_t>number_at(&spans[LEADER_EPOCH], -1)
    out.metadata, out.metadata_size = spans[METADATA].at, spans[METADATA].size
    out.commit_timestamp = number_at(&spans[COMMIT_TIMESTAMP], -1)
    out.expire_timestamp = number_at(&spans[EXPIRE_TIMESTAMP], -1)
    return OK


cdef void read_topic_id(const uint8_t* value, int32_t size, int64_t* high,
                        int64_t* low) noexcept nogil:
    cdef Span spans[MAX_FIELDS]
    high[0] = low[0] = 0
    if walk_value(value, size, COMMITS, spans, NULL) == OK and spans[TOPIC_ID].at != NULL:
        high[0], low[0] = load_i64(spans[TOPIC_ID].at), load_i64(spans[TOPIC_ID].at + 8)


cdef Status check_group_value(const uint8_t* value, int32_t size) noexcept nogil:
    cdef Span spans[MAX_FIELDS]
    return walk_group(value, size, spans, NULL)


cdef bytes canonical(bytes name):
    cdef bytes text = decode_utf8(name).encode("utf-8")
    return text if len(text) <= 0xFFFF else name        # a longer one would not fit a key


cdef bytes group_id_of(const Record* record):
    cdef int32_t size = load_i16(record.key + 2) if record.key_size >= 4 else -1
    if size < 0 or size > record.key_size - 4:
        return None
    return canonical(record.key[4:4 + size])


cdef tuple record_of(const Record* record):
    return (record.offset, record.timestamp, load_i16(record.key), record.key[:record.key_size],
            None if record.value_size < 0 else record.value[:record.value_size])


cdef bytes commit_key(bytes group, bytes topic, int32_t partition):
    # A canonical name may be longer than 32,767 bytes, so the lengths are unsigned.
    return (len(group).to_bytes(2, "big") + group + len(topic).to_bytes(2, "big") + topic
            + partition.to_bytes(4, "big", signed=True))


cdef str detail_of(const Record* record):
    cdef bytes key = None if record.key_size < 0 else record.key[:record.key_size]
    cdef bytes value = None if record.value_size < 0 else record.value[:record.value_size]
    if key is None:
        return "a record without a key"
    try:
        decode_value(decode_key(key)["version"], value)
    except CorruptData as error:
        return str(error)
    return "a record that Kafka's reader refuses"
