"""The alert rules under ``promtool test rules``: each fires at the first incident of its kind.

A series is written as promtool takes it: ``0x9`` is ten samples, ``_x9`` none at nine scrapes. A
scrape is a minute after the one before.
"""

import json
import re
import shutil
import subprocess
from itertools import count

import pytest

from coterie.live.exposition import log_lines, watch_lines
from support.commandline import coterie_ok
from support.golden_data import log
from support.growing_log import GrowingLog
from support.log_writer import commit, each
from support.watch.watched import watcher_of

REBALANCES, MEMBERS = "kafka_consumergroup_rebalances_total", "kafka_consumergroup_members"
LAG, SINCE = "kafka_consumergroup_lag", "coterie_consumergroup_seconds_since_commit"
DEPARTURES = 'coterie_consumergroup_departures_total{consumergroup="g",cause="%s"}'
REWINDS = 'coterie_consumergroup_rewinds_total{consumergroup="g",topic="t"}'
SKIPPED = 'coterie_consumergroup_skipped_records_total{consumergroup="g",topic="t"}'
OPEN = "coterie_consumergroup_open_transaction_start_timestamp_seconds"
WATCHER = "coterie_watch_newest_record_age_seconds"
GROUP = '{consumergroup="g"}'
EVICTED = DEPARTURES % "eviction"
OF_TOPIC = ("g", "t")

# alert -> severity, labels, summary; series of the first incident; the minute of the alert
FIRST = {
    "ConsumerGroupRebalancesOften": (
        *("warning", ("g",), "g rebalanced 6 times in 15 minutes"),
        ({REBALANCES + GROUP: "_x8 6x30"}, 10),
    ),
    "ConsumerGroupCrashLoop": (
        *("critical", ("g",), "g lost members 3 times in 30 minutes"),
        ({EVICTED: "_x2 1x9 2x30", DEPARTURES % "poll timeout": "_x2 0x15 1x30"}, 20),
    ),
    "ConsumerGroupMembersEvicted": (
        *("warning", ("g",), "g: members seem to have been evicted, or polled too late"),
        ({EVICTED: "_x8 1x60"}, 9),
    ),
    "ConsumerGroupWithoutMembers": (
        *("warning", ("g",), "g has had no members for 10 minutes"),
        ({MEMBERS + '{consumergroup="g",job="j"}': "2x9 0x30"}, 20),
    ),
    "ConsumerGroupRewound": (
        *("warning", OF_TOPIC, "g went back in t: records are read again"),
        ({REWINDS: "_x8 2x60"}, 9),
    ),
    "ConsumerGroupSkippedRecords": (
        *("critical", OF_TOPIC, "g passed over records of t"),
        ({SKIPPED: "_x8 2016x60"}, 9),
    ),
    "ConsumerGroupLagGrows": (
        *("warning", OF_TOPIC, "g is 5000 records behind in t, and does not catch up"),
        (
            {
                LAG + '{consumergroup="g",topic="t",partition="0"}': "_x8 2000x60",
                LAG + '{consumergroup="g",topic="t",partition="1"}': "_x8 3000x60",
            },
            18,
        ),
    ),
    "ConsumerGroupPartitionsStall": (
        *("warning", ("g",), "g: 2 partitions stand still while others move"),
        ({"coterie_consumergroup_stalled_partitions" + GROUP: "_x8 2x60"}, 13),
    ),
    "ConsumerGroupTransactionOpen": (
        *("critical", ("g",), "g: a transaction has been open for 15 minutes"),
        ({OPEN + GROUP: "_x8 60x60"}, 17),
    ),
    "ConsumerGroupStoppedCommitting": (
        *("warning", ("g",), "g has members, but has not committed for 15 minutes"),
        ({SINCE + GROUP: "0+60x60", MEMBERS + GROUP: "1x60"}, 21),
    ),
    "CoterieWatchFails": (
        *("critical", (), "coterie watch cannot read 1 partitions of the log; /healthz says why"),
        ({"coterie_watch_failures": "0x8 1x30"}, 14),
    ),
    "CoterieWatchBehind": (
        *("warning", (), "coterie watch is 2e+08 bytes behind the log"),
        ({"coterie_watch_behind_bytes": "0x8 200000000x30"}, 14),
    ),
}


