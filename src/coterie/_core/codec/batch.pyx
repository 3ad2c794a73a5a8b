"""Batches of records: found, checked and read from bytes; written to bytes.

Nothing is read past the buffer: a length that leads beyond it is damage, and is named with its
place. A batch is decompressed at most once. Records of the old formats (magic 0 and 1) are read,
too.
"""
cimport cython
import struct
from collections import namedtuple
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from coterie._core.checks cimport (
    begin_change, buffer_of, bytes_of, end_use, flag_of, int32_of, int64_of, int64_or_none,
    items_of, whole, within)
from coterie._core.codec.compression cimport coterie_crc32, coterie_crc32c
from coterie._core.codec.compression import compress, decompress
from coterie._core.codec.cursor cimport (
    OK, Cursor, load_i16, load_i32, load_i64, read_bytes32, read_span, read_varint, store, wrap_add,
    wrap_sub)
from coterie._core.codec.record cimport record_v2

from coterie.errors import ArgumentError, CorruptData, CoterieError, shown


# ---- the batches of a log segment and their records, magic 0 to 2 --------------------------------
# Frames a batch at a position, checks its checksum and parses all its records. If one record cannot
# be parsed, the batch has none. Knows bytes; knows no groups, no files, no time. Cost: one pass
# over the bytes for the checksum, one for the records. Sources: DefaultRecordBatch, DefaultRecord,
# AbstractLegacyRecordBatch, LegacyRecord, FileLogInputStream, ByteBufferLogInputStream.
# Rules: docs/rules/log-format.md#record-batches, #message-sets and #reading-batches.

cdef extern from "crc32c.h" nogil:
    uint32_t coterie_crc32c(const uint8_t* data, size_t size)

cdef extern from "crc32.h" nogil:
    uint32_t coterie_crc32(const uint8_t* data, size_t size)

cdef enum:
    LOG_OVERHEAD = 12            # offset and length
    MAGIC_AT = 16
    HEADER_UP_TO_MAGIC = 17
    MIN_LENGTH = 14              # LegacyRecord.RECORD_OVERHEAD_V0
    V0_HEADER = 26               # including the two lengths of key and value
    V1_HEADER = 34
    GZIP = 1
    ZSTD = 4
    # Kafka sets no bounds, but a coordinator appends at most max.message.bytes (1 MiB) before they
    # are compressed. A batch of 20 kB that was made for it would take 8 GB.
    RECORDS_MAX = 1 << 20         # of a batch
    DECOMPRESSED_MAX = 256 << 20  # bytes of a batch

KINDS = (None, "length", "tail", "magic", "crc", "codec", "records", "marker", "key", "value")
FRAME_DETAIL = {
    FRAME_BATCH: "the stored checksum does not hold",      # of a batch that recovery cuts off
    FRAME_TAIL: "bytes after the last batch",
    FRAME_LENGTH: "a batch length below 14 or beyond the end of the file",
    FRAME_MAGIC: "a magic outside 0-2",
    FRAME_SHORT: "a batch too short for its own header",
}


cdef bint only_zeros(const uint8_t* at, int64_t size) noexcept nogil:
    cdef int64_t i
    for i in range(size):
        if at[i]:
            return False
    return True


