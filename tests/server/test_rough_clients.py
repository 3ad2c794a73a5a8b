"""Clients that are hostile, broken or impatient: they harm themselves alone."""

import struct
import threading

import pytest

from coterie.errors import CoterieError
from coterie.server import Broker
from support.server import playing
from support.server.asking import answer, ask, framed, joining, member, request
from support.server.transports import Peering

NOT_TEXT = b"\xff" * 20_000  # three bytes each once they are text: more than a text may have
OFFSETS = "__consumer_offsets"


def fetching(wait_ms, *, least=1):
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1 << 20}
    topics = [{"topic": "t", "partitions": [partition]}]
    return {"replicaId": -1, "maxWaitMs": wait_ms, "minBytes": least, "maxBytes": 1 << 20,
            "topics": topics}  # fmt: skip


def committing(group="g"):
    partition = {"partitionIndex": 0, "committedOffset": 5, "committedMetadata": ""}
    topics = [{"name": "t", "partitions": [partition]}]
    return {"groupId": group, "generationIdOrMemberEpoch": -1, "memberId": "", "topics": topics}


def made(config=None):
    server = playing.Server(config)
    server.cluster.topics.create("t", 1)
    return server


def test_an_answer_that_cannot_be_written_closes_its_connection_and_no_other():
    server = made({"group.initial.rebalance.delay.ms": 100})
    rough, other = server.connect(), server.connect()
    protocols = [{"name": "p" * len(NOT_TEXT), "metadata": b""}]
    rough.send(
        request("JoinGroup", 3, joining("rough", protocols=protocols)).replace(
            b"p" * len(NOT_TEXT), NOT_TEXT
        )
    )
    other.send(request("Fetch", 4, fetching(600)))
    server.run(2000)
    assert rough.connection.closing
    assert answer(other, "Fetch", 4)["responses"]


@pytest.mark.parametrize("remade", [None, 1])
def test_groups_begin_again_when_their_log_is_deleted(remade):
    server = made({"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 4})
    peer = server.connect()
    assert member(peer, "g")
    body = {"topics": [{"name": OFFSETS}], "topicNames": [OFFSETS], "timeoutMs": 100}
    assert ask(peer, "DeleteTopics", 3, body)["responses"][0]["errorCode"] == 0
    if remade:  # with fewer partitions than groups are spread over
        topic = {"name": OFFSETS, "numPartitions": remade, "replicationFactor": 1}
        body = {"topics": [topic], "timeoutMs": 100}
        assert ask(peer, "CreateTopics", 3, body)["topics"][0]["errorCode"] == 0
    server.run(60_000)
    response = ask(peer, "DescribeGroups", 3, {"groups": ["g"]})
    assert response["groups"][0]["groupState"] == "Dead"
    errors = set()
    for number in range(8):
        committed = ask(peer, "OffsetCommit", 3, committing(f"g{number}"))
        errors.add(committed["topics"][0]["partitions"][0]["errorCode"])
    assert errors == ({0, 16} if remade else {0})


def test_a_fetch_of_a_connection_that_closed_waits_no_longer():
    server = made()
    topic = server.cluster.topics.get("t")
    before = len(server.cluster.waits)
    for _ in range(3):
        peer = server.connect()
        peer.send(request("Fetch", 4, fetching(2**31 - 1, least=2**31 - 1)))
        assert len(topic.partitions[0].waiters) == 1
        peer.leave()
        assert not topic.partitions[0].waiters
    assert len(server.cluster.waits) == before


def test_the_settings_of_a_broker_are_told_though_one_is_of_a_listener():
    name = "listener.name.sasl_plaintext.scram-sha-512.connections.max.reauth.ms"
    peer = made({name: 3000}).connect()
    body = {"resources": [{"resourceType": 4, "resourceName": "1", "configurationKeys": None}]}
    response = ask(peer, "DescribeConfigs", 4, body)["results"][0]
    assert response["errorCode"] == 0
    assert response["configs"]


def test_between_the_tokens_of_sasl_no_version_of_anything_is_answered():
    peer = made().connect("sasl")
    ask(peer, "SaslHandshake", 1, {"mechanism": "PLAIN"})
    peer.send(framed(struct.pack(">hhih", 18, 99, 5, -1) + b"\0"))
    assert answer(peer, "ApiVersions", 0)["errorCode"] == 34
    server = peer.server
    server.run(1000)
    assert peer.connection.closing


def test_ids_of_members_do_not_hang_on_when_a_fetch_ends():
    def joined(server, *, late):
        peer, waiting = server.connect(), server.connect()
        waiting.send(request("Fetch", 7, {**fetching(500), "sessionId": 0, "sessionEpoch": 0}))
        if late:
            server.cluster.waits.advance(server.cluster.waits.now_ms + 600)
        return ask(peer, "JoinGroup", 4, joining("g"))["memberId"]

    config = {"group.initial.rebalance.delay.ms": 0}
    assert joined(made(config), late=True) == joined(made(config), late=False)


def test_a_broker_whose_trace_cannot_be_written_ends_all_the_same(tmp_path):
    (tmp_path / "file").touch()
    broker = Broker(trace=tmp_path / "file" / "trace.jsonl")
    broker.__enter__()
    with pytest.raises((OSError, CoterieError), match="file"):
        broker.stop()
    broker.stop()
    assert "coterie-broker" not in [thread.name for thread in threading.enumerate()]


def answers(transport):
    """The frames that were written."""
    data, frames = b"".join(transport.written), []
    while data:
        end = 4 + int.from_bytes(data[:4], "big")
        frames.append(data[4:end])
        data = data[end:]
    return frames


def test_a_frame_that_came_in_part_behind_a_request_is_read_to_its_end():
    peering = Peering()
    peer, transport = peering.connect()
    peer.data_received(request("Fetch", 4, fetching(500)))
    long = request("OffsetCommit", 2, committing("g" * 30_000) | {"topics": [
        {"name": "t" * 30_000, "partitions": []} for _ in range(20)
    ]})  # fmt: skip
    peer.data_received(long[:300_000])
    assert not transport.reads
    peering.server.cluster.waits.advance(600)
    assert transport.reads
    peer.data_received(long[300_000:])
    peering.loop.run()
    assert len(answers(transport)) == 2


def test_nothing_more_is_read_of_a_peer_that_does_not_read():
    peer, transport = Peering().connect()
    peer.pause_writing()
    peer.data_received(request("ApiVersions", 0, {}) + bytes(1 << 19))
    assert not transport.reads
