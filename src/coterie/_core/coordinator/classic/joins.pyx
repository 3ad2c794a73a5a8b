"""JoinGroup: new, known and static members, and the ids that are handed out.

A join's details are (protocol type, protocols, session timeout, rebalance timeout, client id,
client host, needs a known id, can skip the assignment). It knows neither syncs nor offsets. O(1),
apart from responses that name all members and the start of a rebalance.
Source: GroupCoordinator.scala. Rules: docs/rules/coordinator.md#joingroup.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t

from coterie._core.checks cimport text_of
from coterie._core.coordinator.codes cimport (
    COORDINATOR_NOT_AVAILABLE, FENCED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED,
    INCONSISTENT_GROUP_PROTOCOL, INVALID_SESSION_TIMEOUT, MEMBER_ID_REQUIRED, NONE,
    UNKNOWN_MEMBER_ID, UNKNOWN_SERVER_ERROR, group_error, replayed_error)
from coterie._core.coordinator.outputs cimport (
    BY_JOIN, BY_LEADER_REJOIN, BY_METADATA_CHANGED, BY_STATIC_RETURN,
    COMPLETING_REBALANCE, DEAD, EMPTY, PREPARING_REBALANCE, REPLACED, STABLE)
from coterie._core.coordinator.classic.group cimport (
    GroupMetadata, check_member, knows_id, static_member)
from coterie._core.coordinator.classic.group_records cimport empty_group_batch, group_batch
from coterie._core.coordinator.classic.member cimport (
    MemberMetadata, PendingId, new_member, numbered_id)
from coterie._core.coordinator.classic.member_table cimport has_member
from coterie._core.coordinator.classic.rebalance cimport Rebalances, join_result
from coterie._core.coordinator.records cimport LONGEST, utf8_length
from coterie._core.coordinator.runtime cimport (
    CLASSIC, NO_GROUP, AppendOp, Group, Request, Runtime, describe, new_request)

from coterie._core.coordinator.runtime import Thrown
from coterie.errors import ArgumentError, CoterieError, shown

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


cdef int decide_join_group(component, int op, int64_t id, Group group, str group_id,
                           int32_t generation_id, str member_id, str instance,
                           tuple details) except -1:
    cdef Request request = new_request(id, op)
    try:
        return (<Joins>component).join(request, <GroupMetadata>group, group_id, member_id,
                                       instance, details)
    except Thrown as error:
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
