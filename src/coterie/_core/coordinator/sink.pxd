"""The logs that a coordinator writes to: declarations."""
from libc.stdint cimport int16_t, int64_t

cdef enum:
    LATER = -1                     # the append is finished by `complete`
    FAILED = -2                    # nothing was appended; `failure` is the reason

cdef class Batch:                  # appended as a whole
    cdef str group_id              # of the records; None: a marker, or from a log
    cdef readonly int64_t base_offset          # once it is in a log; before, -1
    cdef int64_t producer_id
    cdef int16_t epoch
    cdef bint transactional
    cdef bint control
    cdef Py_ssize_t count          # of its records
    cdef bytes data                # of each: size of key, size of value (-1: null), key, value

    cdef tuple pair(self, Py_ssize_t at)
    cdef Py_ssize_t after(self, Py_ssize_t at) noexcept
    cdef tuple pairs(self)
    cdef tuple row(self)

cdef Batch new_batch(str group_id, Py_ssize_t count, bytes data)
cdef Batch batch_of(object records)

cdef class Sink:
    cdef readonly object failure   # what a caller's log raised, until `take_failure`

    cdef int64_t append(self, Batch batch, int64_t base_offset) except -3
    cdef bint at_once(self) noexcept
    cdef int check(self, Py_ssize_t count, int64_t base_offset) except -1
    cdef object read(self)

cdef class MemoryLog(Sink):
    cdef list batches              # of Batch, by offset
    cdef readonly int64_t end

    cdef Py_ssize_t place(self, Py_ssize_t count, int64_t base_offset) except -1

cdef class CallerLog(Sink):
    cdef object write              # row of a batch -> offset, or None: later
    cdef object rows               # () -> rows of all batches

cdef class DirectLog(Sink):
    cdef object write              # the fields of a batch -> offset
    cdef object rows               # () -> rows of all batches
