"""What a second reading of a log must know beforehand, told by the fold. See ``survey.pyi``.

Few among millions of records: Python objects.
"""
from libc.stdint cimport int64_t

from coterie._core.codec.batch cimport Record
from coterie._core.codec.cursor cimport load_i16

from coterie._core.codec.text import decode_utf8


cdef class Survey:
    """See ``survey.pyi``."""

    def __cinit__(self):
        self.records = []
        self.begin_piece()

    cdef int begin_piece(self) except -1:
        self.open, self.ended = {}, {}
        return 0

    def take_records(self):
        """See ``survey.pyi``."""
        taken, self.records = self.records, []
        return taken

    cdef int note_open(self, object producer_id, object number) except -1:
        self.open.setdefault(producer_id, number)
        return 0

    cdef int note_end(self, object producer_id, int marker, object number, object ms) except -1:
        self.open.pop(producer_id, None)
        self.ended.setdefault(producer_id, (marker, number, ms))
        return 0

    cdef int note_record(self, bytes group, const Record* record, object position) except -1:
        self.records.append((
            decode_utf8(group), record.offset, record.timestamp, load_i16(record.key),
            record.key[:record.key_size],
            None if record.value_size < 0 else record.value[:record.value_size], position))
        return 0
