"""OffsetCommit, TxnOffsetCommit, markers, OffsetFetch: declarations."""
from libc.stdint cimport int16_t, int32_t, int64_t

from coterie._core.coordinator.offset_store cimport OffsetStore
from coterie._core.coordinator.runtime cimport AppendOp, Group, Runtime
from coterie._core.coordinator.sink cimport Batch
from coterie._core.structures.offsets cimport OffsetMap

cdef class Offsets

cdef class CommitAppend(AppendOp):             # of offsets, plain or of a transaction
    cdef Offsets offsets
    cdef OffsetMap map                         # of the group when it committed
    cdef int64_t id                            # of the request, and its op
    cdef int op
    cdef tuple rows                            # what it commits
    cdef list entries                          # of each row its Offset; None: it was refused
    cdef bint waited                           # the map has the entries as pending

cdef class Offsets:
    cdef Runtime runtime
    cdef OffsetStore store
    cdef int64_t max_metadata

    cdef int commit(self, int64_t id, int op, Group group, str group_id, int32_t generation_id,
                    str member_id, str instance, tuple rows, int64_t producer_id,
                    int16_t epoch) except -1
    cdef int check_metadata(self, tuple rows) except -1
    cdef int write_commit(self, int64_t id, int op, str group_id, tuple rows,
                          int64_t producer_id, int16_t epoch, bint transactional) except -1
    cdef int pend(self, CommitAppend op) except -1
    cdef int commit_finished(self, CommitAppend op, int error, int64_t position) except -1
    cdef int plain_finished(self, int64_t id, int op, OffsetMap offsets, tuple rows, list entries,
                            Batch batch, bint waited, int error, int64_t position) except -1
    cdef int end_txn(self, int64_t producer_id, bint committed) except -1
    cdef int fetch(self, int64_t id, str group_id, tuple keys, bint stable) except -1
