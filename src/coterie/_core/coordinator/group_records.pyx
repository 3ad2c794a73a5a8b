"""Encode the records of the coordinator: offset commits, group metadata, their keys.

Versions as Kafka 2.3 to 3.9 write them: keys 1 and 2; offset value 1 with an explicit expiry,
else 3; group value 3. Source: GroupMetadataManager.scala; bytes:
log-format.md, section 7. Cost: one pass, one copy.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Next
from cpython.ref cimport PyObject
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from coterie._core.codec.cursor cimport load_i32, store
from coterie._core.coordinator.group cimport GroupMetadata
from coterie._core.coordinator.member cimport MemberMetadata
from coterie._core.coordinator.roster cimport coterie_same_text, next_member
from coterie._core.coordinator.sink cimport Batch, new_batch
from coterie._core.structures.offsets cimport NO_TIME, Offset

from coterie._core.coordinator.runtime import Thrown

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    const uint8_t* PyUnicode_1BYTE_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)

cdef enum:
    FEW = 512                      # bytes: most records fit

cdef struct Buffer:
    uint8_t* data                  # `few`, or on the heap
    Py_ssize_t size
    Py_ssize_t capacity
    uint8_t[FEW] few


cdef inline void begin(Buffer* out) noexcept:
    out.data = out.few
    out.size = 0
    out.capacity = FEW


cdef inline int reserve(Buffer* out, Py_ssize_t more) except -1:
    return 0 if out.size + more <= out.capacity else enlarge(out, more)


cdef int enlarge(Buffer* out, Py_ssize_t more) except -1:
    cdef Py_ssize_t capacity = 2 * out.capacity + more
    cdef uint8_t* larger
    if out.data != out.few:
        larger = <uint8_t*>realloc(out.data, capacity)
    else:
        larger = <uint8_t*>malloc(capacity)
        if larger != NULL:
            memcpy(larger, out.few, out.size)
    if larger == NULL:
        raise MemoryError
    out.data = larger
    out.capacity = capacity
    return 0


cdef inline void end(Buffer* out) noexcept:
    if out.data != out.few:
        free(out.data)


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


cdef inline int put_int(Buffer* out, int64_t value, int size) except -1:
    reserve(out, size)
    store(out.data + out.size, value, size)
    out.size += size
    return 0


cdef inline int put_string(Buffer* out, str text) except -1:
    cdef Py_ssize_t size
    if text is None:
        return put_int(out, -1, 2)
    if not PyUnicode_IS_COMPACT_ASCII(text) or PyUnicode_GET_LENGTH(text) > LONGEST:
        return put_other_string(out, text)
    size = PyUnicode_GET_LENGTH(text)
    reserve(out, 2 + size)
    store(out.data + out.size, size, 2)
    copy(out.data + out.size + 2, PyUnicode_1BYTE_DATA(text), size)
    out.size += 2 + size
    return 0


cdef int put_other_string(Buffer* out, str text) except -1:
    cdef bytes raw
    raw = text.encode("utf-8", "replace")      # as Java writes a lone surrogate: one "?"
    if PyBytes_GET_SIZE(raw) > LONGEST:
        # None of a request: read from a log, bytes that are no UTF-8 became three each. Kafka, too.
        raise Thrown(f"a string of {PyBytes_GET_SIZE(raw)} bytes fits into no record "
                     f"(at most {LONGEST}): {text[:40]!r}...")
    put_int(out, PyBytes_GET_SIZE(raw), 2)
    return put_raw(out, <const uint8_t*>PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw))


cdef inline int put_raw(Buffer* out, const uint8_t* raw, Py_ssize_t size) except -1:
    reserve(out, size)
    copy(out.data + out.size, raw, size)
    out.size += size
    return 0


cdef int put_bytes(Buffer* out, bytes raw) except -1:
    put_int(out, PyBytes_GET_SIZE(raw), 4)
    return put_raw(out, <const uint8_t*>PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw))


cdef bytes finish(Buffer* out):
    return PyBytes_FromStringAndSize(<char*>out.data, out.size)


# A record of a batch: the sizes of its key and value, known when each is written, then both.

cdef inline Py_ssize_t begin_record(Buffer* out) except -1:
    """Leave room for the sizes; where they stand."""
    cdef Py_ssize_t at = out.size
    put_int(out, -1, 8)
    return at


cdef inline void end_key(Buffer* out, Py_ssize_t at) noexcept:
    store(out.data + at, out.size - at - 8, 4)


cdef inline void end_value(Buffer* out, Py_ssize_t at) noexcept:
    store(out.data + at + 4, out.size - at - 8 - load_i32(out.data + at), 4)


cdef Py_ssize_t begin_offset(Buffer* out, str group_id, tuple key) except -1:
    """A record of an offset as far as its key."""
    cdef Py_ssize_t at = begin_record(out)
    put_int(out, 1, 2)
    put_string(out, group_id)
    put_string(out, <str?>key[0])
    put_int(out, <int32_t>key[1], 4)
    end_key(out, at)
    return at


cdef Py_ssize_t begin_group(Buffer* out, str group_id) except -1:
    """A record of a group as far as its key."""
    cdef Py_ssize_t at = begin_record(out)
    put_int(out, 2, 2)
    put_string(out, group_id)
    end_key(out, at)
    return at


cdef int put_offset(Buffer* out, str group_id, tuple key, Offset entry) except -1:
    cdef bint explicit = entry.expire_timestamp != NO_TIME
    cdef Py_ssize_t at = begin_offset(out, group_id, key)
    put_int(out, 1 if explicit else 3, 2)
    put_int(out, entry.offset, 8)
    if not explicit:
        put_int(out, entry.leader_epoch, 4)
    put_string(out, entry.metadata)
    put_int(out, entry.commit_timestamp, 8)
    if explicit:
        put_int(out, entry.expire_timestamp, 8)
    end_value(out, at)
    return 0


cdef int put_group(Buffer* out, GroupMetadata group, dict assignments) except -1:
    cdef MemberMetadata member
    cdef Py_ssize_t place = 0, at_assignment = 0
    cdef Py_ssize_t at = begin_group(out, group.group_id)
    put_int(out, 3, 2)
    put_string(out, group.protocol_type or "")
    put_int(out, group.generation_id, 4)
    put_string(out, group.protocol_name)
    put_string(out, group.leader_id)
    put_int(out, group.current_state_timestamp, 8)
    put_int(out, group.members.count, 4)
    while (member := next_member(&group.members, &place)) is not None:
        put_string(out, member.member_id)
        put_string(out, member.group_instance_id)
        put_string(out, member.client_id)
        put_string(out, member.client_host)
        put_int(out, member.rebalance_timeout_ms, 4)
        put_int(out, member.session_timeout_ms, 4)
        put_bytes(out, member.metadata_of(group.protocol_name))
        put_bytes(out, member.assignment if assignments is None else assignment_of(
            assignments, member.member_id, &at_assignment))
    end_value(out, at)
    return 0


cdef Batch commit_batch(str group_id, tuple rows, list entries):
    """The offsets of a commit: of each row, whose first field is its key; None: it is left out."""
    cdef Buffer out
    cdef Py_ssize_t n, count = 0
    begin(&out)
    try:
        for n in range(len(rows)):
            if entries[n] is not None:
                put_offset(&out, group_id, <tuple?>(<tuple?>rows[n])[0], <Offset?>entries[n])
                count += 1
        return new_batch(group_id, count, finish(&out))
    finally:
        end(&out)


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
    cdef Buffer out
    begin(&out)
    try:
        put_group(&out, group, assignments)
        return new_batch(group.group_id, 1, finish(&out))
    finally:
        end(&out)


cdef Batch tombstones(str group_id, list keys, bint with_group):
    """Of offsets, and of the group itself."""
    cdef Buffer out
    begin(&out)
    try:
        for key in keys:
            begin_offset(&out, group_id, <tuple?>key)
        if with_group:
            begin_group(&out, group_id)
        return new_batch(group_id, len(keys) + with_group, finish(&out))
    finally:
        end(&out)


cdef Py_ssize_t utf8_length(str text) except -2:
    """How many bytes it takes; -1: it has none, for a surrogate stands alone in it."""
    if PyUnicode_IS_COMPACT_ASCII(text):
        return PyUnicode_GET_LENGTH(text)
    try:
        return len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return -1
