"""The lines of /metrics that only a watcher has."""

from collections import Counter

from coterie.live.exposition import watch_lines
from coterie.live.totals import Answer, nothing
from coterie.live.watcher import Health

NAMED = ("rebalances_total", "findings")
HEALTH = Health(11, 22, 3, None, 1_000_500, 4, {"log": "x", "partition 5": "y"})


def samples(answers=(), health=HEALTH, now_ms=1_003_000):
    """The samples by their names and labels."""
    lines = "".join(watch_lines(answers, health, now_ms)).splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def answer(newest_ms=-1, rows=(), findings=(), **totals):
    counts = {kind: Counter(of_kind) for kind, of_kind in totals.items()}
    return Answer(list(rows), nothing() | counts, Counter(dict(findings)), newest_ms)


def test_the_watcher_shows_how_far_it_is():
    assert samples() == {
        "coterie_watch_steps_total": "11",
        "coterie_watch_behind_bytes": "22",
        "coterie_watch_rebuilds_total": "4",
        "coterie_watch_failures": "2",
        "coterie_watch_newest_record_age_seconds": "2.5",
    }


def test_a_watched_cluster_also_shows_how_far_its_copy_is_behind():
    behind = samples(health=HEALTH._replace(behind_offsets=0))
    assert behind == samples() | {"coterie_watch_behind_offsets": "0"}


def test_samples_of_a_metric_stand_in_order_and_each_metric_has_its_description():
    shown = answer(
        rebalances={("b", "leave"): 1, ("a", "leave"): 2, ("b", "join"): 3},
        findings={("b", "stall"): 4, ("a", "stall"): 5, ("b", "loop"): 6},
    )
    lines = "".join(watch_lines([shown], HEALTH, 0)).splitlines()
    ours = [line for line in lines if "_rebalances_total" in line or "findings" in line]
    rebalances, findings = (f"coterie_consumergroup_{name}" for name in NAMED)
    assert ours == [
        f"# HELP {rebalances} Rebalances, by their cause",
        f"# TYPE {rebalances} counter",
        f'{rebalances}{{consumergroup="a",cause="leave"}} 2',
        f'{rebalances}{{consumergroup="b",cause="join"}} 3',
        f'{rebalances}{{consumergroup="b",cause="leave"}} 1',
        f"# HELP {findings} What coterie audit finds in the log",
        f"# TYPE {findings} gauge",
        f'{findings}{{consumergroup="a",kind="stall"}} 5',
        f'{findings}{{consumergroup="b",kind="loop"}} 6',
        f'{findings}{{consumergroup="b",kind="stall"}} 4',
    ]
    assert "# TYPE coterie_watch_steps_total counter" in lines
    assert "# TYPE coterie_watch_behind_bytes gauge" in lines


def test_an_age_is_never_negative_and_absent_without_records():
    age = "coterie_watch_newest_record_age_seconds"
    assert samples(now_ms=1_000_000)[age] == "0.0"  # the clocks of two machines differ
    assert age not in samples(health=HEALTH._replace(newest_ms=-1))
    assert samples(health=HEALTH._replace(newest_ms=0), now_ms=1_000)[age] == "1.0"


def test_totals_and_findings_have_the_labels_of_their_kind():
    shown = answer(
        rebalances={("a", "join"): 2, ("b", "leave"): 3},
        departures={("a", "crash"): 4},
        rewinds={("a", "t"): 5},
        findings={("a", "stall"): 6},
    )
    other = answer(rebalances={("c", "join"): 7})
    group = "coterie_consumergroup"
    ours = {name: value for name, value in samples([shown, other]).items() if "watch" not in name}
    assert ours == {
        group + '_rebalances_total{consumergroup="a",cause="join"}': "2",
        group + '_rebalances_total{consumergroup="b",cause="leave"}': "3",
        group + '_rebalances_total{consumergroup="c",cause="join"}': "7",
        group + '_departures_total{consumergroup="a",cause="crash"}': "4",
        group + '_rewinds_total{consumergroup="a",topic="t"}': "5",
        group + '_findings{consumergroup="a",kind="stall"}': "6",
    }


def test_the_time_since_a_commit_is_that_of_groups_that_have_committed():
    rows = [
        {"group_id": "a", "topic": None, "commit_timestamp": 1_001_750},
        {"group_id": "a", "topic": "t", "commit_timestamp": 1_001_000},
        {"group_id": "b", "topic": None, "commit_timestamp": None},
        {"group_id": "c", "topic": None, "commit_timestamp": 2_000_000},
    ]
    name = "coterie_consumergroup_seconds_since_commit"
    shown = samples([answer(rows=rows)])
    assert {key: value for key, value in shown.items() if key.startswith(name)} == {
        name + '{consumergroup="a"}': "1.25",
        name + '{consumergroup="c"}': "0.0",
    }


def test_each_metric_is_described_once_before_its_samples():
    both = [answer(rebalances={("a", "join"): 1}), answer(rebalances={("b", "join"): 1})]
    lines = "".join(watch_lines(both, HEALTH, 0)).splitlines()
    name = "coterie_consumergroup_rebalances_total"
    ours = [line.split("{")[0] for line in lines if name in line]
    assert ours == [
        f"# HELP {name} Rebalances, by their cause",
        f"# TYPE {name} counter",
        name,
        name,
    ]
