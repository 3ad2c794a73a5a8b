"""The whole coordinator: one entry for requests, one for time, election and load, traces.

A trace is compiled once into rows of 40 bytes with interned names; playing it makes no Python
object for an event that needs none. Source: GroupCoordinator.scala, GroupMetadataManager.scala;
rules: coordinator.md, section 16; trace-format.md.
"""
cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, realloc

from coterie._core.checks cimport begin_change, end_use
from coterie._core.coordinator.base cimport (
    ASSIGNMENT, BY_SIZE, CLEANUP_TIMER, JOIN_TIMER, LOADING, OWNED, PENDING_TIMER, PLAIN_COMMIT,
    RESIGNED, SESSION_TIMER, STATIC_RETURN, SYNC_TIMER, TXN_COMMIT, UNKNOWN_SERVER_ERROR, AppendOp,
    partition_of)
from coterie._core.coordinator.offsets cimport Offsets
from coterie._core.coordinator.effects cimport (
    BEGIN_LOAD, CLEANUP, DELETE_GROUPS, DELETE_PARTITIONS, DESCRIBE_GROUP, END_TXN,
    FAIL_APPEND, FAILOVER, FINISH_LOAD, HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, LIST_GROUPS,
    OFFSET_COMMIT, OFFSET_DELETE, OFFSET_FETCH, RESIGN, RESPONSE, SYNC_GROUP, TXN_OFFSET_COMMIT,
    Effect, Effects)
from coterie._core.coordinator.group cimport (
    NO_TIMER, GroupMetadata, MemberMetadata, PendingId, Request)

from collections.abc import MutableSequence

from coterie._core.coordinator.group import Garbage, Thrown
from coterie._core.coordinator.load import Wanted, load, rows_of_partitions
from coterie.errors import ArgumentError, CorruptData, CoterieError, TraceError, shown

cdef extern from "Python.h":
    int Py_EnterRecursiveCall(const char* where) except *
    void Py_LeaveRecursiveCall()

cdef str THE_COORDINATOR = "the coordinator"

cdef enum:
    BEATS = 256                    # heartbeats of a trace between two looks for a signal


@cython.final
cdef class Trace:
    """Events in rows. Built by ``coterie.load_trace``; see ``coordinator.pyi``."""

    def __cinit__(self, dict header not None):
        self.header = header
        self.objects = [None]
        self.index = {None: 0}
        self.lines = []

    def __dealloc__(self):
        free(self.events)

    def __len__(self):
        return self.count

    cdef int32_t intern(self, name) except -1:
        if name is not None and type(name) is not str:
            if not isinstance(name, str):
                raise ArgumentError(f"member_id must be a string, not {shown(name)}")
            self.objects.append(name)        # sugar: a text of its own, equal to no other
            return <int32_t>len(self.objects) - 1
        found = self.index.get(name)
        if found is None:
            found = self.index[name] = len(self.objects)
            self.objects.append(name)
        return found

    def add(self, int line, int64_t at_ms, int op, int64_t id, str group_id,
            int32_t generation_id, member_id, str instance, tuple details):
        cdef Event* events
        cdef Py_ssize_t capacity
        if self.count == self.capacity:
            capacity = 2 * self.capacity + 64
            events = <Event*>realloc(self.events, capacity * sizeof(Event))
            if events == NULL:
                raise MemoryError
            self.events = events
            self.capacity = capacity
        cdef Event* event = &self.events[self.count]
        event.at_ms = at_ms
        event.id = id
        event.op = op
        event.generation_id = generation_id
        event.group = self.intern(group_id)
        event.member = self.intern(member_id)
        event.instance = self.intern(instance)
        event.details = 0
        if details is not None:
            event.details = <int32_t>len(self.objects)
            self.objects.append(details)
        self.lines.append(line)
        self.count += 1
        self.last_id = max(self.last_id, id)

    def requests(self):
        """(line, at, op, id, group, generation, member, instance, details) of each event."""
        cdef Py_ssize_t n
        cdef Event event
        for n in range(self.count):
            event = self.events[n]
            yield (self.lines[n], event.at_ms, event.op, event.id, self.objects[event.group],
                   event.generation_id, self.objects[event.member],
                   self.objects[event.instance], self.objects[event.details])


