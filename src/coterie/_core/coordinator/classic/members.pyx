"""SyncGroup, Heartbeat, LeaveGroup of classic groups.

It knows no joins: how an id becomes a member is in joins.pyx. O(1), apart from a leader's sync,
which answers every parked sync, and the start of a rebalance.
Source: GroupCoordinator.scala. Rules: docs/rules/coordinator.md#syncgroup to #leavegroup.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.codes cimport (
    COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL, NONE, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID, group_error,
    replayed_error, write_error)
from coterie._core.coordinator.outputs cimport (
    BY_APPEND_FAILED, BY_COMPLETED, BY_LEAVE, COMPLETING_REBALANCE, DEAD, EMPTY,
    PREPARING_REBALANCE, REPLACED, STABLE)
from coterie._core.coordinator.classic.group cimport GroupMetadata, check_member, static_member
from coterie._core.coordinator.classic.group_records cimport assignment_of, group_batch
from coterie._core.coordinator.classic.member cimport MemberMetadata
from coterie._core.coordinator.classic.member_table cimport next_member
from coterie._core.coordinator.classic.rebalance cimport Rebalances
from coterie._core.coordinator.runtime cimport (
    CLASSIC, FINISHED, NO_GROUP, AppendOp, AppendStatus, Group, Request, Runtime, describe,
    new_request)
from coterie._core.coordinator.sink cimport Batch

from coterie._core.coordinator.runtime import Thrown
from coterie.operations import NUMBER

cdef int HEARTBEAT = NUMBER["heartbeat"], LEAVE_GROUP = NUMBER["leave_group"]


@cython.final
cdef class AssignmentAppend(AppendOp):
    """A leader's assignments; every parked sync is answered when the append finishes."""

    cdef int on_finished(self, int error, int64_t position) except -1:
        return self.members.assigned(self.group, self.generation_id, self.leader, self.assignments,
                                     error)


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
