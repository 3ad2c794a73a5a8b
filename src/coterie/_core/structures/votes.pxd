"""Counts of supported protocols: declarations."""

cdef class ProtocolCounts:
    cdef dict counts               # name -> how many list entries name it; None: see `shared`
    cdef tuple shared              # a list, each name once, that all have,
    cdef Py_ssize_t sharing        # so many of them

    cdef int settle(self) except -1
    cdef Py_ssize_t count_of(self, name) except -1

    cdef int count_in(self, tuple protocols) except -1
    cdef int count_out(self, tuple protocols) except -1
    cdef bint is_candidate(self, name, Py_ssize_t members) except -1
    cdef str vote(self, tuple protocols, Py_ssize_t members)

cdef enum Ties:                    # which of two protocols with as many votes wins
    FIRST_VOTED = 0                # the one voted for first
    SCALA_MAP = 1                  # the first one in 3.9's hash map
    JAVA_MAP = 2                   # the first one in that of 4.x

cdef str most_voted(dict votes, int ties)
