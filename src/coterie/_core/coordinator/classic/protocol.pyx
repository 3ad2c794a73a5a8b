"""The classic protocol: joins, syncs, heartbeats, leaves, rebalances; the load of its groups.

Source: GroupCoordinator.scala.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t

from coterie._core.checks cimport text_of
from coterie._core.codec.layout import decode_utf8
from coterie._core.codec.schema import read_group_value
from coterie._core.coordinator.classic.group cimport (
    INITIAL_JOIN, NO_JOIN, PLAIN_JOIN, GroupMetadata, MemberMetadata, PendingId, assignment_of,
    check_member, empty_group_batch, group_batch, group_key, has_member, knows_id, new_group,
    new_member, next_member, numbered_id, static_member)
from coterie._core.coordinator.codes cimport (
    COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, FENCED_INSTANCE_ID, GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED, GROUP_SUBSCRIBED_TO_TOPIC, ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL, INVALID_SESSION_TIMEOUT, MEMBER_ID_REQUIRED, NONE, NON_EMPTY_GROUP,
    NOT_COORDINATOR, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID, UNKNOWN_SERVER_ERROR, group_error,
    replayed_error, write_error)
from coterie._core.coordinator.runtime cimport (
    BY_APPEND_FAILED, BY_CLEANUP, BY_COMPLETED, BY_FAILOVER, BY_JOIN, BY_LEADER_REJOIN, BY_LEAVE,
    BY_METADATA_CHANGED, BY_REBALANCE_TIMEOUT, BY_SESSION_TIMEOUT, BY_SIZE, BY_STATIC_RETURN,
    BY_SYNC_TIMEOUT, CLASSIC, COMPLETING_REBALANCE, DEAD, DROPPED, EMPTY, FINISHED, LONGEST,
    NO_GROUP, NO_OWNER, NO_TIMER, PREPARING_REBALANCE, REPLACED, STABLE, STATE_NAMES, TRANSITION,
    AppendOp, AppendStatus, Batch, Component, Group, GroupProtocol, Request, Runtime, describe,
    new_request, partition_of, utf8_length, Operation)
from coterie._core.coordinator.runtime import KafkaThrows
from coterie._core.fold.fold import PartitionFold
from coterie._core.structures.expiry cimport expiry_rule
from coterie._core.structures.offsets cimport OffsetMap
from coterie._core.structures.timers cimport TimerWheel
from coterie._core.structures.votes cimport FIRST_VOTED, JAVA_MAP, SCALA_MAP

from coterie.errors import ArgumentError, CorruptData, CoterieError, shown
from coterie.base.operations import NUMBER
from coterie.values import GroupSummary, MemberSummary


# ---- rebalance -----------------------------------------------------------------------------------
# Rebalances of classic groups: preparing, completing, delayed operations, sessions, unloading. A
# group has at most one unfinished delayed join and one delayed sync. Their keys in Kafka's
# purgatory are fields of the group here. Every timer of a group is armed here. It knows no request,
# only which members have parked one. Cost: O(members) a rebalance, O(1) a session timer.
# Source: GroupCoordinator.scala, DelayedJoin.scala, DelayedSync.scala, DelayedHeartbeat.scala.
# Rules: docs/rules/coordinator.md#rebalance, #sessions and #election.

cdef enum Timer:
    SESSION_TIMER                  # of a MemberMetadata
    PENDING_TIMER                  # of a PendingId
    JOIN_TIMER                     # of a GroupMetadata, as the next
    SYNC_TIMER
    TIMERS


cdef bint awaits_rebalance(MemberMetadata member) noexcept:
    """Whether a parked request stands for the member's heartbeats; not that of a new member."""
    return not member.is_new and (
        member.awaiting_join is not None or member.awaiting_sync is not None)


cdef tuple join_result(GroupMetadata group, str member_id, str leader, bint skip, tuple members):
    return (group.generation_id, group.protocol_type, group.protocol_name, leader or "",
            member_id, skip, members)