@pytest.fixture
def promtool(tmp_path):
    """Runs cases (series, minute -> alert -> what is expected of it) on the rules."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed")
    rules = tmp_path / "rules.yml"
    rules.write_text(coterie_ok("watch", "--print", "alerts").stdout, encoding="utf-8")
    subprocess.run([program, "check", "rules", rules], check=True, capture_output=True)

    def run(*cases, every="1m"):
        tests = [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": v} for name, v in series.items()],
                "alert_rule_test": [
                    {"eval_time": f"{minute}m", "alertname": name, "exp_alerts": alerts}
                    for minute, expected in by_minute.items()
                    for name, alerts in expected.items()
                ],
            }
            for series, by_minute in cases
        ]
        file = tmp_path / "test.yml"
        head = {"rule_files": ["rules.yml"], "evaluation_interval": every}
        file.write_text(json.dumps({**head, "tests": tests}))  # JSON is YAML
        done = subprocess.run([program, "test", "rules", file], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    return run


def alert(name):
    """What promtool expects of an alert."""
    severity, values, summary, _ = FIRST[name]
    labels = dict(zip(("consumergroup", "topic"), values, strict=False))
    annotations = {"summary": summary}
    ways = {"ConsumerGroupRebalancesOften": "causes", "ConsumerGroupCrashLoop": "members"}
    if name in ways:
        annotations["description"] = f"/api/explain?group=g names the {ways[name]}."
    if name == "ConsumerGroupWithoutMembers":
        labels["job"] = "j"
        annotations["description"] = "/api/explain?group=g says how the last ones left."
    return [{"exp_labels": {"severity": severity, **labels}, "exp_annotations": annotations}]


def test_each_alert_fires_at_the_first_incident_of_its_kind_and_only_it(promtool):
    rules = re.findall(r"- alert: (\w+)", coterie_ok("watch", "--print", "alerts").stdout)
    assert sorted(rules) == sorted(FIRST)
    crashing = {"ConsumerGroupMembersEvicted": alert("ConsumerGroupMembersEvicted")}
    for name, (_, _, _, (series, minute)) in FIRST.items():
        others = dict.fromkeys(FIRST, ())
        also = crashing if name == "ConsumerGroupCrashLoop" else {}
        promtool((series, {minute: others | also | {name: alert(name)}}))


NO_ALERT = dict.fromkeys(FIRST, ())


@pytest.mark.parametrize(
    ("total", "name"),
    [
        (REBALANCES + GROUP, "ConsumerGroupRebalancesOften"),
        (EVICTED, "ConsumerGroupMembersEvicted"),
        (REWINDS, "ConsumerGroupRewound"),
        (SKIPPED, "ConsumerGroupSkippedRecords"),
    ],
)
def test_a_total_alerts_when_it_rises_and_never_because_it_is_old(promtool, total, name):
    fires, silent, known = {name: alert(name)}, {name: ()}, {WATCHER: "1x90"}
    promtool(
        # a group appears with its incident, which is over after the time that the rule looks at
        ({total: "_x8 6x60", **known}, {9: fires, 22: fires, 24: silent}),
        ({total: "0x30 6x60"}, {30: silent, 32: fires}),
        ({total: "6x60", WATCHER: "1x60"}, {3: silent}),  # the first scrape of a long past
        ({total: "_x9 6x60", WATCHER: "_x9 1x60"}, {11: silent}),
        ({total: "_x2 6x60", **known}, {4: fires}),  # right after the watcher's start
        *(  # the watcher or Prometheus was restarted
            (
                {total: f"6x30 stale _x{gap} 6x60", WATCHER: f"1x30 stale _x{gap} 1x60"},
                dict.fromkeys(range(31 + gap, 60 + gap), silent),
            )
            for gap in (3, 30)
        ),
        ({total: "9x30 _x3 6x60"}, {36: silent}),  # it was counted anew, without --data
        ({total: "9x30 _x3 0x3 6x60"}, {40: fires}),
    )
    promtool(  # back after a weekend
        ({total: "0x30 stale _x2880 6x60"}, {2914: fires}),
        ({total: "6x30 stale _x2880 6x60"}, {2914: silent}),
        every="47m",
    )


def test_a_quiet_day_has_no_alert(promtool):
    """A roll at noon, commits that come and go, a job that ends, a consumer without a group."""
    lag = LAG + '{consumergroup="%s",topic="t",partition="0"}'
    quiet = {
        REBALANCES + GROUP: "40x720 42x1 44x720",
        EVICTED: "3x1440",
        DEPARTURES % "clean close": "7x720 8x1 9x720",
        DEPARTURES % "unknown": "0x720 1 2 3 3x720",
        REWINDS: "2x1440",
        SKIPPED: "2016x1440",
        MEMBERS + GROUP: "3x720 0x4 3x720",
        MEMBERS + '{consumergroup="job"}': "0x600 2x60 0x900",
        MEMBERS + '{consumergroup="standalone"}': "0x1440",
        SINCE + GROUP: "5x1440",
        SINCE + '{consumergroup="job"}': "0x600 0x60 0+60x900",
        SINCE + '{consumergroup="standalone"}': "5x1440",
        lag % "g": "0x720 3000 2000 900 0x720",
        lag % "job": "0x1440",
        "coterie_consumergroup_stalled_partitions" + GROUP: "0x1440",
        "coterie_watch_failures": "0x700 1 0x740",
        "coterie_watch_behind_bytes": "0x1440",
        WATCHER: "1x1440",
    }
    hours = dict.fromkeys(range(0, 1440, 60), NO_ALERT)
    promtool((quiet, {**hours, **dict.fromkeys((10, 661, 671, 721, 724, 732), NO_ALERT)}))


H = '{consumergroup="h"}'
STARTED = "stale _x3"  # the watcher is started again
OTHERWISE = {  # alert -> series of a first incident of another form, the minute of the alert
    # scrapes are missing meanwhile
    "ConsumerGroupRebalancesOften": ({REBALANCES + GROUP: "0x5 1 _ 3 _ _ 6x30"}, 11),
    "ConsumerGroupCrashLoop": (
        {
            EVICTED: f"_x2 1x9 {STARTED} 1x2 2x4 3x30",
            WATCHER: f"1x12 {STARTED} 1x40",
            DEPARTURES.replace('"g"', '"h"') % "eviction": f"5x12 {STARTED} 5x40",
        },
        25,
    ),
    # a watcher begins with both groups, which have a past
    "ConsumerGroupMembersEvicted": (
        {EVICTED: "_x2 3x9 4x40", EVICTED.replace('"g"', '"h"'): "_x2 7x50", WATCHER: "_x2 1x50"},
        12,
    ),
    "ConsumerGroupWithoutMembers": (  # back after a day, without members
        {
            MEMBERS + '{consumergroup="g",job="j"}': "2x5 stale _x1440 0x30",
            DEPARTURES % "clean close": "0x5 stale _x1440 2x30",
            SINCE + GROUP: "5x5 stale _x1440 80000+60x30",
            MEMBERS + '{consumergroup="h",job="j"}': "2x5 stale _x1440 2x30",
        },
        1464,
    ),
    "ConsumerGroupRewound": (
        {REWINDS: f"0x5 {STARTED} 2x30", WATCHER: f"1x5 {STARTED} 1x30"},
        10,
    ),
    "ConsumerGroupSkippedRecords": (
        {SKIPPED: "0x5 stale _x20 2016x30", WATCHER: "1x5 stale _x20 1x30"},
        28,
    ),
    "ConsumerGroupLagGrows": (
        {
            LAG + '{consumergroup="g",topic="t",partition="0"}': "0x8 2000x3 _x3 5000x60",
            LAG + '{consumergroup="h",topic="t",partition="0"}': "_x8 9000-100x60",
        },
        23,
    ),
    "ConsumerGroupPartitionsStall": (
        {
            "coterie_consumergroup_stalled_partitions" + GROUP: "0x5 _x3 2x2 _ 2x60",
            "coterie_consumergroup_stalled_partitions" + H: "0x3 1x3 0x60",
        },
        15,
    ),
    "ConsumerGroupTransactionOpen": ({OPEN + GROUP: f"_ 60x5 {STARTED} 60x60"}, 17),
    "ConsumerGroupStoppedCommitting": (
        {
            SINCE + GROUP: f"0+60x10 {STARTED} 840+60x60",
            MEMBERS + GROUP: f"1x10 {STARTED} 1x60",
            SINCE + H: "0+60x60",
            MEMBERS + H: "0x60",
        },
        22,
    ),
    "CoterieWatchFails": ({"coterie_watch_failures": "0x8 1x2 _x2 1x30"}, 14),
    "CoterieWatchBehind": ({"coterie_watch_behind_bytes": f"{STARTED} 200000000x30"}, 10),
}


def test_each_alert_fires_at_a_first_incident_of_another_form(promtool):
    assert sorted(OTHERWISE) == sorted(FIRST)
    others = dict.fromkeys(FIRST, ())
    crashing = {"ConsumerGroupMembersEvicted": alert("ConsumerGroupMembersEvicted")}
    cases = {}  # interval of the evaluation -> cases
    for name, (series, minute) in OTHERWISE.items():
        also = crashing if name == "ConsumerGroupCrashLoop" else {}
        fires = {minute: others | also | {name: alert(name)}, 1: others}
        cases.setdefault("1m" if minute < 60 else "6m", []).append((series, fires))
    for every, some in cases.items():
        promtool(*some, every=every)


def test_a_day_with_a_planned_roll_of_consumers_and_watcher_has_no_alert(promtool):
    """The members restart one by one, and so does the watcher; a job with a backlog appears."""
    lag = LAG + '{consumergroup="%s",topic="t",partition="0"}'
    again = f"x300 {STARTED} "
    day = {
        REBALANCES + GROUP: f"40{again}40x20 41x2 42x9 43x2 44x9 45x2 46x300",
        DEPARTURES % "clean close": f"6{again}6x20 7x11 8x11 9x300",
        DEPARTURES % "eviction": f"2{again}2x400",
        REWINDS: f"1{again}1x400",
        SKIPPED: f"9{again}9x400",
        MEMBERS + GROUP: f"3{again}3x20 2x2 3x9 2x2 3x9 2x2 3x300",
        SINCE + GROUP: f"5{again}5x20 5+60x2 5x400",
        lag % "g": f"20{again}20x20 900 1800 600 20x400",
        lag % "job": "_x330 90000-500x170 0x400",
        MEMBERS + '{consumergroup="job"}': "_x330 2x300",
        SINCE + '{consumergroup="job"}': "_x330 5x300",
        OPEN + GROUP: "_x310 18600x3 stale",
        "coterie_watch_failures": f"0{again}1x2 0x400",
        "coterie_watch_behind_bytes": f"0{again}300000000x2 0x400",
        WATCHER: f"1{again}1x400",
    }
    minutes = [*range(0, 300, 60), *range(300, 400), *range(400, 620, 20)]
    promtool((day, dict.fromkeys(minutes, NO_ALERT)))


def test_a_group_that_lost_its_members_before_it_was_seen_is_without_them(promtool):
    job = '{consumergroup="g",job="j"}'
    dead = {MEMBERS + job: "_x8 0x60", SINCE + GROUP: "_x8 20+60x60", EVICTED: "_x8 1x60"}
    name = "ConsumerGroupWithoutMembers"
    promtool(
        (dead, {18: {name: alert(name)}}),
        (dead | {EVICTED: "_x8 0x60"}, {18: {name: ()}}),
    )


def scraped(watcher):
    """The samples of a scrape."""
    watcher.step()
    answers = list(watcher.answers())
    lines = [*log_lines(answers), *watch_lines(answers, watcher.health(), 10_000)]
    text = "".join(lines).splitlines()
    return dict(line.rsplit(" ", 1) for line in text if not line.startswith("#"))


def as_series(scrapes):
    """The series of scrapes, as promtool takes them."""
    names = {name: None for scrape in scrapes for name in scrape}
    return {name: " ".join(scrape.get(name, "_") for scrape in scrapes) for name in names}


def test_what_a_watcher_exports_of_an_incident_alerts_and_what_it_knew_before_does_not(
    promtool, tmp_path
):
    offsets = count(0)

    def add(group, *committed):
        batches = each(next(offsets), *(commit(1_000, at, group=group) for at in committed))
        growing.append(b"".join(batches))
        for _ in committed[1:]:
            next(offsets)

    growing = GrowingLog(tmp_path / "log")
    add(b"old", 7, 3)
    watcher = watcher_of(growing)
    scrapes = [scraped(watcher) for _ in range(3)]
    add(b"g", 20, 10)
    scrapes += [scraped(watcher) for _ in range(20)]
    restarted = watcher_of(growing)
    scrapes += [{}, {}, *(scraped(restarted) for _ in range(20))]
    add(b"g", 30, 20)
    scrapes += [scraped(restarted) for _ in range(3)]
    series, name = as_series(scrapes), "ConsumerGroupRewound"
    rewound = {name: alert(name)}
    quiet = {minute: {name: ()} for minute in (2, 19, 26, 31, 40, 44)}
    promtool((series, {**quiet, 3: rewound, 45: rewound}))


def test_real_logs_that_a_new_watcher_reads_alert_nobody(promtool):
    series = {}
    for name in ("basic", "kip848"):
        for sample, value in scraped(watcher_of(GrowingHome(log(name)))).items():
            if "_total{" in sample or WATCHER in sample:
                series[sample] = f"_x2 {value}x40"
    totals = [name for name in FIRST if name not in ("ConsumerGroupWithoutMembers",)]
    assert len(series) > 50
    promtool((series, dict.fromkeys((2, 10, 20), dict.fromkeys(totals, ()))))


class GrowingHome:
    """A log that does not grow."""

    def __init__(self, home):
        self.home = home
