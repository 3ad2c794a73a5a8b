"""The offsets of all groups: declarations."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.structures.offsets cimport OffsetMap

cdef class OffsetStore:
    cdef dict maps                 # group id -> OffsetMap
    cdef dict open_groups          # producer id -> {group id: None}: undecided transactions

    cdef OffsetMap find(self, str group_id)
    cdef OffsetMap map_of(self, str group_id)
    cdef int put(self, str group_id, OffsetMap offsets) except -1
    cdef int drop(self, str group_id) except -1
    cdef int open_transaction(self, int64_t producer_id, str group_id) except -1
    cdef int resigned(self, int32_t partition, int32_t count) except -1
