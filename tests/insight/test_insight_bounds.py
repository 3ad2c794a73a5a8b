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
from support.insight.record_columns import read_records
from support.log_writer import batch, commit, each, group_key, group_value, marker


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


def test_the_first_record_of_a_group_that_is_made_is_no_rebalance(tmp_path):
    lives = [(0, []), (1, [b"a"]), (1, [b"a"]), (2, [b"a"])]
    records = [(at, group_key(b"g"), group_value(*life)) for at, life in enumerate(lives)]
    (head,) = metrics.rows(facts_of(tmp_path, (0, each(0, *records))), metrics.Parameters())
    assert head["rebalances"] == 2


@pytest.mark.parametrize(("ms", "text"), [(1005, "1.005"), (1050, "1.050"), (999, "0.999")])
def test_a_time_in_seconds_has_all_digits_of_its_milliseconds(ms, text):
    assert prometheus.seconds("at")({"at": ms}) == text


# ---- undo and tables


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
