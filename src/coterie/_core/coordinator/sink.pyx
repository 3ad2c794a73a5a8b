"""The logs that a coordinator writes to.

A coordinator gives its records to a sink, and reads them from it when a partition is loaded. The
log in memory is for tests; a log of the caller's may be a file or a topic; a direct log takes the
bytes of a batch. A sink knows no group. Cost: one call a batch.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t

from coterie._core.checks cimport within
from coterie._core.codec.cursor cimport load_i32

from bisect import bisect_left
from operator import attrgetter

from coterie.errors import ArgumentError, shown

cdef enum:
    SIZES = 8                      # bytes before a record: the sizes of its key and its value

cdef object BASE_OFFSET = attrgetter("base_offset")
cdef int64_t LATEST_OFFSET = <int64_t>1 << 62  # later offsets still fit an int64


@cython.final
@cython.no_gc                      # bytes and numbers: no reference cycles
cdef class Batch:
    """Records that are appended as a whole, as bytes; pairs are made on request."""

    cdef tuple pair(self, Py_ssize_t at):
        """Return key and value of the record that begins at this byte."""
        cdef const uint8_t* record = <const uint8_t*>PyBytes_AS_STRING(self.data) + at
        cdef int32_t key = load_i32(record), value = load_i32(record + 4)
        return (bytes_or_none(record + SIZES, key),
                bytes_or_none(record + SIZES + max(key, 0), value))

    cdef Py_ssize_t after(self, Py_ssize_t at) noexcept:
        """Return where the next record begins."""
        cdef const uint8_t* record = <const uint8_t*>PyBytes_AS_STRING(self.data) + at
        return at + SIZES + max(load_i32(record), 0) + max(load_i32(record + 4), 0)

    cdef tuple pairs(self):
        """Return key and value of each record."""
        cdef Py_ssize_t at = 0
        cdef list pairs = []
        for _ in range(self.count):
            pairs.append(self.pair(at))
            at = self.after(at)
        return tuple(pairs)

    cdef tuple row(self):
        return (self.base_offset, self.producer_id, self.epoch, self.transactional, self.control,
                self.pairs())


cdef object bytes_or_none(const uint8_t* raw, int32_t size):
    return None if size < 0 else PyBytes_FromStringAndSize(<const char*>raw, size)


cdef Batch new_batch(str group_id, Py_ssize_t count, bytes data):
    """Make a batch without a producer, not yet in a log."""
    cdef Batch made = Batch.__new__(Batch)
    made.group_id = group_id
    made.base_offset = -1
    made.producer_id = -1
    made.epoch = -1
    made.count = count
    made.data = data
    return made


cdef Batch batch_of(object records):
    """Make a batch of records that are pairs."""
    cdef list parts = []
    cdef bytes key, value
    for pair in records:
        key, value = pair
        parts += [size_of(key), size_of(value), key or b"", value or b""]
    return new_batch(None, len(records), b"".join(parts))


cdef bytes size_of(bytes raw):
    cdef int32_t size = -1 if raw is None else <int32_t>PyBytes_GET_SIZE(raw)
    return (<object>size).to_bytes(4, "big", signed=True)


cdef class Sink:
    """The interface of a log for a coordinator."""

    cdef int64_t append(self, Batch batch, int64_t base_offset) except -3:
        """Write one batch; return its offset, LATER or FAILED. Offset -1: at the end."""
        raise NotImplementedError

    cdef bint at_once(self) noexcept:
        """Whether every append finishes within the call."""
        return False

    cdef int check(self, Py_ssize_t count, int64_t base_offset) except -1:
        """Refuse, before any change, an offset at which there can be no batch."""
        return 0

    cdef object read(self):
        """Return the rows of all batches, in log order."""
        raise NotImplementedError


@cython.final
cdef class MemoryLog(Sink):
    """A log in memory, ordered by offset."""

    def __cinit__(self):
        self.batches = []

    cdef int64_t append(self, Batch batch, int64_t base_offset) except -3:
        cdef Py_ssize_t place = self.place(batch.count, base_offset)
        batch.base_offset = self.end if base_offset < 0 else base_offset
        if place == len(self.batches):
            self.batches.append(batch)
        else:
            self.batches.insert(place, batch)
        self.end = max(self.end, batch.base_offset + max(batch.count, 1))
        return batch.base_offset

    cdef int check(self, Py_ssize_t count, int64_t base_offset) except -1:
        self.place(count, base_offset)

    cdef bint at_once(self) noexcept:
        return True

    cdef object read(self):
        return [(<Batch?>batch).row() for batch in self.batches]

    cdef Py_ssize_t place(self, Py_ssize_t count, int64_t base_offset) except -1:
        """Return the position of a batch with so many records; it must not overlap another."""
        cdef Py_ssize_t at
        cdef Batch other
        if base_offset > LATEST_OFFSET:
            raise ArgumentError(f"base_offset must be at most {LATEST_OFFSET}, not {base_offset}")
        if base_offset < 0 or base_offset >= self.end:
            return len(self.batches)
        at = bisect_left(self.batches, base_offset, key=BASE_OFFSET)
        if at < len(self.batches):
            other = <Batch?>self.batches[at]
            if other.base_offset < base_offset + count:
                raise ArgumentError(f"base_offset {base_offset}: a batch stands at "
                                    f"{other.base_offset} already")
        if at > 0:
            other = <Batch?>self.batches[at - 1]
            if other.base_offset + other.count > base_offset:
                raise ArgumentError(f"base_offset {base_offset} lies within the batch at "
                                    f"{other.base_offset}")
        return at


@cython.final
cdef class CallerLog(Sink):
    """A log of the caller's: a function that appends a batch, and one that reads all batches."""

    def __cinit__(self, write, rows):
        self.write = write
        self.rows = rows

    cdef int64_t append(self, Batch batch, int64_t base_offset) except -3:
        cdef int64_t position
        try:
            offset = self.write(batch.row())
            if offset is None:
                return LATER
            if type(offset) is not int or not 0 <= offset <= LATEST_OFFSET:
                raise ArgumentError("append must return the offset of the batch, or None if it "
                                    f"finishes later, not {shown(offset)}")
            position = offset
            return position
        except BaseException as error:     # Ctrl-C, too: only the append has failed
            if self.failure is None or not isinstance(error, Exception):
                self.failure = error
            return FAILED

    cdef object read(self):
        return self.rows()


@cython.final
cdef class DirectLog(Sink):
    """A log that takes the bytes of a batch and has written them when ``write`` returns."""

    def __cinit__(self, write, rows):
        self.write = write
        self.rows = rows

    cdef bint at_once(self) noexcept:
        return True

    cdef int64_t append(self, Batch batch, int64_t base_offset) except -3:
        cdef int64_t position
        try:
            position = within(
                self.write(batch.group_id, batch.data, batch.count, batch.producer_id,
                           batch.epoch, batch.transactional, batch.control),
                "the offset of a batch", 0, LATEST_OFFSET)
            return position
        except BaseException as error:     # as in CallerLog
            if self.failure is None or not isinstance(error, Exception):
                self.failure = error
            return FAILED

    cdef object read(self):
        return self.rows()
