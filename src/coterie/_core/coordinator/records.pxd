"""Encode the records of offsets; inline helpers for those of groups.

A record of a batch: int32 size of the key, int32 size of the value (-1: null), key, value. The
sizes are stored once both are written.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, uint8_t
from libc.string cimport memcpy

from coterie._core.codec.cursor cimport load_i32, store
from coterie._core.codec.encode cimport Writing, put_i16, put_i32, put_i64, reserve
from coterie._core.coordinator.sink cimport Batch

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    const uint8_t* PyUnicode_1BYTE_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)

cdef enum:
    LONGEST = 0x7FFF               # bytes of a string: its length is an int16, also on the wire

cdef int put_other_string(Writing* w, str text) except -1
cdef Py_ssize_t begin_offset(Writing* w, str group_id, tuple key) except -1
cdef Batch commit_batch(str group_id, tuple rows, list entries)
cdef Batch tombstones(str group_id, list keys, list group_keys)
cdef Py_ssize_t utf8_length(str text) except -2

cdef inline void copy(uint8_t* to, const uint8_t* raw, Py_ssize_t size) noexcept:
    """Copy bytes. Most texts are short: two moves, which may overlap, cost less than a call."""
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


cdef inline int put_string(Writing* w, str text) except -1:
    cdef Py_ssize_t size
    if text is None:
        return put_i16(w, -1)
    if not PyUnicode_IS_COMPACT_ASCII(text) or PyUnicode_GET_LENGTH(text) > LONGEST:
        return put_other_string(w, text)
    size = PyUnicode_GET_LENGTH(text)
    put_i16(w, <int16_t>size)
    return put_raw(w, PyUnicode_1BYTE_DATA(text), size)


cdef inline int put_bytes(Writing* w, bytes raw) except -1:
    put_i32(w, <int32_t>PyBytes_GET_SIZE(raw))
    return put_raw(w, PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw))


cdef inline Py_ssize_t begin_record(Writing* w) except -1:
    """Reserve the sizes; return where they are."""
    cdef Py_ssize_t at = w.size
    put_i64(w, -1)
    return at


cdef inline void end_key(Writing* w, Py_ssize_t at) noexcept:
    store(w.data + at, w.size - at - 8, 4)


cdef inline void end_value(Writing* w, Py_ssize_t at) noexcept:
    store(w.data + at + 4, w.size - at - 8 - load_i32(w.data + at), 4)
