"""The open transactions of a piece of log, and their markers. See producers.pyx."""
from libc.stdint cimport int64_t

from coterie._core.codec.batch cimport Record
from coterie._core.fold.history cimport History
from coterie._core.fold.keytable cimport Table, Value
from coterie._core.fold.tracks cimport Tracks

cdef object producer_of(dict producers, int64_t producer_id)

# Add a commit of a transaction; `value` NULL: a tombstone. `tracks` may be NULL here and below.
cdef int add_pending_commit(object producer, int64_t index, const Value* value,
                            const Record* record, Tracks* tracks) except -1

# Apply a marker: a COMMIT applies the pending commits; either type drops them and decides their
# rows in `history`, which may be None.
cdef int end_transaction(dict producers, int64_t producer_id, bint committed, Table* table,
                         Tracks* tracks, History history, int64_t seq) except -1

# Apply the pending commits, except those of the keys `excluded`.
cdef int apply_committed(object producer, object excluded, Table* table, Tracks* tracks,
                         int64_t seq) except -1
