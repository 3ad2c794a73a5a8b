"""What the components of a coordinator share: clock, timers, groups, dispatch, outputs, appends.

It knows no rule of a group. One wheel stands for both purgatories of Kafka: timers fire by
deadline, then in the order of arming. A timer's key holds its kind, which names the component, and
the slot of its owner. An operation goes to the component that registered for it and for the type
of the group. An append finishes within the call, or later if it is deferred or in flight.
Cost of a dispatch: one look-up of the group, none if the last request was of the same group.
Source: GroupCoordinator.scala, DelayedOperation.scala.
Rules: docs/rules/coordinator.md#timers, #group-status and #failed-appends.
"""
cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc

from coterie._core.coordinator.codes cimport (
    KAFKA_STORAGE_ERROR, NONE, UNKNOWN_SERVER_ERROR, UNSUPPORTED_VERSION)
from coterie._core.coordinator.outputs cimport APPEND, RESPONSE, UNANSWERED, Outputs
from coterie._core.coordinator.partitions cimport Partitions
from coterie._core.coordinator.sink cimport FAILED, LATER, Batch, MemoryLog, Sink
from coterie._core.structures.offsets cimport OffsetMap
from coterie._core.structures.timers cimport TimerWheel

from coterie.errors import ArgumentError, CoterieError
from coterie.operations import NUMBER, OPERATIONS


class Thrown(CoterieError):
    """Kafka's code throws here; as in Kafka, earlier changes are not undone."""


class Garbage(Thrown):
    """Kafka's code throws because a member's metadata cannot be read."""


cdef int DESCRIBE = NUMBER["consumer_group_describe"]
cdef int64_t LATEST_MS = <int64_t>1 << 60      # a deadline from here still fits an int64
cdef int64_t NEVER_MS = <int64_t>1 << 62       # beyond any time; from LATEST_MS it still fits


@cython.final
@cython.freelist(256)
cdef class Request:
    """A request that may be parked: it is answered at most once."""


cdef Request new_request(int64_t id, int op):
    cdef Request request = Request.__new__(Request)
    request.id, request.op = id, op
    return request


cdef class Group:
    """A group of any type: its id and its type."""


cdef class Component:
    """A component of a coordinator: it may have timers, and takes part in elections."""

    cdef int join_runtime(self, Runtime runtime, int kinds) except -1:
        """Reserve this many kinds of timers, numbered from `first_kind`."""
        self.runtime = runtime
        self.first_kind = <int>len(runtime.handlers)
        if self.first_kind + kinds > 1 << KIND_BITS:
            raise CoterieError(f"a runtime has {1 << KIND_BITS} kinds of timers at most")
        runtime.handlers.extend([self] * kinds)
        runtime.components.append(self)

    cdef int fired(self, int kind, object owner) except -1:
        """Handle a due timer; `kind` counts from 0."""
        raise NotImplementedError

    cdef int resigned(self, int32_t partition) except -1:
        """Drop the groups of a partition that was given up; -1: of all."""
        return 0

    cdef object read_log(self, object fold):
        """Read its groups from a folded log, changing nothing; CorruptData ends the load."""
        return None

    cdef int loaded(self, object content, object load_filter) except -1:
        """Take over what `read_log` returned, for the group ids that pass the filter.

        None as the filter: all pass.
        """
        return 0


cdef class GroupProtocol(Component):
    """The rules of one type of groups, for the operations that are the same for all types.

    Each method gets groups of its own type only.
    """

    cdef Group create_group(self, str group_id):
        """Add a group without members, for its offsets."""
        raise NotImplementedError

    cdef int check_commit(self, Group group, int32_t generation_id, str member_id, str instance,
                          bint transactional) except? -7:
        """Return the error of a commit by this member; if none, restart the member's session."""
        raise NotImplementedError

    cdef int check_offset_delete(self, Group group, dict errors) except? -7:
        """Return the error of an OffsetDelete; set the errors of partitions that must stay."""
        raise NotImplementedError

    cdef int delete_group(self, Group group) except? -7:
        """Mark the group as deleted, or return why it must stay."""
        raise NotImplementedError

    cdef list expire(self, Group group, OffsetMap offsets):
        """Remove the expired offsets and return their keys."""
        raise NotImplementedError

    cdef list end_group(self, Group group, bint has_offsets):
        """Return the keys of the group's own records if the group ends now, else None."""
        raise NotImplementedError

    cdef int drop_group(self, Group group) except -1:
        """Take the group out of the runtime, with its timers."""
        raise NotImplementedError

    cdef tuple overview(self, Group group):
        """Return (group id, protocol type, state), as ListGroups shows them."""
        raise NotImplementedError


