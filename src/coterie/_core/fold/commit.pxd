"""Offset commits parsed into C structs that borrow the record's bytes. Partly inlined.

The layouts are those of the table of messages. Two are hard-coded for speed, and tests compare them
with the table: the key, and the value of version 3, which takes one comparison of the size.
Sources: OffsetCommitKey.json, OffsetCommitValue.json, GroupMetadataManager.readMessageKey.
"""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from coterie._core.codec.batch cimport Record
from coterie._core.codec.cursor cimport (
    NEGATIVE, OK, Cursor, Status, load_i16, load_i32, load_i64, read_i32, read_string16)

cdef enum:
    KEY_OFFSET_MAX = 1           # key versions 0 and 1: an offset commit
    KEY_GROUP = 2                # key version 2: group metadata
    KEY_NEWER_MAX = 23           # 3 to 23: records of consumer, share and streams groups
    KEY_GAP = 18                 # between them, but never given to a type
    KEY_ENDS = 6                 # bytes of an offset's key that are its version and partition
    VALUE_V3_SIZE = 24           # of an offset's value without its metadata
    VALUE_OF_4X = 4              # version of an offset's value that no broker before 4.1 writes

cdef struct Commit:
    const uint8_t* key           # from the group on: without the version
    int32_t key_size
    const uint8_t* group
    const uint8_t* topic
    int32_t group_size
    int32_t topic_size
    int32_t partition
    bint tombstone
    int64_t offset
    int64_t commit_timestamp     # ms
    int64_t expire_timestamp     # ms; -1: none
    const uint8_t* metadata
    int32_t metadata_size
    int32_t leader_epoch         # -1: none


cdef inline bint is_newer_key(int16_t version) noexcept nogil:
    """Whether a version is one of those that the table has, above group metadata."""
    return KEY_GROUP < version <= KEY_NEWER_MAX and version != KEY_GAP


cdef inline bint is_of_4x(const Record* record) noexcept nogil:
    """Whether only the coordinator of Kafka 4.x writes such a record, whatever its group."""
    cdef int16_t version
    if record.key_size < 2:
        return False
    version = load_i16(record.key)
    if version > KEY_OFFSET_MAX:
        return is_newer_key(version)
    return version >= 0 and record.value_size >= 2 and load_i16(record.value) == VALUE_OF_4X


cdef inline Status read_commit_key(const uint8_t* key, int32_t size, Commit* out) noexcept nogil:
    """Parse a key, whose version the caller has read. Bytes after the partition are ignored."""
    cdef Cursor cur
    cdef Status status
    cur.at = key + 2
    cur.end = key + size
    status = read_string16(&cur, &out.group, &out.group_size)
    if status == OK:
        status = read_string16(&cur, &out.topic, &out.topic_size)
    if status == OK:
        status = read_i32(&cur, &out.partition)
    if status != OK:
        return status
    if out.group == NULL or out.topic == NULL:
        return NEGATIVE
    out.key = key + 2
    out.key_size = <int32_t>(cur.at - out.key)
    return OK


cdef inline bint key_fits(const uint8_t* keys, int64_t start, int64_t end,
                          int64_t size) noexcept nogil:
    """Whether the bytes from `start` to `end` are one key without its version."""
    cdef int64_t at = start
    if start < 0 or end > size or end - start < 8:
        return False
    at += 2 + (keys[at] << 8 | keys[at + 1])
    if at > end - 6:
        return False
    return at + 6 + (keys[at] << 8 | keys[at + 1]) == end


cdef inline Status read_commit_value(const uint8_t* value, int32_t size,
                                     Commit* out) noexcept nogil:
    """Parse a value that is not null. An unknown version gives NEGATIVE."""
    if size >= VALUE_V3_SIZE and load_i16(value) == 3:
        # The version that brokers write since 2.1: one comparison with the end instead of five.
        out.metadata_size = load_i16(value + 14)
        if 0 <= out.metadata_size <= size - VALUE_V3_SIZE:
            out.offset = load_i64(value + 2)
            out.leader_epoch = load_i32(value + 10)
            out.metadata = value + 16
            out.commit_timestamp = load_i64(value + 16 + out.metadata_size)
            out.expire_timestamp = -1
            return OK
    return read_any_value(value, size, out)


cdef Status read_any_value(const uint8_t* value, int32_t size, Commit* out) noexcept nogil

# The halves of the topic id in a value that is not null; 0 and 0: it has none.
cdef void read_topic_id(const uint8_t* value, int32_t size, int64_t* high,
                        int64_t* low) noexcept nogil

# OK if Kafka's reader would take a group metadata value that is not null.
cdef Status check_group_value(const uint8_t* value, int32_t size) noexcept nogil

# The name as Java reads it, as UTF-8 again: two names that are not UTF-8 may be one to Kafka.
cdef bytes canonical(bytes name)

# The group id in the key of a record that is no commit; None: the key is cut short.
cdef bytes group_id_of(const Record* record)

# (log offset, ms, version of the key, key, value or None) of a record with a key.
cdef tuple record_of(const Record* record)

# The bytes of an offset key without its version.
cdef bytes commit_key(bytes group, bytes topic, int32_t partition)

# In words, why a record of the classic coordinator cannot be read.
cdef str detail_of(const Record* record)
