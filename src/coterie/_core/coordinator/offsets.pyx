"""OffsetCommit, TxnOffsetCommit, markers of transactions, OffsetFetch.

A commit is ((topic, partition), offset, leader epoch, metadata, commit time or None, expiry or -1)
for each partition. What is kept and shown is the OffsetMap's business; here are the checks and
the appends.
Source: GroupCoordinator.scala, GroupMetadataManager.scala.
Rules: docs/rules/coordinator.md#commits, docs/rules/offsets.md#plain-commits to #fetch.
"""
cimport cython
from libc.stdint cimport int16_t, int32_t, int64_t

from coterie._core.coordinator.codes cimport (
    COORDINATOR_NOT_AVAILABLE, ILLEGAL_GENERATION, NONE, OFFSET_METADATA_TOO_LARGE,
    REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID, UNKNOWN_SERVER_ERROR, UNSTABLE_OFFSET_COMMIT,
    commit_error)
from coterie._core.coordinator.outputs cimport COMPLETING_REBALANCE, DEAD, EMPTY
from coterie._core.coordinator.group cimport GroupMetadata, check_member
from coterie._core.coordinator.group_records cimport LONGEST, commit_batch, utf8_length
from coterie._core.coordinator.member cimport MemberMetadata
from coterie._core.coordinator.partitions cimport partition_of
from coterie._core.coordinator.rebalance cimport Rebalances
from coterie._core.coordinator.runtime cimport (
    NOT_YET, OVER, AppendOp, Runtime, Written, describe)
from coterie._core.coordinator.sink cimport FAILED, Batch, batch_of
from coterie._core.structures.offsets cimport Offset, make_offset

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
    """Whether all are partitions of one topic, each beyond the one before it: none comes twice."""
    cdef Py_ssize_t n
    cdef tuple before, key
    for n in range(1, len(rows)):
        before, key = <tuple?>(<tuple?>rows[n - 1])[0], <tuple?>(<tuple?>rows[n])[0]
        if key[0] is not before[0] or <int32_t>key[1] <= <int32_t>before[1]:
            return False
    return True


cdef tuple answers(tuple rows, list entries, Batch batch, int error):
    """What a commit is answered with: its own rows, if all were written."""
    if error == NONE and batch.count == len(rows):
        return rows
    return tuple([((<tuple?>row)[0], OFFSET_METADATA_TOO_LARGE if entry is None else error)
                  for row, entry in zip(rows, entries)])


@cython.final
cdef class CommitAppend(AppendOp):
    """The offsets of a commit; its request waits for it."""

    cdef int waits(self) except -1:
        return self.offsets.pend(self)

    cdef int came_back(self, int error, int64_t position) except -1:
        return self.offsets.committed(self, error, position)


cdef int ask_commit(part, int op, int64_t id, str group_id, int32_t generation_id,
                    str member_id, str instance, tuple details) except -1:
    return (<Offsets>part).commit(id, op, group_id, generation_id, member_id, instance,
                                  details[0], details[1], details[2])


cdef int ask_offset_fetch(part, int op, int64_t id, str group_id, int32_t generation_id,
                          str member_id, str instance, tuple details) except -1:
    return (<Offsets>part).fetch(id, group_id, details[0], details[1])


cdef int ask_end_txn(part, int op, int64_t id, str group_id, int32_t generation_id,
                     str member_id, str instance, tuple details) except -1:
    return (<Offsets>part).end_txn(details[0], details[1])