@cython.final
cdef class Rebalances(Component):
    """The rebalances of classic groups, and their timers."""

    def __cinit__(self, Runtime runtime not None, settings):
        self.join_runtime(runtime, TIMERS)
        self.initial_delay_ms = settings["group.initial.rebalance.delay.ms"]
        self.behaviour_24 = settings["coterie.behaviour"] == "2.4"
        self.ties = FIRST_VOTED if settings["coterie.ties"] == "first" else (
            JAVA_MAP if runtime.replaying else SCALA_MAP)

    cdef int fired(self, int kind, object owner) except -1:
        if kind == SESSION_TIMER:
            return self.session_due(<MemberMetadata?>owner)
        if kind == PENDING_TIMER:
            return self.pending_due(<PendingId?>owner)
        if self.find((<GroupMetadata?>owner).group_id) is not owner:
            return 0                   # its append failed
        if kind == JOIN_TIMER:
            return self.join_due(<GroupMetadata>owner)
        return self.sync_due(<GroupMetadata>owner)

    cdef GroupMetadata find(self, str group_id):
        """Return the classic group with this id, or None."""
        cdef Group group = self.runtime.find(group_id)
        return <GroupMetadata>group if isinstance(group, GroupMetadata) else None

    cdef GroupMetadata create_group(self, str group_id):
        cdef GroupMetadata group = new_group(group_id, self.runtime.wheel.clock_ms)
        self.take_over(group)
        return group

    cdef int take_over(self, GroupMetadata group) except -1:
        """Add a group, with its members."""
        cdef MemberMetadata member
        cdef Py_ssize_t place = 0
        self.runtime.add_group(group)
        group.slot = self.runtime.new_slot(group)
        group.ties = self.ties
        while (member := next_member(&group.members, &place)) is not None:
            member.slot = self.runtime.new_slot(member)

    cdef int show(self, Group group) except -1:
        """Show a group from now on that a load made of offsets alone."""
        if isinstance(group, GroupMetadata) and (<GroupMetadata>group).previous_state < 0:
            (<GroupMetadata>group).previous_state = DEAD

    cdef int drop_group(self, GroupMetadata group) except -1:
        """Remove a group with its timers, which would do nothing for a Dead group."""
        cdef MemberMetadata member
        cdef Py_ssize_t place = 0
        cdef PendingId pending
        while (member := next_member(&group.members, &place)) is not None:
            self.runtime.disarm(&member.timer)
            self.runtime.free_slot(member.slot)
        for value in group.pending_members.values():
            pending = <PendingId>value
            self.runtime.disarm(&pending.timer)
            self.runtime.free_slot(pending.slot)
        group.pending_members.clear()
        self.runtime.disarm(&group.join_timer)
        self.runtime.disarm(&group.sync_timer)
        group.join_kind = NO_JOIN
        self.runtime.free_slot(group.slot)
        return self.runtime.drop_group(group)

    cdef int transition(self, GroupMetadata group, int state, int cause, str member_id) except -1:
        cdef int before = group.state
        group.enter(state, self.runtime.wheel.clock_ms)
        return self.entered(group, before, cause, member_id)

    cdef int entered(self, GroupMetadata group, int before, int cause, str member_id) except -1:
        return self.runtime.outputs.push(
            TRANSITION, self.runtime.wheel.clock_ms, group.generation_id,
            before << 8 | group.state, cause,
            group.group_id if member_id is None else (group.group_id, member_id))

    cdef int touch(self, GroupMetadata group, MemberMetadata member, int64_t delay_ms) except -1:
        """Restart a session; before Kafka 4 not while the member has a parked request."""
        if not self.runtime.replaying and (group.state == DEAD or awaits_rebalance(member)):
            return self.runtime.disarm(&member.timer)
        member.timer = self.runtime.arm(member.timer, self.first_kind + SESSION_TIMER, member.slot,
                                        delay_ms)

    cdef int arm_pending(self, PendingId pending, int64_t delay_ms) except -1:
        """Arm the timer of an id that was handed out."""
        pending.slot = self.runtime.new_slot(pending)
        pending.timer = self.runtime.arm(NO_TIMER, self.first_kind + PENDING_TIMER, pending.slot,
                                         delay_ms)

    cdef int prepare_rebalance(self, GroupMetadata group, int cause, str member_id) except -1:
        cdef bint initial = group.state == EMPTY
        cdef int64_t longest_ms
        if group.state == COMPLETING_REBALANCE:
            self.forget_assignments(group, REBALANCE_IN_PROGRESS)
        group.forget_syncs()
        self.finish_sync(group)
        longest_ms = group.rebalance_timeout()
        self.transition(group, PREPARING_REBALANCE, cause, member_id)
        if initial:
            return self.arm_join(group, INITIAL_JOIN, self.initial_delay_ms,
                                 max(longest_ms - self.initial_delay_ms, 0))
        group.join_kind = PLAIN_JOIN
        self.try_join(group, True)
        if group.join_kind == PLAIN_JOIN and group.join_timer == NO_TIMER:
            self.arm_join(group, PLAIN_JOIN, longest_ms, 0)

    cdef int arm_join(self, GroupMetadata group, int kind, int64_t delay_ms,
                      int64_t remaining_ms) except -1:
        group.join_kind = kind
        group.join_delay_ms = delay_ms
        group.join_remaining_ms = remaining_ms
        group.join_timer = self.runtime.arm(group.join_timer, self.first_kind + JOIN_TIMER,
                                            group.slot, delay_ms)
        return 0

    cdef int try_join(self, GroupMetadata group, bint initial_too) except -1:
        """Complete the join phase if all have joined.

        The initial delay ends only in time; since Kafka 4 also if a member or a pending id expires
        (``initial_too``). There what counts is the state before the rebalance: the group of a first
        rebalance waits for a timer again if nobody was there when the first one fired.
        """
        if (group.pending_members or group.members.count != group.num_members_awaiting_join
                or not (group.state == PREPARING_REBALANCE and (
                    initial_too or group.previous_state != EMPTY)
                    if self.runtime.replaying else group.join_kind == PLAIN_JOIN)):
            return 0
        return self.complete_join(group, BY_COMPLETED)

    cdef int join_due(self, GroupMetadata group) except -1:
        cdef int kind = group.join_kind
        cdef int64_t delay_ms = group.join_delay_ms, remaining_ms = group.join_remaining_ms
        group.join_timer = NO_TIMER
        if kind == PLAIN_JOIN:
            return self.complete_join(group, BY_REBALANCE_TIMEOUT)
        if group.new_member_added and remaining_ms != 0:
            group.new_member_added = False
            return self.arm_join(group, INITIAL_JOIN, min(self.initial_delay_ms, remaining_ms),
                                 max(remaining_ms - delay_ms, 0))
        return self.complete_join(group, BY_COMPLETED)

    cdef int complete_join(self, GroupMetadata group, int cause) except -1:
        cdef MemberMetadata member
        cdef Py_ssize_t place = 0
        cdef list absent = None
        group.join_kind = NO_JOIN
        self.runtime.disarm(&group.join_timer)
        if group.num_members_awaiting_join != group.members.count:
            absent = []
            while (member := next_member(&group.members, &place)) is not None:
                if member.group_instance_id is None and member.awaiting_join is None:
                    absent.append(member.member_id)
            self.rebalance_evictions += len(absent)
            for member_id in absent:
                self.take_out(group, member_id)
        if group.state == DEAD:
            return 0
        if not group.elect() and group.members.count:
            return self.await_again(group)
        return self.start_generation(group, cause)

    cdef int await_again(self, GroupMetadata group) except -1:
        """Wait again: only static members are left, and none of them has joined.

        With a timeout of 0 Kafka would repeat this for ever within a millisecond; here the next
        attempt is one millisecond later.
        """
        return self.arm_join(group, PLAIN_JOIN, max(group.rebalance_timeout(), 1), 0)

    cdef int start_generation(self, GroupMetadata group, int cause) except -1:
        cdef int before = group.state
        cdef MemberMetadata member
        cdef Py_ssize_t place = 0
        cdef Request join
        cdef tuple everyone
        cdef Batch batch
        cdef AppendStatus written
        cdef int error
        cdef int64_t position
        group.next_generation(self.runtime.wheel.clock_ms)
        self.entered(group, before, cause, None)
        if group.state == EMPTY:
            batch = group_batch(group, None)
            written = self.runtime.write(batch, &error, &position)
            self.error = error
            return 0 if written == FINISHED else self.runtime.defer(
                describe(AppendOp.__new__(AppendOp), "empty_generation", batch), written)
        while (member := next_member(&group.members, &place)) is not None:
            everyone = group.member_list() if group.is_led_by(member.member_id) else ()
            if member.awaiting_join is not None:
                join = member.awaiting_join
                member.awaiting_join = None
                group.num_members_awaiting_join -= 1
                self.runtime.answer(join, NONE, join_result(
                    group, member.member_id, group.leader_id, False, everyone))
            self.touch(group, member, member.session_timeout_ms)
            member.is_new = False
            group.await_sync(member)
        if not self.behaviour_24:
            group.sync_generation = group.generation_id
            group.sync_timer = self.runtime.arm(
                group.sync_timer, self.first_kind + SYNC_TIMER, group.slot,
                group.rebalance_timeout())

    cdef int finish_sync(self, GroupMetadata group) except -1:
        """Complete the delayed sync if all members have synced."""
        if not group.awaits_sync():
            self.runtime.disarm(&group.sync_timer)

    cdef int synced(self, GroupMetadata group, MemberMetadata member) except -1:
        group.forget_sync(member)
        return self.finish_sync(group)

    cdef int sync_due(self, GroupMetadata group) except -1:
        cdef str first = None
        group.sync_timer = NO_TIMER
        if (group.sync_generation != group.generation_id or not group.awaits_sync()
                or group.state not in (COMPLETING_REBALANCE, STABLE)):
            return 0
        for member_id in group.pending_sync():
            first = first or member_id
            self.sync_evictions += has_member(&group.members, member_id)
            self.take_out(group, member_id)
        return self.prepare_rebalance(group, BY_SYNC_TIMEOUT, first)

    cdef int session_due(self, MemberMetadata member) except -1:
        cdef GroupMetadata group = self.find(member.group_id)
        member.timer = NO_TIMER
        if group is None or group.state == DEAD or group.get(member.member_id) is not member:
            return 0
        if awaits_rebalance(member):
            return 0               # its answer arms the next timer
        self.session_evictions += 1
        self.remove_member(group, member)
        return self.member_removed(group, BY_SESSION_TIMEOUT, member.member_id, True)

    cdef int pending_due(self, PendingId pending) except -1:
        cdef GroupMetadata group = self.find(pending.group_id)
        pending.timer = NO_TIMER
        self.runtime.free_slot(pending.slot)
        pending.slot = NO_OWNER            # its group may be gone for now, and come back with it
        if group is None or group.state == DEAD:
            return 0
        if group.pending_members.get(pending.member_id) is pending:
            del group.pending_members[pending.member_id]
        elif self.runtime.replaying:
            return 0                       # it was refused
        return self.try_join(group, True)

    cdef int forget_pending(self, GroupMetadata group, str member_id) except -1:
        """Drop an id that was handed out, with its timer."""
        cdef PendingId pending = <PendingId>group.pending_members.pop(member_id, None)
        if pending is not None:
            self.runtime.disarm(&pending.timer)
            self.runtime.free_slot(pending.slot)

    cdef int forget_expired_ids(self, GroupMetadata group) except -1:
        """Forget the pending ids whose timers fired while the group was gone."""
        for pending in list(group.pending_members.values()):
            if (<PendingId>pending).slot == NO_OWNER:
                del group.pending_members[(<PendingId>pending).member_id]

    cdef int answer_syncs(self, GroupMetadata group, int code) except -1:
        """Answer every parked sync, and start the sessions of those members."""
        cdef MemberMetadata member
        cdef Py_ssize_t place = 0
        cdef Request sync
        while (member := next_member(&group.members, &place)) is not None:
            if member.awaiting_sync is None:
                continue
            sync = member.awaiting_sync
            member.awaiting_sync = None
            self.runtime.answer(sync, code, None if code != NONE else (
                group.protocol_type, group.protocol_name, member.assignment))
            self.touch(group, member, member.session_timeout_ms)

    cdef int forget_assignments(self, GroupMetadata group, int code) except -1:
        cdef MemberMetadata member
        cdef Py_ssize_t place = 0
        while (member := next_member(&group.members, &place)) is not None:
            member.assignment = b""
        return self.answer_syncs(group, code)

    cdef int take_out(self, GroupMetadata group, str member_id) except -1:
        """Remove an id and its session timer; its parked requests are not answered."""
        cdef MemberMetadata member = group.remove_member(member_id)
        if member is None:
            return 0
        self.runtime.disarm(&member.timer)
        self.runtime.free_slot(member.slot)
        self.runtime.abandon(member.awaiting_join, DROPPED)
        self.runtime.abandon(member.awaiting_sync, DROPPED)

    cdef int remove_member(self, GroupMetadata group, MemberMetadata member) except -1:
        """Remove a member that leaves or expires; `member_removed` has to follow."""
        cdef Request join = member.awaiting_join
        if join is not None:
            member.awaiting_join = None
            group.num_members_awaiting_join -= 1
            self.runtime.answer(join, UNKNOWN_MEMBER_ID, "")
        return self.take_out(group, member.member_id)

    cdef int member_removed(self, GroupMetadata group, int cause, str member_id,
                            bint initial_too) except -1:
        """Rebalance, or complete the join phase that waited for nobody else."""
        if group.state == STABLE or group.state == COMPLETING_REBALANCE:
            return self.prepare_rebalance(group, cause, member_id)
        return self.try_join(group, initial_too)

    cdef int unload(self, GroupMetadata group) except -1:
        """Drop a group whose partition was given up: answer parked requests, write nothing."""
        cdef int before = group.state
        cdef MemberMetadata member
        cdef Py_ssize_t place = 0
        if group.previous_state < 0:           # see `show`
            group.enter(DEAD, self.runtime.wheel.clock_ms)
        else:
            self.transition(group, DEAD, BY_FAILOVER, None)
        while (member := next_member(&group.members, &place)) is not None:
            if before == PREPARING_REBALANCE and member.awaiting_join is not None:
                self.runtime.answer(member.awaiting_join, NOT_COORDINATOR, member.member_id)
            elif member.awaiting_sync is not None:
                self.runtime.answer(member.awaiting_sync, NOT_COORDINATOR, None)
        return self.drop_group(group)

    cdef list timers_of(self, GroupMetadata group):
        """Return (kind, member id or None, deadline) of each armed timer of a group."""
        cdef TimerWheel wheel = self.runtime.wheel
        cdef list timers = []
        cdef MemberMetadata member
        cdef Py_ssize_t place = 0
        cdef PendingId pending
        while (member := next_member(&group.members, &place)) is not None:
            if member.timer != NO_TIMER:
                timers.append(("session", member.member_id, wheel.deadline_of(member.timer)))
        for value in group.pending_members.values():
            pending = <PendingId>value
            timers.append(("pending", pending.member_id, wheel.deadline_of(pending.timer)))
        if group.join_timer != NO_TIMER:
            timers.append(("join", None, wheel.deadline_of(group.join_timer)))
        if group.sync_timer != NO_TIMER:
            timers.append(("sync", None, wheel.deadline_of(group.sync_timer)))
        return timers


