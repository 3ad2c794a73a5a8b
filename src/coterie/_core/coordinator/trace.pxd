"""A compiled trace: declarations."""
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t

from coterie._core.structures.slots cimport coterie_prefetch

cdef extern from "Python.h":
    PyObject* PyList_GET_ITEM(object items, Py_ssize_t n) noexcept

cdef enum:
    AHEAD = 12                     # events to prefetch: their objects are scattered

cdef struct Event:                 # 40 bytes
    int64_t at_ms
    int64_t id
    int32_t op
    int32_t generation_id
    int32_t group                  # indexes into the trace's objects; 0 is None
    int32_t member
    int32_t instance
    int32_t details

cdef class Trace:
    cdef Event* events
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t capacity
    cdef readonly dict header
    cdef list objects              # names and details; each name once
    cdef dict index                # name, or (operation, details) -> its place in `objects`
    cdef int details_count         # of `index`
    cdef public bint sugar         # some member id refers to an earlier answer
    cdef readonly int64_t last_id  # the largest id of a request
    cdef list lines                # the line of each event

    cdef int32_t intern(self, name) except -1
    cdef int32_t intern_details(self, int op, tuple details) except -1


cdef inline void fetch_ahead(list objects, const Event* event) noexcept:
    """Prefetch the objects of an event while the events before it are played."""
    coterie_prefetch(PyList_GET_ITEM(objects, event.group))
    coterie_prefetch(PyList_GET_ITEM(objects, event.member))
    coterie_prefetch(PyList_GET_ITEM(objects, event.details))


cdef object desugar(value, dict member_ids)