cdef void read_header(Batch* batch) noexcept nogil:
    """Fill in the fields of a batch that is at least as long as its header."""
    cdef const uint8_t* at = batch.start
    batch.base_offset = load_i64(at)
    batch.magic = <int8_t>at[MAGIC_AT]
    batch.producer_id = -1
    batch.producer_epoch = -1
    batch.base_sequence = -1
    batch.leader_epoch = -1
    batch.last_offset_delta = 0
    batch.transactional = batch.control = batch.delete_horizon = False
    if batch.magic == 2:
        batch.leader_epoch = load_i32(at + 12)
        batch.crc = <uint32_t>load_i32(at + 17)
        batch.attributes = load_i16(at + 21)
        batch.last_offset_delta = load_i32(at + 23)
        batch.base_timestamp = load_i64(at + 27)
        batch.max_timestamp = load_i64(at + 35)
        batch.producer_id = load_i64(at + 43)
        batch.producer_epoch = load_i16(at + 51)
        batch.base_sequence = load_i32(at + 53)
        batch.record_count = load_i32(at + 57)
        batch.transactional = (batch.attributes & 0x10) != 0
        batch.control = (batch.attributes & 0x20) != 0
        batch.delete_horizon = (batch.attributes & 0x40) != 0
    else:
        batch.crc = <uint32_t>load_i32(at + 12)
        batch.attributes = <int16_t>at[17]
        batch.max_timestamp = load_i64(at + 18) if batch.magic == 1 else -1
        batch.base_timestamp = batch.max_timestamp
    batch.codec = batch.attributes & 7
    batch.append_time = batch.magic > 0 and (batch.attributes & 8) != 0


cdef Frame frame_batch(const uint8_t* data, int64_t size, int64_t at, Batch* batch) noexcept nogil:
    """Frame the batch at a position.

    FRAME_BATCH fills in the whole header. The others fill in `start`, `position`, `size` (the
    bytes to skip; for FRAME_LENGTH and FRAME_TAIL all up to the end) and, if its bytes are there,
    `base_offset`.
    """
    cdef int64_t rem = size - at
    cdef int64_t length
    cdef int magic
    batch.position = at
    batch.start = data + at
    batch.size = rem
    batch.base_offset = -1
    if rem <= 0:
        return FRAME_END
    if rem >= 8:
        batch.base_offset = load_i64(data + at)
    if rem < HEADER_UP_TO_MAGIC:
        return FRAME_TAIL
    length = load_i32(data + at + 8)
    if length < MIN_LENGTH or length > rem - LOG_OVERHEAD:
        if length == 0 and only_zeros(data + at, rem):
            return FRAME_TAIL
        return FRAME_LENGTH
    batch.size = LOG_OVERHEAD + length
    magic = <int8_t>data[at + MAGIC_AT]
    if magic < 0 or magic > 2:
        return FRAME_MAGIC
    if batch.size < (V2_HEADER if magic == 2 else V1_HEADER if magic == 1 else V0_HEADER):
        return FRAME_SHORT
    read_header(batch)
    return FRAME_BATCH


cdef Frame frame_as_loader(const uint8_t* data, int64_t size, int64_t at,
                           Batch* batch) noexcept nogil:
    """Frame a batch as the coordinator's loader does (ByteBufferLogInputStream): a partial batch is
    the end of the log, not a fault; the magic is checked before the length."""
    cdef int64_t rem = size - at
    cdef Frame frame
    cdef int magic
    if rem >= HEADER_UP_TO_MAGIC:
        magic = <int8_t>data[at + MAGIC_AT]
        if load_i32(data + at + 8) >= MIN_LENGTH and (magic < 0 or magic > 2):
            frame_batch(data, size, at, batch)
            return FRAME_MAGIC
    frame = frame_batch(data, size, at, batch)
    if frame == FRAME_TAIL:
        # A header that is cut before its length ends the log; a length of zero is corrupt.
        if rem < LOG_OVERHEAD:
            return FRAME_END
        return FRAME_TAIL if load_i32(data + at + 8) < MIN_LENGTH else FRAME_END
    if frame == FRAME_LENGTH and MIN_LENGTH <= load_i32(data + at + 8) <= 2147483635:
        return FRAME_END
    return frame


cdef Fault frame_to_fault(int frame) noexcept nogil:
    """Return the fault of a frame. FRAME_SHORT is a wrong checksum, as in Kafka's ensureValid."""
    if frame == FRAME_TAIL:
        return FAULT_TAIL
    if frame == FRAME_LENGTH:
        return FAULT_LENGTH
    return FAULT_MAGIC if frame == FRAME_MAGIC else FAULT_CRC


