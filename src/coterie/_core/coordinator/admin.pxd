"""Deletions, clean-up, ListGroups: declarations."""
from libc.stdint cimport int64_t

from coterie._core.coordinator.offset_store cimport OffsetStore
from coterie._core.coordinator.runtime cimport Component, Group, Runtime

cdef int OFFSET_DELETE, DELETE_GROUPS, LIST_GROUPS

cdef dict partitions_by_topic(tuple keys)

cdef class AdminOperations(Component):
    cdef OffsetStore store
    cdef int64_t check_interval_ms

    cdef int join_operations(self, Runtime runtime, OffsetStore store, settings) except -1
    cdef int delete_offsets(self, int64_t id, Group group, str group_id, tuple keys) except -1
    cdef int delete_groups(self, int64_t id, tuple group_ids) except -1
    cdef int delete_partitions(self, tuple keys) except -1
    cdef int clean_up(self) except -1
    cdef int list_groups(self, int64_t id, tuple details) except -1

cdef class Admin(AdminOperations):
    cdef int arm_clean_up(self) except -1
    cdef int write_tombstones(self, Group group, list removed) except -1
