"""Checks of what callers hand over. See arguments.pyx."""
from libc.stdint cimport int32_t, int64_t

cdef int64_t int64_of(object value, str name) except? -1
cdef int32_t int32_of(object value, str name) except? -1
cdef object column_of(object values, str name, int type_number)
cdef str text_of(object value, str name)
cdef tuple texts_of(object values, str name)
cdef list items_of(object values, str name)
