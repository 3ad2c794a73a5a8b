"""Join, sync, heartbeat, leave: the C face."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.base cimport AppendOp
from coterie._core.coordinator.rebalance cimport Rebalancer
from coterie._core.coordinator.group cimport GroupMetadata, MemberMetadata, Request

cdef class Members(Rebalancer):
    cdef int check_member(self, GroupMetadata group, str member_id, str instance) except? -7
    cdef int accepts(self, GroupMetadata group, str member_id) except -1
    cdef int join(self, Request request, str group_id, str member_id, str instance,
                  tuple details) except -1
    cdef int join_new(self, Request request, GroupMetadata group, str instance,
                      tuple details) except -1
    cdef int join_known(self, Request request, GroupMetadata group, str member_id, str instance,
                        tuple details) except -1
    cdef int rejoin(self, Request request, GroupMetadata group, MemberMetadata member,
                    tuple details) except -1
    cdef int add_and_rebalance(self, Request request, GroupMetadata group, str member_id,
                               str instance, tuple details) except -1
    cdef int hand_out_id(self, Request request, GroupMetadata group, str member_id,
                         int32_t session_ms) except -1
    cdef int forget_pending(self, GroupMetadata group, str member_id) except -1
    cdef int park_join(self, GroupMetadata group, MemberMetadata member, Request request,
                       tuple details) except -1
    cdef int static_return(self, Request request, GroupMetadata group, str instance, str new_id,
                           tuple details) except -1
    cdef int replace_static(self, GroupMetadata group, MemberMetadata member,
                            str new_id) except -1
    cdef int static_returned(self, AppendOp op, int error) except -1
    cdef int sync(self, Request request, str group_id, int32_t generation_id, str member_id,
                  str instance, str protocol_type, str protocol_name, dict assignments) except -1
    cdef int park_sync(self, Request request, GroupMetadata group, MemberMetadata member,
                       dict assignments) except -1
    cdef int assigned(self, AppendOp op, int error) except -1
    cdef int heartbeat(self, int64_t id, str group_id, int32_t generation_id, str member_id,
                       str instance) except -1
    cdef int leave(self, int64_t id, str group_id, tuple leaving) except -1
    cdef int leave_one(self, GroupMetadata group, str member_id, str instance) except? -7
