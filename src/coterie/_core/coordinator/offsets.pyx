"""Offsets, clean-up, administration and elections of the coordinator up to Kafka 3.9.

A load folds the log as a replay does; offsets come from its last state, groups from each protocol's
own module. One bad record stops the load of a partition. Traces are played here, row by row.
Source: GroupCoordinator.scala, GroupMetadataManager.scala.
"""
cimport cython
from libc.stdint cimport int16_t, int32_t, int64_t
from libc.stdlib cimport free, realloc

from coterie._core.codec.layout import decode_utf8
from coterie._core.coordinator.codes cimport (
    COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION, NONE,
    OFFSET_METADATA_TOO_LARGE, UNKNOWN_SERVER_ERROR, UNSTABLE_OFFSET_COMMIT, commit_error)
from coterie._core.coordinator.runtime cimport (
    EVERY_TYPE, FAILED, FINISHED, LOADING, LONGEST, NOT_WRITTEN, NO_GROUP, NO_OWNER, NO_TIMER,
    OWNED, RESIGNED, AppendOp, AppendStatus, Batch, Component, Group, GroupProtocol, OffsetStore,
    Operation, Partitions, Runtime, batch_of, commit_batch, describe, partition_of, tombstones,
    utf8_length)
from coterie._core.fold.fold import (
    PartitionFold, offset_columns, pending_commits, settle_removed, take as take_batch)
from coterie._core.fold.keytable cimport TOPIC_ID_SIZE
from coterie._core.structures.offsets cimport Offset, OffsetMap, make_offset

from coterie.errors import ArgumentError, CorruptData, CoterieError, TraceError, shown
from coterie.base.operations import NUMBER


# ---- from the records of a partition to its offsets, as after an election ------------------------
# The records go through the fold that also replays logs. Its last state becomes offsets here, and
# groups in each protocol's own module. It knows no rule of a group. One bad record stops the load:
# then nothing of the partition is loaded. Cost: one pass over the log, one over its last state.
# Source: GroupMetadataManager.scala (doLoadGroupsAndOffsets). Rules: docs/rules/offsets.md#load.

def fold_log(log):
    """Return the fold of a log, from which each component reads its groups."""
    fold = PartitionFold(on_fault="load")
    for base_offset, producer_id, _, transactional, control, records in log:
        rows = [(base_offset + i, -1, key, value) for i, (key, value) in enumerate(records)]
        take_batch(fold, rows, producer_id=producer_id, transactional=transactional,
                   control=control)
        if fold.failed:
            fault = fold.faults[len(fold.faults) - 1]
            raise CorruptData(f"{fault.detail}, in the batch at {base_offset}", kind=fault.kind)
    return fold


@cython.final
cdef class LoadFilter:
    """Which groups are loaded: those of one partition, or of all loading partitions."""

    cdef int32_t count
    cdef int32_t partition             # -1: all that are loading
    cdef bint others                   # whether those not in `exceptions` are loading
    cdef dict exceptions

    def __cinit__(self, int32_t count, int32_t partition, bint others, dict exceptions not None):
        if count < 1:
            raise ValueError("a topic has at least one partition")
        self.count = count
        self.partition = partition
        self.others = others
        self.exceptions = exceptions

    def __call__(self, str group_id not None):
        cdef int32_t number = partition_of(group_id, self.count)
        if self.partition >= 0:
            return number == self.partition
        state = self.exceptions.get(number)
        return self.others if state is None else state == LOADING


def rows_of_partitions(rows, load_filter not None):
    """Yield the batches that have a record of a group that is loaded.

    Markers belong to every partition, and so does a record whose key names no group: Kafka's loader
    reads it in whichever partition it lies.
    """
    for row in rows:
        if row[4]:
            yield row
            continue
        for key, _ in row[5]:
            group_id = group_id_of(key)
            if group_id is None or load_filter(group_id):
                yield row
                break


