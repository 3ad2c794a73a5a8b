"""Answers at the limits of the questions' rules, from handmade records."""

import pytest

from coterie.base import prometheus
from coterie.base.times import MAX_MS
from coterie.errors import CoterieError
from coterie.insight import tables
from coterie.insight.offsets.end_offsets import EndOffsets, Sample, read_end_offsets
from coterie.insight.questions import audit, expire, growth, metrics, time_range, undo
from coterie.insight.records import log_reader
from coterie.insight.records.partition_view import PartitionView, read_partitions
from coterie.log.folders import find_segments
from support.insight.pieces import answer_in_pieces
from support.insight.record_columns import read_records
from support.log_writer import batch, commit, commit_key, each, group_key, group_value, marker


def facts_of(folder, *segments):
    """A view of a partition with these batches, by the segment's base offset."""
    folder = folder / "__consumer_offsets-0"
    folder.mkdir()
    for base_offset, batches in segments:
        (folder / f"{base_offset:020}.log").write_bytes(b"".join(batches))
    (view,) = read_partitions([folder])
    return view


def commits_of(folder, *segments):
    """Commits of such a partition as columns."""
    return read_records(facts_of(folder, *segments).segments).only_commits()


def open_commit(base_offset, time, **fields):
    return batch(base_offset, [commit(time, **fields)], producer_id=5, transactional=True)


# ---- columns


def test_metadata_sizes_of_the_second_segment_are_those_of_its_records(tmp_path):
    first = each(0, commit(1, metadata=b"one"), commit(2, metadata=b"two"))
    second = each(2, commit(3, metadata=b"three"), commit(4, metadata=b""))
    commits = commits_of(tmp_path, (0, first), (2, second))
    assert commits.metadata_size.tolist() == [3, 3, 5, 0]


def test_places_are_those_in_the_segment_also_behind_its_first_piece(tmp_path, monkeypatch):
    batches = each(0, *(commit(time) for time in range(5)))
    monkeypatch.setattr(log_reader, "READ_PIECE_BYTES", len(batches[0]) + 1)
    commits = commits_of(tmp_path, (0, batches))
    assert commits.position.tolist() == [len(batches[0]) * at for at in range(5)]


def test_a_partition_below_0_is_a_key_like_any_other(tmp_path):
    batches = each(
        0,
        commit(1, partition=-1),
        commit(2, partition=0),
        commit(3, partition=-1),
        commit(4, partition=-1, topic=b"u"),
    )
    commits = commits_of(tmp_path, (0, batches))
    assert commits.key.tolist() == [0, 1, 0, 2]
    assert commits.partition.tolist() == [-1, 0, -1, -1]


def test_the_newest_record_may_lie_before_the_last_segment(tmp_path):
    view = facts_of(tmp_path, (0, each(0, commit(9), commit(8))), (2, each(2, commit(5))))
    (row,) = time_range.rows(view, time_range.Parameters())
    assert (row["first_timestamp"], row["newest_timestamp"]) == (5, 9)


# ---- end offsets


def test_the_greatest_partition_and_offset_are_read_and_what_is_beyond_is_reported(tmp_path):
    file = tmp_path / "ends"
    file.write_text("t:2147483647:9223372036854775807\n")
    expected = {("t", 2**31 - 1): (Sample(None, 2**63 - 1),)}
    assert read_end_offsets(file) == EndOffsets(False, expected)
    for line, says in (("t:2147483648:5", "no partition"), (f"t:0:{2**63}", "no offset")):
        file.write_text(line + "\n")
        with pytest.raises(CoterieError, match=says):
            read_end_offsets(file)


def test_samples_stand_by_time_whatever_their_order_in_the_file(tmp_path):
    file = tmp_path / "ends.csv"
    file.write_text("time,topic,partition,offset\n300,t,0,3\n0,t,0,1\n200,t,0,2\n")
    expected = (Sample(0, 1), Sample(200, 2), Sample(300, 3))
    assert read_end_offsets(file).samples == {("t", 0): expected}


# ---- expire


def test_a_group_that_never_had_members_is_idle_since_its_latest_commit(tmp_path):
    view = facts_of(tmp_path, (0, each(0, commit(9000, partition=0), commit(5000, partition=1))))
    rows = list(expire.rows(view, expire.Parameters(10_000)))
    assert [row["idle_since"] for row in rows] == [9000, 9000]


@pytest.mark.parametrize(
    ("committed", "expires_at"), [(MAX_MS - 1000, MAX_MS), (MAX_MS - 999, None)]
)
def test_an_offset_goes_at_the_last_millisecond_or_never(tmp_path, committed, expires_at):
    view = facts_of(tmp_path, (0, each(0, commit(5, committed=committed))))
    (row,) = expire.rows(view, expire.Parameters(MAX_MS - 10, retention_ms=1000))
    assert (row["expires_at"], row["rule"]) == (expires_at, "standalone")


