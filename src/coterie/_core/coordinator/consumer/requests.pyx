"""Offsets, administration, clean-up and descriptions of the coordinator since Kafka 4.1.

The tombstones of one request are one batch, over all groups by id; of each group first those of its
offsets, then its own.
Source: OffsetMetadataManager.java, GroupCoordinatorService.java.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t

from coterie._core.codec.layout cimport (
    Writing, begin, end, put_i16, put_i32, put_i64, put_uvarint, written)
from coterie._core.coordinator.codes cimport (
    COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION, NONE, NOT_COORDINATOR,
    OFFSET_METADATA_TOO_LARGE, STALE_MEMBER_EPOCH, UNKNOWN_MEMBER_ID, UNKNOWN_SERVER_ERROR,
    UNSTABLE_OFFSET_COMMIT, UNSUPPORTED_VERSION, write_error)
from coterie._core.coordinator.consumer.group cimport (
    DELETED_BY_ID, PARTITION_EPOCHS, PENDING_IS_SHOWN, TXN_TOPIC_IDS, ConsumerGroup, ConsumerMember,
    preferred)
from coterie._core.coordinator.consumer.group import assignment_from
from coterie._core.coordinator.consumer.protocol cimport (
    ConsumerProtocol, PendingWrites, Waiting, Write, begin_write, pending_writes, respond_committed,
    write_all)
from coterie._core.coordinator.consumer.values cimport (
    Assignment, MemberFields, TopicId, utf16_sorted)
from coterie._core.coordinator.consumer.values import utf16_units
from coterie._core.coordinator.offsets cimport (
    DELETE_GROUPS, LIST_GROUPS, OFFSET_DELETE, AdminOperations, partitions_by_topic)
from coterie._core.coordinator.offsets import MARKERS
from coterie._core.coordinator.runtime cimport (
    CONSUMER, EVERY_TYPE, FINISHED, NOT_COMMITTED, NO_GROUP, NO_OWNER, NO_TIMER, OTHER,
    AppendStatus, Batch, Group, OffsetStore, Runtime, batch_of, begin_offset, end_value, new_batch,
    put_raw, put_string, Operation)
from coterie._core.structures.expiry cimport NO_TIME
from coterie._core.structures.offsets cimport Offset, OffsetMap, make_offset

from coterie.base.operations import NUMBER


# ---- consumerGroupDescribe: what is committed of each group --------------------------------------

cdef int DESCRIBE = NUMBER["consumer_group_describe"]


cdef int decide_describe(component, Operation op) except -1:
    return answer_describe(<ConsumerProtocol>component, op.id, op.details)


cdef int answer_describe(ConsumerProtocol protocol, int64_t id, tuple group_ids) except -1:
    return protocol.runtime.respond(id, DESCRIBE, NONE, tuple([
        described(protocol, group_id) for group_id in group_ids]))


cdef tuple described(ConsumerProtocol protocol, str group_id):
    """(id, error, state, epoch, target epoch, assignor, members), of what is committed."""
    cdef int error = protocol.runtime.partitions.refusal(group_id, False)
    cdef Group group
    if error == NONE:
        group = protocol.runtime.writes.committed(group_id)
        if group is not None and group.group_type == CONSUMER:
            return group_row(protocol, <ConsumerGroup>group)
        error = GROUP_ID_NOT_FOUND
    return (group_id, error, "", 0, 0, "", ())


cdef tuple group_row(ConsumerProtocol protocol, ConsumerGroup group):
    """A group as it is."""
    cdef ConsumerMember member
    return (group.group_id, NONE, group.state, group.epoch, group.target_epoch,
            preferred(group.assignor_count, protocol.assignors),
            tuple([described_member(protocol, member) for member in group.order]))


cdef tuple described_member(ConsumerProtocol protocol, ConsumerMember member):
    cdef MemberFields fields = member.fields
    return (member.member_id, fields.instance_id, fields.rack_id, member.epoch,
            fields.client_id, fields.client_host, fields.names.ordered, fields.regex,
            0 if fields.classic is not None else 1, named(protocol, member.assigned)
            if not protocol.rules & PENDING_IS_SHOWN or not member.revoking.count
            else named(protocol, joined(member.assigned, member.revoking)),
            named(protocol, member.target))


cdef Assignment joined(Assignment one, Assignment other):
    """The partitions of both."""
    cdef dict by_topic = one.epochs_by_topic()
    for topic, epochs in other.epochs_by_topic().items():
        by_topic[topic] = sorted({**by_topic.get(topic, {}), **epochs})
    return assignment_from(by_topic, False)


cdef tuple named(ConsumerProtocol protocol, Assignment assignment):
    """An assignment with names, without topics that are gone."""
    cdef TopicId topic
    cdef list rows = []
    if assignment is None:
        return ()
    for topic, (raw, partitions) in zip(assignment.topics, assignment.rows()):
        if topic.name is not None:
            rows.append((raw, topic.name, partitions))
    return tuple(rows)


# ---- admin ---------------------------------------------------------------------------------------
# OffsetDelete, DeleteGroups, the clean-up, ListGroups of the replaying coordinator (Kafka 4.x).
# The tombstones of one request are one batch, over all groups by id; of each group first those of
# its offsets, then its own. Cost: a clean-up and a ListGroups are one pass over the groups.
# Source: GroupCoordinatorService.java, OffsetMetadataManager.java (cleanupExpiredOffsets).
# Rules: docs/rules/consumer-groups.md#administration.

def key_order(tuple key not None):
    return utf16_units(key[0]), key[1]


cdef list in_key_order(list committed, list undecided):
    """Keys of committed offsets, then of undecided ones; a key may come twice."""
    return sorted(committed, key=key_order) + sorted(undecided, key=key_order)


cdef int decide_metadata(component, Operation op) except -1:
    cdef ReplayedAdmin admin = <ReplayedAdmin>component
    cdef list gone = admin.consumer.update_metadata(*op.details)
    if gone and admin.consumer.rules & DELETED_BY_ID:
        admin.delete_topics(gone)
    return admin.consumer.finish_event()


cdef list deleted_keys(bytes topic_id, str topic, entries):
    """The keys of a topic's offsets that are of this id or of none, by partition."""
    return sorted([(topic, partition) for partition, entry in entries
                   if (<Offset>entry).topic_id is None or (<Offset>entry).topic_id == topic_id])


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
        runtime.register("metadata", self, decide_metadata, NO_GROUP)
        runtime.register("consumer_group_describe", consumer, decide_describe, NO_GROUP)
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
                              tuple(errors.items()), list(errors.items()))
        return self.consumer.finish_event()

    cdef int refuse_deletion(self, int64_t id, tuple group_ids, int error) except -1:
        """Answer a deletion that cannot be written: each of its groups gets the error."""
        return self.runtime.respond(id, DELETE_GROUPS, NONE, tuple([
            (group_id, self.runtime.partitions.refusal(group_id, True) or error)
            for group_id in dict.fromkeys(group_ids)]))

    cdef int delete_topics(self, list gone) except -1:
        """Delete the offsets of deleted topics; of another topic of the name they stay.

        Source: OffsetMetadataManager.java (onTopicsDeleted).
        """
        cdef list writes = [], keys
        cdef set producers = set()
        cdef OffsetMap offsets
        cdef dict undecided
        for group_id in utf16_sorted(self.store.maps):
            offsets = <OffsetMap>self.store.maps[group_id]
            producers.update(offsets.pending_by_producer)
            keys = []
            for raw, topic in gone:
                keys += deleted_keys(raw, topic, offsets.topics.get(topic, {}).items())
            if keys:
                writes.append((group_id, keys, []))
        for producer_id in sorted(producers):
            for group_id in utf16_sorted(self.store.maps):
                offsets = <OffsetMap>self.store.maps[group_id]
                undecided = offsets.pending_by_producer.get(producer_id, {})
                keys = []
                for raw, topic in gone:
                    keys += deleted_keys(raw, topic, [
                        (key[1], entry) for key, entry in undecided.items() if key[0] == topic])
                if keys:
                    writes.append((group_id, keys, []))
        write_all(self.consumer, writes)

    cdef int delete_partitions(self, tuple keys) except -1:
        cdef dict gone = partitions_by_topic(keys), found = {}
        cdef OffsetMap offsets
        cdef list deleted
        if self.consumer.rules & DELETED_BY_ID:
            return 0                       # only topics are deleted, by a new image
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


