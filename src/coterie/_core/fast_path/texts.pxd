"""Texts of a request, borrowed from its bytes. Header only."""
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, uint8_t

from coterie._core.codec.cursor cimport Cursor, Status, read_text_span

cdef struct Text:
    const uint8_t* at
    int32_t size               # -1: null


cdef inline Status read_text(Cursor* cur, bint flexible, Text* text) noexcept nogil:
    return read_text_span(cur, flexible, &text.at, &text.size)


cdef inline str text_of(const Text* text):
    return PyUnicode_DecodeUTF8(<const char*>text.at, text.size, NULL)
