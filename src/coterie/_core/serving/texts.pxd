"""Texts of a request, borrowed from its bytes. Header only: inlined into what reads requests."""
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, uint8_t

from coterie._core.codec.cursor cimport (
    NEGATIVE, OK, Cursor, Status, read_compact, read_string16)

cdef enum:
    MOST_TEXT = 0x7FFF         # bytes; of a text in its compact form, too

cdef struct Text:
    const uint8_t* at
    int32_t size               # -1: null


cdef inline Status read_text(Cursor* cur, bint flexible, Text* text) noexcept nogil:
    cdef Status status
    if not flexible:
        return read_string16(cur, &text.at, &text.size)
    status = read_compact(cur, &text.at, &text.size)
    return NEGATIVE if status == OK and text.size > MOST_TEXT else status


cdef inline str text_of(const Text* text):
    return PyUnicode_DecodeUTF8(<const char*>text.at, text.size, NULL)
