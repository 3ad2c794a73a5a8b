"""A fold and a scan of records without options, and from one piece to the next."""

import struct
import weakref
from itertools import pairwise

import pytest

from coterie import CoterieError
from coterie._core.codec import batch as batch_module
from coterie._core.codec.batch import encode_batch
from coterie._core.fold import fold as partial
from coterie._core.fold.columns import decode_columns
from coterie._core.fold.fold import PartitionFold, dump, take
from coterie._core.fold.record_scan import RecordScan
from support.log_writer import batch, commit, commit_key, group_key, group_value, marker


def damaged(data):
    """The batch with another byte in its last record: its checksum does not hold."""
    return data[:-2] + bytes([data[-2] ^ 1]) + data[-1:]


def opened(at, *records, producer_id=9):
    return batch(at, list(records), producer_id=producer_id, transactional=True)


def test_a_fold_collects_only_what_was_requested():
    group = 5, group_key(b"g"), group_value(1, [b"m"])
    data = batch(0, [commit(5), group]) + opened(2, commit(6))
    plain = PartitionFold()
    assert plain.scan(data) == len(data)
    assert (plain.history, plain.survey, plain.group_records) == (None, None, None)
    with pytest.raises(CoterieError, match="tracks no keys"):
        partial.tracks(plain)
    assert (plain.at_ms, plain.only, plain.on_fault) == (None, None, 0)
    full = PartitionFold(history=True, survey=True, tracking=(None, None, None))
    full.scan(data)
    assert (len(full.history), full.survey.open, len(full.group_records)) == (1, {9: 2}, 1)


def test_each_piece_is_described_alone_whatever_came_before():
    """Its first and last offset, its greatest time, whether offsets are missing."""
    fold = PartitionFold()
    first = batch(3, [commit(70), commit(90)]) + batch(7, [commit(80)])
    second = batch(8, [commit(20)]) + batch(9, [commit(30)])
    fold.scan(first, file="a")
    fold.scan(second, file="b", position=5, expected_offset=8)
    fold.scan(b"", file="c", position=6)
    fold.scan(second, file="d", expected_offset=9)
    assert [tuple(one) for one in fold.segments] == [
        # file, position, bytes, batches, records, first and last offset, greatest time, gap,
        # greatest time of the first batch
        ("a", 0, len(first), 2, 3, 3, 7, 90, True, 90),
        ("b", 5, len(second), 2, 2, 8, 9, 30, False, 20),
        ("c", 6, 0, 0, 0, -1, -1, -1, False, -1),
        ("d", 0, len(second), 2, 2, 8, 9, 30, False, 20),
    ]


@pytest.mark.parametrize(("expected", "gap"), [(-1, False), (0, True), (2, True), (3, False)])
def test_offsets_are_missing_if_the_first_is_above_the_one_that_was_expected(expected, gap):
    fold = PartitionFold()
    fold.scan(batch(3, [commit(5)]), expected_offset=expected)
    (segment,) = fold.segments
    assert segment.gap is gap


def test_max_bytes_ends_a_scan_after_the_batch_that_reaches_it():
    parts = [batch(at, [commit(5, at)]) for at in range(3)]
    ends = [sum(map(len, parts[: n + 1])) for n in range(3)]
    for most, taken in ((1, 0), (ends[0], 0), (ends[0] + 1, 1), (ends[1], 1), (ends[2] + 9, 2)):
        fold = PartitionFold()
        assert fold.scan(b"".join(parts), max_bytes=most) == ends[taken], most
        assert fold.number == taken + 1


def test_a_fault_of_records_taken_as_objects_names_the_batch_and_the_record():
    fold = PartitionFold()
    broken = commit_key(1, b"g", b"t", 0)[:-1]
    rows = [(7, *commit(5)), (9, 6, broken, None)]
    take(fold, rows)
    take(fold, [(11, 7, broken, None)], producer_id=3, transactional=True)
    found = [(f.position, f.base_offset, f.kind, f.offset) for f in fold.faults]
    assert found == [(0, 7, "key", 9), (0, 11, "key", 11)]
    assert fold.seq == 2


def test_records_taken_as_objects_are_of_no_transaction_and_no_marker_by_default():
    plain, open_ = PartitionFold(history=True), PartitionFold(history=True)
    rows = [(7, *commit(5, 3))]
    take(plain, rows)
    take(open_, rows, producer_id=4, transactional=True)
    assert [(len(f.history), len(f.history.pending())) for f in (plain, open_)] == [(1, 0), (0, 1)]
    end = [(8, 6, struct.pack(">hh", 0, 1), bytes(6))]
    take(open_, end, producer_id=4, transactional=True, control=True)
    assert (len(open_.history), len(open_.history.pending())) == (1, 0)
    take(plain, [])  # a batch that compaction emptied
    assert (plain.seq, len(plain.history)) == (2, 1)


def test_a_key_may_have_any_partition():
    for partition in (-(2**31), -1, 0, 2**31 - 1):
        fold = PartitionFold()
        fold.scan(batch(0, [commit(5, group=b"one", topic=b"other", partition=partition)]))
        assert partial.split_key(partial.key_at(fold, 0)) == (b"one", b"other", partition)
        assert partial.keys(fold) == [("one", "other", partition)]


