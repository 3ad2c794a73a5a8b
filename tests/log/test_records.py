"""Records as rows: markers, and keys and values that no schema reads."""

import struct

import pytest

from coterie.log.records import segment_records
from support.log_writer import batch, commit, text


def rows_of(data, **how):
    faults = []
    rows = segment_records(
        data, partition=3, segment="s.log", on_fault=lambda *fault: faults.append(fault), **how
    )
    return list(rows), faults


def control(*types, epoch=0):
    """A control batch with a record of each type, of EndTransactionMarker's value."""
    value = struct.pack(">hi", 0, epoch)
    records = [(5, struct.pack(">hh", 0, kind), value) for kind in types]
    return batch(7, records, producer_id=9, producer_epoch=2, transactional=True, control=True)


@pytest.mark.parametrize("epoch", [0, 300, -1])
def test_a_marker_has_its_type_and_the_epoch_of_its_coordinator(epoch):
    rows, faults = rows_of(control(1, 0, epoch=epoch))
    assert [row["control"]["type"] for row in rows] == ["COMMIT", "ABORT"]
    assert [row["control"]["coordinator_epoch"] for row in rows] == [epoch, epoch]
    assert [row["offset"] for row in rows] == [7, 8]
    assert rows[0]["batch"] == {
        "base_offset": 7, "magic": 2, "compression": "none", "producer_id": 9, "producer_epoch": 2,
        "is_transactional": True, "is_control": True, "position": 0,
    }  # fmt: skip
    assert faults == []


@pytest.mark.parametrize(
    ("types", "fault"),
    [
        ((2, 1), (0, 7, "marker", None, "a control batch of type LEADER_CHANGE")),
        ((99, 1), (0, 7, "marker", None, "a control batch of type UNKNOWN")),
        ((1, 2), None),
    ],
)
def test_the_first_record_of_a_control_batch_says_whether_it_is_a_marker(types, fault):
    _, faults = rows_of(control(*types))
    assert faults == ([] if fault is None else [fault])


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (struct.pack(">hh", 0x7FFF, 1), "COMMIT"),
        (struct.pack(">hh", 0, 1) + b"\xff", "COMMIT"),  # a later version may have more
        (struct.pack(">hh", -1, 1), "UNKNOWN"),
        (struct.pack(">hh", 0, -1), "UNKNOWN"),
        (b"\0\0\0", "UNKNOWN"),
    ],
)
def test_a_control_key_has_a_type_from_version_0_on(key, name):
    """Source: ``ControlRecordType.parse``."""
    value = struct.pack(">hi", 0, 4)
    data = batch(7, [(5, key, value)], producer_id=9, transactional=True, control=True)
    (row,) = rows_of(data)[0]
    fields = {"type": name, "key": key, "value": value}
    if name == "COMMIT":
        fields["coordinator_epoch"] = 4
    assert row["control"] == fields


def test_what_no_schema_reads_has_its_version_its_bytes_and_one_fault():
    time, key, value = commit(5)
    odd_value, cut_key = struct.pack(">h", -2) + b"x", key[:-1]
    pairs = [(key, odd_value), (cut_key, value), (cut_key, odd_value), (cut_key, None)]
    data = batch(0, [(time, *pair) for pair in pairs])
    rows, faults = rows_of(data)
    first, second, *_ = rows
    assert (first["value"]["version"], first["value"]["raw"]) == (-2, odd_value)
    assert first["key"]["data"]["group"] == "g"
    assert (second["key"]["version"], second["key"]["type"]) == (1, first["key"]["type"])
    assert second["key"]["raw"] == cut_key
    assert [(fault[0], fault[1], fault[2], fault[3]) for fault in faults] == [
        (0, 0, "value", 0),
        (0, 0, "key", 1),
        (0, 0, "key", 2),  # one for a record, of what comes first
        (0, 0, "key", 3),
    ]
    odd = data + control(2) + data[:-1] + b"x"
    assert [*segment_records(odd, segment="s.log", partition=3)] == rows_of(odd)[0]


def test_of_some_groups_no_other_records_and_no_markers_come():
    data = batch(0, [commit(5, group=name) for name in (b"a", b"b")]) + control(1)
    newer = (5, struct.pack(">h", 3) + text(b"b"), None)
    rows, _ = rows_of(data + batch(9, [newer]), groups={"b"})
    assert [row["offset"] for row in rows] == [1, 9]
    assert {(row["partition"], row["segment"]) for row in rows} == {(3, "s.log")}


@pytest.mark.parametrize(
    ("key", "value", "name"),
    [
        (None, None, "UNKNOWN"),
        (struct.pack(">hh", 0, 1), None, "COMMIT"),
        (struct.pack(">hh", 0, 1), bytes(5), "COMMIT"),
        (struct.pack(">hh", 0, 2), bytes(6), "LEADER_CHANGE"),  # no EndTransactionMarker
    ],
)
def test_a_marker_without_a_whole_value_has_no_epoch(key, value, name):
    data = batch(7, [(5, key, value)], producer_id=9, transactional=True, control=True)
    (row,) = rows_of(data)[0]
    assert row["control"] == {"type": name, "key": key, "value": value}


@pytest.mark.parametrize(("raw", "version"), [(b"\xff\xfe", -2), (b"\0", None), (b"", None)])
def test_bytes_that_cannot_be_read_have_a_version_if_there_are_two_of_them(raw, version):
    (row,), (fault,) = rows_of(batch(0, [(5, commit(5)[1], raw)]))
    assert (row["value"]["version"], row["value"]["raw"]) == (version, raw)
    assert fault[2] == "value"


def test_unknown_tagged_fields_of_a_value_are_shown_with_their_bytes():
    """A value of version 4: offset 100, epoch 5, metadata "md", time 1000, tags 8 and 9."""
    raw = bytes.fromhex(
        "0004 0000000000000064 00000005 03 6d64 00000000000003e8 02 08 02 abcd 09 00"
    )
    (row,), faults = rows_of(batch(0, [(5, commit(5)[1], raw)]))
    assert faults == []
    assert row["value"] == {
        "version": 4,
        "data": {"offset": 100, "leaderEpoch": 5, "metadata": "md", "commitTimestamp": 1000,
                 "_unknown_tags": [(8, b"\xab\xcd"), (9, b"")]},
    }  # fmt: skip
