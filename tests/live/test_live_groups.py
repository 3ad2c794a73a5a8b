"""``lag`` and ``audit`` of a cluster: end offsets and groups as they are now."""

import csv
import io
import json

import pytest

pytest.importorskip("aiokafka")

from coterie.cli.live_state import unchanged
from coterie.messages import partition_for
from coterie.server import Broker
from support.commandline import coterie, coterie_ok, fails
from support.server.asking import commit, joining, request
from support.server.groups_of_a_broker import (
    commit_offsets,
    join_alone,
    partitions_fetched,
    produce,
)
from support.server.sockets import ask, connect

SETTINGS = {"offsets.topic.num.partitions": 4, "group.initial.rebalance.delay.ms": 0}
ONLY = ("--only", "divergence", "--format", "json")


@pytest.fixture(params=["3.9", "4.1"])
def broker(request):
    with Broker(SETTINGS, kafka=request.param, topics={"orders": 2, "clicks": 1}) as made:
        yield made


def at(broker):
    return ("--bootstrap-server", broker.bootstrap_servers)


def test_lag_takes_the_end_offsets_of_now(broker):
    produce(broker, "orders", 0, 20)
    produce(broker, "clicks", 0, 3)
    commit_offsets(broker, "a", 13)  # the last offset is 12
    ask(connect(broker), "OffsetCommit", 2, commit("b", "clicks", {0: 1}))
    rows = csv.DictReader(io.StringIO(coterie_ok("lag", *at(broker), "--format", "csv").stdout))
    shown = [(row["group_id"], row["topic"], row["lag"], row["status"]) for row in rows]
    assert sorted(shown) == [("a", "orders", "8", "ok"), ("b", "clicks", "2", "ok")]


def test_lag_of_a_group_asks_only_for_its_topics(broker):
    produce(broker, "orders", 0, 20)
    ask(connect(broker), "OffsetCommit", 2, commit("b", "clicks", {0: 1}))
    commit_offsets(broker, "a", 13)
    before = len(broker.requests())
    result = coterie_ok("lag", *at(broker), "--group", "a", "--format", "json")
    assert [row["lag"] for row in json.loads(result.stdout)] == [8]
    named = {
        topic["name"]
        for request in broker.requests()[before:]
        if request["api"] == "Metadata"
        for topic in request["body"]["topics"]
    }
    assert named == {"__consumer_offsets", "orders"}


@pytest.mark.parametrize("options", [("--group", "[ac]"), ("--group-exclude", "b")], ids=" ".join)
def test_a_pattern_or_an_exclusion_chooses_the_groups_whose_topics_have_a_lag(broker, options):
    produce(broker, "orders", 0, 20)
    ask(connect(broker), "OffsetCommit", 2, commit("b", "clicks", {0: 1}))
    commit_offsets(broker, "a", 13)
    result = coterie_ok("lag", *at(broker), *options, "--format", "json")
    assert [(row["group_id"], row["lag"]) for row in json.loads(result.stdout)] == [("a", 8)]


@pytest.mark.parametrize("command", [("lag",), ("audit", *ONLY)], ids=lambda words: words[0])
def test_of_a_group_only_its_partition_is_fetched_also_to_complete_the_copy(broker, command):
    for group in ("a", "b"):
        commit_offsets(broker, group, 5)
    before = len(broker.requests())
    name, *options = command
    coterie_ok(name, *at(broker), "--group", "a", *options)
    assert partitions_fetched(broker.requests()[before:]) == {partition_for("a", 4)}


def test_lag_needs_end_offsets_or_a_cluster(broker, tmp_path):
    commit_offsets(broker, "a", 1)
    coterie_ok("fetch", *at(broker), "--out", tmp_path / "copy")
    fails("lag", tmp_path / "copy", status=2, says="Missing option '--end-offsets'")
    fails("lag", *at(broker), "--at", 1, status=2, says="--at needs --end-offsets")


def test_a_live_state_that_is_that_of_the_log_is_no_finding(broker):
    commit_offsets(broker, "a", 5)
    join_alone(broker, "busy", {"orders": [0, 1]})
    result = coterie_ok("audit", *at(broker), *ONLY)
    assert (json.loads(result.stdout), result.stderr) == ([], "")


def test_a_live_state_that_differs_is_found_with_its_record(broker):
    """A rebalance that is under way is in no record: the log still has the generation before."""
    commit_offsets(broker, "a", 5)
    join_alone(broker, "busy", {"orders": [0, 1]})
    joins = connect(broker)
    joins.send(request("JoinGroup", 3, joining("busy")))
    while True:  # the first member is asked to join again once the second is in
        (found,) = ask(connect(broker), "DescribeGroups", 1, {"groups": ["busy"]})["groups"]
        if found["groupState"] == "PreparingRebalance":
            break
    result = coterie("audit", *at(broker), *ONLY)
    assert result.returncode == 1
    rows = json.loads(result.stdout)
    assert {row["group_id"] for row in rows} == {"busy"}
    assert any("Stable in the log, PreparingRebalance live" in row["detail"] for row in rows)


def test_a_group_that_may_not_be_described_is_named_and_the_audit_goes_on(broker):
    commit_offsets(broker, "a", 5)
    broker.fail("FindCoordinator", error="GROUP_AUTHORIZATION_FAILED", times=None)
    result = coterie_ok("audit", *at(broker), "--group", "a", *ONLY)
    assert result.stderr == (
        "coterie: not compared with the live state: 1 group; group 'a': no permission: the user "
        "needs DESCRIBE on the group\n"
    )


def test_a_coordinator_that_moves_is_looked_up_again(broker):
    commit_offsets(broker, "a", 5)
    moved = broker.fail("OffsetFetch", error="NOT_COORDINATOR", times=1)
    loading = broker.fail("FindCoordinator", error="COORDINATOR_NOT_AVAILABLE", times=1)
    result = coterie_ok("audit", *at(broker), "--group", "a", *ONLY)
    assert (moved.count, loading.count, result.stderr) == (1, 1, "")


def test_without_divergence_no_group_is_described(broker):
    commit_offsets(broker, "a", 5)
    before = len(broker.requests())
    coterie_ok("audit", *at(broker), "--except", "divergence")
    apis = {request["api"] for request in broker.requests()[before:]}
    assert not apis & {"FindCoordinator", "DescribeGroups", "OffsetFetch"}


def test_what_changes_between_two_looks_is_not_compared():
    offset = {"topic": "t", "partition": 0, "offset": 1}
    other = {**offset, "partition": 1}
    before = {"group_id": "g", "state": "Stable", "members": [], "offsets": [offset, other]}
    after = {**before, "state": "Empty", "offsets": [{**offset, "offset": 2}, other]}
    assert unchanged(before, after) == {
        "group_id": "g",
        "members": [],
        "offsets": [{"topic": "t", "partition": 0}, other],
    }
    assert unchanged(None, after) == {"group_id": "g"}
