"""Commits, transactions, fetches, clean-up, administration: the C face."""
from libc.stdint cimport int16_t, int32_t, int64_t

from coterie._core.coordinator.base cimport AppendOp
from coterie._core.coordinator.members cimport Members
from coterie._core.coordinator.group cimport GroupMetadata, Request

cdef class Offsets(Members):
    cdef int commit(self, Request request, str group_id, int32_t generation_id, str member_id,
                    str instance, tuple wanted, int64_t producer_id, int16_t epoch) except -1
    cdef int check_metadata(self, dict wanted) except -1
    cdef int check_commit(self, GroupMetadata group, int32_t generation_id, str member_id,
                          str instance, bint transactional) except? -7
    cdef int store(self, Request request, GroupMetadata group, dict wanted, int64_t producer_id,
                   int16_t epoch, bint transactional) except -1
    cdef int committed(self, AppendOp op, int error, int64_t position) except -1
    cdef int end_txn(self, int64_t producer_id, bint committed) except -1
    cdef int fetch(self, int64_t id, str group_id, tuple keys, bint stable) except -1
    cdef int delete_offsets(self, int64_t id, str group_id, tuple keys) except -1
    cdef int delete_groups(self, int64_t id, tuple group_ids) except -1
    cdef int delete_partitions(self, tuple keys) except -1
    cdef int clean_up(self) except -1
    cdef list expired_of(self, GroupMetadata group)
    cdef int bury(self, GroupMetadata group, list removed) except -1
    cdef int describe(self, int64_t id, str group_id) except -1
    cdef int list_groups(self, int64_t id, tuple states) except -1
