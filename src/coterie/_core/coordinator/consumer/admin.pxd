"""Deletions, clean-up and lists of the replaying coordinator: declarations."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol
from coterie._core.coordinator.offset_store cimport OffsetStore
from coterie._core.coordinator.runtime cimport Component, Group
from coterie._core.structures.offsets cimport OffsetMap

cdef class ReplayedAdmin(Component):
    cdef OffsetStore store
    cdef ConsumerProtocol consumer
    cdef int64_t check_interval_ms
    cdef int64_t retention_ms
    cdef bint periodic
    cdef int64_t timer

    cdef int arm_clean_up(self) except -1
    cdef list keys_of(self, OffsetMap offsets)
    cdef int delete_offsets(self, int64_t id, Group group, str group_id, tuple keys) except -1
    cdef int delete_groups(self, int64_t id, tuple group_ids) except -1
    cdef int delete_partitions(self, tuple keys) except -1
    cdef int clean_up(self) except -1
    cdef bint expire(self, Group group, list expired) except -1
    cdef int list_groups(self, int64_t id, tuple details) except -1
