"""``--metrics``: what Prometheus reads of a server."""

import asyncio
import re
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from coterie.server.admin.http import HttpRequest, Refusal
from coterie.server.admin.metrics import Metrics
from support.server import asking, playing


def samples(server, metrics):
    """What a scrape reads: value by name and labels."""
    answer = asyncio.run(metrics.respond(HttpRequest("GET", "/metrics", "h", None, 0, True)))
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


@pytest.mark.parametrize(("method", "path"), [("POST", "/metrics"), ("GET", "/")])
def test_there_is_nothing_else(method, path):
    _, metrics, _ = begun()
    with pytest.raises(Refusal):
        asyncio.run(metrics.respond(HttpRequest(method, path, "h", None, 0, True)))
