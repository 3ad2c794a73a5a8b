"""The history of a partition: each commit and each generation of its groups, as rows."""
from libc.stdint cimport int32_t, int64_t, uint8_t

from coterie._core.codec.batch cimport Record
from coterie._core.codec.walk cimport Rows, Span
from coterie._core.fold.history_buffer cimport HistoryBuffer
from coterie._core.fold.keytable cimport TOPIC_ID_SIZE, Value

# ---- group metadata as the fold adds it to a group's log -----------------------------------------

cdef class GroupView:
    cdef bytes value
    cdef Span protocol_type, protocol, leader
    cdef int32_t generation
    cdef int64_t state_timestamp
    cdef Rows members

    cdef inline const Span* member(self, int32_t number) noexcept
    cdef dict by_id(self)

cdef int add_generation(object log, object log_offset, object timestamp,
                        GroupView view) except -1

# ---- the commits of a piece of log with their outcomes: what the fold adds -----------------------

cdef struct PendingCommit:       # packed in bytes; its key and its metadata follow
    int64_t log_offset
    int64_t timestamp
    int32_t key_size
    bint tombstone
    bint has_topic_id
    uint8_t topic_id[TOPIC_ID_SIZE]
    Value value                  # its metadata is NULL; all zeros in a tombstone

cdef class History:
    cdef HistoryBuffer buffer            # the decided rows
    cdef dict open_transactions          # producer id -> its pending commits: see `PendingCommit`
    cdef int64_t cleared                 # decided rows that `clear` removed
    cdef int users                       # see `begin_change`

cdef int begin_fold_change(int* users, History history) except -1
cdef void end_fold_change(int* users, History history) noexcept

# A commit of a transaction, by its key without a version; `value` NULL: a tombstone.
cdef int add_pending(History history, int64_t producer_id, const Record* record,
                     const uint8_t* key, int32_t key_size, const Value* value,
                     const uint8_t* topic_id) except -1

# A marker: the producer's pending commits become rows.
cdef int decide(History history, int64_t producer_id, bint committed) except -1

# How many rows were decided so far, including cleared ones.
cdef int64_t row_number(History history) noexcept

# Append the rows of the next piece. `markers` has, for each producer with a marker in that piece,
# (first_seq, producer id, its Producer there, its Producer here or None), None if it had a marker
# here.
cdef int absorb_history(History history, History later, list markers) except -1

# ---- A history as values that pickle, for the dump of its fold -----------------------------------

cdef tuple dump_history(History history)
cdef History restore_history(tuple state)
