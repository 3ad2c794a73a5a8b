"""Parse one record of a v2 batch. Header only: inlined into everything that reads records.

Every size is checked, and a record must fill its length exactly. `short_record` is the fast path
for commits as brokers write them. Source: DefaultRecord.readFrom.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from coterie._core.codec.batch cimport Batch, Record
from coterie._core.codec.cursor cimport (
    OK, Cursor, Status, load_i32, read_span, read_varint, read_varlong, wrap_add)

cdef enum:
    SHORT_HEAD = 9                 # bytes before a key if no number takes more than 2


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


cdef inline bint short_number(const uint8_t** at, int32_t* value) noexcept nogil:
    """Read a varint of one or two bytes with a value of 0 or more; False: any other.

    The caller has proved that two bytes are there.
    """
    cdef uint32_t raw = at[0][0]
    if raw < 0x80:
        at[0] += 1
    elif at[0][1] < 0x80:
        raw = raw & 0x7F | <uint32_t>at[0][1] << 7
        at[0] += 2
    else:
        return False
    value[0] = raw >> 1
    return not raw & 1


cdef inline bint short_record(Cursor* cur, const Batch* batch, Record* out) noexcept nogil:
    """Parse a record in the form in which brokers write commits: short numbers, no headers.

    Takes two comparisons with the end instead of a dozen. False: another kind of record, or a
    broken one, and the cursor has not moved. Merely special-casing varints of one and two bytes
    brought no gain.
    """
    cdef const uint8_t* at = cur.at
    cdef const uint8_t* end
    cdef int32_t size = 0, time_delta = 0, delta = 0
    cdef int32_t three
    if cur.end - at < SHORT_HEAD or not short_number(&at, &size):
        return False
    if size < SHORT_HEAD or size > cur.end - at:
        return False
    end = at + size
    three = load_i32(at)                       # the attributes, which are unused, and three bytes
    if three & 0x818181 == 0:                  # three numbers from 0 to 63, a byte each
        time_delta = three >> 17 & 0x3F
        delta = three >> 9 & 0x3F
        out.key_size = three >> 1 & 0x3F
        at += 4
    else:
        at += 1
        if not (short_number(&at, &time_delta) and short_number(&at, &delta)
                and short_number(&at, &out.key_size)):
            return False
    # After the key there are at least two bytes: the size of the value, the count of headers.
    if out.key_size > end - at - 2:
        return False
    out.key = at
    at += out.key_size
    if at[0] == 1:                             # a tombstone
        out.value_size = -1
        out.value = NULL
        at += 1
    elif short_number(&at, &out.value_size) and out.value_size < end - at:
        out.value = at
        at += out.value_size
    else:
        return False
    if end - at != 1 or at[0] != 0:
        return False
    out.header_count = out.headers_size = 0
    out.headers = end
    out.offset = wrap_add(batch.base_offset, delta)
    out.append_time = batch.append_time
    out.timestamp = batch.max_timestamp if batch.append_time else (
        wrap_add(batch.base_timestamp, time_delta))
    cur.at = end
    return True


cdef inline Status record_v2(Cursor* cur, const Batch* batch, Record* out) noexcept nogil:
    """Parse one record of a v2 batch. TRUNCATED also if it does not fill its length exactly."""
    cdef Cursor after = cur[0]     # copies, so that the fast path stays in registers
    cdef Record other
    cdef Status status
    if short_record(cur, batch, out):
        return OK
    status = any_record(&after, batch, &other)
    cur[0] = after
    out[0] = other
    return status


cdef inline Status any_record(Cursor* cur, const Batch* batch, Record* out) noexcept nogil:
    """Parse one record of a v2 batch without the fast path."""
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
    rec.at = body + 1                          # skips the attributes, which are unused
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
