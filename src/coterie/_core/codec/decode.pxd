"""Reading a message: the state of it, and its functions. See decode.pyx."""
from libc.stdint cimport uint8_t

from coterie._core.codec.cursor cimport Cursor, Status
from coterie._core.codec.layout cimport Layout

cdef enum Source:              # of the bytes: decides the class of an error
    FRAME = 0
    KEY = 1
    VALUE = 2

cdef struct Reading:
    Cursor cur
    const uint8_t* start
    Source source
    bint fill                  # structs get the fields of all versions
    bint tags                  # structs get unknown tagged fields
    bint rows                  # structs become tuples with the fields of all versions
    bint tagged                # the last struct had tagged fields
    Py_ssize_t elements        # of lists, which may still come

cdef Reading reading(const uint8_t* at, Py_ssize_t size, Source source) noexcept nogil
cdef object read_struct(Reading* r, Layout layout)
cdef object read_text(const uint8_t* at, Py_ssize_t size)
cdef object refused(Reading* r, str name, Status status)
cdef Status skip_tags(Cursor* cur) noexcept nogil
