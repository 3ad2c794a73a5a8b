"""A member, and an id that was handed out: declarations."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.runtime cimport Request

cdef class PendingId:
    cdef str group_id
    cdef str member_id
    cdef int64_t timer
    cdef Py_ssize_t slot

cdef class MemberMetadata:
    cdef readonly str member_id
    cdef readonly str group_instance_id
    cdef readonly str client_id
    cdef readonly str client_host
    cdef readonly str protocol_type
    cdef readonly tuple protocols              # ((name, bytes), ...) in order of preference
    cdef readonly int32_t rebalance_timeout_ms
    cdef readonly int32_t session_timeout_ms
    cdef readonly bytes assignment
    cdef readonly bint is_new
    cdef bint pending_sync                     # joined in this generation, not synced
    cdef Request awaiting_join
    cdef Request awaiting_sync
    cdef str group_id                          # of its group, or None
    cdef int64_t timer                         # handle of the session timer, or NO_TIMER
    cdef Py_ssize_t slot                       # owner of its timer

    cdef bytes metadata_of(self, str protocol)

cdef MemberMetadata new_member(str member_id, str instance, tuple protocols, str protocol_type,
                               int32_t rebalance_ms, int32_t session_ms)
cdef MemberMetadata a_member(object value)
cdef str numbered_id(str prefix, int64_t number)
