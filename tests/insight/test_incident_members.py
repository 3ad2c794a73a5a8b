"""Partitions without an owner, how members left, and workers of Kafka Connect, beside truths.

See tests/golden/incidents: `ownerless`, `departures` and `events` of a `truth.json` are what the
clients and Connect's REST API reported.
"""

import json

import pytest

from support.commandline import coterie_ok
from support.golden_data import incident, truth
from support.insight.client_commits import commit_answers

ROLLING = truth("rolling-restarts")
SLACK_MS = 100  # between what a client does and the records that show it
DEPARTURES = ["departures", "departures-4"]
SESSION_MS, NEXT_COMMIT_MS = 6000, 1000
WAYS = {  # what the cause says, and when the group loses the member, ms after the truth's time
    "killed": ("perhaps an eviction (", 0, SESSION_MS + 4000),
    "static, closed in order": ("perhaps an eviction (", 0, SESSION_MS + 4000),
    "closed in order": ("perhaps a clean close (", -NEXT_COMMIT_MS, 2000),
    "poll timeout": ("perhaps a poll timeout", -4000, 0),  # the client tells at its next poll
}
CONNECT = ["connect", "connect-4"]


def explained(name, group, *events):
    output = coterie_ok("explain", incident(name) / "log", "--group", group, "--format", "json")
    return [row for row in json.loads(output.stdout) if row["event"] in events]


def gaps_by_generation(group):
    """Each generation, and the gaps that its assignment ended: place, begin and end, ms."""
    rows = explained("rolling-restarts", group, "generation")
    gaps = [(place, *gap) for place, gaps in ROLLING["ownerless"][group].items() for gap in gaps]
    ends = [row["timestamp"] for row in rows[1:]] + [float("inf")]
    for row, end_ms in zip(rows, ends, strict=True):
        yield row, [gap for gap in gaps if row["timestamp"] <= gap[2] < end_ms]


@pytest.mark.parametrize("group", ["coop", "eager"])
def test_partitions_had_no_owner_for_at_least_the_lower_bound(group):
    for row, gaps in gaps_by_generation(group):
        assert (row["unowned_least_ms"] or 0) <= sum(end - begin for _, begin, end in gaps)


def last_commits(group):
    """Partition -> when each commit that a client sent was answered, ms."""
    commits = {}
    for row in commit_answers("rolling-restarts", group):
        for place in row["offsets"]:
            commits.setdefault(place, []).append(row["at_ms"])
    return commits


@pytest.mark.parametrize("group", ["coop", "eager"])
def test_partitions_had_no_owner_for_at_most_the_upper_bound(group):
    """From the last commit, which an owner may send in its callback, until the record.

    The client gets its assignment later, by up to 0.3 s.
    """
    commits, count = last_commits(group), 0
    for row, gaps in gaps_by_generation(group):
        at_ms = row["timestamp"]
        lasted_ms = 0
        for place, begin_ms, _ in gaps:
            within = [ms for ms in commits.get(place, []) if begin_ms < ms <= at_ms]
            lasted_ms += at_ms - max([begin_ms, *within])
        assert lasted_ms <= (row["unowned_most_ms"] or 0) + SLACK_MS * len(gaps)
        count += len(gaps)
    assert count == sum(map(len, ROLLING["ownerless"][group].values())) > 0


@pytest.mark.parametrize("group", ["coop", "eager"])
def test_a_rolling_restart_is_one_episode_with_all_of_its_rebalances(group):
    (episode,) = explained("rolling-restarts", group, "episode")
    rows = explained("rolling-restarts", group, "generation")
    assert episode["cause"].startswith(f"rolling restart of 8 members: {len(rows)} rebalances in ")
    begin_ms, end_ms = ROLLING["restarts"][group]
    restart = [row for row in rows if begin_ms <= row["timestamp"] <= end_ms]
    assert len(restart) == len(rows) - 1  # the start of the group is the first
    assert episode["unowned_least_ms"] == sum(row["unowned_least_ms"] for row in restart)


@pytest.mark.parametrize("name", DEPARTURES)
def test_each_departure_is_suggested_to_be_what_it_was(name):
    copied_ms = truth(name)["events"][-1]["at_ms"]
    departures = [row for row in truth(name)["departures"] if row["at_ms"] < copied_ms - SESSION_MS]
    assert len(departures) > 15
    for departure in departures:
        cause, begin_ms, end_ms = WAYS[departure["how"]]
        (row,) = (
            row
            for row in explained(name, departure["group"], "generation")
            if begin_ms <= row["timestamp"] - departure["at_ms"] <= end_ms
            and row["cause"].startswith(departure["member"])
            and "left or was evicted" in row["cause"]
        )
        assert cause in row["cause"]


