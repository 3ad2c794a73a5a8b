"""Keys and values as short, empty or long as they can be: every reader says the same of them."""

import struct

import pytest

from coterie import ScanOptions, scan
from coterie._core.codec.batch import LogReader, encode_message_set
from coterie._core.fold import fold as partial
from coterie._core.fold.columns import KIND_NAMES, decode_columns
from coterie._core.fold.fold import PartitionFold, dump, restore
from coterie._core.fold.record_scan import RecordScan
from coterie.state.partial import Tracking
from support.log_writer import batch, commit, commit_key, commit_value, group_key, group_value

KEY, VALUE = commit_key(1, b"g", b"t", 0), commit_value(7, -1, b"", 5)
GROUP, LIFE = group_key(b"g"), group_value(1, [b"m"])
NO_NAME, NO_NAMES = group_key(b""), commit_key(0, b"", b"", 0)

CASES = {  # a record -> its kind, and the fault if it has one
    "commit": (KEY, VALUE, "offset", None),
    "tombstone": (KEY, None, "offset_tombstone", None),
    "commit of empty names": (NO_NAMES, VALUE, "offset", None),
    "empty value of a commit": (KEY, b"", "fault", "value"),
    "value that is a version": (KEY, b"\0\3", "fault", "value"),
    "bytes behind a key": (KEY + b"\0\0", VALUE, "offset", None),
    "bytes behind a value": (KEY, VALUE + b"\0", "offset", None),
    "group": (GROUP, LIFE, "group", None),
    "gone group": (GROUP, None, "group_tombstone", None),
    "group of an empty name": (NO_NAME, LIFE, "group", None),
    "bytes behind a group's key": (GROUP + b"\0", LIFE, "group", None),
    "empty value of a group": (GROUP, b"", "fault", "value"),
    "name that is cut": (GROUP[:-1], LIFE, "fault", "key"),
    "name without bytes": (struct.pack(">hh", 2, 1), LIFE, "fault", "key"),
    "null name": (struct.pack(">hh", 2, -1), LIFE, "fault", "key"),
    "half a size": (GROUP[:3], LIFE, "fault", "key"),
    "version of a commit alone": (b"\0\0", VALUE, "fault", "key"),
    "version of a group alone": (b"\0\2", LIFE, "fault", "key"),
    "unknown version alone": (struct.pack(">h", 99), VALUE, "unknown", None),
    "version below 0": (struct.pack(">hh", -1, 0), VALUE, "unknown", None),
    "unknown version before names": (struct.pack(">h", 99) + KEY[2:], VALUE, "unknown", None),
    "version below 0 before names": (struct.pack(">h", -1) + KEY[2:], VALUE, "unknown", None),
    "half a version": (b"\0", VALUE, "fault", "key"),
    "empty key": (b"", VALUE, "fault", "key"),
    "no key": (None, VALUE, "fault", "key"),
}
ALONE = {name: batch(3, [(5, *row[:2])]) for name, row in CASES.items()}
FOLDS = {
    "all groups": {},
    "tracked": {"tracking": (None, None, None), "history": True},
    "its group": {"only": ["g", ""]},
    "another group": {"only": ["other"]},
    "in time": {"at_ms": 5},
    "a name that is not ASCII": {"only": ["ü"]},
}


