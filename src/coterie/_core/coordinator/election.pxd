"""Resigning and loading: declarations."""
from libc.stdint cimport int32_t

from coterie._core.coordinator.offset_store cimport OffsetStore
from coterie._core.coordinator.runtime cimport Runtime

cdef class Election:
    cdef Runtime runtime
    cdef OffsetStore store
    cdef str load_error
    cdef object consumer           # the ConsumerProtocol, or None

    cdef int resign(self, int32_t partition) except -1
    cdef int begin_load(self, int32_t partition) except -1
    cdef int finish_load(self, int32_t partition) except -1
    cdef int load_log(self, int32_t partition) except -1
    cdef int load_replayed(self, int32_t partition) except -1
    cdef int load_offsets(self, dict maps, object load_filter) except -1
