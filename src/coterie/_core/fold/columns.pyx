"""The records of a segment decoded into columns, without a Python object for each record.

Names become numbers: most commit keys differ from the previous key only in the partition, so the
names cost one comparison (`names.pxd`). A batch whose records do not fill it exactly loses its rows
again, and is a fault. Knows no outcomes and no earlier records; see `record_scan` for those. Cost:
one pass over the bytes for the checksum, one for the records.
"""
cimport cython
cimport numpy as cnp
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from coterie._core.codec.batch cimport (
    AHEAD, FAULT_CRC, FAULT_KEY, FAULT_VALUE, FRAME_BATCH, MIN_RECORD_V2, NO_FAULT, V2_HEADER,
    Batch, Frame, Record, Records, crc_holds, frame_batch, frame_to_fault, plausible_base,
    read_marker)
from coterie._core.checks cimport buffer_of, within
from coterie._core.fold.commit cimport (
    KEY_ENDS, KEY_GROUP, KEY_OFFSET_MAX, VALUE_V3_SIZE, Commit, check_group_value, grown_columns,
    is_newer_key, names_from, read_commit_value)
from coterie._core.codec.cursor cimport OK, Cursor, Status, load_i16, load_i32, load_i64
from coterie._core.fold.keytable cimport coterie_equal, coterie_prefetch
from coterie._core.fold.names cimport (
    NAMES_MIN, Names, Recent, name_number, names_forget, names_free, names_init, names_of,
    recent_of)
from coterie._core.codec.record cimport record_v2
from coterie._core.fold.record_scan cimport (
    BYTES_A_ROW, FAULTY, GROUP, GROUP_TOMBSTONE, MARKER, NEWER, OFFSET, OFFSET_TOMBSTONE, UNKNOWN)

import numpy as np

from coterie._core.codec.batch import KINDS

cnp.import_array()

KIND_NAMES = ("offset", "offset_tombstone", "group", "group_tombstone", "newer", "unknown",
              "marker", "fault")

cdef enum:
    SHORT_METADATA = 16          # bytes, copied in one instruction
    MAX_ROWS = 0x7FFFFFFF        # requested at once: a batch's count has 32 bits

ROW_DTYPES = {
    "log_offset": np.int64, "timestamp": np.int64, "batch": np.int32, "kind": np.int8,
    "key_version": np.int16, "group": np.int32, "topic": np.int32, "partition": np.int32,
    "offset": np.int64, "leader_epoch": np.int32, "commit_timestamp": np.int64,
    "expire_timestamp": np.int64, "metadata_end": np.int64,
}
RAW_DTYPES = {"key_at": np.int64, "key_size": np.int32, "value_at": np.int64,
              "value_size": np.int32}
BATCH_DTYPE = np.dtype([
    ("position", np.int64), ("base_offset", np.int64), ("producer_id", np.int64),
    ("first_row", np.int64), ("size", np.int32), ("leader_epoch", np.int32),
    ("base_sequence", np.int32), ("marker", np.int32), ("producer_epoch", np.int16),
    ("magic", np.int8), ("codec", np.int8), ("append_time", np.int8), ("transactional", np.int8),
    ("control", np.int8), ("delete_horizon", np.int8)])

cdef struct BatchRow:            # BATCH_DTYPE, field by field: no padding, 56 bytes
    int64_t position, base_offset, producer_id, first_row
    int32_t size, leader_epoch, base_sequence, marker
    int16_t producer_epoch
    int8_t magic, codec, append_time, transactional, control, delete_horizon


