"""Encode the records of consumer groups: keys 2 to 8 and 16, values of version 0.

Cost: one pass, one copy. The layouts are those of the table of messages (``schemas.txt``), which
a test holds these functions to; a heartbeat of a large group cannot pay for a walk over the table.
Source: GroupCoordinatorRecordHelpers.java. Rules: docs/rules/log-format.md#keys.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, uint8_t, uint32_t
from libc.string cimport memcpy

from coterie._core.codec.cursor cimport coterie_be32, load_i32, store
from coterie._core.codec.encode cimport (
    Writing, put_i16, put_i32, put_i64, put_uvarint, reserve)
from coterie._core.coordinator.consumer.group cimport (
    CLASSIC_GROUP, CURRENT, GROUP_EPOCH, MEMBER, REGEX, TARGET, TARGET_EPOCH, Current, Record)
from coterie._core.coordinator.consumer.values cimport (
    Assignment, ClassicPart, MemberFields, Resolved, TopicId, utf16_sorted)
from coterie._core.coordinator.records cimport (
    PyUnicode_1BYTE_DATA, PyUnicode_GET_LENGTH, PyUnicode_IS_COMPACT_ASCII, put_raw)


cdef inline int put_short(Writing* w, str text) except -1:
    """A string of a key: two bytes of length."""
    cdef bytes raw
    if PyUnicode_IS_COMPACT_ASCII(text):
        put_i16(w, <int16_t>PyUnicode_GET_LENGTH(text))
        return put_raw(w, PyUnicode_1BYTE_DATA(text), PyUnicode_GET_LENGTH(text))
    raw = text.encode("utf-8", "replace")
    put_i16(w, <int16_t>PyBytes_GET_SIZE(raw))
    return put_raw(w, PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw))


cdef inline int put_compact(Writing* w, str text) except -1:
    """A string of a value, which may be null."""
    cdef bytes raw
    if text is None:
        return put_uvarint(w, 0)
    if PyUnicode_IS_COMPACT_ASCII(text):
        put_uvarint(w, <unsigned int>(PyUnicode_GET_LENGTH(text) + 1))
        return put_raw(w, PyUnicode_1BYTE_DATA(text), PyUnicode_GET_LENGTH(text))
    raw = text.encode("utf-8", "replace")
    put_uvarint(w, <unsigned int>(PyBytes_GET_SIZE(raw) + 1))
    return put_raw(w, PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw))


cdef inline int put_i8(Writing* w, int value) except -1:
    reserve(w, 1)[0] = <uint8_t>value


cdef int put_partitions(Writing* w, Assignment assignment) except -1:
    cdef Py_ssize_t n
    cdef int32_t at, start = 0
    cdef uint8_t* to
    cdef uint32_t raw
    put_uvarint(w, <unsigned int>(assignment.topic_count + 1))
    for n in range(assignment.topic_count):
        put_raw(w, PyBytes_AS_STRING((<TopicId>assignment.topics[n]).raw), 16)
        put_uvarint(w, <unsigned int>(assignment.ends[n] - start + 1))
        to = reserve(w, 4 * (assignment.ends[n] - start))
        for at in range(start, assignment.ends[n]):
            raw = coterie_be32(<uint32_t>assignment.partitions[at])
            memcpy(to, &raw, 4)
            to += 4
        put_uvarint(w, 0)
        start = assignment.ends[n]


cdef int put_classic(Writing* w, ClassicPart part) except -1:
    """The tagged field of a member: null too is written."""
    cdef bytes body
    put_uvarint(w, 1)
    put_uvarint(w, 0)
    if part is None:
        put_uvarint(w, 1)
        return put_i8(w, 0)
    body = classic_part(part)
    put_uvarint(w, <unsigned int>PyBytes_GET_SIZE(body))
    return put_raw(w, PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body))


cdef bytes classic_part(ClassicPart part):
    cdef list parts = [b"\x01", part.session_timeout_ms.to_bytes(4, "big", signed=True),
                       uvarint(len(part.protocols) + 1)]
    for name, metadata in part.protocols:
        raw = name.encode("utf-8", "replace")
        parts += [uvarint(len(raw) + 1), raw, uvarint(len(metadata) + 1), metadata, b"\0"]
    parts.append(b"\0")
    return b"".join(parts)


cdef bytes uvarint(unsigned int value):
    cdef list parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


cdef int put_value(Writing* w, Record record) except -1:
    cdef MemberFields fields
    cdef Current current
    cdef Resolved resolved
    if record.kind == CLASSIC_GROUP:
        return put_raw(w, PyBytes_AS_STRING(<bytes>record.value),
                       PyBytes_GET_SIZE(<bytes>record.value))
    put_i16(w, 0)
    if record.kind == CURRENT:
        current = <Current>record.value
        put_i32(w, current.epoch)
        put_i32(w, current.previous_epoch)
        put_i8(w, current.state)
        put_partitions(w, current.assigned)
        put_partitions(w, current.revoking)
    elif record.kind == TARGET:
        put_partitions(w, <Assignment>record.value)
    elif record.kind == MEMBER:
        fields = <MemberFields>record.value
        put_compact(w, fields.instance_id)
        put_compact(w, fields.rack_id)
        put_compact(w, fields.client_id)
        put_compact(w, fields.client_host)
        put_uvarint(w, <unsigned int>(len(fields.names.ordered) + 1))
        for name in fields.names.ordered:
            put_compact(w, <str>name)
        put_compact(w, fields.regex)
        put_i32(w, fields.rebalance_timeout_ms)
        put_compact(w, fields.assignor)
        return put_classic(w, fields.classic)
    elif record.kind == TARGET_EPOCH:
        put_i32(w, record.epoch)
    elif record.kind == GROUP_EPOCH:
        put_i32(w, record.epoch)
        if record.hash:
            put_uvarint(w, 1)
            put_uvarint(w, 0)
            put_uvarint(w, 8)
            return put_i64(w, record.hash)
    elif record.kind == REGEX:
        resolved = <Resolved>record.value
        put_uvarint(w, <unsigned int>(len(resolved.topics) + 1))
        for name in utf16_sorted(resolved.topics):
            put_compact(w, <str>name)
        put_i64(w, resolved.version)
        put_i64(w, resolved.at_ms)
    return put_uvarint(w, 0)                   # no tagged field


cdef int put_records(Writing* w, str group_id, list records) except -1:
    """Write the records of a group, each behind the sizes of its key and its value."""
    cdef Record record
    cdef Py_ssize_t at, first = w.size, size = 0
    cdef uint8_t* to
    for record in records:
        at = w.size
        if size == 0:
            put_i64(w, -1)
            put_i16(w, <int16_t>record.kind)
            put_short(w, group_id)
            size = w.size - at
        else:                                  # but for sizes and kind the same bytes
            to = reserve(w, size)
            memcpy(to, w.data + first, size)
            store(to, -1, 8)
            store(to + 8, record.kind, 2)
        if record.name is not None:
            put_short(w, record.name)
        store(w.data + at, w.size - at - 8, 4)
        if not record.tombstone:
            put_value(w, record)
            store(w.data + at + 4, w.size - at - 8 - load_i32(w.data + at), 4)