cdef bint crc_holds(const Batch* batch) noexcept nogil:
    if batch.magic == 2:
        return coterie_crc32c(batch.start + 21, batch.size - 21) == batch.crc
    return coterie_crc32(batch.start + 16, batch.size - 16) == batch.crc


cdef bint unread_magic_holds(const Batch* batch) noexcept nogil:
    """Check the checksum of a FRAME_MAGIC as LogSegment.recover does: a magic above 2 as 2, a
    negative one as legacy."""
    cdef int magic = <int8_t>batch.start[MAGIC_AT]
    if magic < 0:
        return coterie_crc32(batch.start + 16, batch.size - 16) == (
            <uint32_t>load_i32(batch.start + 12))
    return batch.size >= V2_HEADER and coterie_crc32c(batch.start + 21, batch.size - 21) == (
        <uint32_t>load_i32(batch.start + 17))


cdef bint plausible_base(int fault, int64_t base_offset, int64_t expected) noexcept nogil:
    """Whether the base offset of a fault can be right. After a wrong or cut length its bytes may
    be anything: then it must continue from `expected` (-1: unknown)."""
    if fault != FAULT_LENGTH and fault != FAULT_TAIL:
        return True
    if expected < 0:
        return fault == FAULT_LENGTH and base_offset >= 0
    return base_offset >= expected and base_offset - expected <= 0x7FFFFFFF


cdef Fault read_marker(const Record* record, int* kind) noexcept nogil:
    """Read a marker's type (ControlRecordType.parse); later versions are read like version 0."""
    if record.key_size < 4 or load_i16(record.key) < 0:
        return FAULT_MARKER
    kind[0] = load_i16(record.key + 2)
    return NO_FAULT


