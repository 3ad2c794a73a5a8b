"""Rebalances and their timers: the C face."""
from libc.stdint cimport int64_t

from coterie._core.coordinator.base cimport AppendOp, Machine
from coterie._core.coordinator.group cimport GroupMetadata, MemberMetadata, PendingId

cdef class Rebalancer(Machine):
    cdef int prepare_rebalance(self, GroupMetadata group, int cause, str member_id) except -1
    cdef int arm_join(self, GroupMetadata group, int kind, int64_t delay_ms,
                      int64_t remaining_ms) except -1
    cdef int try_join(self, GroupMetadata group, int cause) except -1
    cdef int join_due(self, GroupMetadata group) except -1
    cdef int sync_due(self, GroupMetadata group) except -1
    cdef int session_due(self, MemberMetadata member) except -1
    cdef int pending_due(self, PendingId pending) except -1
    cdef int complete_join(self, GroupMetadata group, int cause) except -1
    cdef int await_again(self, GroupMetadata group) except -1
    cdef int start_generation(self, GroupMetadata group, int cause) except -1
    cdef int finish_sync(self, GroupMetadata group) except -1
    cdef int synced(self, GroupMetadata group, str member_id) except -1
    cdef int answer_syncs(self, GroupMetadata group, int code) except -1
    cdef int forget_assignments(self, GroupMetadata group, int code) except -1
    cdef int take_out(self, GroupMetadata group, str member_id) except -1
    cdef int remove_and_update(self, GroupMetadata group, MemberMetadata member,
                               int cause) except -1
    cdef int unload(self, GroupMetadata group) except -1

cdef tuple join_result(GroupMetadata group, str member_id, str leader, bint skip, tuple members)
