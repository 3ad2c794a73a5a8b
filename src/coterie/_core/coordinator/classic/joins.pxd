"""JoinGroup: declarations."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.classic.group cimport GroupMetadata
from coterie._core.coordinator.classic.member cimport MemberMetadata
from coterie._core.coordinator.classic.rebalance cimport Rebalances
from coterie._core.coordinator.runtime cimport AppendOp, Request, Runtime
from coterie._core.coordinator.sink cimport Batch

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
