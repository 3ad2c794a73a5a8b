"""A group coordinator: one entry for requests, one for time, elections and loads.

It makes the components, which share a runtime, and passes each request to the component that is
registered for its operation and the type of its group. It knows no rule of a group.
Cost: a request is one look-up of its group and one call through a table.
Source: GroupCoordinator.scala, GroupMetadataManager.scala.
Rules: docs/rules/coordinator.md#election, docs/rules/trace-format.md#time.
"""
cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t

from coterie._core.checks cimport begin_change, end_use
from coterie._core.collector cimport PyGC_Disable, PyGC_Enable
from coterie._core.coordinator.offsets cimport (
    AHEAD, Admin, Election, Event, Offsets, Trace, desugar, fetch_ahead)
from coterie._core.coordinator.ahead cimport LookUp, look_ahead
from coterie._core.coordinator.classic.group cimport GroupMetadata
from coterie._core.coordinator.classic.protocol cimport ClassicProtocol, Joins, Members, Rebalances
from coterie._core.coordinator.consumer.requests cimport ReplayedAdmin, ReplayedOffsets, group_row
from coterie._core.coordinator.consumer.heartbeat cimport (
    ClassicMembers, register_heartbeats, steady_interval)
from coterie._core.coordinator.consumer.group cimport ConsumerGroup, ConsumerMember, Timers
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol
from coterie._core.coordinator.runtime cimport (
    NO_GROUP, NO_TIMER, RESPONSE, AppendOp, Batch, Decider, Group, MemoryLog, OffsetStore,
    Operation, OutputRow, Outputs, Runtime, Sink, batch_of)
from coterie._core.structures.timers cimport TimerWheel

from collections.abc import MutableSequence
from coterie._core.coordinator.runtime import STATES, KafkaThrows
from coterie.errors import CoterieError, TraceError, shown
from coterie.base.operations import NUMBER

cdef int HEARTBEAT = NUMBER["heartbeat"], JOIN_GROUP = NUMBER["join_group"]
cdef int OFFSET_COMMIT = NUMBER["offset_commit"]
cdef str THE_COORDINATOR = "the coordinator"

cdef enum:
    BEATS = 256                    # heartbeats of a trace between two checks for a signal
    ROWS = 2                       # of output for an event, mostly: with room no row is copied


