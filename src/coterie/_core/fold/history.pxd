"""The history of a piece of log: its C face, for the fold that notes it."""
from coterie._core.fold.noted cimport Noted

cdef class History:
    cdef Noted noted
    cdef int users                       # see `begin_change`

cdef int begin_noting(int* users, History history) except -1
cdef void end_noting(int* users, History history) noexcept
cdef int follow_on(History history, History later) except -1
cdef tuple dump_history(History history)
cdef History restore_history(tuple state)