cdef object _desugar(value, dict told):
    """`value` with every MemberOf (see requests.py) replaced by the id that it stands for."""
    if type(value) is tuple:
        Py_EnterRecursiveCall(b" in a trace's details")
        try:
            return tuple([_desugar(item, told) for item in value])
        finally:
            Py_LeaveRecursiveCall()
    if type(value) is dict:
        return {_desugar(key, told): item for key, item in value.items()}
    request_id = getattr(value, "request_id", None)
    if request_id is None:
        return value
    member_id = told.get(request_id)
    if not member_id:
        raise TraceError(f"member_id_of: request {request_id} has been told no member id by now")
    return member_id


@cython.final
cdef class Coordinator(Offsets):
    """See ``coordinator.pyi``."""

    cdef int dispatch(self, int op, int64_t id, str group_id, int32_t generation_id,
                      str member_id, str instance, tuple details) except -1:
        if op == HEARTBEAT:
            return self.heartbeat(id, group_id, generation_id, member_id, instance)
        if op == JOIN_GROUP or op == SYNC_GROUP or op == LEAVE_GROUP or op == DESCRIBE_GROUP:
            return self.may_throw(op, id, group_id, generation_id, member_id, instance, details)
        if op == OFFSET_COMMIT or op == TXN_OFFSET_COMMIT:
            return self.commit(Request(id, op), group_id, generation_id, member_id, instance,
                               details[0], details[1], details[2])
        if op == OFFSET_FETCH:
            return self.fetch(id, group_id, details[0], details[1])
        if op == END_TXN:
            return self.end_txn(details[0], details[1])
        if op == OFFSET_DELETE:
            return self.delete_offsets(id, group_id, details)
        if op == LIST_GROUPS:
            return self.list_groups(id, details)
        if op == DELETE_GROUPS:
            return self.delete_groups(id, details)
        if op == DELETE_PARTITIONS:
            return self.delete_partitions(details)
        if op == CLEANUP:
            return self.clean_up()
        if op == FAIL_APPEND:
            self.fail_error = details[0]
            self.fail_count = details[1]
        elif op == FAILOVER or op == RESIGN or op == BEGIN_LOAD or op == FINISH_LOAD:
            return self.elect_anew(op, -1 if details is None else details[0])
        return 0

    cdef int may_throw(self, int op, int64_t id, str group_id, int32_t generation_id,
                       str member_id, str instance, tuple details) except -1:
        """Requests on which Kafka's code may throw: its request layer answers them then."""
        cdef Request request = Request(id, op)
        try:
            if op == JOIN_GROUP:
                return self.join(request, group_id, member_id, instance, details)
            if op == SYNC_GROUP:
                return self.sync(request, group_id, generation_id, member_id, instance,
                                 details[0], details[1], details[2])
            if op == LEAVE_GROUP:
                return self.leave(id, group_id, details)
            return self.describe(id, group_id)
        except Thrown as error:
            self.refuse_garbage(error)
            return self.answer(request, UNKNOWN_SERVER_ERROR, "" if op == JOIN_GROUP else None)

    cdef int refuse_garbage(self, error) except -1:
        """A trace has no metadata on which Kafka's code throws."""
        if self.strict and isinstance(error, Garbage):
            raise error
        return 0

    cdef int elect_anew(self, int op, int32_t partition) except -1:
        """Resign, begin a load, finish it: of one partition of the offsets topic; -1: of all."""
        if partition >= self.partition_count:
            raise ArgumentError(f"partition must be from 0 to {self.partition_count - 1}, "
                                f"not {partition}")
        if op == FAILOVER or op == RESIGN:
            self.resign(partition)
        if op == FAILOVER or op == BEGIN_LOAD:
            self.change(partition, RESIGNED, LOADING)      # else an election is ignored
        if op == FAILOVER or op == FINISH_LOAD:
            if not (self.is_loading() if partition < 0 else self.state_of(partition) == LOADING):
                raise CoterieError("no load is under way: finish_load comes after begin_load, "
                                   "which is ignored unless resign came first")
            self.load_log(partition)
        return 0

    cdef int change(self, int32_t partition, int before, int after) except -1:
        """Let a partition, or all of them, go from one availability to another."""
        if partition >= 0:
            if self.state_of(partition) == before:
                self.exceptions[partition] = after
        else:
            if self.availability == before:
                self.availability = after
            for number, state in self.exceptions.items():
                if state == before:
                    self.exceptions[number] = after
        self.exceptions = {number: state for number, state in self.exceptions.items()
                           if state != self.availability}
        return 0

    cdef int resign(self, int32_t partition) except -1:
        cdef int32_t count = self.partition_count
        for group_id in sorted(self.groups):
            if partition < 0 or partition_of(group_id, count) == partition:
                self.unload(self.groups[group_id])
        self.open_groups = {} if partition < 0 else {
            producer: left for producer, groups in self.open_groups.items()
            if (left := {group_id: None for group_id in groups
                         if partition_of(group_id, count) != partition})}
        self.change(partition, OWNED, RESIGNED)
        self.change(partition, LOADING, RESIGNED)
        return 0

    cdef int load_log(self, int32_t partition) except -1:
        """Read the log; the partitions are owned afterwards, even if the load failed."""
        cdef GroupMetadata group
        cdef MemberMetadata member
        cdef int32_t count = self.partition_count
        rows, wanted = self.sink.read(), None
        if partition >= 0 or self.exceptions:
            wanted = Wanted(count, partition, self.availability == LOADING, dict(self.exceptions))
            rows = rows_of_partitions(rows, wanted)
        self.load_error = None
        loaded = {}
        try:
            loaded = load(rows, self.wheel.clock_ms)
        except CorruptData as error:
            self.load_error = str(error)
        self.change(partition, LOADING, OWNED)
        if wanted is not None:
            loaded = {group_id: group for group_id, group in loaded.items() if wanted(group_id)}
        for group_id, value in loaded.items():
            group = <GroupMetadata?>value
            group.slot = self.new_slot(group)
            group.ties_as_kafka = self.ties_as_kafka
            self.groups[group_id] = group
            for producer_id in group.offsets.waiting_txn:
                self.open_groups.setdefault(producer_id, {})[group_id] = None
            for each in group.members.values():
                member = <MemberMetadata>each
                member.slot = self.new_slot(member)
            if len(group.members) > self.max_size:
                self.prepare_rebalance(group, BY_SIZE, None)
            for each in list(group.members.values()):
                member = <MemberMetadata>each
                self.touch(group, member, member.session_timeout_ms)
        return 0

    cdef int fired(self, int kind, object owner) except -1:
        try:
            return self.fire(kind, owner)
        except Thrown as error:        # in a thread of Kafka's timer, where nobody hears it
            return self.refuse_garbage(error)

    cdef int fire(self, int kind, object owner) except -1:
        if kind == SESSION_TIMER:
            return self.session_due(<MemberMetadata?>owner)
        if kind == PENDING_TIMER:
            return self.pending_due(<PendingId?>owner)
        if kind == JOIN_TIMER:
            return self.join_due(<GroupMetadata?>owner)
        if kind == SYNC_TIMER:
            return self.sync_due(<GroupMetadata?>owner)
        # Armed before the clean-up, so that the rhythm does not depend on what it does.
        self.arm(NO_TIMER, CLEANUP_TIMER, 0, self.check_interval_ms)
        return self.clean_up()

    cdef int finished(self, AppendOp op, int error, int64_t position) except -1:
        if op.kind == ASSIGNMENT:
            return self.assigned(op, error)
        if op.kind == STATIC_RETURN:
            return self.static_returned(op, error)
        if op.kind == PLAIN_COMMIT or op.kind == TXN_COMMIT:
            return self.committed(op, error, position)
        return 0                       # empty generations and tombstones: nothing waits

    def call(self, int op, int64_t id, str group_id, int32_t generation_id, str member_id,
             str instance, tuple details):
        """Handle one request now, then what is due at once: whole, whatever signal comes."""
        begin_change(&self.users, THE_COORDINATOR)
        try:
            self.dispatch(op, id, group_id, generation_id, member_id, instance, details)
            self.advance_to(self.wheel.clock_ms, False)
        finally:
            end_use(&self.users)

    def advance(self, int64_t now_ms):
        begin_change(&self.users, THE_COORDINATOR)
        try:
            self.advance_to(now_ms, True)
        finally:
            end_use(&self.users)

    def availability_of(self, int32_t partition):
        return ("owned", "resigned", "loading")[self.state_of(partition)]

    def next_deadline_ms(self):
        return self.wheel.next_deadline_ms()

    def complete(self, AppendOp op not None, int error, int64_t base_offset):
        if op.machine is not self:
            raise CoterieError("this append is none of this coordinator's")
        begin_change(&self.users, THE_COORDINATOR)
        try:
            try:
                self.settle(op, error, base_offset)
            except Thrown:                 # in the thread of the append
                pass
            self.advance_to(self.wheel.clock_ms, False)
        finally:
            end_use(&self.users)

    def import_log(self, batches):
        """Put batches into the log and load all that it has."""
        begin_change(&self.users, THE_COORDINATOR)
        try:
            for batch in batches:
                self.sink.append(batch[5], batch[1], batch[2], batch[3], batch[4], batch[0])
            self.load_log(-1)
        finally:
            end_use(&self.users)

    def batches(self):
        """The rows of the log's batches."""
        return list(self.sink.read())

    def take_failure(self):
        """What the caller's log raised since the last taking, or None."""
        failure, self.sink.failure = self.sink.failure, None
        return failure

    def play(self, Trace trace not None):
        """Run every event, then what is due at the last one's time."""
        begin_change(&self.users, THE_COORDINATOR)
        self.strict = True
        try:
            return self.play_all(trace)
        finally:
            self.strict = False
            end_use(&self.users)

    cdef Effects play_all(self, Trace trace):
        cdef Py_ssize_t n
        cdef Event* event
        cdef list objects = trace.objects
        cdef int64_t now_ms = self.wheel.clock_ms
        self.told = {}
        self.told_rows = self.effects.count
        for n in range(trace.count):
            event = &trace.events[n]
            try:
                if n % BEATS == 0 or event.op != HEARTBEAT:
                    PyErr_CheckSignals()
                if event.at_ms != now_ms or self.wheel.due.count:
                    self.advance_to(event.at_ms, True)
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
                self.advance_to(trace.events[trace.count - 1].at_ms, True)
            except CoterieError as error:
                raise TraceError(str(error), line=trace.lines[trace.count - 1]) from error
        return self.effects

    cdef int dispatch_sugar(self, Event* event, list objects) except -1:
        """Put the member ids that answers named in place of the sugar for them."""
        cdef Effect* row
        while self.told_rows < self.effects.count:
            row = &self.effects.rows[self.told_rows]
            self.told_rows += 1
            if row.kind == RESPONSE and row.op == JOIN_GROUP:
                payload = self.effects.payloads[row.payload]
                self.told[row.id] = payload[4] if type(payload) is tuple else payload
        return self.dispatch(
            event.op, event.id, objects[event.group], event.generation_id,
            _desugar(objects[event.member], self.told), objects[event.instance],
            _desugar(objects[event.details], self.told))

    def group(self, str group_id not None):
        return self.groups.get(group_id)

    def all_groups(self):
        return list(self.groups.values())

    def take_effects(self):
        """What was done since the last taking, as rows; the next rows go into new ones."""
        cdef Effects taken = self.effects
        self.effects = Effects()
        return taken

    def take_events(self, list events not None, fresh not None):
        """Put what was done since the last taking behind both, or, interrupted, behind neither."""
        cdef list taken = self.effects.events()
        cdef Effects empty = Effects()
        if not isinstance(fresh, MutableSequence):
            raise TypeError(f"fresh must be a deque, not {shown(fresh)}")
        fresh.extend(taken)
        events.extend(taken)
        self.effects = empty

    def take_appends(self, fresh not None):
        """Put the deferred appends that were begun since the last taking behind others."""
        if not isinstance(fresh, MutableSequence):
            raise TypeError(f"fresh must be a deque, not {shown(fresh)}")
        fresh.extend(self.appends)
        self.appends.clear()

    def timers_of(self, GroupMetadata group not None):
        """(kind, member id or None, deadline) of each armed timer of a group."""
        cdef list out = []
        cdef MemberMetadata member
        cdef PendingId pending
        for value in group.members.values():
            member = <MemberMetadata>value
            if member.timer != NO_TIMER:
                out.append(("session", member.member_id, self.wheel.deadline_of(member.timer)))
        for value in group.pending_members.values():
            pending = <PendingId>value
            out.append(("pending", pending.member_id, self.wheel.deadline_of(pending.timer)))
        if group.join_timer != NO_TIMER:
            out.append(("join", None, self.wheel.deadline_of(group.join_timer)))
        if group.sync_timer != NO_TIMER:
            out.append(("sync", None, self.wheel.deadline_of(group.sync_timer)))
        return out
