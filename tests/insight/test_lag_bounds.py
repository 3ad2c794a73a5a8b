"""Lag at each bound of its rules (docs/lag.md): what is known, and how old the first unread is."""

from types import SimpleNamespace

import pytest

from coterie.insight.offsets.end_offsets import EndOffsets, Sample
from coterie.insight.questions import lag
from coterie.insight.questions.lag import CompleteRange, EndSamples
from coterie.insight.records.partition_view import PartitionView, read_partitions
from coterie.log.folders import find_segments
from coterie.log.set_back import SetBack
from support.insight.lives import commit, life, member, written
from support.insight.pieces import answer_in_pieces
from support.log_writer import batch, marker


@pytest.mark.parametrize(
    ("complete", "at_ms", "offset", "status"),
    [
        ((None, None), 5, None, None),
        ((200, 300), None, None, None),  # the end of the log
        ((200, 300), 300, 7, None),
        ((200, 300), 301, 7, "beyond_log"),
        ((200, 300), 301, None, "beyond_log"),
        ((200, 300), 200, None, None),
        ((200, 300), 199, None, "compacted"),
        ((200, 300), 199, 0, None),
        ((200, None), 199, None, "compacted"),
        ((None, 300), 199, None, None),
        ((None, 0), 1, None, "beyond_log"),
    ],
)
def test_an_offset_is_known_while_the_log_is_complete(complete, at_ms, offset, status):
    assert CompleteRange(*complete).status(at_ms, offset) == status


def samples(*pairs):
    return EndSamples(tuple(Sample(*pair) for pair in pairs))


@pytest.mark.parametrize(
    ("offset", "end", "unknown", "expected"),
    [
        (7, 9, None, (2, None, "ok")),
        (9, 9, None, (0, None, "ok")),
        (10, 9, None, (None, None, "ahead")),
        (None, 9, None, (None, None, "no_commit")),
        (None, None, None, (None, None, "no_commit")),
        (7, None, None, (None, None, "no_end_offset")),
        (7, 9, "compacted", (None, 2, "compacted")),
        (10, 9, "compacted", (None, None, "compacted")),
        (None, 9, "compacted", (None, None, "compacted")),
    ],
)
def test_a_lag_is_known_if_both_offsets_are(offset, end, unknown, expected):
    found = lag.lag_of(offset, samples((1000, end)), 0, unknown)
    assert (found["lag"], found["lag_max"], found["status"]) == expected
    is_even = found["status"] == "ok" and found["lag"] == 0
    assert found["lag_ms_max"] == (0 if is_even else None)


def test_a_lag_that_is_not_known_has_no_age():
    ends = samples((1000, 5), (2000, 9))
    for unknown, ages in ((None, (0, 1000)), ("compacted", (None, None))):
        found = lag.lag_of(7, ends, 1, unknown)
        assert (found["lag_ms_min"], found["lag_ms_max"]) == ages
    found = lag.lag_of(9, ends, 1)  # nothing is unread
    assert (found["lag"], found["lag_ms_min"], found["lag_ms_max"]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("copied_ms", "newest_ms", "end_ms"),
    [(None, 7, 7), (None, 0, 0), (None, -1, None), (5, 7, 5), (9, -1, 9), (0, 7, 0)],
)
def test_a_log_ends_with_the_time_of_its_copy_or_of_its_newest_record(copied_ms, newest_ms, end_ms):
    parameters = lag.Parameters(EndOffsets(True), log_until_ms=copied_ms)
    assert lag.log_end_ms(SimpleNamespace(newest_ms=newest_ms), parameters) == end_ms


RISING = ((1000, 5), (2000, 9), (2500, None), (3000, 9), (4000, 20), (6000, 30))
AGAIN = (*RISING, (7000, 12), (8000, 40))


@pytest.mark.parametrize(
    ("ends", "offset", "index", "bounds"),
    [
        (RISING, 5, 1, (0, 1000)),
        (RISING, 9, 4, (0, 1000)),  # written after 3000, by 4000
        (RISING, 8, 4, (2000, 3000)),  # written after 1000, by 2000
        (RISING, 8, 5, (4000, 5000)),
        (RISING, 20, 5, (0, 2000)),
        (RISING, 4, 5, (5000, None)),  # before the first sample, or later
        (RISING, 4, 0, (0, None)),
        (AGAIN, 20, 5, (0, 2000)),  # the topic was the old one until then
        (AGAIN, 4, 6, (None, None)),
        (AGAIN, 30, 7, (None, None)),
        (((1000, None), (2000, 9)), 4, 0, (None, None)),
        (((None, 9),), 4, 0, (None, None)),  # without a time no age is known
    ],
)
def test_the_first_unread_record_was_written_between_two_samples(ends, offset, index, bounds):
    assert samples(*ends).behind_ms(offset, index) == bounds


