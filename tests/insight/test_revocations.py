"""Members of consumer groups that do not give up partitions, against Kafka's golden traces."""

import json
from types import SimpleNamespace

import pytest

from coterie.insight.groups.owned_partitions import Revocation
from coterie.insight.questions import audit, metrics
from coterie.insight.questions.audit_revocations import REVOCATION, finding, slow_revocations
from coterie.insight.records.partition_view import read_partitions
from support.commandline import coterie
from support.consumer_groups import golden
from support.golden_data import GOLDEN
from support.insight import trace_causes

NEVER_MS = 1 << 50
# Logs of brokers 4.1 whose consumer groups are healthy.
HEALTHY = ["logs/kip848", "incidents/protocols", "incidents/healthy-hours-4/log"]
HEALTHY += [f"incidents/{name}-4/log" for name in ("departures", "removals", "skipped-records")]


def audited(log):
    """The findings of the command."""
    return json.loads(coterie("audit", log, "--only", REVOCATION, "--format", "json").stdout)


def found(folder, name, limit_ms, at_ms=None):
    log = trace_causes.log_of(folder / "log", name)
    views = read_partitions([log], at_ms=at_ms) if log.exists() else ()
    return [row for view in views for row in slow_revocations(view, limit_ms)]


def test_a_member_that_kafka_fenced_for_its_partitions_is_a_finding_and_no_other_is(tmp_path):
    for name in golden.names():
        fenced = [
            (append.at_ms, append.by)
            for append, _ in trace_causes.appends(name)
            if isinstance(append.by, str) and append.by.startswith("rebalance-timeout-")
        ]
        rows = found(tmp_path / name, name, NEVER_MS)
        actual = [(row["last"], f"rebalance-timeout-{row['group_id']}-{row['members'][0]}")
                  for row in rows]  # fmt: skip
        assert sorted(actual) == sorted(fenced), name
        assert all("and was fenced" in row["detail"] for row in rows), name


def test_a_finding_says_since_when_which_partitions_are_not_given_up(tmp_path):
    """A is told at 1 s to give up 3 of the 6 partitions, and fenced 20 s later."""
    start_ms = trace_causes.START_MS + 1_000
    (row,) = found(tmp_path / "whole", "scenarios/rebalance-timeout", 60_000)
    assert row["detail"] == (
        "c-a (10.0.0.1) did not give up 3 partitions within its rebalance timeout of 20.0 s, "
        "and was fenced: t-3, t-4, t-5"
    )
    assert (row["first"], row["last"]) == (start_ms, start_ms + 20_000)
    assert [(place["topic"], place["partition"]) for place in row["partitions"]] == [
        ("t", 3), ("t", 4), ("t", 5),
    ]  # fmt: skip
    (row,) = found(tmp_path / "until", "scenarios/rebalance-timeout", 5_000, start_ms + 6_000)
    assert row["detail"].startswith("c-a (10.0.0.1) has not given up 3 partitions for 6.0 s")
    assert found(tmp_path / "as long", "scenarios/rebalance-timeout", 6_000, start_ms + 6_000)
    assert found(tmp_path / "less", "scenarios/rebalance-timeout", 6_001, start_ms + 6_000) == []


T0 = 1_795_000_000_000
RECORD = SimpleNamespace(timestamp=T0, time_ms=T0, log_offset=70, file="f", position=9)


@pytest.mark.parametrize(
    ("places", "until_ms", "is_gone", "instance", "text"),
    [
        ([("id-1", 4)], None, False, None,
         "c (h) has not given up 1 partition for 6.0 s, until the end of the log: t-4"),
        ([("id-1", 4), ("u", 1)], T0 + 2_500, False, "i",
         "i (h) gave up 2 partitions only after 2.5 s: t-4, u-1"),
        ([("u", 1), ("id-1", 7), ("id-1", 4)], T0 + 2_500, True, None,
         "c (h) had not given up 3 partitions for 2.5 s, and is gone: t-4, t-7, u-1"),
        ([("id-1", number) for number in (8, 4, 5, 6)], T0 + 4_999, True, None,
         "c (h) had not given up 4 partitions for 5.0 s, and is gone: t-4, t-5, t-6, 1 more"),
        ([("id-1", 4)], T0 + 5_000, True, None,
         "c (h) did not give up 1 partition within its rebalance timeout of 5.0 s, and was fenced: "
         "t-4"),
    ],
)  # fmt: skip
def test_a_finding_says_what_the_member_did_and_when(places, until_ms, is_gone, instance, text):
    member = {"member_id": "m", "client_id": "c", "client_host": "/h", "upgraded": True}
    member |= {"group_instance_id": instance, "rebalance_timeout_ms": 5_000}
    revocation = Revocation(member, frozenset(places), RECORD, until_ms, is_gone)
    row = finding("g", revocation, T0 + 6_000, {"id-1": "t"})
    assert row["detail"] == text
    assert (row["topic"], row["partition"]) == (("t", 4) if len(places) == 1 else (None, None))
    assert row["partitions"] == [
        {"topic": topic, "partition": number}
        for topic, number in sorted(({"id-1": "t"}.get(topic, topic), n) for topic, n in places)
    ]
    assert row["always"] == (until_ms is None)
    assert (row["timestamp"], row["first"], row["last"]) == (T0, T0, until_ms or T0 + 6_000)
    assert (row["log_offset"], row["file"], row["position"]) == (70, "f", 9)
    assert (row["group_instance_id"], row["members"]) == (instance, ["m"])


def test_a_member_that_gives_up_its_partitions_late_is_a_finding_by_the_threshold(tmp_path):
    rows = found(tmp_path / "low", "scenarios/rebalance-timeout-cancelled", 1)
    assert [row["detail"].partition(" only after ")[0] for row in rows] == [
        "c-a (10.0.0.1) gave up 3 partitions"
    ]
    assert found(tmp_path / "default", "scenarios/rebalance-timeout-cancelled", 60_000) == []


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_consumer_groups_give_no_finding(name):
    assert audited(GOLDEN / name) == []


def test_a_finding_names_the_member_and_the_severity(tmp_path):
    log = trace_causes.log_of(tmp_path / "log", "scenarios/rebalance-timeout")
    (row,) = audited(log)
    assert (row["severity"], row["count"], row["members"]) == (audit.PROGRESS, 1, ["A"])
    assert row["clients"] == [{"client_id": "c-a", "client_host": "/10.0.0.1", "topics": None}]


@pytest.mark.parametrize(
    ("after_ms", "expected"),
    [
        (500, (2, None, 0)),  # A has not heard of it yet, and B waits
        (15_000, (2, 1_000, 0)),  # A has not given up its partitions since
        (30_000, (0, None, 1)),  # and was fenced
    ],
)
def test_metrics_count_members_without_their_target_and_those_fenced(tmp_path, after_ms, expected):
    log = trace_causes.log_of(tmp_path / "log", "scenarios/rebalance-timeout")
    (view,) = read_partitions([log], at_ms=trace_causes.START_MS + after_ms)
    (row,) = metrics.rows(view, metrics.Parameters())
    since_ms = row["revoking_since"] and row["revoking_since"] - trace_causes.START_MS
    assert (row["unreconciled"], since_ms, row["revocation_timeouts"]) == expected
