"""Rebalances and their timers: declarations."""
from libc.stdint cimport int64_t

from coterie._core.coordinator.classic.group cimport GroupMetadata
from coterie._core.coordinator.classic.member cimport MemberMetadata, PendingId
from coterie._core.coordinator.runtime cimport Component, Group

cdef class Rebalances(Component):
    cdef int64_t initial_delay_ms
    cdef bint behaviour_24
    cdef int ties                              # of `Ties`
    cdef int error                             # of the last record of an empty generation
    cdef readonly int64_t session_evictions    # removed members, by cause
    cdef readonly int64_t rebalance_evictions
    cdef readonly int64_t sync_evictions

    cdef GroupMetadata find(self, str group_id)
    cdef GroupMetadata create_group(self, str group_id)
    cdef int take_over(self, GroupMetadata group) except -1
    cdef int show(self, Group group) except -1
    cdef int drop_group(self, GroupMetadata group) except -1
    cdef int transition(self, GroupMetadata group, int state, int cause, str member_id) except -1
    cdef int entered(self, GroupMetadata group, int before, int cause, str member_id) except -1
    cdef int touch(self, GroupMetadata group, MemberMetadata member, int64_t delay_ms) except -1
    cdef int arm_pending(self, PendingId pending, int64_t delay_ms) except -1
    cdef int forget_pending(self, GroupMetadata group, str member_id) except -1
    cdef int prepare_rebalance(self, GroupMetadata group, int cause, str member_id) except -1
    cdef int arm_join(self, GroupMetadata group, int kind, int64_t delay_ms,
                      int64_t remaining_ms) except -1
    cdef int try_join(self, GroupMetadata group, bint initial_too) except -1
    cdef int join_due(self, GroupMetadata group) except -1
    cdef int sync_due(self, GroupMetadata group) except -1
    cdef int session_due(self, MemberMetadata member) except -1
    cdef int forget_expired_ids(self, GroupMetadata group) except -1
    cdef int pending_due(self, PendingId pending) except -1
    cdef int complete_join(self, GroupMetadata group, int cause) except -1
    cdef int await_again(self, GroupMetadata group) except -1
    cdef int start_generation(self, GroupMetadata group, int cause) except -1
    cdef int finish_sync(self, GroupMetadata group) except -1
    cdef int synced(self, GroupMetadata group, MemberMetadata member) except -1
    cdef int answer_syncs(self, GroupMetadata group, int code) except -1
    cdef int forget_assignments(self, GroupMetadata group, int code) except -1
    cdef int take_out(self, GroupMetadata group, str member_id) except -1
    cdef int remove_member(self, GroupMetadata group, MemberMetadata member) except -1
    cdef int member_removed(self, GroupMetadata group, int cause, str member_id,
                            bint initial_too) except -1
    cdef int unload(self, GroupMetadata group) except -1
    cdef list timers_of(self, GroupMetadata group)

cdef tuple join_result(GroupMetadata group, str member_id, str leader, bint skip, tuple members)
