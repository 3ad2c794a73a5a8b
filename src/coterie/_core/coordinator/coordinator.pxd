"""A group coordinator: its components, and its entries."""
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.admin cimport Admin
from coterie._core.coordinator.classic.joins cimport Joins
from coterie._core.coordinator.classic.members cimport Members
from coterie._core.coordinator.classic.protocol cimport ClassicProtocol
from coterie._core.coordinator.classic.rebalance cimport Rebalances
from coterie._core.coordinator.consumer.admin cimport ReplayedAdmin
from coterie._core.coordinator.consumer.classic_members cimport ClassicMembers
from coterie._core.coordinator.consumer.offsets cimport ReplayedOffsets
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol
from coterie._core.coordinator.election cimport Election
from coterie._core.coordinator.offset_store cimport OffsetStore
from coterie._core.coordinator.offsets cimport Offsets
from coterie._core.coordinator.outputs cimport Outputs
from coterie._core.coordinator.runtime cimport Runtime
from coterie._core.coordinator.trace cimport Event, Trace

cdef class Coordinator:
    cdef Runtime runtime
    cdef Rebalances rebalances
    cdef Joins joins
    cdef Members members
    cdef ClassicProtocol classic
    cdef ConsumerProtocol consumer     # None before 4.1
    cdef OffsetStore store
    cdef Offsets offsets               # these two: None since 4.1
    cdef Admin admin
    cdef ClassicMembers classic_members
    cdef ReplayedOffsets replayed_offsets      # these two: since 4.1
    cdef ReplayedAdmin replayed_admin
    cdef Election election
    cdef int users                 # see `begin_change`
    cdef readonly int64_t taken    # requests that were decided; invalid ones are not counted
    cdef dict member_ids           # request id -> member id, of the outputs read so far
    cdef Py_ssize_t rows_read

    cdef int beat(self, str group_id, int32_t generation_id, str member_id,
                  str instance) except? -1000
    cdef tuple commit(self, str group_id, int32_t generation_id, str member_id, str instance,
                      tuple rows, int version)
    cdef int dispatch(self, int op, int64_t id, str group_id, int32_t generation_id,
                      str member_id, str instance, tuple details) except -1
    cdef int dispatch_sugar(self, Event* event, list objects) except -1
    cdef Outputs play_all(self, Trace trace)