@pytest.mark.parametrize("case", CASES)
def test_every_reader_says_the_same_of_a_record(case):
    key, _value, kind, fault = CASES[case]
    group = "" if "empty name" in case else "g"
    data = batch(2, [commit(4, group=b"before")]) + ALONE[case] + batch(4, [commit(5, group=b"z")])
    faults = [(fault, 3)] if fault else []
    for raw in (False, True):
        columns = decode_columns(data, raw=raw)
        assert [KIND_NAMES[one] for one in columns["kind"]] == ["offset", kind, "offset"]
        assert [one[2:4] for one in columns["faults"]] == faults
        assert columns["partition"].tolist()[1] == (0 if kind.startswith("offset") else -1)
        if raw:
            assert columns["key_size"].tolist()[1] == (-1 if key is None else len(key))
    rows, _ = RecordScan().scan(data)
    kinds = ["offset", "offset"] if fault else ["offset", kind, "offset"]
    assert [KIND_NAMES[one] for one in rows["kind"]] == kinds
    assert rows["number"].tolist() == ([0, 2] if fault else [0, 1, 2])
    assert rows["batches"]["records"].tolist() == [1, 0 if fault else 1, 1]
    for name, options in FOLDS.items():
        fold = PartitionFold(**options)
        fold.scan(data)
        assert [(one.kind, one.offset) for one in fold.faults] == faults, name
        requested = {"before", group, "z"} & set(options.get("only", ["before", group, "z"]))
        lives = [group] if kind.startswith("group") and group in requested else []
        assert [one.decode() for one in fold.groups] == lives, name
        commits = ["before", *([group] if kind == "offset" else []), "z"]
        offsets = [one for (one, _, _), _ in partial.offset_entries(fold)]
        assert offsets == [one for one in commits if one in requested], name
        unknown = {} if kind != "unknown" else {struct.unpack_from(">h", key)[0]: 1}
        assert fold.unknown == unknown, name


@pytest.mark.parametrize("case", CASES)
def test_a_scan_of_one_group_says_of_a_batch_what_a_scan_of_all_says(case):
    first = 5, commit_key(1, b"other", b"t", 0), VALUE
    data = ALONE[case] + batch(4, [first, (5, *CASES[case][:2])])
    data += batch(6, [(5, *CASES[case][:2])] * 2) + batch(8, [first, first])
    (everything, _), (some, _) = RecordScan().scan(data), RecordScan(groups=["g"]).scan(data)
    for name in set(everything["batches"].dtype.names) - {"first_row"}:
        assert some["batches"][name].tolist() == everything["batches"][name].tolist(), name
    twice = CASES[case][2] == "offset"  # one partition in two commits is not one request
    assert everything["batches"]["mixed"].tolist()[2:] == [twice, True]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_of_an_old_format_is_read_as_one_whatever_its_value_holds(magic):
    """Even a record of the new format, where a batch of that would have it."""
    new = batch(7, [commit(5)])
    key = b"k" * 20
    value = b"v" * (61 - (34 if magic else 26) - len(key)) + new[61:]
    old = encode_message_set([(8, 5, key, value)], magic)
    assert old[61:] == new[61:]
    data = new + old
    columns = decode_columns(data, raw=True)
    assert columns["key_size"].tolist() == [len(commit(5)[1]), len(key)]
    assert [record.key for one in LogReader(data) for record in one.records][1:] == [key]
    rows, _ = RecordScan().scan(data)
    assert [KIND_NAMES[one] for one in rows["kind"]] == ["offset", "unknown"]
    for name, options in FOLDS.items():
        fold = PartitionFold(**options)
        fold.scan(data)
        assert fold.unknown == {struct.unpack_from(">h", key)[0]: 1}, name


def test_every_byte_of_a_name_of_any_length_counts():
    """Groups that are not requested differ in a number that stands for their name."""
    names = [b"a" * size for size in range(2, 90)]
    names += [name[:i] + b"b" + name[i + 1 :] for name in names for i in range(len(name))]
    data = b"".join(batch(n, [commit(5, group=name)]) for n, name in enumerate(names))
    rows, _ = RecordScan(groups=["other"]).scan(data)
    numbers = rows["batches"]["group"].tolist()
    assert len(set(numbers)) == len(names)
    assert min(numbers) >= 0


