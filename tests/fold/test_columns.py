"""Columns against the same log read record by record."""

import struct

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coterie._core.codec.batch import LogReader
from coterie._core.fold.columns import KIND_NAMES, decode_columns
from coterie.messages import encode_batch, encode_value
from support import log_writer
from support.examples import examples
from support.golden_data import cases, corrupt_cases, segments
from support.log_writer import commit_key, commit_value
from support.messages import RECORDS

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
        check_plain(columns, decode_columns(data))
        batches = list(LogReader(data))
        records = [(batch, record) for batch in batches for record in batch.records]
        assert columns["log_offset"].tolist() == [r.offset for _, r in records]
        assert columns["timestamp"].tolist() == [r.timestamp for _, r in records]
        assert columns["batches"]["position"].tolist() == [b.position for b in batches]
        numbers = columns["batches"]["position"][columns["batch"]].tolist()
        assert numbers == [b.position for b, _ in records]
        for row, (batch, record) in enumerate(records):
            check_row(columns, row, batch, record)


def check_plain(raw, plain):
    """The other columns are equal with and without raw keys and values."""
    for name in set(raw) - {"key_at", "key_size", "value_at", "value_size", "bytes"}:
        one, other = raw[name], plain[name]
        assert one == other if isinstance(one, list) else np.array_equal(one, other), name


LENGTHS = st.sampled_from([0, 1, 7, 8, 9, 15, 16, 17, 18, 31, 32, 33, 61, 62, 63, 64, 65, 130])
COMMITS = st.lists(
    st.tuples(
        st.integers(-70, 70) | st.integers(-(2**40), 2**40),  # ms after the first one
        LENGTHS,  # of the group
        LENGTHS,  # of the topic
        st.none() | LENGTHS | st.sampled_from([8100, 8200]),  # of the metadata; None: tombstone
        st.integers(-(2**63), 2**63 - 1),
    ),
    min_size=1,
    max_size=150,
)


@given(COMMITS, st.integers(0, 2**62))
@example([(0, 8, 8, 16, 1)] * 70, 0)  # the last record, whose bytes end with the log
@settings(max_examples=examples(60))
def test_commits_of_all_lengths_are_read_whole(commits, base_ms):
    records, heap = [], b""
    expected = {name: [] for name in ("partition", "offset", "metadata_end", "names", "timestamp")}
    for n, (after_ms, group, topic, metadata, offset) in enumerate(commits):
        names = (f"{n % 3}" * group, f"{n % 2}" * topic)
        key = commit_key(n % 2, names[0].encode(), names[1].encode(), n - 5)
        value = None
        if metadata is not None:
            value = commit_value(offset, n, bytes([n % 251]) * metadata, base_ms + n)
            heap += bytes([n % 251]) * metadata
        records.append((base_ms + (after_ms if n else 0), key, value))
        expected["partition"].append(n - 5)
        expected["offset"].append(-1 if value is None else offset)
        expected["metadata_end"].append(len(heap))
        expected["names"].append(names)
        expected["timestamp"].append(records[-1][0])
    data = log_writer.batch(7, records) + log_writer.batch(7 + len(records), records[:1])
    for raw in (False, True):
        columns = decode_columns(data, raw=raw)
        assert columns["faults"] == []
        assert columns["metadata"].tobytes()[: len(heap)] == heap
        assert columns["log_offset"].tolist() == list(range(7, 8 + len(records)))
        for name in ("partition", "offset", "metadata_end", "timestamp"):
            assert columns[name].tolist()[:-1] == expected[name], name
        numbers = zip(columns["group"].tolist(), columns["topic"].tolist(), strict=True)
        names = [(columns["groups"][group], columns["topics"][topic]) for group, topic in numbers]
        assert names[:-1] == expected["names"]


def check_row(columns, row, batch, record):
    kind = KIND_NAMES[columns["kind"][row]]
    is_commit = kind in {"offset", "offset_tombstone"}
    none = [] if is_commit else ["topic", "partition"]
    if kind in {"marker", "unknown", "fault"}:
        none.append("group")
    if kind != "offset":
        none += ["offset", "leader_epoch", "commit_timestamp", "expire_timestamp"]
    assert {int(columns[name][row]) for name in none} <= {-1}, (kind, none)
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