cdef str group_id_of(bytes key):
    """Return the group that a key names, or None."""
    cdef int size
    if key is None or len(key) < 4:
        return None
    size = int.from_bytes(key[2:4], "big", signed=True)
    return decode_utf8(key[4:4 + size]) if 0 <= size <= len(key) - 4 else None


cdef OffsetMap map_of(dict maps, str group_id):
    offsets = maps.get(group_id)
    if offsets is None:
        offsets = maps[group_id] = OffsetMap.__new__(OffsetMap)
    return <OffsetMap?>offsets


def batches_of_4x(rows):
    """Yield the batches as Kafka 4 replays them: a transaction's tombstone counts at once."""
    for row in rows:
        base_offset, producer_id, epoch, transactional, control, records = row
        if control or not transactional or all(value is not None for _, value in records):
            yield row
            continue
        for at, (key, value) in enumerate(records):
            yield base_offset + at, producer_id, epoch, value is not None, False, ((key, value),)


cdef dict offsets_of_4x(object fold):
    """Return the offsets of a fold as Kafka 4 replays them: tombstones remove what is pending.

    A transaction stays open in a group of which it no longer holds an offset.
    """
    cdef dict maps
    holders = [(producer_id, key[0]) for producer_id, key, _ in pending_commits(fold)]
    settle_removed(fold, True)
    maps = offsets_of(fold)
    for producer_id, group_id in holders:
        map_of(maps, group_id).undecided(producer_id)
    return maps


def offsets_of(fold):
    """Return the offsets of a fold by group id, including those of undecided transactions."""
    cdef dict maps = {}
    cdef bytes ids
    cdef Offset entry
    cdef Py_ssize_t start = 0, end
    if not isinstance(fold, PartitionFold):
        raise TypeError(f"fold must be a PartitionFold, not {type(fold).__name__}")
    columns = offset_columns(fold)
    keys, texts = columns["keys"].tobytes(), columns["metadata"].tobytes()
    ids = columns["topic_ids"].tobytes()
    for bounds, partition, offset, epoch, end, commit_ms, expire_ms, position, topic_id in zip(
            columns["bounds"].tolist(), columns["partition"].tolist(), columns["offset"].tolist(),
            columns["leader_epoch"].tolist(), columns["metadata_end"].tolist(),
            columns["commit_timestamp"].tolist(), columns["expire_timestamp"].tolist(),
            columns["batch_offset"].tolist(), columns["topic_id"].tolist()):
        group_id, topic = decode_utf8(keys[bounds[0]:bounds[1]]), decode_utf8(
            keys[bounds[2]:bounds[3]])
        entry = make_offset(
            offset, epoch, decode_utf8(texts[start:end]), commit_ms, expire_ms, position)
        if topic_id:
            entry.topic_id = ids[(topic_id - 1) * TOPIC_ID_SIZE:topic_id * TOPIC_ID_SIZE]
        map_of(maps, group_id).set_offset((topic, partition), entry)
        start = end
    for producer_id, (group_id, topic, partition), values in pending_commits(fold):
        entry = make_offset(
            values.offset, values.leader_epoch, decode_utf8(values.metadata),
            values.commit_timestamp, values.expire_timestamp, values.batch_offset)
        entry.topic_id = values.topic_id
        map_of(maps, group_id).undecided(producer_id)[topic, partition] = entry
    return {group_id: maps[group_id] for group_id in sorted(maps)}


# ---- partitions of the offsets topic: given up, and loaded after an election ---------------------
# Each component drops its own groups (`Component.resigned`) and reads its own from the folded log
# (`read_log`, then `loaded` once all could read theirs). The offsets come last; a group that has
# only offsets is added then. It knows no rule of a group.
# Source: GroupCoordinator.scala (onElection, onResignation), GroupMetadataManager.scala. Rules:
# docs/rules/coordinator.md#election.

