"""Incidents of a real broker: the questions agree with the written truth.

See tests/golden/incidents: `truth.json` has the actions, and the responses that clients got.
"""

import gzip
import json
from collections import Counter

import pytest

from support.commandline import coterie, coterie_ok
from support.golden_data import INCIDENTS, truth


def events(incident, what):
    return [event for event in truth(incident)["events"] if event["what"] == what]


def explained(incident, group, *options, broker_logs=False):
    folder = INCIDENTS / incident
    if broker_logs:
        options += ("--server-log", folder / "server.log.gz")
        options += ("--request-log", folder / "kafka-request.log.gz")
    output = coterie_ok(
        "explain", folder / "log", "--group", group, *options, "--format", "json"
    ).stdout
    return json.loads(output)


def audited(incident, *options):
    return json.loads(
        coterie("audit", INCIDENTS / incident / "log", "--format", "json", *options).stdout
    )


def of_kind(rows, *kinds):
    return [row for row in rows if row["event"] in kinds]


def test_the_reset_by_the_tool_is_reported_with_its_time_its_offsets_and_that_nobody_was_there():
    (tool,) = events("reset-while-empty", "kafka-consumer-groups")
    before = [
        end for end in truth("reset-while-empty")["samples"] if end["at_ms"] < tool["since_ms"]
    ][-1]["described"]
    (row,) = of_kind(explained("reset-while-empty", "payments"), "reset", "rewind")
    assert row["event"] == "reset"
    assert tool["since_ms"] <= row["timestamp"] <= tool["at_ms"]
    committed = {(topic, number): offset for group, topic, number, offset, *_ in before
                 if group == "payments"}  # fmt: skip
    places = [f"{topic}-{number} {offset} to 0" for (topic, number), offset in committed.items()]
    assert row["cause"] == (
        f"{len(places)} offsets set back: {', '.join(places)}; "
        "by a tool or a consumer outside of the group: it had no members"
    )
    assert not of_kind(explained("reset-while-empty", "billing"), "reset", "rewind")


@pytest.mark.parametrize("incident", ["reset-while-empty", "crash-loop", "static-fight"])
def test_a_lull_is_not_told_as_an_outage(incident):
    groups = {member["group"] for member in truth(incident)["members"]}
    for group in groups:
        assert not of_kind(explained(incident, group), "silence", "coordinator_change")


def killed_and_back():
    (killed,) = events("broker-killed", "broker killed")
    (back,) = events("broker-killed", "broker started")
    return killed["at_ms"], back["at_ms"]


def test_a_killed_broker_is_reported_by_the_records_of_a_partition_that_shows_it():
    killed_ms, back_ms = killed_and_back()
    lost = {event["member"] for event in events("broker-killed", "process killed")}
    assert lost == {"halved-2", "lost-1", "static-2"}
    for group, gone in (("halved", "halved-2"), ("static", "s-2")):
        (row,) = of_kind(explained("broker-killed", group), "silence", "coordinator_change")
        assert row["timestamp"] <= killed_ms
        assert row["until"] >= killed_ms
        assert row["duration_ms"] >= 20_000  # README: started again 20 s later
        assert "perhaps there was no coordinator" in row["cause"]
        assert gone in row["cause"].partition("soon after, ")[2]
    (row,) = of_kind(explained("broker-killed", "steady"), "silence", "coordinator_change")
    assert "soon after" not in row["cause"]  # its members came back
    # Alone in its partition: with one group, a silence looks like a pause.
    assert not of_kind(explained("broker-killed", "lost"), "silence", "coordinator_change")
    assert back_ms > killed_ms


@pytest.mark.parametrize("group", ["halved", "static", "steady", "lost"])
def test_a_killed_broker_is_reported_by_its_server_log_in_every_partition(group):
    killed_ms, _ = killed_and_back()
    rows = explained("broker-killed", group, broker_logs=True)
    (row,) = of_kind(rows, "silence", "coordinator_change")
    assert row["event"] == "coordinator_change"
    assert "[server log]" in row["cause"]
    assert row["timestamp"] <= killed_ms <= row["until"]
    assert ("soon after" in row["cause"]) == (group != "steady")


def test_a_crash_loop_is_counted_as_often_as_the_process_was_started_and_killed():
    starts = events("crash-loop", "process started")
    kills = events("crash-loop", "process killed")
    count = sum(event["member"] == "crashing" for event in starts)
    assert (count, len(kills)) == (8, 8)
    rows = explained("crash-loop", "orders-app")
    (client,) = [row for row in of_kind(rows, "client") if row["cause"].startswith("crashing")]
    assert client["cause"].endswith(f": joined {count}, left {len(kills)}")
    (flap,) = of_kind(rows, "flapping")
    assert flap["count"] == count + len(kills)
    (finding,) = audited("crash-loop", "--only", "flapping")
    assert finding["count"] == flap["count"]
    assert [one["client_id"] for one in finding["clients"]] == ["crashing"]


def test_a_fight_over_a_static_id_is_reported_without_naming_the_victim():
    (row,) = audited("static-fight", "--only", "static_fight")
    assert row["group_instance_id"] == "pay-1"
    assert "host-b" not in row["detail"]
    assert "they cannot tell who took it over" in row["detail"]
    assert row["clients"] == []
    for row_ in explained("static-fight", "payments"):
        if row_["event"] == "static_replacement":
            assert "host-" not in row_["cause"]
            assert "127.0.0" not in row_["cause"]


