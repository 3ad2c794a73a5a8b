"""Records to record batches of magic 2 and message sets of magic 0 and 1.

The reverse of ``batch``, for tests, tools and the coordinator's own log. Writes the same bytes as
Kafka's MemoryRecordsBuilder, except inside compressed streams. Knows nothing of keys and values.
Cost: one list of parts, joined once; `encode_sized` writes without an object for each record.
"""
import struct

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from coterie._core.checks cimport (
    bytes_of, flag_of, int32_of, int64_of, int64_or_none, items_of, whole, within)
from coterie._core.codec.checksum cimport coterie_crc32, coterie_crc32c
from coterie._core.codec.cursor cimport load_i32, store

from coterie._core.codec.compress import compress
from coterie.errors import ArgumentError, CoterieError, shown

HEADER = struct.Struct(">qiibIhiqqqhii")
cdef enum:
    SUM_FROM = 21               # a v2 batch's checksum excludes the fields that the log sets
    APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20
    DELETE_HORIZON = 0x40
    HEADERS = 4                 # index of a record's headers, which may be missing
    HEADER_SIZE = 61
    SIZES = 8                   # bytes before a sized record: the sizes of key and value

cdef int64_t MAX_BASE = <int64_t>1 << 62        # of offsets and times; what follows still fits

cdef struct Plain:              # the header of an uncompressed batch
    int64_t base_offset
    int64_t timestamp_ms        # of all records
    int64_t producer_id
    int16_t producer_epoch
    int16_t attributes
    int32_t leader_epoch
    int32_t count


cdef Py_ssize_t put_varint(uint8_t* at, int64_t value) noexcept nogil:
    """Write a zigzag varint of at most ten bytes; return its size."""
    cdef uint64_t raw = (<uint64_t> value << 1) ^ <uint64_t> (value >> 63)
    cdef Py_ssize_t size = 0
    while raw > 0x7F:
        at[size] = <uint8_t> (raw & 0x7F) | 0x80
        raw >>= 7
        size += 1
    at[size] = <uint8_t> raw
    return size + 1


cdef bytes varint(int64_t value):
    cdef uint8_t buffer[10]
    cdef Py_ssize_t size = put_varint(buffer, value)
    return buffer[:size]


cdef Py_ssize_t length_of(bytes content) except? -1:
    return -1 if content is None else len(content)


cdef list rows_of(records):
    """Return (offset, timestamp, key, value, headers) of each record; ignore further fields."""
    cdef list rows = []
    for record in items_of(records, "records"):
        if not isinstance(record, (tuple, list)) or len(record) < HEADERS:
            raise ArgumentError("a record must be (offset, timestamp, key, value[, headers]), "
                                f"not {shown(record)}")
        rows.append((whole(record[0], "the offset of a record"),
                     whole(record[1], "the timestamp of a record"),
                     bytes_or_none(record[2], "the key of a record"),
                     bytes_or_none(record[3], "the value of a record"),
                     headers_of(record[HEADERS]) if len(record) > HEADERS else ()))
    return rows


cdef bytes bytes_or_none(object value, str name):
    return None if value is None else bytes_of(value, name)


cdef list headers_of(headers):
    cdef list pairs = []
    for header in () if headers is None else items_of(headers, "headers"):
        if not isinstance(header, (tuple, list)) or len(header) != 2:
            raise ArgumentError(f"a header must be (name, value), not {shown(header)}")
        pairs.append((bytes_of(header[0], "the name of a header"),
                      bytes_or_none(header[1], "the value of a header")))
    return pairs


cdef bytes join_headers(list headers):
    cdef list parts = [varint(len(headers))]
    cdef bytes name, value
    for name, value in headers:
        parts += (varint(len(name)), name, varint(length_of(value)), value or b"")
    return b"".join(parts)


cdef int add_record(list parts, tuple record, int64_t base_offset,
                    int64_t base_timestamp) except -1:
    """Append the parts of one record of magic 2, with its length."""
    cdef uint8_t head[32]       # attributes, then at most 10 + 5 + 5 bytes
    cdef uint8_t value_length[10]
    cdef bytes key = record[2], value = record[3]
    cdef int32_t offset_delta = record[0] - base_offset
    cdef int64_t timestamp_delta = record[1] - base_timestamp
    cdef Py_ssize_t head_size = 1, value_size
    cdef bytes headers = b"\x00"
    if record[HEADERS]:
        headers = join_headers(record[HEADERS])
    head[0] = 0
    head_size += put_varint(head + head_size, timestamp_delta)
    head_size += put_varint(head + head_size, offset_delta)
    head_size += put_varint(head + head_size, length_of(key))
    value_size = put_varint(value_length, length_of(value))
    key = key or b""
    value = value or b""
    parts += (varint(head_size + len(key) + value_size + len(value) + len(headers)),
              head[:head_size], key, value_length[:value_size], value, headers)
    return 0


