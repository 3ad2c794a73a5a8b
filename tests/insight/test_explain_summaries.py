"""The summary of a group: what its rows add up to, and the words of it."""

import pytest

from coterie.insight.questions import explain
from coterie.insight.questions.server_log_lines import SERVER, BrokerLogLine
from coterie.insight.questions.server_log_phrases import ASSIGNED, PREPARING
from coterie.insight.records.partition_view import read_partitions
from support.insight.lives import commit, life, member, written

T0 = 1_795_000_000_123


def row(event, duration_ms=None, timestamp=T0, members=1):
    members = {"empty": 0, "deleted": None}.get(event, members)
    fields = {"event": event, "duration_ms": duration_ms, "timestamp": timestamp}
    return fields | {"member_count": members}


SINCE_T0 = "since 2026-11-18T11:06:40.123Z, at the end of the log"


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([], None),
        ([row("generation"), row("commits")], None),
        ([row("empty", 3_000), row("generation")], "for 3.0 s"),
        ([row("empty", 0), row("generation")], None),  # within the same millisecond
        ([row("empty"), row("generation")], None),  # nobody knows how long
        ([row("empty", 2_000), row("generation"), row("empty", 1_540), row("generation")],
         "for 3.5 s"),
        ([row("empty", 2_000, T0 - 9_000), row("generation"), row("empty")],
         f"for 2.0 s and {SINCE_T0}"),
        ([row("empty")], SINCE_T0),
        ([row("empty", timestamp=None)], "at the end of the log"),
        # Written again, and without a time: since the first that has one.
        ([row("empty", 2_000, None), row("empty"), row("empty", None, T0 + 9)],
         f"for 2.0 s and {SINCE_T0}"),
        ([row("epoch"), row("epoch", members=0)], SINCE_T0),  # of a newer group
        ([row("epoch", members=0), row("epoch", members=0, timestamp=T0 + 9)], SINCE_T0),
        # Commits and removals of offsets bring no members; a deletion or another protocol ends it.
        ([row("empty"), row("commits"), row("offsets_removed")], SINCE_T0),
        *(([row("empty", 700), row(event)], "for 0.7 s")
          for event in ("deleted", "upgraded", "downgraded", "epoch", "static_replacement")),
    ],
)  # fmt: skip
def test_a_summary_says_how_long_a_group_was_without_members_and_since_when(rows, text):
    expected = [] if text is None else [f"without members {text}"]
    assert list(explain.without_members(rows)) == expected


def summary_of(folder, *appends, since_ms=None, **parameters):
    (view,) = read_partitions([written(folder, *appends)], since_ms=since_ms)
    *_, summary = explain.rows(view, explain.Parameters(**parameters))
    assert summary["event"] == "summary"
    return summary


LIVES = life(T0, 1, member("a")), life(T0 + 4_000, 2, member("a"), member("b"))


@pytest.mark.parametrize(
    ("durations_ms", "expected"),
    [
        ({1: 100, 2: 301}, (401, "server log")),
        ({2: 301}, (301, None)),  # at least: nothing is known of the first
        ({}, (None, None)),
    ],
)
def test_the_time_of_all_rebalances_is_known_only_by_a_server_log_of_all_of_them(
    durations_ms, expected, tmp_path
):
    lines = [
        BrokerLogLine("g", what, record[0] - before_ms, SERVER, number)
        for number, record in enumerate(LIVES, 1)
        for what, before_ms in ((PREPARING, durations_ms.get(number)), (ASSIGNED, 0))
        if before_ms is not None
    ]
    summary = summary_of(tmp_path, *LIVES, broker_log_lines=tuple(lines))
    assert (summary["duration_ms"], summary["duration_source"]) == expected
    summary = summary_of(tmp_path / "none", commit(T0, {0: 1}), broker_log_lines=tuple(lines))
    assert (summary["duration_ms"], summary["duration_source"]) == (None, None)


@pytest.mark.parametrize(
    ("since_ms", "expected"),
    [
        (None, (T0, T0 + 9_000, "2 rebalances, 3 commits")),
        (T0 + 1, (T0 + 2_000, T0 + 9_000, "1 rebalance, 3 commits")),
        (T0 + 4_001, (T0 + 6_000, T0 + 9_000, "0 rebalances, 2 commits")),
        (T0 + 9_001, (None, None, "0 rebalances, 0 commits")),
    ],
)
def test_a_summary_goes_from_the_first_event_to_the_last_commit_of_the_requested_time(
    since_ms, expected, tmp_path
):
    first, second = LIVES
    commits = [commit(T0 + ms, {0: ms}) for ms in (2_000, 6_000, 9_000)]
    summary = summary_of(tmp_path, first, commits[0], second, *commits[1:], since_ms=since_ms)
    assert (summary["timestamp"], summary["until"], summary["cause"]) == expected