def test_of_no_groups_nothing_is_read():
    data = batch(0, [commit(5), (5, GROUP, LIFE), (5, NO_NAME, None)])
    rows, _ = RecordScan(groups=[]).scan(data)
    assert (rows["log_offset"].tolist(), rows["batches"]["records"].tolist()) == ([], [3])
    fold = PartitionFold(only=[])
    fold.scan(data)
    assert (fold.key_count, fold.groups, fold.number) == (0, {}, 3)


def test_a_fault_says_whether_there_was_no_key_or_an_empty_one():
    fold = PartitionFold()
    fold.scan(batch(0, [(5, None, VALUE), (5, b"", VALUE), (5, b"\0", VALUE)]))
    assert [fault.detail for fault in fold.faults] == [
        "a record without a key", "shorter than a version", "shorter than a version",
    ]  # fmt: skip


@pytest.mark.parametrize(("size", "groups"), [(21_844, 1), (21_845, 1), (21_846, 2), (32_767, 2)])
def test_names_are_one_to_java_as_long_as_a_key_can_hold_what_it_reads(size, groups):
    """It reads U+FFFD, three bytes, for each byte: at most 65,535 of them."""
    names = (b"\xff" * size, b"\xfe" * size)
    data = batch(0, [commit(5, n, group=name) for n, name in enumerate(names)])
    fold = PartitionFold()
    fold.scan(data)
    scan_ = RecordScan()
    scan_.scan(data)
    assert fold.key_count == scan_.key_count == groups
    travelled = PartitionFold()
    restore(travelled, dump(fold))
    assert partial.keys(travelled) == partial.keys(fold)


def test_a_state_of_the_shortest_key_travels():
    fold, travelled = PartitionFold(), PartitionFold()
    fold.scan(batch(0, [(5, NO_NAMES, VALUE), commit(5)]))
    restore(travelled, dump(fold))
    assert partial.keys(travelled) == [("", "", 0), ("g", "t", 0)]
    assert [partial.key_at(travelled, n) for n in range(2)] == [NO_NAMES[2:], KEY[2:]]
    with pytest.raises(IndexError):
        partial.key_at(travelled, 2)


def test_a_group_at_the_time_0_has_that_time():
    value = LIFE.replace(struct.pack(">q", 1000), bytes(8))  # its state's
    fold = PartitionFold()
    fold.scan(batch(0, [(0, GROUP, value), (-1, GROUP, value), (0, GROUP, value)]))
    rows = fold.groups[b"g"].generations()
    assert [row.timestamp for row in rows] == [0, None, 0]
    assert [row.current_state_timestamp for row in rows] == [0, 0, 0]
    assert [row.since_previous_ms for row in rows] == [None, None, None]


@pytest.mark.parametrize(
    ("tracking", "count"),
    [
        (Tracking(), 5), (Tracking(since_ms=5), 3), (Tracking(since_ms=6), 2),
        (Tracking(since_ms=1), 4), (Tracking(since_ms=0), 5), (Tracking(since_ms=9), 1),
        (Tracking(since_ms=9, since_offset=13), 3), (Tracking(since_ms=9, since_offset=14), 2),
        (Tracking(since_ms=9, since_offset=10), 5), (Tracking(until_ms=5), 4),
        (Tracking(until_ms=0), 2), (Tracking(until_ms=-1), 1),
    ],
)  # fmt: skip
def test_commits_are_counted_from_a_time_or_an_offset_on(tracking, count):
    """Those without a time always are; from the offset on, the time does not matter."""
    times = (0, -1, 5, 4, 6)  # at the offsets 10 to 14
    data = b"".join(batch(10 + n, [commit(ms, n)]) for n, ms in enumerate(times))
    for piece in (None, 2):
        state = scan(data, partition=0, options=ScanOptions(tracking=tracking))
        if piece:
            cut = len(data) * 2 // 5
            state = scan(data[:cut], partition=0, options=ScanOptions(tracking=tracking))
            state.absorb(scan(data[cut:], partition=0, options=ScanOptions(tracking=tracking)))
        (track,) = partial.tracks(state.fold(0))
        assert track["count"] == count
