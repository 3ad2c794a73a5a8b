"""A buffer that messages are written into, and its functions. See encode.pyx."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from coterie._core.codec.cursor cimport coterie_be16, coterie_be32, coterie_be64
from coterie._core.codec.layout cimport Layout

cdef enum:
    FIRST_ROOM = 1024

cdef struct Writing:
    uint8_t* data
    Py_ssize_t size
    Py_ssize_t room
    bint record                # no field may be missing, and a lone surrogate becomes "?"
    uint8_t first[FIRST_ROOM]  # most frames fit here and allocate nothing

cdef int grow(Writing* w, Py_ssize_t size) except -1


cdef inline uint8_t* reserve(Writing* w, Py_ssize_t size) except NULL:
    """Make room for `size` bytes, which count as written, and return their address."""
    cdef uint8_t* at
    if size > w.room - w.size:
        grow(w, size)
    at = w.data + w.size
    w.size += size
    return at


cdef inline int put_i16(Writing* w, int16_t value) except -1:
    cdef uint16_t raw = coterie_be16(<uint16_t>value)
    memcpy(reserve(w, 2), &raw, 2)
    return 0


cdef inline int put_i32(Writing* w, int32_t value) except -1:
    cdef uint32_t raw = coterie_be32(<uint32_t>value)
    memcpy(reserve(w, 4), &raw, 4)
    return 0


cdef inline int put_i64(Writing* w, int64_t value) except -1:
    cdef uint64_t raw = coterie_be64(<uint64_t>value)
    memcpy(reserve(w, 8), &raw, 8)
    return 0


cdef inline int put_uvarint(Writing* w, unsigned int value) except -1:
    cdef uint8_t* at = reserve(w, 5)
    cdef int count = 0
    while value > 127:
        at[count] = <uint8_t>(value & 127 | 128)
        value >>= 7
        count += 1
    at[count] = <uint8_t>value
    w.size -= 4 - count
    return 0


cdef inline int put_bytes(Writing* w, const void* at, Py_ssize_t size) except -1:
    memcpy(reserve(w, size), at, size)
    return 0


cdef inline void begin(Writing* w) noexcept nogil:
    w.data, w.size, w.room, w.record = w.first, 0, FIRST_ROOM, False


cdef void end(Writing* w) noexcept nogil
cdef bytes written(Writing* w)
cdef int put_text16(Writing* w, str name, object value) except -1
cdef int write_text(Writing* w, str name, object value, bint flexible) except -1
cdef int write_struct(Writing* w, Layout layout, object value, str name) except -1
