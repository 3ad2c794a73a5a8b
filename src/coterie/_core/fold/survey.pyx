"""What a second reading of a log must know beforehand, told by the fold. See ``survey.pyi``.

Few among millions of records: Python objects.
"""
from libc.stdint cimport int64_t

from coterie._core.fold.record_kind cimport FAULTY, LEFT_OUT, Parsed


cdef class Survey:
    """What a fold tells of its records for a second reading, besides the state itself."""

    def __cinit__(self):
        self.begin_piece()

    cdef int begin_piece(self) except -1:
        self.open, self.ended = {}, {}
        return 0

    cdef int note_open(self, int64_t producer_id, const Parsed* parsed, Py_ssize_t count,
                       int64_t number) except -1:
        """A transaction is known by its first record that counts, of any group."""
        cdef Py_ssize_t i
        for i in range(count):
            if parsed[i].kind != FAULTY and parsed[i].kind != LEFT_OUT:
                self.open.setdefault(producer_id, number + i)
                break
        return 0

    cdef int note_end(self, object producer_id, int marker, object number, object ms) except -1:
        self.open.pop(producer_id, None)
        self.ended.setdefault(producer_id, (marker, number, ms))
        return 0
