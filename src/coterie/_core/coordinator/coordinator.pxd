"""A group coordinator: its components, and its entries."""
from libc.stdint cimport int32_t, int64_t
from coterie._core.coordinator.offsets cimport Admin, Election, Event, Offsets, Trace
from coterie._core.coordinator.classic.protocol cimport ClassicProtocol, Joins, Members, Rebalances
from coterie._core.coordinator.consumer.requests cimport ReplayedAdmin, ReplayedOffsets
from coterie._core.coordinator.consumer.heartbeat cimport ClassicMembers
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol
from coterie._core.coordinator.runtime cimport Operation, OffsetStore, Outputs, Runtime

cdef class Coordinator:
    cdef Runtime runtime
    cdef Operation operation           # holds nothing between operations
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
    cdef object steady_beat(self, str group_id, int32_t epoch, str member_id, str instance,
                            str client_id, str client_host)
    cdef tuple commit(self, str group_id, int32_t generation_id, str member_id, str instance,
                      tuple rows, int version)
    cdef int dispatch(self, int op, int64_t id, str group_id, int32_t generation_id,
                      str member_id, str instance, tuple details) except -1
    cdef int dispatch_sugar(self, Event* event, list objects) except -1
    cdef void end_change(self) noexcept
    cdef Outputs play_all(self, Trace trace)
