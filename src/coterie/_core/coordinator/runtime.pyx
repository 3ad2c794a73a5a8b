"""What the parts of a coordinator stand on: clock, timers, output, appends. No rule of a group.

Both purgatories of Kafka are one wheel here: timers fire by deadline, then by arming. A timer's
key is its kind, which says which part hears of it, and the slot of its owner; an owner that goes
takes its timers along. An append finishes inside the call, or, if deferred, when the caller says
so; then it tells the part that began it.
Source: GroupCoordinator.scala, DelayedOperation.scala.
Rules: docs/rules/coordinator.md#timers, #group-status and #failed-appends.
"""
cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc

from coterie._core.coordinator.codes cimport KAFKA_STORAGE_ERROR, NONE, UNKNOWN_SERVER_ERROR
from coterie._core.coordinator.outputs cimport APPEND, RESPONSE, UNANSWERED, Outputs
from coterie._core.coordinator.partitions cimport Partitions
from coterie._core.coordinator.sink cimport FAILED, LATER, Batch, MemoryLog, Sink
from coterie._core.structures.timers cimport TimerWheel

from coterie.errors import ArgumentError, CoterieError
from coterie.operations import NUMBER


class Thrown(CoterieError):
    """Kafka's code throws here. What was done before stays done, as there."""


class Garbage(Thrown):
    """It throws at a member's metadata, which cannot be read: no sound trace has such."""


cdef int64_t LATEST_MS = <int64_t>1 << 60      # a deadline from here still fits an int64
cdef int64_t NEVER_MS = <int64_t>1 << 62       # beyond any time; from LATEST_MS it still fits


@cython.final
@cython.freelist(256)
cdef class Request:
    """A request that may have to wait: answered at most once."""


cdef Request new_request(int64_t id, int op):
    cdef Request made = Request.__new__(Request)
    made.id = id
    made.op = op
    return made


cdef class Part:
    """A part of a coordinator that has timers, or hears of elections."""

    cdef int join_runtime(self, Runtime runtime, int kinds) except -1:
        """Take so many kinds of timers, numbered from `first_kind`."""
        self.runtime = runtime
        self.first_kind = <int>len(runtime.handlers)
        if self.first_kind + kinds > 1 << KIND_BITS:
            raise CoterieError(f"a runtime has {1 << KIND_BITS} kinds of timers at most")
        runtime.handlers.extend([self] * kinds)
        runtime.parts.append(self)
        return 0

    cdef int fired(self, int kind, object owner) except -1:
        """A timer of one of its kinds, counted from 0, is due."""
        raise NotImplementedError

    cdef int resigned(self, int32_t partition) except -1:
        """A partition of the offsets topic is given up, with its groups; -1: all are."""
        return 0

    cdef object read_log(self, object fold):
        """Its groups of a log that was folded; CorruptData ends the load, and changes nothing."""
        return None

    cdef int loaded(self, object found, object wanted) except -1:
        """What `read_log` found is in force, of the group ids that are `wanted` (None: of all)."""
        return 0


@cython.freelist(16)
cdef class AppendOp:
    """An append and what waits for it: nothing, unless a part derives its own."""

    cdef int waits(self) except -1:
        """It does not come back within the call that began it."""
        return 0

    cdef int came_back(self, int error, int64_t position) except -1:
        """It is in the log at this offset, or has failed."""
        return 0

    @property
    def group_id(self):
        return None if self.batch is None else self.batch.group_id

    @property
    def records(self):
        return () if self.batch is None else self.batch.pairs()

    @property
    def producer_id(self):
        return -1 if self.batch is None else self.batch.producer_id

    @property
    def producer_epoch(self):
        return -1 if self.batch is None else self.batch.epoch

    @property
    def transactional(self):
        return self.batch is not None and self.batch.transactional


cdef AppendOp describe(AppendOp op, str kind, Batch batch):
    """Say what an append is about."""
    op.kind = kind
    op.batch = batch
    return op


cdef int ask_advance(part, int op, int64_t id, str group_id, int32_t generation_id,
                     str member_id, str instance, tuple details) except -1:
    """The clock was moved before, as before each event of a trace."""
    return 0


