"""What compaction has taken is unknown, never "no"; and what is told is what the whole log tells.

Random logs, cut and cleaned by a model of Kafka's cleaner; every question is put to the whole log
and to what is left of it.
"""

import tempfile

from hypothesis import given
from hypothesis import strategies as st

from coterie.insight.asking import rows_of
from coterie.insight.offsets.end_offsets import EndOffsets, Sample
from coterie.insight.questions import audit, expire, explain, lag, metrics, undo
from coterie.insight.records.partition_view import read_facts
from support.insight.compacted_logs import FIRST_MS, GROUPS, TOPICS, folders, operations, written
from support.insight.models import rows_told

TIMES = st.lists(st.integers(-1, 1_000_000), min_size=1, max_size=4)
KEY = ("group_id", "topic", "partition")
PLACES = {"file", "position", "trusted_from"}  # batches lie elsewhere once others are gone


def since_of(folder):
    (view,) = read_facts([folder])
    return view.trusted_from_ms


def by_key(rows):
    return {tuple(row[name] for name in KEY): row for row in rows}


def alike(one, other, *but):
    """Whether two rows say the same, but for where records lie and the fields named."""
    return all(one[name] == other[name] for name in one if name not in {*PLACES, *but})


def is_trusted(since_ms, at_ms):
    return since_ms is None or at_ms >= since_ms


@given(operations(), TIMES)
def test_undo_tells_what_was_or_that_it_is_not_known(steps, times):
    with tempfile.TemporaryDirectory() as home:
        log = written(steps)
        whole, left = folders(log, home)
        since_ms = since_of(left)
        for at_ms in {FIRST_MS + ms for ms in times} | {log.now_ms}:
            expected = by_key(rows_told(whole, undo, undo.Ask(at_ms)))
            found = by_key(rows_told(left, undo, undo.Ask(at_ms)))
            assert set(found) <= set(expected)
            if is_trusted(since_ms, at_ms):
                assert set(found) == {key for key, row in expected.items() if row["change"]}
            for key, row in found.items():
                true = expected[key]
                if row["change"] == undo.UNKNOWN:
                    assert not is_trusted(since_ms, at_ms)
                    assert alike(row, true, "change", *THEN)
                    continue
                # A rewind of before is one of the things that compaction takes.
                old = since_ms is not None and (true["rewound_at"] or 0) < since_ms
                assert alike(row, true, *(("rewound_from", "rewound_at") if old else ()))


THEN = ("offset", "difference", "leader_epoch", "metadata", "commit_timestamp", "rewound_from")
THEN = (*THEN, "rewound_at", "expires_at")


@given(operations(), TIMES)
def test_a_lag_is_that_of_the_whole_log_or_not_known(steps, times):
    with tempfile.TemporaryDirectory() as home:
        log = written(steps)
        whole, left = folders(log, home)
        since_ms = since_of(left)
        moments = sorted({FIRST_MS + ms for ms in times} | {log.now_ms, log.now_ms + 1})
        samples = tuple(Sample(ms, 2) for ms in moments)
        ends = {(topic.decode(), number): samples for topic in TOPICS for number in (0, 1)}
        ask = lag.Ask(EndOffsets(True, ends), log_until_ms=log.now_ms)
        expected = {(row["time"], *key): row for key, row in keyed(rows_told(whole, lag, ask))}
        found = {(row["time"], *key): row for key, row in keyed(rows_told(left, lag, ask))}
        for place, row in found.items():
            assert (row["status"] == lag.BEYOND_LOG) == (place[0] > log.now_ms)
            if row["status"] == lag.COMPACTED:
                assert not is_trusted(since_ms, place[0])
                assert row["lag"] is row["lag_max"] is None
            else:
                assert alike(row, expected[place])
        for place, row in expected.items():
            if place not in found:  # a key of which nothing is left
                assert row["offset"] is None or not is_trusted(since_ms, place[0])


def keyed(rows):
    return [(tuple(row[name] for name in KEY), row) for row in rows]


@given(operations())
def test_the_expiry_of_what_is_there_is_known_and_of_what_is_gone_since_then(steps):
    with tempfile.TemporaryDirectory() as home:
        log = written(steps)
        whole, left = folders(log, home)
        since_ms = since_of(left)
        ask = expire.Ask(log.now_ms + 10, retention_ms=1000)
        expected = by_key(rows_told(whole, expire, ask))
        found = by_key(rows_told(left, expire, ask))
        assert set(found) <= set(expected)
        for key, row in expected.items():
            if row["status"] != expire.REMOVED or is_trusted(since_ms, row["removed_at"]):
                assert alike(found[key], row)


@given(operations())
def test_metrics_count_since_the_log_is_whole(steps):
    with tempfile.TemporaryDirectory() as home:
        whole, left = folders(written(steps), home)
        since_ms = since_of(left)
        expected = by_key(rows_told(whole, metrics, metrics.Ask(), since_ms=since_ms))
        found = by_key(rows_told(left, metrics, metrics.Ask()))
        assert set(found) <= set(expected)
        for key, row in expected.items():
            if key in found:
                assert alike(found[key], row)
            else:  # gone before
                assert (row["offset"], row["commits"]) == (None, 0)


def rows_since(folder, since_ms, question, ask):
    """What is told of the time since then; of a whole log as if it were known from then on only."""
    (view,) = read_facts([folder])
    assert view.trusted_from_ms in (None, since_ms)
    view.trusted_from_ms = since_ms
    return [
        {name: value for name, value in row.items() if name not in PLACES}
        for row in rows_of(view, question, ask)
        if since_ms is None or row["timestamp"] is None or row["timestamp"] >= since_ms
    ]


@given(operations())
def test_the_audit_finds_all_that_happened_since_the_log_is_whole(steps):
    with tempfile.TemporaryDirectory() as home:
        whole, left = folders(written(steps), home)
        since_ms = since_of(left)
        ask = audit.Ask(no_progress=3, metadata_bytes=0, flap_count=2)
        found = rows_since(left, since_ms, audit, ask)
        assert found == rows_since(whole, since_ms, audit, ask)


@given(operations())
def test_a_life_is_told_alike_since_the_log_is_whole(steps):
    with tempfile.TemporaryDirectory() as home:
        whole, left = folders(written(steps), home)
        since_ms = since_of(left)
        found = rows_since(left, since_ms, explain, explain.Ask(flap_count=2))
        expected = rows_since(whole, since_ms, explain, explain.Ask(flap_count=2))
        gone = {row["group_id"] for row in expected} - {row["group_id"] for row in found}
        for group in gone:  # what ended before, and left nothing
            (row,) = (row for row in expected if row["group_id"] == group)
            assert (row["event"], row["count"]) == ("summary", 0)
        assert found == [row for row in expected if row["group_id"] not in gone]


def test_random_logs_do_lose_records_to_the_cleaner():
    """The tests above say something: of a log like theirs, much is taken."""
    group, topic = GROUPS[0], TOPICS[0]
    place = (group, topic, 0)
    steps = [(7, "commit", (place, n)) for n in range(3)]
    log = written([*steps, (0, "roll", None), *steps, (0, "roll", None), (0, "clean", 10**9)])
    with tempfile.TemporaryDirectory() as home:
        whole, left = folders(log, home)
        assert since_of(whole) is None
        assert since_of(left) == log.now_ms + 1  # the active segment has no record yet
        (row,) = rows_told(left, undo, undo.Ask(FIRST_MS + 14))
        assert (row["change"], row["offset"]) == (undo.UNKNOWN, None)
