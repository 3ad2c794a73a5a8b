"""``--metrics``: what Prometheus reads of a server."""

import asyncio
import re
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from coterie.server.http_messages import HttpRequest, Refusal
from coterie.server.metrics import Metrics, group_rows
from support.server import asking, playing


def samples(server, metrics):
    """What a scrape reads: value by name and labels."""
    answer = asyncio.run(metrics.respond(HttpRequest("GET", "/metrics", {})))
    assert answer.content_type.startswith("text/plain; version=0.0.4")
    families = text_string_to_metric_families(answer.body.decode())
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def begun():
    server = playing.Server(playing.BROKER)
    running = SimpleNamespace(cluster=server.cluster, dispatcher=server.dispatcher, connections=3)
    metrics = Metrics(running)
    return server, metrics, server.connect()


def test_a_fresh_server_tells_its_connections():
    server, metrics, _ = begun()
    found = samples(server, metrics)
    assert found.pop(("coterie_connections",)) == 3
    assert found.pop(("coterie_unsent_bytes", ("kind", "stored"))) == 0
    assert found.pop(("coterie_unsent_bytes", ("kind", "copied"))) == 0
    assert not found


def test_bytes_that_peers_leave_unread_are_told_by_their_kind():
    server, metrics, _ = begun()
    server.dispatcher.unsent.add(stored=50, copied=7)
    found = samples(server, metrics)
    assert found["coterie_unsent_bytes", ("kind", "stored")] == 50
    assert found["coterie_unsent_bytes", ("kind", "copied")] == 7


def test_groups_topics_and_requests_are_told():
    server, metrics, peer = begun()
    log = server.cluster.topics.create('t"', 2).partitions[1]
    log.append_records([(0, b"k", b"v")] * 5)
    asking.member(peer, "g\n")
    offsets = [{"partitionIndex": 1, "committedOffset": 3, "committedMetadata": ""}]
    body = {"groupId": "h", "topics": [{"name": 't"', "partitions": offsets}]}
    asking.ask(peer, "OffsetCommit", 2, {"generationIdOrMemberEpoch": -1, "memberId": "", **body})
    found = samples(server, metrics)

    def of(name, **labels):
        return found[(name, *sorted(labels.items()))]

    group = {"consumergroup": "h", "topic": 't"', "partition": "1"}
    assert of("kafka_consumergroup_current_offset", **group) == 3
    assert of("kafka_consumergroup_lag", **group) == 2
    assert of("kafka_consumergroup_members", consumergroup="g\n") == 1
    assert of("kafka_topic_partitions", topic='t"') == 2
    assert of("kafka_topic_partition_current_offset", topic='t"', partition="1") == 5
    assert of("kafka_topic_partition_oldest_offset", topic='t"', partition="0") == 0
    assert of("coterie_requests_total", api="JoinGroup") == 1
    assert of("coterie_requests_total", api="OffsetCommit") == 1


def test_a_group_that_is_ahead_of_a_log_has_no_lag():
    server, _, peer = begun()
    log = server.cluster.topics.create("t", 1).partitions[0]
    log.append_records([(0, b"k", b"v")] * 5)
    for offset, lag in ((4, 1), (5, 0), (6, 0)):
        asking.ask(peer, "OffsetCommit", 2, asking.commit("g", "t", {0: offset}))
        _, row = group_rows(server.cluster)
        assert (row["offset"], row["lag"]) == (offset, lag)
        assert row["commit_timestamp"] == server.cluster.now_ms


def test_groups_of_both_protocols_have_rows():
    server = playing.server_of_kafka_4()
    peer = server.connect()
    asking.member(peer, "of-classic")
    body = {"groupId": "of-consumer", "memberId": "m", "memberEpoch": 0, "topicPartitions": [],
            "subscribedTopicNames": ["t"], "rebalanceTimeoutMs": 1000}  # fmt: skip
    asking.ask(peer, "ConsumerGroupHeartbeat", 1, body)
    fields = ("group_id", "state", "protocol", "protocol_type", "members")
    assert [[row[field] for field in fields] for row in group_rows(server.cluster)] == [
        ["of-classic", "Stable", "range", "consumer", 1],
        ["of-consumer", "Stable", "uniform", "consumer", 1],
    ]


def test_the_observer_before_sees_each_request_and_may_handle_it():
    server, seen = playing.Server(playing.BROKER), []
    server.dispatcher.observer = lambda call, handler: seen.append(call.api_version)
    running = SimpleNamespace(cluster=server.cluster, dispatcher=server.dispatcher, connections=1)
    metrics, peer = Metrics(running), server.connect()
    peer.send(asking.request("ApiVersions", 2, {}))
    assert (seen, peer.take()) == ([2], b"")
    assert samples(server, metrics)["coterie_requests_total", ("api", "ApiVersions")] == 1


def test_transactional_ids_are_told_by_state():
    server, metrics, _ = begun()
    transactions = server.cluster.transactions
    transactions.ready()
    for name in "ab":
        transactions.init_producer_id(name, 60_000)
    found = samples(server, metrics)
    assert found["coterie_transactional_ids", ("state", "Empty")] == 2


def test_topics_groups_requests_and_states_are_listed_in_order():
    """The same state gives the same text, in whichever order clients made it."""
    server, metrics, peer = begun()
    for name in "bca":
        server.cluster.topics.create(name, 1)
    for group_id in "hig":
        topics = [
            {"name": name, "partitions": [{"partitionIndex": 0, "committedOffset": 3}]}
            for name in "ba"
        ]
        body = {"groupId": group_id, "generationIdOrMemberEpoch": -1, "memberId": ""}
        asking.ask(peer, "OffsetCommit", 2, {**body, "topics": topics})
    asking.ask(peer, "ApiVersions", 0, {})
    asking.member(peer, "j")
    transactions = server.cluster.transactions
    transactions.ready()
    transactions.init_producer_id("x", 60_000)
    transactions.add_partitions("x", 0, 0, [("a", 0)])
    transactions.init_producer_id("y", 60_000)
    text = metrics.text()
    apis = ["OffsetCommit", "JoinGroup", "SyncGroup", "ApiVersions"]  # by their keys
    for name, label, values in (
        ("kafka_topic_partitions", "topic", "abc"),
        ("kafka_topic_partition_current_offset", "topic", "abc"),
        ("kafka_topic_partition_oldest_offset", "topic", "abc"),
        ("kafka_consumergroup_current_offset", "consumergroup", "gghhii"),
        ("kafka_consumergroup_current_offset", "topic", "ababab"),
        ("kafka_consumergroup_members", "consumergroup", "ghij"),
        ("coterie_requests_total", "api", apis),
        ("coterie_transactional_ids", "state", ["Empty", "Ongoing"]),
    ):
        listed = re.findall(rf'^{name}{{.*\b{label}="(?!__)([^"]*)"', text, re.MULTILINE)
        assert listed == list(values), name


def test_a_query_changes_nothing():
    _, metrics, _ = begun()
    requests = [HttpRequest("GET", f"/metrics{q}", {}) for q in ("", "?name=x")]
    plain, queried = [asyncio.run(metrics.respond(request)) for request in requests]
    assert queried == plain


def test_there_is_nothing_else():
    _, metrics, _ = begun()
    with pytest.raises(Refusal):
        asyncio.run(metrics.respond(HttpRequest("GET", "/", {})))
