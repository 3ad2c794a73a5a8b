"""The classic protocol's coordinator: one entry for requests, one for time, election and load.

It holds the parts and hands each request to the one that decides it; the parts share a runtime.
Source: GroupCoordinator.scala, GroupMetadataManager.scala; rules: coordinator.md, section 16;
trace-format.md.
"""
cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t

from coterie._core.checks cimport begin_change, end_use
from coterie._core.collector cimport PyGC_Disable, PyGC_Enable
from coterie._core.coordinator.codes cimport UNKNOWN_SERVER_ERROR
from coterie._core.coordinator.admin cimport Admin
from coterie._core.coordinator.effects cimport (
    BEGIN_LOAD, CLEANUP, DELETE_GROUPS, DELETE_PARTITIONS, DESCRIBE_GROUP, END_TXN,
    FAIL_APPEND, FAILOVER, FINISH_LOAD, HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, LIST_GROUPS,
    OFFSET_COMMIT, OFFSET_DELETE, OFFSET_FETCH, RESIGN, RESPONSE, SYNC_GROUP, TXN_OFFSET_COMMIT,
    Effect, Effects)
from coterie._core.coordinator.election cimport Election
from coterie._core.coordinator.group cimport GroupMetadata
from coterie._core.coordinator.members cimport Members
from coterie._core.coordinator.offsets cimport Offsets
from coterie._core.coordinator.rebalance cimport Rebalances
from coterie._core.coordinator.runtime cimport AppendOp, Request, Runtime, new_request
from coterie._core.coordinator.sink cimport Batch, MemoryLog, Sink, batch_of
from coterie._core.coordinator.trace cimport Event, Trace, desugar

from collections.abc import MutableSequence

from coterie._core.coordinator.partitions import STATES
from coterie._core.coordinator.runtime import Thrown
from coterie.errors import CoterieError, TraceError, shown

cdef str THE_COORDINATOR = "the coordinator"

cdef enum:
    BEATS = 256                    # heartbeats of a trace between two looks for a signal


