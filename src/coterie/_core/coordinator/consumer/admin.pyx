"""OffsetDelete, DeleteGroups, the clean-up, ListGroups of the replaying coordinator (Kafka 4.x).

The tombstones of one request are one batch, over all groups by id; of each group first those of
its offsets, then its own. Cost: a clean-up and a ListGroups are one pass over the groups.
Source: GroupCoordinatorService.java, OffsetMetadataManager.java (cleanupExpiredOffsets).
Rules: docs/rules/consumer-groups.md#administration.
"""
cimport cython
from libc.stdint cimport int64_t

from coterie._core.coordinator.admin cimport (
    DELETE_GROUPS, LIST_GROUPS, OFFSET_DELETE, AdminOperations, partitions_by_topic)
from coterie._core.coordinator.codes cimport (
    COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND, NONE, NOT_COORDINATOR, write_error)
from coterie._core.coordinator.consumer.pending cimport Waiting, pending_writes
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol
from coterie._core.coordinator.consumer.values cimport utf16_sorted
from coterie._core.coordinator.consumer.writes cimport respond_committed, write_all
from coterie._core.coordinator.offset_store cimport OffsetStore
from coterie._core.coordinator.runtime cimport NO_OWNER, NO_TIMER, OTHER, Group, Runtime
from coterie._core.structures.offsets cimport Offset, OffsetMap

from coterie._core.coordinator.consumer.values import utf16_units


def key_order(tuple key not None):
    return utf16_units(key[0]), key[1]


cdef list in_key_order(list committed, list undecided):
    """Keys of committed offsets, then of undecided ones; a key may come twice."""
    return sorted(committed, key=key_order) + sorted(undecided, key=key_order)


@cython.final
cdef class Deletion(Waiting):
    """A DeleteGroups that waits for earlier writes."""

    cdef ReplayedAdmin admin
    cdef int64_t id
    cdef tuple group_ids

    cdef int completed(self, int error) except -1:
        if error != NONE:
            return self.admin.refuse_deletion(self.id, self.group_ids, write_error(error))
        return self.admin.delete_committed(self.id, self.group_ids)


@cython.final
cdef class CleanedUp(Waiting):
    """A clean-up: if it is not committed in time, the interval begins anew."""

    cdef ReplayedAdmin admin

    cdef int completed(self, int error) except -1:
        if error in (NONE, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS):
            return 0
        return self.admin.arm_clean_up()


