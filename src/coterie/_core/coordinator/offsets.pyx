"""OffsetCommit, TxnOffsetCommit, markers of transactions, OffsetFetch, for groups of every type.

A row of a commit is ((topic, partition), offset, leader epoch, metadata, commit time or None,
expiry or -1). The protocol of the group checks the member; the OffsetMap decides what is pending
and what readers see. Here are the limits of metadata and the appends. Cost: O(1) a partition.
Source: GroupCoordinator.scala, GroupMetadataManager.scala, OffsetMetadataManager.java.
Rules: docs/rules/coordinator.md#commits, docs/rules/offsets.md#plain-commits to #fetch.
"""
cimport cython
from libc.stdint cimport int16_t, int32_t, int64_t

from coterie._core.coordinator.codes cimport (
    ILLEGAL_GENERATION, NONE, OFFSET_METADATA_TOO_LARGE, UNKNOWN_SERVER_ERROR,
    UNSTABLE_OFFSET_COMMIT, commit_error)
from coterie._core.coordinator.offset_store cimport OffsetStore
from coterie._core.coordinator.records cimport LONGEST, commit_batch, utf8_length
from coterie._core.coordinator.runtime cimport (
    EVERY_TYPE, FINISHED, NO_GROUP, NOT_WRITTEN, AppendOp, AppendStatus, Group, Runtime, describe)
from coterie._core.coordinator.sink cimport FAILED, Batch, batch_of
from coterie._core.structures.offsets cimport Offset, OffsetMap, make_offset

from coterie.errors import ArgumentError
from coterie.operations import NUMBER

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)

cdef enum:
    NO_PRODUCER = -1
    NO_EPOCH = -1

cdef int OFFSET_FETCH = NUMBER["offset_fetch"], TXN_OFFSET_COMMIT = NUMBER["txn_offset_commit"]

# key and value of a transaction marker: version 0, then the type; version 0, coordinator epoch
MARKERS = {True: (b"\0\0\0\1", b"\0\0\0\0\0\0"), False: (b"\0\0\0\0", b"\0\0\0\0\0\0")}


cdef Py_ssize_t utf16_length(str text) except -1:
    """Java's String.length: characters beyond the first plane count twice."""
    cdef Py_ssize_t length = len(text)
    cdef Py_UCS4 character
    if not PyUnicode_IS_COMPACT_ASCII(text):
        for character in text:
            length += character > 0xFFFF
    return length


cdef bint ascends(tuple rows) except -1:
    """Whether the partitions are of one topic and ascend, so that none comes twice."""
    cdef Py_ssize_t n
    cdef tuple before, key
    for n in range(1, len(rows)):
        before, key = <tuple?>(<tuple?>rows[n - 1])[0], <tuple?>(<tuple?>rows[n])[0]
        if key[0] is not before[0] or <int32_t>key[1] <= <int32_t>before[1]:
            return False
    return True


cdef tuple answers(tuple rows, list entries, Batch batch, int error):
    """Return the payload of a response: the rows themselves if all were written."""
    if error == NONE and batch.count == len(rows):
        return rows
    return tuple([((<tuple?>row)[0], OFFSET_METADATA_TOO_LARGE if entry is None else error)
                  for row, entry in zip(rows, entries)])


@cython.final
cdef class CommitAppend(AppendOp):
    """The offsets of a commit; its request is answered when the append finishes."""

    cdef int on_deferred(self) except -1:
        return self.offsets.pend(self)

    cdef int on_finished(self, int error, int64_t position) except -1:
        return self.offsets.commit_finished(self, error, position)


cdef int decide_commit(component, int op, int64_t id, Group group, str group_id,
                       int32_t generation_id, str member_id, str instance,
                       tuple details) except -1:
    return (<Offsets>component).commit(id, op, group, group_id, generation_id, member_id,
                                       instance, details[0], details[1], details[2])


