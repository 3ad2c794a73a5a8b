"""``audit`` of a cluster: topics that the user may not describe, and logs that start later."""

import json

import pytest

pytest.importorskip("aiokafka")

from coterie.server import Broker
from coterie.server.api import metadata, offsets
from coterie.values import Error
from support.commandline import coterie, coterie_ok, fails
from support.server.asking import commit
from support.server.groups_of_a_broker import commit_offsets, produce
from support.server.sockets import ask, connect

SETTINGS = {"offsets.topic.num.partitions": 4}
LOST = ("--only", "out_of_range", "--format", "json")


@pytest.fixture
def broker():
    with Broker(SETTINGS, topics={"orders": 3, "secret": 1}) as made:
        yield made


def hide(monkeypatch, topic):
    """Answer as an authorizer that denies DESCRIBE on a topic: an error, or nothing at all."""
    by_name, answer_offsets = metadata._by_name, offsets._answer_offsets

    def described(call, name, may_create):
        if name == topic:
            return metadata._no_topic(Error.TOPIC_AUTHORIZATION_FAILED, name)
        return by_name(call, name, may_create)

    def filtered(call, requested, outcomes):
        seen = [(error, [row for row in rows if row[0] != topic]) for error, rows in outcomes]
        return answer_offsets(call, requested, seen)

    monkeypatch.setattr(metadata, "_by_name", described)
    monkeypatch.setattr(offsets, "_answer_offsets", filtered)


def audit(broker, *options):
    return ("audit", "--bootstrap-server", broker.bootstrap_servers, *options)


def test_a_topic_that_may_not_be_described_is_named_and_no_divergence(broker, monkeypatch):
    commit_offsets(broker, "a", 5)
    commit_offsets(broker, "a", 3, topic="secret")
    ask(connect(broker), "OffsetCommit", 2, commit("b", "secret", {0: 1}))
    hide(monkeypatch, "secret")
    result = coterie_ok(*audit(broker, "--only", "divergence", "--format", "json"))
    assert json.loads(result.stdout) == []
    assert result.stderr == (
        "coterie: not compared with the live state: offsets of 1 topic; topic secret: no "
        "permission: the user needs DESCRIBE on the topic\n"
    )


def delete_before(broker, topic, offsets_by_partition):
    rows = [
        {"partitionIndex": number, "offset": offset}
        for number, offset in offsets_by_partition.items()
    ]
    body = {"topics": [{"name": topic, "partitions": rows}], "timeoutMs": 1000}
    (answered,) = ask(connect(broker), "DeleteRecords", 2, body)["topics"]
    assert not any(row["errorCode"] for row in answered["partitions"])


def fallen_behind(broker):
    """A group that has read 12, 20 and 4 records; the logs start at 15, 20 and 9."""
    for number in range(3):
        produce(broker, "orders", number, 20)
    body = commit("a", "orders", {0: 12, 1: 20, 2: 4})
    ask(connect(broker), "OffsetCommit", 2, body)
    delete_before(broker, "orders", {0: 15, 1: 20, 2: 9})


def test_a_commit_below_the_log_start_is_found_with_the_records_that_are_lost(broker):
    fallen_behind(broker)
    result = coterie(*audit(broker, *LOST))
    assert (result.returncode, result.stderr) == (1, "")
    (row,) = json.loads(result.stdout)
    assert (row["kind"], row["severity"], row["group_id"]) == ("out_of_range", "data", "a")
    assert row["detail"] == (
        "2 partitions of orders: 8 records deleted before the group read them: "
        "orders-0 committed 12, starts at 15; orders-2 committed 4, starts at 9"
    )
    assert row["log_offset"] is not None
    places = [(place["partition"], place["lowest_offset"]) for place in row["partitions"]]
    assert places == [(0, 12), (2, 4)]


def test_a_commit_at_the_log_start_lost_nothing(broker):
    fallen_behind(broker)
    ask(connect(broker), "OffsetCommit", 2, commit("a", "orders", {0: 15, 2: 10}))
    assert json.loads(coterie_ok(*audit(broker, *LOST)).stdout) == []


def test_without_a_cluster_no_log_start_is_known(broker, tmp_path):
    commit_offsets(broker, "a", 1)
    coterie_ok("fetch", *audit(broker)[1:], "--out", tmp_path / "copy")
    copy = ("audit", tmp_path / "copy", "--only", "out_of_range")
    fails(*copy, status=2, says="--only out_of_range needs --bootstrap-server")


def test_lag_says_how_many_records_are_lost_and_audit_agrees(broker, tmp_path):
    fallen_behind(broker)
    says = (
        "coterie: 8 records deleted before the group read them, of 2 partitions: committed below "
        "the log start offset; most of group 'a', orders-2: 5\n"
    )
    assert coterie_ok("lag", *audit(broker)[1:]).stderr.endswith(says)
    coterie_ok("fetch", *audit(broker)[1:], "--out", tmp_path, "--sample-end-offsets", 3600)
    file = tmp_path / "end-offsets.csv"
    result = coterie_ok("lag", tmp_path, "--end-offsets", file, "--format", "csv")
    assert result.stderr.endswith(says)
    rows = [line.split(",") for line in file.read_text().splitlines()]
    file.write_text("".join(",".join(row[:4]) + "\n" for row in rows))  # the form before
    before = coterie_ok("lag", tmp_path, "--end-offsets", file, "--format", "csv")
    assert (before.stdout, before.stderr) == (result.stdout, "")