# ---- syncGroup, Heartbeat, LeaveGroup of classic groups ------------------------------------------
# It knows no joins: how an id becomes a member is in joins.pyx. O(1), apart from a leader's sync,
# which answers every parked sync, and the start of a rebalance.
# Source: GroupCoordinator.scala. Rules: docs/rules/coordinator.md#syncgroup to #leavegroup.

cdef int HEARTBEAT = NUMBER["heartbeat"], LEAVE_GROUP = NUMBER["leave_group"]


@cython.final
cdef class AssignmentAppend(AppendOp):
    """A leader's assignments; every parked sync is answered when the append finishes."""

    cdef int on_finished(self, int error, int64_t position) except -1:
        return self.members.assigned(self.group, self.generation_id, self.leader, self.assignments,
                                     error)


cdef int decide_sync_group(component, Operation op) except -1:
    cdef Request request = new_request(op.id, op.number)
    try:
        return (<Members>component).sync(
            request, <GroupMetadata>op.group, op.group_id, op.generation_id, op.member_id,
            op.instance, op.details[0], op.details[1], op.details[2])
    except KafkaThrows as error:
        return (<Members>component).runtime.answer_thrown(error, request, None)


cdef int decide_heartbeat(component, Operation op) except -1:
    return (<Members>component).heartbeat(op.id, <GroupMetadata>op.group, op.group_id,
                                          op.generation_id, op.member_id, op.instance)


