"""Deletions, clean-up, descriptions of groups: the C face."""
from libc.stdint cimport int64_t

from coterie._core.coordinator.group cimport GroupMetadata
from coterie._core.coordinator.rebalance cimport Rebalances
from coterie._core.coordinator.runtime cimport Part

cdef class Admin(Part):
    cdef Rebalances rebalances
    cdef int64_t retention_ms
    cdef int64_t check_interval_ms
    cdef bint behaviour_24

    cdef int arm_clean_up(self) except -1
    cdef int delete_offsets(self, int64_t id, str group_id, tuple keys) except -1
    cdef int delete_groups(self, int64_t id, tuple group_ids) except -1
    cdef int delete_partitions(self, tuple keys) except -1
    cdef int clean_up(self) except -1
    cdef list expired_of(self, GroupMetadata group)
    cdef int bury(self, GroupMetadata group, list removed) except -1
    cdef int describe(self, int64_t id, str group_id) except -1
    cdef int list_groups(self, int64_t id, tuple states) except -1
