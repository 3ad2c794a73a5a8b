"""What a fold tells besides its state: see survey.pyx."""
from libc.stdint cimport int64_t

from coterie._core.fold.record_kind cimport Parsed

cdef class Survey:
    cdef readonly dict open              # producer -> number of its first record, see survey.pyx
    cdef readonly dict ended             # producer -> (marker, number, ms), its first one

    cdef int begin_piece(self) except -1
    cdef int note_open(self, int64_t producer_id, const Parsed* parsed, Py_ssize_t count,
                       int64_t number) except -1
    cdef int note_end(self, object producer_id, int marker, object number, object ms) except -1
