"""Offsets, administration, clean-up and descriptions of the coordinator since Kafka 4.1."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.consumer.group cimport ConsumerGroup, ConsumerMember
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol
from coterie._core.coordinator.offsets cimport AdminOperations
from coterie._core.coordinator.runtime cimport Operation, Batch, Group, OffsetStore, Runtime
from coterie._core.structures.offsets cimport Offset

# ---- consumerGroupDescribe: what is committed of each group --------------------------------------

cdef int decide_describe(component, Operation op) except -1
cdef tuple group_row(ConsumerProtocol protocol, ConsumerGroup group)

# ---- deletions, clean-up and lists of the replaying coordinator: declarations --------------------

cdef class ReplayedAdmin(AdminOperations):
    cdef ConsumerProtocol consumer
    cdef int64_t retention_ms
    cdef bint periodic
    cdef int64_t timer

    cdef int arm_clean_up(self) except -1
    cdef int delete_committed(self, int64_t id, tuple group_ids) except -1
    cdef int refuse_deletion(self, int64_t id, tuple group_ids, int error) except -1
    cdef int delete_topics(self, list gone) except -1
    cdef bint expire(self, Group group, list expired) except -1

# ---- offsets as the replaying coordinator has them: declarations ---------------------------------

cdef class ReplayedOffsets:
    cdef Runtime runtime
    cdef OffsetStore store
    cdef ConsumerProtocol consumer
    cdef int64_t max_metadata

    cdef int check(self, Group group, bint transactional, int32_t generation_id, str member_id,
                   str instance, int version, tuple rows) except? -7
    cdef int check_member(self, ConsumerGroup group, int32_t generation_id, str member_id,
                          str instance, bint transactional, int version,
                          tuple rows) except? -7
    cdef bint had_all(self, ConsumerMember member, int32_t epoch, bint transactional,
                      tuple rows) except -1
    cdef Offset entry_of(self, tuple row, int64_t now_ms, int64_t retention_ms, bint with_id)
    cdef int commit(self, int64_t id, int op, Group group, str group_id, int32_t generation_id,
                    str member_id, str instance, tuple details) except -1
    cdef int write(self, int op, Batch batch, tuple rows, list entries) except *
    cdef Batch encode(self, str group_id, tuple rows, list entries)
    cdef int end_txn(self, int64_t producer_id, bint committed) except -1
    cdef int check_fetch(self, Group group, str member_id, int32_t epoch) except? -7
    cdef int fetch(self, int64_t id, str group_id, tuple details) except -1
