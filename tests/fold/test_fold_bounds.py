"""The fold and the columns where names are long or alike, and right at the bounds of a batch."""

import struct

import pytest

from coterie import ScanOptions, scan
from coterie._core.codec.batch import encode_batch
from coterie._core.fold.columns import decode_columns
from coterie._core.fold.fold import take
from coterie._core.fold.record_scan import RecordScan
from support.log_writer import batch, commit, group_key, group_value, marker


def offsets_of(data, **options):
    """(group, topic, partition) -> offset."""
    state = scan(data, partition=0, options=ScanOptions(**options))
    return {
        (group["group_id"], one["topic"], one["partition"]): one["offset"]
        for group in state.groups()
        for one in group["offsets"]
    }


def rows_of(data):
    columns = decode_columns(data)
    groups, topics = columns["groups"], columns["topics"]
    return [
        (groups[group], topics[topic], partition, offset)
        for group, topic, partition, offset in zip(
            *(columns[name].tolist() for name in ("group", "topic", "partition", "offset")),
            strict=True,
        )
    ]


def alike(size):
    """Names of one length that differ in one byte alone, wherever that is."""
    return [b"a" * at + b"b" + b"a" * (size - at - 1) for at in range(size)]


@pytest.mark.parametrize("size", [5, 12, 20, 40, 63, 64, 65, 80, 100, 126, 200])
def test_names_that_differ_in_one_byte_alone_are_two(size):
    names = alike(size)
    records = [commit(5, group=name, offset=number) for number, name in enumerate(names)] * 2
    data = b"".join(batch(at, records[at : at + 7]) for at in range(0, len(records), 7))
    expected = {(name.decode(), "t", 0): number for number, name in enumerate(names)}
    assert offsets_of(data) == expected
    assert rows_of(data) == [(*key, offset) for key, offset in expected.items()] * 2


@pytest.mark.parametrize("partitions", [[0, 4, 1, 5, 3], [100, 0, 4, 99], [8, 16, 32, 64, 7]])
def test_partitions_of_names_that_take_turns_keep_apart(partitions):
    groups = [b"one-group-of-many", b"two-group-of-many", b"3-other"]
    records = [
        commit(5, group=group, offset=100 * turn + 10 * number + partition % 7, partition=partition)
        for turn in range(3)
        for partition in partitions
        for number, group in enumerate(groups)
    ]
    data = b"".join(batch(at, records[at : at + 4]) for at in range(0, len(records), 4))
    expected = {
        (group.decode(), "t", partition): 200 + 10 * number + partition % 7
        for number, group in enumerate(groups)
        for partition in partitions
    }
    assert offsets_of(data) == expected


@pytest.mark.parametrize("at", [0, 10, 30, 50, 60, 70, 90, 99])
def test_names_that_java_reads_alike_are_one_wherever_they_are_broken(at):
    one, other = (b"a" * at + bad + b"a" * (99 - at) for bad in (b"\xff", b"\xfe"))
    records = [commit(5, group=one, offset=1), commit(5, group=other, offset=2)]
    (group,) = scan(batch(0, records), partition=0).groups()
    assert group["group_id"] == "a" * at + "\ufffd" + "a" * (99 - at)
    assert [offset["offset"] for offset in group["offsets"]] == [2]


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("at", [0, 50, 99])
def test_topics_that_java_reads_alike_are_one_in_batches_of_any_kind(at, codec):
    names = [b"a" * at + bad + b"a" * (99 - at) for bad in (b"\xff", b"\xfe")]
    rows = [(n, *commit(5, topic=name, offset=n)) for n, name in enumerate(names)]
    (group,) = scan(encode_batch(rows, codec=codec), partition=0).groups()
    found = [(offset["topic"], offset["offset"]) for offset in group["offsets"]]
    assert found == [("a" * at + "\ufffd" + "a" * (99 - at), 1)]


def opened(base_offset, producer_id, *records):
    return batch(base_offset, list(records), producer_id=producer_id, transactional=True)


def test_a_plain_commit_stands_in_the_log_before_the_marker_that_follows_it():
    data = batch(0, [commit(5, offset=1)]) + opened(1, 9, commit(5, offset=2))
    data += batch(2, [commit(5, group=b"h", offset=3)]) + marker(3, 9, 6, commit=True)
    assert offsets_of(data) == {("g", "t", 0): 2, ("h", "t", 0): 3}


