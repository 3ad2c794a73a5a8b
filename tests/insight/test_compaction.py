"""What compaction removed is unknown, never "no"; all other answers are those of the whole log.

Random logs, cut and cleaned by a model of Kafka's cleaner; every question is put to the whole log
and to what is left of it.
"""

import tempfile

from hypothesis import example, given
from hypothesis import strategies as st

from coterie.insight.offsets.end_offsets import EndOffsets, Sample
from coterie.insight.question_engine import rows_of
from coterie.insight.questions import audit, expire, explain, lag, metrics, undo
from coterie.insight.records.partition_view import read_partitions
from support.insight.compacted_logs import FIRST_MS, GROUPS, TOPICS, folders, operations, written
from support.insight.models import question_rows

TIMES = st.lists(st.integers(-1, 1_000_000), min_size=1, max_size=4)
KEY = ("group_id", "topic", "partition")
PLACES = {"file", "position", "trusted_from"}  # batches move when others are removed


def since_of(folder):
    (view,) = read_partitions([folder])
    return view.trusted_from_ms


def by_key(rows):
    return {tuple(row[name] for name in KEY): row for row in rows}


def alike(one, other, *but):
    """Whether two rows are equal, except for the places of records and the named fields."""
    return all(one[name] == other[name] for name in one if name not in {*PLACES, *but})


def is_trusted(since_ms, at_ms):
    return since_ms is None or at_ms >= since_ms


REMOVED_BEFORE = [  # the cleaner takes the tombstone
    (1, "delete", (GROUPS[0], TOPICS[0], 0)),
    (0, "commit", ((GROUPS[0], TOPICS[0], 0), 0)),
    (0, "roll", None),
    (0, "commit", ((GROUPS[0], TOPICS[0], 0), 0)),
    (0, "clean", 0),
]


@given(operations(), TIMES)
@example(REMOVED_BEFORE, {0})
def test_undo_tells_what_was_or_that_it_is_not_known(steps, times):
    with tempfile.TemporaryDirectory() as home:
        log = written(steps)
        whole, left = folders(log, home)
        since_ms = since_of(left)
        for at_ms in {FIRST_MS + ms for ms in times} | {log.now_ms}:
            expected = by_key(question_rows(whole, undo, undo.Parameters(at_ms)))
            actual = by_key(question_rows(left, undo, undo.Parameters(at_ms)))
            assert set(actual) <= set(expected)
            if is_trusted(since_ms, at_ms):
                assert set(actual) == {key for key, row in expected.items() if row["change"]}
            for key, row in actual.items():
                true = expected[key]
                if row["change"] == undo.UNKNOWN:
                    assert not is_trusted(since_ms, at_ms)
                    assert alike(row, true, "change", *THEN)
                    continue
                # Compaction may remove an earlier rewind.
                old = since_ms is not None and (true["rewound_at"] or 0) < since_ms
                assert alike(row, true, *(("rewound_from", "rewound_at") if old else ()))


THEN = ("offset", "difference", "leader_epoch", "metadata", "commit_timestamp", "rewound_from")
THEN = (*THEN, "rewound_at", "expires_at", "removed_at", "removal", "note")


@given(operations(), TIMES)
def test_a_lag_is_that_of_the_whole_log_or_not_known(steps, times):
    with tempfile.TemporaryDirectory() as home:
        log = written(steps)
        whole, left = folders(log, home)
        since_ms = since_of(left)
        moments = sorted({FIRST_MS + ms for ms in times} | {log.now_ms, log.now_ms + 1})
        samples = tuple(Sample(ms, 2) for ms in moments)
        ends = {(topic.decode(), number): samples for topic in TOPICS for number in (0, 1)}
        parameters = lag.Parameters(EndOffsets(True, ends), log_until_ms=log.now_ms)
        expected = {
            (row["time"], *key): row for key, row in keyed(question_rows(whole, lag, parameters))
        }
        actual = {
            (row["time"], *key): row for key, row in keyed(question_rows(left, lag, parameters))
        }
        for place, row in actual.items():
            assert (row["status"] == lag.BEYOND_LOG) == (place[0] > log.now_ms)
            if row["status"] == lag.COMPACTED:
                assert not is_trusted(since_ms, place[0])
                assert row["lag"] is row["lag_max"] is None
            else:
                assert alike(row, expected[place])
        for place, row in expected.items():
            if place not in actual:  # a key without any record left
                assert row["offset"] is None or not is_trusted(since_ms, place[0])


def keyed(rows):
    return [(tuple(row[name] for name in KEY), row) for row in rows]


PLACE = (GROUPS[0], TOPICS[0], 0)
REMOVED_TWICE = [  # the cleaner takes the commit and the tombstone that removed it
    (1, "commit", (PLACE, 0)),
    (1, "delete", PLACE),
    (1, "commit", ((GROUPS[1], TOPICS[0], 0), 0)),
    (1, "roll", None),
    (1, "delete", PLACE),
    (1, "clean", 0),
    (1, "join", (GROUPS[0], set())),
]
OF_THE_COMMIT = ("offset", "commit_timestamp", "rule", "since", "expires_at", "remaining_ms")