def encode_batch(records, base_offset=0, *, codec=0, producer_id=-1, producer_epoch=-1,
                 base_sequence=-1, transactional=False, control=False, append_time_ms=None,
                 delete_horizon_ms=None, base_timestamp_ms=None,
                 max_timestamp_ms=None, last_offset_delta=None, leader_epoch=-1):
    """Encode records as one batch of magic 2."""
    cdef list items = rows_of(records), parts = []
    cdef int64_t first = int64_of(base_offset, "base_offset")
    cdef int stream = within(codec, "codec", 0, 7), attributes = stream
    append_time_ms = int64_or_none(append_time_ms, "append_time_ms")
    base_timestamp_ms = int64_or_none(base_timestamp_ms, "base_timestamp_ms")
    max_timestamp_ms = int64_or_none(max_timestamp_ms, "max_timestamp_ms")
    last_offset_delta = int64_or_none(last_offset_delta, "last_offset_delta")
    if flag_of(transactional, "transactional"):
        attributes |= TRANSACTIONAL
    if flag_of(control, "control"):
        attributes |= CONTROL
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON
        base_timestamp_ms = int64_of(delete_horizon_ms, "delete_horizon_ms")
    elif base_timestamp_ms is None:
        base_timestamp_ms = items[0][1] if items else -1
    if append_time_ms is not None:
        attributes |= APPEND_TIME
        max_timestamp_ms = append_time_ms
    elif max_timestamp_ms is None:
        max_timestamp_ms = max([record[1] for record in items], default=-1)
    if last_offset_delta is None:
        last_offset_delta = items[len(items) - 1][0] - first if items else 0
    numbers = (int64_of(producer_id, "producer_id"), int32_of(producer_epoch, "producer_epoch"),
               int32_of(base_sequence, "base_sequence"), len(items))
    try:
        for record in items:
            add_record(parts, record, first, base_timestamp_ms)
        body = compress(stream, b"".join(parts)) if items else b""
        return seal(HEADER.pack(
            first, HEADER.size - 12 + len(body), int32_of(leader_epoch, "leader_epoch"), 2, 0,
            attributes if items else attributes & ~7, last_offset_delta, base_timestamp_ms,
            max_timestamp_ms, *numbers), body)
    except (OverflowError, struct.error) as error:
        raise CoterieError(f"a number does not fit a record batch: {error}") from None


def encode_sized(records, count, base_offset, timestamp_ms, *, producer_id=-1, producer_epoch=-1,
                 transactional=False, leader_epoch=-1):
    """Encode records with one timestamp and without headers as one uncompressed batch."""
    cdef bytes data = bytes_of(records, "records")
    cdef Plain head
    cdef bytes out
    head.count = <int32_t>within(count, "count", 1, 0x7FFFFFFF)
    head.base_offset = within(base_offset, "base_offset", 0, MAX_BASE)
    head.timestamp_ms = within(timestamp_ms, "timestamp_ms", 0, MAX_BASE)
    head.producer_id = int64_of(producer_id, "producer_id")
    head.producer_epoch = <int16_t>within(producer_epoch, "producer_epoch", -0x8000, 0x7FFF)
    head.attributes = TRANSACTIONAL if flag_of(transactional, "transactional") else 0
    head.leader_epoch = int32_of(leader_epoch, "leader_epoch")
    cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef int64_t size = size_of_sized(start, PyBytes_GET_SIZE(data), head.count)
    if size < 0:
        raise ArgumentError(f"records: {PyBytes_GET_SIZE(data)} bytes are not {count} records, "
                            f"each preceded by the sizes of its key and value")
    size += HEADER_SIZE
    if size > 0x7FFFFFFF:
        raise CoterieError("records: too many bytes for one batch")
    out = PyBytes_FromStringAndSize(NULL, size)
    put_sized(<uint8_t*>PyBytes_AS_STRING(out) + HEADER_SIZE, start, head.count)
    put_header(<uint8_t*>PyBytes_AS_STRING(out), size, &head)
    return out


cdef inline int varint_size(int64_t value) noexcept nogil:
    cdef uint64_t raw = (<uint64_t> value << 1) ^ <uint64_t> (value >> 63)
    cdef int size = 1
    while raw >= 0x80:
        raw >>= 7
        size += 1
    return size


cdef inline int64_t record_size(int64_t delta, int32_t key, int32_t value) noexcept nogil:
    """Return the size of a record without time and headers; its length field is not counted."""
    return (3 + varint_size(delta) + varint_size(key) + max(key, 0) + varint_size(value)
            + max(value, 0))


cdef int64_t size_of_sized(const uint8_t* at, Py_ssize_t left, int32_t count) noexcept nogil:
    """Return the size of the records in a batch; -1: `left` bytes are not `count` records."""
    cdef int64_t total = 0, body
    cdef int32_t key, value
    cdef int64_t size
    cdef int32_t n
    for n in range(count):
        if left < SIZES:
            return -1
        key, value = load_i32(at), load_i32(at + 4)
        size = SIZES + <int64_t>max(key, 0) + max(value, 0)
        if key < -1 or value < -1 or size > left:
            return -1
        at += size
        left -= size
        body = record_size(n, key, value)
        total += varint_size(body) + body
    return total if left == 0 else -1


