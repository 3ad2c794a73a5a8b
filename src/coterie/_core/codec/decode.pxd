"""What reads a message. See decode.pyx."""
from libc.stdint cimport uint8_t

from coterie._core.codec.cursor cimport Cursor, Status
from coterie._core.codec.layout cimport Layout

cdef enum Source:              # whose bytes they are: what an error is called
    FRAME = 0
    KEY = 1
    VALUE = 2

cdef struct Reading:
    Cursor cur
    const uint8_t* start
    Source source
    bint fill                  # every field of any version is there
    bint tags                  # tagged fields that are unknown are kept
    bint rows                  # structs become tuples: every field of any version has its place
    bint tagged                # the struct that was read last had tagged fields

cdef Reading reading(const uint8_t* at, Py_ssize_t size, Source source) noexcept nogil
cdef object read_struct(Reading* r, Layout layout)
cdef object read_text(const uint8_t* at, Py_ssize_t size)
cdef object refused(Reading* r, str name, Status status)
cdef Status skip_tags(Cursor* cur) noexcept nogil
