"""A history as values that pickle, for the dump of its fold. See history_dump.pyx."""
from coterie._core.fold.history cimport History

cdef tuple dump_history(History history)
cdef History restore_history(tuple state)
