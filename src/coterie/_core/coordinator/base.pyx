"""Clock, timers, output and appends of a coordinator; no rule of a rebalance.

Both purgatories of Kafka are one wheel here: timers fire by deadline, then by arming. A timer's
key is the slot of its owner and its kind; a member that goes takes its timer along. An append
finishes inside the call, or, if deferred, when the caller says so.
Source: GroupCoordinator.scala, DelayedOperation.scala; rules: coordinator.md, sections 5, 7, 18.
"""
cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t

from coterie._core.checks cimport text_of
from coterie._core.codec.checksum cimport coterie_java_hash, coterie_partition_for
from coterie._core.coordinator.effects cimport APPEND, RESPONSE, TRANSITION, UNANSWERED, Effects
from coterie._core.coordinator.group cimport (
    DEAD, NO_JOIN, NO_TIMER, GroupMetadata, MemberMetadata, PendingId, Request)
from coterie._core.coordinator.sink cimport FAILED, LATER, MemoryLog, Sink
from coterie._core.structures.timers cimport TimerWheel

from coterie.errors import ArgumentError, CoterieError, shown


cdef int64_t LATEST_MS = <int64_t>1 << 60      # a deadline from here still fits an int64
cdef int64_t NEVER_MS = <int64_t>1 << 62       # beyond any time; from LATEST_MS it still fits


@cython.final
cdef class AppendOp:
    """An append and what waits for it."""

    @property
    def group_id(self):
        return None if self.group is None else self.group.group_id


cdef AppendOp make_append(int kind, GroupMetadata group, tuple records):
    cdef AppendOp op = AppendOp.__new__(AppendOp)
    op.kind = kind
    op.group = group
    op.records = records
    op.producer_id = -1
    op.producer_epoch = -1
    return op


cdef int group_error(int code) noexcept:
    """What a failed append of group metadata is answered as."""
    if code in (UNKNOWN_TOPIC_OR_PARTITION, NOT_ENOUGH_REPLICAS,
                NOT_ENOUGH_REPLICAS_AFTER_APPEND):
        return COORDINATOR_NOT_AVAILABLE
    if code in (NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR):
        return NOT_COORDINATOR
    if code == REQUEST_TIMED_OUT:
        return REBALANCE_IN_PROGRESS
    if code in (MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_FETCH_SIZE):
        return UNKNOWN_SERVER_ERROR
    return code


cdef int commit_error(int code) noexcept:
    """What a failed append of offsets is answered as."""
    if code in (MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_FETCH_SIZE):
        return INVALID_COMMIT_OFFSET_SIZE
    if code == NETWORK_EXCEPTION:
        return COORDINATOR_LOAD_IN_PROGRESS
    return code if code == REQUEST_TIMED_OUT else group_error(code)


