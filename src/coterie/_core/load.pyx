"""From the records of a partition to its groups, as after an election.

The records go through the fold that replays logs too, as Kafka's loader takes them; here its
last state becomes groups. One bad record stops the load, and nothing of the partition is there.
Source: GroupMetadataManager.scala (doLoadGroupsAndOffsets); rules: offsets.md, section 9.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

from coterie._core.group cimport EMPTY, STABLE, GroupMetadata, MemberMetadata
from coterie._core.offsets cimport Offset, make_offset

from coterie._core.fold import PartitionFold
from coterie._core.intake import take as take_batch
from coterie._core.partial import key_at, offset_columns, split_key
from coterie._core.text import decode_utf8
from coterie.errors import CorruptData


cdef class Reader:
    """Big-endian fields of one key or value; refuses to read past its end."""
    cdef bytes data
    cdef Py_ssize_t at
    cdef bint flexible

    def __cinit__(self, bytes data not None):
        self.data = data

    cdef Py_ssize_t take(self, Py_ssize_t size, str what) except -1:
        cdef Py_ssize_t at = self.at
        if size < 0 or size > len(self.data) - at:
            raise CorruptData(f"{what}: {size} bytes at byte {at} of {len(self.data)}")
        self.at += size
        return at

    cdef int64_t number(self, int size, str what) except? -7:
        cdef const uint8_t* data = self.data
        cdef Py_ssize_t n, at = self.take(size, what)
        cdef int64_t value = -1 if data[at] & 0x80 else 0
        for n in range(size):
            value = <int64_t>(<unsigned long long>value << 8 | data[at + n])
        return value

    cdef int64_t uvarint(self, str what) except? -7:
        cdef int64_t value = 0
        cdef int shift = 0
        cdef uint8_t byte = 0x80
        while byte & 0x80:
            if shift > 28:
                raise CorruptData(f"{what}: a varint of more than five bytes")
            byte = self.data[self.take(1, what)]
            value |= <int64_t>(byte & 0x7F) << shift
            shift += 7
        return value

    cdef int64_t length(self, int size, str what) except? -7:
        return self.uvarint(what) - 1 if self.flexible else self.number(size, what)

    cdef str text(self, str what, bint nullable=False):
        cdef int64_t size = self.length(2, what)
        cdef Py_ssize_t at
        if size < 0:
            if nullable:
                return None
            raise CorruptData(f"{what} is null")
        at = self.take(size, what)
        return self.data[at:at + size].decode("utf-8", "replace")

    cdef bytes raw(self, str what):
        cdef int64_t size = self.length(4, what)
        cdef Py_ssize_t at
        if size < 0:
            raise CorruptData(f"{what} is null")
        at = self.take(size, what)
        return self.data[at:at + size]

    cdef int tags(self) except -1:
        """Skip the tagged fields that end a struct of a flexible version."""
        cdef int64_t _n
        if self.flexible:
            for _n in range(self.uvarint("tagged fields")):
                self.uvarint("tag")
                self.take(self.uvarint("size of a tag"), "tag")
        return 0


cdef Offset read_offset(bytes value, int64_t position):
    cdef Reader reader = Reader(value)
    cdef int version = <int>reader.number(2, "version")
    cdef int64_t offset, commit_ms, expire_ms = -1
    cdef int32_t epoch = -1
    if not 0 <= version <= 4:
        raise CorruptData(f"unknown version {version} of an offset commit value")
    reader.flexible = version == 4
    offset = reader.number(8, "offset")
    if version >= 3:
        epoch = <int32_t>reader.number(4, "leaderEpoch")
    metadata = reader.text("metadata")
    commit_ms = reader.number(8, "commitTimestamp")
    if version == 1:
        expire_ms = reader.number(8, "expireTimestamp")
    reader.tags()
    return make_offset(offset, epoch, metadata, commit_ms, expire_ms, position)


cdef GroupMetadata read_group(str group_id, bytes value):
    cdef Reader reader = Reader(value)
    cdef int version = <int>reader.number(2, "version")
    cdef GroupMetadata group = GroupMetadata(group_id, -1)
    cdef MemberMetadata member
    cdef int64_t _n, count
    cdef str leader
    if not 0 <= version <= 4:
        raise CorruptData(f"unknown version {version} of a group metadata value")
    reader.flexible = version == 4
    protocol_type = reader.text("protocolType") or None
    group.generation_id = <int32_t>reader.number(4, "generation")
    group.protocol_name = reader.text("protocol", True)
    leader = reader.text("leader", True)
    if version >= 2:
        group.current_state_timestamp = reader.number(8, "currentStateTimestamp")
    count = reader.length(4, "members")
    if count < 0:
        raise CorruptData("members are null")
    for _n in range(count):
        member = read_member(reader, version, protocol_type, group.protocol_name)
        if member.group_instance_id is not None and (
                member.group_instance_id in group.static_members):
            raise CorruptData(f"group instance id {member.group_instance_id!r} twice")
        group.remove_member(member.member_id)
        group.add_member(member, None)
    reader.tags()
    group.protocol_type = protocol_type
    # Without a stored leader the first member leads, which add_member has seen to.
    if leader is not None or not group.members:
        group.leader_id = leader
    group.state = STABLE if group.members else EMPTY
    group.find_subscribed_topics()
    return group


cdef MemberMetadata read_member(Reader reader, int version, str protocol_type, str protocol_name):
    member_id = reader.text("memberId")
    instance = reader.text("groupInstanceId", True) if version >= 3 else None
    client_id = reader.text("clientId")
    client_host = reader.text("clientHost")
    rebalance_ms = reader.number(4, "rebalanceTimeout") if version >= 1 else None
    session_ms = reader.number(4, "sessionTimeout")
    subscription = reader.raw("subscription")
    assignment = reader.raw("assignment")
    reader.tags()
    return MemberMetadata(member_id, instance, client_id, client_host,
                          session_ms if rebalance_ms is None else rebalance_ms, session_ms,
                          protocol_type, ((protocol_name, subscription),), assignment)


def load(log, int64_t now_ms):
    """The groups of a log: {group id: GroupMetadata}, by id.

    Raises CorruptData at the record that stops the load.
    """
    fold = PartitionFold(on_fault="load")
    for base_offset, producer_id, _, transactional, control, records in log:
        rows = [(base_offset + i, -1, key, value) for i, (key, value) in enumerate(records)]
        take_batch(fold, rows, producer_id=producer_id, transactional=transactional,
                   control=control)
        if fold.failed:
            _, _, _, kind, _, detail = fold.faults[len(fold.faults) - 1]
            raise CorruptData(f"{detail}, in the batch at {base_offset}", kind=kind)
    return _assemble(fold, now_ms)


cdef GroupMetadata group_of(dict groups, str group_id, int64_t now_ms):
    """A group of which the log has offsets alone is Empty since the load."""
    found = groups.get(group_id)
    if found is None:
        found = groups[group_id] = GroupMetadata(group_id, now_ms)
    return <GroupMetadata>found


cdef dict _assemble(fold, int64_t now_ms):
    """Groups with members, offsets and what transactions left undecided, from the folded log."""
    cdef dict groups = {}
    cdef Py_ssize_t start = 0, end
    for name, metadata in fold.groups.items():
        if metadata.last[2] is not None:
            group_id = decode_utf8(name)
            groups[group_id] = read_group(group_id, metadata.last[2])
    columns = offset_columns(fold)
    keys, texts = columns["keys"].tobytes(), columns["metadata"].tobytes()
    for bounds, partition, offset, epoch, end, commit_ms, expire_ms, position in zip(
            columns["bounds"].tolist(), columns["partition"].tolist(), columns["offset"].tolist(),
            columns["leader_epoch"].tolist(), columns["metadata_end"].tolist(),
            columns["commit_timestamp"].tolist(), columns["expire_timestamp"].tolist(),
            columns["position"].tolist()):
        group_id, topic = decode_utf8(keys[bounds[0]:bounds[1]]), decode_utf8(
            keys[bounds[2]:bounds[3]])
        group_of(groups, group_id, now_ms).offsets.set_offset((topic, partition), make_offset(
            offset, epoch, decode_utf8(texts[start:end]), commit_ms, expire_ms, position))
        start = end
    for producer_id, producer in fold.producers.items():
        for index, values in producer.pending.items():
            if values is None:
                continue
            position, offset, commit_ms, expire_ms, epoch, text = values
            name, topic_name, partition = split_key(key_at(fold, index))
            undecided = group_of(groups, decode_utf8(name), now_ms).offsets.pending_txn
            undecided.setdefault(producer_id, {})[decode_utf8(topic_name), partition] = (
                make_offset(offset, epoch, decode_utf8(text), commit_ms, expire_ms, position))
    return {group_id: groups[group_id] for group_id in sorted(groups)}


def decode_record(bytes key not None, bytes value):
    """A record that the coordinator writes, as {"key": fields, "value": fields or None}."""
    cdef Reader reader = Reader(key)
    cdef int version = <int>reader.number(2, "version of a key")
    cdef GroupMetadata group
    cdef Offset entry
    if version == 2:
        name = reader.text("group")
        told = {"version": version, "group": name}
        if value is None:
            return {"key": told, "value": None}
        group = read_group(name, value)
        return {"key": told, "value": {
            "protocol_type": group.protocol_type, "generation_id": group.generation_id,
            "protocol_name": group.protocol_name, "leader": group.leader_id,
            "current_state_timestamp": group.current_state_timestamp,
            "members": [_decoded_member(member) for member in group.members.values()]}}
    if not 0 <= version <= 1:
        raise CorruptData(f"key version {version} is none of a group coordinator's", kind="key")
    told = {"version": version, "group": reader.text("group"), "topic": reader.text("topic"),
            "partition": reader.number(4, "partition")}
    if value is None:
        return {"key": told, "value": None}
    entry = read_offset(value, -1)
    return {"key": told, "value": {
        "offset": entry.offset, "leader_epoch": entry.leader_epoch, "metadata": entry.metadata,
        "commit_timestamp": entry.commit_timestamp, "expire_timestamp": entry.expire_timestamp}}


cdef dict _decoded_member(MemberMetadata member):
    return {"member_id": member.member_id, "group_instance_id": member.group_instance_id,
            "client_id": member.client_id, "client_host": member.client_host,
            "rebalance_timeout_ms": member.rebalance_timeout_ms,
            "session_timeout_ms": member.session_timeout_ms,
            "subscription": (<tuple>member.protocols[0])[1], "assignment": member.assignment}