def test_a_request_log_names_both_sides_of_a_fight_over_a_static_id():
    starts = [
        event["member"]
        for event in events("static-fight", "process started")
        if event["member"] in ("host-a", "host-b")
    ]
    takeovers = Counter(starts[1:])  # the first one joined
    requests = INCIDENTS / "static-fight" / "kafka-request.log.gz"
    (row,) = audited("static-fight", "--only", "static_fight", "--request-log", requests)
    assert row["count"] == sum(takeovers.values()) == 6
    for name, host in (("host-a", "127.0.0.2"), ("host-b", "127.0.0.3")):  # README
        assert f"by {name} ({host}) {takeovers[name]} times" in row["detail"]
    rows = explained("static-fight", "payments", broker_logs=True)
    replaced = of_kind(rows, "static_replacement")
    assert [row["causes"][0]["client_id"] for row in replaced] == starts[1:]
    assert {row["causes"][0]["source"] for row in replaced} == {"request log"}
    summary = rows[-1]
    assert summary["cause"].startswith("2 rebalances, 6 static replacements without one, ")


def test_two_applications_are_named_with_their_hosts_and_topics():
    members = truth("two-applications")["members"]
    theirs = {
        (member["name"], f"/{member['host']}", tuple(member["topics"]))
        for member in members
        if member["group"] == "shared"
    }
    (row,) = audited("two-applications", "--only", "applications")
    assert row["group_id"] == "shared"
    named = {(one["client_id"], one["client_host"], tuple(one["topics"])) for one in row["clients"]}
    assert named == theirs
    assert row["detail"].count(" reading ") == 2


@pytest.mark.parametrize("incident", ["static-fight", "crash-loop", "reset-while-empty"])
def test_commits_are_as_many_as_the_clients_were_told_of(incident):
    """Each commit that a client got a response for is a batch; the tool's is not among them."""
    (copied,) = events(incident, "copied")
    with gzip.open(INCIDENTS / incident / "commits.jsonl.gz", "rt") as lines:
        commits = [json.loads(line) for line in lines]
    expected_commits = Counter(one["group"] for one in commits if one["at_ms"] <= copied["at_ms"])
    outside = Counter(
        event["arguments"][event["arguments"].index("--group") + 1]
        for event in events(incident, "kafka-consumer-groups")
    )
    for group, count in expected_commits.items():
        rows = of_kind(explained(incident, group), "commits")
        assert sum(row["requests"] for row in rows) >= count
        # A commit in flight when its client was killed may be in the log, too.
        killed = len(events(incident, "process killed"))
        assert sum(row["requests"] for row in rows) <= count + outside[group] + killed


def test_a_stopped_broker_is_reported_by_the_leader_epoch_of_the_partition():
    events = json.loads((INCIDENTS / "protocols" / "truth.json").read_text())
    at_ms = {event["what"]: event["at_ms"] for event in events}
    output = coterie_ok("explain", INCIDENTS / "protocols", "--format", "json").stdout
    rows = json.loads(output)
    actual = {row["group_id"]: row for row in of_kind(rows, "coordinator_change")}
    assert actual.keys() == {"moved", "idle", "vault", "till", "plain", "clash", "solo"}
    for row in actual.values():
        assert row["timestamp"] <= at_ms["broker stops"]
        assert row["until"] >= at_ms["broker started"]
        assert "leader epoch went from 0 to 2" in row["cause"]
    # README: solo-2 stops while the broker is down; the members of other groups come back.
    gone = {group for group, row in actual.items() if "soon after" in row["cause"]}
    assert gone == {"solo"}
    assert "soon after, solo-2" in actual["solo"]["cause"]


def test_one_member_was_evicted_and_several_were():
    (lost,) = of_kind(explained("broker-killed", "lost"), "empty")
    assert "lost-1 (127.0.0.1) left or was evicted; " in lost["cause"]
    (halved,) = of_kind(explained("broker-killed", "halved"), "empty")
    assert "left or were evicted; " in halved["cause"]
    (row,) = of_kind(explained("broker-killed", "lost", broker_logs=True), "coordinator_change")
    assert row["cause"].endswith("soon after, lost-1 (127.0.0.1) left or was evicted")


def test_who_joined_again_first_is_whom_the_coordinator_names():
    # `search-1` and the leader `billing-1` came within a ms, after generation 6.
    rows = explained("two-applications", "shared", broker_logs=True)
    (row,) = [row for row in of_kind(rows, "generation") if row["generation"] == 7]
    (cause,) = row["causes"]
    assert (cause["what"], cause["client_id"]) == ("rejoined_first", "billing-1")
    assert cause["member_id"] in row["reason"]
    # The same by the request log alone: of two simultaneous joins, the leader's comes first.
    log = INCIDENTS / "two-applications" / "kafka-request.log.gz"
    rows = explained("two-applications", "shared", "--request-log", log)
    (row,) = [row for row in of_kind(rows, "generation") if row["generation"] == 7]
    assert [cause["client_id"] for cause in row["causes"]] == ["billing-1"]


def test_a_static_member_that_joins_again_is_one_member_under_one_name():
    rows = explained("broker-killed", "static", broker_logs=True)
    names = {row["cause"].split(" ")[0] for row in of_kind(rows, "client")}
    assert names == {"s-1", "s-2"}  # README