def test_a_marker_puts_no_older_offset_over_a_plain_one():
    data = opened(0, 9, commit(5, offset=1)) + batch(1, [commit(5, offset=2)])
    assert offsets_of(data + marker(2, 9, 6, commit=True)) == {("g", "t", 0): 2}


@pytest.mark.parametrize(("at_ms", "offset"), [(4, 1), (5, 2), (6, 2), (7, 3)])
def test_a_record_at_the_very_time_counts(at_ms, offset):
    records = [commit(4, offset=1), commit(5, offset=2), commit(7, offset=3)]
    assert offsets_of(batch(0, records), at_ms=at_ms) == {("g", "t", 0): offset}
    lives = [(time, group_key(b"g"), group_value(time, [b"m"])) for time in (4, 5, 7)]
    state = scan(batch(0, lives), options=ScanOptions(at_ms=at_ms))
    assert state.groups()[0]["generation"] == (min(at_ms, 5) if at_ms < 7 else 7)


@pytest.mark.parametrize(("at_ms", "found"), [(8, {}), (9, {("g", "t", 0): 7})])
def test_a_transaction_counts_from_the_very_time_of_its_marker_on(at_ms, found):
    data = opened(0, 9, commit(5)) + marker(1, 9, 9, commit=True)
    assert offsets_of(data, at_ms=at_ms) == found


@pytest.mark.parametrize(("offsets", "gap"), [([0, 1, 2], False), ([0, 2], True), ([1, 2], True)])
def test_a_batch_from_which_a_record_is_gone_has_a_gap(offsets, gap):
    rows = [(offset, *commit(5, offset=offset)) for offset in offsets]
    data = encode_batch(rows, 0, last_offset_delta=2)
    (segment,) = scan(data, partition=0).fold(0).segments
    assert segment[8] == gap


def test_an_offsets_position_is_that_of_the_first_record_that_is_left_of_its_batch():
    rows = [(offset, *commit(5, offset=offset)) for offset in (2, 3)]
    (group,) = scan(encode_batch(rows, 0)).groups()
    assert group["offsets"][0]["appended_batch_offset"] == 2


def test_a_batch_whose_last_record_is_broken_gives_nothing():
    good, bad = commit(5, offset=1), (6, struct.pack(">h", 1) + b"\0", b"")
    state = scan(batch(0, [good]) + batch(1, [commit(5, offset=2), bad]), partition=0)
    assert [one["offset"] for one in state.groups()[0]["offsets"]] == [2]
    assert [fault[3] for fault in state.fold(0).faults] == ["key"]


def test_the_time_since_a_record_at_the_time_0_is_known():
    lives = [(time, group_key(b"g"), group_value(time + 1, [b"m"])) for time in (0, 5)]
    fold = scan(batch(0, lives), partition=0).fold(0)
    assert [change[-1] for change in fold.groups[b"g"].generations()] == [None, 5]


def test_a_control_batch_leaves_no_metadata_whatever_its_record_looks_like():
    odd = batch(1, [commit(5, offset=2, metadata=b"odd")], producer_id=9, control=True)
    after = batch(2, [commit(5, offset=3, metadata=b"three")])
    columns = decode_columns(batch(0, [commit(5, offset=1, metadata=b"one")]) + odd + after)
    assert columns["metadata"].tobytes() == b"onethree"
    assert columns["metadata_end"].tolist() == [3, 3, 8]


def test_metadata_of_records_that_come_as_objects_is_kept():
    fold = ScanOptions().new_fold()
    texts = [b"%060d" % number for number in range(2000)]
    take(
        fold,
        [
            (n, *commit(5, offset=n, partition=n, metadata=bytes(one)))
            for n, one in enumerate(texts)
        ],
    )
    _other = [bytes([number % 256]) * 100 for number in range(20_000)]  # into what was freed
    from coterie.state.rows import group_rows

    (group,) = group_rows(0, fold)
    assert [one["metadata"].encode() for one in group["offsets"]] == texts


def test_a_batch_that_does_not_add_up_leaves_no_key_of_its_newer_records():
    newer = struct.pack(">hh1s", 3, 1, b"g"), None  # of a consumer group's metadata
    good, bad = (bytearray(batch(at, [(5, *newer)])) for at in range(2))
    bad += b"odd"
    struct.pack_into(">i", bad, 8, len(bad) - 12)
    rows, _ = RecordScan(check_crc=False).scan(bytes(bad + good))
    assert rows["log_offset"].tolist() == [0]
    assert rows["newer_keys"] == [newer[0]]
