"""Encode the records of offsets and their tombstones.

Versions as Kafka 2.3 to 3.9 write them: key 1; value 1 with an explicit expiry, else 3. It knows
no group: callers pass the encoded keys of a group's own records. Cost: one pass, one copy.
Source: GroupMetadataManager.scala. Rules: docs/rules/log-format.md#keys.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t

from coterie._core.codec.encode cimport (
    Writing, begin, end, put_i16, put_i32, put_i64, written)
from coterie._core.coordinator.sink cimport Batch, new_batch
from coterie._core.structures.expiry cimport NO_TIME
from coterie._core.structures.offsets cimport Offset

from coterie._core.coordinator.runtime import Thrown


cdef int put_other_string(Writing* w, str text) except -1:
    cdef bytes raw
    raw = text.encode("utf-8", "replace")      # as Java writes a lone surrogate: one "?"
    if PyBytes_GET_SIZE(raw) > LONGEST:
        # Only in a text from a log, where each byte that was no UTF-8 became three, as in Kafka.
        raise Thrown(f"a string of {PyBytes_GET_SIZE(raw)} bytes fits into no record "
                     f"(at most {LONGEST}): {text[:40]!r}...")
    put_i16(w, <int16_t>PyBytes_GET_SIZE(raw))
    return put_raw(w, PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw))


cdef Py_ssize_t begin_offset(Writing* w, str group_id, tuple key) except -1:
    """Begin the record of an offset: its key."""
    cdef Py_ssize_t at = begin_record(w)
    put_i16(w, 1)
    put_string(w, group_id)
    put_string(w, <str?>key[0])
    put_i32(w, <int32_t>key[1])
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


cdef Batch commit_batch(str group_id, tuple rows, list entries):
    """Encode a commit. A row's first field is its key; an entry of None is left out."""
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


cdef Batch tombstones(str group_id, list keys, list group_keys):
    """Encode tombstones: of offsets, and of a group's own records by their encoded keys."""
    cdef Writing w
    cdef Py_ssize_t at
    begin(&w)
    try:
        for key in keys:
            begin_offset(&w, group_id, <tuple?>key)
        for raw in group_keys:
            at = begin_record(&w)
            put_raw(&w, PyBytes_AS_STRING(<bytes?>raw), PyBytes_GET_SIZE(<bytes>raw))
            end_key(&w, at)
        return new_batch(group_id, len(keys) + len(group_keys), written(&w))
    finally:
        end(&w)


cdef Py_ssize_t utf8_length(str text) except -2:
    """Return the bytes of its UTF-8; -1: a lone surrogate has none."""
    if PyUnicode_IS_COMPACT_ASCII(text):
        return PyUnicode_GET_LENGTH(text)
    try:
        return len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return -1