@cython.final
cdef class Coordinator:
    """The core of :class:`coterie.GroupCoordinator`: it takes tuples and returns rows."""

    def __cinit__(self, settings, int64_t now_ms=0, member_ids=None, bint deferred=False,
                  Sink sink=None):
        self.runtime = Runtime(settings, now_ms, deferred, sink)
        self.operation = Operation()
        self.rebalances = Rebalances(self.runtime, settings)
        self.joins = Joins(self.runtime, self.rebalances, settings, member_ids)
        self.members = Members(self.runtime, self.rebalances)
        self.classic = ClassicProtocol(self.runtime, self.rebalances, self.joins, settings)
        self.store = OffsetStore()
        self.election = Election(self.runtime, self.store)
        if self.runtime.replaying:
            self.consumer = ConsumerProtocol(self.runtime, self.store, self.rebalances, self.joins,
                                             settings)
            register_heartbeats(self.consumer)
            self.classic_members = ClassicMembers(self.runtime, self.consumer, self.joins)
            self.election.consumer = self.consumer
            self.replayed_offsets = ReplayedOffsets(self.runtime, self.store, self.consumer,
                                                    settings)
            self.replayed_admin = ReplayedAdmin(self.runtime, self.store, self.consumer, settings)
        else:
            self.offsets = Offsets(self.runtime, self.store, settings)
            self.admin = Admin(self.runtime, self.store, settings)

    @property
    def now_ms(self):
        """The virtual time, in ms."""
        return self.runtime.wheel.clock_ms

    @property
    def outputs(self):
        return self.runtime.outputs

    @property
    def sink(self):
        return self.runtime.sink

    @property
    def deferred(self):
        return self.runtime.deferred

    @property
    def load_error(self):
        return self.election.load_error

    @property
    def open_transactions(self):
        """Groups with undecided offsets, by producer id."""
        return {producer: list(groups) for producer, groups in self.store.open_groups.items()}

    @property
    def session_evictions(self):
        return self.rebalances.session_evictions

    @property
    def rebalance_evictions(self):
        return self.rebalances.rebalance_evictions

    @property
    def sync_evictions(self):
        return self.rebalances.sync_evictions

    cdef int dispatch(self, int op, int64_t id, str group_id, int32_t generation_id,
                      str member_id, str instance, tuple details) except -1:
        """Call the function that is registered for the operation and the group's type."""
        cdef Group group = self.runtime.find(group_id)
        cdef int group_type = NO_GROUP if group is None else group.group_type
        cdef Decider* decider = self.runtime.decider_of(op, group_type)
        cdef Operation operation = self.operation
        if decider == &self.runtime.deciders[op][<int>NO_GROUP]:
            group = None
        operation.number, operation.id = op, id
        operation.group, operation.group_id = group, group_id
        operation.generation_id, operation.member_id = generation_id, member_id
        operation.instance, operation.details = instance, details
        return decider.decide(<object>decider.component, operation)

    cdef void end_change(self) noexcept:
        """Drop what the last operation named, and let others in."""
        cdef Operation operation = self.operation
        end_use(&self.users)
        operation.group = operation.group_id = operation.member_id = None
        operation.instance = operation.details = None

    def call(self, int op, int64_t id, str group_id, int32_t generation_id, str member_id,
             str instance, tuple details):
        """Handle one request, then the timers due now; a signal does not interrupt it."""
        begin_change(&self.users, THE_COORDINATOR)
        try:
            self.dispatch(op, id, group_id, generation_id, member_id, instance, details)
            self.taken += 1
            self.runtime.advance_to(self.runtime.wheel.clock_ms, False)
        finally:
            self.end_change()

    def ask(self, int op, int64_t id, str group_id, int32_t generation_id, str member_id,
            str instance, tuple details):
        """Handle one request as ``call`` does; return its error and payload."""
        cdef Py_ssize_t before = self.runtime.outputs.count
        self.call(op, id, group_id, generation_id, member_id, instance, details)
        if before or self.runtime.sink.failure is not None:
            return None
        return self.runtime.outputs.only_answer(id)

    cdef int beat(self, str group_id, int32_t generation_id, str member_id,
                  str instance) except? -1000:
        """Return the error of a heartbeat; its output row is removed."""
        cdef Outputs outputs = self.runtime.outputs
        cdef Py_ssize_t count = outputs.count
        cdef int code
        begin_change(&self.users, THE_COORDINATOR)
        try:
            self.dispatch(HEARTBEAT, 0, group_id, generation_id, member_id, instance, None)
            code = outputs.rows[count].code
            outputs.count = count              # a row without a payload
            self.runtime.advance_to(self.runtime.wheel.clock_ms, False)
        finally:
            self.end_change()
        return code

    cdef object steady_beat(self, str group_id, int32_t epoch, str member_id, str instance,
                            str client_id, str client_host):
        """Return the interval of a ConsumerGroupHeartbeat that names and changes nothing.

        None: it may change something; nothing was done.
        """
        if self.consumer is None:
            return None
        begin_change(&self.users, THE_COORDINATOR)
        try:
            interval_ms = steady_interval(self.consumer, self.runtime.find(group_id), group_id,
                                          member_id, instance, epoch, client_id, client_host)
            if interval_ms is not None:
                self.runtime.advance_to(self.runtime.wheel.clock_ms, False)
            return interval_ms
        finally:
            end_use(&self.users)

    cdef tuple commit(self, str group_id, int32_t generation_id, str member_id, str instance,
                      tuple rows, int version):
        """Commit offsets to a log that writes at once; its output row is removed.

        Return `rows` if all succeeded, else a key and an error of each.
        """
        cdef int64_t id = 0                    # no other request has this id
        begin_change(&self.users, THE_COORDINATOR)
        try:
            if self.consumer is not None:
                self.dispatch(OFFSET_COMMIT, id, group_id, generation_id, member_id, instance,
                              (rows, -1, -1, version, -1))
            else:
                self.offsets.commit(id, OFFSET_COMMIT, self.runtime.find(group_id), group_id,
                                    generation_id, member_id, instance, rows, -1, -1)
            self.runtime.advance_to(self.runtime.wheel.clock_ms, False)
            return <tuple?>self.runtime.outputs.take_answer(id)
        finally:
            self.end_change()

    def advance(self, int64_t now_ms):
        """Move the clock and fire the due timers."""
        begin_change(&self.users, THE_COORDINATOR)
        try:
            self.runtime.advance_to(now_ms, True)
        finally:
            end_use(&self.users)

    def set_image(self, brokers, deleted, topics):
        """Set the metadata image that consumer groups are assigned by, before any load."""
        if self.consumer is not None:
            self.consumer.update_metadata(brokers, deleted, topics)

    def availability_of(self, int32_t partition):
        """Whether a partition of the offsets topic is owned, resigned or loading."""
        return STATES[self.runtime.partitions.state_of(partition)]

    def next_deadline_ms(self):
        """Return the earliest deadline of a timer; None without timers."""
        return self.runtime.wheel.next_deadline_ms()

    def complete(self, AppendOp op not None, int error, int64_t base_offset):
        """Finish a deferred append; offset -1: the end of the log."""
        if op.runtime is not self.runtime:
            raise CoterieError("this append belongs to another coordinator")
        begin_change(&self.users, THE_COORDINATOR)
        try:
            try:
                self.runtime.settle(op, error, base_offset)
            except KafkaThrows:                 # in Kafka in the thread of the append
                pass
            self.runtime.advance_to(self.runtime.wheel.clock_ms, False)
        finally:
            end_use(&self.users)

    def import_log(self, batches):
        """Append batches to the log, then load the whole log."""
        cdef Batch batch
        begin_change(&self.users, THE_COORDINATOR)
        try:
            for base_offset, producer_id, epoch, transactional, control, records in batches:
                batch = batch_of(records)
                batch.producer_id = producer_id
                batch.epoch = epoch
                batch.transactional = transactional
                batch.control = control
                self.runtime.sink.append(batch, base_offset)
            self.election.load_log(-1)
        finally:
            end_use(&self.users)

    def batches(self):
        """Return the rows of the log's batches."""
        return list(self.runtime.sink.read())

    @property
    def unsettled(self):
        """Whether there are untaken responses, or an untaken failure of the caller's log."""
        return self.runtime.outputs.count > 0 or self.runtime.sink.failure is not None

    def take_failure(self):
        """Return the exception that the caller's log raised since the last call, or None."""
        failure, self.runtime.sink.failure = self.runtime.sink.failure, None
        return failure

    def play(self, Trace trace not None):
        """Run every event of a trace, then the timers due at the time of the last one."""
        # The core makes no reference cycles, and a trace calls no Python code if the log is in
        # memory and member ids are numbered. Without the collector, many small groups take a fifth
        # less CPU time on CPython 3.11.
        cdef bint was_enabled = False
        begin_change(&self.users, THE_COORDINATOR)
        try:
            self.runtime.strict = True
            if isinstance(self.runtime.sink, MemoryLog) and self.joins.member_ids is None:
                was_enabled = PyGC_Disable()
            return self.play_all(trace)
        finally:
            if was_enabled:
                PyGC_Enable()
            self.runtime.strict = False
            self.end_change()

    cdef Outputs play_all(self, Trace trace):
        cdef Py_ssize_t n, count = trace.count
        cdef Event* event
        cdef list objects = trace.objects
        cdef bytearray look_ups = bytearray(0 if self.consumer is None
                                            else len(objects) * sizeof(LookUp))
        cdef ConsumerMember looked_up = None
        cdef TimerWheel wheel = self.runtime.wheel
        self.member_ids = {}
        self.rows_read = self.runtime.outputs.count
        self.runtime.outputs.reserve(self.rows_read + ROWS * count)
        for n in range(count):
            event = &trace.events[n]
            if n + AHEAD < count:
                fetch_ahead(objects, event + AHEAD)
                if self.consumer is not None:      # its groups are many objects each
                    looked_up = look_ahead(self.runtime, objects, event,
                                           <LookUp*>PyByteArray_AS_STRING(look_ups), looked_up)
            try:
                if n % BEATS == 0 or event.op != HEARTBEAT:
                    PyErr_CheckSignals()
                if event.at_ms != wheel.clock_ms or wheel.due.count:
                    self.runtime.advance_to(event.at_ms, True)
                if trace.sugar:
                    self.dispatch_sugar(event, objects)
                else:
                    self.dispatch(event.op, event.id, objects[event.group], event.generation_id,
                                  objects[event.member], objects[event.instance],
                                  objects[event.details])
                self.taken += 1
            except (CoterieError, ValueError) as error:
                raise TraceError(str(error), line=trace.lines[n]) from error
        if count:
            try:
                self.runtime.advance_to(trace.events[count - 1].at_ms, True)
            except CoterieError as error:
                raise TraceError(str(error), line=trace.lines[count - 1]) from error
        return self.runtime.outputs

    cdef int dispatch_sugar(self, Event* event, list objects) except -1:
        """Replace references to an earlier response by the member id in it."""
        cdef OutputRow* row
        while self.rows_read < self.runtime.outputs.count:
            row = &self.runtime.outputs.rows[self.rows_read]
            self.rows_read += 1
            if row.kind == RESPONSE and row.op == JOIN_GROUP and row.payload != NULL:
                payload = <object>row.payload
                self.member_ids[row.id] = payload[4] if type(payload) is tuple else payload
        return self.dispatch(
            event.op, event.id, objects[event.group], event.generation_id,
            desugar(objects[event.member], self.member_ids), objects[event.instance],
            desugar(objects[event.details], self.member_ids))

    def group(self, str group_id not None):
        """Return the classic group with this id, or None."""
        return self.rebalances.find(group_id)

    def consumer_group(self, str group_id not None):
        """Return the row of a consumer group as ConsumerGroupDescribe has it, or None."""
        cdef Group group = self.runtime.find(group_id)
        return group_row(self.consumer, group) if isinstance(group, ConsumerGroup) else None

    def group_type(self, str group_id not None):
        """Return ``"classic"`` or ``"consumer"``; None: there is no such group."""
        if isinstance(self.runtime.find(group_id), ConsumerGroup):
            return "consumer"
        return None if self.rebalances.find(group_id) is None else "classic"

    def consumer_members(self, str group_id not None):
        """Return id, instance id and epoch of each member of a consumer group, if it is one."""
        cdef Group group = self.runtime.find(group_id)
        cdef ConsumerMember member
        cdef list rows = []
        if isinstance(group, ConsumerGroup):
            for member in (<ConsumerGroup>group).order:
                rows.append((member.member_id, member.fields.instance_id, member.epoch))
        return rows

    def all_groups(self):
        """Return every classic group."""
        return [group for group in self.runtime.groups.values() if isinstance(group, GroupMetadata)]

    @property
    def group_count(self):
        """How many groups there are, of every type."""
        return len(self.runtime.groups)

    def offsets_of(self, str group_id not None):
        """Return the offsets of a group of any type, or None if it has had no commits."""
        return self.store.find(group_id)

    def take_outputs(self):
        """Return the output rows since the last call."""
        cdef Outputs taken = self.runtime.outputs
        self.runtime.outputs = Outputs()
        return taken

    def take_events(self, list events not None, fresh not None):
        """Append the events since the last call to both, or to neither if interrupted."""
        cdef list taken = self.runtime.outputs.events()
        cdef Outputs empty = Outputs()
        if not isinstance(fresh, MutableSequence):
            raise TypeError(f"fresh must be a deque, not {shown(fresh)}")
        fresh.extend(taken)
        events.extend(taken)
        self.runtime.outputs = empty

    def take_rows(self, bint with_events):
        """Return the responses since the last call; see ``Outputs.taken``."""
        cdef list taken
        if self.runtime.outputs.count == 0:
            return []
        taken = self.runtime.outputs.taken(with_events)
        self.runtime.outputs = Outputs()   # not before: an interruption would lose answers
        return taken

    def take_appends(self, fresh not None):
        """Append the deferred appends that were begun since the last call."""
        if not isinstance(fresh, MutableSequence):
            raise TypeError(f"fresh must be a deque, not {shown(fresh)}")
        fresh.extend(self.runtime.appends)
        self.runtime.appends.clear()

    def timers_of(self, str group_id not None):
        """Return (kind, member id or None, deadline) of each armed timer of a group of any type."""
        cdef Group group = self.runtime.find(group_id)
        cdef GroupMetadata classic
        cdef TimerWheel wheel = self.runtime.wheel
        cdef ConsumerMember member
        cdef Timers timers
        cdef list rows = []
        if not isinstance(group, ConsumerGroup):
            classic = self.rebalances.find(group_id)
            return [] if classic is None else self.rebalances.timers_of(classic)
        for member in (<ConsumerGroup>group).order:
            timers = self.consumer.find_timers(group_id, member.member_id)
            if timers is not None:
                for kind, handle in (("session", timers.session), ("rebalance", timers.rebalance),
                                     ("join", timers.join), ("sync", timers.sync)):
                    if handle != NO_TIMER:
                        rows.append((kind, member.member_id, wheel.deadline_of(handle)))
        return rows