@pytest.mark.parametrize("name", DEPARTURES)
def test_departures_of_one_kind_are_summed_up_in_one_line(name):
    ways = {"killed": "evictions", "static": "evictions", "closing": "clean closes"}
    ways["slow"] = "poll timeouts or evictions"  # both timeouts are 6 s
    for group, way in ways.items():
        left = [
            row
            for row in explained(name, group, "generation")
            if "left or was evicted" in row["cause"]
        ]
        (row,) = explained(name, group, "departures")
        assert row["cause"].startswith(f"{len(left)} of {len(left)} departures suggest {way}: ")


def workers(name, at_ms):
    """Worker's address -> its connectors and tasks at a time, by `groups`."""
    output = coterie_ok(
        *("groups", incident(name) / "log", "--describe", "--members", "--kind", "any"),
        *("--group", "connect-main", "--group", "connect-old", "--at", at_ms, "--format", "json"),
    )
    return {
        row["url"].removeprefix("http://").strip("/"): (
            set(row["connectors"]),
            {(connector, task) for connector, tasks in row["tasks"].items() for task in tasks},
        )
        for row in json.loads(output.stdout)
    }


def steps(name):
    return truth(name)["events"]


def statuses(name):
    """(time, status of each connector) when Connect's REST API said that all of them ran."""
    return [(row["at_ms"], row["status"]) for row in steps(name) if row["what"] == "status"]


@pytest.mark.parametrize("name", CONNECT)
def test_workers_run_the_connectors_and_tasks_that_their_rest_api_reports(name):
    assert len(statuses(name)) == 8
    for at_ms, status in statuses(name):
        found = workers(name, at_ms)
        for connector, of_connector in status.items():
            connectors, _ = found[of_connector["connector"]["worker_id"]]
            assert connector in connectors
            for task in of_connector["tasks"]:
                _, tasks = found[task["worker_id"]]
                assert (connector, task["id"]) in tasks


@pytest.mark.parametrize("name", CONNECT)
def test_workers_run_nothing_but_what_their_rest_api_reports_at_the_end(name):
    at_ms, status = statuses(name)[-1]
    found = workers(name, at_ms)
    connectors, tasks = (set().union(*column) for column in zip(*found.values(), strict=True))
    assert connectors == {*status, "archive"}
    assert tasks >= {(of, task["id"]) for of in status for task in status[of]["tasks"]}
    assert {of for of, _ in tasks} == connectors


def after(rows, at_ms, text):
    """The first row after a time that has this text."""
    return next(row for row in rows if row["timestamp"] >= at_ms and text in row["cause"])


@pytest.mark.parametrize("name", CONNECT)
def test_a_killed_worker_is_explained_with_the_delay_of_what_it_ran(name):
    rows = explained(name, "connect-main", "generation")
    (killed,) = (event for event in steps(name) if event["what"] == "worker killed")
    row = after(rows, killed["at_ms"], "worker-2 (127.0.0.1) left or was evicted")
    assert row["timestamp"] - killed["at_ms"] <= SESSION_MS + 1000
    assert "connectors and tasks without a worker wait for: 8.0 s" in row["cause"]
    started = [event["at_ms"] for event in steps(name) if event["what"] == "worker started"]
    after(rows, started[-1], "worker-2 (127.0.0.1) joined")


@pytest.mark.parametrize("name", CONNECT)
def test_a_deleted_connector_is_explained_as_stopped_with_its_task(name):
    rows = explained(name, "connect-main", "generation")
    (deleted,) = (event for event in steps(name) if event["what"] == "connector deleted")
    row = after(rows, deleted["at_ms"], "stopped lines lines-0")
    assert row["timestamp"] - deleted["at_ms"] < 5000


@pytest.mark.parametrize("name", CONNECT)
def test_each_configuration_of_a_connector_raises_the_config_offset(name):
    rows = explained(name, "connect-main", "generation")
    for event in steps(name):
        if event["what"] == "connector configured" and event["connector"] != "archive":
            row = after(rows, event["at_ms"], "config offset ")
            assert row["timestamp"] - event["at_ms"] < 5000
