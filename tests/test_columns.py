"""Columns against the same log read record by record."""

import struct

import pytest

from coterie._core.columns import KIND_NAMES, decode_columns
from coterie._core.reader import LogReader
from coterie.messages import encode_batch
from golden_data import cases, corrupt_cases, segments

ALL = [*cases(), *(f"corrupt/{case}" for case in corrupt_cases())]


def commit_fields(value):
    """(offset, leader epoch, metadata, commit timestamp, expire timestamp), by struct alone."""
    version, offset = struct.unpack_from(">hq", value)
    at, epoch, expire = 10, -1, -1
    if version >= 3:
        (epoch,) = struct.unpack_from(">i", value, at)
        at += 4
    if version < 4:
        (size,) = struct.unpack_from(">h", value, at)
        at += 2
    else:
        size, shift = 0, 0
        while True:
            size |= (value[at] & 0x7F) << shift
            shift += 7
            at += 1
            if value[at - 1] < 0x80:
                break
        size -= 1
    metadata = value[at : at + size]
    (commit,) = struct.unpack_from(">q", value, at + size)
    if version == 1:
        (expire,) = struct.unpack_from(">q", value, at + size + 8)
    return offset, epoch, metadata, commit, expire


@pytest.mark.parametrize("case", ALL)
def test_columns_say_what_the_records_say(case):
    for path in segments(case):
        data = path.read_bytes()
        columns = decode_columns(data, raw=True)
        batches = list(LogReader(data))
        records = [(batch, record) for batch in batches for record in batch.records]
        assert columns["log_offset"].tolist() == [r.offset for _, r in records]
        assert columns["timestamp"].tolist() == [r.timestamp for _, r in records]
        assert columns["batches"]["position"].tolist() == [b.position for b in batches]
        numbers = columns["batches"]["position"][columns["batch"]].tolist()
        assert numbers == [b.position for b, _ in records]
        for row, (batch, record) in enumerate(records):
            check_row(columns, row, batch, record)


def check_row(columns, row, batch, record):
    kind = KIND_NAMES[columns["kind"][row]]
    heap = columns["bytes"]
    for field, expected in (("key", record.key), ("value", record.value)):
        at, size = int(columns[f"{field}_at"][row]), int(columns[f"{field}_size"][row])
        assert (None if size < 0 else heap[at : at + size].tobytes()) == expected
    if batch.is_control:
        assert kind == "marker"
        return
    if kind not in {"offset", "offset_tombstone"}:
        assert kind == "fault" or record.key[:2] not in {b"\0\0", b"\0\1"}
        return
    (group_size,) = struct.unpack_from(">h", record.key, 2)
    group = record.key[4 : 4 + group_size]
    (topic_size,) = struct.unpack_from(">h", record.key, 4 + group_size)
    topic = record.key[6 + group_size : 6 + group_size + topic_size]
    assert columns["groups"][columns["group"][row]] == group.decode("utf-8", "replace")
    assert columns["topics"][columns["topic"][row]] == topic.decode("utf-8", "replace")
    (partition,) = struct.unpack_from(">i", record.key, 6 + group_size + topic_size)
    assert columns["partition"][row] == partition
    if kind == "offset":
        ends = columns["metadata_end"]
        start = int(ends[row - 1]) if row else 0
        found = (
            int(columns["offset"][row]),
            int(columns["leader_epoch"][row]),
            columns["metadata"][start : int(ends[row])].tobytes(),
            int(columns["commit_timestamp"][row]),
            int(columns["expire_timestamp"][row]),
        )
        assert found == commit_fields(record.value)


@pytest.mark.parametrize("codec", [0, 1, 4])
def test_a_marker_is_one_however_its_batch_is_compressed(codec):
    pair = (0, 1000, bytes.fromhex("00000001"), bytes(6))
    data = encode_batch([pair], producer_id=7, transactional=True, control=True, codec=codec)
    columns = decode_columns(data)
    assert columns["batches"]["marker"].tolist() == [1]
    assert [KIND_NAMES[kind] for kind in columns["kind"]] == ["marker"]