@cython.final
cdef class ReplayedAdmin(AdminOperations):
    """Removal of offsets and groups, and the list of groups. The clean-up has a timer."""

    def __cinit__(self, Runtime runtime not None, OffsetStore store not None,
                  ConsumerProtocol consumer not None, settings):
        self.join_operations(runtime, store, settings)
        self.consumer = consumer
        self.retention_ms = 60000 * <int64_t>settings["offsets.retention.minutes"]
        self.periodic = settings["coterie.cleanup"] == "periodic"
        self.timer = NO_TIMER
        self.arm_clean_up()

    cdef int arm_clean_up(self) except -1:
        """Let the clean-up run one interval from now."""
        if self.periodic:
            self.timer = self.runtime.arm(self.timer, self.first_kind, NO_OWNER,
                                          self.check_interval_ms)

    cdef int fired(self, int kind, object owner) except -1:
        cdef CleanedUp cleaned_up = CleanedUp.__new__(CleanedUp)
        cleaned_up.admin = self
        self.timer = NO_TIMER
        self.clean_up()
        return pending_writes(self.consumer).wait(tuple(self.runtime.groups), cleaned_up)

    cdef int loaded(self, object content, object load_filter) except -1:
        """Begin the rhythm anew."""
        return self.arm_clean_up()

    cdef int delete_offsets(self, int64_t id, Group group, str group_id, tuple keys) except -1:
        cdef int error = self.runtime.partitions.refusal(group_id, False)
        cdef dict errors = dict.fromkeys(keys, NONE)
        cdef OffsetMap offsets
        cdef list gone = []
        cdef tuple payload
        if error == NONE:
            error = GROUP_ID_NOT_FOUND if group is None or group.group_type == OTHER else (
                self.runtime.protocol_of(group).check_offset_delete(group, errors))
        if error != NONE:
            return self.runtime.respond(id, OFFSET_DELETE, error, None)
        offsets = self.store.find(group_id)
        for key in keys:
            if errors[key] == NONE and offsets is not None and (
                    offsets.find(key) is not None or offsets.unstable(key)):
                gone.append(key)
        error = write_error(write_all(self.consumer, [(group_id, gone, [])]))
        if error != NONE:
            return self.runtime.respond(id, OFFSET_DELETE, error, None)
        payload = tuple([(key, errors[key]) for key in keys])
        return respond_committed(self.consumer, (group_id,), id, OFFSET_DELETE, payload, None)

    cdef int delete_groups(self, int64_t id, tuple group_ids) except -1:
        """Delete once what is pending is committed: Kafka deletes share groups in a write before.

        Source: GroupCoordinatorService.java (deleteGroups, deleteShareGroups).
        """
        cdef Deletion deletion = Deletion.__new__(Deletion)
        deletion.admin, deletion.id, deletion.group_ids = self, id, group_ids
        return pending_writes(self.consumer).wait(group_ids, deletion)

    cdef int delete_committed(self, int64_t id, tuple group_ids) except -1:
        cdef int error
        cdef Group group
        cdef OffsetMap offsets
        cdef dict errors = {}
        cdef list writes = []
        for group_id in dict.fromkeys(group_ids):
            error = self.runtime.partitions.refusal(group_id, True)
            if error == NONE:
                group = self.runtime.find(group_id)
                error = GROUP_ID_NOT_FOUND if group is None else (
                    self.consumer.deletion_error(group))
            errors[group_id] = error
        for group_id in utf16_sorted([each for each, code in errors.items() if code == NONE]):
            group = self.runtime.find(group_id)
            offsets = self.store.find(group_id)
            writes.append((group_id, [] if offsets is None else list(dict.fromkeys(in_key_order(
                offsets.keys(), [key for undecided in offsets.pending_by_producer.values()
                                 for key in undecided]))), self.consumer.end_records(group)))
        error = write_error(write_all(self.consumer, writes))
        if error != NONE:
            self.refuse_deletion(id, group_ids, error)
        else:
            respond_committed(self.consumer, tuple(errors), id, DELETE_GROUPS,
                              tuple(errors.items()), list(errors))
        return self.consumer.finish_event()

    cdef int refuse_deletion(self, int64_t id, tuple group_ids, int error) except -1:
        """Answer a deletion that cannot be written: each of its groups gets the error."""
        return self.runtime.respond(id, DELETE_GROUPS, NONE, tuple([
            (group_id, self.runtime.partitions.refusal(group_id, True) or error)
            for group_id in dict.fromkeys(group_ids)]))

    cdef int delete_partitions(self, tuple keys) except -1:
        cdef dict gone = partitions_by_topic(keys), found = {}
        cdef OffsetMap offsets
        cdef list deleted
        for group_id, each in self.store.maps.items():
            offsets = <OffsetMap>each
            deleted = in_key_order(offsets.keys_among(gone), offsets.pending_among(gone))
            if deleted:
                found[group_id] = deleted
        write_all(self.consumer, [(group_id, found[group_id], [])
                                  for group_id in utf16_sorted(found)])

    cdef int clean_up(self) except -1:
        cdef list writes = [], expired, records
        cdef Group group
        for group_id in utf16_sorted(self.runtime.groups):
            group = self.runtime.find(group_id)
            self.consumer.rebalances.show(group)
            expired, records = [], []
            if self.expire(group, expired) and self.consumer.deletion_error(group) == NONE:
                records = self.consumer.end_records(group)
            if expired or records:
                writes.append((group_id, expired, records))
        write_all(self.consumer, writes)
        self.arm_clean_up()
        return self.consumer.finish_event()

    cdef bint expire(self, Group group, list expired) except -1:
        """Add the keys of expired offsets; whether nothing is left and nothing undecided."""
        cdef OffsetMap offsets = self.store.find(group.group_id)
        cdef Offset entry
        cdef int64_t now_ms = self.runtime.wheel.clock_ms, base_ms
        cdef bint left = False
        cdef object since
        if offsets is None:
            return True
        since = self.consumer.expires_since(group)    # None: now no offset expires
        if since is None and offsets.count:
            return False
        for key in sorted(offsets.keys(), key=key_order):
            entry = offsets.find(key)
            if self.consumer.subscribes(group, key[0]) or offsets.unstable(key):
                left = True
                continue
            base_ms = since if since >= 0 else entry.commit_timestamp
            if (now_ms >= entry.expire_timestamp if entry.expire_timestamp != -1
                    else now_ms - base_ms >= self.retention_ms):
                expired.append(key)
            else:
                left = True
        return not left and not any(offsets.pending_by_producer.values())

    cdef int list_groups(self, int64_t id, tuple details) except -1:
        cdef set states = {state.lower() for state in details[0]}
        cdef set types = {each.lower() for each in details[1]}
        cdef list rows = []
        cdef tuple row
        for group_id in utf16_sorted(pending_writes(self.consumer).group_ids()):
            row = self.consumer.listed(group_id)
            if row is not None and (not states or row[2].lower() in states) and (
                    not types or row[3] in types):
                rows.append(row)
        return self.runtime.respond(
            id, LIST_GROUPS, COORDINATOR_LOAD_IN_PROGRESS
            if self.runtime.partitions.is_loading(-1) else NONE, tuple(rows))
