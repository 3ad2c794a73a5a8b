"""The assignor ``range``."""

cdef int assign_range(list subscribers, bint homogeneous) except -1