def test_an_open_transaction_keeps_no_offset_of_a_classic_group(tmp_path):
    view = facts_of(tmp_path, (0, [*each(0, commit(5)), open_commit(1, 6)]))
    (row,) = expire.rows(view, expire.Parameters(1005, retention_ms=1000))
    assert (row["status"], row["pending"], row["remaining_ms"]) == ("expired", True, 0)


# ---- growth


def held(view, group="g"):
    """A group's superseded bytes: free, blocked by a transaction, in the active segment."""
    (row,) = [row for row in growth.rows(view, growth.Parameters()) if row["group_id"] == group]
    names = ("free_bytes", "held_transaction_bytes", "held_active_bytes")
    return [row[name] > 0 for name in names]


def test_what_the_first_record_of_the_active_segment_supersedes_is_not_free(tmp_path):
    view = facts_of(tmp_path, (0, each(0, commit(1))), (1, each(1, commit(2))))
    assert held(view) == [False, False, True]


def test_what_a_record_behind_an_open_transaction_supersedes_is_held_by_it(tmp_path):
    closed = [*each(0, commit(1)), open_commit(1, 2, group=b"x"), *each(2, commit(3))]
    view = facts_of(tmp_path, (0, closed), (3, each(3, commit(4, group=b"y"))))
    assert held(view) == [False, True, False]


@pytest.mark.parametrize(
    ("commits", "interval_ms", "too_often"),
    [(11, 1001, True), (11, 1000, False), (10, 1001, False)],
)
def test_ten_intervals_shorter_than_asked_are_too_often(tmp_path, commits, interval_ms, too_often):
    view = facts_of(tmp_path, (0, each(0, *(commit(1000 * at) for at in range(commits)))))
    (row,) = growth.rows(view, growth.Parameters(interval_ms=interval_ms))
    assert (row["interval_ms"], row["too_often"]) == (1000, too_often)


def test_records_without_a_time_are_in_a_span_of_their_own_without_a_time(tmp_path):
    view = facts_of(tmp_path, (0, each(0, commit(100), commit(-1), commit(5000), commit(-1))))
    rows = list(growth.rows(view, growth.Parameters(every_ms=5000)))
    assert [(row["time"], row["records"]) for row in rows] == [(None, 2), (0, 1), (5000, 1)]


def test_the_time_between_two_spans_is_no_interval_of_either(tmp_path):
    times = (4000, 4500, 5500, 5800)
    view = facts_of(tmp_path, (0, each(0, *map(commit, times))))
    rows = list(growth.rows(view, growth.Parameters(every_ms=5000)))
    assert [(row["time"], row["interval_ms"]) for row in rows] == [(0, 500), (5000, 300)]


def test_an_open_transaction_is_listed_once_a_group_and_topic(tmp_path):
    records = [commit(1, partition=0), commit(2, partition=1)]
    opened = batch(0, records, producer_id=5, transactional=True)
    (row,) = growth.rows(facts_of(tmp_path, (0, [opened])), growth.Parameters())
    assert [one["log_offset"] for one in row["open_transactions"]] == [0]


# ---- metrics


def test_a_group_committed_last_when_its_latest_partition_did(tmp_path):
    view = facts_of(
        tmp_path,
        (0, each(0, commit(0, partition=0), commit(9, partition=1), commit(5, partition=2))),
    )
    head, *partitions = metrics.rows(view, metrics.Parameters())
    assert [row["commit_timestamp"] for row in (head, *partitions)] == [9, 0, 9, 5]


def test_a_commit_that_is_gone_was_made_at_the_time_0(tmp_path):
    gone = [*each(0, commit(0)), batch(1, [(5, commit_key(1, b"g", b"t", 0), None)])]
    gone += each(2, commit(7, partition=1))
    view = facts_of(tmp_path, (0, gone))
    _, row, _ = metrics.rows(view, metrics.Parameters())
    assert (row["offset"], row["commit_timestamp"]) == (None, 0)


def test_the_first_record_of_a_group_that_is_made_is_no_rebalance(tmp_path):
    lives = [(0, []), (1, [b"a"]), (1, [b"a"]), (2, [b"a"])]
    records = [(at, group_key(b"g"), group_value(*life)) for at, life in enumerate(lives)]
    (head,) = metrics.rows(facts_of(tmp_path, (0, each(0, *records))), metrics.Parameters())
    assert head["rebalances"] == 2


@pytest.mark.parametrize(("partitions", "idle"), [([], True), ([3], False)])
def test_a_member_with_a_topic_of_no_partitions_is_idle(partitions, idle):
    member = {"current_assignment": [{"topic": "t", "partitions": partitions}]}
    assert metrics.is_idle(member) == idle


@pytest.mark.parametrize(("ms", "text"), [(1005, "1.005"), (1050, "1.050"), (999, "0.999")])
def test_a_time_in_seconds_has_all_digits_of_its_milliseconds(ms, text):
    assert prometheus.seconds("at")({"at": ms}) == text


# ---- undo and tables


