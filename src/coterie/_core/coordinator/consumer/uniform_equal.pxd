"""The assignor ``uniform`` over members with equal subscriptions."""

cdef int assign_equal(list subscribers, dict uses) except -1
