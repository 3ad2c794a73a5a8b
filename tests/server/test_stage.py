"""What a history does to a server, asked over connections without sockets."""

import pytest

from coterie.coordinator.requests import compile_values
from coterie.errors import ArgumentError
from coterie.server.history_adapter import Stage
from support.server.asking import ask, commit, frames_of, heartbeat, joining, member, request
from support.server.playing import Server
from support.server.writing import offsets

GROUP, OTHER_GROUP = "g", "h"


@pytest.fixture
def server():
    made = Server({"group.initial.rebalance.delay.ms": 0})
    made.cluster.topics.create("t", 2)
    return made


@pytest.fixture
def stage(server):
    return Stage(server.cluster, server.dispatcher, lambda connection: connection.lost())


def sent(server, client_id, api, version, body):
    """A new connection over which a client has sent a request, and how many answers it got."""
    peer = server.connect()
    peer.send(request(api, version, body, client_id=client_id))
    return peer, len(frames_of(peer.take()))


def committing(server, client_id, group=GROUP, offset=5):
    return sent(server, client_id, "OffsetCommit", 7, commit(group, "t", {0: offset}))


def committed(server, group=GROUP):
    """The offset of a group, asked for by a client that no loss concerns."""
    body = {"groupId": group, "topics": [{"name": "t", "partitionIndexes": [0]}]}
    answered = ask(server.connect(), "OffsetFetch", 5, body, client_id="observer")
    return answered["topics"][0]["partitions"][0]["committedOffset"]


def test_topics_are_made_grown_and_deleted(server, stage):
    topics = server.cluster.topics
    stage.create_topic("new", 3)
    assert len(topics.get("new").partitions) == 3
    with pytest.raises(ArgumentError, match="has a topic 'new' already"):
        stage.create_topic("new", 1)
    stage.add_partitions("new", 5)
    assert len(topics.get("new").partitions) == 5
    stage.delete_topic("new")
    assert topics.get("new") is None
    assert topics.get("t") is not None


def test_records_are_written_after_the_time_has_passed(server, stage):
    began_ms = server.cluster.now_ms
    records = [(7, b"k", b"v"), (9, b"l", b"w")]
    stage.move(1234, [("t", 1, records), ("t", 2, records), ("gone", 0, records)])
    assert server.cluster.now_ms == began_ms + 1234
    written, empty = (server.cluster.topics.partition("t", number) for number in (1, 0))
    assert offsets(written.data()) == [0, 1]
    assert written.offset_at(8) == (9, 1, 0)
    assert written.segment_starts()[0] == (0, began_ms + 1234)
    assert not empty.size


@pytest.mark.parametrize(("kafka", "quick"), [("3.9", False), ("4.1", True)])
def test_members_of_the_consumer_protocol_are_told_to_heartbeat_often(kafka, quick):
    server = Server(kafka=kafka)
    server.cluster.topics.create("t", 1)
    stage = Stage(server.cluster, server.dispatcher, lambda connection: None)
    assert stage.quicken(GROUP) is quick
    if quick:
        body = {"groupId": GROUP, "memberId": "m", "memberEpoch": 0, "rebalanceTimeoutMs": 1000,
                "subscribedTopicNames": ["t"], "topicPartitions": []}  # fmt: skip
        answered = ask(server.connect(), "ConsumerGroupHeartbeat", 1, body)
        assert answered["heartbeatIntervalMs"] == 20
        other = {**body, "groupId": OTHER_GROUP}
        answered = ask(server.connect(), "ConsumerGroupHeartbeat", 1, other)
        assert answered["heartbeatIntervalMs"] == 5000


def test_a_client_that_is_cut_off_gets_no_answer_until_it_is_healed(server, stage):
    known, answers = committing(server, "a")
    other, _ = committing(server, "b", OTHER_GROUP)
    assert answers == 1
    stage.cut("a")
    assert known.connection.closing
    assert not other.connection.closing
    for api, version, body in (
        ("OffsetCommit", 7, commit(GROUP, "t", {0: 6})),
        ("Metadata", 9, {"topics": None}),
    ):
        opened, answers = sent(server, "a", api, version, body)
        assert (answers, opened.connection.closing) == (0, True)
    assert committed(server) == 5
    assert committing(server, "b", OTHER_GROUP, 8)[1] == 1
    stage.heal("a")
    opened, answers = committing(server, "a", offset=7)
    assert (answers, opened.connection.closing) == (1, False)
    assert committed(server) == 7


def test_all_connections_of_a_client_are_cut(server, stage):
    opened = [committing(server, "a", offset=offset)[0] for offset in range(3)]
    stage.cut("a")
    assert all(peer.connection.closing for peer in opened)


