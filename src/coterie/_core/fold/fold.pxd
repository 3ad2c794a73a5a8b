"""The fold of one log partition: its C face, for ``partial`` (merging, columns out)."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from coterie._core.codec.batch cimport Batch, Frame, Record, Records
from coterie._core.fold.commit cimport Commit
from coterie._core.fold.keytable cimport Table
from coterie._core.fold.history cimport History
from coterie._core.fold.deferred_groups cimport DeferredGroups
from coterie._core.fold.place_cache cimport PlaceCache
from coterie._core.fold.history_buffer cimport HistoryBuffer
from coterie._core.fold.group_filter cimport Only
from coterie._core.fold.record_kind cimport AllParsed, Parsed
from coterie._core.fold.survey cimport Survey
from coterie._core.fold.tracks cimport Tracks
from coterie._core.fold.commit_queue cimport Queue

cdef enum OnFault:
    SKIP = 0
    RECOVER = 1
    LOAD = 2
    STOP = 3

cdef enum:
    BATCHES_HELD = 2             # plain ones for which the GIL is kept: odd ones come in runs
    RECORDS_HELD = 16

cdef enum Met:                   # by the loop over plain batches
    PLAIN = 0                    # as many of them as were asked for
    NOTHING = 1                  # the end of the piece
    OTHER = 2                    # what is no plain batch, or none at all
    BAD_SUM = 3                  # a batch whose checksum does not hold
    MANY_LATER = 4               # a plain batch, and many were put off
    NO_MEMORY = 5

cdef class PartitionFold:
    cdef Table table
    cdef PlaceCache place_cache
    cdef Queue queue                     # plain commits that are read, not yet in the table
    cdef DeferredGroups deferred                     # batches of group metadata, not yet taken
    cdef Records records
    cdef AllParsed parsed
    cdef readonly int on_fault
    cdef readonly object at_ms           # int or None
    cdef int64_t until_ms
    cdef readonly object only            # frozenset of group ids as UTF-8, or None
    cdef Only kept                       # the same, if `filters`
    cdef bint filters
    cdef readonly int64_t seq            # ordinal of the batch at hand; counts on over pieces
    cdef readonly bint failed            # as Kafka's loader: nothing of the partition counts
    cdef readonly bint cut               # recovery cut the log here: later pieces do not count
    cdef readonly bint stopped           # on_fault is STOP, and there was one
    cdef readonly dict producers         # producer id -> Producer
    cdef readonly dict groups            # group id as UTF-8 -> GroupLog
    cdef readonly dict newer             # whole key -> (value or None, log offset, timestamp)
    cdef readonly dict unknown           # unknown key version -> count
    cdef readonly list faults            # of Fault
    cdef readonly list segments          # of Scanned
    cdef readonly History history        # or None
    cdef readonly Survey survey          # or None
    cdef readonly int64_t number         # records of the batches that could be read, so far
    cdef HistoryBuffer* buffer                    # its rows, or NULL
    cdef Tracks* tracks                  # of the table's keys, or NULL
    cdef Tracks asked_tracks
    cdef readonly list group_records     # what of groups is no commit, or None
    cdef str file                        # of the piece at hand
    cdef int64_t base_position           # of the piece's first byte in the file
    cdef readonly int64_t expected_offset   # what the next batch should begin with, -1: unknown
    cdef int64_t batch_count, record_count
    cdef int64_t first_offset, last_offset, max_timestamp, first_timestamp
    cdef bint gap
    cdef bint takes_plain                # no record needs a look beyond the batch's own
    cdef int users                       # see `begin_change`

    cdef int64_t scan_piece(self, const uint8_t[::1] data, int64_t limit, str file,
                            int64_t position, int64_t expected_offset) except -1
    cdef int64_t run(self, const uint8_t* data, int64_t size, int64_t limit) except -1
    cdef int frame_fault(self, int frame, const Batch* batch) except -1
    cdef int fault_at(self, int kind, const Batch* batch, object offset, str detail) except -1
    cdef bint recovery_cuts(self, int frame, const Batch* batch) except -1
    cdef int take_batch(self, const Batch* batch) except -1
    cdef int take_waiting(self) except -1
    cdef int take_later(self) except -1
    cdef Met run_plain(self, const uint8_t* data, int64_t size, int64_t limit, int64_t most,
                       int64_t* at, Frame* frame, Batch* batch) noexcept nogil
    cdef Met take_plain(self, const Batch* batch) noexcept nogil
    cdef void count_batch(self, const Batch* batch, int64_t first, Py_ssize_t count) noexcept nogil
    cdef void classify_all(self, Py_ssize_t count) noexcept nogil
    cdef Py_ssize_t apply_plains(self, const Batch* batch, Py_ssize_t i, Py_ssize_t count,
                                 int64_t batch_offset) noexcept nogil
    cdef int apply_all(self, const Batch* batch) except -1
    cdef int apply_plain(self, const Record* record, Parsed* parsed,
                         int64_t batch_offset) noexcept nogil
    cdef int apply_other(self, const Batch* batch, Record* record, Parsed* parsed,
                         int64_t batch_offset) except -1
    cdef int apply_pending(self, const Batch* batch, const Record* record, Parsed* parsed,
                           int64_t batch_offset) except -1
    cdef int apply_marker(self, const Batch* batch) except -1
    cdef int apply_group(self, const Batch* batch, Record* record) except -1
    cdef int apply_newer(self, const Batch* batch, Record* record) except -1
    cdef int keep_record(self, const Batch* batch, const Record* record, bytes group) except -1
    cdef void keep_history(self, History history)
    cdef int seal(self) except -1
