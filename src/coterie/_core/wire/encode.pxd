"""What writes a frame. See encode.pyx."""
from libc.stdint cimport int16_t, int32_t, uint8_t

from coterie._core.wire.layout cimport Layout

cdef enum:
    FIRST_ROOM = 1024

cdef struct Writing:
    uint8_t* data
    Py_ssize_t size
    Py_ssize_t room
    uint8_t first[FIRST_ROOM]  # most frames fit here, and need no memory of their own

cdef int grow(Writing* w, Py_ssize_t size) except -1


cdef inline uint8_t* reserve(Writing* w, Py_ssize_t size) except NULL:
    """Room for so many bytes, which count as written."""
    cdef uint8_t* at
    if size > w.room - w.size:
        grow(w, size)
    at = w.data + w.size
    w.size += size
    return at


cdef void begin(Writing* w) noexcept nogil
cdef void end(Writing* w) noexcept nogil
cdef int put_i16(Writing* w, int16_t value) except -1
cdef int put_i32(Writing* w, int32_t value) except -1
cdef int put_uvarint(Writing* w, unsigned int value) except -1
cdef int put_text16(Writing* w, str name, object value) except -1
cdef int write_struct(Writing* w, Layout layout, object value, str name) except -1
