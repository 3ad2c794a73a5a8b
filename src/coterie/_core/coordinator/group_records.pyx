"""Encode the records of the coordinator: offset commits, group metadata, their keys.

Versions as Kafka 2.3 to 3.9 write them: keys 1 and 2; offset value 1 with an explicit expiry,
else 3; group value 3. Cost: one pass, one copy.
Source: GroupMetadataManager.scala. Rules: docs/rules/log-format.md#keys.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Next
from cpython.ref cimport PyObject
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport int16_t, int32_t, uint8_t
from libc.string cimport memcpy

from coterie._core.codec.cursor cimport load_i32, store
from coterie._core.codec.encode cimport (
    Writing, begin, end, put_i16, put_i32, put_i64, reserve, written)
from coterie._core.coordinator.group cimport GroupMetadata
from coterie._core.coordinator.member cimport MemberMetadata
from coterie._core.coordinator.member_table cimport coterie_same_text, next_member
from coterie._core.coordinator.sink cimport Batch, new_batch
from coterie._core.structures.offsets cimport NO_TIME, Offset

from coterie._core.coordinator.runtime import Thrown

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    const uint8_t* PyUnicode_1BYTE_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)

cdef inline void copy(uint8_t* to, const uint8_t* raw, Py_ssize_t size) noexcept:
    """Most texts are short: two moves, which may overlap, take less than a call."""
    cdef Py_ssize_t n
    if size > 16:
        memcpy(to, raw, size)
    elif size >= 8:
        memcpy(to, raw, 8)
        memcpy(to + size - 8, raw + size - 8, 8)
    else:
        for n in range(size):
            to[n] = raw[n]


cdef inline int put_raw(Writing* w, const void* raw, Py_ssize_t size) except -1:
    copy(reserve(w, size), <const uint8_t*>raw, size)
    return 0


cdef inline int put_string(Writing* w, str text) except -1:
    cdef Py_ssize_t size
    if text is None:
        return put_i16(w, -1)
    if not PyUnicode_IS_COMPACT_ASCII(text) or PyUnicode_GET_LENGTH(text) > LONGEST:
        return put_other_string(w, text)
    size = PyUnicode_GET_LENGTH(text)
    put_i16(w, <int16_t>size)
    return put_raw(w, PyUnicode_1BYTE_DATA(text), size)


cdef int put_other_string(Writing* w, str text) except -1:
    cdef bytes raw
    raw = text.encode("utf-8", "replace")      # as Java writes a lone surrogate: one "?"
    if PyBytes_GET_SIZE(raw) > LONGEST:
        # None of a request: read from a log, bytes that are no UTF-8 became three each. Kafka, too.
        raise Thrown(f"a string of {PyBytes_GET_SIZE(raw)} bytes fits into no record "
                     f"(at most {LONGEST}): {text[:40]!r}...")
    put_i16(w, <int16_t>PyBytes_GET_SIZE(raw))
    return put_raw(w, PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw))


cdef int put_bytes(Writing* w, bytes raw) except -1:
    put_i32(w, <int32_t>PyBytes_GET_SIZE(raw))
    return put_raw(w, PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw))


# A record of a batch: the sizes of its key and value, known when each is written, then both.

cdef inline Py_ssize_t begin_record(Writing* w) except -1:
    """Leave room for the sizes; where they stand."""
    cdef Py_ssize_t at = w.size
    put_i64(w, -1)
    return at


cdef inline void end_key(Writing* w, Py_ssize_t at) noexcept:
    store(w.data + at, w.size - at - 8, 4)


cdef inline void end_value(Writing* w, Py_ssize_t at) noexcept:
    store(w.data + at + 4, w.size - at - 8 - load_i32(w.data + at), 4)


cdef Py_ssize_t begin_offset(Writing* w, str group_id, tuple key) except -1:
    """A record of an offset as far as its key."""
    cdef Py_ssize_t at = begin_record(w)
    put_i16(w, 1)
    put_string(w, group_id)
    put_string(w, <str?>key[0])
    put_i32(w, <int32_t>key[1])
    end_key(w, at)
    return at


cdef Py_ssize_t begin_group(Writing* w, str group_id) except -1:
    """A record of a group as far as its key."""
    cdef Py_ssize_t at = begin_record(w)
    put_i16(w, 2)
    put_string(w, group_id)
    end_key(w, at)
    return at


cdef int put_offset(Writing* w, str group_id, tuple key, Offset entry) except -1:
    cdef bint explicit = entry.expire_timestamp != NO_TIME
    cdef Py_ssize_t at = begin_offset(w, group_id, key)
    put_i16(w, 1 if explicit else 3)
    put_i64(w, entry.offset)
    if not explicit:
        put_i32(w, entry.leader_epoch)
    put_string(w, entry.metadata)
    put_i64(w, entry.commit_timestamp)
    if explicit:
        put_i64(w, entry.expire_timestamp)
    end_value(w, at)
    return 0


cdef int put_group(Writing* w, GroupMetadata group, dict assignments) except -1:
    cdef MemberMetadata member
    cdef Py_ssize_t place = 0, at_assignment = 0
    cdef Py_ssize_t at = begin_group(w, group.group_id)
    put_i16(w, 3)
    put_string(w, group.protocol_type or "")
    put_i32(w, group.generation_id)
    put_string(w, group.protocol_name)
    put_string(w, group.leader_id)
    put_i64(w, group.current_state_timestamp)
    put_i32(w, group.members.count)
    while (member := next_member(&group.members, &place)) is not None:
        put_string(w, member.member_id)
        put_string(w, member.group_instance_id)
        put_string(w, member.client_id)
        put_string(w, member.client_host)
        put_i32(w, member.rebalance_timeout_ms)
        put_i32(w, member.session_timeout_ms)
        put_bytes(w, member.metadata_of(group.protocol_name))
        put_bytes(w, member.assignment if assignments is None else assignment_of(
            assignments, member.member_id, &at_assignment))
    end_value(w, at)
    return 0


cdef Batch commit_batch(str group_id, tuple rows, list entries):
    """The offsets of a commit: of each row, whose first field is its key; None: it is left out."""
    cdef Writing w
    cdef Py_ssize_t n, count = 0
    begin(&w)
    try:
        for n in range(len(rows)):
            if entries[n] is not None:
                put_offset(&w, group_id, <tuple?>(<tuple?>rows[n])[0], <Offset?>entries[n])
                count += 1
        return new_batch(group_id, count, written(&w))
    finally:
        end(&w)


cdef bytes assignment_of(dict assignments, str member_id, Py_ssize_t* place):
    """What a leader gives a member. Leaders name members in the order in which they were told of
    them: a look at the next place, 0 at first, saves most a look-up."""
    cdef PyObject* named = NULL
    cdef PyObject* given = NULL
    cdef Py_ssize_t after = place[0]
    if PyDict_Next(assignments, &after, &named, &given) and (
            PyUnicode_CheckExact(<object>named) and coterie_same_text(<object>named, member_id)):
        place[0] = after
        found = <object>given
    else:
        found = assignments.get(member_id)
    return <bytes?>found if found is not None else b""


cdef Batch group_batch(GroupMetadata group, dict assignments):
    """`assignments`: member id -> bytes; None: those that the members hold."""
    cdef Writing w
    begin(&w)
    try:
        put_group(&w, group, assignments)
        return new_batch(group.group_id, 1, written(&w))
    finally:
        end(&w)


cdef Batch tombstones(str group_id, list keys, bint with_group):
    """Of offsets, and of the group itself."""
    cdef Writing w
    begin(&w)
    try:
        for key in keys:
            begin_offset(&w, group_id, <tuple?>key)
        if with_group:
            begin_group(&w, group_id)
        return new_batch(group_id, len(keys) + with_group, written(&w))
    finally:
        end(&w)


cdef Py_ssize_t utf8_length(str text) except -2:
    """How many bytes it takes; -1: it has none, for a surrogate stands alone in it."""
    if PyUnicode_IS_COMPACT_ASCII(text):
        return PyUnicode_GET_LENGTH(text)
    try:
        return len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return -1
