"""Deletions, clean-up and lists of the replaying coordinator: declarations."""
from libc.stdint cimport int64_t

from coterie._core.coordinator.admin cimport AdminOperations
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol
from coterie._core.coordinator.runtime cimport Group

cdef class ReplayedAdmin(AdminOperations):
    cdef ConsumerProtocol consumer
    cdef int64_t retention_ms
    cdef bint periodic
    cdef int64_t timer

    cdef int arm_clean_up(self) except -1
    cdef int delete_committed(self, int64_t id, tuple group_ids) except -1
    cdef int refuse_deletion(self, int64_t id, tuple group_ids, int error) except -1
    cdef bint expire(self, Group group, list expired) except -1
