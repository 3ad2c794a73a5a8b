"""A fold that has ended takes no more; what is requested of it alone; one request or several."""

import struct

import pytest

from coterie._core.fold import fold as partial
from coterie._core.fold.fold import PartitionFold, absorb, take
from coterie._core.fold.record_scan import ALWAYS, ROW_DTYPES, RecordScan
from support.log_writer import batch, commit, commit_key, group_key, group_value, marker

GOOD = batch(0, [commit(5)])
BROKEN_KEY = batch(1, [(5, commit_key(1, b"g", b"t", 0)[:-1], None)])
BAD_SUM = batch(1, [commit(5)])[:-3] + b"xyz"


@pytest.mark.parametrize(
    ("on_fault", "fault", "ended"),
    [
        ("stop", BROKEN_KEY, "stopped"), ("stop", BAD_SUM, "stopped"), ("recover", BAD_SUM, "cut"),
        ("recover", BROKEN_KEY, "failed"), ("load", BROKEN_KEY, "failed"),
        ("skip", BROKEN_KEY, None), ("skip", BAD_SUM, None),
    ],
)  # fmt: skip
def test_a_fold_that_has_ended_takes_nothing_more_in_any_way(on_fault, fault, ended):
    after = batch(2, [commit(5, partition=1)]) + batch(3, [commit(6, partition=2)])
    later = PartitionFold(on_fault=on_fault)
    later.scan(batch(9, [commit(7, partition=9)]))
    ways = {
        "in one piece": (lambda _: None, fault + after),
        "in the next piece": (lambda fold: fold.scan(after), fault),
        "as objects": (
            lambda fold: take(fold, [(n, *commit(n, partition=n)) for n in (1, 2)]), fault),
        "of a later piece": (lambda fold: absorb(fold, later), fault),
    }  # fmt: skip
    for name, (way, data) in ways.items():
        fold = PartitionFold(on_fault=on_fault)
        assert fold.scan(GOOD + data) == len(GOOD + data)
        seq = fold.seq
        way(fold)
        states = {what: getattr(fold, what) for what in ("failed", "cut", "stopped")}
        assert states == {what: what == ended for what in states}, name
        assert len(fold.faults) == 1, name
        partitions = {key[2] for key in partial.keys(fold)}
        if ended:
            assert (partitions, fold.seq) == ({0}, seq), name
        else:
            assert partitions == ({0, 9} if name == "of a later piece" else {0, 1, 2}), name


def test_the_end_of_a_later_piece_ends_the_whole():
    for on_fault, fault, ended in (
        ("stop", BROKEN_KEY, "stopped"),
        ("recover", BAD_SUM, "cut"),
        ("load", BROKEN_KEY, "failed"),
    ):
        whole, later = (PartitionFold(on_fault=on_fault) for _ in range(2))
        whole.scan(GOOD)
        later.scan(fault)
        absorb(whole, later)
        assert getattr(whole, ended)
        third = PartitionFold(on_fault=on_fault)
        third.scan(batch(5, [commit(5, partition=5)]))
        absorb(whole, third)
        assert [key[2] for key in partial.keys(whole)] == [0]


def test_what_only_one_of_two_pieces_collects_is_left_out():
    full = {"history": True, "survey": True, "tracking": (None, None, None)}
    data = batch(0, [commit(5), (5, group_key(b"g"), group_value(1, [b"m"]))])
    data += batch(2, [commit(6)], producer_id=9, transactional=True)
    for one, other in (({}, full), (full, {})):
        fold, later = PartitionFold(**one), PartitionFold(**other)
        fold.scan(data)
        later.scan(marker(3, 9, 7, commit=True) + batch(4, [commit(8, 3, partition=4)]))
        absorb(fold, later)
        assert [(key[2], value.offset) for key, value in partial.offset_entries(fold)] == [
            (0, 7), (4, 3)]  # fmt: skip
        if one:
            assert (len(fold.history), len(fold.group_records)) == (1, 1)
            assert partial.tracks(fold)["count"].tolist() == [2, 0]


def test_a_survey_and_tracking_collect_the_records_of_groups():
    data = batch(0, [(5, group_key(b"g"), group_value(1, [b"m"]))])
    for options, count in (({"survey": True}, 1), ({"tracking": (None, None, None)}, 1)):
        fold = PartitionFold(**options)
        fold.scan(data)
        assert len(fold.group_records) == count


@pytest.mark.parametrize("only", [None, ["g"], ["other"], ["ü"]])
def test_a_survey_has_the_transactions_of_every_group(only):
    """The next marker of a producer decides the records of all of its groups."""
    data = batch(0, [commit(5), commit(5, partition=1)])
    data += batch(2, [commit(6)], producer_id=9, transactional=True)
    data += marker(3, 8, 7, commit=False) + marker(4, 8, 8, commit=True)
    fold = PartitionFold(survey=True, only=only)
    fold.scan(data)
    assert (fold.survey.open, fold.survey.ended) == ({9: 2}, {8: (0, 3, 7)})
    fold.scan(batch(5, [commit(9)]) + marker(6, 9, 10, commit=True))
    assert (fold.survey.open, fold.survey.ended) == ({}, {9: (1, 6, 10)})
    fold.scan(b"")
    assert (fold.survey.open, fold.survey.ended, fold.number) == ({}, {}, 7)


