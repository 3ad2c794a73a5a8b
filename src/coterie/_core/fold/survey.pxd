"""What a fold tells besides its state: see survey.pyx."""

cdef class Survey:
    cdef readonly dict open              # producer -> number of its first record, see survey.pyx
    cdef readonly dict ended             # producer -> (marker, number, ms), its first one

    cdef int begin_piece(self) except -1
    cdef int note_open(self, object producer_id, object number) except -1
    cdef int note_end(self, object producer_id, int marker, object number, object ms) except -1
