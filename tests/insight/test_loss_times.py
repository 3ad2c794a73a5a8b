"""Skips, stalls and open transactions of a log as of a time, and of one that lost its beginning."""

import pytest

from coterie.insight.offsets.jumps import Jumps
from coterie.insight.questions import audit, metrics
from coterie.insight.records import log_reader
from coterie.insight.records.partition_view import read_partitions
from support.insight.lives import commit, life, member
from support.log_writer import batch

S = 1_795_000_000_000  # a slice of ten seconds begins
SINCE = S + 1_100  # when partition 0 moved last
NEWEST = SINCE + 90_000
OPEN = {"producer_id": 5, "producer_epoch": 3, "transactional": True}


def view_of(folder, *appends, **options):
    """A log of these batches, each (records, options) or records."""
    place = folder / "__consumer_offsets-0"
    place.mkdir()
    data, offset = b"", 0
    for one in appends:
        records, how = one if isinstance(one, tuple) else (one, {})
        data += batch(offset, records, **how)
        offset += len(records)
    (place / f"{0:020}.log").write_bytes(data)
    (view,) = read_partitions([folder], **options)
    return view


def found(view, kind):
    return list(audit.rows(view, audit.Parameters(only=(kind,))))


def stood():
    """Partition 0 moves eleven times, then stands while partition 1 moves every second."""
    return [
        [life(S - 500, 1, member("m", held={"t": [0, 1]}))],
        *(commit(S + 100 * n, {0: n, 1: n}) for n in range(12)),
        *(commit(SINCE + 1_000 * n, {1: 11 + n}) for n in range(1, 91)),
    ]


@pytest.mark.parametrize(
    ("at_ms", "stands", "end_ms"),
    [
        (SINCE + 59_999, None, None),
        (SINCE + 60_000, "1m", SINCE + 60_000),
        (NEWEST + 3_600_000, "1m30s", NEWEST),
        (None, "1m30s", NEWEST),
    ],
)
def test_as_of_a_time_a_partition_stands_until_then_or_until_the_newest_record(
    at_ms, stands, end_ms, tmp_path
):
    view = view_of(tmp_path, *stood(), at_ms=at_ms)
    rows = found(view, "stall")
    assert [row["timestamp"] for row in rows] == [end_ms] * bool(stands)
    assert all(f"Z, {stands} before the end of the log, " in row["detail"] for row in rows)
    since = SINCE if stands else None
    head, first, second = metrics.rows(view, metrics.Parameters())
    assert (head["stalled"], head["stalled_since"]) == (bool(stands), since)
    assert (first["stalled_since"], second["stalled_since"]) == (since, None)


@pytest.mark.parametrize(("age_ms", "is_found"), [(9_999, False), (10_000, True)])
def test_as_of_a_time_a_transaction_is_as_old_as_then(age_ms, is_found, tmp_path):
    later = [commit(S + ms, {3: 1}, b"h") for ms in (5_000, 60_000)]
    view = view_of(tmp_path, (commit(S, {0: 7}), OPEN), *later, at_ms=S + age_ms)
    assert len(found(view, "open_transaction")) == is_found


@pytest.mark.parametrize(("at_ms", "since"), [(S, S), (0, 0), (-1, None)])
def test_metrics_have_the_time_since_when_a_transaction_is_open(at_ms, since, tmp_path):
    view = view_of(tmp_path, (commit(at_ms, {0: 7}), OPEN), (commit(at_ms, {1: 8}), OPEN))
    head = next(metrics.rows(view, metrics.Parameters()))
    assert (head["open_transactions"], head["open_since"]) == (1, since)


@pytest.mark.parametrize(("complete_ms", "is_found"), [(SINCE, True), (SINCE + 1, False)])
def test_a_stall_that_began_before_the_log_is_complete_is_none(complete_ms, is_found, tmp_path):
    view = view_of(tmp_path, *stood())
    view.trusted_from_ms = complete_ms
    assert len(found(view, "stall")) == is_found


@pytest.mark.parametrize(("complete_ms", "is_found"), [(S + 1, True), (S + 2, False)])
def test_a_skip_counts_from_a_commit_that_the_log_has_for_certain(complete_ms, is_found, tmp_path):
    """The commit before the skip was at ``S + 1``; what replaced it may have been compacted."""
    view = view_of(
        tmp_path,
        [life(S, 1, member("m"))],
        commit(S + 1, {0: 10}),
        [life(S + 2, 2)],
        commit(S + 3, {0: 60}),
    )
    view.trusted_from_ms = complete_ms
    assert len(found(view, "skip")) == is_found


@pytest.mark.parametrize(
    ("at_ms", "time", "removed"),
    [(0, 0, "removed at 1970-01-01T00:00:00.000Z"), (-1, None, "removed")],
)
def test_what_happened_at_the_time_0_has_that_time(at_ms, time, removed, tmp_path):
    view = view_of(
        tmp_path,
        *(commit(at_ms, {0: offset}) for offset in (100, None, 190)),
        [life(at_ms, 1, member("m"), group=b"h")],
        commit(at_ms, {0: 10}, b"h"),
        [life(at_ms, 2, group=b"h")],
        commit(at_ms, {0: 60}, b"h"),
    )
    across, outside = found(view, "skip")
    assert (across["timestamp"], outside["timestamp"]) == (time, time)
    assert across["detail"].startswith(f"committed 100, {removed}, resumed near 190: about 90 ")
    assert outside["detail"].startswith("from 10 forward to 60, by 50, set by a tool")


def test_of_many_commits_from_outside_only_enough_to_show_that_they_are_many_are_stored(
    tmp_path, monkeypatch
):
    """A consumer without a group protocol commits all the time; two commits may be a tool's."""
    monkeypatch.setattr(log_reader, "READ_PIECE_BYTES", 1)
    view = view_of(
        tmp_path,
        [life(S, 1, member("m"))],
        commit(S + 1, {0: 10}),
        [life(S + 2, 2)],
        *(commit(S + 3 + n, {0: 11 + n}) for n in range(30)),
    )
    jumps = Jumps(view, skip_by=1, skip_rate=1000)
    for piece in view.pieces(jumps.COLUMNS):
        jumps.take(piece)
    assert sum(len(rows["key"]) for rows in jumps.outside) == 3
