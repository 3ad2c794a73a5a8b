"""The classic protocol's groups at an election: the C face."""
from coterie._core.coordinator.group cimport GroupMetadata
from coterie._core.coordinator.members cimport Members
from coterie._core.coordinator.offsets cimport Offsets
from coterie._core.coordinator.rebalance cimport Rebalances
from coterie._core.coordinator.runtime cimport Part

cdef class LoadAndUnload(Part):
    cdef Rebalances rebalances
    cdef Members members
    cdef Offsets offsets

    cdef int take_over(self, GroupMetadata group) except -1
