"""Classic groups in operations of every group type: commits, deletion, expiry, elections.

It also decides DescribeGroups, which shows classic groups only. The offsets themselves are in the
store; these rules depend on a group's state and members.
Cost: O(1) for a commit; a load is one pass over the groups and their members.
Source: GroupCoordinator.scala, GroupMetadataManager.scala (cleanupGroupMetadata,
removeGroupsForPartition, loadGroupsAndOffsets).
Rules: docs/rules/coordinator.md#commits, #deletion and #election, docs/rules/offsets.md#clean-up.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.classic.group cimport GroupMetadata, check_member
from coterie._core.coordinator.classic.group_records cimport group_key
from coterie._core.coordinator.classic.member cimport MemberMetadata
from coterie._core.coordinator.classic.member_table cimport next_member
from coterie._core.coordinator.classic.joins cimport Joins
from coterie._core.coordinator.classic.rebalance cimport Rebalances
from coterie._core.coordinator.codes cimport (
    COORDINATOR_NOT_AVAILABLE, GROUP_ID_NOT_FOUND, GROUP_SUBSCRIBED_TO_TOPIC, ILLEGAL_GENERATION,
    NONE, NON_EMPTY_GROUP, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID)
from coterie._core.coordinator.outputs cimport (
    BY_CLEANUP, BY_SIZE, COMPLETING_REBALANCE, DEAD, EMPTY, STABLE, STATE_NAMES)
from coterie._core.coordinator.partitions cimport partition_of
from coterie._core.coordinator.runtime cimport (
    CLASSIC, NO_GROUP, Group, GroupProtocol, Runtime, new_request)
from coterie._core.structures.expiry cimport expiry_rule
from coterie._core.structures.offsets cimport OffsetMap

from coterie._core.coordinator.classic.load import groups_of
from coterie._core.coordinator.runtime import Thrown
from coterie.operations import NUMBER
from coterie.values import GroupSummary, MemberSummary

cdef enum:
    UNKNOWN_IS_AN_ERROR_SINCE = 6  # version of DescribeGroups

cdef int DESCRIBE_GROUP = NUMBER["describe_group"]


cdef int decide_describe_group(component, int op, int64_t id, Group group, str group_id,
                               int32_t generation_id, str member_id, str instance,
                               tuple details) except -1:
    try:
        return (<ClassicProtocol>component).describe(
            id, <GroupMetadata>group, group_id, details)
    except Thrown as error:
        return (<ClassicProtocol>component).runtime.answer_thrown(error, new_request(id, op), None)


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

    cdef int describe(self, int64_t id, GroupMetadata group, str group_id,
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