cdef int decide_leave_group(component, Operation op) except -1:
    try:
        return (<Members>component).leave(op.id, <GroupMetadata>op.group, op.group_id, op.details)
    except KafkaThrows as error:
        return (<Members>component).runtime.answer_thrown(
            error, new_request(op.id, op.number), None)


@cython.final
cdef class Members:
    """The requests of members of classic groups after they have joined."""

    def __cinit__(self, Runtime runtime not None, Rebalances rebalances not None):
        self.runtime = runtime
        self.rebalances = rebalances
        for group_type in (NO_GROUP, CLASSIC):
            runtime.register("sync_group", self, decide_sync_group, group_type)
            runtime.register("heartbeat", self, decide_heartbeat, group_type)
            runtime.register("leave_group", self, decide_leave_group, group_type)

    cdef int sync(self, Request request, GroupMetadata group, str group_id,
                  int32_t generation_id, str member_id, str instance, str protocol_type,
                  str protocol_name, dict assignments) except -1:
        cdef int error = self.runtime.partitions.refusal(group_id, False)
        cdef MemberMetadata member
        if error != NONE:
            if error == COORDINATOR_LOAD_IN_PROGRESS:
                error = REBALANCE_IN_PROGRESS
            return self.runtime.answer(request, error, None)
        if group is None:
            return self.runtime.answer(request, UNKNOWN_MEMBER_ID, None)
        if group.state == DEAD:
            return self.runtime.answer(request, COORDINATOR_NOT_AVAILABLE, None)
        member = group.get(member_id)
        if member is None or instance is not None:
            error = check_member(group, member_id, instance)
        if error == NONE and generation_id != group.generation_id:
            error = ILLEGAL_GENERATION
        if error == NONE and ((protocol_type is not None and protocol_type != group.protocol_type)
                              or (protocol_name is not None
                                  and protocol_name != group.protocol_name)):
            error = INCONSISTENT_GROUP_PROTOCOL
        if error == NONE and group.state == EMPTY:
            error = UNKNOWN_MEMBER_ID
        if error == NONE and group.state == PREPARING_REBALANCE:
            error = REBALANCE_IN_PROGRESS
        if error != NONE:
            return self.runtime.answer(request, error, None)
        if group.state == COMPLETING_REBALANCE:
            return self.park_sync(request, group, member, assignments)
        self.rebalances.synced(group, member)
        self.runtime.answer(request, NONE, (group.protocol_type, group.protocol_name,
                                            member.assignment))
        if self.runtime.replaying:         # Kafka 4 does not renew the session here
            return 0
        return self.rebalances.touch(group, member, member.session_timeout_ms)

    cdef int park_sync(self, Request request, GroupMetadata group, MemberMetadata member,
                       dict assignments) except -1:
        cdef AssignmentAppend op
        cdef Batch batch
        cdef AppendStatus written
        cdef int error
        cdef int64_t position
        self.runtime.abandon(member.awaiting_sync, REPLACED)
        member.awaiting_sync = request
        self.rebalances.synced(group, member)
        if not group.is_led_by(member.member_id):
            return 0
        batch = group_batch(group, assignments)
        written = self.runtime.write(batch, &error, &position)
        if written == FINISHED:
            return self.assigned(group, group.generation_id, member, assignments, error)
        op = AssignmentAppend.__new__(AssignmentAppend)
        describe(op, "assignment", batch)
        op.members = self
        op.group = group
        op.generation_id = group.generation_id
        op.leader = member
        op.assignments = assignments
        return self.runtime.defer(op, written)

    cdef int assigned(self, GroupMetadata group, int32_t generation_id, MemberMetadata leader,
                      dict assignments, int error) except -1:
        """Continue after the append of a leader's assignments."""
        cdef MemberMetadata member
        cdef Py_ssize_t place = 0, at_assignment = 0
        if group.state != COMPLETING_REBALANCE or group.generation_id != generation_id:
            return 0                   # what changed the state has answered the parked syncs
        if error != NONE:
            self.rebalances.forget_assignments(
                group, replayed_error(error) if self.runtime.replaying else group_error(error))
            if group.can_go_to(PREPARING_REBALANCE):
                self.rebalances.prepare_rebalance(group, BY_APPEND_FAILED, leader.member_id)
            return 0
        while (member := next_member(&group.members, &place)) is not None:
            member.assignment = assignment_of(assignments, member.member_id, &at_assignment)
        self.rebalances.answer_syncs(group, NONE)
        return self.rebalances.transition(group, STABLE, BY_COMPLETED, None)

    cdef int heartbeat(self, int64_t id, GroupMetadata group, str group_id,
                       int32_t generation_id, str member_id, str instance) except -1:
        cdef int error = self.runtime.partitions.refusal(group_id, False)
        cdef MemberMetadata member
        if error != NONE:
            if error == COORDINATOR_LOAD_IN_PROGRESS:
                error = NONE
            return self.runtime.respond(id, HEARTBEAT, error, None)
        if group is None:
            return self.runtime.respond(id, HEARTBEAT, UNKNOWN_MEMBER_ID, None)
        if group.state == DEAD:
            return self.runtime.respond(id, HEARTBEAT, COORDINATOR_NOT_AVAILABLE, None)
        member = group.get(member_id)
        if member is None or instance is not None:
            error = check_member(group, member_id, instance)
        if error == NONE and generation_id != group.generation_id:
            error = ILLEGAL_GENERATION
        if error == NONE:
            self.rebalances.touch(group, member, member.session_timeout_ms)
            return self.runtime.respond_committed(
                group_id, id, HEARTBEAT,
                REBALANCE_IN_PROGRESS if group.state == PREPARING_REBALANCE else NONE, None)
        return self.runtime.respond(id, HEARTBEAT, error, None)

    cdef int leave(self, int64_t id, GroupMetadata group, str group_id,
                   tuple leaving) except -1:
        cdef int error = self.runtime.partitions.refusal(group_id, False)
        cdef list codes = None             # None: no error so far
        cdef Py_ssize_t n
        cdef int code
        cdef str first = None
        if error != NONE:
            return self.runtime.respond(id, LEAVE_GROUP, error, None)
        if group is not None and group.state == DEAD:
            return self.runtime.respond(id, LEAVE_GROUP, COORDINATOR_NOT_AVAILABLE, None)
        for n in range(len(leaving)):
            member_id, instance = <tuple?>leaving[n]
            code = UNKNOWN_MEMBER_ID
            if group is not None:
                gone = member_id or group.static_members.get(instance)
                code = self.leave_one(group, member_id, instance)
                if code == NONE:
                    first = first or gone
            if code != NONE and codes is None:
                codes = [NONE] * n
            if codes is not None:
                codes.append(code)
        self.rebalances.error = NONE
        if first is not None and self.runtime.replaying:
            self.rebalances.member_removed(group, BY_LEAVE, first, False)
        if self.rebalances.error != NONE:
            return self.runtime.respond(id, LEAVE_GROUP, write_error(self.rebalances.error), None)
        return self.runtime.respond_committed(
            group_id, id, LEAVE_GROUP, NONE, leaving if codes is None else tuple([
                (member_id, instance, code)
                for (member_id, instance), code in zip(leaving, codes)]))

    cdef int leave_one(self, GroupMetadata group, str member_id, str instance) except? -7:
        cdef int error = NONE
        cdef MemberMetadata member = None
        if not member_id:
            if instance is None or instance not in group.static_members:
                return UNKNOWN_MEMBER_ID
            member = static_member(group, instance)
        elif group.pending_members and member_id in group.pending_members:
            if self.runtime.replaying:
                self.rebalances.forget_pending(group, member_id)
            else:                      # its timer stays; when it fires, it only retries the join
                del group.pending_members[member_id]
                self.rebalances.try_join(group, False)
            return NONE
        else:
            member = group.get(member_id)
            if member is None or instance is not None:
                error = check_member(group, member_id, instance)
            if error != NONE:
                return error
        self.rebalances.remove_member(group, member)
        if not self.runtime.replaying:     # since Kafka 4 once all have left
            self.rebalances.member_removed(group, BY_LEAVE, member.member_id, False)
        return NONE