cdef int decide_offset_fetch(component, int op, int64_t id, Group group, str group_id,
                             int32_t generation_id, str member_id, str instance,
                             tuple details) except -1:
    return (<Offsets>component).fetch(id, group_id, details[0], details[1])


cdef int decide_end_txn(component, int op, int64_t id, Group group, str group_id,
                        int32_t generation_id, str member_id, str instance,
                        tuple details) except -1:
    return (<Offsets>component).end_txn(details[0], details[1])


@cython.final
cdef class Offsets:
    """Commits, transactions and fetches of groups of every type."""

    def __cinit__(self, Runtime runtime not None, OffsetStore store not None, settings):
        self.runtime = runtime
        self.store = store
        self.max_metadata = settings["offset.metadata.max.bytes"]
        runtime.register("offset_commit", self, decide_commit, EVERY_TYPE)
        runtime.register("txn_offset_commit", self, decide_commit, EVERY_TYPE)
        runtime.register("offset_fetch", self, decide_offset_fetch, EVERY_TYPE)
        runtime.register("end_txn", self, decide_end_txn, NO_GROUP)

    cdef int commit(self, int64_t id, int op, Group group, str group_id, int32_t generation_id,
                    str member_id, str instance, tuple rows, int64_t producer_id,
                    int16_t epoch) except -1:
        cdef bint transactional = op == TXN_OFFSET_COMMIT
        cdef int error = self.runtime.partitions.refusal(group_id, not transactional)
        if not ascends(rows):
            # Of equal partitions the last counts, in the place of the first.
            rows = tuple({row[0]: row for row in rows}.values())
        self.check_metadata(rows)
        if error == NONE and group is None:
            if not transactional and generation_id >= 0:
                error = ILLEGAL_GENERATION
            else:                          # the group stays, whatever the response is
                group = self.runtime.protocol_of(None).create_group(group_id)
        if error == NONE:
            error = self.runtime.protocol_of(group).check_commit(
                group, generation_id, member_id, instance, transactional)
        if error != NONE:
            return self.runtime.respond(id, op, NONE, tuple([(row[0], error) for row in rows]))
        # Without a producer Kafka stores even a transaction's offsets as plain ones.
        return self.write_commit(id, op, group_id, rows, producer_id, epoch,
                                 transactional and producer_id != NO_PRODUCER)

    cdef int check_metadata(self, tuple rows) except -1:
        """Refuse metadata that the setting allows and a record cannot hold."""
        if 3 * self.max_metadata <= LONGEST:     # no text of so many units has more bytes
            return 0
        for row in rows:
            if utf16_length(row[3]) <= self.max_metadata and utf8_length(row[3]) > LONGEST:
                raise ArgumentError(f"the metadata of {row[0]} has {utf8_length(row[3])} bytes; a "
                                    f"record holds {LONGEST} at most")

    cdef int write_commit(self, int64_t id, int op, str group_id, tuple rows,
                          int64_t producer_id, int16_t epoch, bint transactional) except -1:
        cdef list entries = [None] * len(rows)
        cdef CommitAppend append
        cdef OffsetMap offsets
        cdef Py_ssize_t n
        cdef int error
        cdef int64_t position
        cdef AppendStatus written = NOT_WRITTEN
        cdef Batch batch
        cdef int64_t now_ms = self.runtime.wheel.clock_ms
        for n in range(len(entries)):
            _, offset, leader_epoch, metadata, stamped, expiry = <tuple?>rows[n]
            if utf16_length(metadata) <= self.max_metadata:
                entries[n] = make_offset(offset, leader_epoch, metadata,
                                         now_ms if stamped is None else stamped, expiry, -1)
        batch = commit_batch(group_id, rows, entries)
        if not batch.count:
            return self.runtime.respond(id, op, NONE, answers(rows, entries, batch, NONE))
        if transactional and epoch == NO_EPOCH:
            # Kafka throws in MemoryRecordsBuilder, before it changes any state.
            return self.runtime.respond(id, op, NONE, tuple([
                (row[0], UNKNOWN_SERVER_ERROR) for row in rows]))
        offsets = self.store.map_of(group_id)
        if not transactional:
            written = self.runtime.write(batch, &error, &position)
            if written == FINISHED:
                return self.plain_finished(id, op, offsets, rows, entries, batch, False, error,
                                           position)
        append = CommitAppend.__new__(CommitAppend)
        describe(append, "txn_offset_commit" if transactional else "offset_commit", batch)
        append.offsets = self
        append.map = offsets
        append.id = id
        append.op = op
        append.rows = rows
        append.entries = entries
        if transactional:
            batch.transactional = True
            batch.producer_id = producer_id
            batch.epoch = epoch
            self.store.open_transaction(producer_id, group_id)
            self.pend(append)            # the marker decides it, whenever the append finishes
            return self.runtime.append(append)
        return self.runtime.defer(append, written)

    cdef int pend(self, CommitAppend op) except -1:
        """Make the entries pending until the append finishes."""
        if op.waited:
            return 0
        op.waited = True
        if op.batch.transactional:
            return op.map.prepare_txn(op.batch.producer_id, op.rows, op.entries)
        return op.map.prepare(op.rows, op.entries)

    cdef int commit_finished(self, CommitAppend op, int error, int64_t position) except -1:
        """Continue after an append. If the group has ended, its map is in no store any more."""
        if not op.batch.transactional:
            return self.plain_finished(op.id, op.op, op.map, op.rows, op.entries, op.batch,
                                       op.waited, error, position)
        if error == NONE:
            op.map.appended_txn(op.batch.producer_id, op.rows, op.entries, position)
        else:
            op.map.failed_txn(op.batch.producer_id, op.rows, op.entries)
        return self.runtime.respond(op.id, op.op, NONE,
                                    answers(op.rows, op.entries, op.batch, commit_error(error)))

    cdef int plain_finished(self, int64_t id, int op, OffsetMap offsets, tuple rows, list entries,
                            Batch batch, bint waited, int error, int64_t position) except -1:
        if error == NONE:
            offsets.appended(rows, entries, position, waited)
        else:
            offsets.failed(rows, entries, waited)
        return self.runtime.respond(id, op, NONE,
                                    answers(rows, entries, batch, commit_error(error)))

    cdef int end_txn(self, int64_t producer_id, bint committed) except -1:
        """Append a marker; it decides the offsets of each group of the transaction."""
        cdef OffsetMap offsets
        cdef dict group_ids
        cdef int64_t position
        cdef Batch marker = batch_of((MARKERS[committed],))
        marker.producer_id = producer_id
        marker.epoch = 0
        marker.transactional = marker.control = True
        position = self.runtime.sink.append(marker, -1)
        if position == FAILED:
            return 0                       # no marker was written: nothing is decided
        group_ids = <dict>self.store.open_groups.get(producer_id)
        for group_id in sorted(group_ids or ()):
            if self.runtime.find(group_id) is None:
                continue
            offsets = self.store.find(group_id)
            if offsets is not None and not offsets.complete_txn(producer_id, committed):
                return 0               # Kafka throws: a marker before the append finished
            del group_ids[group_id]
        if group_ids is not None and not group_ids:
            del self.store.open_groups[producer_id]

    cdef int fetch(self, int64_t id, str group_id, tuple keys, bint stable) except -1:
        cdef int error = self.runtime.partitions.refusal(group_id, True)
        cdef OffsetMap offsets
        cdef Offset entry
        cdef list rows = []
        if error != NONE:
            return self.runtime.respond(id, OFFSET_FETCH, error, None)
        offsets = self.store.find(group_id)
        if keys is None:
            keys = () if offsets is None else tuple(offsets.keys())
        for key in dict.fromkeys(keys):
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
        return self.runtime.respond(id, OFFSET_FETCH, NONE, tuple(rows))
