"""Group metadata as the fold adds it to a group's log. See generations.pyx."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.codec.walk cimport Rows, Span

cdef class GroupView:
    cdef bytes value
    cdef Span protocol_type, protocol, leader
    cdef int32_t generation
    cdef int64_t state_timestamp
    cdef Rows members

    cdef inline const Span* member(self, int32_t number) noexcept
    cdef dict by_id(self)

cdef int add_generation(object log, object log_offset, object timestamp,
                        GroupView view) except -1