def test_totals_are_by_group_and_time_in_order_of_time():
    rows = [
        {"group_id": group, "offsets_partition": 3, "time": time, "lag": known, "trusted_from": 8}
        for group, time, known in (
            ("h", 20, 1), ("g", 20, None), ("g", 10, 4), ("h", None, 7), ("g", 10, 5),
            ("g", 20, None), ("g", 10, None), ("h", 0, 0),
        )
    ]  # fmt: skip
    found = [
        tuple(row[name] for name in ("group_id", "time", "partitions", "lag", "unknown"))
        for row in lag.totals(rows)
    ]
    assert found == [
        ("h", None, 1, 7, 0),
        ("h", 0, 1, 0, 0),
        ("h", 20, 1, 1, 0),
        ("g", 10, 3, 9, 1),
        ("g", 20, 2, None, 2),
    ]
    (row,) = lag.totals(rows[:1])
    assert (row["offsets_partition"], row["trusted_from"]) == (3, 8)


def test_all_samples_have_rows_unless_only_the_latest_is_asked_for(tmp_path):
    folder = written(
        tmp_path,
        [life(90, 1, member("m", held={"t": [1, 0]}))],
        [life(91, 1, member("m", held={"u": [0]}), group=b"f")],
        commit(100, {1: 10}),
        commit(200, {1: 20}),
    )
    ends = EndOffsets(True, {("t", 1): (Sample(100, 15), Sample(150, 18), Sample(200, 33))})
    (view,) = read_partitions([folder])
    whole = [
        (row["group_id"], row["partition"], row["time"], row["offset"], row["lag"])
        for row in lag.rows(view, lag.Parameters(ends))
    ]
    assert whole == [
        ("f", 0, None, None, None),
        ("g", 0, None, None, None),
        ("g", 1, 100, 10, 5),
        ("g", 1, 150, 10, 8),
        ("g", 1, 200, 20, 13),
    ]
    (view,) = read_partitions([folder])
    latest = list(lag.rows(view, lag.Parameters(ends, latest=True)))
    assert [(row["partition"], row["time"]) for row in latest] == [(0, None), (0, None), (1, 200)]
    (view,) = read_partitions([folder], groups=frozenset({"g"}))
    assert {row["group_id"] for row in lag.rows(view, lag.Parameters(ends))} == {"g"}


@pytest.mark.parametrize(
    ("until_ms", "statuses"), [(None, ["ok", "beyond_log"]), (201, ["ok", "ok"])]
)
def test_a_log_is_complete_until_the_time_of_its_copy(until_ms, statuses, tmp_path):
    ends = EndOffsets(True, {("t", 1): (Sample(200, 33), Sample(201, 34))})
    (view,) = read_partitions([written(tmp_path, commit(200, {1: 20}))])
    rows = lag.rows(view, lag.Parameters(ends, log_until_ms=until_ms))
    assert [row["status"] for row in rows] == statuses


@pytest.mark.parametrize(
    ("timed", "at_ms", "end_ms", "time"),
    [
        (False, 150, None, 150),
        (False, 150, 200, 150),
        (False, None, 200, 200),
        (False, None, None, None),
        (True, 150, 200, 200),  # samples have times of their own
        (True, 150, None, None),
    ],
)
def test_ends_without_a_time_are_of_the_requested_one_or_of_the_end(timed, at_ms, end_ms, time):
    parameters = lag.Parameters(EndOffsets(timed), at_ms)
    view = PartitionView(0, (), at_ms=end_ms)
    assert lag.time_of(view, parameters) == time
    assert bool(lag.states(view, parameters)) == (not timed and time is None)


@pytest.mark.parametrize(
    ("first_ms", "second", "seen"),
    [
        (5, [(7, 20), (20, None)], [20, 10]),
        (18, [(20, 20), (7, None)], [None, 10]),
        (5, [(7, None), (20, 20)], [10, 20]),
        (5, [(7, 20), (20, 30)], [20, 30]),
    ],
)
def test_a_transaction_with_two_records_of_a_key_shows_the_last_that_is_in_effect(
    first_ms, second, seen, tmp_path, monkeypatch
):
    """A tombstone in a transaction has no effect, so what the one before set is seen again.

    By the records' own times: a record may have a later one than its marker.
    """
    monkeypatch.setattr(lag.SetBack, "of", lambda segments, read: SetBack())
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()

    def within(producer):
        return {"producer_id": producer, "transactional": True}

    batches = [
        batch(0, commit(first_ms, {0: 10}), **within(1)),
        marker(1, 1, first_ms, commit=True),
        *(
            batch(2 + n, commit(ms, {0: offset}), **within(2))
            for n, (ms, offset) in enumerate(second)
        ),
        marker(4, 2, 8, commit=True),
    ]
    (folder / f"{0:020}.log").write_bytes(b"".join(batches))
    ends = EndOffsets(True, {("t", 0): (Sample(15, 99), Sample(25, 99))})
    (segments,) = find_segments([folder]).partitions().values()
    rows = answer_in_pieces(segments, lag, lag.Parameters(ends, log_until_ms=30), {})
    assert [row["offset"] for row in rows] == seen
