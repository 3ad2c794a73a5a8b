"""Checks of single arguments: declarations."""
from libc.stdint cimport int32_t, int64_t

cpdef object whole(object value, str name)
cdef int64_t int64_of(object value, str name) except? -1
cdef object int64_or_none(object value, str name)
cdef int32_t int32_of(object value, str name) except? -1
cpdef int64_t within(object value, str name, int64_t least, int64_t most) except? -1
cdef bint flag_of(object value, str name) except -1
cpdef str text_of(object value, str name)
cdef str text_or_none(object value, str name)
cdef tuple texts_of(object values, str name)
cdef list items_of(object values, str name)
cdef int need_pickled(str what, bint known, bytes state, check) except -1
cdef tuple pairs_of(object values, str name)
cdef bytes bytes_of(object value, str name)
cdef object buffer_of(object data, str name)
cdef dict dict_of(object value, str name)

cdef int begin_change(int* users, str what) except -1
cdef int begin_read(int* users, str what) except -1
cdef void end_use(int* users) noexcept
