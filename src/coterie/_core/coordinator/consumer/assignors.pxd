"""The server's assignors."""
cimport cython


@cython.no_gc                      # here too, or ConsumerMember in its own file would have one
cdef class Subscriber:             # a member as an assignor sees it
    cdef readonly str member_id
    cdef readonly str instance_id
    cdef readonly tuple topics     # TopicIds that exist, in their order
    cdef object previous           # Assignment: its target so far
    cdef object computed           # Assignment: its next target, once computed

cdef int assign(str assignor, list subscribers, bint homogeneous, dict uses) except -1