def test_offsets_come_without_the_numbers_that_order_pieces():
    fold = PartitionFold()
    fold.scan(batch(0, [commit(5)]))
    assert set(partial.offset_columns(fold)) == {
        "batch_offset", "offset", "commit_timestamp", "expire_timestamp", "leader_epoch",
        "metadata", "metadata_end", "keys", "bounds", "partition", "topic_id", "topic_ids",
    }  # fmt: skip


def test_checksums_are_checked_by_default():
    good, bad = batch(0, [commit(5, 3)]), damaged(batch(1, [commit(6, 4)]))
    columns = decode_columns(good + bad)
    assert columns["log_offset"].tolist() == [0]
    assert [fault[2] for fault in columns["faults"]] == ["crc"]
    assert "key_at" not in columns
    assert decode_columns(good + bad, check_crc=False)["log_offset"].tolist() == [0, 1]
    for options, offsets in (({}, [0]), ({"check_crc": True}, [0]), ({"check_crc": False}, [0, 1])):
        rows, end = RecordScan(**options).scan(good + bad)
        assert (rows["log_offset"].tolist(), end) == (offsets, len(good + bad))


def test_a_scan_begins_with_record_0_at_position_0_and_gives_all_keys():
    data = batch(0, [commit(5, 3, partition=n) for n in range(3)])
    scan = RecordScan()
    rows, end = scan.scan(data)
    assert (rows["number"].tolist(), rows["batches"]["position"].tolist()) == ([0, 1, 2], [0])
    assert (end, scan.number, scan.key_count) == (len(data), 3, 3)
    assert scan.keys()["partition"].tolist() == [0, 1, 2]
    assert scan.keys(2)["partition"].tolist() == [2]
    assert scan.keys(3)["partition"].tolist() == []
    rows, _ = RecordScan(number=40).scan(data)
    assert rows["number"].tolist() == [40, 41, 42]


def test_a_scan_ends_after_the_batch_that_reaches_max_bytes():
    parts = [batch(at, [commit(5, at)]) for at in range(3)]
    ends = [0, *(sum(map(len, parts[: n + 1])) for n in range(3))]
    data = b"".join(parts)
    for begin, most, last in ((0, 1, 1), (0, ends[1], 1), (0, ends[1] + 1, 2), (1, 1, 2),
                              (1, ends[2] - ends[1] + 1, 3), (1, 10**9, 3), (3, 5, 3)):  # fmt: skip
        rows, end = RecordScan().scan(data, position=ends[begin], max_bytes=most)
        assert end == ends[last], (begin, most)
        assert rows["log_offset"].tolist() == list(range(begin, last))


def test_each_piece_has_its_own_batches_keys_of_newer_records_and_outcomes():
    newer = 5, struct.pack(">hh1s", 3, 1, b"g"), None
    pieces = [
        opened(0, commit(5, 1)) + marker(1, 9, 6, commit=False) + batch(2, [newer]),
        batch(3, [commit(7, 2)]),
        b"",
        batch(4, [commit(8, 3), newer]),
    ]
    scan = RecordScan()
    found = [scan.scan(piece)[0] for piece in pieces]
    assert [rows["log_offset"].tolist() for rows in found] == [[0, 1, 2], [3], [], [4, 5]]
    assert [rows["batches"]["first_offset"].tolist() for rows in found] == [[0, 1, 2], [3], [], [4]]
    assert [len(rows["newer_keys"]) for rows in found] == [1, 0, 0, 1]
    assert [rows["outcome"].tolist() for rows in found] == [[1, 1, 0], [0], [], [0, 0]]
    assert [rows["decided_by"].tolist() for rows in found] == [[1, 1, 2], [3], [], [4, 5]]
    assert [rows["previous_row"].tolist() for rows in found] == [[-1] * 3, [-1], [], [-1, -1]]
    # An aborted commit replaces nothing, so the one at offset 3 came first.
    assert [rows["previous_offset"].tolist() for rows in found[1::2]] == [[-1], [2, -1]]


def test_a_scan_forgets_the_columns_that_it_gave():
    scan = RecordScan()
    rows, _ = scan.scan(batch(0, [commit(5)]))
    block = weakref.ref(rows["offset"].base)
    assert block() is not None
    del rows
    assert block() is None


MAX_MS = 2**63 - 1


@pytest.mark.parametrize(
    ("marker_ms", "at_ms", "decides"),
    [
        (5_001, 5_000, False), (5_000, 5_000, True), (4_999, 5_000, True), (-1, 5_000, True),
        (-1, 0, True), (-1, -1, True), (-1, -2, True), (0, -1, False), (MAX_MS, None, True),
    ],
)  # fmt: skip
def test_a_marker_decides_from_its_time_on_and_one_without_a_time_always(marker_ms, at_ms, decides):
    data = opened(0, commit(-1, 3)) + marker(1, 9, marker_ms, commit=True)
    rows, _ = RecordScan(at_ms=at_ms).scan(data)
    assert rows["outcome"].tolist()[0] == (0 if decides else 2)  # committed or pending
    if decides:
        assert (rows["decided_by"].tolist()[0], rows["decided_ms"].tolist()[0]) == (1, marker_ms)
    fold = PartitionFold(at_ms=at_ms)
    fold.scan(data)
    assert bool(list(partial.offset_entries(fold))) is decides


