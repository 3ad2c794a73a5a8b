"""The server's assignors."""
from coterie._core.coordinator.consumer.values cimport Assignment

cdef class Subscriber:             # a member as an assignor sees it
    cdef readonly str member_id
    cdef readonly str instance_id
    cdef readonly tuple topics     # TopicIds that exist, in their order
    cdef object previous           # Assignment
    cdef object target             # Assignment, once assigned

cdef Subscriber new_subscriber(str member_id, Assignment target)
cdef int assign(str assignor, list subscribers, bint homogeneous, list others) except -1