# ---- joinGroup: new, known and static members, and the ids that are handed out -------------------
# A join's details are (protocol type, protocols, session timeout, rebalance timeout, client id,
# client host, needs a known id, can skip the assignment). It knows neither syncs nor offsets. O(1),
# apart from responses that name all members and the start of a rebalance.
# Source: GroupCoordinator.scala. Rules: docs/rules/coordinator.md#joingroup.

cdef enum:
    NEW_MEMBER_JOIN_TIMEOUT_MS = 300000
    UUID_TAIL = 37                 # what Kafka adds to the prefix of a member id


@cython.final
cdef class StaticReturn(AppendOp):
    """A static member's new id; its join is answered when the append finishes."""

    cdef int on_finished(self, int error, int64_t position) except -1:
        return self.joins.static_returned(self, error)


@cython.final
cdef class NewGroup(AppendOp):
    """The first record of a group, which is there already; it goes if the append fails."""

    cdef int on_finished(self, int error, int64_t position) except -1:
        if error == NONE:
            return 0
        if self.write is None:         # else what is to finish later may still use its timers
            self.joins.rebalances.drop_group(self.group)
        return self.runtime.answer(self.request, replayed_error(error), "")


cdef int decide_join_group(component, Operation op) except -1:
    cdef Request request = new_request(op.id, op.number)
    try:
        return (<Joins>component).join(request, <GroupMetadata>op.group, op.group_id, op.member_id,
                                       op.instance, op.details)
    except KafkaThrows as error:
        return (<Joins>component).runtime.answer_thrown(error, request, "")


