"""DeleteOffsets, DeleteGroups, the clean-up of what has expired, DescribeGroups, ListGroups.

Each removal writes tombstones: groups by id, offsets by topic and partition.
Source: GroupCoordinator.scala, GroupMetadataManager.scala (cleanupGroupMetadata).
Rules: docs/rules/coordinator.md#deletion, docs/rules/offsets.md#clean-up.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.codes cimport (
    COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND, GROUP_SUBSCRIBED_TO_TOPIC, NONE,
    NON_EMPTY_GROUP)
from coterie._core.coordinator.outputs cimport (
    BY_CLEANUP, DEAD, EMPTY, STABLE, STATE_NAMES)
from coterie._core.coordinator.group cimport GroupMetadata
from coterie._core.coordinator.group_records cimport tombstones
from coterie._core.coordinator.rebalance cimport Rebalances
from coterie._core.coordinator.runtime cimport (
    NOBODY, NO_TIMER, AppendOp, Part, Runtime, describe as describe_append, new_request)
from coterie._core.coordinator.sink cimport Batch
from coterie._core.structures.offsets cimport expiry_rule

from coterie._core.coordinator.runtime import Thrown
from coterie.operations import NUMBER
from coterie.values import GroupSummary

cdef int OFFSET_DELETE = NUMBER["offset_delete"], DELETE_GROUPS = NUMBER["delete_groups"]
cdef int DESCRIBE_GROUP = NUMBER["describe_group"], LIST_GROUPS = NUMBER["list_groups"]


cdef int ask_offset_delete(part, int op, int64_t id, str group_id, int32_t generation_id,
                           str member_id, str instance, tuple details) except -1:
    return (<Admin>part).delete_offsets(id, group_id, details)


cdef int ask_delete_groups(part, int op, int64_t id, str group_id, int32_t generation_id,
                           str member_id, str instance, tuple details) except -1:
    return (<Admin>part).delete_groups(id, details)


cdef int ask_delete_partitions(part, int op, int64_t id, str group_id, int32_t generation_id,
                               str member_id, str instance, tuple details) except -1:
    return (<Admin>part).delete_partitions(details)


cdef int ask_cleanup(part, int op, int64_t id, str group_id, int32_t generation_id,
                     str member_id, str instance, tuple details) except -1:
    return (<Admin>part).clean_up()


cdef int ask_describe_group(part, int op, int64_t id, str group_id, int32_t generation_id,
                            str member_id, str instance, tuple details) except -1:
    try:
        return (<Admin>part).describe(id, group_id)
    except Thrown as error:
        return (<Admin>part).runtime.threw(error, new_request(id, op), None)


cdef int ask_list_groups(part, int op, int64_t id, str group_id, int32_t generation_id,
                         str member_id, str instance, tuple details) except -1:
    return (<Admin>part).list_groups(id, details)


@cython.final
cdef class Admin(Part):
    """What is asked of groups as a whole, and what ends them; the clean-up has a timer."""

    def __cinit__(self, Runtime runtime not None, Rebalances rebalances not None, settings):
        self.join_runtime(runtime, 1)
        runtime.decided_by("offset_delete", self, ask_offset_delete)
        runtime.decided_by("delete_groups", self, ask_delete_groups)
        runtime.decided_by("delete_partitions", self, ask_delete_partitions)
        runtime.decided_by("cleanup", self, ask_cleanup)
        runtime.decided_by("describe_group", self, ask_describe_group)
        runtime.decided_by("list_groups", self, ask_list_groups)
        self.rebalances = rebalances
        self.retention_ms = 60000 * <int64_t>settings["offsets.retention.minutes"]
        self.check_interval_ms = settings["offsets.retention.check.interval.ms"]
        self.behaviour_24 = settings["coterie.behaviour"] == "2.4"
        if settings["coterie.cleanup"] == "periodic":
            self.arm_clean_up()

    cdef int arm_clean_up(self) except -1:
        """The clean-up is nobody's: its timer names a slot without an owner."""
        self.runtime.arm(NO_TIMER, self.first_kind, NOBODY, self.check_interval_ms)
        return 0

    cdef int fired(self, int kind, object owner) except -1:
        # Armed before the clean-up, so that the rhythm does not depend on what it does.
        self.arm_clean_up()
        return self.clean_up()

    cdef int delete_offsets(self, int64_t id, str group_id, tuple keys) except -1:
        cdef int error = self.runtime.partitions.refusal(group_id, False)
        cdef GroupMetadata group
        cdef dict answers = {key: NONE for key in keys}
        if error == NONE:
            group = self.rebalances.find(group_id)
            if group is None or group.state == DEAD:
                error = GROUP_ID_NOT_FOUND
            elif group.state != EMPTY:
                if group.protocol_type != "consumer":
                    error = NON_EMPTY_GROUP
                else:
                    for key in answers:
                        if (group.subscribed_topics is None
                                or key[0] in group.subscribed_topics):
                            answers[key] = GROUP_SUBSCRIBED_TO_TOPIC
        if error != NONE:
            return self.runtime.respond(id, OFFSET_DELETE, error, None)
        eligible = [key for key, code in answers.items() if code == NONE]
        if eligible:
            self.bury(group, group.offsets.drop(eligible))
        return self.runtime.respond(id, OFFSET_DELETE, NONE, tuple(answers.items()))

    cdef int delete_groups(self, int64_t id, tuple group_ids) except -1:
        cdef int error
        cdef GroupMetadata group
        cdef list answers = []
        for group_id in dict.fromkeys(group_ids):
            error = self.runtime.partitions.refusal(group_id, True)
            if error == NONE:
                group = self.rebalances.find(group_id)
                if group is None or group.state == DEAD:
                    error = GROUP_ID_NOT_FOUND
                elif group.state != EMPTY:
                    error = NON_EMPTY_GROUP
                else:
                    self.rebalances.transition(group, DEAD, BY_CLEANUP, None)
                    self.bury(group, group.offsets.drop(group.offsets.keys()))
            answers.append((group_id, error))
        return self.runtime.respond(id, DELETE_GROUPS, NONE, tuple(answers))

    cdef int delete_partitions(self, tuple keys) except -1:
        cdef GroupMetadata group
        for group in self.rebalances.groups():
            self.bury(group, group.offsets.drop(keys))
        return 0

    cdef int clean_up(self) except -1:
        cdef GroupMetadata group
        for group in self.rebalances.groups():
            self.bury(group, self.expired_of(group))
        return 0

    cdef list expired_of(self, GroupMetadata group):
        """Take out of the group what has expired by its protocol type and state."""
        cdef str rule = expiry_rule(group.protocol_type, group.state == EMPTY,
                                    group.state == STABLE or self.behaviour_24,
                                    group.current_state_timestamp,
                                    group.subscribed_topics is not None)
        if rule is None:
            return []
        return group.offsets.expire_all(
            self.runtime.wheel.clock_ms, self.retention_ms, rule == "empty_since",
            group.current_state_timestamp,
            group.subscribed_topics if rule == "not_subscribed" else None)

    cdef int bury(self, GroupMetadata group, list removed) except -1:
        """The end of every clean-up: tombstones for what was removed, and for a group that ends."""
        cdef bint with_group
        cdef Batch buried
        if group.state == EMPTY and not group.offsets.has_any():
            self.rebalances.transition(group, DEAD, BY_CLEANUP, None)
        removed.sort()
        with_group = group.state == DEAD and group.generation_id > 0
        buried = tombstones(group.group_id, removed, with_group)
        if group.state == DEAD:
            self.rebalances.drop_group(group)
        if buried.count:
            return self.runtime.append(describe_append(
                AppendOp.__new__(AppendOp), "tombstones", buried))
        return 0

    cdef int describe(self, int64_t id, str group_id) except -1:
        cdef int error = self.runtime.partitions.refusal(group_id, True)
        if error != NONE:
            return self.runtime.respond(id, DESCRIBE_GROUP, error, None)
        cdef GroupMetadata group = self.rebalances.find(group_id)
        return self.runtime.respond(
            id, DESCRIBE_GROUP, NONE,
            GroupSummary("Dead", "", "", ()) if group is None else group.summary())

    cdef int list_groups(self, int64_t id, tuple states) except -1:
        cdef set wanted = {state.lower() for state in states}
        cdef list found = []
        cdef GroupMetadata group
        cdef int error = NONE
        for group in self.rebalances.groups():
            if not wanted or STATE_NAMES[group.state].lower() in wanted:
                found.append((group.group_id, group.protocol_type or "", STATE_NAMES[group.state]))
        if self.runtime.partitions.is_loading(-1):
            error = COORDINATOR_LOAD_IN_PROGRESS
        return self.runtime.respond(id, LIST_GROUPS, error, tuple(found))
