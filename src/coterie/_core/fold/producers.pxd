"""The open transactions of a piece of log: see ``producers.pyx``."""
from coterie._core.fold.keytable cimport Value

cdef bytes unpack_value(object pending, Value* out)