@cython.final
cdef class Offsets:
    """The offsets of the classic protocol's groups: commits, transactions, fetches."""

    def __cinit__(self, Runtime runtime not None, Rebalances rebalances not None, settings):
        self.runtime = runtime
        self.rebalances = rebalances
        self.open_groups = {}
        self.max_metadata = settings["offset.metadata.max.bytes"]
        runtime.decided_by("offset_commit", self, ask_commit)
        runtime.decided_by("txn_offset_commit", self, ask_commit)
        runtime.decided_by("offset_fetch", self, ask_offset_fetch)
        runtime.decided_by("end_txn", self, ask_end_txn)

    cdef int resigned(self, int32_t partition) except -1:
        """Forget the transactions of a partition's groups; -1: of all."""
        cdef int32_t count = self.runtime.partitions.count
        self.open_groups = {} if partition < 0 else {
            producer: left for producer, groups in self.open_groups.items()
            if (left := {group_id: None for group_id in groups
                         if partition_of(group_id, count) != partition})}
        return 0

    cdef int loaded(self, GroupMetadata group) except -1:
        """Know the transactions that a loaded group waits for."""
        for producer_id in group.offsets.waiting_txn:
            self.open_groups.setdefault(producer_id, {})[group.group_id] = None
        return 0

    cdef int commit(self, int64_t id, int op, str group_id, int32_t generation_id, str member_id,
                    str instance, tuple wanted, int64_t producer_id, int16_t epoch) except -1:
        cdef bint transactional = op == TXN_OFFSET_COMMIT
        cdef int error = self.runtime.partitions.refusal(group_id, not transactional)
        cdef GroupMetadata group = None
        cdef MemberMetadata member
        if not ascends(wanted):
            # Of equal partitions the last counts, in the place of the first.
            wanted = tuple({row[0]: row for row in wanted}.values())
        self.check_metadata(wanted)
        if error == NONE:
            group = self.rebalances.find(group_id)
            if group is None and not transactional and generation_id >= 0:
                error = ILLEGAL_GENERATION
            elif group is None:
                group = self.rebalances.create_group(group_id)      # it stays, whatever is answered
        if error == NONE:
            member = group.get(member_id)
            error = self.check_commit(group, member, generation_id, member_id, instance,
                                      transactional)
        if error == NONE and not transactional and group.state != EMPTY:
            if group.state == COMPLETING_REBALANCE:
                error = REBALANCE_IN_PROGRESS
            else:
                self.rebalances.touch(group, member, member.session_timeout_ms)
        if error != NONE:
            return self.runtime.respond(id, op, NONE, tuple([(row[0], error) for row in wanted]))
        # Without a producer Kafka stores even a transaction's offsets as plain ones.
        return self.store(id, op, group, wanted, producer_id, epoch,
                          transactional and producer_id != NO_PRODUCER)

    cdef int check_metadata(self, tuple wanted) except -1:
        """Refuse what is short enough for the setting and too long for a record."""
        if 3 * self.max_metadata <= LONGEST:     # no text of so many units has more bytes
            return 0
        for row in wanted:
            if utf16_length(row[3]) <= self.max_metadata and utf8_length(row[3]) > LONGEST:
                raise ArgumentError(f"the metadata of {row[0]} has {utf8_length(row[3])} bytes; a "
                                    f"record holds {LONGEST} at most")
        return 0

    cdef int check_commit(self, GroupMetadata group, MemberMetadata member, int32_t generation_id,
                          str member_id, str instance, bint transactional) except? -7:
        cdef int error
        if group.state == DEAD:
            return COORDINATOR_NOT_AVAILABLE
        if generation_id < 0 and group.state == EMPTY:
            return NONE
        if generation_id >= 0 or member_id or instance is not None:
            error = NONE
            if member is None or instance is not None:
                error = check_member(group, member_id, instance)
            if error == NONE and generation_id != group.generation_id:
                error = ILLEGAL_GENERATION
            return error
        return NONE if transactional else UNKNOWN_MEMBER_ID

    cdef int store(self, int64_t id, int op, GroupMetadata group, tuple wanted,
                   int64_t producer_id, int16_t epoch, bint transactional) except -1:
        cdef list entries = [None] * len(wanted)
        cdef CommitAppend made
        cdef Py_ssize_t n
        cdef int error
        cdef int64_t position
        cdef Written written = NOT_YET
        cdef Batch batch
        cdef int64_t now_ms = self.runtime.wheel.clock_ms
        for n in range(len(entries)):
            _, offset, leader_epoch, metadata, stamped, expiry = <tuple?>wanted[n]
            if utf16_length(metadata) <= self.max_metadata:
                entries[n] = make_offset(offset, leader_epoch, metadata,
                                         now_ms if stamped is None else stamped, expiry, -1)
        batch = commit_batch(group.group_id, wanted, entries)
        if not batch.count:
            return self.runtime.respond(id, op, NONE, answers(wanted, entries, batch, NONE))
        if transactional and epoch == NO_EPOCH:
            # Kafka throws, in MemoryRecordsBuilder, before it has kept anything.
            return self.runtime.respond(id, op, NONE, tuple([
                (row[0], UNKNOWN_SERVER_ERROR) for row in wanted]))
        if not transactional:
            written = self.runtime.write(batch, &error, &position)
            if written == OVER:
                return self.shown(id, op, group, wanted, entries, batch, False, error, position)
        made = CommitAppend.__new__(CommitAppend)
        describe(made, "txn_offset_commit" if transactional else "offset_commit", batch)
        made.offsets = self
        made.group = group
        made.id = id
        made.op = op
        made.rows = wanted
        made.entries = entries
        if transactional:
            batch.transactional = True
            batch.producer_id = producer_id
            batch.epoch = epoch
            self.open_groups.setdefault(producer_id, {})[group.group_id] = None
            self.pend(made)            # its marker decides it, whenever the append comes back
            return self.runtime.append(made)
        return self.runtime.come_back_later(made, written)

    cdef int pend(self, CommitAppend op) except -1:
        """Let the group know of what is not in its log yet."""
        if op.waited:
            return 0
        op.waited = True
        if op.batch.transactional:
            return op.group.offsets.prepare_txn(op.batch.producer_id, op.rows, op.entries)
        return op.group.offsets.prepare(op.rows, op.entries)

    cdef int committed(self, CommitAppend op, int error, int64_t position) except -1:
        cdef GroupMetadata group = op.group
        if not op.batch.transactional:
            return self.shown(op.id, op.op, group, op.rows, op.entries, op.batch, op.waited,
                              error, position)
        if group.state != DEAD:
            if error == NONE:
                group.offsets.appended_txn(op.batch.producer_id, op.rows, op.entries, position)
            else:
                group.offsets.failed_txn(op.batch.producer_id, op.rows, op.entries)
        return self.runtime.respond(op.id, op.op, NONE,
                                    answers(op.rows, op.entries, op.batch, commit_error(error)))

    cdef int shown(self, int64_t id, int op, GroupMetadata group, tuple rows, list entries,
                   Batch batch, bint waited, int error, int64_t position) except -1:
        """The append of plain commits came back."""
        if group.state != DEAD:
            if error == NONE:
                group.offsets.appended(rows, entries, position, waited)
            else:
                group.offsets.failed(rows, entries, waited)
        return self.runtime.respond(id, op, NONE,
                                    answers(rows, entries, batch, commit_error(error)))

    cdef int end_txn(self, int64_t producer_id, bint committed) except -1:
        cdef GroupMetadata group
        cdef dict belonging
        cdef int64_t position
        cdef Batch marker = batch_of((MARKERS[committed],))
        marker.producer_id = producer_id
        marker.epoch = 0
        marker.transactional = marker.control = True
        position = self.runtime.sink.append(marker, -1)
        if position == FAILED:
            return 0                       # the groups hear of a marker that was written
        belonging = <dict>self.open_groups.get(producer_id)
        for group_id in sorted(belonging or ()):
            group = self.rebalances.find(group_id)
            if group is None or group.state == DEAD:
                continue
            if not group.offsets.complete_txn(producer_id, committed):
                return 0               # Kafka throws: a marker before the append came back
            del belonging[group_id]
        if belonging is not None and not belonging:
            del self.open_groups[producer_id]
        return 0

    cdef int fetch(self, int64_t id, str group_id, tuple keys, bint stable) except -1:
        cdef int error = self.runtime.partitions.refusal(group_id, True)
        cdef GroupMetadata group
        cdef Offset entry
        cdef list found = []
        if error != NONE:
            return self.runtime.respond(id, OFFSET_FETCH, error, None)
        group = self.rebalances.find(group_id)
        if group is not None and group.state == DEAD:
            group = None
        if keys is None:
            keys = () if group is None else tuple(group.offsets.keys())
        for key in dict.fromkeys(keys):
            entry = None
            error = NONE
            if group is not None:
                if stable and group.offsets.unstable(key):
                    error = UNSTABLE_OFFSET_COMMIT
                else:
                    entry = group.offsets.find(key)
            found.append((key[0], key[1], -1, -1, "", error) if entry is None else
                         (key[0], key[1], entry.offset, entry.leader_epoch, entry.metadata,
                          error))
        return self.runtime.respond(id, OFFSET_FETCH, NONE, tuple(found))
