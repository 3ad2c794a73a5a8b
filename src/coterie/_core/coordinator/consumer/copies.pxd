"""Copies of consumer groups: declarations."""
from coterie._core.coordinator.consumer.group cimport ConsumerGroup
from coterie._core.structures.offsets cimport OffsetMap

cdef int copy_state(ConsumerGroup source, ConsumerGroup target) except -1
cdef OffsetMap copied_offsets(OffsetMap offsets)
