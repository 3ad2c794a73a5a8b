"""OffsetDelete, DeleteGroups, the clean-up of expired offsets, ListGroups, for every group type.

Each removal writes tombstones, sorted by topic and partition, in one batch a group. The protocol of
a group decides what may be removed, and when the group ends.
Cost: a clean-up and a ListGroups are one pass over the groups.
Source: GroupCoordinator.scala, GroupMetadataManager.scala (cleanupGroupMetadata).
Rules: docs/rules/coordinator.md#deletion, docs/rules/offsets.md#clean-up.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.codes cimport (
    COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND, NONE)
from coterie._core.coordinator.offset_store cimport OffsetStore
from coterie._core.coordinator.records cimport tombstones
from coterie._core.coordinator.runtime cimport (
    EVERY_TYPE, NO_GROUP, NO_OWNER, NO_TIMER, AppendOp, Component, Group, GroupProtocol, Runtime,
    describe)
from coterie._core.coordinator.sink cimport Batch
from coterie._core.structures.offsets cimport OffsetMap

from coterie.operations import NUMBER

OFFSET_DELETE, DELETE_GROUPS = NUMBER["offset_delete"], NUMBER["delete_groups"]
LIST_GROUPS = NUMBER["list_groups"]


cdef int decide_offset_delete(component, int op, int64_t id, Group group, str group_id,
                              int32_t generation_id, str member_id, str instance,
                              tuple details) except -1:
    return (<AdminOperations>component).delete_offsets(id, group, group_id, details)


cdef int decide_delete_groups(component, int op, int64_t id, Group group, str group_id,
                              int32_t generation_id, str member_id, str instance,
                              tuple details) except -1:
    return (<AdminOperations>component).delete_groups(id, details)


cdef int decide_delete_partitions(component, int op, int64_t id, Group group, str group_id,
                                  int32_t generation_id, str member_id, str instance,
                                  tuple details) except -1:
    return (<AdminOperations>component).delete_partitions(details)


cdef int decide_cleanup(component, int op, int64_t id, Group group, str group_id,
                        int32_t generation_id, str member_id, str instance,
                        tuple details) except -1:
    return (<AdminOperations>component).clean_up()


cdef int decide_list_groups(component, int op, int64_t id, Group group, str group_id,
                            int32_t generation_id, str member_id, str instance,
                            tuple details) except -1:
    return (<AdminOperations>component).list_groups(id, details)


cdef dict partitions_by_topic(tuple keys):
    """The partitions of each topic among (topic, partition) pairs."""
    cdef dict found = {}
    for topic, partition in keys:
        found.setdefault(topic, set()).add(partition)
    return found


cdef class AdminOperations(Component):
    """The operations that remove offsets and groups, and list groups; each release decides them."""

    cdef int join_operations(self, Runtime runtime, OffsetStore store, settings) except -1:
        """Register the operations, and the kind of the clean-up's timer."""
        self.join_runtime(runtime, 1)
        runtime.register("offset_delete", self, decide_offset_delete, EVERY_TYPE)
        runtime.register("delete_groups", self, decide_delete_groups, NO_GROUP)
        runtime.register("delete_partitions", self, decide_delete_partitions, NO_GROUP)
        runtime.register("cleanup", self, decide_cleanup, NO_GROUP)
        runtime.register("list_groups", self, decide_list_groups, NO_GROUP)
        self.store = store
        self.check_interval_ms = settings["offsets.retention.check.interval.ms"]

    cdef int delete_offsets(self, int64_t id, Group group, str group_id, tuple keys) except -1:
        raise NotImplementedError

    cdef int delete_groups(self, int64_t id, tuple group_ids) except -1:
        raise NotImplementedError

    cdef int delete_partitions(self, tuple keys) except -1:
        raise NotImplementedError

    cdef int clean_up(self) except -1:
        raise NotImplementedError

    cdef int list_groups(self, int64_t id, tuple details) except -1:
        raise NotImplementedError


