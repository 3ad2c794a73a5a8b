"""Commits, transactions, fetches: the C face."""
from libc.stdint cimport int16_t, int32_t, int64_t

from coterie._core.coordinator.group cimport GroupMetadata
from coterie._core.coordinator.member cimport MemberMetadata
from coterie._core.coordinator.rebalance cimport Rebalances
from coterie._core.coordinator.runtime cimport AppendOp, Runtime
from coterie._core.coordinator.sink cimport Batch

cdef class Offsets

cdef class CommitAppend(AppendOp):             # of offsets, plain or of a transaction
    cdef Offsets offsets
    cdef GroupMetadata group
    cdef int64_t id                            # of the request, and its op
    cdef int op
    cdef tuple rows                            # what it commits
    cdef list entries                          # of each row its Offset; None: it was refused
    cdef bint waited                           # the group holds the entries as pending

cdef class Offsets:
    cdef Runtime runtime
    cdef Rebalances rebalances
    cdef int64_t max_metadata
    cdef dict open_groups                      # producer id -> {group id: None}

    cdef int resigned(self, int32_t partition) except -1
    cdef int loaded(self, GroupMetadata group) except -1
    cdef int commit(self, int64_t id, int op, str group_id, int32_t generation_id, str member_id,
                    str instance, tuple wanted, int64_t producer_id, int16_t epoch) except -1
    cdef int check_metadata(self, tuple wanted) except -1
    cdef int check_commit(self, GroupMetadata group, MemberMetadata member, int32_t generation_id,
                          str member_id, str instance, bint transactional) except? -7
    cdef int store(self, int64_t id, int op, GroupMetadata group, tuple wanted,
                   int64_t producer_id, int16_t epoch, bint transactional) except -1
    cdef int pend(self, CommitAppend op) except -1
    cdef int committed(self, CommitAppend op, int error, int64_t position) except -1
    cdef int shown(self, int64_t id, int op, GroupMetadata group, tuple rows, list entries,
                   Batch batch, bint waited, int error, int64_t position) except -1
    cdef int end_txn(self, int64_t producer_id, bint committed) except -1
    cdef int fetch(self, int64_t id, str group_id, tuple keys, bint stable) except -1
