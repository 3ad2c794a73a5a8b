"""From the records of a partition to its offsets, as after an election.

The records go through the fold that also replays logs. Its last state becomes offsets here, and
groups in each protocol's own module. It knows no rule of a group. One bad record stops the load:
then nothing of the partition is loaded. Cost: one pass over the log, one over its last state.
Source: GroupMetadataManager.scala (doLoadGroupsAndOffsets). Rules: docs/rules/offsets.md#load.
"""
cimport cython
from libc.stdint cimport int32_t

from coterie._core.coordinator.partitions cimport LOADING, partition_of
from coterie._core.structures.offsets cimport OffsetMap, make_offset

from coterie._core.codec.schema import decode_key, decode_value
from coterie._core.codec.text import decode_utf8
from coterie._core.fold.apply_records import take as take_batch
from coterie._core.fold.fold import PartitionFold
from coterie._core.fold.partial import offset_columns, pending_commits
from coterie.errors import CorruptData


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


def replayed_offsets(rows):
    """Return offsets by group id as Kafka 4 replays them: a tombstone also removes what is pending.

    Slower than the fold, and only different where there are transactions.
    """
    cdef dict maps = {}
    cdef OffsetMap offsets
    for base_offset, producer_id, _, transactional, control, records in rows:
        for key, value in records:
            if control:
                for offsets in maps.values():
                    offsets.complete_txn(producer_id, key[2:4] == b"\0\1")
                continue
            if key is None or len(key) < 2 or key[:2] not in (b"\0\0", b"\0\1"):
                continue
            fields = decode_key(key)["data"]
            offsets = map_of(maps, fields["group"])
            place = (fields["topic"], fields["partition"])
            if value is None:
                offsets.drop([place])
                continue
            fields = decode_value(1, value)["data"]
            entry = make_offset(
                fields["offset"], fields.get("leaderEpoch", -1), fields["metadata"],
                fields["commitTimestamp"], fields.get("expireTimestamp", -1), base_offset)
            if transactional:
                offsets.undecided(producer_id)[place] = entry
            else:
                offsets.set_offset(place, entry)
    return {group_id: offsets for group_id, offsets in maps.items() if offsets.has_any()}


def offsets_of(fold):
    """Return the offsets of a fold by group id, including those of undecided transactions."""
    cdef dict maps = {}
    cdef Py_ssize_t start = 0, end
    if not isinstance(fold, PartitionFold):
        raise TypeError(f"fold must be a PartitionFold, not {type(fold).__name__}")
    columns = offset_columns(fold)
    keys, texts = columns["keys"].tobytes(), columns["metadata"].tobytes()
    for bounds, partition, offset, epoch, end, commit_ms, expire_ms, position in zip(
            columns["bounds"].tolist(), columns["partition"].tolist(), columns["offset"].tolist(),
            columns["leader_epoch"].tolist(), columns["metadata_end"].tolist(),
            columns["commit_timestamp"].tolist(), columns["expire_timestamp"].tolist(),
            columns["batch_offset"].tolist()):
        group_id, topic = decode_utf8(keys[bounds[0]:bounds[1]]), decode_utf8(
            keys[bounds[2]:bounds[3]])
        map_of(maps, group_id).set_offset((topic, partition), make_offset(
            offset, epoch, decode_utf8(texts[start:end]), commit_ms, expire_ms, position))
        start = end
    for producer_id, (group_id, topic, partition), values in pending_commits(fold):
        map_of(maps, group_id).undecided(producer_id)[topic, partition] = make_offset(
            values.offset, values.leader_epoch, decode_utf8(values.metadata),
            values.commit_timestamp, values.expire_timestamp, values.batch_offset)
    return {group_id: maps[group_id] for group_id in sorted(maps)}
