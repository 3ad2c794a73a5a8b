"""Other readers of a log, with the same keys and values decoded on top by struct.

Each peer gives (key version, group, topic, partition, offset or None for a tombstone) for every
offset commit; records of other keys are only counted.
"""

import struct

KEY = struct.Struct(">hh")
H = struct.Struct(">h")
N = struct.Struct(">i")
Q = struct.Struct(">q")


def read_key(key):
    """(group, topic, partition) of an offset commit key, None for another."""
    version, size = KEY.unpack_from(key)
    if version > 1:
        return None
    at = 4 + size
    (topic_size,) = H.unpack_from(key, at)
    end = at + 2 + topic_size
    return key[4:at].decode(), key[at + 2 : end].decode(), N.unpack_from(key, end)[0]


def read_value(value):
    """(offset, leader epoch, metadata, commit timestamp) of an offset commit value, version 3."""
    (version,) = H.unpack_from(value)
    (offset,) = Q.unpack_from(value, 2)
    at, epoch = 10, -1
    if version >= 3:
        (epoch,) = N.unpack_from(value, at)
        at += 4
    (size,) = H.unpack_from(value, at)
    metadata = value[at + 2 : at + 2 + size].decode()
    return offset, epoch, metadata, Q.unpack_from(value, at + 2 + size)[0]


def batches_of(name):
    """The peer's own reader of a segment's bytes: an iterator of batches of records."""
    if name == "kafka-python":
        from kafka.record.memory_records import MemoryRecords
    else:
        from aiokafka.record.memory_records import MemoryRecords

    def batches(data):
        records = MemoryRecords(data)
        while records.has_next():
            yield records.next_batch()

    return batches


def decode(name, segments):
    """(offset commits, tombstones, other records, sum of the offsets), every field read."""
    batches, commits, tombstones, others, total = batches_of(name), 0, 0, 0, 0
    for data in segments:
        for batch in batches(data):
            for record in batch:
                key = read_key(record.key)
                if key is None:
                    others += 1
                elif record.value is None:
                    tombstones += 1
                else:
                    commits += 1
                    total += read_value(record.value)[0]
    return commits, tombstones, others, total


def fold(name, segments):
    """(keys with an offset, sum of the last offsets): the last plain record of a key counts."""
    batches, keys, total = batches_of(name), 0, 0
    for data in segments:
        last = {}
        for batch in batches(data):
            for record in batch:
                key = read_key(record.key)
                if key is None:
                    continue
                if record.value is None:
                    last.pop(key, None)
                else:
                    last[key] = read_value(record.value)
        keys += len(last)
        total += sum(value[0] for value in last.values())
    return keys, total
