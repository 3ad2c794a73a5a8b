"""A guard of memory that is mapped from a file: a truncation does not end the process.

Reading a mapped page beyond the end of the file raises SIGBUS. In a guarded mapping the reader gets
zeros instead, and the guard reports it afterwards; src/c/sigbus.h has the handler, and says why it
neither exits nor jumps. This module gets addresses from a caller: it opens, maps and reads no file.
Cost: nothing while the mapping is read; a guard costs about 1 us.
"""
cimport cython
from libc.stdint cimport uint8_t

from coterie._core.checks cimport buffer_of

from coterie.errors import ArgumentError, CoterieError

cdef extern from "sigbus.h" nogil:
    ctypedef struct coterie_range:
        pass
    bint coterie_is_page(const void* start)
    coterie_range* coterie_add_range(const void* start, size_t size)
    void coterie_remove_range(coterie_range* range)
    bint coterie_is_damaged(coterie_range* range)


@cython.final
cdef class MappingGuard:
    """Guards a mapping against SIGBUS while the guard exists."""
    cdef coterie_range* range
    cdef bint was_damaged

    def __cinit__(self, data):
        cdef const uint8_t[::1] view = buffer_of(data, "data")
        if not view.shape[0] or not coterie_is_page(&view[0]):
            raise ArgumentError("data must be a mapped file: these bytes begin at no memory page")
        self.range = coterie_add_range(&view[0], view.shape[0])
        if self.range == NULL:
            raise CoterieError("a mapped file cannot be guarded: no memory, or no signal handler")

    def __dealloc__(self):
        self.release()

    @property
    def is_damaged(self):
        """Whether a page could not be read, and zeros were read instead."""
        return self.was_damaged or (self.range != NULL and coterie_is_damaged(self.range))

    def close(self):
        """Stop guarding; call it before the memory is unmapped."""
        self.release()

    cdef void release(self) noexcept:
        if self.range != NULL:
            self.was_damaged = coterie_is_damaged(self.range)
            coterie_remove_range(self.range)
            self.range = NULL