def test_a_record_of_a_control_batch_is_no_commit_whatever_it_looks_like():
    pair = (1000, commit_key(1, b"group", b"topic", 3), commit_value(9, 2, b"metadata", 7))
    data = log_writer.batch(0, [pair]) + log_writer.batch(1, [pair], producer_id=7, control=True)
    columns = decode_columns(data + log_writer.marker(2, 7, 1000, commit=True))
    assert [KIND_NAMES[kind] for kind in columns["kind"]] == ["offset", "marker", "marker"]
    for name in ("group", "topic", "partition", "offset", "leader_epoch", "commit_timestamp"):
        assert columns[name].tolist()[1:] == [-1, -1], name
    assert columns["metadata"].tobytes() == b"metadata"
    assert columns["metadata_end"].tolist() == [8, 8, 8]


@pytest.mark.parametrize("raw", [False, True])
def test_a_key_version_without_a_schema_is_unknown(raw):
    """18 among them: it was never given to a type."""
    versions = range(-(2**15), 2**15)
    fields = commit_key(0, b"group", b"member", 7)[2:]  # a key of any version begins like that
    pairs = [(1000, struct.pack(">h", version) + fields, None) for version in versions]
    columns = decode_columns(log_writer.batch(0, pairs), raw=raw)
    found = zip(columns["key_version"].tolist(), columns["kind"].tolist(), strict=True)
    unknown = [version for version, kind in found if KIND_NAMES[kind] == "unknown"]
    assert unknown == [version for version in versions if version not in RECORDS]
    assert columns["faults"] == []


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_names_are_those_of_their_batch_though_its_bytes_come_where_others_were(codec):
    log, names = b"", []
    for number in range(160):
        names.append(f"group-{number:03}")
        key = commit_key(1, names[-1].encode(), b"one-topic", number)
        pairs = [(number, 1000, key, commit_value(number, -1, b"", 1000))]
        log += encode_batch(pairs, number, codec=codec)
    for raw in (False, True):
        columns = decode_columns(log, raw=raw)
        assert [columns["groups"][group] for group in columns["group"]] == names
        assert [columns["topics"][topic] for topic in columns["topic"]] == ["one-topic"] * 160


@pytest.mark.parametrize("version", range(5))
def test_a_value_cut_by_a_byte_is_a_fault_and_the_record_after_it_is_none(version):
    data = {"offset": 7, "leaderEpoch": 3, "metadata": "m", "commitTimestamp": 1}
    whole = encode_value(1, {"version": version, "data": {**data, "expireTimestamp": 2}})
    keys = [commit_key(1, b"a-group", b"a-topic", number) for number in range(2)]
    pairs = [(1000, keys[0], whole), (1000, keys[0], whole[:-1]), (1000, keys[1], whole)]
    log = log_writer.batch(0, pairs)
    for raw in (False, True):
        columns = decode_columns(log, raw=raw)
        assert [KIND_NAMES[kind] for kind in columns["kind"]] == ["offset", "fault", "offset"]
        assert [fault[2:4] for fault in columns["faults"]] == [("value", 1)]
        assert columns["commit_timestamp"].tolist()[::2] == [1, 1]


def test_a_null_of_any_length_below_0_has_the_size_of_a_null():
    newer = bytearray(log_writer.batch(0, [(5, None, None)]))
    newer[-3], newer[-2] = 0x03, 0x77  # -2 and -60 as varints, in the places of the two -1
    older = struct.pack(">qiIbbii", 1, 14, 0, 0, 0, -2, -60)
    data = bytes(newer) + older
    columns = decode_columns(data, raw=True, check_crc=False)
    assert columns["log_offset"].tolist() == [0, 1]
    for name in ("key_size", "value_size"):
        assert columns[name].tolist() == [-1, -1], name
    records = [record for batch in LogReader(data, check_crc=False) for record in batch.records]
    assert [(record.key, record.value) for record in records] == [(None, None)] * 2
