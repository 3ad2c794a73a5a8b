"""Where a coordinator's records go. See sink.pyx."""
from libc.stdint cimport int16_t, int64_t

cdef enum:
    LATER = -1                     # the append comes back by `complete`
    FAILED = -2                    # nothing was appended; why stands in `failure`

cdef class Sink:
    cdef readonly object failure   # what a caller's log raised, until it is taken

    cdef int64_t append(self, tuple records, int64_t producer_id, int16_t epoch,
                        bint transactional, bint control, int64_t base_offset) except -3
    cdef int check(self, Py_ssize_t count, int64_t base_offset) except -1
    cdef object read(self)

cdef class Written:
    cdef readonly int64_t base_offset
    cdef int64_t producer_id
    cdef int16_t epoch
    cdef bint transactional
    cdef bint control
    cdef tuple records

    cdef tuple row(self)

cdef class MemoryLog(Sink):
    cdef list batches              # each as it was Written, by offset
    cdef readonly int64_t end

    cdef Py_ssize_t place(self, Py_ssize_t count, int64_t base_offset) except -1

cdef class CallerLog(Sink):
    cdef object write              # row of a batch -> offset, or None: later
    cdef object rows               # () -> rows of all batches
