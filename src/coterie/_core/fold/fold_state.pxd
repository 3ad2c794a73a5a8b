"""The state of a fold: the last record of each key, open transactions, counts and faults."""
from libc.stdint cimport int64_t, uint8_t

from coterie._core.codec.batch cimport Batch, Record, Records
from coterie._core.fold.commit cimport Tracks
from coterie._core.fold.commit_queue cimport Queue
from coterie._core.fold.deferred_groups cimport DeferredGroups
from coterie._core.fold.history cimport History
from coterie._core.fold.history_buffer cimport HistoryBuffer
from coterie._core.fold.keytable cimport Table, Value
from coterie._core.fold.place_cache cimport PlaceCache
from coterie._core.fold.record_kind cimport ParsedRecord, ParsedRecords

# ---- the open transactions of a piece of log, and their markers ----------------------------------

cdef object producer_of(dict producers, int64_t producer_id)

# Add a commit of a transaction; `value` NULL: a tombstone. `tracks` may be NULL here and below.
cdef int add_pending_commit(object producer, int64_t index, const Value* value,
                            const uint8_t* topic_id, const Record* record,
                            Tracks* tracks) except -1

# Apply a marker: a COMMIT applies the pending commits; either type drops them and decides their
# rows in `history`, which may be None.
cdef int end_transaction(dict producers, int64_t producer_id, bint committed, Table* table,
                         Tracks* tracks, History history, int64_t seq) except -1

# Apply the pending commits, except those of the keys `excluded`.
cdef int apply_committed(object producer, object excluded, Table* table, Tracks* tracks,
                         int64_t seq) except -1

# ---- the facts that a fold collects for a second reading -----------------------------------------

cdef class Survey:
    cdef readonly dict open              # producer -> number of its first record
    cdef readonly dict ended             # producer -> (marker, number, ms), its first one

    cdef int begin_piece(self) except -1
    cdef int add_open(self, int64_t producer_id, const ParsedRecord* parsed, Py_ssize_t count,
                      int64_t number) except -1
    cdef int add_end(self, object producer_id, int marker, object number, object ms) except -1

# ---- the filter of a fold of some groups only ----------------------------------------------------

cdef enum BatchMatch:
    NONE_MATCH = 0               # no record is of a requested group, and none has a fault
    ALL_MATCH = 1                # all are, or may be: see the rule of names that are not ASCII
    SOME_MATCH = 2               # or this code cannot decide: each record must be looked at

cdef struct GroupFilter:
    Table names                  # of the requested groups, as UTF-8
    bint non_ascii               # one of the names is not ASCII

cdef int filter_add(GroupFilter* group_filter, object names) except -1

# `until_ms` is -1 or more: records later than that do not match. Sets `has_records_of_4x` if one
# `is_of_4x`, whatever its group and time.
cdef BatchMatch match_batch(const GroupFilter* group_filter, const Batch* batch,
                            int64_t until_ms, bint* has_records_of_4x) noexcept nogil

cdef bint excludes(const GroupFilter* group_filter, const Record* record,
                   const ParsedRecord* parsed) noexcept nogil

# ---- fold state ----------------------------------------------------------------------------------

cdef enum OnFault:
    SKIP = 0
    RECOVER = 1
    LOAD = 2
    STOP = 3

cdef class FoldState:
    cdef Table table
    cdef Table topic_ids                 # of the values in `table`, by number
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
    cdef readonly list faults            # of Fault: the first ones
    cdef readonly dict more_faults       # kind -> count of those behind them
    cdef public Py_ssize_t faults_max    # of `faults`
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
cdef int count_faults(FoldState fold, str kind, object count) except -1
cdef int add_fault(FoldState fold, int kind, const Batch* batch, object offset,
                   str detail) except -1