cdef int32_t partition_in(Election self, tuple details) except? -7:
    """Return the partition that an operation names; -1: all."""
    cdef int32_t partition = -1 if details is None or details[0] is None else details[0]
    self.runtime.partitions.check(partition)
    return partition


cdef int decide_resign(component, Operation op) except -1:
    return (<Election>component).resign(partition_in(component, op.details))


cdef int decide_begin_load(component, Operation op) except -1:
    return (<Election>component).begin_load(partition_in(component, op.details))


cdef int decide_finish_load(component, Operation op) except -1:
    return (<Election>component).finish_load(partition_in(component, op.details))


cdef int decide_failover(component, Operation op) except -1:
    (<Election>component).resign(-1)
    (<Election>component).begin_load(-1)
    return (<Election>component).finish_load(-1)


@cython.final
cdef class Election:
    """Gives up and loads partitions, with their groups."""

    def __cinit__(self, Runtime runtime not None, OffsetStore store not None):
        self.runtime = runtime
        self.store = store
        runtime.register("resign", self, decide_resign, NO_GROUP)
        runtime.register("begin_load", self, decide_begin_load, NO_GROUP)
        runtime.register("finish_load", self, decide_finish_load, NO_GROUP)
        runtime.register("failover", self, decide_failover, NO_GROUP)

    cdef int begin_load(self, int32_t partition) except -1:
        """Start loading a partition that was given up; otherwise do nothing."""
        return self.runtime.partitions.change(partition, RESIGNED, LOADING)

    cdef int finish_load(self, int32_t partition) except -1:
        if not self.runtime.partitions.is_loading(partition):
            raise CoterieError("no load is under way: finish_load comes after begin_load, "
                               "which is ignored unless resign came first")
        return self.load_log(partition)

    cdef int resign(self, int32_t partition) except -1:
        if self.runtime.writes is not None:
            self.runtime.writes.give_up(partition)     # what waits is answered by its groups
        for component in self.runtime.components:
            (<Component?>component).resigned(partition)
        self.store.resigned(partition, self.runtime.partitions.count)
        self.runtime.partitions.change(partition, OWNED, RESIGNED)
        self.runtime.partitions.change(partition, LOADING, RESIGNED)

    cdef int load_log(self, int32_t partition) except -1:
        """Read the log; the partitions are owned afterwards, even if the load failed."""
        cdef Partitions partitions = self.runtime.partitions
        cdef list components = self.runtime.components, contents = []
        cdef dict maps
        if self.consumer is not None:
            return self.load_replayed(partition)
        rows, load_filter = self.runtime.sink.read(), None
        if partition >= 0 or partitions.exceptions:
            load_filter = LoadFilter(partitions.count, partition, partitions.others == LOADING,
                                     dict(partitions.exceptions))
            rows = rows_of_partitions(rows, load_filter)
        self.load_error = None
        try:
            fold = fold_log(rows)
            contents = [(<Component?>component).read_log(fold) for component in components]
            maps = offsets_of(fold)
            fold = None                    # as much memory again as the groups
        except CorruptData as error:
            self.load_error = str(error)
        partitions.change(partition, LOADING, OWNED)
        if self.load_error is None:
            for component, content in zip(components, contents):
                (<Component?>component).loaded(content, load_filter)
            self.load_offsets(maps, load_filter)

    cdef int load_replayed(self, int32_t partition) except -1:
        """Load as the replaying coordinator does; partitions that cannot be read are given up."""
        cdef Partitions partitions = self.runtime.partitions
        cdef dict maps = {}
        rows, load_filter = list(self.runtime.sink.read()), None
        if partition >= 0 or partitions.exceptions:
            load_filter = LoadFilter(partitions.count, partition, partitions.others == LOADING,
                                     dict(partitions.exceptions))
            rows = list(rows_of_partitions(rows, load_filter))
        self.load_error = None
        try:
            maps = offsets_of_4x(fold_log(batches_of_4x(rows)))
        except CorruptData as error:
            self.load_error = str(error)
        self.load_error = self.consumer.load(rows, load_filter) or self.load_error
        if self.load_error is not None:
            partitions.change(partition, LOADING, OWNED)
            return self.resign(partition)
        partitions.change(partition, LOADING, OWNED)
        for group_id, offsets in maps.items():
            if load_filter is None or load_filter(group_id):
                self.store.put(<str?>group_id, <OffsetMap?>offsets)
        for component in self.runtime.components:
            (<Component?>component).loaded({}, load_filter)    # its groups are there already

    cdef int load_offsets(self, dict maps, object load_filter) except -1:
        """Take over the offsets of the groups that pass the filter."""
        for group_id, offsets in maps.items():
            if load_filter is None or load_filter(group_id):
                self.store.put(<str?>group_id, <OffsetMap?>offsets)
                if self.runtime.find(<str?>group_id) is None:
                    self.runtime.protocol_of(None).create_group(<str?>group_id)


