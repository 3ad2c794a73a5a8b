"""From the records of a partition to its groups, as after an election.

The records go through the fold that replays logs too, as Kafka's loader takes them; here its
last state becomes groups. One bad record stops the load, and nothing of the partition is there.
Source: GroupMetadataManager.scala (doLoadGroupsAndOffsets). Rules: docs/rules/offsets.md#load.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t

from coterie._core.coordinator.outputs cimport EMPTY, STABLE
from coterie._core.coordinator.group cimport GroupMetadata
from coterie._core.coordinator.member cimport MemberMetadata
from coterie._core.coordinator.partitions cimport LOADING, partition_of
from coterie._core.structures.offsets cimport make_offset

from coterie._core.fold.fold import PartitionFold
from coterie._core.fold.apply_records import take as take_batch
from coterie._core.fold.partial import key_at, offset_columns, split_key
from coterie._core.codec.group_value import read_group_value
from coterie._core.codec.text import decode_utf8
from coterie.errors import CorruptData


cdef GroupMetadata read_group(str group_id, bytes value):
    fields = read_group_value(value)
    cdef GroupMetadata group = GroupMetadata(group_id, fields.current_state_timestamp)
    cdef MemberMetadata member
    group.generation_id = fields.generation
    group.protocol_name = fields.protocol
    for each in fields.members:
        member = read_member(each, fields.protocol_type, group.protocol_name)
        if member.group_instance_id is not None and (
                member.group_instance_id in group.static_members):
            raise CorruptData(f"group instance id {member.group_instance_id!r} twice")
        group.remove_member(member.member_id)
        group.add_member(member, None)
    group.protocol_type = fields.protocol_type
    group.leader_id = fields.leader
    group.state = STABLE if group.members.count else EMPTY
    group.find_subscribed_topics()
    return group


cdef MemberMetadata read_member(fields, str protocol_type, str protocol_name):
    cdef MemberMetadata member = MemberMetadata(
        fields.member_id, fields.group_instance_id, fields.client_id, fields.client_host,
        fields.rebalance_timeout_ms, fields.session_timeout_ms, protocol_type, (),
        fields.assignment)
    member.protocols = ((protocol_name, fields.subscription),)        # the name may be null
    return member


def fold_log(log):
    """Return the fold of a log: all that any part of a coordinator reads its groups from."""
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
cdef class Wanted:
    """Which groups a load is about: those of one partition, or of all that are loading."""

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


def rows_of_partitions(rows, wanted not None):
    """The batches that a load is about: those with a record of a group that is wanted.

    Markers are of any partition, and so is a record whose key names no group: Kafka's loader meets
    it in whichever it lies.
    """
    for row in rows:
        if row[4]:
            yield row
            continue
        for key, _ in row[5]:
            group_id = group_id_of(key)
            if group_id is None or wanted(group_id):
                yield row
                break


cdef str group_id_of(bytes key):
    """The group that a key names, where it names one."""
    cdef int size = -1
    if key is not None and len(key) >= 4:
        size = int.from_bytes(key[2:4], "big", signed=True)
    return decode_utf8(key[4:4 + size]) if 0 <= size <= len(key or b"") - 4 else None


cdef GroupMetadata group_of(dict groups, str group_id, int64_t now_ms):
    """A group of which the log has offsets alone is Empty since the load."""
    found = groups.get(group_id)
    if found is None:
        found = groups[group_id] = GroupMetadata(group_id, now_ms)
    return <GroupMetadata?>found


def groups_of(fold, int64_t now_ms):
    """Return the classic groups of a fold, by id: members, offsets, undecided transactions."""
    cdef dict groups = {}
    cdef Py_ssize_t start = 0, end
    if not isinstance(fold, PartitionFold):
        raise TypeError(f"fold must be a PartitionFold, not {type(fold).__name__}")
    for name, metadata in fold.groups.items():
        if metadata.last.value is not None:
            group_id = decode_utf8(name)
            groups[group_id] = read_group(group_id, metadata.last.value)
    columns = offset_columns(fold)
    keys, texts = columns["keys"].tobytes(), columns["metadata"].tobytes()
    for bounds, partition, offset, epoch, end, commit_ms, expire_ms, position in zip(
            columns["bounds"].tolist(), columns["partition"].tolist(), columns["offset"].tolist(),
            columns["leader_epoch"].tolist(), columns["metadata_end"].tolist(),
            columns["commit_timestamp"].tolist(), columns["expire_timestamp"].tolist(),
            columns["batch_offset"].tolist()):
        group_id, topic = decode_utf8(keys[bounds[0]:bounds[1]]), decode_utf8(
            keys[bounds[2]:bounds[3]])
        group_of(groups, group_id, now_ms).offsets.set_offset((topic, partition), make_offset(
            offset, epoch, decode_utf8(texts[start:end]), commit_ms, expire_ms, position))
        start = end
    for producer_id, producer in fold.producers.items():
        for index, values in producer.pending.items():
            if values is None:
                continue
            name, topic_name, partition = split_key(key_at(fold, index))
            undecided = group_of(groups, decode_utf8(name), now_ms).offsets.undecided(producer_id)
            undecided[decode_utf8(topic_name), partition] = make_offset(
                values.offset, values.leader_epoch, decode_utf8(values.metadata),
                values.commit_timestamp, values.expire_timestamp, values.batch_offset)
    return {group_id: groups[group_id] for group_id in sorted(groups)}
