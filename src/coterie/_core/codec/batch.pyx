"""The batches of a log segment and their records, magic 0 to 2.

Frames a batch at a position, checks its checksum and parses all its records. If one record cannot
be parsed, the batch has none. Knows bytes; knows no groups, no files, no time.
Cost: one pass over the bytes for the checksum, one for the records.
Sources: DefaultRecordBatch, DefaultRecord, AbstractLegacyRecordBatch, LegacyRecord,
FileLogInputStream, ByteBufferLogInputStream.
Rules: docs/rules/log-format.md#record-batches, #message-sets and #reading-batches.
"""
cimport cython
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc

from coterie._core.codec.cursor cimport (
    OK, Cursor, load_i16, load_i32, load_i64, read_bytes32, wrap_add, wrap_sub)
from coterie._core.codec.record cimport record_v2

from coterie._core.codec.compress import decompress
from coterie.errors import CorruptData

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
        self.decompressed_data = decompress(batch.codec, at[:size], batch.magic)
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
