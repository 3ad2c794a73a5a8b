"""What a fold tells besides its state: see survey.pyx."""
from libc.stdint cimport int64_t

from coterie._core.codec.batch cimport Record

cdef class Survey:
    cdef readonly list records           # of groups that are no commits, of all pieces
    cdef readonly dict open              # producer -> number of its first record, see survey.pyx
    cdef readonly dict ended             # producer -> (marker, number, ms), its first one

    cdef int begin_piece(self) except -1
    cdef int note_open(self, object producer_id, object number) except -1
    cdef int note_end(self, object producer_id, int marker, object number, object ms) except -1
    cdef int note_record(self, bytes group, const Record* record, object position) except -1