@cython.final
cdef class Coordinator:
    """See ``coordinator.pyi``."""

    def __cinit__(self, settings, int64_t now_ms=0, member_ids=None, bint deferred=False,
                  Sink sink=None):
        self.runtime = Runtime(settings, now_ms, deferred, sink)
        self.rebalances = Rebalances(self.runtime, settings)
        self.members = Members(self.runtime, self.rebalances, settings, member_ids)
        self.offsets = Offsets(self.runtime, self.rebalances, settings)
        self.admin = Admin(self.runtime, self.rebalances, settings)
        self.election = Election(self.runtime, self.rebalances, self.members, self.offsets)

    @property
    def now_ms(self):
        """See ``coordinator.pyi``."""
        return self.runtime.wheel.clock_ms

    @property
    def effects(self):
        return self.runtime.effects

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
        """See ``coordinator.pyi``."""
        return {producer: list(groups) for producer, groups in self.offsets.open_groups.items()}

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
        if op == HEARTBEAT:
            return self.members.heartbeat(id, group_id, generation_id, member_id, instance)
        if op == JOIN_GROUP or op == SYNC_GROUP or op == LEAVE_GROUP or op == DESCRIBE_GROUP:
            return self.may_throw(op, id, group_id, generation_id, member_id, instance, details)
        if op == OFFSET_COMMIT or op == TXN_OFFSET_COMMIT:
            return self.offsets.commit(id, op, group_id, generation_id, member_id, instance,
                                       details[0], details[1], details[2])
        if op == OFFSET_FETCH:
            return self.offsets.fetch(id, group_id, details[0], details[1])
        if op == END_TXN:
            return self.offsets.end_txn(details[0], details[1])
        if op == OFFSET_DELETE:
            return self.admin.delete_offsets(id, group_id, details)
        if op == LIST_GROUPS:
            return self.admin.list_groups(id, details)
        if op == DELETE_GROUPS:
            return self.admin.delete_groups(id, details)
        if op == DELETE_PARTITIONS:
            return self.admin.delete_partitions(details)
        if op == CLEANUP:
            return self.admin.clean_up()
        if op == FAIL_APPEND:
            self.runtime.fail_error = details[0]
            self.runtime.fail_count = details[1]
        elif op == FAILOVER or op == RESIGN or op == BEGIN_LOAD or op == FINISH_LOAD:
            return self.election.elect(op, -1 if details is None else details[0])
        return 0

    cdef int may_throw(self, int op, int64_t id, str group_id, int32_t generation_id,
                       str member_id, str instance, tuple details) except -1:
        """Requests on which Kafka's code may throw: its request layer answers them then."""
        cdef Request request = None        # what may have to wait
        try:
            if op == JOIN_GROUP:
                request = new_request(id, op)
                return self.members.join(request, group_id, member_id, instance, details)
            if op == SYNC_GROUP:
                request = new_request(id, op)
                return self.members.sync(request, group_id, generation_id, member_id, instance,
                                         details[0], details[1], details[2])
            if op == LEAVE_GROUP:
                return self.members.leave(id, group_id, details)
            return self.admin.describe(id, group_id)
        except Thrown as error:
            self.runtime.unheard(error)
            if request is None:
                return self.runtime.respond(id, op, UNKNOWN_SERVER_ERROR, None)
            return self.runtime.answer(request, UNKNOWN_SERVER_ERROR,
                                       "" if op == JOIN_GROUP else None)

    def call(self, int op, int64_t id, str group_id, int32_t generation_id, str member_id,
             str instance, tuple details):
        """See ``coordinator.pyi``."""
        begin_change(&self.users, THE_COORDINATOR)
        try:
            self.dispatch(op, id, group_id, generation_id, member_id, instance, details)
            self.runtime.advance_to(self.runtime.wheel.clock_ms, False)
        finally:
            end_use(&self.users)

    def ask(self, int op, int64_t id, str group_id, int32_t generation_id, str member_id,
            str instance, tuple details):
        """See ``coordinator.pyi``."""
        cdef Py_ssize_t before = self.runtime.effects.count
        self.call(op, id, group_id, generation_id, member_id, instance, details)
        if before or self.runtime.sink.failure is not None:
            return None
        return self.runtime.effects.only_answer(id)

    cdef int beat(self, str group_id, int32_t generation_id, str member_id,
                  str instance) except? -1000:
        """A heartbeat whose error is wanted at once; no row of the output is left of it."""
        cdef Effects effects = self.runtime.effects
        cdef Py_ssize_t count = effects.count
        cdef int code
        begin_change(&self.users, THE_COORDINATOR)
        try:
            self.members.heartbeat(0, group_id, generation_id, member_id, instance)
            code = effects.rows[count].code
            effects.count = count              # a row without a payload
            self.runtime.advance_to(self.runtime.wheel.clock_ms, False)
        finally:
            end_use(&self.users)
        return code

    def advance(self, int64_t now_ms):
        """See ``coordinator.pyi``."""
        begin_change(&self.users, THE_COORDINATOR)
        try:
            self.runtime.advance_to(now_ms, True)
        finally:
            end_use(&self.users)

    def availability_of(self, int32_t partition):
        """See ``coordinator.pyi``."""
        return STATES[self.runtime.partitions.state_of(partition)]

    def next_deadline_ms(self):
        """See ``coordinator.pyi``."""
        return self.runtime.wheel.next_deadline_ms()

    def complete(self, AppendOp op not None, int error, int64_t base_offset):
        """See ``coordinator.pyi``."""
        if op.runtime is not self.runtime:
            raise CoterieError("this append is none of this coordinator's")
        begin_change(&self.users, THE_COORDINATOR)
        try:
            try:
                self.runtime.settle(op, error, base_offset)
            except Thrown:                 # in the thread of the append
                pass
            self.runtime.advance_to(self.runtime.wheel.clock_ms, False)
        finally:
            end_use(&self.users)

    def import_log(self, batches):
        """See ``coordinator.pyi``."""
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
        """See ``coordinator.pyi``."""
        return list(self.runtime.sink.read())

    def take_failure(self):
        """See ``coordinator.pyi``."""
        failure, self.runtime.sink.failure = self.runtime.sink.failure, None
        return failure

    def play(self, Trace trace not None):
        """See ``coordinator.pyi``."""
        # The core makes no cycle, and a trace calls nobody where the log is in memory and no ids
        # are asked for. Many small groups take a fifth less without a look for cycles (CPU time,
        # CPython 3.11).
        cdef bint collects = False
        begin_change(&self.users, THE_COORDINATOR)
        self.runtime.strict = True
        if isinstance(self.runtime.sink, MemoryLog) and self.members.member_ids is None:
            collects = PyGC_Disable()
        try:
            return self.play_all(trace)
        finally:
            if collects:
                PyGC_Enable()
            self.runtime.strict = False
            end_use(&self.users)

    cdef Effects play_all(self, Trace trace):
        cdef Py_ssize_t n
        cdef Event* event
        cdef list objects = trace.objects
        cdef int64_t now_ms = self.runtime.wheel.clock_ms
        self.told = {}
        self.told_rows = self.runtime.effects.count
        for n in range(trace.count):
            event = &trace.events[n]
            try:
                if n % BEATS == 0 or event.op != HEARTBEAT:
                    PyErr_CheckSignals()
                if event.at_ms != now_ms or self.runtime.wheel.due.count:
                    self.runtime.advance_to(event.at_ms, True)
                    now_ms = event.at_ms
                if trace.sugar:
                    self.dispatch_sugar(event, objects)
                    continue
                self.dispatch(event.op, event.id, objects[event.group], event.generation_id,
                              objects[event.member], objects[event.instance],
                              objects[event.details])
            except (CoterieError, ValueError) as error:
                raise TraceError(str(error), line=trace.lines[n]) from error
        if trace.count:
            try:
                self.runtime.advance_to(trace.events[trace.count - 1].at_ms, True)
            except CoterieError as error:
                raise TraceError(str(error), line=trace.lines[trace.count - 1]) from error
        return self.runtime.effects

    cdef int dispatch_sugar(self, Event* event, list objects) except -1:
        """Put the member ids that answers named in place of the sugar for them."""
        cdef Effect* row
        while self.told_rows < self.runtime.effects.count:
            row = &self.runtime.effects.rows[self.told_rows]
            self.told_rows += 1
            if row.kind == RESPONSE and row.op == JOIN_GROUP and row.payload != NULL:
                payload = <object>row.payload
                self.told[row.id] = payload[4] if type(payload) is tuple else payload
        return self.dispatch(
            event.op, event.id, objects[event.group], event.generation_id,
            desugar(objects[event.member], self.told), objects[event.instance],
            desugar(objects[event.details], self.told))

    def group(self, str group_id not None):
        """See ``coordinator.pyi``."""
        return self.runtime.groups.get(group_id)

    def all_groups(self):
        """See ``coordinator.pyi``."""
        return list(self.runtime.groups.values())

    def take_effects(self):
        """See ``coordinator.pyi``."""
        cdef Effects taken = self.runtime.effects
        self.runtime.effects = Effects()
        return taken

    def take_events(self, list events not None, fresh not None):
        """See ``coordinator.pyi``."""
        cdef list taken = self.runtime.effects.events()
        cdef Effects empty = Effects()
        if not isinstance(fresh, MutableSequence):
            raise TypeError(f"fresh must be a deque, not {shown(fresh)}")
        fresh.extend(taken)
        events.extend(taken)
        self.runtime.effects = empty

    def take_rows(self, bint with_events):
        """See ``coordinator.pyi``."""
        cdef list taken
        if self.runtime.effects.count == 0:
            return []
        taken = self.runtime.effects.taken(with_events)
        self.runtime.effects = Effects()   # not before: an interruption would lose answers
        return taken

    def take_appends(self, fresh not None):
        """See ``coordinator.pyi``."""
        if not isinstance(fresh, MutableSequence):
            raise TypeError(f"fresh must be a deque, not {shown(fresh)}")
        fresh.extend(self.runtime.appends)
        self.runtime.appends.clear()

    def timers_of(self, GroupMetadata group not None):
        """See ``coordinator.pyi``."""
        return self.rebalances.timers_of(group)