def test_both_times_of_an_offset_are_reported_and_what_a_reset_would_add(tmp_path):
    view = facts_of(tmp_path, (0, each(0, commit(100, offset=10), commit(200, offset=25))))
    (row,) = undo.rows(view, undo.Parameters(150))
    assert (row["commit_timestamp"], row["latest_commit_timestamp"]) == (100, 200)
    assert (row["offset"], row["latest_offset"], row["difference"]) == (10, 25, -15)


def test_a_transaction_that_is_committed_at_the_very_time_counts(tmp_path):
    view = facts_of(tmp_path, (0, [open_commit(0, 100), marker(1, 5, 150, commit=True)]))
    (row,) = undo.rows(view, undo.Parameters(150))
    assert (row["change"], row["offset"]) == ("same", 7)
    (row,) = undo.rows(view, undo.Parameters(149))
    assert (row["change"], row["offset"]) == ("new", None)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [(True, "bool", "yes"), (False, "bool", "no"), (None, "bool", "-"), (0, "int64", "0")],
)
def test_a_cell_says_no_where_something_is_not_and_a_dash_where_it_is_not_known(value, kind, text):
    assert tables.cell(value, kind) == text


# ---- the first time that there is, and the first and last of a range


def test_a_transaction_that_has_ended_holds_nothing_whatever_is_read_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(log_reader, "READ_PIECE_BYTES", 1)
    closed = [
        open_commit(0, 1, group=b"x"),
        *each(1, commit(2)),
        marker(2, 5, 3, commit=True),
        *each(3, commit(4)),
    ]
    view = facts_of(tmp_path, (0, closed), (4, each(4, commit(5, group=b"y"))))
    assert held(view) == [True, False, False]


def test_commits_at_time_0_have_intervals_like_any_other(tmp_path):
    view = facts_of(tmp_path, (0, each(0, commit(0), commit(300), commit(600))))
    (row,) = growth.rows(view, growth.Parameters())
    assert row["interval_ms"] == 300


def test_a_finding_at_time_0_has_that_time(tmp_path):
    view = facts_of(tmp_path, (0, each(0, commit(0, offset=9), commit(0, offset=5))))
    (row,) = audit.rows(view, audit.Parameters(only=("rewind",)))
    assert (row["timestamp"], row["first"], row["last"]) == (0, 0, 0)


@pytest.mark.parametrize(("began_ms", "text"), [(0, " in 1.5 s"), (-1, "")])
def test_rewinds_again_and_again_say_in_which_time_if_it_is_known(tmp_path, began_ms, text):
    times = (began_ms, began_ms, 700, 900, 1200, 1500)
    records = [
        commit(at, offset=offset) for at, offset in zip(times, (9, 4, 8, 3, 7, 1), strict=True)
    ]
    (row,) = audit.rows(
        facts_of(tmp_path, (0, each(0, *records))), audit.Parameters(only=("rewind",))
    )
    assert row["detail"] == f"set back 3 times{text}, between 1 and 9, by 16 offsets together"


@pytest.mark.parametrize("pieces", [1, 1 << 20])
def test_the_first_and_the_last_moment_of_a_range_belong_to_it(tmp_path, monkeypatch, pieces):
    monkeypatch.setattr(log_reader, "READ_PIECE_BYTES", pieces)
    records = each(0, *(commit(at, offset=-at) for at in (100, 200, 300, 400)))
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(b"".join(records))
    (segments,) = find_segments([folder]).partitions().values()
    rewinds = audit.Parameters(only=("rewind",))
    for since_ms, at_ms, expected in (
        (200, 300, [200, 300]),
        (201, 300, [300]),
        (200, 299, [200]),
        (300, 300, [300]),
    ):
        options = {"since_ms": since_ms, "at_ms": at_ms}
        whole = list(audit.rows(PartitionView(0, segments, **options), rewinds))
        assert [row["timestamp"] for row in whole] == expected


@pytest.mark.parametrize(("in_transaction", "skipped"), [(False, [(10, 9000)]), (True, [])])
def test_a_transaction_sets_no_offset_from_outside_of_a_group(tmp_path, in_transaction, skipped):
    def moved(offset, at_ms, to):
        records = [commit(at_ms, offset=to)]
        if not in_transaction:
            return each(offset, *records)
        opened = batch(offset, records, producer_id=5, transactional=True)
        return [opened, marker(offset + 1, 5, at_ms, commit=True)]

    generations = [
        (ms, group_key(b"g"), group_value(ms, ids)) for ms, ids in ((1, [b"m"]), (2, []))
    ]
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    head, tail = each(0, *generations, commit(3, offset=10)), moved(3, 4, 9000)
    for base_offset, batches in ((0, head), (3, tail)):
        (folder / f"{base_offset:020}.log").write_bytes(b"".join(batches))
    (segments,) = find_segments([folder]).partitions().values()
    skips = audit.Parameters(only=("skip",))
    for rows in (
        audit.rows(PartitionView(0, segments), skips),
        answer_in_pieces(segments, audit, skips, {}),
    ):
        assert [(row["previous_offset"], row["offset"]) for row in rows] == skipped
