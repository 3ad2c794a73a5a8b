"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup, as Kafka decides them.

A join's details are (protocol type, protocols, session timeout, rebalance timeout, client id,
client host, needs a known id, can skip the assignment). Nothing here costs O(members), apart
from answers that name all members and the starting of a rebalance.
Source: GroupCoordinator.scala. Rules: docs/rules/coordinator.md#joingroup to #leavegroup.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t

from coterie._core.checks cimport text_of
from coterie._core.coordinator.codes cimport (
    COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, FENCED_INSTANCE_ID,
    GROUP_MAX_SIZE_REACHED, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL,
    INVALID_SESSION_TIMEOUT, MEMBER_ID_REQUIRED, NONE, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID,
    UNKNOWN_SERVER_ERROR, group_error)
from coterie._core.coordinator.outputs cimport (
    BY_APPEND_FAILED, BY_COMPLETED, BY_JOIN, BY_LEADER_REJOIN, BY_LEAVE, BY_METADATA_CHANGED,
    BY_STATIC_RETURN, COMPLETING_REBALANCE, DEAD, EMPTY, PREPARING_REBALANCE, REPLACED, STABLE)
from coterie._core.coordinator.classic.group cimport GroupMetadata, check_member, knows_id
from coterie._core.coordinator.classic.group_records cimport assignment_of, group_batch
from coterie._core.coordinator.classic.member cimport MemberMetadata, PendingId, new_member, numbered_id
from coterie._core.coordinator.classic.rebalance cimport Rebalances, join_result
from coterie._core.coordinator.classic.member_table cimport has_member, next_member
from coterie._core.coordinator.records cimport LONGEST, utf8_length
from coterie._core.coordinator.runtime cimport (
    CLASSIC, FINISHED, NO_GROUP, AppendOp, AppendStatus, Group, Request, Runtime, describe,
    new_request)
from coterie._core.coordinator.sink cimport Batch

from coterie._core.coordinator.runtime import Thrown
from coterie.errors import ArgumentError, CoterieError, shown
from coterie.operations import NUMBER

cdef int HEARTBEAT = NUMBER["heartbeat"], LEAVE_GROUP = NUMBER["leave_group"]

cdef enum:
    NEW_MEMBER_JOIN_TIMEOUT_MS = 300000
    UUID_TAIL = 37                 # what Kafka adds to the prefix of a member id


@cython.final
cdef class AssignmentAppend(AppendOp):
    """A leader's assignments; every parked sync waits for it."""

    cdef int on_finished(self, int error, int64_t position) except -1:
        return self.members.assigned(self.group, self.generation_id, self.leader, self.assignments,
                                     error)


@cython.final
cdef class StaticReturn(AppendOp):
    """A static member's new id; its join waits for it."""

    cdef int on_finished(self, int error, int64_t position) except -1:
        return self.members.static_returned(self, error)


cdef int decide_join_group(component, int op, int64_t id, Group group, str group_id,
                           int32_t generation_id, str member_id, str instance,
                           tuple details) except -1:
    cdef Request request = new_request(id, op)
    try:
        return (<Members>component).join(request, <GroupMetadata>group, group_id, member_id, instance, details)
    except Thrown as error:
        return (<Members>component).runtime.answer_thrown(error, request, "")


cdef int decide_sync_group(component, int op, int64_t id, Group group, str group_id,
                           int32_t generation_id, str member_id, str instance,
                           tuple details) except -1:
    cdef Request request = new_request(id, op)
    try:
        return (<Members>component).sync(
            request, <GroupMetadata>group, group_id, generation_id, member_id, instance,
            details[0], details[1], details[2])
    except Thrown as error:
        return (<Members>component).runtime.answer_thrown(error, request, None)


cdef int decide_heartbeat(component, int op, int64_t id, Group group, str group_id,
                          int32_t generation_id, str member_id, str instance,
                          tuple details) except -1:
    return (<Members>component).heartbeat(id, <GroupMetadata>group, group_id, generation_id,
                                          member_id, instance)


cdef int decide_leave_group(component, int op, int64_t id, Group group, str group_id,
                            int32_t generation_id, str member_id, str instance,
                            tuple details) except -1:
    try:
        return (<Members>component).leave(id, <GroupMetadata>group, group_id, details)
    except Thrown as error:
        return (<Members>component).runtime.answer_thrown(error, new_request(id, op), None)