# ---- offsets -------------------------------------------------------------------------------------
# OffsetCommit, TxnOffsetCommit, markers of transactions, OffsetFetch, for groups of every type.
# A row of a commit is ((topic, partition), offset, leader epoch, metadata, commit time or None,
# expiry or -1). The protocol of the group checks the member; the OffsetMap decides what is pending
# and what readers see. Here are the limits of metadata and the appends. Cost: O(1) a partition.
# Source: GroupCoordinator.scala, GroupMetadataManager.scala, OffsetMetadataManager.java.
# Rules: docs/rules/coordinator.md#commits, docs/rules/offsets.md#plain-commits to #fetch.

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)

cdef enum:
    NO_PRODUCER = -1
    NO_EPOCH = -1
    WITHOUT_TOPIC_ID = 6           # values in a row of a commit; Kafka 3.9 knows no ids

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


cdef int decide_commit(component, Operation op) except -1:
    cdef tuple rows = op.details[0], row
    for row in rows:
        if len(row) > WITHOUT_TOPIC_ID:
            rows = tuple([each[:WITHOUT_TOPIC_ID] for each in rows])
            break
    return (<Offsets>component).commit(op.id, op.number, op.group, op.group_id, op.generation_id,
                                       op.member_id, op.instance, rows, op.details[1],
                                       op.details[2])


cdef int decide_offset_fetch(component, Operation op) except -1:
    return (<Offsets>component).fetch(op.id, op.group_id, op.details[0], op.details[1])


cdef int decide_end_txn(component, Operation op) except -1:
    return (<Offsets>component).end_txn(op.details[0], op.details[1])


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


# ---- admin ---------------------------------------------------------------------------------------
# OffsetDelete, DeleteGroups, the clean-up of expired offsets, ListGroups, for every group type.
# Each removal writes tombstones, sorted by topic and partition, in one batch a group. The protocol
# of a group decides what may be removed, and when the group ends. Cost: a clean-up and a ListGroups
# are one pass over the groups.
# Source: GroupCoordinator.scala, GroupMetadataManager.scala (cleanupGroupMetadata). Rules:
# docs/rules/coordinator.md#deletion, docs/rules/offsets.md#clean-up.

OFFSET_DELETE, DELETE_GROUPS = NUMBER["offset_delete"], NUMBER["delete_groups"]
LIST_GROUPS = NUMBER["list_groups"]


cdef int decide_offset_delete(component, Operation op) except -1:
    return (<AdminOperations>component).delete_offsets(op.id, op.group, op.group_id, op.details)


cdef int decide_delete_groups(component, Operation op) except -1:
    return (<AdminOperations>component).delete_groups(op.id, op.details)


cdef int decide_delete_partitions(component, Operation op) except -1:
    return (<AdminOperations>component).delete_partitions(op.details)


cdef int decide_cleanup(component, Operation op) except -1:
    return (<AdminOperations>component).clean_up()


