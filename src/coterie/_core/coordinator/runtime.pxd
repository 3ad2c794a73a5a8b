"""What the parts of a coordinator stand on: clock, timers, output, appends. See runtime.pyx."""
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.outputs cimport Outputs
from coterie._core.coordinator.partitions cimport Partitions
from coterie._core.coordinator.sink cimport Batch, Sink
from coterie._core.structures.timers cimport TimerWheel

cdef enum:
    NO_TIMER = -1
    KIND_BITS = 8                  # of a timer's key are its kind; the rest is its owner's slot
    NOBODY = 0                     # the slot without an owner
    MOST_OPERATIONS = 64

cdef enum Written:
    NOT_YET                        # it is handed to the sink when the caller says so
    UNDER_WAY                      # the sink has it, and says later where it stands
    OVER                           # it is in the log, or has failed

cdef class Runtime

cdef class Request:
    cdef readonly int64_t id
    cdef readonly int op
    cdef bint answered

# What a part does when an operation is asked for, its number `op`.
ctypedef int (*Decide)(object part, int op, int64_t id, str group_id, int32_t generation_id,
                       str member_id, str instance, tuple details) except -1

cdef struct Decider:
    Decide decide                  # NULL: nobody decides it
    PyObject* part                 # which `deciding` holds

cdef class Part:
    cdef Runtime runtime
    cdef int first_kind            # of its timers

    cdef int join_runtime(self, Runtime runtime, int kinds) except -1
    cdef int fired(self, int kind, object owner) except -1
    cdef int resigned(self, int32_t partition) except -1
    cdef object read_log(self, object fold)
    cdef int loaded(self, object found, object wanted) except -1

cdef class AppendOp:
    cdef Runtime runtime           # whose append it is
    cdef readonly str kind
    cdef Batch batch
    cdef readonly bint done
    cdef bint written              # the sink has it: it comes back with its offset

    cdef int waits(self) except -1
    cdef int came_back(self, int error, int64_t position) except -1

cdef class Runtime:
    cdef TimerWheel wheel
    cdef readonly Outputs outputs
    cdef readonly Partitions partitions
    cdef readonly Sink sink        # where records go, and where a load finds them
    cdef readonly bint deferred
    cdef dict groups               # group id -> what the part that has it keeps: of any type
    cdef list parts                # that have joined
    cdef list handlers             # by kind of timer: the part that hears of it
    cdef Decider deciders[MOST_OPERATIONS]     # by the number of the operation
    cdef list deciding             # the parts of them
    cdef list owners               # by slot: what a timer's key names
    cdef Py_ssize_t* free_slots    # room for all that there are
    cdef Py_ssize_t free_count
    cdef Py_ssize_t capacity
    cdef list appends              # those that come back later, begun since the last taking
    cdef int fail_error
    cdef int64_t fail_count
    cdef bint strict               # a trace is played: metadata on which Kafka throws ends it

    cdef int decided_by(self, str op, object part, Decide decide) except -1
    cdef Py_ssize_t new_slot(self, owner) except -1
    cdef int free_slot(self, Py_ssize_t slot) except -1
    cdef int64_t arm(self, int64_t handle, int kind, Py_ssize_t slot, int64_t delay_ms) except -1
    cdef int disarm(self, int64_t* handle) except -1
    cdef int advance_to(self, int64_t now_ms, bint heeds_signals) except -1
    cdef int unheard(self, error) except -1
    cdef int threw(self, error, Request request, payload) except -1
    cdef int respond(self, int64_t id, int op, int code, payload) except -1
    cdef int answer(self, Request request, int code, payload) except -1
    cdef int abandon(self, Request request, int why) except -1
    cdef Written write(self, Batch batch, int* error, int64_t* position) except *
    cdef int come_back_later(self, AppendOp op, Written written) except -1
    cdef int show_append(self, Batch batch, int64_t position) except -1
    cdef int append(self, AppendOp op) except -1
    cdef int settle(self, AppendOp op, int error, int64_t base_offset) except -1

cdef Request new_request(int64_t id, int op)
cdef AppendOp describe(AppendOp op, str kind, Batch batch)