@cython.final
cdef class Records:
    """The records of one batch: their keys and values as spans of its bytes."""

    def __dealloc__(self):
        free(self.items)

    cdef int reserve(self, Py_ssize_t count) except -1 nogil:
        cdef Record* items
        if count > self.capacity:
            if count < 2 * self.capacity:
                count = 2 * self.capacity
            items = <Record*>realloc(self.items, count * sizeof(Record))
            if items == NULL:
                with gil:
                    raise MemoryError
            self.items = items
            self.capacity = count
        return 0

    cdef int read(self, const Batch* batch) except -1:
        """Parse all records of a framed batch into `items`, which a Fault leaves undefined."""
        cdef int fault
        cdef const uint8_t* at
        cdef int64_t size
        self.count = 0
        self.decompressed_data = None
        self.decompressed = False
        if batch.codec > ZSTD or (batch.codec == ZSTD and batch.magic < 2):
            self.detail = f"codec {batch.codec} is not one of magic {batch.magic}"
            return FAULT_CODEC
        try:
            if batch.magic < 2:
                fault = self.parse_single(batch) if batch.codec == 0 else self.parse_wrapper(batch)
            else:
                if batch.record_count == 0:     # compaction emptied it; Kafka reads no further
                    return NO_FAULT
                at, size = batch.start + V2_HEADER, batch.size - V2_HEADER
                if batch.codec != 0:
                    at = self.decompressed_from(batch, at, size, &size)
                fault = self.parse_v2(batch, at, at + size)
        except CorruptData as error:
            self.detail = str(error)
            fault = FAULT_RECORDS
        return fault

    cdef const uint8_t* decompressed_from(self, const Batch* batch, const uint8_t* at,
                                          int64_t size, int64_t* out_size) except? NULL:
        cdef const uint8_t[::1] view
        self.decompressed_data = decompress(batch.codec, at[:size], batch.magic,
                                            DECOMPRESSED_MAX)
        self.decompressed = True
        view = self.decompressed_data
        out_size[0] = view.shape[0]
        return &view[0] if view.shape[0] else at

    cdef int parse_v2(self, const Batch* batch, const uint8_t* at,
                      const uint8_t* end) except -1 nogil:
        cdef Cursor cur
        cdef Py_ssize_t i
        cdef int32_t count = batch.record_count
        cur.at = at
        cur.end = end
        if count < 0 or count > (end - at) // MIN_RECORD_V2:
            with gil:
                self.detail = f"the batch says {count} records in {end - at} bytes"
            return FAULT_RECORDS
        if count > RECORDS_MAX:
            return self.too_many()
        self.reserve(count)
        for i in range(count):
            if record_v2(&cur, batch, &self.items[i]) != OK:
                with gil:
                    self.detail = f"record {i} of {count} does not fill its length"
                return FAULT_RECORDS
        if cur.at != cur.end:
            with gil:
                self.detail = f"{cur.end - cur.at} bytes are left after {count} records"
            return FAULT_RECORDS
        self.count = count
        return NO_FAULT

    cdef int too_many(self) except -1 nogil:
        with gil:
            self.detail = f"a batch of more than {RECORDS_MAX} records"
        return FAULT_RECORDS

    cdef int parse_single(self, const Batch* batch) except -1 nogil:
        """Parse a legacy message that is not compressed: it is its own batch."""
        cdef int fault = self.parse_inner(batch.start, batch.start + batch.size)
        if fault == NO_FAULT and self.count != 1:
            with gil:
                self.detail = "the message's key and value do not fit its length"
            return FAULT_RECORDS
        return fault

    cdef int parse_wrapper(self, const Batch* batch) except -1:
        """Parse a compressed message set. Offsets depend on the wrapper's magic (KAFKA-4298)."""
        cdef Cursor cur
        cdef const uint8_t* value
        cdef int32_t size
        cdef int64_t decompressed_size, base, last
        cdef Py_ssize_t i
        cdef int fault
        cur.at = batch.start + (26 if batch.magic == 1 else 18)
        cur.end = batch.start + batch.size
        if (read_bytes32(&cur, &value, &size) != OK or read_bytes32(&cur, &value, &size) != OK
                or value == NULL):
            self.detail = "the wrapper of a compressed message set has no value"
            return FAULT_RECORDS
        value = self.decompressed_from(batch, value, size, &decompressed_size)
        fault = self.parse_inner(value, value + decompressed_size)
        if fault != NO_FAULT:
            return fault
        if self.count == 0:
            self.detail = "a compressed message set without messages"
            return FAULT_RECORDS
        if batch.magic == 0:
            return NO_FAULT
        # Some producers leave the wrapper's offset 0: then the inner offsets are absolute.
        base = 0
        if batch.base_offset:
            last = self.items[self.count - 1].offset
            if batch.base_offset < last:       # their difference may wrap
                self.detail = "the wrapper's offset is below its last message's"
                return FAULT_RECORDS
            base = wrap_sub(batch.base_offset, last)
        for i in range(self.count):
            self.items[i].offset = wrap_add(self.items[i].offset, base)
            self.items[i].append_time = batch.append_time
            if batch.append_time:
                self.items[i].timestamp = batch.max_timestamp
        return NO_FAULT

    cdef int parse_inner(self, const uint8_t* at, const uint8_t* end) except -1 nogil:
        """Parse uncompressed messages, one after another; a partial last one is dropped."""
        cdef Cursor cur
        cdef Record* out
        cdef int64_t size
        cdef int magic
        while end - at >= LOG_OVERHEAD:
            size = load_i32(at + 8)
            if size < MIN_LENGTH:
                with gil:
                    self.detail = f"a message of {size} bytes in a message set"
                return FAULT_RECORDS
            if size > end - at - LOG_OVERHEAD:
                break
            magic = <int8_t>at[MAGIC_AT]
            if magic < 0 or magic > 1 or at[17] & 7:
                with gil:
                    self.detail = f"a message of magic {magic}, attributes {at[17]} in a set"
                return FAULT_RECORDS
            if self.count == RECORDS_MAX:
                return self.too_many()
            self.reserve(self.count + 1)
            out = &self.items[self.count]
            out.offset = load_i64(at)
            out.append_time = magic == 1 and at[17] & 8
            cur.at = at + (26 if magic == 1 else 18)
            cur.end = at + LOG_OVERHEAD + size
            out.timestamp = load_i64(at + 18) if magic == 1 and cur.end - at >= 26 else -1
            out.header_count = out.headers_size = 0
            out.headers = cur.end
            if (cur.at > cur.end or read_bytes32(&cur, &out.key, &out.key_size) != OK
                    or read_bytes32(&cur, &out.value, &out.value_size) != OK):
                with gil:
                    self.detail = "a message's key and value do not fit its length"
                return FAULT_RECORDS
            self.count += 1
            at = cur.end
        return NO_FAULT