cdef class Machine:
    """See ``coordinator.pyi``."""

    def __cinit__(self, settings, int64_t now_ms=0, member_ids=None, bint deferred=False,
                  Sink sink=None):
        if now_ms > LATEST_MS:
            raise ArgumentError(f"now_ms must be at most {LATEST_MS} ms, not {now_ms}")
        self.wheel = TimerWheel(now_ms)
        self.effects = Effects()
        self.groups = {}
        self.owners = []
        self.free_slots = []
        self.sink = MemoryLog() if sink is None else sink
        self.appends = []
        self.exceptions = {}
        self.partition_count = settings["offsets.topic.num.partitions"]
        self.deferred = deferred
        self.member_ids = member_ids
        self.open_groups = {}
        self.initial_delay_ms = settings["group.initial.rebalance.delay.ms"]
        self.min_session_ms = settings["group.min.session.timeout.ms"]
        self.max_session_ms = settings["group.max.session.timeout.ms"]
        self.max_size = settings["group.max.size"]
        self.max_metadata = settings["offset.metadata.max.bytes"]
        self.retention_ms = 60000 * <int64_t>settings["offsets.retention.minutes"]
        self.check_interval_ms = settings["offsets.retention.check.interval.ms"]
        self.behaviour_24 = settings["coterie.behaviour"] == "2.4"
        self.ties_as_kafka = settings["coterie.ties"] == "hash"
        self.periodic_cleanup = settings["coterie.cleanup"] == "periodic"
        self.new_slot(None)                  # slot 0: the clean-up, which is nobody's
        if self.periodic_cleanup:
            self.arm(NO_TIMER, CLEANUP_TIMER, 0, self.check_interval_ms)

    @property
    def now_ms(self):
        return self.wheel.clock_ms

    @property
    def open_transactions(self):
        return {producer: list(groups) for producer, groups in self.open_groups.items()}

    cdef Py_ssize_t new_slot(self, owner) except -1:
        cdef Py_ssize_t slot
        if self.free_slots:
            slot = self.free_slots.pop()
            self.owners[slot] = owner
        else:
            slot = len(self.owners)
            self.owners.append(owner)
        return slot

    cdef int free_slot(self, Py_ssize_t slot) except -1:
        self.owners[slot] = None
        self.free_slots.append(slot)
        return 0

    cdef int64_t arm(self, int64_t handle, int kind, Py_ssize_t slot, int64_t delay_ms) except -1:
        """Arm or re-arm; the handle. A delay below 0 is none: the clock never goes back."""
        cdef int64_t deadline_ms = self.wheel.clock_ms + min(max(delay_ms, 0), NEVER_MS)
        if handle != NO_TIMER and self.wheel.move(handle, deadline_ms):
            return handle
        return self.wheel.arm(deadline_ms, <int64_t>slot << 3 | kind)

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
        if now_ms < self.wheel.clock_ms:
            raise ArgumentError(f"time runs forward only: {now_ms} < {self.wheel.clock_ms}")
        if now_ms > LATEST_MS:
            raise ArgumentError(f"time must be at most {LATEST_MS} ms, not {now_ms}")
        while self.wheel.pop(now_ms, &key, &deadline_ms):
            self.fired(<int>(key & 7), self.owners[key >> 3])
            if heeds_signals:
                PyErr_CheckSignals()
        return 0

    cdef int fired(self, int kind, object owner) except -1:
        raise NotImplementedError

    cdef int respond(self, int64_t id, int op, int code, payload) except -1:
        return self.effects.push(RESPONSE, self.wheel.clock_ms, id, op, code, payload)

    cdef int answer(self, Request request, int code, payload) except -1:
        """A request is answered once; a second answer has nobody to go to."""
        if request.answered:
            return 0
        request.answered = True
        return self.effects.push(RESPONSE, self.wheel.clock_ms, request.id, request.op, code,
                                 payload)

    cdef int abandon(self, Request request, int why) except -1:
        if request is None or request.answered:
            return 0
        request.answered = True
        return self.effects.push(UNANSWERED, self.wheel.clock_ms, request.id, request.op, why,
                                 None)

    cdef int transition(self, GroupMetadata group, int state, int cause, str member_id) except -1:
        cdef int before = group.state
        group.enter(state, self.wheel.clock_ms)
        return self.entered(group, before, cause, member_id)

    cdef int entered(self, GroupMetadata group, int before, int cause, str member_id) except -1:
        return self.effects.push(TRANSITION, self.wheel.clock_ms, group.generation_id,
                                 before << 8 | group.state, cause, (group.group_id, member_id))

    cdef int status(self, str group_id, bint empty_is_valid) except -2:
        if group_id is None or (not empty_is_valid and not group_id):
            return INVALID_GROUP_ID
        cdef int state = self.availability
        if self.exceptions:
            state = self.state_of(partition_of(group_id, self.partition_count))
        if state == OWNED:
            return NONE
        return COORDINATOR_LOAD_IN_PROGRESS if state == LOADING else NOT_COORDINATOR

    cdef int state_of(self, partition) except -1:
        return self.exceptions.get(partition, self.availability)

    cdef bint is_loading(self) except -1:
        """Whether any partition is."""
        return self.availability == LOADING or LOADING in self.exceptions.values()

    cdef GroupMetadata create_group(self, str group_id):
        cdef GroupMetadata group = GroupMetadata(group_id, self.wheel.clock_ms)
        group.slot = self.new_slot(group)
        group.ties_as_kafka = self.ties_as_kafka
        self.groups[group_id] = group
        return group

    cdef int drop_group(self, GroupMetadata group) except -1:
        """Out of the cache, with all its timers: found Dead they would do nothing."""
        cdef MemberMetadata member
        cdef PendingId pending
        for value in group.members.values():
            member = <MemberMetadata>value
            self.disarm(&member.timer)
            self.free_slot(member.slot)
        for value in group.pending_members.values():
            pending = <PendingId>value
            self.disarm(&pending.timer)
            self.free_slot(pending.slot)
        group.pending_members.clear()
        self.disarm(&group.join_timer)
        self.disarm(&group.sync_timer)
        group.join_kind = NO_JOIN
        self.free_slot(group.slot)
        if self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]
        return 0

    cdef str new_member_id(self, GroupMetadata group, str prefix):
        """An id that the group does not know. What cannot be one is refused before any change."""
        cdef str made
        if self.member_ids is None:
            if utf8_length(prefix) > LONGEST - UUID_TAIL:
                raise ArgumentError(
                    f"a member id made of {prefix[:40]!r}... is longer than the {LONGEST} bytes of "
                    f"a record: give {LONGEST - UUID_TAIL} at most")
            made = f"{prefix}-{self.ids_given + 1:08d}"
        else:
            made = self.asked_id(group, prefix)
        self.ids_given += 1
        return made

    cdef str asked_id(self, GroupMetadata group, str prefix):
        """What `member_ids` makes of a prefix."""
        try:
            given = self.member_ids(prefix)
        except Exception as error:
            raise CoterieError(f"member_ids({prefix!r:.60}) raised {error!r:.120}") from error
        if not isinstance(given, str) or not given:
            raise CoterieError(f"member_ids({prefix!r:.60}) must return a member id, not "
                               f"{shown(given)}")
        given = text_of(given, "a member id")      # of no subclass, which compares as it likes
        if not 0 < utf8_length(given) <= LONGEST:
            raise CoterieError(f"member_ids({prefix!r:.60}) must return at most {LONGEST} bytes "
                               f"of UTF-8, not {given!r:.60}")
        if (given in group.members or given in group.pending_members
                or given in group.pending_sync):
            raise CoterieError(f"member_ids({prefix!r:.60}) returned {given!r:.60}, which group "
                               f"{group.group_id!r:.60} has already")
        return given

    cdef int touch(self, GroupMetadata group, MemberMetadata member, int64_t delay_ms) except -1:
        """Start the session anew. Where the try-test holds at once no timer is left armed."""
        if group.state == DEAD or (not member.is_new and (
                member.awaiting_join is not None or member.awaiting_sync is not None)):
            return self.disarm(&member.timer)
        member.timer = self.arm(member.timer, SESSION_TIMER, member.slot, delay_ms)
        return 0

    cdef int append(self, AppendOp op) except -1:
        """Hand out an append. It comes back within this call, or when the caller says so."""
        op.machine = self
        if self.deferred:
            self.appends.append(op)
            return 0
        return self.settle(op, NONE, -1)

    cdef int settle(self, AppendOp op, int error, int64_t base_offset) except -1:
        """The append came back; where the sink writes now, it is written. Offset -1: the end."""
        cdef int64_t position = base_offset
        if op.done:
            raise CoterieError("this append has been completed already")
        if op.written and error == NONE and base_offset < 0:
            raise ArgumentError("base_offset: give the offset at which log_sink has the batch")
        self.sink.check(len(op.records), base_offset)  # refused while nothing has changed
        if error == NONE and not op.written and self.fail_count > 0:
            self.fail_count -= 1
            error = self.fail_error
        if error == NONE and not op.written:
            position = self.sink.append(op.records, op.producer_id, op.producer_epoch,
                                        op.transactional, False, base_offset)
            if position == LATER:
                op.written = True
                self.appends.append(op)
                return 0
            if position == FAILED:
                error = KAFKA_STORAGE_ERROR
        op.done = True
        if error == NONE:
            for key, value in op.records:
                self.effects.push(APPEND, self.wheel.clock_ms, 0, 0, 0,
                                  (op.group.group_id, key, value, position))
        return self.finished(op, error, position)

    cdef int finished(self, AppendOp op, int error, int64_t position) except -1:
        raise NotImplementedError


cdef int32_t partition_of(str group_id, int32_t count) except -1:
    """The partition of the offsets topic that has a group's records."""
    cdef bytes raw = group_id.encode("utf-8", "surrogatepass")
    return coterie_partition_for(coterie_java_hash(raw, len(raw)), count)


cdef Py_ssize_t utf8_length(str text) except -2:
    """How many bytes it takes; -1: it has none, for a surrogate stands alone in it."""
    if text.isascii():
        return len(text)
    try:
        return len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return -1
