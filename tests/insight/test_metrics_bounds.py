"""Metrics of groups whose partitions differ: which value is the group's, and of what."""

from types import SimpleNamespace

import pytest

from coterie.insight.offsets.end_offsets import EndOffsets, Sample
from coterie.insight.offsets.loss_counts import LossCounts
from coterie.insight.questions import audit, explain, metrics
from coterie.insight.records.partition_view import read_partitions
from support.insight.lives import commit, life, member, written

T0 = 1_795_000_000_000


def partitions(*places):
    return [{"topic": topic, "partition": number} for topic, number in places]


def test_what_a_group_lost_is_the_sum_of_its_partitions_and_the_first_time_of_them():
    losses = LossCounts(
        skipped={("g", "t", 1): 40, ("g", "u", 0): 2, ("h", "t", 0): 500},
        stalled={("g", "t", 2): 9_000, ("g", "t", 1): 7_000, ("h", "t", 0): 1},
        open_since={"g": [6_000, None, 5_000], "h": [1], "i": [None]},
    )
    rows = partitions(("t", 0), ("t", 1), ("t", 2), ("u", 0))
    assert losses.fields_of("g", rows) == {
        "skipped": 42,
        "stalled": 2,
        "stalled_since": 7_000,
        "open_transactions": 3,
        "open_since": 5_000,
    }
    assert [row["skipped"] for row in rows] == [0, 40, 0, 2]
    assert [row["stalled_since"] for row in rows] == [None, 7_000, 9_000, None]
    nothing = {"skipped": 0, "stalled": 0, "stalled_since": None}
    (row,) = rows = partitions(("t", 5))
    found = losses.fields_of("i", rows)
    assert found == nothing | {"open_transactions": 1, "open_since": None}
    assert (row["skipped"], row["stalled_since"]) == (0, None)


def test_rows_stand_by_group_topic_and_partition_with_each_ones_commits(tmp_path):
    folder = written(
        tmp_path,
        life(T0, 1, member("m", held={"t": [0]}), member("n", held={})),
        commit(T0 + 30, {10: 7}),
        commit(T0 + 20, {9: 5, 10: 6}),
        commit(T0 + 40, {0: 1}, b"f", b"u"),
        commit(T0 + 10, {3: 2}, b"g", b"s"),
        commit(T0 + 50, {9: None}),
    )
    (view,) = read_partitions([folder])
    ends = EndOffsets(True, {("t", 10): (Sample(T0, 9), Sample(T0 + 50, 20))})
    rows = list(metrics.rows(view, metrics.Parameters(ends=ends)))
    fields = ("group_id", "topic", "partition", "offset", "commit_timestamp", "commits", "lag")
    assert [tuple(row[name] for name in fields) for row in rows] == [
        ("f", None, None, None, T0 + 40, 1, None),
        ("f", "u", 0, 1, T0 + 40, 1, None),
        ("g", None, None, None, T0 + 20, 4, None),
        ("g", "s", 3, 2, T0 + 10, 1, None),
        ("g", "t", 9, None, T0 + 20, 1, None),
        ("g", "t", 10, 6, T0 + 20, 2, 14),
    ]
    heads = {row["group_id"]: row for row in rows if row["topic"] is None}
    assert [heads["g"][name] for name in ("members", "empty_members", "generation")] == [2, 1, 1]
    assert heads["f"]["members"] == 0
    (last,) = [row for row in rows if row["partition"] == 10]
    assert (last["end_offset"], last["lag_status"]) == (20, "ok")


@pytest.mark.parametrize(
    ("options", "groups"),
    [
        ({"losses": False}, {None}),
        ({}, {0}),
    ],
)
def test_losses_are_looked_for_unless_they_are_left_out(options, groups, tmp_path):
    (view,) = read_partitions([written(tmp_path, commit(T0, {0: 1}))])
    rows = metrics.rows(view, metrics.Parameters(**options))
    assert {row["skipped"] for row in rows} == groups


def revocation(time_ms, *, timed_out=False, log_offset=5):
    record = SimpleNamespace(
        time_ms=time_ms,
        _asdict=lambda: {"timestamp": time_ms, "log_offset": log_offset},
    )
    return SimpleNamespace(record=record, timed_out=timed_out)


def test_a_member_revokes_since_the_first_of_them_and_timeouts_are_counted(tmp_path):
    (view,) = read_partitions([written(tmp_path, commit(T0, {0: 1}))])
    states = [(3, "stable"), (2, "stable"), (3, "unrevoked_partitions"), (3, "stable")]
    members = [{"member_epoch": epoch, "member_state": state} for epoch, state in states]
    group = {"type": "consumer", "target_assignment_epoch": 3, "members": members}
    revoking = {"a": revocation(T0 + 9), "b": revocation(T0 + 5), "c": revocation(None)}
    ended = [revocation(T0, timed_out=True), revocation(T0), revocation(T0 + 1, timed_out=True)]
    timeline = SimpleNamespace(
        partitions=SimpleNamespace(revoking=revoking), ended_revocations=ended
    )
    assert metrics.reconciling_of(view, group, timeline) == {
        "unreconciled": 2,
        "revoking_since": T0 + 5,
        "revocation_timeouts": 2,
    }
    assert metrics.reconciling_of(view, group | {"type": "share"}, timeline) == {}


def test_defaults_are_those_of_the_documentation():
    """docs/audit.md, the column `option`; docs/explain.md has the rule of flapping."""
    found = audit.Parameters()
    assert (found.skip_by, found.skip_rate, found.rewind_by) == (1, 1000, 1)
    assert (found.open_ms, found.stall_ms, found.revoking_ms) == (10_000, 60_000, 60_000)
    assert (found.takeovers, found.window_ms) == (3, 600_000)
    assert (found.no_progress, found.metadata_bytes) == (10, 1024)
    assert (found.flap_count, found.flap_window_ms) == (4, 600_000)
    flapping = explain.Parameters()
    assert (flapping.flap_count, flapping.flap_window_ms) == (4, 600_000)