# ---- batches and records of a segment as Python objects, and the places where it may be cut ------
# For tools and tests. Bulk work goes through ``fold`` and ``columns``, which use the same parser
# (``batch``). A fault is skipped and reported, never raised.
# Knows bytes; knows no keys and no values. Cost: some Python objects for each record.

CODECS = ("none", "gzip", "snappy", "lz4", "zstd", "5", "6", "7")

LogRecord = namedtuple("LogRecord", "offset timestamp key value headers append_time")
LogBatch = namedtuple(
    "LogBatch",
    "position size base_offset last_offset magic compression append_time leader_epoch crc"
    " base_timestamp max_timestamp delete_horizon producer_id producer_epoch base_sequence"
    " is_transactional is_control records")
BatchFault = namedtuple("BatchFault", "position base_offset kind detail")
LogRecord.__doc__ = """One record of a batch."""
LogBatch.__doc__ = """One batch: the fields of its header, and its records."""
BatchFault.__doc__ = """A skipped part of a segment; ``coterie verify`` prints its ``kind``."""


cdef tuple headers_of(const Record* record):
    """Return (key, value) pairs. Every length was checked before, and is checked again."""
    cdef Cursor cur
    cdef int32_t _i, key_size, value_size
    cdef const uint8_t* key = NULL
    cdef const uint8_t* value = NULL
    cdef list headers = []
    cur.at = record.headers
    cur.end = cur.at + record.headers_size
    for _i in range(record.header_count):
        if read_varint(&cur, &key_size) != OK or read_span(&cur, key_size, &key) != OK:
            break
        if read_varint(&cur, &value_size) != OK:
            break
        if value_size < 0:
            headers.append((key[:key_size], None))
        elif read_span(&cur, value_size, &value) == OK:
            headers.append((key[:key_size], value[:value_size]))
    return tuple(headers)


cdef object to_record(const Record* record):
    cdef bytes key = None if record.key_size < 0 else record.key[:record.key_size]
    cdef bytes value = None if record.value_size < 0 else record.value[:record.value_size]
    cdef object headers = () if record.header_count <= 0 else headers_of(record)
    return LogRecord(record.offset, record.timestamp, key, value, headers, record.append_time)


cdef object to_batch(const Batch* batch, list records):
    # A legacy batch without records is a fault.
    cdef object base = batch.base_offset if batch.magic == 2 else records[0].offset
    cdef object last = (wrap_add(batch.base_offset, batch.last_offset_delta) if batch.magic == 2
                        else records[len(records) - 1].offset)
    return LogBatch(
        batch.position, batch.size, base, last, batch.magic, CODECS[batch.codec],
        bool(batch.append_time), batch.leader_epoch, batch.crc, batch.base_timestamp,
        batch.max_timestamp, batch.base_timestamp if batch.delete_horizon else None,
        batch.producer_id, batch.producer_epoch, batch.base_sequence, bool(batch.transactional),
        bool(batch.control), records)


