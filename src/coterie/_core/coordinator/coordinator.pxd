"""The whole coordinator, and a compiled trace."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.offsets cimport Offsets
from coterie._core.coordinator.effects cimport Effects
from coterie._core.coordinator.group cimport GroupMetadata

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
    cdef dict index
    cdef public bint sugar         # some member id stands for that in an earlier answer
    cdef readonly int64_t last_id  # the largest id of a request
    cdef list lines                # of each event, the line it stands in

    cdef int32_t intern(self, name) except -1

cdef class Coordinator(Offsets):
    cdef readonly str load_error
    cdef dict told                 # request id -> member id, as far as rows were looked at
    cdef Py_ssize_t told_rows

    cdef int dispatch(self, int op, int64_t id, str group_id, int32_t generation_id,
                      str member_id, str instance, tuple details) except -1
    cdef int dispatch_sugar(self, Event* event, list objects) except -1
    cdef int may_throw(self, int op, int64_t id, str group_id, int32_t generation_id,
                       str member_id, str instance, tuple details) except -1
    cdef int refuse_garbage(self, error) except -1
    cdef int fire(self, int kind, object owner) except -1
    cdef int elect_anew(self, int op, int32_t partition) except -1
    cdef int change(self, int32_t partition, int before, int after) except -1
    cdef int resign(self, int32_t partition) except -1
    cdef Effects play_all(self, Trace trace)
    cdef int load_log(self, int32_t partition) except -1
