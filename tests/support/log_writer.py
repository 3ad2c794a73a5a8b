"""Write batches of magic 2 as bytes, for logs that no broker wrote."""

import struct

from coterie._core.codec.compression import crc32c


def varint(number):
    """Zig-zag, seven bits a byte, the lowest first."""
    left, out = (number << 1) ^ (number >> 63), bytearray()
    while left > 127:
        out.append(left & 127 | 128)
        left >>= 7
    return bytes([*out, left])


def record(offset_delta, timestamp_delta, key, value):
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta)
    for part in (key, value):
        body += varint(-1) if part is None else varint(len(part)) + part
    return varint(len(body) + 1) + body + varint(0)


def batch(
    base_offset,
    records,
    *,
    producer_id=-1,
    producer_epoch=0,
    transactional=False,
    control=False,
    leader_epoch=0,
):
    """A batch of records, (timestamp in ms, key, value) each, at consecutive offsets."""
    times = [time for time, _, _ in records]
    attributes = transactional << 4 | control << 5
    head = (attributes, len(records) - 1, times[0], max(times), producer_id, producer_epoch, -1)
    body = struct.pack(">hiqqqhii", *head, len(records)) + b"".join(
        record(i, time - times[0], key, value) for i, (time, key, value) in enumerate(records)
    )
    sum_ = struct.pack(">I", crc32c(body))
    return struct.pack(">qiib", base_offset, 9 + len(body), leader_epoch, 2) + sum_ + body


def marker(base_offset, producer_id, time, *, commit):
    """The control batch that ends a producer's transaction."""
    pair = end_of_transaction(time, commit=commit)
    return batch(base_offset, [pair], producer_id=producer_id, transactional=True, control=True)


def end_of_transaction(time, *, commit):
    """The record of a marker."""
    return time, struct.pack(">hh", 0, commit), struct.pack(">hi", 0, 0)


def text(data):
    return struct.pack(">h", len(data)) + data


def commit_key(version, group, topic, partition):
    return struct.pack(">h", version) + text(group) + text(topic) + struct.pack(">i", partition)


def commit_value(offset, leader_epoch, metadata, commit_timestamp, topic_id=None):
    """Value version 3; with the 16 bytes of a topic id version 4."""
    if topic_id is not None:
        return (
            struct.pack(">hqi", 4, offset, leader_epoch)
            + bytes([len(metadata) + 1])
            + metadata
            + struct.pack(">q", commit_timestamp)
            + b"\x01\x00\x10"
            + topic_id
        )
    return (
        struct.pack(">hqi", 3, offset, leader_epoch)
        + text(metadata)
        + struct.pack(">q", commit_timestamp)
    )


def group_key(group):
    return struct.pack(">h", 2) + text(group)


def group_value(generation, member_ids):
    """Value version 3; with members: protocol ``range`` and a leader."""
    protocol = text(b"range") if member_ids else struct.pack(">h", -1)
    leader = text(member_ids[0]) if member_ids else struct.pack(">h", -1)
    members = b"".join(
        text(member)
        + struct.pack(">h", -1)
        + text(b"c")
        + text(b"/h")
        + struct.pack(">iiii", 7, 9, 0, 0)
        for member in member_ids
    )
    return (
        struct.pack(">h", 3)
        + text(b"consumer")
        + struct.pack(">i", generation)
        + protocol
        + leader
        + struct.pack(">qi", 1000, len(member_ids))
        + members
    )


def commit(time, offset=7, *, group=b"g", topic=b"t", partition=0, metadata=b"", committed=None):
    """A record of a commit for `batch`; ``committed`` is the time in its value, if it differs."""
    committed = time if committed is None else committed
    key = commit_key(1, group, topic, partition)
    return time, key, commit_value(offset, -1, metadata, committed)


def each(first, *records):
    """A batch for each record, at consecutive offsets."""
    return [batch(first + at, [record]) for at, record in enumerate(records)]
