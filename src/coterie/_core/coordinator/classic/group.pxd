"""A classic group: declarations for the coordinator."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.classic.member cimport MemberMetadata
from coterie._core.coordinator.classic.member_table cimport MemberTable, has_member
from coterie._core.coordinator.runtime cimport Group, Request
from coterie._core.codec.subscription cimport Readable
from coterie._core.structures.votes cimport ProtocolCounts

cdef enum JoinKind:
    NO_JOIN = 0
    PLAIN_JOIN = 1
    INITIAL_JOIN = 2

cdef class GroupMetadata(Group):
    cdef bint made                             # __init__ has run; it must not run again
    cdef int state
    cdef int previous_state                    # Dead at first; -1: only its offsets were loaded
    cdef readonly int64_t current_state_timestamp   # -1: none (an old record)
    cdef readonly str protocol_type
    cdef readonly str protocol_name
    cdef readonly int32_t generation_id
    cdef readonly str leader_id
    cdef MemberTable members                        # in order of adding
    cdef dict static_members                   # group instance id -> member id
    cdef dict pending_members                  # member id -> PendingId
    cdef readonly Py_ssize_t num_members_awaiting_join
    cdef ProtocolCounts counts
    cdef Py_ssize_t num_pending_sync           # members with `pending_sync`
    cdef dict renamed_sync                     # member ids instead of those, once one was renamed
    cdef readonly bint new_member_added
    cdef readonly frozenset subscribed_topics  # None: unknown

    cdef int ties                              # of `Ties`
    cdef Py_ssize_t slot
    cdef int join_kind                         # the rebalance's unfinished operations
    cdef int64_t join_timer
    cdef int64_t join_delay_ms
    cdef int64_t join_remaining_ms
    cdef int64_t sync_timer
    cdef int32_t sync_generation

    cdef MemberMetadata get(self, str member_id)
    cdef bint can_go_to(self, int state) noexcept
    cdef int enter(self, int state, int64_t now_ms) except -1
    cdef bint supports(self, str protocol_type, tuple protocols) except -1
    cdef int add_member(self, MemberMetadata member, Request join) except -1
    cdef MemberMetadata remove_member(self, str member_id)
    cdef int change_member(self, MemberMetadata member, tuple protocols, int32_t rebalance_ms,
                           int32_t session_ms, Request join) except -1
    cdef int rename_member(self, MemberMetadata member, str new_id) except -1
    cdef bint is_led_by(self, str member_id) noexcept
    cdef bint elect(self) except -1
    cdef str vote(self)
    cdef int64_t rebalance_timeout(self) noexcept
    cdef int next_generation(self, int64_t now_ms) except -1
    cdef Readable subscribe(self) except *
    cdef tuple member_list(self)
    cdef bint awaits_sync(self) noexcept
    cdef int await_sync(self, MemberMetadata member) except -1
    cdef int forget_sync(self, MemberMetadata member) except -1
    cdef int forget_syncs(self) except -1
    cdef list pending_sync(self)

cdef GroupMetadata new_group(str group_id, int64_t now_ms)
cdef int check_member(GroupMetadata group, str member_id, str instance) except? -7
cdef MemberMetadata static_member(GroupMetadata group, str instance)


cdef inline bint knows_id(GroupMetadata group, str member_id) except -1:
    """Whether a member has or had this id, or it was handed out."""
    return (has_member(&group.members, member_id) or member_id in group.pending_members
            or member_id in group.renamed_sync)
