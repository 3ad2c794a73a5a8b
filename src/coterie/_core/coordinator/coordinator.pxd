"""The classic protocol's coordinator: its parts, and the ways into it."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.admin cimport Admin
from coterie._core.coordinator.outputs cimport Outputs
from coterie._core.coordinator.election cimport Election
from coterie._core.coordinator.load_and_unload cimport LoadAndUnload
from coterie._core.coordinator.members cimport Members
from coterie._core.coordinator.offsets cimport Offsets
from coterie._core.coordinator.rebalance cimport Rebalances
from coterie._core.coordinator.runtime cimport Runtime
from coterie._core.coordinator.trace cimport Event, Trace

cdef class Coordinator:
    cdef Runtime runtime
    cdef Rebalances rebalances
    cdef Members members
    cdef Offsets offsets
    cdef Admin admin
    cdef LoadAndUnload load_and_unload
    cdef Election election
    cdef int users                 # see `begin_change`
    cdef readonly int64_t taken    # requests that took place; those that were refused did not
    cdef dict told                 # request id -> member id, as far as rows were looked at
    cdef Py_ssize_t told_rows

    cdef int beat(self, str group_id, int32_t generation_id, str member_id,
                  str instance) except? -1000
    cdef tuple commit(self, str group_id, int32_t generation_id, str member_id, str instance,
                      tuple wanted)
    cdef int dispatch(self, int op, int64_t id, str group_id, int32_t generation_id,
                      str member_id, str instance, tuple details) except -1
    cdef int dispatch_sugar(self, Event* event, list objects) except -1
    cdef Outputs play_all(self, Trace trace)