@cython.freelist(16)
cdef class AppendOp:
    """An append, and what to do when it finishes: nothing, unless a component derives its own."""

    cdef int on_deferred(self) except -1:
        """Prepare for an append that does not finish within the call that began it."""
        return 0

    cdef int on_finished(self, int error, int64_t position) except -1:
        """Continue: the batch is in the log at this offset, or the append has failed."""
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


cdef class Writes:
    """Writes that are not committed: its methods are in `consumer/pending.pyx`."""

    cdef bint blocks(self, str group_id) except -1:
        raise NotImplementedError

    cdef int begin(self, AppendOp op, AppendStatus status) except -1:
        raise NotImplementedError

    cdef int check_order(self, AppendOp op) except -1:
        raise NotImplementedError

    cdef int finished(self, AppendOp op, int error, int64_t position) except -1:
        raise NotImplementedError

    cdef int wrote(self, str group_id, int error) except -1:
        raise NotImplementedError

    cdef int change_unwritten(self, str group_id) except -1:
        raise NotImplementedError

    cdef int show_ended(self, str group_id) except -1:
        raise NotImplementedError

    cdef int give_up(self, int32_t partition) except -1:
        raise NotImplementedError

    cdef Group committed(self, str group_id):
        raise NotImplementedError

    cdef int answer_later(self, tuple group_ids, int64_t id, int op, int code, payload,
                          refused) except -1:
        raise NotImplementedError


cdef AppendOp describe(AppendOp op, str kind, Batch batch):
    """Set the kind, the group and the other details of an append."""
    op.kind = kind
    op.batch = batch
    return op


cdef int decide_advance(component, int op, int64_t id, Group group, str group_id,
                        int32_t generation_id, str member_id, str instance,
                        tuple details) except -1:
    """Do nothing: the clock is moved before each event of a trace."""
    return 0


cdef int decide_unsupported(component, int op, int64_t id, Group group, str group_id,
                            int32_t generation_id, str member_id, str instance,
                            tuple details) except -1:
    """Refuse a request of consumer groups, as a broker without them does, group by group."""
    if op == DESCRIBE:
        return (<Runtime>component).respond(id, op, NONE, tuple([
            (each, UNSUPPORTED_VERSION, "", 0, 0, "", ()) for each in details]))
    return (<Runtime>component).respond(id, op, UNSUPPORTED_VERSION, None)


cdef int decide_fail_append(component, int op, int64_t id, Group group, str group_id,
                            int32_t generation_id, str member_id, str instance,
                            tuple details) except -1:
    (<Runtime>component).fail_error = details[0]
    (<Runtime>component).fail_count = details[1]
    return 0