@cython.final
cdef class Admin(AdminOperations):
    """Removal of offsets and groups, and the list of groups. The clean-up has a timer."""

    def __cinit__(self, Runtime runtime not None, OffsetStore store not None, settings):
        self.join_operations(runtime, store, settings)
        if settings["coterie.cleanup"] == "periodic":
            self.arm_clean_up()

    cdef int arm_clean_up(self) except -1:
        """Arm the clean-up's timer, in the slot without an owner."""
        self.runtime.arm(NO_TIMER, self.first_kind, NO_OWNER, self.check_interval_ms)

    cdef int fired(self, int kind, object owner) except -1:
        # Armed before the clean-up, so that the rhythm does not depend on what it does.
        self.arm_clean_up()
        return self.clean_up()

    cdef int delete_offsets(self, int64_t id, Group group, str group_id, tuple keys) except -1:
        cdef int error = self.runtime.partitions.refusal(group_id, False)
        cdef dict errors = {key: NONE for key in keys}
        cdef OffsetMap offsets
        cdef list eligible
        if error == NONE:
            error = GROUP_ID_NOT_FOUND if group is None else (
                self.runtime.protocol_of(group).check_offset_delete(group, errors))
        if error != NONE:
            return self.runtime.respond(id, OFFSET_DELETE, error, None)
        eligible = [key for key, code in errors.items() if code == NONE]
        if eligible:
            offsets = self.store.find(group_id)
            self.write_tombstones(group, [] if offsets is None else offsets.drop(eligible))
        return self.runtime.respond(id, OFFSET_DELETE, NONE, tuple(errors.items()))

    cdef int delete_groups(self, int64_t id, tuple group_ids) except -1:
        cdef int error
        cdef Group group
        cdef OffsetMap offsets
        cdef list rows = []
        for group_id in dict.fromkeys(group_ids):
            error = self.runtime.partitions.refusal(group_id, True)
            if error == NONE:
                group = self.runtime.find(group_id)
                error = GROUP_ID_NOT_FOUND if group is None else (
                    self.runtime.protocol_of(group).delete_group(group))
            if error == NONE:
                offsets = self.store.find(group_id)
                self.write_tombstones(
                    group, [] if offsets is None else offsets.drop(offsets.keys()))
            rows.append((group_id, error))
        return self.runtime.respond(id, DELETE_GROUPS, NONE, tuple(rows))

    cdef int delete_partitions(self, tuple keys) except -1:
        cdef dict gone = partitions_by_topic(keys)
        cdef OffsetMap offsets
        for group in self.runtime.all_groups():
            offsets = self.store.find((<Group>group).group_id)
            self.write_tombstones(group, [] if offsets is None else offsets.drop(
                offsets.keys_among(gone) + offsets.pending_among(gone)))

    cdef int clean_up(self) except -1:
        cdef OffsetMap offsets
        cdef GroupProtocol protocol
        for group in self.runtime.all_groups():
            offsets = self.store.find((<Group>group).group_id)
            protocol = self.runtime.protocol_of(group)
            self.write_tombstones(
                group, [] if offsets is None else protocol.expire(group, offsets))

    cdef int write_tombstones(self, Group group, list removed) except -1:
        """Append the tombstones of removed offsets, and of the group if it ends now."""
        cdef GroupProtocol protocol = self.runtime.protocol_of(group)
        cdef OffsetMap offsets = self.store.find(group.group_id)
        cdef list group_keys = protocol.end_group(group, offsets is not None and offsets.has_any())
        cdef Batch batch
        removed.sort()
        batch = tombstones(group.group_id, removed, [] if group_keys is None else group_keys)
        if group_keys is not None:
            self.store.drop(group.group_id)
            protocol.drop_group(group)
        if batch.count:
            return self.runtime.append(describe(
                AppendOp.__new__(AppendOp), "tombstones", batch))

    cdef int list_groups(self, int64_t id, tuple details) except -1:
        cdef set names = {state.lower() for state in details[0]}
        cdef list rows = []
        cdef tuple row
        cdef int error = NONE
        for group in self.runtime.all_groups():
            row = self.runtime.protocol_of(group).overview(group)
            if not names or row[2].lower() in names:
                rows.append(row)
        if self.runtime.partitions.is_loading(-1):
            error = COORDINATOR_LOAD_IN_PROGRESS
        return self.runtime.respond(id, LIST_GROUPS, error, tuple(rows))
