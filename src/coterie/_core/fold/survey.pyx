"""The facts that a second reading of a log needs, collected by the fold during the first.

The outcome of a transaction that is open at the end of a piece is known only after the piece.
Knows producers and the numbers of records; knows no keys. Python objects, as transactions are few
among millions of records.
"""
from libc.stdint cimport int64_t

from coterie._core.fold.record_kind cimport FAULTY, TOO_LATE, ParsedRecord


cdef class Survey:
    """The transactions of the piece scanned last: which are open, and the first markers."""

    def __cinit__(self):
        self.begin_piece()

    cdef int begin_piece(self) except -1:
        self.open, self.ended = {}, {}
        return 0

    cdef int add_open(self, int64_t producer_id, const ParsedRecord* parsed, Py_ssize_t count,
                      int64_t number) except -1:
        """Open a transaction at its first record that counts, whatever its group."""
        cdef Py_ssize_t i
        for i in range(count):
            if parsed[i].kind != FAULTY and parsed[i].kind != TOO_LATE:
                self.open.setdefault(producer_id, number + i)
                break
        return 0

    cdef int add_end(self, object producer_id, int marker, object number, object ms) except -1:
        self.open.pop(producer_id, None)
        self.ended.setdefault(producer_id, (marker, number, ms))
        return 0
