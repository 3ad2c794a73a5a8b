"""The rules of classic groups for operations of every group type: declarations."""
from libc.stdint cimport int64_t

from coterie._core.coordinator.classic.group cimport GroupMetadata
from coterie._core.coordinator.classic.joins cimport Joins
from coterie._core.coordinator.classic.rebalance cimport Rebalances
from coterie._core.coordinator.runtime cimport GroupProtocol

cdef class ClassicProtocol(GroupProtocol):
    cdef Rebalances rebalances
    cdef Joins joins
    cdef int64_t retention_ms
    cdef bint behaviour_24

    cdef int take_over(self, GroupMetadata group) except -1
    cdef object summary_of(self, GroupMetadata group)
    cdef int describe(self, int64_t id, GroupMetadata group, str group_id,
                      tuple details) except -1
