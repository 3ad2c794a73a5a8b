"""One record of a v2 batch. Header only: inlined into whatever reads records.

Source: DefaultRecord.readFrom. A record must fill its length exactly; every size is checked.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

from coterie._core.batch cimport Batch, Record
from coterie._core.cursor cimport (
    OK, Cursor, Status, read_span, read_varint, read_varlong, wrap_add)


cdef inline Status skip_headers(Cursor* rec, int32_t count) noexcept nogil:
    cdef int32_t length, _i
    cdef const uint8_t* start
    cdef Status status
    if count < 0 or count > rec.end - rec.at:   # a header takes two bytes at least
        return Status.NEGATIVE
    for _i in range(count):
        status = read_varint(rec, &length)
        if status == OK:
            status = read_span(rec, length, &start)
        if status == OK:
            status = read_varint(rec, &length)
        if status == OK and length >= 0:
            status = read_span(rec, length, &start)
        if status != OK:
            return status
    return OK


cdef inline Status record_v2(Cursor* cur, const Batch* batch, Record* out) noexcept nogil:
    """One record of a v2 batch. TRUNCATED also where it does not fill its length exactly."""
    cdef int32_t size, delta
    cdef int64_t time_delta
    cdef const uint8_t* body
    cdef Cursor rec
    cdef Status status = read_varint(cur, &size)
    if status != OK:
        return status
    status = read_span(cur, size, &body)
    if status != OK:
        return status
    if size < 1:
        return Status.TRUNCATED
    rec.at = body + 1                          # the attributes byte has no meaning
    rec.end = body + size
    status = read_varlong(&rec, &time_delta)
    if status == OK:
        status = read_varint(&rec, &delta)
    if status == OK:
        status = read_varint(&rec, &out.key_size)
    if status != OK:
        return status
    if out.key_size < 0:
        out.key_size = -1
        out.key = NULL
    else:
        status = read_span(&rec, out.key_size, &out.key)
        if status != OK:
            return status
    status = read_varint(&rec, &out.value_size)
    if status != OK:
        return status
    if out.value_size < 0:
        out.value_size = -1
        out.value = NULL
    else:
        status = read_span(&rec, out.value_size, &out.value)
        if status != OK:
            return status
    status = read_varint(&rec, &out.header_count)
    if status != OK:
        return status
    out.headers = rec.at
    if out.header_count != 0:
        status = skip_headers(&rec, out.header_count)
        if status != OK:
            return status
    out.headers_size = <int32_t>(rec.at - out.headers)
    out.offset = wrap_add(batch.base_offset, delta)
    out.append_time = batch.append_time
    out.timestamp = batch.max_timestamp if batch.append_time else (
        wrap_add(batch.base_timestamp, time_delta))
    return OK if rec.at == rec.end else Status.TRUNCATED