# ---- commits, transactions and fetches of the replaying coordinator (Kafka 4.x) ------------------
# The records of a request are appended first; what was written changes the offsets. So nothing is
# pending but what a transaction has not decided, and a failed append leaves no trace. Rows of a
# commit are as in ``coordinator/offsets.pyx``; equal partitions of one commit are written each.
# Source: OffsetMetadataManager.java. Rules: docs/rules/consumer-groups.md#offsets.

cdef enum:
    NO_PRODUCER = -1
    NO_EPOCH = -1
    NO_RETENTION = -1
    MEMBER_EPOCHS_SINCE = 9        # version of OffsetCommit
    TXN_VERSION = 4                # of TxnOffsetCommit, where none is named
    TXN_ERRORS_SINCE = 6           # version with errors of its own
    TOPIC_ID = 6                   # where the row of a commit may have it
    TOPIC_ID_SIZE = 16

cdef int OFFSET_FETCH = NUMBER["offset_fetch"], TXN_OFFSET_COMMIT = NUMBER["txn_offset_commit"]


cdef int decide_commit(component, Operation op) except -1:
    return (<ReplayedOffsets>component).commit(op.id, op.number, op.group, op.group_id,
                                               op.generation_id, op.member_id, op.instance,
                                               op.details)


cdef int decide_offset_fetch(component, Operation op) except -1:
    return (<ReplayedOffsets>component).fetch(op.id, op.group_id, op.details)