@cython.final
cdef class Columns:
    """The rows decoded so far: the first `n` of each array."""
    cdef readonly dict arrays
    cdef readonly list faults
    cdef Py_ssize_t n, capacity
    cdef BatchRow* batch_rows
    cdef Py_ssize_t batch_count, batch_capacity
    cdef bint raw, faulty
    cdef Names names
    cdef int64_t[::1] log_offset, timestamp, offset, commit_timestamp, expire_timestamp
    cdef int64_t[::1] metadata_end, key_at, value_at
    cdef int32_t[::1] batch, group, topic, partition, leader_epoch, key_size, value_size
    cdef int16_t[::1] key_version
    cdef int8_t[::1] kind
    cdef uint8_t[::1] metadata           # of all rows, end to end
    cdef int64_t metadata_size
    cdef uint8_t[::1] raw_bytes          # keys and values end to end, if `raw`
    cdef int64_t raw_size

    def __cinit__(self, capacity, *, bint raw):
        self.raw = raw
        names_init(&self.names)
        self.faults = []
        self.arrays = {}
        self.metadata = np.empty(4096, dtype=np.uint8)
        self.raw_bytes = np.empty(4096 if raw else 1, dtype=np.uint8)
        self.grow(within(capacity, "capacity", 0, MAX_ROWS))

    def __dealloc__(self):
        free(self.batch_rows)
        names_free(&self.names)

    cdef inline int reserve(self, Py_ssize_t rows, int64_t size) except -1:
        """Make room for `rows` rows in all, and for `size` more bytes of metadata and raw bytes."""
        if rows > self.capacity:
            self.grow(rows)
        if self.metadata_size + size > self.metadata.shape[0] or (
                self.raw and self.raw_size + size > self.raw_bytes.shape[0]):
            self.grow_bytes(size)
        return 0

    cdef int grow(self, Py_ssize_t rows) except -1:
        dtypes = ROW_DTYPES | RAW_DTYPES if self.raw else ROW_DTYPES
        self.capacity = grown_columns(dtypes, self.arrays, self.n, self.capacity, rows)
        a = self.arrays
        self.log_offset, self.timestamp, self.offset = a["log_offset"], a["timestamp"], a["offset"]
        self.commit_timestamp = a["commit_timestamp"]
        self.expire_timestamp, self.metadata_end = a["expire_timestamp"], a["metadata_end"]
        self.batch, self.group, self.topic = a["batch"], a["group"], a["topic"]
        self.partition, self.leader_epoch = a["partition"], a["leader_epoch"]
        self.key_version, self.kind = a["key_version"], a["kind"]
        if self.raw:
            self.key_at, self.key_size = a["key_at"], a["key_size"]
            self.value_at, self.value_size = a["value_at"], a["value_size"]
        return 0

    cdef int grow_bytes(self, int64_t size) except -1:
        if self.metadata_size + size > self.metadata.shape[0]:
            grown = np.empty(2 * (self.metadata_size + size), dtype=np.uint8)
            grown[:self.metadata_size] = self.metadata[:self.metadata_size]
            self.metadata = grown
        if self.raw and self.raw_size + size > self.raw_bytes.shape[0]:
            grown = np.empty(2 * (self.raw_size + size), dtype=np.uint8)
            grown[:self.raw_size] = self.raw_bytes[:self.raw_size]
            self.raw_bytes = grown
        return 0

    cdef int add_fault(self, const Batch* batch, int fault, object offset, str detail) except -1:
        base = batch.base_offset if plausible_base(fault, batch.base_offset, -1) else None
        self.faults.append((batch.position, base, KINDS[fault], offset, detail))
        return 0

    cdef int add_batch(self, const Batch* batch, Records scratch) except -1:
        """Add the records of a framed batch whose checksum holds."""
        cdef Py_ssize_t i, first = self.n
        cdef int fault = NO_FAULT
        cdef int marker = -1
        cdef int64_t size = batch.size, raw_size = self.raw_size
        cdef int64_t metadata_size = self.metadata_size
        if batch.magic == 2 and batch.codec == 0 and 0 <= batch.record_count <= (
                size // MIN_RECORD_V2):
            self.reserve(self.n + batch.record_count, size)
            fault = self.add_plain(batch)
        if fault != NO_FAULT or self.n == first:
            # Compressed, legacy, empty or broken: `Records` reads it, or has the reason.
            self.n, self.metadata_size, self.raw_size = first, metadata_size, raw_size
            fault = scratch.read(batch)
            if fault != NO_FAULT:
                return self.add_fault(batch, fault, None, scratch.detail)
            size = batch.size
            if scratch.decompressed_data is not None:
                size = len(scratch.decompressed_data)
            self.reserve(self.n + scratch.count, size)
            for i in range(scratch.count):
                self.add_record(batch, &scratch.items[i])
            if scratch.decompressed:       # the next batch overwrites the bytes of the names
                names_forget(&self.names)
        if self.names.failed:
            raise MemoryError
        if batch.control:
            marker = self.mark_control(batch, first, scratch)
        self.add_batch_row(batch, marker, first)
        if self.faulty:
            self.report_faulty(batch, first)
        return 0

    cdef int add_batch_row(self, const Batch* batch, int marker, Py_ssize_t first) except -1:
        cdef BatchRow* row
        cdef void* grown
        if self.batch_count == self.batch_capacity:
            self.batch_capacity = 2 * self.batch_capacity + 64
            grown = realloc(self.batch_rows, self.batch_capacity * sizeof(BatchRow))
            if grown == NULL:
                raise MemoryError
            self.batch_rows = <BatchRow*>grown
        row = &self.batch_rows[self.batch_count]
        row.position, row.base_offset = batch.position, batch.base_offset
        row.producer_id, row.first_row = batch.producer_id, first
        row.size, row.leader_epoch = <int32_t>batch.size, batch.leader_epoch
        row.base_sequence, row.producer_epoch = batch.base_sequence, batch.producer_epoch
        row.marker, row.magic, row.codec = marker, batch.magic, batch.codec
        row.append_time, row.transactional = batch.append_time, batch.transactional
        row.control, row.delete_horizon = batch.control, batch.delete_horizon
        self.batch_count += 1
        return 0

    cdef int mark_control(self, const Batch* batch, Py_ssize_t first, Records scratch) except -2:
        """Make markers of a control batch's rows, whatever their keys are; return its type."""
        cdef Py_ssize_t i
        self.metadata_size = self.metadata_end[first - 1] if first else 0
        for i in range(first, self.n):
            self.kind[i] = MARKER
            self.group[i] = self.topic[i] = self.partition[i] = self.leader_epoch[i] = -1
            self.offset[i] = self.commit_timestamp[i] = self.expire_timestamp[i] = -1
            self.metadata_end[i] = self.metadata_size
        cdef Cursor cur
        cdef Record record
        cdef int marker = -1
        cur.at, cur.end = batch.start + V2_HEADER, batch.start + batch.size
        if self.n > first and batch.codec != 0:
            read_marker(&scratch.items[0], &marker)
        elif self.n > first and record_v2(&cur, batch, &record) == OK:
            read_marker(&record, &marker)
        return marker if marker >= 0 else -1

    cdef int report_faulty(self, const Batch* batch, Py_ssize_t first) except -1:
        cdef Py_ssize_t i
        self.faulty = False
        for i in range(first, self.n):
            if self.kind[i] == FAULTY:
                self.add_fault(batch, self.partition[i], self.log_offset[i], "see coterie verify")
                self.partition[i] = -1
        return 0

    @cython.boundscheck(False)    # `reserve` made room for the whole batch
    cdef int add_plain(self, const Batch* batch) noexcept nogil:
        """Add the records of an uncompressed v2 batch; 1: they do not fill it exactly."""
        cdef Cursor cur
        cdef Record record, other
        cdef int32_t _i
        cur.at, cur.end = batch.start + V2_HEADER, batch.start + batch.size
        for _i in range(batch.record_count):
            # Prefetches bytes of later batches while these are parsed: else their checksum would
            # wait for every cache line, a quarter of the time. Never reads them.
            coterie_prefetch(cur.at + AHEAD)
            coterie_prefetch(cur.at + AHEAD + 64)
            if record_v2(&cur, batch, &record) != OK:
                return 1
            if not self.add_short(&record, cur.end):
                other = record             # a copy: see record_v2
                self.add_record(batch, &other)
        return cur.at != cur.end

    @cython.boundscheck(False)    # as add_plain
    cdef inline bint add_short(self, const Record* record, const uint8_t* end) noexcept nogil:
        """`add_record` for a commit in the form that brokers write since 2.1, of recent names.

        False: another record, and nothing was added.
        """
        cdef Py_ssize_t n = self.n
        cdef const uint8_t* key = record.key
        cdef const uint8_t* value = record.value
        cdef Recent* recent
        cdef int32_t prefix = record.key_size - KEY_ENDS, metadata_size
        if self.raw or prefix < NAMES_MIN or record.value_size < VALUE_V3_SIZE or (
                load_i16(value) != 3):
            return False
        metadata_size = load_i16(value + 14)
        if metadata_size < 0 or metadata_size > record.value_size - VALUE_V3_SIZE:
            return False
        recent = recent_of(&self.names, key, prefix)
        if recent.size != prefix or not coterie_equal(recent.at, key + 2, prefix) or (
                load_i16(key) & ~1):
            return False
        recent.at = key + 2        # the bytes that were read last are still in the cache
        self.log_offset[n] = record.offset
        self.timestamp[n] = record.timestamp
        self.batch[n] = <int32_t>self.batch_count
        self.kind[n] = OFFSET
        self.key_version[n] = load_i16(key)
        self.group[n], self.topic[n] = recent.group, recent.topic
        self.partition[n] = load_i32(key + recent.partition_at)
        self.offset[n] = load_i64(value + 2)
        self.leader_epoch[n] = load_i32(value + 10)
        self.commit_timestamp[n] = load_i64(value + 16 + metadata_size)
        self.expire_timestamp[n] = -1
        # Metadata is mostly a few bytes or none, and copying sixteen costs less than a branch. The
        # excess fits: `reserve` made room for the batch's header, too.
        if metadata_size <= SHORT_METADATA and end - value >= 16 + SHORT_METADATA:
            memcpy(&self.metadata[0] + self.metadata_size, value + 16, SHORT_METADATA)
        else:
            memcpy(&self.metadata[0] + self.metadata_size, value + 16, metadata_size)
        self.metadata_size += metadata_size
        self.metadata_end[n] = self.metadata_size
        self.n = n + 1
        return True

    @cython.boundscheck(False)    # as add_plain
    cdef inline void add_record(self, const Batch* batch, Record* record) noexcept nogil:
        cdef Py_ssize_t n = self.n
        cdef Commit commit
        cdef int16_t version = load_i16(record.key) if record.key_size >= 2 else -1
        self.log_offset[n] = record.offset
        self.timestamp[n] = record.timestamp
        self.batch[n] = <int32_t>self.batch_count
        self.key_version[n] = version
        self.group[n] = self.topic[n] = self.partition[n] = -1
        if 0 <= version <= KEY_OFFSET_MAX:
            self.add_commit(record, &commit)
        else:
            self.offset[n] = self.commit_timestamp[n] = self.expire_timestamp[n] = -1
            self.leader_epoch[n] = -1
            self.add_other(record, version)
        self.metadata_end[n] = self.metadata_size
        if self.raw:
            self.add_raw(record)
        self.n = n + 1

    @cython.boundscheck(False)    # as add_plain
    cdef inline void add_commit(self, Record* record, Commit* commit) noexcept nogil:
        cdef Py_ssize_t n = self.n
        commit.metadata_size = 0
        commit.offset = commit.commit_timestamp = commit.expire_timestamp = -1
        commit.leader_epoch = -1
        if self.read_key(record.key, record.key_size, &commit.partition) != OK:
            self.kind[n] = FAULTY
            self.partition[n] = FAULT_KEY
            self.faulty = True
        elif record.value_size >= 0 and read_commit_value(
                record.value, record.value_size, commit) != OK:
            self.kind[n] = FAULTY
            self.group[n] = self.topic[n] = -1
            self.partition[n] = FAULT_VALUE
            self.faulty = True
        else:
            self.kind[n] = OFFSET if record.value_size >= 0 else OFFSET_TOMBSTONE
            self.partition[n] = commit.partition
            if commit.metadata_size > 0:   # of a tombstone `metadata` is undefined
                memcpy(&self.metadata[0] + self.metadata_size, commit.metadata,
                       commit.metadata_size)
                self.metadata_size += commit.metadata_size
        self.offset[n] = commit.offset
        self.leader_epoch[n] = commit.leader_epoch
        self.commit_timestamp[n] = commit.commit_timestamp
        self.expire_timestamp[n] = commit.expire_timestamp

    @cython.boundscheck(False)    # as add_plain
    cdef inline Status read_key(self, const uint8_t* key, int32_t size,
                                int32_t* partition) noexcept nogil:
        """Set the row's group and topic."""
        cdef Recent recent
        cdef Status status = names_of(&self.names, key, size, &recent)
        if status != OK:
            return status
        partition[0] = load_i32(key + recent.partition_at)
        self.group[self.n], self.topic[self.n] = recent.group, recent.topic
        return OK

    @cython.boundscheck(False)    # as add_plain
    cdef void add_other(self, Record* record, int16_t version) noexcept nogil:
        cdef Py_ssize_t n = self.n
        cdef int32_t size
        self.kind[n] = UNKNOWN if record.key_size >= 2 else FAULTY
        if self.kind[n] == FAULTY:
            self.partition[n] = FAULT_KEY
            self.faulty = True
        if version != KEY_GROUP and not is_newer_key(version):
            return
        size = load_i16(record.key + 2) if record.key_size >= 4 else -1
        if size < 0 or size > record.key_size - 4:
            self.kind[n] = FAULTY
            self.partition[n] = FAULT_KEY
            self.faulty = True
            return
        if version > KEY_GROUP:
            self.kind[n] = NEWER
        elif record.value_size < 0:
            self.kind[n] = GROUP_TOMBSTONE
        elif check_group_value(record.value, record.value_size) == OK:
            self.kind[n] = GROUP
        else:
            self.kind[n] = FAULTY
            self.partition[n] = FAULT_VALUE
            self.faulty = True
            return
        self.group[n] = name_number(
            &self.names, &self.names.groups, record.key + 4, size)

    @cython.boundscheck(False)    # as add_plain
    cdef void add_raw(self, Record* record) noexcept nogil:
        cdef Py_ssize_t n = self.n
        self.key_at[n] = self.raw_size
        self.key_size[n] = record.key_size
        if record.key_size > 0:
            memcpy(&self.raw_bytes[0] + self.raw_size, record.key, record.key_size)
            self.raw_size += record.key_size
        self.value_at[n] = self.raw_size
        self.value_size[n] = record.value_size
        if record.value_size > 0:
            memcpy(&self.raw_bytes[0] + self.raw_size, record.value, record.value_size)
            self.raw_size += record.value_size

    cdef dict finish(self):
        out = {name: array[:self.n] for name, array in self.arrays.items()}
        out["metadata"] = np.asarray(self.metadata)[:self.metadata_size]
        if self.raw:
            out["bytes"] = np.asarray(self.raw_bytes)[:self.raw_size]
        out["groups"] = names_from(&self.names.groups, 0)
        out["topics"] = names_from(&self.names.topics, 0)
        out["faults"] = self.faults
        out["batches"] = np.empty(self.batch_count, dtype=BATCH_DTYPE)
        if out["batches"].nbytes != self.batch_count * <Py_ssize_t>sizeof(BatchRow):
            raise ValueError("BATCH_DTYPE does not match the struct BatchRow")
        if self.batch_count:
            memcpy(cnp.PyArray_DATA(out["batches"]), self.batch_rows,
                   self.batch_count * sizeof(BatchRow))
        return out


def decode_columns(data, *, bint raw=False, bint check_crc=True):
    """Decode every record of a segment's bytes into columns, in log order."""
    cdef const uint8_t[::1] view = buffer_of(data, "data")
    cdef Batch batch
    cdef Frame frame
    cdef int64_t at = 0, size = view.shape[0]
    cdef Columns columns
    cdef Records scratch = Records.__new__(Records)
    columns = Columns(size // BYTES_A_ROW, raw=raw)
    while at < size:
        frame = frame_batch(&view[0], size, at, &batch)
        at += batch.size
        if frame != FRAME_BATCH:
            columns.add_fault(&batch, frame_to_fault(frame), None, "")
        elif check_crc and not crc_holds(&batch):
            columns.add_fault(&batch, FAULT_CRC, None, "the stored checksum does not hold")
        else:
            columns.add_batch(&batch, scratch)
    return columns.finish()