@pytest.mark.parametrize(("response", "kept"), [(False, -1), (True, 5)])
def test_a_request_is_lost_before_it_is_handled_or_its_response_after(
    server, stage, response, kept
):
    stage.lose("a", "offset_commit", response)
    assert committing(server, "b", OTHER_GROUP)[1] == 1
    assert sent(server, "a", "Metadata", 9, {"topics": None})[1] == 1
    body = {"groupId": GROUP, "topics": [{"name": "t", "partitionIndexes": [0]}]}
    assert sent(server, "a", "OffsetFetch", 5, body)[1] == 1
    peer, answers = committing(server, "a")
    assert (answers, peer.connection.closing) == (0, True)
    assert committed(server) == kept
    assert committing(server, "a", offset=6)[1] == 1  # only one is lost
    assert committed(server) == 6


def test_without_an_api_the_next_request_about_a_group_is_lost(server, stage):
    stage.lose("a", None, False)
    assert sent(server, "a", "ApiVersions", 0, {})[1] == 1
    body = {"groupId": GROUP, "topics": None}
    assert sent(server, "a", "OffsetFetch", 5, body)[1] == 0
    assert sent(server, "a", "OffsetFetch", 5, body)[1] == 1


def test_what_was_to_be_lost_of_one_client_is_forgotten(server, stage):
    for client_id in ("a", "b"):
        stage.lose(client_id, None, False)
    stage.lose_nothing("a")
    assert committing(server, "a")[1] == 1
    assert committing(server, "b")[1] == 0


def test_the_joins_of_a_client_are_counted_and_nothing_else():
    server = Server({"group.initial.rebalance.delay.ms": 0}, kafka="4.1")
    stage = Stage(server.cluster, server.dispatcher, lambda connection: None)
    member_id, generation = member(server.connect(), GROUP)
    assert stage.joins_of("tests") == 1
    ask(server.connect(), "Heartbeat", 3, heartbeat(GROUP, member_id, generation))
    assert stage.joins_of("tests") == 1
    body = {"groupId": OTHER_GROUP, "memberId": "m", "rebalanceTimeoutMs": 1000,
            "subscribedTopicNames": ["t"], "topicPartitions": []}  # fmt: skip
    for epoch, joins in ((0, 2), (1, 2)):
        beat = {**body, "memberEpoch": epoch}
        assert ask(server.connect(), "ConsumerGroupHeartbeat", 1, beat)["errorCode"] == 0
        assert stage.joins_of("tests") == joins
    assert stage.joins_of("another") == 0


def test_a_client_is_silent_once_it_has_sent_nothing_for_so_long(server, stage):
    began_ms = server.cluster.now_ms
    committing(server, "a")
    committing(server, None)  # of no name
    committing(server, "cut")
    stage.cut("cut")
    server.run(400)
    committing(server, "b")
    everyone = ("a", "b", "cut", "unheard")
    assert stage.heard_ms == {"a": began_ms, "": began_ms, "cut": began_ms, "b": began_ms + 400}
    server.run(99)
    assert stage.silent(everyone, 500) == []
    server.run(1)
    assert stage.silent(everyone, 500) == ["a"]
    assert stage.silent(["b"], 100) == ["b"]
    stage.excuse(["a"])
    assert stage.silent(everyone, 100) == ["b"]
    stage.heal("cut")
    assert stage.silent(everyone, 100) == ["b", "cut"]


def test_a_client_whose_request_is_under_way_is_not_silent(stage, server):
    first = server.connect()
    assert member(first, GROUP)
    peer, answers = sent(server, "late", "JoinGroup", 3, joining(GROUP))
    assert answers == 0  # it waits for the member that is there
    server.run(1000)
    assert stage.silent(["late"], 1000) == []
    peer.leave()


def test_the_observer_before_sees_all_that_is_not_lost(server):
    seen = []
    server.dispatcher.observer = lambda call, handler: not seen.append(call.api_version)
    stage = Stage(server.cluster, server.dispatcher, lambda connection: None)
    stage.lose("a", None, False)
    committing(server, "a")
    assert not seen
    committing(server, "a")
    sent(server, "a", "Metadata", 9, {"topics": None})
    assert seen == [7, 9]
    server.dispatcher.observer = None


def test_a_request_of_an_admin_is_answered_at_once(server, stage):
    committing(server, "a")
    for group, state in ((GROUP, "Empty"), ("none", "Dead")):
        assert (
            stage.ask("describe_group", compile_values("describe_group", (group, 5))).state == state
        )
