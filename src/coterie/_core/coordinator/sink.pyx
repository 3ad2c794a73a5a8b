"""The logs that a coordinator may write to; it holds none itself.

A coordinator hands its records to a sink, and reads them again when it is elected. The one in
memory is what a test wants; a caller's may be a file, or a topic.
"""
cimport cython
from libc.stdint cimport int16_t, int64_t

from bisect import bisect_left
from operator import attrgetter

from coterie.errors import ArgumentError, shown

cdef object BASE_OFFSET = attrgetter("base_offset")
cdef int64_t LATEST_OFFSET = <int64_t>1 << 62  # what is counted on from here still fits an int64


cdef class Sink:
    """What a coordinator needs of a log."""

    cdef int64_t append(self, tuple records, int64_t producer_id, int16_t epoch,
                        bint transactional, bint control, int64_t base_offset) except -3:
        """Write one batch; where it stands, or LATER, or FAILED. Offset -1: at the end."""
        raise NotImplementedError

    cdef int check(self, Py_ssize_t count, int64_t base_offset) except -1:
        """Refuse, before anything changes, an offset at which a batch cannot stand."""
        return 0

    cdef object read(self):
        """The rows of all batches, in log order."""
        raise NotImplementedError


@cython.final
@cython.no_gc                      # bytes and numbers: nothing leads back to it
cdef class Written:
    """A batch of a log in memory."""

    cdef tuple row(self):
        return (self.base_offset, self.producer_id, self.epoch, self.transactional, self.control,
                self.records)


@cython.final
cdef class MemoryLog(Sink):
    """See ``sink.pyi``."""

    def __cinit__(self):
        self.batches = []

    cdef int64_t append(self, tuple records, int64_t producer_id, int16_t epoch,
                        bint transactional, bint control, int64_t base_offset) except -3:
        cdef int64_t position = self.end if base_offset < 0 else base_offset
        cdef Written batch = Written.__new__(Written)
        batch.base_offset = position
        batch.producer_id = producer_id
        batch.epoch = epoch
        batch.transactional = transactional
        batch.control = control
        batch.records = records
        if position >= self.end:
            self.place(len(records), base_offset)        # refused beyond the latest offset
            self.batches.append(batch)
        else:
            self.batches.insert(self.place(len(records), base_offset), batch)
        self.end = max(self.end, position + max(len(records), 1))
        return position

    cdef int check(self, Py_ssize_t count, int64_t base_offset) except -1:
        self.place(count, base_offset)
        return 0

    cdef object read(self):
        return [(<Written?>batch).row() for batch in self.batches]

    cdef Py_ssize_t place(self, Py_ssize_t count, int64_t base_offset) except -1:
        """Where a batch of so many records goes; it must not run into another."""
        cdef Py_ssize_t at
        cdef Written other
        if base_offset > LATEST_OFFSET:
            raise ArgumentError(f"base_offset must be at most {LATEST_OFFSET}, not {base_offset}")
        if base_offset < 0 or base_offset >= self.end:
            return len(self.batches)
        at = bisect_left(self.batches, base_offset, key=BASE_OFFSET)
        if at < len(self.batches):
            other = <Written?>self.batches[at]
            if other.base_offset < base_offset + count:
                raise ArgumentError(f"base_offset {base_offset}: a batch stands at "
                                    f"{other.base_offset} already")
        if at > 0:
            other = <Written?>self.batches[at - 1]
            if other.base_offset + len(other.records) > base_offset:
                raise ArgumentError(f"base_offset {base_offset} lies within the batch at "
                                    f"{other.base_offset}")
        return at


@cython.final
cdef class CallerLog(Sink):
    """See ``sink.pyi``."""

    def __cinit__(self, write, rows):
        self.write = write
        self.rows = rows

    cdef int64_t append(self, tuple records, int64_t producer_id, int16_t epoch,
                        bint transactional, bint control, int64_t base_offset) except -3:
        cdef int64_t position
        try:
            given = self.write((-1, producer_id, epoch, transactional, control, records))
            if given is None:
                return LATER
            if type(given) is not int or not 0 <= given <= LATEST_OFFSET:
                raise ArgumentError("append must return the offset of the batch, or None where it "
                                    f"comes back later, not {shown(given)}")
            position = given
            return position
        except BaseException as error:     # Ctrl-C, too: the append has failed, all else is whole
            if self.failure is None or not isinstance(error, Exception):
                self.failure = error
            return FAILED

    cdef object read(self):
        return self.rows()