@cython.final
cdef class Members:
    """What the members of the classic protocol's groups ask for."""

    def __cinit__(self, Runtime runtime not None, Rebalances rebalances not None, settings,
                  member_ids):
        self.runtime = runtime
        self.rebalances = rebalances
        self.min_session_ms = settings["group.min.session.timeout.ms"]
        self.max_session_ms = settings["group.max.session.timeout.ms"]
        self.max_size = settings["group.max.size"]
        self.member_ids = member_ids
        for group_type in (NO_GROUP, CLASSIC):
            runtime.register("join_group", self, decide_join_group, group_type)
            runtime.register("sync_group", self, decide_sync_group, group_type)
            runtime.register("heartbeat", self, decide_heartbeat, group_type)
            runtime.register("leave_group", self, decide_leave_group, group_type)

    cdef int accepts(self, GroupMetadata group, str member_id) except -1:
        cdef MemberMetadata member
        if group.state == EMPTY or group.state == DEAD:
            return True
        member = group.get(member_id)
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
            # It stays, whatever is answered.
            group = created = self.rebalances.create_group(group_id)
        if not self.accepts(group, member_id):
            self.rebalances.take_out(group, member_id)
            self.runtime.answer(request, GROUP_MAX_SIZE_REACHED, "")
        elif member_id:
            self.join_known(request, group, member_id, instance, details)
        else:
            try:
                self.join_new(request, group, instance, details)
            except BaseException:            # no member id could be made: nothing has changed
                if created is not None and not created.members.count:
                    self.rebalances.drop_group(created)
                raise
        if group.state == PREPARING_REBALANCE:
            self.rebalances.try_join(group, BY_COMPLETED)
        return 0

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
            return self.runtime.answer(request, error, member_id)
        return self.rejoin(request, group, group.get(member_id), details)

    cdef int rejoin(self, Request request, GroupMetadata group, MemberMetadata member,
                    tuple details) except -1:
        """A member joins again: park it, or answer it from the present generation."""
        cdef bint leads = group.leader_id == member.member_id
        cdef bint same
        if group.state == PREPARING_REBALANCE:
            return self.park_join(group, member, request, details)
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
        if group.state == PREPARING_REBALANCE and group.generation_id == 0:
            group.new_member_added = True
        self.forget_pending(group, member_id)
        group.add_member(member, request)
        self.rebalances.touch(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        if group.can_go_to(PREPARING_REBALANCE):
            return self.rebalances.prepare_rebalance(group, BY_JOIN, member_id)
        return 0

    cdef int hand_out_id(self, Request request, GroupMetadata group, str member_id,
                         int32_t session_ms) except -1:
        cdef PendingId pending = PendingId(group.group_id, member_id)
        group.pending_members = group.pending_members or {}
        group.pending_members[member_id] = pending
        self.rebalances.arm_pending(pending, session_ms)
        return self.runtime.answer(request, MEMBER_ID_REQUIRED, member_id)

    cdef int forget_pending(self, GroupMetadata group, str member_id) except -1:
        """The id is a member's now: that completes the operation that waited for it."""
        cdef PendingId pending = <PendingId>group.pending_members.pop(member_id, None)
        if pending is not None:
            self.runtime.disarm(&pending.timer)
            self.runtime.free_slot(pending.slot)
        return 0

    cdef int replace_static(self, GroupMetadata group, MemberMetadata member,
                            str new_id) except -1:
        """Fence what the old id has parked, then rename it."""
        cdef str old_id = member.member_id
        cdef Request waiting = member.awaiting_join
        if waiting is not None:
            member.awaiting_join = None
            group.num_members_awaiting_join -= 1
            self.runtime.answer(waiting, FENCED_INSTANCE_ID, old_id)
        waiting = member.awaiting_sync
        if waiting is not None:
            member.awaiting_sync = None
            self.runtime.answer(waiting, FENCED_INSTANCE_ID, None)
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
        # The old timeout, on purpose.
        self.rebalances.touch(group, member, member.session_timeout_ms)
        self.park_join(group, member, request, details)
        if group.state == PREPARING_REBALANCE:
            return 0
        if group.state == STABLE:
            selected = group.vote()
            if selected == group.protocol_name:
                op = StaticReturn.__new__(StaticReturn)
                describe(op, "static_return", group_batch(group, None))
                op.members = self
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
        """The append of a static return came back. Neither state nor generation is looked at."""
        cdef GroupMetadata group = op.group
        cdef MemberMetadata member = op.member
        cdef bint leads = group.leader_id == member.member_id
        cdef Request join = member.awaiting_join
        if error == NONE:
            if join is None:
                return 0               # answered meanwhile, by a rebalance or a removal
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
        return self.runtime.answer(op.request, group_error(error), join_result(
            group, "", op.old_leader, False, ()))

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
        """The append of a leader's assignments came back."""
        cdef MemberMetadata member
        cdef Py_ssize_t place = 0, given = 0
        if group.state != COMPLETING_REBALANCE or group.generation_id != generation_id:
            return 0                   # the parked syncs were answered by what moved it on
        if error != NONE:
            self.rebalances.forget_assignments(group, group_error(error))
            if group.can_go_to(PREPARING_REBALANCE):
                self.rebalances.prepare_rebalance(group, BY_APPEND_FAILED, leader.member_id)
            return 0
        while (member := next_member(&group.members, &place)) is not None:
            member.assignment = assignment_of(assignments, member.member_id, &given)
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
            if group.state == PREPARING_REBALANCE:
                error = REBALANCE_IN_PROGRESS
        return self.runtime.respond(id, HEARTBEAT, error, None)

    cdef int leave(self, int64_t id, GroupMetadata group, str group_id,
                   tuple leaving) except -1:
        cdef int error = self.runtime.partitions.refusal(group_id, False)
        cdef list codes = None             # while all have left
        cdef Py_ssize_t n
        cdef int code
        if error != NONE:
            return self.runtime.respond(id, LEAVE_GROUP, error, None)
        if group is not None and group.state == DEAD:
            return self.runtime.respond(id, LEAVE_GROUP, COORDINATOR_NOT_AVAILABLE, None)
        for n in range(len(leaving)):
            member_id, instance = <tuple?>leaving[n]
            code = UNKNOWN_MEMBER_ID if group is None else self.leave_one(
                group, member_id, instance)
            if code != NONE and codes is None:
                codes = [NONE] * n
            if codes is not None:
                codes.append(code)
        return self.runtime.respond(id, LEAVE_GROUP, NONE, leaving if codes is None else tuple([
            (member_id, instance, code) for (member_id, instance), code in zip(leaving, codes)]))

    cdef int leave_one(self, GroupMetadata group, str member_id, str instance) except? -7:
        cdef int error = NONE
        cdef MemberMetadata member = None
        if not member_id:
            if instance is None or instance not in group.static_members:
                return UNKNOWN_MEMBER_ID
            member = static_member(group, instance)
        elif group.pending_members and member_id in group.pending_members:
            # Its timer runs on, and will only try the join again.
            del group.pending_members[member_id]
            if group.state == PREPARING_REBALANCE:
                self.rebalances.try_join(group, BY_COMPLETED)
            return NONE
        else:
            member = group.get(member_id)
            if member is None or instance is not None:
                error = check_member(group, member_id, instance)
            if error != NONE:
                return error
        self.rebalances.remove_and_update(group, member, BY_LEAVE)
        return NONE

    cdef str new_member_id(self, GroupMetadata group, str prefix):
        """An id that the group does not know. What cannot be one is refused before any change."""
        cdef str made
        if self.member_ids is None:
            if utf8_length(prefix) > LONGEST - UUID_TAIL:
                raise ArgumentError(
                    f"a member id made of {prefix[:40]!r}... is longer than the {LONGEST} bytes of "
                    f"a record: give {LONGEST - UUID_TAIL} at most")
            made = numbered_id(prefix, self.ids_given + 1)
            while knows_id(group, made):      # of a log that was loaded
                self.ids_given += 1
                made = numbered_id(prefix, self.ids_given + 1)
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
        if knows_id(group, given):
            raise CoterieError(f"member_ids({prefix!r:.60}) returned {given!r:.60}, which group "
                               f"{group.group_id!r:.60} has already")
        return given


cdef MemberMetadata static_member(GroupMetadata group, str instance):
    """The member of an instance; Kafka throws, too, where there is none."""
    cdef MemberMetadata member = group.get(group.static_members[instance])
    if member is None:
        raise Thrown(f"no member has the id of the instance {instance!r:.60}")
    return member