cdef class LogReader:
    """Iterate over the readable batches of a segment's bytes, in order."""
    cdef const uint8_t[::1] view
    cdef int64_t at
    cdef int64_t expected            # base offset of the next batch, -1: unknown
    cdef bint check_crc
    cdef Records scratch
    cdef int users
    cdef readonly list faults

    def __cinit__(self, data, *, check_crc=True):
        self.view = buffer_of(data, "data")
        self.at = 0
        self.expected = -1
        self.check_crc = flag_of(check_crc, "check_crc")
        self.scratch = Records.__new__(Records)
        self.faults = []

    def __iter__(self):
        return self

    cdef int add_fault(self, const Batch* batch, int fault, str detail) except -1:
        cdef object base = None
        if plausible_base(fault, batch.base_offset, self.expected):
            base = batch.base_offset
        self.faults.append(BatchFault(batch.position, base, KINDS[fault], detail))
        return 0

    def __next__(self):
        begin_change(&self.users, "this reader")
        try:
            batch = self.next_batch()
        finally:
            end_use(&self.users)
        if batch is None:
            raise StopIteration
        return batch

    cdef object next_batch(self):
        """Return the next readable batch, or None."""
        cdef Batch batch
        cdef Frame frame
        cdef int fault
        cdef Py_ssize_t i
        cdef int64_t size = self.view.shape[0]
        while self.at < size:
            frame = frame_batch(&self.view[0], size, self.at, &batch)
            self.at += batch.size
            if frame != FRAME_BATCH:
                self.add_fault(&batch, frame_to_fault(frame), f"{batch.size} bytes from here")
            elif self.check_crc and not crc_holds(&batch):
                self.add_fault(&batch, FAULT_CRC, f"the stored checksum {batch.crc} does not hold")
            else:
                fault = self.scratch.read(&batch)
                if fault == NO_FAULT:
                    self.expected = wrap_add(
                        batch.base_offset, batch.last_offset_delta + <int64_t>1)
                    return to_batch(&batch, [to_record(&self.scratch.items[i])
                                             for i in range(self.scratch.count)])
                self.add_fault(&batch, fault, self.scratch.detail)
        return None


cdef bint has_readable_batch(const uint8_t[::1] data, int64_t start, int64_t end) except -1:
    """Whether there is a readable batch between two boundaries."""
    cdef Batch batch
    cdef Records records = Records.__new__(Records)
    while start < end:
        if (frame_batch(&data[0], data.shape[0], start, &batch) == FRAME_BATCH
                and crc_holds(&batch) and records.read(&batch) == NO_FAULT):
            return True
        start += batch.size
    return False


def batch_boundaries(data, int64_t max_bytes):
    """Return the ascending positions at which a segment may be cut, including 0 and its size."""
    cdef const uint8_t[::1] view = buffer_of(data, "data")
    cdef Batch batch
    cdef Frame frame
    cdef int64_t size = view.shape[0], at = 0, last = 0, wrong = -1
    cdef list cuts = [0]
    if max_bytes < 1:
        raise ArgumentError(f"max_bytes must be at least 1, not {max_bytes}")
    while at < size:
        with nogil:
            while at < size:
                frame = frame_batch(&view[0], size, at, &batch)
                if frame == FRAME_LENGTH or frame == FRAME_TAIL:
                    wrong = at
                    at = size
                elif at > last and at + batch.size - last > max_bytes:
                    break                      # a whole batch begins here: the next piece
                else:
                    at += batch.size
        # The last good batch decides which base offset a fault may have, so both go in one piece.
        while wrong >= 0 and len(cuts) > 1 and not has_readable_batch(
                view, cuts[len(cuts) - 1], wrong):
            cuts.pop()
        cuts.append(at)
        last = at
    return cuts


# ---- records to record batches of magic 2 and message sets of magic 0 and 1 ----------------------
# The reverse of ``batch``, for tests, tools and the coordinator's own log. Writes the same bytes as
# Kafka's MemoryRecordsBuilder, except inside compressed streams. Knows nothing of keys and values.
# Cost: one list of parts, joined once; `encode_sized` writes without an object for each record.

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
                     header_rows(record[HEADERS]) if len(record) > HEADERS else ()))
    return rows


cdef bytes bytes_or_none(object value, str name):
    return None if value is None else bytes_of(value, name)


cdef list header_rows(headers):
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
