"""The commits of a piece of log with their outcomes: what the fold adds. See history.pyx.

A history that is passed to these functions may be None: then they do nothing.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

from coterie._core.codec.batch cimport Record
from coterie._core.fold.keytable cimport Value
from coterie._core.fold.history_buffer cimport HistoryBuffer

cdef struct PendingCommit:       # packed in bytes; its key and its metadata follow
    int64_t log_offset
    int64_t timestamp
    int32_t key_size
    bint tombstone
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
                     const uint8_t* key, int32_t key_size, const Value* value) except -1

# A marker: the producer's pending commits become rows.
cdef int decide(History history, int64_t producer_id, bint committed) except -1

# How many rows were decided so far, including cleared ones.
cdef int64_t row_number(History history) noexcept

# Append the rows of the next piece. `markers` has, for each producer with a marker in that piece,
# (first_seq, producer id, its Producer there, its Producer here or None), None if it had a marker
# here.
cdef int absorb_history(History history, History later, list markers) except -1