cdef int decide_end_txn(component, Operation op) except -1:
    return (<ReplayedOffsets>component).end_txn(op.details[0], op.details[1])


cdef Py_ssize_t utf16_length(str text) except -1:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


cdef int put_offset(Writing* w, str group_id, tuple key, Offset entry) except -1:
    """An offset's record: value version 4, or 1 with an expiry."""
    cdef Py_ssize_t at = begin_offset(w, group_id, key)
    cdef bint explicit = entry.expire_timestamp != NO_TIME
    cdef bytes raw
    put_i16(w, 1 if explicit else 4)
    put_i64(w, entry.offset)
    if explicit:
        put_string(w, entry.metadata)
    else:
        put_i32(w, entry.leader_epoch)
        raw = entry.metadata.encode("utf-8", "replace")
        put_uvarint(w, <unsigned int>(PyBytes_GET_SIZE(raw) + 1))
        put_raw(w, PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw))
    put_i64(w, entry.commit_timestamp)
    if explicit:
        put_i64(w, entry.expire_timestamp)
    elif entry.topic_id is None:
        put_uvarint(w, 0)
    else:
        put_uvarint(w, 1)
        put_uvarint(w, 0)
        put_uvarint(w, TOPIC_ID_SIZE)
        put_raw(w, PyBytes_AS_STRING(entry.topic_id), TOPIC_ID_SIZE)
    end_value(w, at)


cdef tuple answer_row(tuple row, int error, bint with_id):
    """The answer for a row of a commit; with the topic's id if the request has it."""
    if with_id and len(row) > TOPIC_ID:
        return (row[0], error, row[TOPIC_ID])
    return (row[0], error)