def test_of_what_is_no_commit_a_scan_has_no_offset_time_or_metadata():
    long = commit(5, 3, metadata=b"m" * 70)
    rows, _ = RecordScan().scan(
        batch(0, [long, (6, long[1], None), (7, group_key(b"g"), None), long, (8, long[1], None)])
        + marker(5, 9, 9, commit=True)
    )
    assert rows["offset"].tolist() == [3, -1, -1, 3, -1, -1]
    assert rows["commit_timestamp"].tolist() == [5, -1, -1, 5, -1, -1]
    assert rows["metadata_size"].tolist() == [70, 0, 0, 70, 0, 0]
    assert rows["value_size"].tolist()[1:3] == [-1, -1]
    assert rows["batches"]["marker"].tolist() == [-1, 1]


def test_of_a_batch_without_records_that_count_a_scan_has_the_place_and_no_number():
    """Compaction empties a batch and leaves its header; what is late counts at another time."""
    parts = [batch(0, [commit(5)]), encode_batch([], 1, last_offset_delta=1, producer_id=9),
             batch(3, [commit(20)]), batch(4, [commit(6)])]  # fmt: skip
    rows, _ = RecordScan(at_ms=10).scan(b"".join(parts))
    assert (rows["log_offset"].tolist(), rows["batch"].tolist()) == ([0, 4], [0, 3])
    begins = [sum(map(len, parts[:at])) for at in range(4)]
    expected = {
        "position": begins, "size": [len(part) for part in parts], "records": [1, 0, 0, 1],
        "producer_id": [-1, 9, -1, -1], "first_row": [0, 1, 1, 1], "first_number": [0, 1, 1, 2],
        "first_offset": [0, -1, 3, 4], "first_ms": [5, -1, 20, 6],
        "log_offset": [0, -1, -1, 4], "from_ms": [5, -1, -1, 6], "until_ms": [5, -1, -1, 6],
        "marker": [-1] * 4, "mixed": [0] * 4,
    }  # fmt: skip
    assert {name: rows["batches"][name].tolist() for name in expected} == expected
    assert [group < 0 for group in rows["batches"]["group"].tolist()] == [False, True, True, False]


@pytest.mark.parametrize("codec", [0, 1])
def test_a_batch_is_shared_out_among_its_records_by_the_bytes_of_their_keys_and_values(codec):
    key, value = commit(5)[1:]
    lives = [(5, group_key(b"g"), group_value(1, [b"m" * size])) for size in (9, 900)]
    records = [(5, key, value), (5, key, None), *lives, commit(6, metadata=b"m" * 70)]
    data = encode_batch([(at, *record) for at, record in enumerate(records)], codec=codec)
    weights = [len(key) + len(value or b"") for _, key, value in records]
    ends = [len(data) * sum(weights[:at]) // sum(weights) for at in range(6)]  # whole bytes
    rows, _ = RecordScan().scan(data)
    assert rows["disk_bytes"].tolist() == [after - before for before, after in pairwise(ends)]


def test_a_record_without_key_and_value_has_its_batch_for_itself():
    data = batch(0, [(5, None, None)], producer_id=9, control=True)
    rows, _ = RecordScan().scan(data)
    assert rows["disk_bytes"].tolist() == [len(data)]


def test_what_a_scan_that_failed_left_undone_is_not_done_by_the_next():
    """A caller can put anything into the dict of groups."""
    fold = PartitionFold()
    lives = batch(0, [(5, group_key(b"g"), group_value(1, [b"m"]))])
    fold.groups[b"g"] = "no log of a group"
    with pytest.raises(AttributeError):
        fold.scan(lives)
    fold.groups.clear()
    fold.scan(batch(1, [commit(5)]))
    assert (fold.groups, fold.key_count) == ({}, 1)


def test_a_history_at_work_is_refused_to_others_and_unchanged(monkeypatch):
    fold, refused = PartitionFold(history=True), []
    fold.scan(batch(0, [commit(5), commit(5, partition=1)]))
    inflate = batch_module.decompress

    def meanwhile(*args):
        history = fold.history
        for call in (history.clear, history.columns, history.pending, lambda: next(history.rows())):
            with pytest.raises(CoterieError, match="in use"):
                call()
            refused.append(call)
        return inflate(*args)

    monkeypatch.setattr(batch_module, "decompress", meanwhile)
    fold.scan(encode_batch([(2, *commit(6))], 2, codec=1))
    assert len(refused) == 4
    assert len(fold.history) == 3
    *_, cleared = dump(fold)[8]
    assert cleared == 0
    fold.history.clear()
    *_, cleared = dump(fold)[8]
    assert (cleared, len(fold.history)) == (3, 0)
