"""Which partitions of the offsets topic a coordinator owns: declarations."""
from libc.stdint cimport int32_t

cdef enum Availability:
    OWNED = 0
    RESIGNED = 1
    LOADING = 2

cdef class Partitions:
    cdef readonly int32_t count
    cdef readonly int others           # state of all partitions except
    cdef readonly dict exceptions      # partition -> availability

    cdef int check(self, int32_t partition) except -1
    cdef int state_of(self, partition) except -1
    cdef int refusal(self, str group_id, bint empty_is_valid) except -2
    cdef bint is_loading(self, int32_t partition) except -1
    cdef int change(self, int32_t partition, int before, int after) except -1

cdef int32_t partition_of(str group_id, int32_t count) except -1