@cython.final
cdef class ReplayedOffsets:
    """Offsets of groups of every type."""

    def __cinit__(self, Runtime runtime not None, OffsetStore store not None,
                  ConsumerProtocol consumer not None, settings):
        self.runtime = runtime
        self.store = store
        self.consumer = consumer
        self.max_metadata = settings["offset.metadata.max.bytes"]
        runtime.register("offset_commit", self, decide_commit, EVERY_TYPE)
        runtime.register("txn_offset_commit", self, decide_commit, EVERY_TYPE)
        runtime.register("offset_fetch", self, decide_offset_fetch, EVERY_TYPE)
        runtime.register("end_txn", self, decide_end_txn, NO_GROUP)

    cdef int check(self, Group group, bint transactional, int32_t generation_id, str member_id,
                   str instance, int version, tuple rows) except? -7:
        """Whether this member may commit to the group."""
        if group is None:
            if generation_id < 0:
                return NONE
            if version < (TXN_ERRORS_SINCE if transactional else MEMBER_EPOCHS_SINCE):
                return ILLEGAL_GENERATION
            return GROUP_ID_NOT_FOUND
        if group.group_type == CONSUMER:
            return self.check_member(<ConsumerGroup>group, generation_id, member_id, instance,
                                     transactional, version, rows)
        if group.group_type == OTHER:
            return GROUP_ID_NOT_FOUND
        return self.runtime.protocol_of(group).check_commit(
            group, generation_id, member_id, instance, transactional)

    cdef int check_member(self, ConsumerGroup group, int32_t generation_id, str member_id,
                          str instance, bint transactional, int version,
                          tuple rows) except? -7:
        """Whether a member of a consumer group may commit these rows."""
        cdef ConsumerMember member
        if transactional and not member_id and generation_id == -1 and instance is None:
            return NONE
        if generation_id < 0 and not group.members:
            return NONE
        member = group.members.get(member_id)
        if member is None:
            return UNKNOWN_MEMBER_ID
        if not transactional and member.fields.classic is None and version < MEMBER_EPOCHS_SINCE:
            return UNSUPPORTED_VERSION
        if member.epoch == generation_id or (
                generation_id < member.epoch and group.rules & PARTITION_EPOCHS
                and self.had_all(member, generation_id, transactional, rows)):
            return NONE
        if member.fields.classic is not None or transactional and version < TXN_ERRORS_SINCE:
            return ILLEGAL_GENERATION
        return STALE_MEMBER_EPOCH

    cdef bint had_all(self, ConsumerMember member, int32_t epoch, bint transactional,
                      tuple rows) except -1:
        """Whether a member has had the partitions of these rows since an epoch.

        Source: ConsumerGroup.java (createAssignmentEpochValidator).
        """
        cdef bint by_name = transactional and not self.consumer.rules & TXN_TOPIC_IDS
        cdef TopicId topic
        cdef Assignment assignment
        cdef int32_t at, partition
        for row in rows:
            if utf16_length(row[3]) > self.max_metadata:
                continue                   # it is refused by itself
            name, partition = row[0]
            topic = (self.consumer.image.topics.get(name) if by_name
                     else self.consumer.image.ids.get(row[TOPIC_ID]) if len(row) > TOPIC_ID
                     else None)
            if topic is None:
                return False
            assignment = member.assigned
            at = assignment.place(topic, partition)
            if at < 0:
                assignment = member.revoking
                at = assignment.place(topic, partition)
            if at < 0 or epoch < assignment.epochs[at]:
                return False
        return True

    cdef int commit(self, int64_t id, int op, Group group, str group_id, int32_t generation_id,
                    str member_id, str instance, tuple details) except -1:
        cdef bint transactional = op == TXN_OFFSET_COMMIT
        cdef tuple rows = details[0]
        cdef int64_t producer_id = details[1], retention_ms = NO_RETENTION
        cdef int64_t now_ms = self.runtime.wheel.clock_ms
        cdef int16_t epoch = details[2]
        cdef int version = TXN_VERSION if transactional else MEMBER_EPOCHS_SINCE, error
        cdef bint with_ids = not transactional or self.consumer.rules & TXN_TOPIC_IDS
        cdef list entries = []
        cdef tuple answers
        cdef Batch batch
        if len(details) > 3 and with_ids:
            version = details[3]
            if not transactional:
                retention_ms = details[4]
        error = self.runtime.partitions.refusal(group_id, not transactional)
        if error == NONE:
            error = self.check(group, transactional, generation_id, member_id, instance, version,
                               rows)
        if error != NONE:
            return self.runtime.respond(id, op, NONE, tuple([
                answer_row(<tuple?>row, error, with_ids) for row in rows]))
        if group is not None:
            self.consumer.rebalances.show(group)
        else:                              # it stays, whatever is written
            self.runtime.writes.change_unwritten(group_id)
            self.runtime.protocol_of(None).create_group(group_id)
        for row in rows:
            entries.append(self.entry_of(<tuple?>row, now_ms, retention_ms, with_ids))
        batch = self.encode(group_id, rows, entries)
        if transactional and producer_id != NO_PRODUCER and not batch.count:
            # Its marker comes to the partition of each group that is in the transaction.
            self.store.open_transaction(producer_id, group_id)
        elif transactional and producer_id != NO_PRODUCER:
            if epoch == NO_EPOCH:          # Kafka throws in MemoryRecordsBuilder
                return self.runtime.respond(id, op, NONE, tuple([
                    answer_row(<tuple?>row, UNKNOWN_SERVER_ERROR, with_ids) for row in rows]))
            batch.transactional, batch.producer_id, batch.epoch = True, producer_id, epoch
        if batch.count:
            error = write_error(self.write(op, batch, rows, entries))
        answers = tuple([
            answer_row(<tuple?>row, OFFSET_METADATA_TOO_LARGE if entry is None else error, with_ids)
            for row, entry in zip(rows, entries)])
        if error != NONE:
            return self.runtime.respond(id, op, NONE, answers)
        return respond_committed(self.consumer, (group_id,), id, op, answers,
                                 list(answers) if self.runtime.writes.pending else None)

    cdef Offset entry_of(self, tuple row, int64_t now_ms, int64_t retention_ms, bint with_id):
        """The offset of a row; None if its metadata is too large."""
        cdef Offset entry
        cdef bint has_id = len(row) > TOPIC_ID
        _, offset, leader_epoch, metadata, stamped, expiry = row[:TOPIC_ID] if has_id else row
        if utf16_length(metadata) > self.max_metadata:
            return None
        entry = make_offset(
            offset, leader_epoch, metadata, now_ms if stamped is None else stamped,
            now_ms + retention_ms if retention_ms != NO_RETENTION else expiry, -1)
        if with_id and has_id:
            entry.topic_id = row[TOPIC_ID]
        return entry

    cdef int write(self, int op, Batch batch, tuple rows, list entries) except *:
        """Append the offsets of a commit and apply them; the log's error."""
        cdef int64_t position
        cdef int error
        cdef Write write
        cdef OffsetMap offsets
        cdef Offset entry
        cdef dict undecided = None
        cdef AppendStatus status = self.runtime.write(batch, &error, &position)
        if error != NONE:
            if not batch.transactional:
                pending_writes(self.consumer).list_twice(batch.group_id, [
                    (<tuple>row)[0] for row, each in zip(rows, entries) if each is not None], False)
            return error
        if status != FINISHED:
            write = begin_write(
                self.consumer, "txn_offset_commit" if op == TXN_OFFSET_COMMIT else "offset_commit",
                batch, status, (batch.group_id,))
            write.offsets += [entry for entry in entries if entry is not None]
            if not write.in_log:
                position = pending_writes(self.consumer).next_position()
        offsets = self.store.map_of(batch.group_id)
        if batch.transactional:
            undecided = offsets.undecided(batch.producer_id)
            self.store.open_transaction(batch.producer_id, batch.group_id)
        for row, each in zip(rows, entries):
            if each is None:
                continue
            entry = <Offset>each
            entry.position = position
            if undecided is not None:
                undecided[(<tuple>row)[0]] = entry
            else:
                offsets.set_offset((<tuple>row)[0], entry)
        return NONE

    cdef Batch encode(self, str group_id, tuple rows, list entries):
        cdef Writing w
        cdef Py_ssize_t n, count = 0
        begin(&w)
        try:
            for n in range(len(rows)):
                if entries[n] is not None:
                    put_offset(&w, group_id, <tuple?>(<tuple?>rows[n])[0], <Offset>entries[n])
                    count += 1
            return new_batch(group_id, count, written(&w))
        finally:
            end(&w)

    cdef int end_txn(self, int64_t producer_id, bint committed) except -1:
        """Append a marker; it decides the offsets of each group of the transaction."""
        cdef OffsetMap offsets
        cdef PendingWrites writes = pending_writes(self.consumer)
        cdef Write write
        cdef set partitions
        cdef AppendStatus status
        cdef int error
        cdef int64_t position
        cdef tuple group_ids
        cdef Batch marker = batch_of((MARKERS[committed],))
        marker.producer_id = producer_id
        marker.epoch = 0
        marker.transactional = marker.control = True
        group_ids = tuple(self.store.open_groups.get(producer_id, ()))
        partitions = writes.places_of(group_ids)
        status = self.runtime.write(marker, &error, &position)
        if status == FINISHED:
            for partition in partitions:
                writes.wrote_in(partition, error)
            if error != NONE:
                return 0                   # no marker was written: nothing is decided
        else:
            write = begin_write(self.consumer, "end_txn", marker, status, group_ids)
            write.partitions |= partitions
        self.store.open_groups.pop(producer_id, None)
        for group_id in group_ids:
            offsets = self.store.find(group_id)
            if offsets is not None:
                offsets.complete_txn(producer_id, committed)
        if status == NOT_COMMITTED:            # it may be that nothing is before it
            writes.commit()

    cdef int check_fetch(self, Group group, str member_id, int32_t epoch) except? -7:
        cdef ConsumerMember member
        if group is None or group.group_type != CONSUMER or (member_id is None and epoch < 0):
            return NONE
        if member_id is None:              # a null key: TimelineHashMap throws
            return UNKNOWN_SERVER_ERROR
        member = (<ConsumerGroup>group).members.get(member_id)
        if member is None:
            return UNKNOWN_MEMBER_ID
        if member.epoch != epoch:
            return ILLEGAL_GENERATION if member.fields.classic is not None else STALE_MEMBER_EPOCH
        return NONE

    cdef int fetch(self, int64_t id, str group_id, tuple details) except -1:
        cdef tuple keys = details[0]
        cdef bint stable = details[1]
        cdef str member_id = details[2] if len(details) > 2 else None
        cdef int32_t epoch = details[3] if len(details) > 2 else -1
        cdef int error = self.runtime.partitions.refusal(group_id, True)
        cdef Group group = (
            self.runtime.find(group_id) if stable else self.runtime.writes.committed(group_id))
        cdef OffsetMap offsets
        cdef Offset entry
        cdef list rows = []
        if error == NONE:
            error = self.check_fetch(group, member_id, epoch)
        if error != NONE:                  # that of a write is handled, and has partitions
            return self.runtime.respond(id, OFFSET_FETCH, error, None if stable else False)
        offsets = self.store.find(group_id)
        if not stable and self.runtime.writes.pending:
            offsets = pending_writes(self.consumer).committed_offsets(group_id)
        if group is None:                  # its offsets may be there without it
            offsets = None
        if keys is None:
            keys = () if offsets is None else tuple(sorted(offsets.keys())) if stable else (
                pending_writes(self.consumer).listed(group_id, offsets.keys()))
        for key in keys:
            entry = None
            error = NONE
            if offsets is not None:
                if stable and offsets.unstable(key):
                    error = UNSTABLE_OFFSET_COMMIT
                else:
                    entry = offsets.find(key)
            rows.append((key[0], key[1], -1, -1, "", error) if entry is None else
                        (key[0], key[1], entry.offset, entry.leader_epoch, entry.metadata,
                         error))
        if stable:
            return respond_committed(self.consumer, (group_id,), id, OFFSET_FETCH, tuple(rows),
                                     None)
        return self.runtime.respond(id, OFFSET_FETCH, NONE, tuple(rows))