@cython.final
cdef class Joins:
    """JoinGroup for classic groups and for ids that no group has."""

    def __cinit__(self, Runtime runtime not None, Rebalances rebalances not None, settings,
                  member_ids):
        self.runtime = runtime
        self.rebalances = rebalances
        self.min_session_ms = settings["group.min.session.timeout.ms"]
        self.max_session_ms = settings["group.max.session.timeout.ms"]
        self.max_size = settings["group.max.size"]
        self.member_ids = member_ids
        self.replaying = runtime.replaying
        for group_type in (NO_GROUP, CLASSIC):
            runtime.register("join_group", self, decide_join_group, group_type)

    cdef int accepts(self, GroupMetadata group, str member_id) except -1:
        cdef MemberMetadata member = group.get(member_id)
        if group.state == PREPARING_REBALANCE:
            return (member is not None and member.awaiting_join is not None) or (
                group.num_members_awaiting_join < self.max_size)
        return member is not None or group.members.count < self.max_size

    cdef int join(self, Request request, GroupMetadata group, str group_id, str member_id,
                  str instance, tuple details) except -1:
        cdef int error = self.runtime.partitions.refusal(group_id, False)
        cdef int64_t session_ms = details[2]
        cdef GroupMetadata created = None
        if error == NONE and not self.min_session_ms <= session_ms <= self.max_session_ms:
            error = INVALID_SESSION_TIMEOUT
        if error != NONE:
            return self.runtime.answer(request, error, member_id)
        if group is None:
            if member_id:
                return self.runtime.answer(request, UNKNOWN_MEMBER_ID, member_id)
            # The group stays, whatever the response is.
            if self.replaying:
                self.runtime.writes.change_unwritten(group_id)
            group = created = self.rebalances.create_group(group_id)
        if not self.accepts(group, member_id):
            self.rebalances.take_out(group, member_id)
            self.runtime.answer(request, GROUP_MAX_SIZE_REACHED, "")
        elif member_id:
            self.join_known(request, group, member_id, instance, details)
        else:
            try:
                self.join_new(request, group, instance, details)
            except BaseException:            # no member id could be made: change nothing
                if created is not None and not created.members.count:
                    self.rebalances.drop_group(created)
                raise
        if not self.replaying:             # else the requests that count have done so
            self.rebalances.try_join(group, False)
        if self.replaying and created is not None:
            return self.write_new_group(request, created)
        return 0

    cdef int write_new_group(self, Request request, GroupMetadata group) except -1:
        """Since Kafka 4: a new group is written at once, with what its id had been before."""
        cdef NewGroup op = NewGroup.__new__(NewGroup)
        describe(op, "new_group", empty_group_batch(group, self.before_group))
        self.before_group = None
        op.joins, op.group, op.request = self, group, request
        return self.runtime.append(op)

    cdef int join_new(self, Request request, GroupMetadata group, str instance,
                      tuple details) except -1:
        if group.state == DEAD:
            return self.runtime.answer(request, COORDINATOR_NOT_AVAILABLE, "")
        if not group.supports(details[0], details[1]):
            return self.runtime.answer(request, INCONSISTENT_GROUP_PROTOCOL, "")
        if instance is not None:
            new_id = self.new_member_id(group, instance)
            if instance in group.static_members:
                return self.static_return(request, group, instance, new_id, details)
            return self.add_and_rebalance(request, group, new_id, instance, details)
        new_id = self.new_member_id(group, details[4])
        if details[6]:
            return self.hand_out_id(request, group, new_id, details[2])
        return self.add_and_rebalance(request, group, new_id, None, details)

    cdef int join_known(self, Request request, GroupMetadata group, str member_id, str instance,
                        tuple details) except -1:
        cdef int error
        if group.state == DEAD:
            return self.runtime.answer(request, COORDINATOR_NOT_AVAILABLE, member_id)
        if not group.supports(details[0], details[1]):
            return self.runtime.answer(request, INCONSISTENT_GROUP_PROTOCOL, member_id)
        if member_id in group.pending_members:
            if instance is not None:     # Kafka throws: only dynamic members are handed out ids
                return self.runtime.answer(request, UNKNOWN_SERVER_ERROR, "")
            return self.add_and_rebalance(request, group, member_id, None, details)
        error = check_member(group, member_id, instance)
        if error != NONE:
            return self.refuse(request, error, member_id)
        return self.rejoin(request, group, group.get(member_id), details)

    cdef int refuse(self, Request request, int error, str member_id) except -1:
        """Answer a member that is unknown or fenced: since Kafka 4 its protocol is null."""
        return self.runtime.answer(request, error, (-1, None, None, "", member_id, False, ())
                                   if self.replaying else member_id)

    cdef int rejoin(self, Request request, GroupMetadata group, MemberMetadata member,
                    tuple details) except -1:
        """Park the join of a known member, or answer it from the present generation."""
        cdef bint leads = group.leader_id == member.member_id
        cdef bint same
        if group.state == PREPARING_REBALANCE:
            self.park_join(group, member, request, details)
            return self.rebalances.try_join(group, False)
        same = member.protocols == <tuple?>details[1]
        if same and (group.state == COMPLETING_REBALANCE or not leads):
            return self.runtime.answer(request, NONE, join_result(
                group, member.member_id, group.leader_id, False,
                group.member_list() if leads else ()))
        self.park_join(group, member, request, details)
        return self.rebalances.prepare_rebalance(
            group, BY_LEADER_REJOIN if same else BY_METADATA_CHANGED, member.member_id)

    cdef int park_join(self, GroupMetadata group, MemberMetadata member, Request request,
                       tuple details) except -1:
        self.runtime.abandon(member.awaiting_join, REPLACED)
        return group.change_member(member, details[1], details[3], details[2], request)

    cdef int add_and_rebalance(self, Request request, GroupMetadata group, str member_id,
                               str instance, tuple details) except -1:
        cdef MemberMetadata member = new_member(member_id, instance, details[1], details[0],
                                                details[3], details[2])
        member.client_id = details[4]
        member.client_host = details[5]
        member.is_new = True
        member.slot = self.runtime.new_slot(member)
        if group.state == PREPARING_REBALANCE and (
                group.previous_state == EMPTY if self.replaying else group.generation_id == 0):
            group.new_member_added = True
        self.rebalances.forget_pending(group, member_id)
        group.add_member(member, request)
        self.rebalances.touch(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        if group.can_go_to(PREPARING_REBALANCE):
            return self.rebalances.prepare_rebalance(group, BY_JOIN, member_id)
        return self.rebalances.try_join(group, False)

    cdef int hand_out_id(self, Request request, GroupMetadata group, str member_id,
                         int32_t session_ms) except -1:
        cdef PendingId pending = PendingId(group.group_id, member_id)
        group.pending_members = group.pending_members or {}
        group.pending_members[member_id] = pending
        self.rebalances.arm_pending(pending, session_ms)
        return self.runtime.answer(request, MEMBER_ID_REQUIRED, member_id)

    cdef int replace_static(self, GroupMetadata group, MemberMetadata member,
                            str new_id) except -1:
        """Answer the parked requests of the old id with FENCED_INSTANCE_ID, then rename it."""
        cdef str old_id = member.member_id
        cdef Request request = member.awaiting_join
        if request is not None:
            member.awaiting_join = None
            group.num_members_awaiting_join -= 1
            self.refuse(request, FENCED_INSTANCE_ID, old_id)
        request = member.awaiting_sync
        if request is not None:
            member.awaiting_sync = None
            self.runtime.answer(request, FENCED_INSTANCE_ID, None)
        if self.replaying:
            member.is_new = False          # Kafka 4 makes a new member of it
        return group.rename_member(member, new_id)

    cdef int static_return(self, Request request, GroupMetadata group, str instance, str new_id,
                           tuple details) except -1:
        cdef MemberMetadata member = static_member(group, instance)
        cdef str old_id = member.member_id
        cdef StaticReturn op
        cdef str old_leader = group.leader_id
        cdef int32_t old_rebalance_ms = member.rebalance_timeout_ms
        cdef int32_t old_session_ms = member.session_timeout_ms
        cdef str selected
        self.replace_static(group, member, new_id)
        # Kafka uses the old timeout here, too.
        self.rebalances.touch(group, member, member.session_timeout_ms)
        self.park_join(group, member, request, details)
        if group.state == PREPARING_REBALANCE:
            return self.rebalances.try_join(group, False)
        if group.state == STABLE:
            selected = group.vote()
            if selected == group.protocol_name:
                op = StaticReturn.__new__(StaticReturn)
                describe(op, "static_return", group_batch(group, None))
                op.joins = self
                op.group = group
                op.member = member
                op.request = request
                op.old_id = old_id
                op.old_leader = old_leader
                op.old_rebalance_ms = old_rebalance_ms
                op.old_session_ms = old_session_ms
                op.skip_assignment = details[7]
                return self.runtime.append(op)
        return self.rebalances.prepare_rebalance(group, BY_STATIC_RETURN, new_id)

    cdef int static_returned(self, StaticReturn op, int error) except -1:
        """Continue after the append of a static return, whatever the state and generation are."""
        cdef GroupMetadata group = op.group
        cdef MemberMetadata member = op.member
        cdef bint leads = group.leader_id == member.member_id
        cdef Request join = member.awaiting_join
        if error == NONE:
            if join is None:
                return 0               # answered by a rebalance or a removal
            member.awaiting_join = None
            group.num_members_awaiting_join -= 1
            if op.skip_assignment:
                return self.runtime.answer(join, NONE, join_result(
                    group, member.member_id, group.leader_id, leads,
                    group.member_list() if leads else ()))
            return self.runtime.answer(join, NONE, join_result(
                group, member.member_id, op.old_leader, False, ()))
        if group.get(member.member_id) is not member or (
                has_member(&group.members, op.old_id)):
            return 0                   # internal error in Kafka: there is nothing to take back
        # Kafka reads the "old" protocols after they were replaced: the new ones stay.
        if join is not op.request:
            self.runtime.abandon(join, REPLACED)
        group.change_member(member, member.protocols, op.old_rebalance_ms, op.old_session_ms,
                            None)
        self.replace_static(group, member, op.old_id)
        self.rebalances.touch(group, member, member.session_timeout_ms)
        return self.runtime.answer(
            op.request, replayed_error(error) if self.replaying else group_error(error),
            join_result(group, "", op.old_leader, False, ()))

    cdef str new_member_id(self, GroupMetadata group, str prefix):
        """Make an id that the group does not know; refuse before any change."""
        cdef str member_id
        if self.member_ids is None:
            if utf8_length(prefix) > LONGEST - UUID_TAIL:
                raise ArgumentError(
                    f"a member id made of {prefix[:40]!r}... is longer than the {LONGEST} bytes of "
                    f"a record: give {LONGEST - UUID_TAIL} at most")
            member_id = numbered_id(prefix, self.ids_given + 1)
            while knows_id(group, member_id):      # from a loaded log
                self.ids_given += 1
                member_id = numbered_id(prefix, self.ids_given + 1)
        else:
            member_id = self.requested_id(group, prefix)
        self.ids_given += 1
        return member_id

    cdef str requested_id(self, GroupMetadata group, str prefix):
        """Return the id that `member_ids` makes from a prefix."""
        try:
            member_id = self.member_ids(prefix)
        except Exception as error:
            raise CoterieError(f"member_ids({prefix!r:.60}) raised {error!r:.120}") from error
        if not isinstance(member_id, str):
            raise CoterieError(f"member_ids({prefix!r:.60}) must return a member id, not "
                               f"{shown(member_id)}")
        member_id = text_of(member_id, "a member id")   # a subclass may compare as it likes
        if not 0 < utf8_length(member_id) <= LONGEST:
            raise CoterieError(f"member_ids({prefix!r:.60}) must return 1 to {LONGEST} bytes of "
                               f"UTF-8, not {member_id!r:.60}")
        if knows_id(group, member_id):
            raise CoterieError(f"member_ids({prefix!r:.60}) returned {member_id!r:.60}, which "
                               f"group {group.group_id!r:.60} has already")
        return member_id


# ---- the classic groups of a folded log ----------------------------------------------------------
# The last metadata record of each group becomes a group. It knows no offsets: the store reads
# those. A record that Kafka's loader cannot read raises CorruptData. Cost: one pass over the
# groups.
# Source: GroupMetadataManager.scala (doLoadGroupsAndOffsets). Rules: docs/rules/offsets.md#load.

cpdef GroupMetadata read_group(str group_id, bytes value):
    fields = read_group_value(value)
    cdef GroupMetadata group = GroupMetadata(group_id, fields.current_state_timestamp)
    cdef MemberMetadata member
    group.generation_id = fields.generation
    group.protocol_name = fields.protocol
    for row in fields.members:
        member = read_member(row, fields.protocol_type, group.protocol_name)
        if member.group_instance_id is not None and (
                member.group_instance_id in group.static_members):
            raise CorruptData(f"group instance id {member.group_instance_id!r} twice")
        group.remove_member(member.member_id)
        group.add_member(member, None)
    group.protocol_type = fields.protocol_type
    group.leader_id = fields.leader
    group.state = STABLE if group.members.count else EMPTY
    group.find_subscribed_topics()
    return group


cdef MemberMetadata read_member(fields, str protocol_type, str protocol_name):
    cdef MemberMetadata member = MemberMetadata(
        fields.member_id, fields.group_instance_id, fields.client_id, fields.client_host,
        fields.rebalance_timeout_ms, fields.session_timeout_ms, protocol_type, (),
        fields.assignment)
    member.protocols = ((protocol_name, fields.subscription),)        # the name may be null
    return member


def groups_of(fold):
    """Return the classic groups of a fold, by id in ascending order; they have no offsets."""
    cdef dict groups = {}
    if not isinstance(fold, PartitionFold):
        raise TypeError(f"fold must be a PartitionFold, not {type(fold).__name__}")
    for name, metadata in fold.groups.items():
        if metadata.last.value is not None:
            group_id = decode_utf8(name)
            groups[group_id] = read_group(group_id, metadata.last.value)
    return {group_id: groups[group_id] for group_id in sorted(groups)}


# ---- classic groups in operations of every group type: commits, deletion, expiry, elections ------
# It also decides DescribeGroups, which shows classic groups only. The offsets themselves are in the
# store; these rules depend on a group's state and members. Cost: O(1) for a commit; a load is one
# pass over the groups and their members.
# Source: GroupCoordinator.scala, GroupMetadataManager.scala (cleanupGroupMetadata,
# removeGroupsForPartition, loadGroupsAndOffsets). Rules: docs/rules/coordinator.md#commits,
# #deletion and #election, docs/rules/offsets.md#clean-up.

cdef enum:
    UNKNOWN_IS_AN_ERROR_SINCE = 6  # version of DescribeGroups

cdef int DESCRIBE_GROUP = NUMBER["describe_group"]


cdef int decide_describe_group(component, Operation op) except -1:
    try:
        return (<ClassicProtocol>component).describe_group(
            op.id, <GroupMetadata>op.group, op.group_id, op.details)
    except KafkaThrows as error:
        return (<ClassicProtocol>component).runtime.answer_thrown(
            error, new_request(op.id, op.number), None)


@cython.final
cdef class ClassicProtocol(GroupProtocol):
    """The classic protocol's rules for commits, deletion, expiry and elections."""

    def __cinit__(self, Runtime runtime not None, Rebalances rebalances not None,
                  Joins joins not None, settings):
        self.join_runtime(runtime, 0)
        runtime.register_protocol(CLASSIC, self)
        for group_type in (NO_GROUP, CLASSIC):
            runtime.register("describe_group", self, decide_describe_group, group_type)
        self.rebalances = rebalances
        self.joins = joins
        self.retention_ms = 60000 * <int64_t>settings["offsets.retention.minutes"]
        self.behaviour_24 = settings["coterie.behaviour"] == "2.4"

    cdef Group create_group(self, str group_id):
        return self.rebalances.create_group(group_id)

    cdef int check_commit(self, Group group, int32_t generation_id, str member_id, str instance,
                          bint transactional) except? -7:
        cdef GroupMetadata classic = <GroupMetadata>group
        cdef MemberMetadata member = classic.get(member_id)
        cdef int error = NONE
        if classic.state == DEAD:
            return COORDINATOR_NOT_AVAILABLE
        if generation_id < 0 and classic.state == EMPTY:
            return NONE
        if generation_id >= 0 or member_id or instance is not None:
            if member is None or instance is not None:
                error = check_member(classic, member_id, instance)
            if error == NONE and generation_id != classic.generation_id:
                error = ILLEGAL_GENERATION
        elif not transactional:
            error = UNKNOWN_MEMBER_ID
        if error != NONE or transactional or classic.state == EMPTY:
            return error
        if classic.state == COMPLETING_REBALANCE:
            return REBALANCE_IN_PROGRESS
        self.rebalances.touch(classic, member, member.session_timeout_ms)
        return NONE

    cdef int check_offset_delete(self, Group group, dict errors) except? -7:
        cdef GroupMetadata classic = <GroupMetadata>group
        if classic.state == DEAD:
            return GROUP_ID_NOT_FOUND
        if classic.state == EMPTY:
            return NONE
        if classic.protocol_type != "consumer":
            return NON_EMPTY_GROUP
        for key in errors:
            if classic.subscribed_topics is None or key[0] in classic.subscribed_topics:
                errors[key] = GROUP_SUBSCRIBED_TO_TOPIC
        return NONE

    cdef int delete_group(self, Group group) except? -7:
        cdef GroupMetadata classic = <GroupMetadata>group
        if classic.state == DEAD:
            return GROUP_ID_NOT_FOUND
        if classic.state != EMPTY:
            return NON_EMPTY_GROUP
        self.rebalances.transition(classic, DEAD, BY_CLEANUP, None)
        return NONE

    cdef list expire(self, Group group, OffsetMap offsets):
        cdef GroupMetadata classic = <GroupMetadata>group
        cdef str rule = expiry_rule(classic.protocol_type, classic.state == EMPTY,
                                    classic.state == STABLE or self.behaviour_24,
                                    classic.current_state_timestamp,
                                    classic.subscribed_topics is not None)
        if rule is None:
            return []
        return offsets.expire_all(
            self.runtime.wheel.clock_ms, self.retention_ms, rule == "empty_since",
            classic.current_state_timestamp,
            classic.subscribed_topics if rule == "not_subscribed" else None)

    cdef list end_group(self, Group group, bint has_offsets):
        """End an Empty group without offsets, and one that was deleted."""
        cdef GroupMetadata classic = <GroupMetadata>group
        if classic.state == EMPTY and not has_offsets:
            self.rebalances.transition(classic, DEAD, BY_CLEANUP, None)
        if classic.state != DEAD:
            return None
        return [group_key(classic.group_id)] if classic.generation_id > 0 else []

    cdef int drop_group(self, Group group) except -1:
        return self.rebalances.drop_group(<GroupMetadata>group)

    cdef tuple overview(self, Group group):
        cdef GroupMetadata classic = <GroupMetadata>group
        return (classic.group_id, classic.protocol_type or "", STATE_NAMES[classic.state])

    cdef int describe_group(self, int64_t id, GroupMetadata group, str group_id,
                            tuple details) except -1:
        cdef int error = self.runtime.partitions.refusal(group_id, True)
        if error != NONE:
            return self.runtime.respond(id, DESCRIBE_GROUP, error, None)
        if self.runtime.writes is not None and (
                self.runtime.writes.pending or self.runtime.writes.unwritten):
            seen = self.runtime.writes.committed(group_id)
            group = <GroupMetadata>seen if isinstance(seen, GroupMetadata) else None
        if group is None and details is not None and details[0] >= UNKNOWN_IS_AN_ERROR_SINCE:
            error = GROUP_ID_NOT_FOUND
        return self.runtime.respond(
            id, DESCRIBE_GROUP, error,
            GroupSummary("Dead", "", "", ()) if group is None else self.summary_of(group))

    cdef object summary_of(self, GroupMetadata group):
        """What DescribeGroups shows; Kafka 4 shows assignments in every state."""
        cdef MemberMetadata member
        cdef Py_ssize_t place = 0
        cdef list members = []
        summary = group.summary()
        if not self.runtime.replaying or group.state == STABLE:
            return summary
        while (member := next_member(&group.members, &place)) is not None:
            members.append(MemberSummary(member.member_id, member.group_instance_id,
                                         member.client_id, member.client_host, b"",
                                         member.assignment))
        return GroupSummary(summary.state, summary.protocol_type, summary.protocol_name,
                            tuple(members))

    cdef int resigned(self, int32_t partition) except -1:
        cdef int32_t count = self.runtime.partitions.count
        for group in self.runtime.all_groups():
            if isinstance(group, GroupMetadata) and (
                    partition < 0 or partition_of(group.group_id, count) == partition):
                self.rebalances.unload(<GroupMetadata>group)

    cdef object read_log(self, object fold):
        return groups_of(fold)

    cdef int loaded(self, object content, object load_filter) except -1:
        for group_id, group in content.items():
            if load_filter is None or load_filter(group_id):
                self.take_over(<GroupMetadata?>group)

    cdef int take_over(self, GroupMetadata group) except -1:
        cdef MemberMetadata member
        cdef Py_ssize_t place = 0
        self.rebalances.take_over(group)
        if group.members.count > self.joins.max_size:
            self.rebalances.prepare_rebalance(group, BY_SIZE, None)
        while (member := next_member(&group.members, &place)) is not None:
            self.rebalances.touch(group, member, member.session_timeout_ms)
