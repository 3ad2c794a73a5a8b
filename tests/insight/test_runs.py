"""Runs of rows against what a loop over the rows finds."""

import numpy as np
import pytest

from coterie._core.fold.record_scan import RecordScan
from coterie.insight.questions import explain
from coterie.insight.records.partition_view import PartitionView
from coterie.insight.records.record_columns import COMMITTED, RecordColumns
from coterie.insight.records.runs import NEVER, first_in_batch, runs_of, times_of
from coterie.log.folders import find_segments
from support.log_writer import batch, commit_key, commit_value, marker

BEGIN_MS = 1_700_000_000_000


def change(group, partition, ms=0, *, gone=False):
    value = None if gone else commit_value(7, -1, b"", BEGIN_MS)
    return BEGIN_MS + ms, commit_key(1, group, b"t", partition), value


def piece_of(data):
    scan = RecordScan()
    columns, _ = scan.scan(data)
    batches, newer = columns.pop("batches"), columns.pop("newer_keys")
    return RecordColumns(scan, columns, ["0.log"], 0, batches, newer)


@pytest.fixture
def piece():
    """Two groups and a tombstone in a batch, a batch as the last rows, a transaction, a marker."""
    mixed = [change(b"a", 0), change(b"a", 1), change(b"b", 0), change(b"a", 2)]
    mixed += [change(b"a", 0, gone=True), change(b"a", 1)]
    return piece_of(
        batch(0, mixed)
        + batch(6, [change(b"a", n, n) for n in range(3)])
        + batch(9, [change(b"a", 5)], producer_id=4, transactional=True)
        + marker(10, 4, BEGIN_MS, commit=False)
    )


def alike(piece, others=()):
    """The rows of each run, by a loop."""
    result = []
    for row in range(len(piece)):
        names = ("batch", "group", "kind")
        now = *(int(getattr(piece, name)[row]) for name in names), *(one[row] for one in others)
        if result and result[-1][0] == now:
            result[-1][1].append(row)
        else:
            result.append((now, [row]))
    return [rows for _, rows in result]


@pytest.mark.parametrize("by_time", [False, True])
def test_a_run_ends_where_batch_group_kind_or_what_is_named_changes(piece, by_time):
    others = (piece.timestamp,) if by_time else ()
    runs = runs_of(piece, *others)
    expected = alike(piece, others)
    assert [list(range(a, a + n)) for a, n in zip(runs.first, runs.size, strict=True)] == expected
    assert runs.rows().tolist() == list(range(len(piece)))
    counting = runs.select(runs.effective_commits())
    offsets = (piece.kind == 0) & (piece.outcome == COMMITTED)
    assert counting.rows().tolist() == np.flatnonzero(offsets).tolist()


def test_a_piece_without_rows_has_no_runs():
    nothing = piece_of(b"")
    runs = runs_of(nothing)
    assert len(runs) == len(runs.rows()) == 0
    assert [len(column) for column in times_of(runs.first, nothing.timestamp)] == [0, 0]


def test_only_known_times_are_the_least_and_the_greatest():
    times = np.array([5, -1, 3, -1, -1, 9], np.int64)
    least, greatest = times_of(np.array([0, 3, 5]), times)
    assert least.tolist() == [3, NEVER, 9]
    assert greatest.tolist() == [5, -1, 9]


def test_the_first_run_of_a_batch_in_a_part_is_found_wherever_the_others_lie():
    batch_of, part = np.array([0, 0, 0, 1, 1, 2]), np.array([7, 8, 7, 7, 7, 8])
    assert first_in_batch(batch_of, part).tolist() == [True, True, False, True, False, True]
    assert first_in_batch(np.array([0, 2, 3]), np.array([1, 1, 1])).all()


def test_for_one_group_the_partition_is_not_read_for_all_where_nobody_was_silent(tmp_path):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    log = b"".join(batch(n, [change(b"ab"[n % 2 : n % 2 + 1], n, n)]) for n in range(30))
    (folder / "00000000000000000000.log").write_bytes(log)
    ((number, segments),) = find_segments([tmp_path]).partitions().items()
    view = PartitionView(number, segments, frozenset({"a"}))
    events = [row["event"] for row in explain.rows(view, explain.Parameters())]
    assert events[0] == explain.COMMITS
    assert not view.other_views
