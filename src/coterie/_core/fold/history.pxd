"""The history of a piece of log: its C face, for the fold that decides it.

A history that is passed to these functions may be None: then they do nothing.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

from coterie._core.codec.batch cimport Record
from coterie._core.fold.keytable cimport Value
from coterie._core.fold.history_buffer cimport HistoryBuffer

cdef class History:
    cdef HistoryBuffer buffer                     # the rows that are decided
    cdef dict open_transactions          # producer id -> its pending commits: see `PendingCommit`
    cdef int64_t cleared                 # rows that were decided, and cleared since
    cdef int users                       # see `begin_change`

cdef int begin_noting(int* users, History history) except -1
cdef void end_noting(int* users, History history) noexcept

# A commit of a transaction, by its key without a version; `value` NULL: a tombstone.
cdef int add_pending(History history, int64_t producer_id, const Record* record,
                     const uint8_t* key, int32_t key_size, const Value* value) except -1

# A marker: the producer's pending commits become rows.
cdef int decide(History history, int64_t producer_id, bint committed) except -1

# How many rows were decided so far, cleared ones among them.
cdef int64_t row_number(History history) noexcept

# Let the rows of the next piece follow. `markers`: of each producer that has a marker there
# (first_seq, producer id, its Producer there, its Producer here if it had no marker before, or
# None).
cdef int follow_on(History history, History later, list markers) except -1

cdef tuple dump_history(History history)
cdef History restore_history(tuple state)
