"""What a second reading of a log must know beforehand, told by the fold. See ``survey.pyi``.

Few among millions of records: Python objects.
"""


cdef class Survey:
    """See ``survey.pyi``."""

    def __cinit__(self):
        self.begin_piece()

    cdef int begin_piece(self) except -1:
        self.open, self.ended = {}, {}
        return 0

    cdef int note_open(self, object producer_id, object number) except -1:
        self.open.setdefault(producer_id, number)
        return 0

    cdef int note_end(self, object producer_id, int marker, object number, object ms) except -1:
        self.open.pop(producer_id, None)
        self.ended.setdefault(producer_id, (marker, number, ms))
        return 0