cdef void put_sized(uint8_t* out, const uint8_t* at, int32_t count) noexcept nogil:
    """Write the records; their size must be the result of `size_of_sized`."""
    cdef int32_t key, value, n
    for n in range(count):
        key, value = load_i32(at), load_i32(at + 4)
        at += SIZES
        out += put_varint(out, record_size(n, key, value))
        out[0] = out[1] = 0                  # attributes, and no time of its own
        out += 2
        out += put_varint(out, n)
        out += put_varint(out, key)
        if key > 0:
            memcpy(out, at, key)
            out += key
            at += key
        out += put_varint(out, value)
        if value > 0:
            memcpy(out, at, value)
            out += value
            at += value
        out[0] = 0                           # no headers
        out += 1


cdef void put_header(uint8_t* at, Py_ssize_t size, const Plain* head) noexcept nogil:
    """Write the header of an uncompressed batch, whose records are in place."""
    store(at, head.base_offset, 8)
    store(at + 8, size - 12, 4)
    store(at + 12, head.leader_epoch, 4)
    at[16] = 2
    store(at + SUM_FROM, head.attributes, 2)
    store(at + 23, head.count - 1, 4)
    store(at + 27, head.timestamp_ms, 8)
    store(at + 35, head.timestamp_ms, 8)
    store(at + 43, head.producer_id, 8)
    store(at + 51, head.producer_epoch, 2)
    store(at + 53, -1, 4)                    # no sequence
    store(at + 57, head.count, 4)
    store(at + 17, coterie_crc32c(at + SUM_FROM, size - SUM_FROM), 4)


cdef bytes seal(bytes header, bytes body):
    cdef bytes batch = header + body
    cdef const uint8_t* start = batch
    cdef object total = coterie_crc32c(start + SUM_FROM, len(batch) - SUM_FROM)
    return b"".join((header[:17], total.to_bytes(4, "big"), header[SUM_FROM:], body))


def encode_marker(commit, producer_id, producer_epoch, *, timestamp_ms,
                  coordinator_epoch=0, base_offset=0, leader_epoch=-1):
    """Encode the control batch that ends a transaction: COMMIT or ABORT."""
    key = struct.pack(">hh", 0, 1 if flag_of(commit, "commit") else 0)
    value = struct.pack(">hi", 0, int32_of(coordinator_epoch, "coordinator_epoch"))
    return encode_batch([(base_offset, timestamp_ms, key, value)], base_offset,
                        producer_id=producer_id, producer_epoch=producer_epoch,
                        transactional=True, control=True, leader_epoch=leader_epoch)


cdef bytes message(int magic, int attributes, object offset, object timestamp, bytes key,
                   bytes value):
    """Encode one entry of a message set: a record, or a wrapper of records."""
    cdef list parts = [bytes((magic, attributes))]
    if magic:
        parts.append(timestamp.to_bytes(8, "big", signed=True))
    for content in (key, value):
        parts.append(length_of(content).to_bytes(4, "big", signed=True))
        parts.append(content or b"")
    cdef bytes body = b"".join(parts)
    cdef object total = coterie_crc32(body, len(body))
    return b"".join((offset.to_bytes(8, "big", signed=True),
                     (len(body) + 4).to_bytes(4, "big", signed=True),
                     total.to_bytes(4, "big"), body))


def encode_message_set(records, magic, *, codec=0, append_time_ms=None):
    """Encode records as a message set of magic 0 or 1."""
    cdef list items = rows_of(records), parts = []
    cdef int layout = int32_of(magic, "magic"), attributes = 0
    cdef int stream = within(codec, "codec", 0, 7)
    cdef object first = 0
    append_time_ms = int64_or_none(append_time_ms, "append_time_ms")
    if layout not in (0, 1):
        raise CoterieError(f"a message set has magic 0 or 1, not {layout}")
    if append_time_ms is not None and layout == 1:
        attributes = APPEND_TIME
    if not items:
        if stream:
            raise CoterieError("a compressed message set needs at least one record")
        return b""
    if stream and layout == 1:
        first = items[0][0]            # inside a wrapper of magic 1 offsets are relative
    try:
        for record in items:
            if record[HEADERS]:
                raise CoterieError("records of magic 0 and 1 have no headers")
            stamp = record[1] if append_time_ms is None else append_time_ms
            parts.append(message(layout, attributes, record[0] - first, stamp, record[2],
                                 record[3]))
        inner = b"".join(parts)
        if stream == 0:
            return inner
        stamp = append_time_ms
        if stamp is None:
            stamp = max([record[1] for record in items])
        return message(layout, attributes | stream, items[len(items) - 1][0], stamp, None,
                       compress(stream, inner, layout))
    except OverflowError as error:
        raise CoterieError(f"a number does not fit a message: {error}") from None
