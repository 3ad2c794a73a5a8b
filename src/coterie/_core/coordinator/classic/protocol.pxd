"""The classic protocol: joins, syncs, heartbeats, leaves, rebalances; the load of its groups."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.classic.group cimport GroupMetadata, MemberMetadata, PendingId
from coterie._core.coordinator.runtime cimport (
    AppendOp, Batch, Component, Group, GroupProtocol, Request, Runtime)

# ---- rebalances and their timers: declarations ---------------------------------------------------

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

# ---- syncGroup, Heartbeat, LeaveGroup: declarations ----------------------------------------------

cdef class Members

cdef class AssignmentAppend(AppendOp):         # of a leader's sync
    cdef Members members
    cdef GroupMetadata group
    cdef int32_t generation_id
    cdef MemberMetadata leader
    cdef dict assignments

cdef class Members:
    cdef Runtime runtime
    cdef Rebalances rebalances

    cdef int sync(self, Request request, GroupMetadata group, str group_id,
                  int32_t generation_id, str member_id, str instance, str protocol_type,
                  str protocol_name, dict assignments) except -1
    cdef int park_sync(self, Request request, GroupMetadata group, MemberMetadata member,
                       dict assignments) except -1
    cdef int assigned(self, GroupMetadata group, int32_t generation_id, MemberMetadata leader,
                      dict assignments, int error) except -1
    cdef int heartbeat(self, int64_t id, GroupMetadata group, str group_id,
                       int32_t generation_id, str member_id, str instance) except -1
    cdef int leave(self, int64_t id, GroupMetadata group, str group_id,
                   tuple leaving) except -1
    cdef int leave_one(self, GroupMetadata group, str member_id, str instance) except? -7

# ---- joinGroup: declarations ---------------------------------------------------------------------

cdef class Joins

cdef class StaticReturn(AppendOp):             # of a static member that came back
    cdef Joins joins
    cdef GroupMetadata group
    cdef MemberMetadata member
    cdef Request request
    cdef str old_id
    cdef str old_leader
    cdef int32_t old_rebalance_ms
    cdef int32_t old_session_ms
    cdef bint skip_assignment

cdef class NewGroup(AppendOp):                 # the first record of a group, since Kafka 4
    cdef Joins joins
    cdef GroupMetadata group
    cdef Request request

cdef class Joins:
    cdef Runtime runtime
    cdef Rebalances rebalances
    cdef int64_t min_session_ms
    cdef int64_t max_session_ms
    cdef readonly int64_t max_size
    cdef object member_ids                     # callable; None: ids are PREFIX-N
    cdef int64_t ids_given
    cdef bint replaying                        # as Kafka 4: a new group is written at once
    cdef Batch before_group                    # records to write before it, or None

    cdef str new_member_id(self, GroupMetadata group, str prefix)
    cdef str requested_id(self, GroupMetadata group, str prefix)
    cdef int accepts(self, GroupMetadata group, str member_id) except -1
    cdef int join(self, Request request, GroupMetadata group, str group_id, str member_id,
                  str instance, tuple details) except -1
    cdef int write_new_group(self, Request request, GroupMetadata group) except -1
    cdef int join_new(self, Request request, GroupMetadata group, str instance,
                      tuple details) except -1
    cdef int join_known(self, Request request, GroupMetadata group, str member_id, str instance,
                        tuple details) except -1
    cdef int refuse(self, Request request, int error, str member_id) except -1
    cdef int rejoin(self, Request request, GroupMetadata group, MemberMetadata member,
                    tuple details) except -1
    cdef int add_and_rebalance(self, Request request, GroupMetadata group, str member_id,
                               str instance, tuple details) except -1
    cdef int hand_out_id(self, Request request, GroupMetadata group, str member_id,
                         int32_t session_ms) except -1
    cdef int park_join(self, GroupMetadata group, MemberMetadata member, Request request,
                       tuple details) except -1
    cdef int static_return(self, Request request, GroupMetadata group, str instance, str new_id,
                           tuple details) except -1
    cdef int replace_static(self, GroupMetadata group, MemberMetadata member,
                            str new_id) except -1
    cdef int static_returned(self, StaticReturn op, int error) except -1

# ---- the rules of classic groups for operations of every group type: declarations ----------------

cdef class ClassicProtocol(GroupProtocol):
    cdef Rebalances rebalances
    cdef Joins joins
    cdef int64_t retention_ms
    cdef bint behaviour_24

    cdef int take_over(self, GroupMetadata group) except -1
    cdef object summary_of(self, GroupMetadata group)
    cdef int describe_group(self, int64_t id, GroupMetadata group, str group_id,
                            tuple details) except -1
