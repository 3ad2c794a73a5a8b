"""Batches and records of a segment as Python objects, and the places where it may be cut.

For tools and tests. Bulk work goes through ``fold`` and ``columns``, which use the same parser
(``batch``). A fault is skipped and reported, never raised.
Knows bytes; knows no keys and no values. Cost: some Python objects for each record.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

from coterie._core.checks cimport begin_change, buffer_of, end_use, flag_of
from coterie._core.codec.cursor cimport OK, Cursor, read_span, read_varint, wrap_add
from coterie._core.codec.batch cimport (
    FAULT_CRC, FRAME_BATCH, FRAME_LENGTH, FRAME_TAIL, NO_FAULT, Batch, Frame, Record, Records,
    crc_holds, frame_batch, frame_to_fault, plausible_base)

from collections import namedtuple

from coterie._core.codec.batch import KINDS
from coterie.errors import ArgumentError

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
