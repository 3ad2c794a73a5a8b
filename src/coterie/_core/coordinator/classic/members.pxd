"""SyncGroup, Heartbeat, LeaveGroup: declarations."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.classic.group cimport GroupMetadata
from coterie._core.coordinator.classic.member cimport MemberMetadata
from coterie._core.coordinator.classic.rebalance cimport Rebalances
from coterie._core.coordinator.runtime cimport AppendOp, Request, Runtime

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
