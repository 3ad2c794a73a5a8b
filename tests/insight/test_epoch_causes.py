"""Causes of epochs, by the records alone, against the requests of Kafka's golden traces."""

from collections import Counter
from functools import cache
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from coterie.insight.questions import explain
from coterie.insight.records.partition_view import read_partitions
from support.consumer_groups import golden
from support.insight import trace_causes


def in_each_trace(check):
    """A test, for each behaviour, of all traces that Kafka answered under it."""

    @pytest.mark.parametrize(("behaviour", "folder"), golden.BEHAVIOURS.items())
    def test(behaviour, folder):
        for name in golden.names():
            if folder is None or (golden.FOLDER / folder / f"{name}.expected.jsonl.gz").exists():
                check(name, behaviour)

    return test


@cache
def explained(name, behaviour):
    """The rows of a trace's log: group -> rows, in log order."""
    rows = {}
    with TemporaryDirectory() as folder:
        log = trace_causes.log_of(Path(folder) / "log", name, behaviour)
        for view in read_partitions([log]) if log.exists() else ():
            for row in explain.rows(view, explain.Parameters()):
                rows.setdefault(row["group_id"], []).append(row)
    return rows


def epochs_of(rows):
    """(group, epoch, time) -> its rows, in log order."""
    found = {}
    for of_group in rows.values():
        for row in of_group:
            if row["event"] == "epoch":
                place = row["group_id"], row["generation"], row["timestamp"]
                found.setdefault(place, []).append(row)
    return found


def who(row, *whats):
    return {cause["member_id"] for cause in row["causes"] if cause["what"] in whats}


@in_each_trace
def test_causes_by_the_records_are_what_the_requests_asked_for(name, behaviour):
    rows = epochs_of(explained(name, behaviour))
    for epoch in trace_causes.epochs(name, behaviour):
        place = epoch.group, epoch.number, epoch.at_ms
        if epoch.by == trace_causes.UPGRADE:  # no row, unless the log has not the classic members
            rows.pop(place, None)
            continue
        row = rows[place].pop(0)
        if epoch.by is None:
            continue
        assert who(row, "joined", "present") == epoch.joined
        assert who(row, "left_or_evicted") == epoch.left
        assert who(row, "subscription_changed") == epoch.subscribed
        whats = {cause["what"] for cause in row["causes"]}
        assert whats
        assert epoch.resolved or "regex_resolved" not in whats
        assert epoch.metadata or "topics_changed" not in whats
        fenced = {c["member_id"] for c in row["causes"] if "fenced" in (c["detail"] or "")}
        timed_out = isinstance(epoch.by, str) and epoch.by.startswith("rebalance-timeout-")
        assert fenced == (epoch.left if timed_out else set())
    assert not any(rows.values())


@in_each_trace
def test_an_epoch_is_reconciled_when_kafka_says_that_the_group_is_stable(name, behaviour):
    rows = explained(name, behaviour)
    stable, computed = {}, {}
    for group, at_ms, state, epoch, target in trace_causes.states(name, behaviour):
        computed.setdefault((group, target), set()).add(at_ms)
        if state == "Stable" and epoch == target:
            stable.setdefault((group, epoch), set()).add(at_ms)
    for of_group in rows.values():
        epochs = [row for row in of_group if row["event"] == "epoch"]
        for row, later in zip_longest(epochs, epochs[1:]):
            place = row["group_id"], row["generation"]
            # Kafka's state is as of the end of an event, which may bring another epoch.
            ends = {later and later["timestamp"]}
            if row["until"] is not None:
                assert row["until"] in stable.get(place, set()) | ends
                assert (row["unreconciled"], len(row["last_members"])) == (0, 1)
            else:
                assert bool(row["unreconciled"]) == bool(row["member_count"])
                assert place not in stable or len(computed[place]) > 1
            if row["target_at"] is not None:
                assert row["target_at"] in computed.get(place, set()) | ends


@in_each_trace
def test_partition_seconds_without_an_owner_are_those_of_the_records(name, behaviour):
    rows = explained(name, behaviour)
    expected = trace_causes.unowned_ms(name, behaviour)
    for group, of_group in rows.items():
        epochs = [row for row in of_group if row["event"] == "epoch"]
        least = sum(row["unowned_least_ms"] or 0 for row in epochs)
        most = sum(row["unowned_most_ms"] or 0 for row in epochs)
        assert least == expected.get(group, 0)
        assert most >= least


@in_each_trace
def test_a_group_is_downgraded_as_often_as_kafka_says(name, behaviour):
    rows = explained(name, behaviour)
    actual = Counter(
        row["group_id"] for of in rows.values() for row in of if row["event"] == "downgraded"
    )
    assert actual == Counter(trace_causes.downgrades(name, behaviour))