@cython.final
cdef class Runtime:
    """One clock, one table of groups, one sequence of outputs, one sink."""

    def __cinit__(self, settings, int64_t now_ms, bint deferred, Sink sink):
        if now_ms > LATEST_MS:
            raise ArgumentError(f"now_ms must be at most {LATEST_MS} ms, not {now_ms}")
        self.wheel = TimerWheel(now_ms)
        self.outputs = Outputs()
        self.partitions = Partitions(settings["offsets.topic.num.partitions"])
        self.sink = MemoryLog() if sink is None else sink
        self.deferred = deferred
        self.replaying = settings["coterie.behaviour"] not in ("2.4", "3.9")
        self.groups = {}
        self.handlers = []
        self.protocols = [None] * GROUP_TYPES
        self.components = []
        self.registered = []
        self.register("advance", self, decide_advance, NO_GROUP)
        self.register("fail_append", self, decide_fail_append, NO_GROUP)
        if not self.replaying:         # KafkaApis refuses them; the old coordinator has no image
            for name in ("consumer_group_heartbeat", "consumer_group_describe"):
                self.register(name, self, decide_unsupported, NO_GROUP)
            for name in ("metadata", "group_config", "run_tasks"):
                self.register(name, self, decide_advance, NO_GROUP)
        self.owners = [None]           # by slot; NO_OWNER is the first
        self.appends = []

    def __dealloc__(self):
        free(self.free_slots)

    cdef int register(self, str op, object component, Decide decide, int group_type) except -1:
        """Register the function that decides an operation for the groups of one type.

        NO_GROUP: also for types without a component of their own, as if there were no group.
        """
        cdef int number = NUMBER[op], each
        cdef Decider* decider
        if number >= MOST_OPERATIONS:
            raise CoterieError(f"there are {MOST_OPERATIONS} operations at most")
        for each in range(GROUP_TYPES) if group_type == EVERY_TYPE else (group_type,):
            decider = &self.deciders[number][each]
            if decider.decide != NULL:
                raise CoterieError(f"{op} of group type {each} has a component already: "
                                   f"{type(<object>decider.component).__name__}")
            self.registered.append(component)
            decider.component = <PyObject*>component
            decider.decide = decide

    cdef int register_protocol(self, int group_type, GroupProtocol protocol) except -1:
        """Make a component the protocol of the groups of one type."""
        if self.protocols[group_type] is not None:
            raise CoterieError(f"group type {group_type} has a protocol already: "
                               f"{type(self.protocols[group_type]).__name__}")
        self.protocols[group_type] = protocol

    cdef Decider* decider_of(self, int op, int group_type) except NULL:
        """Return the decider of an operation for a type of group, or that for no group."""
        cdef Decider* decider
        if 0 <= op < len(NUMBER):
            decider = &self.deciders[op][group_type]
            if decider.decide != NULL:
                return decider
            decider = &self.deciders[op][<int>NO_GROUP]
            if decider.decide != NULL:
                return decider
            raise CoterieError(f"{list(OPERATIONS)[op]} needs coterie.behaviour 4.1 or later")
        raise CoterieError(f"the coordinator has no operation {op}")

    cdef Group find(self, str group_id):
        """Return the group with this id, or None."""
        if group_id is not self.last_id:
            group = self.groups.get(group_id)
            if group is None:
                return None
            self.last_id, self.last = group_id, <Group>group
        return self.last

    cdef list all_groups(self):
        """Return the groups of every type, by id."""
        return [group for _, group in sorted(self.groups.items())]

    cdef int add_group(self, Group group) except -1:
        """Add a group; it may replace one of its own type."""
        cdef Group present = <Group>self.groups.get(group.group_id)
        if self.protocols[group.group_type] is None:
            raise CoterieError(f"group type {group.group_type} has no protocol")
        if present is not None and present.group_type != group.group_type:
            raise CoterieError(f"{group.group_id!r} is a group of another protocol")
        self.groups[group.group_id] = group
        return self.forget_look_ups()

    cdef int drop_group(self, Group group) except -1:
        """Forget a group, unless another one has its id by now."""
        if self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]
        return self.forget_look_ups()

    cdef int forget_look_ups(self) except -1:
        self.last_id = self.last = None
        self.group_changes += 1

    cdef GroupProtocol protocol_of(self, Group group):
        """Return the protocol of a group; for None, that of groups with offsets only."""
        return <GroupProtocol>self.protocols[CLASSIC if group is None else group.group_type]

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
        if self.owners[slot] is None:      # a member from another coordinator has no slot here
            return 0
        self.owners[slot] = None
        self.free_slots[self.free_count] = slot
        self.free_count += 1

    cdef int64_t arm(self, int64_t handle, int kind, Py_ssize_t slot, int64_t delay_ms) except -1:
        """Arm or re-arm a timer; return its handle. A negative delay counts as 0."""
        cdef int64_t deadline_ms = self.wheel.clock_ms + min(max(delay_ms, 0), NEVER_MS)
        if handle != NO_TIMER and self.wheel.move(handle, deadline_ms):
            return handle
        return self.wheel.arm(deadline_ms, <int64_t>slot << KIND_BITS | kind)

    cdef int disarm(self, int64_t* handle) except -1:
        if handle[0] != NO_TIMER:
            self.wheel.drop(handle[0])
            handle[0] = NO_TIMER

    cdef int advance_to(self, int64_t now_ms, bint heeds_signals) except -1:
        """Fire the timers due by `now_ms`, in order; the clock shows each one's deadline.

        An exception of a signal comes between two timers. The clock then shows the last deadline;
        the timers after it fire when the clock is moved again.
        """
        cdef int64_t key = 0
        cdef int kind
        cdef Component component
        if now_ms < self.wheel.clock_ms:
            raise ArgumentError(f"time runs forward only: {now_ms} < {self.wheel.clock_ms}")
        if now_ms > LATEST_MS:
            raise ArgumentError(f"time must be at most {LATEST_MS} ms, not {now_ms}")
        while self.wheel.pop(now_ms, &key):
            kind = <int>(key & ((1 << KIND_BITS) - 1))
            component = <Component?>self.handlers[kind]
            try:
                component.fired(kind - component.first_kind, self.owners[key >> KIND_BITS])
            except Thrown as error:        # in a thread of Kafka's timer
                self.ignore_thrown(error)
            if heeds_signals:
                PyErr_CheckSignals()

    cdef int ignore_thrown(self, error) except -1:
        """Ignore an error that Kafka throws in a background thread, unless it ends a trace."""
        if self.strict and isinstance(error, Garbage):
            raise error

    cdef int answer_thrown(self, error, Request request, payload) except -1:
        """Answer a request on which Kafka throws, as its request layer does."""
        self.ignore_thrown(error)
        return self.answer(request, UNKNOWN_SERVER_ERROR, payload)

    cdef int respond(self, int64_t id, int op, int code, payload) except -1:
        return self.outputs.push(RESPONSE, self.wheel.clock_ms, id, op, code, payload)

    cdef int respond_committed(self, str group_id, int64_t id, int op, int code,
                               payload) except -1:
        """Answer a request that wrote nothing once what its group has written is committed."""
        if self.writes is not None and self.writes.pending:
            return self.writes.answer_later((group_id,), id, op, code, payload, None)
        return self.respond(id, op, code, payload)

    cdef int answer(self, Request request, int code, payload) except -1:
        """Answer a request, unless it has been answered."""
        if request.answered:
            return 0
        request.answered = True
        if self.replaying and type(payload) is str:        # of a join that failed
            payload = (-1, None, "", "", payload, False, ())
        return self.outputs.push(RESPONSE, self.wheel.clock_ms, request.id, request.op, code,
                                 payload)

    cdef int abandon(self, Request request, int why) except -1:
        if request is None or request.answered:
            return 0
        request.answered = True
        return self.outputs.push(UNANSWERED, self.wheel.clock_ms, request.id, request.op, why,
                                 None)

    cdef AppendStatus write(self, Batch batch, int* error, int64_t* position) except *:
        """Write a batch now, if possible; `defer` takes the append if it does not finish."""
        error[0] = NONE
        position[0] = -1
        if self.deferred:
            return NOT_WRITTEN
        if self.fail_count > 0:
            self.fail_count -= 1
            error[0] = self.fail_error
        if error[0] == NONE:
            position[0] = self.sink.append(batch, -1)
            if position[0] == LATER:
                return IN_FLIGHT
            if position[0] == FAILED:
                error[0] = KAFKA_STORAGE_ERROR
            else:
                self.show_append(batch, position[0])
        if self.writes is not None:
            if error[0] == NONE and (self.writes.holding or self.writes.pending) and (
                    self.writes.blocks(batch.group_id)):
                return NOT_COMMITTED
            if self.writes.unwritten:
                self.writes.wrote(batch.group_id, error[0])
        return FINISHED

    cdef int defer(self, AppendOp op, AppendStatus written) except -1:
        """Keep an append that `write` has not finished."""
        op.runtime = self
        op.written = written != NOT_WRITTEN
        op.on_deferred()
        if self.writes is not None:
            self.writes.begin(op, written)
        op.done = written == NOT_COMMITTED
        if not op.done:
            self.appends.append(op)

    cdef int show_append(self, Batch batch, int64_t position) except -1:
        cdef Py_ssize_t at = 0
        for _ in range(0 if batch.control else batch.count):
            self.outputs.push(APPEND, self.wheel.clock_ms, position, 0, <int>at, batch)
            at = batch.after(at)
        if self.writes is not None and self.writes.unshown:
            self.writes.show_ended(batch.group_id)

    cdef int append(self, AppendOp op) except -1:
        """Begin an append. It finishes within this call, or by `settle`."""
        cdef int error
        cdef int64_t position
        cdef AppendStatus written = self.write(op.batch, &error, &position)
        if written != FINISHED:
            return self.defer(op, written)
        op.runtime, op.done = self, True
        return op.on_finished(error, position)

    cdef int settle(self, AppendOp op, int error, int64_t base_offset) except -1:
        """Finish an append; a deferred one is written first. Offset -1: at the end of the log."""
        cdef int64_t position = base_offset
        cdef Batch batch = op.batch
        if op.done:
            raise CoterieError("this append has been completed already")
        if op.written and error == NONE and base_offset < 0:
            raise ArgumentError("base_offset: give the offset at which log_sink has the batch")
        self.sink.check(batch.count, base_offset)      # refused while nothing has changed
        if self.writes is not None and error == NONE and not op.written:
            self.writes.check_order(op)
        if (error == NONE and not op.written and self.fail_count > 0
                and (self.replaying or not batch.control)):
            self.fail_count -= 1
            error = self.fail_error
        if error == NONE and not op.written:
            position = self.sink.append(batch, base_offset)
            if position == LATER:
                op.written = True
                if not self.deferred:
                    op.on_deferred()
                self.appends.append(op)
                return 0
            if position == FAILED:
                error = KAFKA_STORAGE_ERROR
        op.done = True
        if error == NONE:
            self.show_append(batch, position)
        return op.on_finished(error, position) if self.writes is None else (
            self.writes.finished(op, error, position))