@pytest.mark.parametrize("first", [0, 1, 2, 3])
def test_a_transaction_is_open_from_its_first_record_that_counts(first):
    """Neither what is late nor what cannot be read counts; the number is that of the record."""
    rows = [commit(20), (5, commit_key(1, b"g", b"t", 0)[:-1], None), commit(20)][:first]
    data = batch(0, [commit(5)]) + batch(
        1, [*rows, commit(6), commit(7)], producer_id=9, transactional=True)  # fmt: skip
    fold = PartitionFold(survey=True, at_ms=10)
    fold.scan(data)
    assert fold.survey.open == {9: 1 + first}


def test_a_scan_gives_the_columns_that_were_requested_and_those_that_come_with_them():
    data = batch(0, [commit(5)], producer_id=9, transactional=True)
    data += marker(1, 9, 7, commit=True) + batch(2, [commit(8), commit(8)])
    together = [
        {"number", "decided_by", "decided_ms"}, {"disk_bytes", "key_size", "value_size"},
        {"topic_id_high", "topic_id_low"},
    ]  # fmt: skip
    everything, _ = RecordScan().scan(data)
    for name in [*sorted(set(ROW_DTYPES) - ALWAYS), "mixed", None]:
        rows, _ = RecordScan(columns=[name] if name else []).scan(data)
        expected = ALWAYS | next((some for some in together if name in some), {name} - {None})
        assert set(rows) - {"batches", "newer_keys"} == expected - {"mixed"}
        for each in expected - {"mixed"}:
            assert rows[each].tolist() == everything[each].tolist(), each
        assert rows["batches"]["mixed"].tolist() == [0, 0, int(name == "mixed")]


def key_of(group, topic, partition):
    return commit_key(1, group.encode(), topic.encode(), partition)


def commits(group="g", topic="t", partition=0, ms=5, rest=b""):
    ms, key, value = commit(ms, group=group.encode(), topic=topic.encode(), partition=partition)
    return ms, key + rest, value


def tombstone(*place, ms=5):
    return ms, key_of(*place), None


LIFE = 5, group_key(b"g"), group_value(1, [b"m"])
GONE = 5, group_key(b"g"), None
NEWER = 5, struct.pack(">hh1s", 3, 1, b"g"), None
UNKNOWN = 5, struct.pack(">hh", 99, 0), b""
FAULT = 5, key_of("g", "t", 7)[:-1], None


@pytest.mark.parametrize(
    ("records", "mixed"),
    [
        ([commits()], False),
        ([commits(partition=n) for n in (0, 1, 2)], False),
        ([commits(partition=n) for n in (2, 0, 1)], False),
        ([commits(partition=n) for n in (2, 0, 2)], True),
        ([commits(partition=n) for n in (0, 1, 1)], True),
        ([commits(topic=topic, partition=n) for topic in "tu" for n in (0, 1)], False),
        ([commits(topic=topic) for topic in "utv"], False),
        ([commits(topic=topic) for topic in "tut"], True),
        ([commits(topic=topic) for topic in ("t", "tt")], False),
        ([commits("g"), commits("h")], True),
        ([commits("g"), commits("gg")], True),
        ([commits("g", "tu"), commits("gt", "u")], True),
        ([commits("g"), tombstone("g", "t", 1)], True),
        ([tombstone("g", "t", 1), commits("g")], True),
        ([tombstone("g", "t", 1), tombstone("h", "t", 1), tombstone("g", "t", 1)], False),
        ([LIFE, commits()], True),
        ([commits(), GONE], True),
        ([LIFE, GONE], False),
        ([UNKNOWN, commits()], True),
        ([commits(), UNKNOWN], True),
        ([UNKNOWN, UNKNOWN, LIFE], False),
        ([NEWER], True),
        ([commits(), FAULT], False),
        ([commits(ms=20), commits()], False),
        ([commits(), commits(ms=20)], False),
        ([commits("h", ms=20), commits("g")], False),
        ([commits(), commits(ms=-1)], True),
        ([commits(rest=b"12"), commits(partition=1)], False),
        ([commits(rest=b"12"), commits(rest=b"34")], True),
        ([commits(rest=b"12"), commits()], True),
    ],
)  # fmt: skip
def test_a_batch_is_of_one_request_unless_its_records_say_otherwise(records, mixed):
    """Of one group, no partition twice, nothing else beside commits. What is late is left out."""
    data = b"".join([batch(0, records), batch(50, [commits()]), batch(60, records)])
    for groups in (None, ["g"], ["other"]):
        rows, _ = RecordScan(at_ms=10, groups=groups).scan(data)
        assert rows["batches"]["mixed"].tolist() == [mixed, False, mixed], groups
