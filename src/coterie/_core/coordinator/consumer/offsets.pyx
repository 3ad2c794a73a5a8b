"""Commits, transactions and fetches of the replaying coordinator (Kafka 4.x).

The records of a request are appended first; what was written changes the offsets. So nothing is
pending but what a transaction has not decided, and a failed append leaves no trace. Rows of a
commit are as in ``coordinator/offsets.pyx``; equal partitions of one commit are written each.
Source: OffsetMetadataManager.java. Rules: docs/rules/consumer-groups.md#offsets.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t

from coterie._core.codec.encode cimport (
    Writing, begin, end, put_i16, put_i32, put_i64, put_uvarint, written)
from coterie._core.coordinator.codes cimport (
    GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION, NONE,
    OFFSET_METADATA_TOO_LARGE, STALE_MEMBER_EPOCH, UNKNOWN_MEMBER_ID, UNKNOWN_SERVER_ERROR,
    UNSTABLE_OFFSET_COMMIT, write_error)
from coterie._core.coordinator.consumer.group cimport ConsumerGroup, ConsumerMember
from coterie._core.coordinator.consumer.pending cimport PendingWrites, Write, pending_writes
from coterie._core.coordinator.consumer.protocol cimport ConsumerProtocol
from coterie._core.coordinator.consumer.writes cimport (
    begin_write, respond_committed)
from coterie._core.coordinator.offset_store cimport OffsetStore
from coterie._core.coordinator.records cimport (
    begin_offset, end_value, put_raw, put_string)
from coterie._core.coordinator.runtime cimport (
    CONSUMER, EVERY_TYPE, FINISHED, NOT_COMMITTED, NO_GROUP, OTHER,
    AppendStatus, Group, Runtime)
from coterie._core.coordinator.sink cimport Batch, batch_of, new_batch
from coterie._core.structures.expiry cimport NO_TIME
from coterie._core.structures.offsets cimport Offset, OffsetMap, make_offset

from coterie._core.coordinator.offsets import MARKERS
from coterie.operations import NUMBER

cdef enum:
    NO_PRODUCER = -1
    NO_EPOCH = -1
    NO_RETENTION = -1
    MEMBER_EPOCHS_SINCE = 9        # version of OffsetCommit

cdef int OFFSET_FETCH = NUMBER["offset_fetch"], TXN_OFFSET_COMMIT = NUMBER["txn_offset_commit"]


cdef int decide_commit(component, int op, int64_t id, Group group, str group_id,
                       int32_t generation_id, str member_id, str instance,
                       tuple details) except -1:
    return (<ReplayedOffsets>component).commit(id, op, group, group_id, generation_id, member_id,
                                               instance, details)


cdef int decide_offset_fetch(component, int op, int64_t id, Group group, str group_id,
                             int32_t generation_id, str member_id, str instance,
                             tuple details) except -1:
    return (<ReplayedOffsets>component).fetch(id, group_id, details)


cdef int decide_end_txn(component, int op, int64_t id, Group group, str group_id,
                        int32_t generation_id, str member_id, str instance,
                        tuple details) except -1:
    return (<ReplayedOffsets>component).end_txn(details[0], details[1])


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
    else:
        put_uvarint(w, 0)
    end_value(w, at)


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
                   str instance, int version) except? -7:
        """Whether this member may commit to the group."""
        if group is None:
            if generation_id < 0:
                return NONE
            if transactional or version < MEMBER_EPOCHS_SINCE:
                return ILLEGAL_GENERATION
            return GROUP_ID_NOT_FOUND
        if group.group_type == CONSUMER:
            return self.consumer.check_member_commit(
                <ConsumerGroup>group, generation_id, member_id, instance, transactional, version)
        if group.group_type == OTHER:
            return GROUP_ID_NOT_FOUND
        return self.runtime.protocol_of(group).check_commit(
            group, generation_id, member_id, instance, transactional)

    cdef int commit(self, int64_t id, int op, Group group, str group_id, int32_t generation_id,
                    str member_id, str instance, tuple details) except -1:
        cdef bint transactional = op == TXN_OFFSET_COMMIT
        cdef tuple rows = details[0]
        cdef int64_t producer_id = details[1], retention_ms = NO_RETENTION
        cdef int64_t now_ms = self.runtime.wheel.clock_ms
        cdef int16_t epoch = details[2]
        cdef int version = MEMBER_EPOCHS_SINCE, error
        cdef list entries = []
        cdef tuple answers
        cdef Batch batch
        if len(details) > 3:
            version, retention_ms = details[3], details[4]
        error = self.runtime.partitions.refusal(group_id, not transactional)
        if error == NONE:
            error = self.check(group, transactional, generation_id, member_id, instance, version)
        if error != NONE:
            return self.runtime.respond(id, op, NONE, tuple([(row[0], error) for row in rows]))
        if group is not None:
            self.consumer.rebalances.show(group)
        else:                              # it stays, whatever is written
            self.runtime.writes.change_unwritten(group_id)
            self.runtime.protocol_of(None).create_group(group_id)
        for row in rows:
            _, offset, leader_epoch, metadata, stamped, expiry = <tuple?>row
            entries.append(None if utf16_length(metadata) > self.max_metadata else make_offset(
                offset, leader_epoch, metadata, now_ms if stamped is None else stamped,
                now_ms + retention_ms if retention_ms != NO_RETENTION else expiry, -1))
        batch = self.encode(group_id, rows, entries)
        if transactional and producer_id != NO_PRODUCER and batch.count:
            if epoch == NO_EPOCH:          # Kafka throws in MemoryRecordsBuilder
                return self.runtime.respond(id, op, NONE, tuple([
                    (row[0], UNKNOWN_SERVER_ERROR) for row in rows]))
            batch.transactional, batch.producer_id, batch.epoch = True, producer_id, epoch
        if batch.count:
            error = write_error(self.write(op, batch, rows, entries))
        answers = tuple([((<tuple>row)[0], OFFSET_METADATA_TOO_LARGE if entry is None else error)
                         for row, entry in zip(rows, entries)])
        if error != NONE:
            return self.runtime.respond(id, op, NONE, answers)
        return respond_committed(self.consumer, (group_id,), id, op, answers,
                                 [row[0] for row in rows] if self.runtime.writes.pending else None)

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
            keys = tuple(sorted(() if offsets is None else offsets.keys()))
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