cdef int ask_fail_append(part, int op, int64_t id, str group_id, int32_t generation_id,
                         str member_id, str instance, tuple details) except -1:
    (<Runtime>part).fail_error = details[0]
    (<Runtime>part).fail_count = details[1]
    return 0


@cython.final
cdef class Runtime:
    """One clock, one sequence of outputs, one sink: held by every part of a coordinator."""

    def __cinit__(self, settings, int64_t now_ms, bint deferred, Sink sink):
        if now_ms > LATEST_MS:
            raise ArgumentError(f"now_ms must be at most {LATEST_MS} ms, not {now_ms}")
        self.wheel = TimerWheel(now_ms)
        self.outputs = Outputs()
        self.partitions = Partitions(settings["offsets.topic.num.partitions"])
        self.sink = MemoryLog() if sink is None else sink
        self.deferred = deferred
        self.groups = {}
        self.handlers = []
        self.parts = []
        self.deciding = []
        self.decided_by("advance", self, ask_advance)
        self.decided_by("fail_append", self, ask_fail_append)
        self.owners = [None]           # by slot; NOBODY is the first
        self.appends = []

    def __dealloc__(self):
        free(self.free_slots)

    cdef int decided_by(self, str op, object part, Decide decide) except -1:
        """Let a part decide the operation of this name in coterie.operations."""
        cdef int number = NUMBER[op]
        if number >= MOST_OPERATIONS:
            raise CoterieError(f"there are {MOST_OPERATIONS} operations at most")
        self.deciding.append(part)
        self.deciders[number].part = <PyObject*>part
        self.deciders[number].decide = decide
        return 0

    cdef Py_ssize_t new_slot(self, owner) except -1:
        cdef Py_ssize_t slot, capacity
        cdef Py_ssize_t* larger
        if self.free_count:
            self.free_count -= 1
            slot = self.free_slots[self.free_count]
            self.owners[slot] = owner
            return slot
        slot = len(self.owners)
        if slot == self.capacity or not self.capacity:
            capacity = 2 * slot + 64
            larger = <Py_ssize_t*>realloc(self.free_slots, capacity * sizeof(Py_ssize_t))
            if larger == NULL:
                raise MemoryError
            self.free_slots = larger
            self.capacity = capacity
        self.owners.append(owner)
        return slot

    cdef int free_slot(self, Py_ssize_t slot) except -1:
        if self.owners[slot] is None:      # a member that came from elsewhere has another's slot
            return 0
        self.owners[slot] = None
        self.free_slots[self.free_count] = slot
        self.free_count += 1
        return 0

    cdef int64_t arm(self, int64_t handle, int kind, Py_ssize_t slot, int64_t delay_ms) except -1:
        """Arm or re-arm; the handle. A delay below 0 is none: the clock never goes back."""
        cdef int64_t deadline_ms = self.wheel.clock_ms + min(max(delay_ms, 0), NEVER_MS)
        if handle != NO_TIMER and self.wheel.move(handle, deadline_ms):
            return handle
        return self.wheel.arm(deadline_ms, <int64_t>slot << KIND_BITS | kind)

    cdef int disarm(self, int64_t* handle) except -1:
        if handle[0] != NO_TIMER:
            self.wheel.drop(handle[0])
            handle[0] = NO_TIMER
        return 0

    cdef int advance_to(self, int64_t now_ms, bint heeds_signals) except -1:
        """Fire what is due by `now_ms`, in order; the clock reads each deadline then.

        A signal's exception comes between two timers: the clock stands at the last one's deadline,
        and what is due later fires when the clock is moved again.
        """
        cdef int64_t key = 0, deadline_ms = 0
        cdef int kind
        cdef Part part
        if now_ms < self.wheel.clock_ms:
            raise ArgumentError(f"time runs forward only: {now_ms} < {self.wheel.clock_ms}")
        if now_ms > LATEST_MS:
            raise ArgumentError(f"time must be at most {LATEST_MS} ms, not {now_ms}")
        while self.wheel.pop(now_ms, &key, &deadline_ms):
            kind = <int>(key & ((1 << KIND_BITS) - 1))
            part = <Part?>self.handlers[kind]
            try:
                part.fired(kind - part.first_kind, self.owners[key >> KIND_BITS])
            except Thrown as error:        # in a thread of Kafka's timer
                self.unheard(error)
            if heeds_signals:
                PyErr_CheckSignals()
        return 0

    cdef int unheard(self, error) except -1:
        """Kafka threw where nobody hears it; a trace has no metadata on which it throws."""
        if self.strict and isinstance(error, Garbage):
            raise error
        return 0

    cdef int threw(self, error, Request request, payload) except -1:
        """Kafka threw on a request: its request layer answers then."""
        self.unheard(error)
        return self.answer(request, UNKNOWN_SERVER_ERROR, payload)

    cdef int respond(self, int64_t id, int op, int code, payload) except -1:
        return self.outputs.push(RESPONSE, self.wheel.clock_ms, id, op, code, payload)

    cdef int answer(self, Request request, int code, payload) except -1:
        """A request is answered once; a second answer has nobody to go to."""
        if request.answered:
            return 0
        request.answered = True
        return self.outputs.push(RESPONSE, self.wheel.clock_ms, request.id, request.op, code,
                                 payload)

    cdef int abandon(self, Request request, int why) except -1:
        if request is None or request.answered:
            return 0
        request.answered = True
        return self.outputs.push(UNANSWERED, self.wheel.clock_ms, request.id, request.op, why,
                                 None)

    cdef Written write(self, Batch batch, int* error, int64_t* position) except *:
        """Write a batch of which nobody has to know until it is over, if that is now."""
        error[0] = NONE
        position[0] = -1
        if self.deferred:
            return NOT_YET
        if self.fail_count > 0:
            self.fail_count -= 1
            error[0] = self.fail_error
            if error[0] != NONE:
                return OVER
        position[0] = self.sink.append(batch, -1)
        if position[0] == LATER:
            return UNDER_WAY
        if position[0] == FAILED:
            error[0] = KAFKA_STORAGE_ERROR
        else:
            self.show_append(batch, position[0])
        return OVER

    cdef int come_back_later(self, AppendOp op, Written written) except -1:
        """An append that `write` has not ended."""
        op.runtime = self
        op.written = written == UNDER_WAY
        op.waits()
        self.appends.append(op)
        return 0

    cdef int show_append(self, Batch batch, int64_t position) except -1:
        cdef Py_ssize_t at = 0
        for _ in range(batch.count):
            self.outputs.push(APPEND, self.wheel.clock_ms, position, 0, <int>at, batch)
            at = batch.after(at)
        return 0

    cdef int append(self, AppendOp op) except -1:
        """Hand out an append. It comes back within this call, or when the caller says so."""
        cdef int error
        cdef int64_t position
        cdef Written written = self.write(op.batch, &error, &position)
        if written != OVER:
            return self.come_back_later(op, written)
        op.runtime = self
        op.done = True
        return op.came_back(error, position)

    cdef int settle(self, AppendOp op, int error, int64_t base_offset) except -1:
        """The append came back; where the sink writes now, it is written. Offset -1: the end."""
        cdef int64_t position = base_offset
        cdef Batch batch = op.batch
        if op.done:
            raise CoterieError("this append has been completed already")
        if op.written and error == NONE and base_offset < 0:
            raise ArgumentError("base_offset: give the offset at which log_sink has the batch")
        self.sink.check(batch.count, base_offset)      # refused while nothing has changed
        if error == NONE and not op.written and self.fail_count > 0:
            self.fail_count -= 1
            error = self.fail_error
        if error == NONE and not op.written:
            position = self.sink.append(batch, base_offset)
            if position == LATER:
                op.written = True
                if not self.deferred:
                    op.waits()
                self.appends.append(op)
                return 0
            if position == FAILED:
                error = KAFKA_STORAGE_ERROR
        op.done = True
        if error == NONE:
            self.show_append(batch, position)
        return op.came_back(error, position)
