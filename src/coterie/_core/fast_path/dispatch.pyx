"""The fast path: heartbeats and plain commits at the head of the bytes of a connection.

It parses a request, calls the coordinator and encodes the response, without Python objects besides
the ids. It stops at the first other request, at an incomplete frame, and as soon as the coordinator
has other outputs. It knows no connection: bytes in, bytes out. Cost: one pass over the bytes.
Source: ``HeartbeatRequest.json``, ``HeartbeatResponse.json``.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, uint8_t

from coterie._core.checks cimport dict_of, within
from coterie._core.codec.cursor cimport OK, Cursor, Status, load_i16, load_i32
from coterie._core.codec.decode cimport skip_tags
from coterie._core.codec.encode cimport Writing, begin, end, put_i16, put_i32, reserve
from coterie._core.coordinator.coordinator cimport Coordinator
from coterie._core.coordinator.runtime cimport Writes
from coterie._core.fast_path.commits cimport OFFSET_COMMIT, answer_commit
from coterie._core.fast_path.texts cimport text_of
from coterie._core.fast_path.member_header cimport MemberHeader, read_header

from coterie.errors import ArgumentError, shown

cdef enum:
    HEARTBEAT = 12
    WITH_INSTANCE = 3          # the first version with an instance id
    FLEXIBLE = 4               # the first version with tagged fields, and the last one

LAST_VERSION = FLEXIBLE


def answer_quick(Coordinator coordinator not None, topics, data, position, longest):
    """Answer the heartbeats and commits at the head of a connection's received bytes."""
    cdef Py_buffer view
    cdef Py_ssize_t at, most = within(longest, "longest", 0, 0x7FFFFFFF)
    cdef dict known_topics = None
    cdef Writes writes = coordinator.runtime.writes
    if topics is not None and coordinator.runtime.sink.at_once() and (
            not coordinator.runtime.deferred) and (
            writes is None or not (writes.holding or writes.pending)):
        known_topics = topics if type(topics) is dict else dict_of(topics, "topics")
    try:
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    except (TypeError, ValueError, BufferError):
        raise ArgumentError(f"data must be bytes, not {shown(data)}") from None
    try:
        at = within(position, "position", 0, view.len)
        return answer_all(coordinator, known_topics, <const uint8_t*>view.buf, at, view.len, most)
    finally:
        PyBuffer_Release(&view)


cdef tuple answer_all(Coordinator coordinator, dict topics, const uint8_t* data, Py_ssize_t at,
                      Py_ssize_t size, Py_ssize_t most):
    cdef Writing w
    cdef Cursor cur
    cdef int32_t length
    cdef int16_t key, version
    cdef bint done = True
    begin(&w)
    try:
        while done and size - at >= 12:          # the shortest is longer
            length = load_i32(data + at)
            if not 8 <= length <= most or length > size - at - 4:
                break
            key, version = load_i16(data + at + 4), load_i16(data + at + 6)
            cur.at, cur.end = data + at + 8, data + at + 4 + length
            if key == HEARTBEAT:
                done = answer_beat(coordinator, &w, version, &cur)
            else:
                done = key == OFFSET_COMMIT and topics is not None and (
                    answer_commit(coordinator, topics, &w, version, &cur))
            if done:
                at += 4 + length
                done = (coordinator.runtime.outputs.count == 0
                        and coordinator.runtime.sink.failure is None)
        return at, PyBytes_FromStringAndSize(<const char*>w.data, w.size)
    finally:
        end(&w)


cdef Status read_beat(Cursor* cur, int version, MemberHeader* header) noexcept nogil:
    cdef Status status = read_header(cur, version >= FLEXIBLE, version >= WITH_INSTANCE, header)
    if status == OK and version >= FLEXIBLE:
        status = skip_tags(cur)
    return status


cdef bint answer_beat(Coordinator coordinator, Writing* w, int version, Cursor* cur) except -1:
    """Answer a heartbeat; false: it is none, or may have to wait, and nothing was done."""
    cdef MemberHeader header
    cdef str group_id, member_id, instance = None
    cdef Writes writes = coordinator.runtime.writes
    cdef int code
    if writes is not None and writes.pending:      # it may wait for a write of its group
        return False
    if not 0 <= version <= FLEXIBLE or read_beat(cur, version, &header) != OK:
        return False
    try:
        group_id = text_of(&header.group)
        member_id = text_of(&header.member)
        if header.instance.size >= 0:
            instance = text_of(&header.instance)
    except UnicodeDecodeError:
        return False
    code = coordinator.beat(group_id, header.generation_id, member_id, instance)
    # length, correlation id, (no tags,) throttle time from version 1 on, error(, no tags)
    put_i32(w, 6 if version == 0 else 12 if version >= FLEXIBLE else 10)
    put_i32(w, header.correlation_id)
    if version >= FLEXIBLE:
        reserve(w, 1)[0] = 0
    if version >= 1:
        put_i32(w, 0)
    put_i16(w, <int16_t>code)
    if version >= FLEXIBLE:
        reserve(w, 1)[0] = 0
    return True
