"""The server's assignors."""
cimport cython
from libc.stdint cimport int32_t

from coterie._core.coordinator.consumer.values cimport Assignment


@cython.no_gc                      # here too, or ConsumerMember in its own file would have one
cdef class Subscriber:             # a member as an assignor sees it
    cdef readonly str member_id
    cdef readonly str instance_id
    cdef readonly tuple topics     # TopicIds that exist, in their order
    cdef object previous           # Assignment: its target so far
    cdef object computed           # Assignment: its next target, once computed

cdef class TargetCounts:           # of the partitions of one topic: how many targets have each
    cdef int32_t* counts
    cdef int32_t count             # of the partitions that there is room for
    cdef int32_t taken             # of those that any target has

    cdef int reserve(self, int32_t count) except -1

cdef int assign(str assignor, list subscribers, bint homogeneous, dict targeted) except -1
cdef int count_targets(dict targeted, Assignment assignment, int by) except -1
