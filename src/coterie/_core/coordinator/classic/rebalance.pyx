"""Rebalances of classic groups: preparing, completing, delayed operations, sessions, unloading.

A group has at most one unfinished delayed join and one delayed sync. Their keys in Kafka's
purgatory are fields of the group here. Every timer of a group is armed here. It knows no request,
only which members have parked one. Cost: O(members) a rebalance, O(1) a session timer.
Source: GroupCoordinator.scala, DelayedJoin.scala, DelayedSync.scala, DelayedHeartbeat.scala.
Rules: docs/rules/coordinator.md#rebalance, #sessions and #election.
"""
cimport cython
from libc.stdint cimport int64_t

from coterie._core.coordinator.codes cimport (
    NONE, NOT_COORDINATOR, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID)
from coterie._core.coordinator.outputs cimport (
    BY_COMPLETED, BY_FAILOVER, BY_REBALANCE_TIMEOUT, BY_SESSION_TIMEOUT, BY_SYNC_TIMEOUT,
    COMPLETING_REBALANCE, DEAD, DROPPED, EMPTY, PREPARING_REBALANCE, STABLE, TRANSITION)
from coterie._core.coordinator.classic.group cimport (
    INITIAL_JOIN, NO_JOIN, PLAIN_JOIN, GroupMetadata, new_group)
from coterie._core.coordinator.classic.group_records cimport group_batch
from coterie._core.coordinator.classic.member cimport MemberMetadata, PendingId
from coterie._core.coordinator.classic.member_table cimport has_member, next_member
from coterie._core.coordinator.runtime cimport (
    FINISHED, NO_OWNER, NO_TIMER, AppendOp, AppendStatus, Component, Group, Request, Runtime,
    describe)
from coterie._core.coordinator.sink cimport Batch
from coterie._core.structures.timers cimport TimerWheel
from coterie._core.structures.votes cimport FIRST_VOTED, JAVA_MAP, SCALA_MAP

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
