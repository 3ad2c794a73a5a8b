"""The state of a fold as C code sees it: FoldState, for the modules that change and read it.

``apply_records`` applies records to it, ``fold`` scans bytes into it, ``merge`` joins two,
``partial`` reads one and ``dump`` turns one into values that pickle.
"""
from libc.stdint cimport int64_t

from coterie._core.codec.batch cimport Batch, Records
from coterie._core.fold.commit_queue cimport Queue
from coterie._core.fold.deferred_groups cimport DeferredGroups
from coterie._core.fold.group_filter cimport GroupFilter
from coterie._core.fold.history cimport History
from coterie._core.fold.history_buffer cimport HistoryBuffer
from coterie._core.fold.keytable cimport Table
from coterie._core.fold.place_cache cimport PlaceCache
from coterie._core.fold.record_kind cimport ParsedRecords
from coterie._core.fold.survey cimport Survey
from coterie._core.fold.tracks cimport Tracks

cdef enum OnFault:
    SKIP = 0
    RECOVER = 1
    LOAD = 2
    STOP = 3

cdef class FoldState:
    cdef Table table
    cdef PlaceCache place_cache
    cdef Queue queue                     # plain commits that are parsed, not yet in the table
    cdef DeferredGroups deferred         # batches of group metadata, not yet applied
    cdef Records records                 # of the batch at hand
    cdef ParsedRecords parsed            # the same records, classified
    cdef readonly int on_fault
    cdef readonly object at_ms           # int or None
    cdef int64_t until_ms
    cdef readonly object only            # frozenset of group ids as UTF-8, or None
    cdef GroupFilter group_filter        # the same, if `filters`
    cdef bint filters
    cdef readonly int64_t seq            # ordinal of the batch at hand; counts on over pieces
    cdef readonly bint failed            # as Kafka's loader: nothing of the partition counts
    cdef readonly bint cut               # recovery cut the log here: later pieces do not count
    cdef readonly bint stopped           # on_fault is STOP, and there was a fault
    cdef readonly dict producers         # producer id -> Producer
    cdef readonly dict groups            # group id as UTF-8 -> GroupLog
    cdef readonly dict newer             # whole key -> (value or None, log offset, timestamp)
    cdef public bint has_records_of_4x   # which only Kafka 4.x writes, of any group and time
    cdef readonly dict unknown           # unknown key version -> count
    cdef readonly list faults            # of Fault
    cdef readonly list segments          # of Scanned
    cdef readonly History history        # or None
    cdef readonly Survey survey          # or None
    cdef readonly int64_t number         # records of the readable batches so far
    cdef HistoryBuffer* buffer           # the history's rows, or NULL
    cdef Tracks* tracks                  # of the table's keys, or NULL
    cdef Tracks requested_tracks         # what `tracks` points to
    cdef readonly list group_records     # records of groups that are no commits, or None
    cdef str file                        # of the piece at hand
    cdef int64_t base_position           # of the piece's first byte in the file
    cdef readonly int64_t expected_offset   # what the next batch should begin with, -1: unknown
    cdef int users                       # see `begin_change`

# Whether a tombstone removes pending commits.
cdef bint follows_4x(FoldState fold) noexcept
cdef void set_history(FoldState fold, History history) noexcept
cdef int add_fault(FoldState fold, int kind, const Batch* batch, object offset,
                   str detail) except -1
