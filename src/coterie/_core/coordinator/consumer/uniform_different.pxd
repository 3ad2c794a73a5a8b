"""The assignor ``uniform`` over members with different subscriptions."""

cdef int assign_unequal(list subscribers) except -1
