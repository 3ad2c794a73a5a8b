"""The facts that a fold collects for a second reading. See survey.pyx."""
from libc.stdint cimport int64_t

from coterie._core.fold.record_kind cimport ParsedRecord

cdef class Survey:
    cdef readonly dict open              # producer -> number of its first record
    cdef readonly dict ended             # producer -> (marker, number, ms), its first one

    cdef int begin_piece(self) except -1
    cdef int add_open(self, int64_t producer_id, const ParsedRecord* parsed, Py_ssize_t count,
                      int64_t number) except -1
    cdef int add_end(self, object producer_id, int marker, object number, object ms) except -1
