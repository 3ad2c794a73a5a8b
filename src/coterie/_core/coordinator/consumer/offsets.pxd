"""Offsets as the replaying coordinator has them: declarations."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol
from coterie._core.coordinator.offset_store cimport OffsetStore
from coterie._core.coordinator.runtime cimport Group, Runtime
from coterie._core.coordinator.sink cimport Batch

cdef class ReplayedOffsets:
    cdef Runtime runtime
    cdef OffsetStore store
    cdef ConsumerProtocol consumer
    cdef int64_t max_metadata

    cdef int check(self, Group group, bint transactional, int32_t generation_id, str member_id,
                   str instance, int version) except? -7
    cdef int commit(self, int64_t id, int op, Group group, str group_id, int32_t generation_id,
                    str member_id, str instance, tuple details) except -1
    cdef int write(self, int op, Batch batch, tuple rows, list entries) except *
    cdef Batch encode(self, str group_id, tuple rows, list entries)
    cdef int end_txn(self, int64_t producer_id, bint committed) except -1
    cdef int check_fetch(self, Group group, str member_id, int32_t epoch) except? -7
    cdef int fetch(self, int64_t id, str group_id, tuple details) except -1