cdef int decide_list_groups(component, Operation op) except -1:
    return (<AdminOperations>component).list_groups(op.id, op.details)


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


# ---- A trace, compiled once into rows of 40 bytes with interned names ----------------------------
# An event without details needs no Python object when it is played. It knows no operation: the rows
# go to the coordinator as they are. Cost: one row an event.
# Rules: docs/rules/trace-format.md#defaults.

cdef extern from "Python.h":
    int Py_EnterRecursiveCall(const char* where) except *
    void Py_LeaveRecursiveCall()

cdef enum:
    MOST_DETAILS = 1 << 16             # that are looked up; commits have details of their own


@cython.final
cdef class Trace:
    """A compiled trace: rows with interned names. Made by :func:`coterie.load_trace`."""

    def __cinit__(self, dict header not None):
        self.header = header
        self.objects = [None]
        self.index = {None: 0}
        self.lines = []

    def __dealloc__(self):
        free(self.events)

    def __len__(self):
        return self.count

    cdef int32_t intern(self, name) except -1:
        if name is not None and type(name) is not str:
            if not isinstance(name, str):
                raise ArgumentError(f"member_id must be a string, not {shown(name)}")
            self.objects.append(name)        # a reference: a text of its own, equal to no other
            return <int32_t>len(self.objects) - 1
        index = self.index.get(name)
        if index is None:
            index = self.index[name] = len(self.objects)
            self.objects.append(name)
        return index

    cdef int32_t intern_details(self, int op, tuple details) except -1:
        """The place of details; equal ones of an operation are mostly one object."""
        cdef tuple key = (op, details)
        cdef int32_t index = <int32_t>len(self.objects)
        try:
            found = self.index.get(key)
        except TypeError:                    # a dict of partitions: no hash
            found = key = None
        if found is not None:
            return found
        self.objects.append(details)
        if key is not None and self.details_count < MOST_DETAILS:
            self.details_count += 1
            self.index[key] = index
        return index

    def add(self, int line, int64_t at_ms, int op, int64_t id, str group_id,
            int32_t generation_id, member_id, str instance, tuple details):
        """Append an event."""
        cdef Event* events
        cdef Py_ssize_t capacity
        if self.count == self.capacity:
            capacity = 2 * self.capacity + 64
            events = <Event*>realloc(self.events, capacity * sizeof(Event))
            if events == NULL:
                raise MemoryError
            self.events = events
            self.capacity = capacity
        cdef Event* event = &self.events[self.count]
        event.at_ms = at_ms
        event.id = id
        event.op = op
        event.generation_id = generation_id
        event.group = self.intern(group_id)
        event.member = self.intern(member_id)
        event.instance = self.intern(instance)
        event.details = 0 if details is None else self.intern_details(op, details)
        self.lines.append(line)
        self.count += 1
        self.last_id = max(self.last_id, id)

    def requests(self):
        """Yield (line, at, op, id, group, generation, member, instance, details)."""
        cdef Py_ssize_t n
        cdef Event event
        for n in range(self.count):
            event = self.events[n]
            yield (self.lines[n], event.at_ms, event.op, event.id, self.objects[event.group],
                   event.generation_id, self.objects[event.member],
                   self.objects[event.instance], self.objects[event.details])


cdef object desugar(value, dict member_ids):
    """Replace each MemberOf (coordinator/fields.py) in a value by the id that it refers to."""
    if type(value) is tuple:
        Py_EnterRecursiveCall(b" in a trace's details")
        try:
            return tuple([desugar(item, member_ids) for item in value])
        finally:
            Py_LeaveRecursiveCall()
    if type(value) is dict:
        return {desugar(key, member_ids): item for key, item in value.items()}
    request_id = getattr(value, "request_id", None)
    if request_id is None:
        return value
    member_id = member_ids.get(request_id)
    if not member_id:
        raise TraceError(f"member_id_of: request {request_id} has been told no member id by now")
    return member_id
