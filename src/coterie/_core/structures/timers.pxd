"""The timer wheel: declarations."""
from libc.stdint cimport int32_t, int64_t, uint64_t

from coterie._core.structures.due_queue cimport Due, DueQueue
from coterie._core.structures.slots cimport TimerRef, Node, Slots


cdef class TimerWheel:
    cdef Node* nodes
    cdef int64_t capacity
    cdef int64_t free_head
    cdef int64_t size              # timers armed and not yet fired
    cdef uint64_t seq
    cdef int64_t clock_ms
    cdef int64_t stale             # entries whose node has moved on
    cdef bint next_known
    cdef int64_t next_ms           # the earliest deadline; without a meaning unless next_known
    cdef DueQueue due              # deadlines that are not after the clock
    cdef Slots slots

    cdef object fire_until(self, int64_t now_ms)
    cdef int64_t fire_due(self, int64_t* keys) except -1
    cdef int64_t pop_due(self) except -2
    cdef int64_t fire_slot(self, int index, int64_t* keys) except -1
    cdef int64_t fire_second(self, int index, int64_t* keys) except -1
    cdef int64_t take_out(self, int index, Due* fired, int64_t* of_ms, bint* in_order) except -1
    cdef int64_t arm(self, int64_t deadline_ms, int64_t key) except -1
    cdef bint move(self, int64_t handle, int64_t deadline_ms) except -1
    cdef bint drop(self, int64_t handle) except -1
    cdef bint pop(self, int64_t limit_ms, int64_t* key) except -1
    cdef int64_t deadline_of(self, int64_t handle) except? -7
    cdef bint earliest(self, int64_t* deadline_ms) except -1

    cdef int64_t find(self, int64_t handle) noexcept
    cdef int file(self, int32_t i) except -1
    cdef int put(self, int index, TimerRef entry) except -1
    cdef int put_due(self, TimerRef entry) except -1
    cdef void release(self, int64_t i) noexcept
    cdef int reserve(self, int64_t count) except -1
    cdef int open(self, int index) except -1
    cdef bint scan(self, int index) except -1
    cdef int sweep(self) except -1