@given(operations())
@example(REMOVED_TWICE)
def test_the_expiry_of_what_is_there_is_known_and_of_what_is_gone_since_then(steps):
    """Except of what was gone before, and is removed once more: nothing is left of its commit."""
    with tempfile.TemporaryDirectory() as home:
        log = written(steps)
        whole, left = folders(log, home)
        since_ms = since_of(left)
        parameters = expire.Parameters(log.now_ms + 10, retention_ms=1000)
        expected = by_key(question_rows(whole, expire, parameters))
        actual = by_key(question_rows(left, expire, parameters))
        assert set(actual) <= set(expected)
        known = [
            key
            for key, row in expected.items()
            if row["status"] != expire.REMOVED or is_trusted(since_ms, row["removed_at"])
        ]
        lost = {key for key in known if actual[key]["rule"] == "unknown" != expected[key]["rule"]}
        if lost:
            then = by_key(question_rows(whole, undo, undo.Parameters(since_ms - 1)))
        for key in known:
            assert alike(actual[key], expected[key], *(OF_THE_COMMIT if key in lost else ()))
            if key in lost:
                assert key not in then or then[key]["offset"] is None
                assert expected[key]["commit_timestamp"] < since_ms


@given(operations())
@example(REMOVED_TWICE)
def test_metrics_count_since_the_log_is_whole(steps):
    """The last commit of a group may be gone if it was before, and its offset removed."""
    with tempfile.TemporaryDirectory() as home:
        whole, left = folders(written(steps), home)
        since_ms = since_of(left)
        expected = by_key(question_rows(whole, metrics, metrics.Parameters(), since_ms=since_ms))
        actual = by_key(question_rows(left, metrics, metrics.Parameters()))
        assert set(actual) <= set(expected)
        for key, row in expected.items():
            last_ms = row["commit_timestamp"]
            if (
                key in actual
                and key[1] is None
                and last_ms is not None
                and not is_trusted(since_ms, last_ms)
            ):
                assert alike(actual[key], row, "commit_timestamp")
                assert (actual[key]["commit_timestamp"] or last_ms) <= last_ms
            elif key in actual:
                assert alike(actual[key], row)
            else:  # removed before
                assert (row["offset"], row["commits"]) == (None, 0)


def rows_since(folder, since_ms, question, parameters):
    """The rows since a time; a whole log is treated as if it were complete only from then on."""
    (view,) = read_partitions([folder])
    assert view.trusted_from_ms in (None, since_ms)
    view.trusted_from_ms = since_ms
    return [
        {name: value for name, value in row.items() if name not in PLACES}
        for row in rows_of(view, question, parameters)
        if since_ms is None or row["timestamp"] is None or row["timestamp"] >= since_ms
    ]


LARGE_BEFORE_AND_SINCE = [  # equal metadata in one key, the first before the log is whole
    (0, "commit", ((GROUPS[0], TOPICS[0], 0), 0)),
    (0, "write", (1, (GROUPS[2], TOPICS[0], 0), 1)),
    (0, "roll", None),
    (0, "commit", ((GROUPS[0], TOPICS[0], 0), 0)),
    (1, "write", (1, (GROUPS[2], TOPICS[0], 0), 1)),
    (0, "end", (1, False)),
    (0, "clean", 0),
]


@given(operations())
@example(LARGE_BEFORE_AND_SINCE)
def test_the_audit_finds_all_that_happened_since_the_log_is_whole(steps):
    with tempfile.TemporaryDirectory() as home:
        whole, left = folders(written(steps), home)
        since_ms = since_of(left)
        parameters = audit.Parameters(no_progress=3, metadata_bytes=0, flap_count=2)
        actual = rows_since(left, since_ms, audit, parameters)
        assert actual == rows_since(whole, since_ms, audit, parameters)


@given(operations())
def test_a_life_is_reported_alike_since_the_log_is_whole(steps):
    with tempfile.TemporaryDirectory() as home:
        whole, left = folders(written(steps), home)
        since_ms = since_of(left)
        actual = rows_since(left, since_ms, explain, explain.Parameters(flap_count=2))
        expected = rows_since(whole, since_ms, explain, explain.Parameters(flap_count=2))
        gone = {row["group_id"] for row in expected} - {row["group_id"] for row in actual}
        for group in gone:  # groups that ended before and left no record
            (row,) = (row for row in expected if row["group_id"] == group)
            assert (row["event"], row["count"]) == ("summary", 0)
        assert actual == [row for row in expected if row["group_id"] not in gone]


def test_random_logs_do_lose_records_to_the_cleaner():
    """The tests above can fail: the cleaner removes many records of such logs."""
    group, topic = GROUPS[0], TOPICS[0]
    place = (group, topic, 0)
    steps = [(7, "commit", (place, n)) for n in range(3)]
    log = written([*steps, (0, "roll", None), *steps, (0, "roll", None), (0, "clean", 10**9)])
    with tempfile.TemporaryDirectory() as home:
        whole, left = folders(log, home)
        assert since_of(whole) is None
        assert since_of(left) == log.now_ms + 1  # the active segment has no record yet
        (row,) = question_rows(left, undo, undo.Parameters(FIRST_MS + 14))
        assert (row["change"], row["offset"]) == (undo.UNKNOWN, None)
