"""Batches of records: found, checked and read from bytes; written to bytes."""
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint32_t, uint8_t

# ---- batches of a log and their records as C structs ---------------------------------------------

cdef enum Frame:
    FRAME_BATCH = 0          # a whole batch
    FRAME_END = 1            # the end of the bytes
    FRAME_TAIL = 2           # fewer than 17 bytes before the end, or only zeros
    FRAME_LENGTH = 3         # a length below 14 or beyond the end
    FRAME_MAGIC = 4          # the length fits, but the magic is outside 0-2
    FRAME_SHORT = 5          # the length fits, but is too short for the header of the magic

cdef enum Fault:             # why a batch or record cannot be read; KINDS has the names
    NO_FAULT = 0
    FAULT_LENGTH = 1
    FAULT_TAIL = 2
    FAULT_MAGIC = 3
    FAULT_CRC = 4
    FAULT_CODEC = 5
    FAULT_RECORDS = 6
    FAULT_MARKER = 7
    FAULT_KEY = 8
    FAULT_VALUE = 9

cdef enum:
    MARKER_ABORT = 0
    MARKER_COMMIT = 1
    V2_HEADER = 61
    MIN_RECORD_V2 = 7        # length, attributes, three deltas, two sizes, header count: 1 each
    AHEAD = 8192             # distance in bytes at which a log is prefetched; more brings no gain

cdef struct Batch:
    const uint8_t* start         # first byte of the batch
    int64_t position             # of that byte in the buffer
    int64_t size                 # bytes, including the 12 of offset and length
    int64_t base_offset          # from the header; a legacy wrapper has its last record's
    int32_t leader_epoch         # -1: none
    int8_t magic
    uint32_t crc
    int16_t attributes
    int32_t last_offset_delta
    int64_t base_timestamp       # ms; the delete horizon where delete_horizon is set
    int64_t max_timestamp        # ms; a legacy message has its own timestamp, -1: none
    int64_t producer_id          # -1: none
    int16_t producer_epoch
    int32_t base_sequence
    int32_t record_count         # only of magic 2
    int codec                    # 0-7
    bint append_time             # LogAppendTime
    bint transactional
    bint control
    bint delete_horizon

cdef struct Record:
    int64_t offset
    int64_t timestamp            # ms; -1: none
    const uint8_t* key           # NULL: null
    const uint8_t* value         # NULL: null
    const uint8_t* headers       # their bytes, after the count
    int32_t key_size             # -1: null
    int32_t value_size           # -1: null, a tombstone
    int32_t headers_size
    int32_t header_count
    bint append_time             # the record's own, for magic 1 inside a wrapper

cdef inline bint in_time(const Record* record, int64_t until_ms) noexcept nogil:
    """Whether a record counts as of a time. A record of magic 0 has no time and always counts."""
    return record.timestamp <= until_ms or record.timestamp == -1

cdef Fault frame_to_fault(int frame) noexcept nogil
cdef Frame frame_batch(const uint8_t* data, int64_t size, int64_t at, Batch* batch) noexcept nogil
cdef Frame frame_as_loader(const uint8_t* data, int64_t size, int64_t at,
                           Batch* batch) noexcept nogil
cdef bint crc_holds(const Batch* batch) noexcept nogil
cdef bint unread_magic_holds(const Batch* batch) noexcept nogil
cdef bint plausible_base(int fault, int64_t base_offset, int64_t expected) noexcept nogil
cdef Fault read_marker(const Record* record, int* kind) noexcept nogil


cdef class Records:
    """The records of one batch at a time, in an array that is reused."""
    cdef Record* items
    cdef Py_ssize_t count
    cdef Py_ssize_t capacity
    cdef object decompressed_data    # the bytes that the items point into, or None
    cdef bint decompressed       # whether the items point into memory that will be reused
    cdef readonly str detail     # of the last fault, in words

    cdef int read(self, const Batch* batch) except -1
    cdef int reserve(self, Py_ssize_t count) except -1 nogil
    cdef int parse_v2(self, const Batch* batch, const uint8_t* at,
                      const uint8_t* end) except -1 nogil
    cdef int too_many(self) except -1 nogil
    cdef int parse_single(self, const Batch* batch) except -1 nogil
    cdef int parse_wrapper(self, const Batch* batch) except -1
    cdef int parse_inner(self, const uint8_t* at, const uint8_t* end) except -1 nogil
    cdef const uint8_t* decompressed_from(self, const Batch* batch, const uint8_t* at,
                                          int64_t size, int64_t* out_size) except? NULL
