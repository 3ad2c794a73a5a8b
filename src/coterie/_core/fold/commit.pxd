"""Offset commits and group metadata as the fold reads them: C structs, nothing copied.

The same layouts, as dicts for people, are in ``schema``; here only what state needs is kept, and
everything is checked. Sources: OffsetCommitKey.json, OffsetCommitValue.json,
GroupMetadataValue.json, GroupMetadataManager.readMessageKey.
"""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t

from coterie._core.codec.cursor cimport (
    NEGATIVE, OK, TRUNCATED, Cursor, Status, load_i16, load_i32, load_i64, read_bytes32,
    read_compact, read_i16, read_i32, read_i64, read_string16, read_uvarint, skip_tags)

cdef enum:
    KEY_OFFSET_MAX = 1           # key versions 0 and 1: an offset commit
    KEY_GROUP = 2                # key version 2: group metadata
    KEY_NEWER_MAX = 23           # 3 to 23: records of consumer, share and streams groups
    KEY_GAP = 18                 # between them, but never given to a type
    KEY_ENDS = 6                 # bytes of an offset's key that are its version and partition
    VALUE_V3_SIZE = 24           # of an offset's value without its metadata

cdef struct Commit:
    const uint8_t* key           # group, topic, partition as they stand after the version
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
    """Whether a version is one of those that `fields` has a schema for, above group metadata."""
    return KEY_GROUP < version <= KEY_NEWER_MAX and version != KEY_GAP


cdef inline Status read_commit_key(const uint8_t* key, int32_t size, Commit* out) noexcept nogil:
    """`key` begins with its version, which the caller has read. Bytes left over are ignored."""
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


cdef inline Status read_commit_value(const uint8_t* value, int32_t size,
                                     Commit* out) noexcept nogil:
    """A value that is not null. An unknown version answers NEGATIVE."""
    cdef Cursor cur
    cdef Status status
    cdef int16_t version
    if size >= VALUE_V3_SIZE and load_i16(value) == 3:
        # What brokers have written since 2.1: one comparison with the end, not five.
        out.metadata_size = load_i16(value + 14)
        if 0 <= out.metadata_size <= size - VALUE_V3_SIZE:
            out.offset = load_i64(value + 2)
            out.leader_epoch = load_i32(value + 10)
            out.metadata = value + 16
            out.commit_timestamp = load_i64(value + 16 + out.metadata_size)
            out.expire_timestamp = -1
            return OK
    cur.at = value
    cur.end = value + size
    status = read_i16(&cur, &version)
    if status != OK:
        return status
    if version < 0 or version > 4:
        return NEGATIVE
    out.leader_epoch = -1
    out.expire_timestamp = -1
    status = read_i64(&cur, &out.offset)
    if status == OK and version >= 3:
        status = read_i32(&cur, &out.leader_epoch)
    if status == OK:
        if version < 4:
            status = read_string16(&cur, &out.metadata, &out.metadata_size)
        else:
            status = read_compact(&cur, &out.metadata, &out.metadata_size)
    if status == OK:
        status = read_i64(&cur, &out.commit_timestamp)
    if status == OK and version == 1:
        status = read_i64(&cur, &out.expire_timestamp)
    if status == OK and version == 4:
        status = skip_tags(&cur)
    if status == OK and out.metadata == NULL:
        return NEGATIVE
    return status


cdef inline Status skip_text(Cursor* cur, bint compact, bint nullable) noexcept nogil:
    cdef const uint8_t* start
    cdef int32_t size
    cdef Status status = (read_compact(cur, &start, &size) if compact
                          else read_string16(cur, &start, &size))
    return NEGATIVE if status == OK and size < 0 and not nullable else status


cdef inline Status skip_bytes(Cursor* cur, bint compact) noexcept nogil:
    cdef const uint8_t* start
    cdef int32_t size
    cdef Status status = (read_compact(cur, &start, &size) if compact
                          else read_bytes32(cur, &start, &size))
    return NEGATIVE if status == OK and size < 0 else status


cdef inline Status check_group_member(Cursor* cur, int version) noexcept nogil:
    cdef int32_t number
    cdef bint compact = version == 4
    cdef Status status = skip_text(cur, compact, False)            # member id
    if status == OK and version >= 3:
        status = skip_text(cur, compact, True)                     # group instance id
    if status == OK:
        status = skip_text(cur, compact, False)                    # client id
    if status == OK:
        status = skip_text(cur, compact, False)                    # client host
    if status == OK and version >= 1:
        status = read_i32(cur, &number)                            # rebalance timeout
    if status == OK:
        status = read_i32(cur, &number)                            # session timeout
    if status == OK:
        status = skip_bytes(cur, compact)                          # subscription
    if status == OK:
        status = skip_bytes(cur, compact)                          # assignment
    if status == OK and compact:
        status = skip_tags(cur)
    return status


cdef inline Status check_group_value(const uint8_t* value, int32_t size) noexcept nogil:
    """Walk a group metadata value that is not null: OK if Kafka's reader would take it."""
    cdef Cursor cur
    cdef Status status
    cdef int16_t version
    cdef int32_t number, count
    cdef uint32_t raw
    cdef int64_t timestamp
    cdef bint compact
    cur.at = value
    cur.end = value + size
    status = read_i16(&cur, &version)
    if status != OK:
        return status
    if version < 0 or version > 4:
        return NEGATIVE
    compact = version == 4
    status = skip_text(&cur, compact, False)                       # protocol type
    if status == OK:
        status = read_i32(&cur, &number)                           # generation
    if status == OK:
        status = skip_text(&cur, compact, True)                    # protocol
    if status == OK:
        status = skip_text(&cur, compact, True)                    # leader
    if status == OK and version >= 2:
        status = read_i64(&cur, &timestamp)
    if status != OK:
        return status
    if compact:
        status = read_uvarint(&cur, &raw)
        count = <int32_t>(raw - 1)
    else:
        status = read_i32(&cur, &count)
    if status != OK:
        return status
    if count < 0:
        return NEGATIVE
    while count > 0 and status == OK:                              # ends with the bytes
        status = check_group_member(&cur, version)
        count -= 1
    if status == OK and compact:
        status = skip_tags(&cur)
    return status
