"""Groups through the server: time, what is written to the log, and what is not answered yet."""

from types import SimpleNamespace

import pytest

from coterie.coordinator.recording import Recording
from coterie.messages import LogReader, decode_key, decode_value, partition_for
from support.server.asking import answer, ask, commit, heartbeat, joining, member, request
from support.server.playing import START_MS, Server

TOPIC = "__consumer_offsets"


@pytest.fixture
def server():
    made = Server({"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 4})
    made.cluster.topics.create("t", 2)
    return made


def log_of(server, group):
    """The records of the partition that a group belongs to: (key, value) decoded."""
    log = server.cluster.topics.partition(TOPIC, partition_for(group, 4))
    for batch in LogReader(log.data()):
        for record in batch.records:
            key = decode_key(record.key)
            yield batch, key["data"], decode_value(key["version"], record.value)


def test_a_commit_lies_in_its_group_s_partition_at_the_time_of_the_clock(server):
    peer = server.connect()
    server.run(1234)
    response = ask(peer, "OffsetCommit", 7, commit("g", "t", {0: 5, 1: 6}))
    assert [each["errorCode"] for each in response["topics"][0]["partitions"]] == [0, 0]
    found = [
        (key["topic"], key["partition"], value["data"]["offset"], value["data"]["commitTimestamp"])
        for _, key, value in log_of(server, "g")
    ]
    assert found == [("t", 0, 5, START_MS + 1234), ("t", 1, 6, START_MS + 1234)]


def test_the_offsets_of_a_partition_are_its_own_and_begin_at_0(server):
    peer = server.connect()
    for group in ("a", "b", "c", "d", "e"):
        ask(peer, "OffsetCommit", 7, commit(group, "t", {0: 1}))
        ask(peer, "OffsetCommit", 7, commit(group, "t", {0: 2}))
    for number in range(4):
        data = server.cluster.topics.partition(TOPIC, number).data()
        offsets = [record.offset for batch in LogReader(data) for record in batch.records]
        assert offsets == list(range(len(offsets)))


def test_a_member_that_says_nothing_is_gone_after_its_session_and_the_others_are_told(server):
    first, second = server.connect(), server.connect()
    member_id, _ = member(first, "g")
    second.send(request("JoinGroup", 3, joining("g")))
    server.run(29_999)
    assert not second.take()  # the first has not rejoined; its session is not over yet
    server.run(2)
    joined = answer(second, "JoinGroup", 3)
    assert joined["leader"] == joined["memberId"] != member_id
    assert joined["generationId"] == 2


def test_what_was_committed_survives_that_the_coordinator_moves(server):
    peer = server.connect()
    member_id, generation = member(peer, "g")
    ask(peer, "OffsetCommit", 7, commit("g", "t", {0: 5}, member_id, generation))
    before = server.cluster.groups.snapshot("g")
    server.cluster.groups.move("g")
    after = server.cluster.groups.snapshot("g")
    assert after.offsets == before.offsets
    assert [m.member_id for m in after.members] == [member_id]
    assert after.generation_id == generation


@pytest.mark.parametrize(("version", "rebalance_ms"), [(0, 30_000), (1, 50_000), (3, 50_000)])
def test_in_join_group_0_the_session_timeout_is_that_of_rebalances_too(
    server, version, rebalance_ms
):
    body = joining("g", rebalanceTimeoutMs=50_000)
    if version == 0:
        del body["rebalanceTimeoutMs"]
    server.connect().send(request("JoinGroup", version, body))
    (member,) = server.cluster.groups.snapshot("g").members
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (30_000, rebalance_ms)


def test_a_topic_that_is_deleted_takes_its_offsets_along(server):
    peer = server.connect()
    ask(peer, "OffsetCommit", 7, commit("g", "t", {0: 5}))
    server.cluster.topics.delete("t")
    fetched = ask(peer, "OffsetFetch", 5, {"groupId": "g", "topics": None})
    assert fetched["topics"] == []


def test_an_explicit_retention_ends_an_offset_when_it_says(server):
    peer = server.connect()
    body = commit("g", "t", {0: 5}) | {"retentionTimeMs": 60_000}
    ask(peer, "OffsetCommit", 3, body)
    server.run(540_000)
    fetch = {"groupId": "g", "topics": [{"name": "t", "partitionIndexes": [0]}]}
    offset = ask(peer, "OffsetFetch", 5, fetch)["topics"][0]["partitions"][0]["committedOffset"]
    assert offset == 5  # the clean-up comes every ten minutes
    server.run(60_001)
    offset = ask(peer, "OffsetFetch", 5, fetch)["topics"][0]["partitions"][0]["committedOffset"]
    assert offset == -1


def test_a_fetch_of_offsets_names_each_topic_once_and_none_without_partitions(server):
    # GroupCoordinatorAdapter.fetchOffsets of Kafka 3.9
    peer = server.connect()
    ask(peer, "OffsetCommit", 7, commit("g", "t", {0: 5, 1: 6}))
    topics = [
        {"name": name, "partitionIndexes": numbers}
        for name, numbers in (("t", [1]), ("u", []), ("v", [0]), ("t", [0]))
    ]
    found = ask(peer, "OffsetFetch", 5, {"groupId": "g", "topics": topics})["topics"]
    assert {
        topic["name"]: {p["partitionIndex"]: p["committedOffset"] for p in topic["partitions"]}
        for topic in found
    } == {"t": {0: 5, 1: 6}, "v": {0: -1}}
    assert len(found) == 2


def test_several_groups_are_fetched_at_once_each_with_its_own(server):
    peer = server.connect()
    ask(peer, "OffsetCommit", 7, commit("a", "t", {0: 1}))
    ask(peer, "OffsetCommit", 7, commit("b", "t", {0: 2}))
    asked = [{"groupId": group, "topics": None} for group in ("b", "none", "a")]
    groups = ask(peer, "OffsetFetch", 8, {"groups": asked})["groups"]
    response = {
        group["groupId"]: [
            each["committedOffset"] for topic in group["topics"] for each in topic["partitions"]
        ]
        for group in groups
    }
    assert response == {"b": [2], "none": [], "a": [1]}


def test_a_heartbeat_of_nobody_is_refused_and_of_a_member_is_not(server):
    peer = server.connect()
    member_id, generation = member(peer, "g")
    assert ask(peer, "Heartbeat", 4, heartbeat("g", member_id, generation))["errorCode"] == 0
    assert ask(peer, "Heartbeat", 4, heartbeat("g", "nobody", generation))["errorCode"] == 25
    assert ask(peer, "Heartbeat", 4, heartbeat("g", member_id, 9))["errorCode"] == 22
    assert ask(peer, "Heartbeat", 4, heartbeat("h", member_id, 1))["errorCode"] == 25


@pytest.mark.parametrize("version", range(10))
def test_a_new_member_joins_again_with_its_id_since_version_4(server, version):
    """JoinGroupRequest.requiresKnownMemberId; the null name since 7, skipAssignment since 9."""
    peer = server.connect()
    joined = ask(peer, "JoinGroup", version, joining("g"))
    assert joined["memberId"]
    if version >= 4:
        assert (joined["errorCode"], joined["generationId"], joined["members"]) == (79, -1, [])
        assert joined["protocolName"] == (None if version >= 7 else "")
        joined = ask(peer, "JoinGroup", version, joining("g", joined["memberId"]))
    assert (joined["errorCode"], joined["generationId"], joined["protocolName"]) == (0, 1, "range")


@pytest.mark.parametrize(("version", "waits_ms"), [(0, 7000), (1, 9000)])
def test_a_rebalance_waits_for_the_session_timeout_before_version_1(server, version, waits_ms):
    timeouts = {"sessionTimeoutMs": 7000, "rebalanceTimeoutMs": 9000}
    first, second = server.connect(), server.connect()
    joined = ask(first, "JoinGroup", version, joining("g", **timeouts))
    for ms in (0, 5000):  # the member lives, but does not join again
        server.run(ms)
        body = heartbeat("g", joined["memberId"], 1)
        assert ask(first, "Heartbeat", 3, body)["errorCode"] == (27 if ms else 0)
        if not ms:
            second.send(request("JoinGroup", 1, joining("g", sessionTimeoutMs=30_000,
                                                        rebalanceTimeoutMs=0)))  # fmt: skip
    server.run(waits_ms - 5001)
    assert not second.take()
    server.run(1)
    assert answer(second, "JoinGroup", 1)["generationId"] == 2


def test_a_trace_counts_time_from_its_beginning_and_lacks_nothing():
    server = Server({"group.initial.rebalance.delay.ms": 0})
    recording = Recording()
    server.run(777)
    server.cluster.groups.record_into(recording)
    server.run(1234)
    member_id, generation = member(server.connect(), "g")
    server.run(5000)
    ask(server.connect(), "Heartbeat", 3, heartbeat("g", member_id, generation))
    events = recording.lines("x", server.cluster.groups.config, server.cluster.now_ms)[1:]
    assert [(event["op"], event["at"]) for event in events if "op" in event] == [
        ("join_group", 1234), ("sync_group", 1234), ("heartbeat", 6234),
    ]  # fmt: skip
    assert recording.lost == []


@pytest.mark.parametrize("watched", [False, True])
def test_a_request_that_fails_closes_its_connection_and_no_other(watched):
    server = Server({"group.initial.rebalance.delay.ms": 0})
    if watched:
        server.cluster.groups.on_event = lambda event: None
    good, bad = server.connect(), server.connect()
    member_id, generation = member(good, "g")
    ids = server.cluster.groups.member_ids

    def fail(prefix):
        raise ValueError("no id")

    server.cluster.groups.member_ids = fail
    bad.send(request("JoinGroup", 3, joining("h")))
    assert bad.connection.closing
    assert not bad.take()
    server.cluster.groups.member_ids = ids
    beat = heartbeat("g", member_id, generation)
    assert ask(good, "Heartbeat", 3, beat)["errorCode"] == 0
    assert member(server.connect(), "h")


def test_a_recorder_gets_each_call_with_the_time_since_it_began():
    server = Server({"group.initial.rebalance.delay.ms": 3000})
    server.run(1234)
    calls = []

    class Recorder:
        def begin(self, **how):
            calls.append(("begin", how))

        def ask(self, at_ms, op, request_id, compiled):
            calls.append((op, at_ms))

        def advance(self, at_ms):
            calls.append(("advance", at_ms))

    server.cluster.groups.record_into(Recorder())
    server.run(250)
    peer = server.connect()
    peer.send(request("JoinGroup", 3, joining("g")))
    server.run(3000)
    assert answer(peer, "JoinGroup", 3)["generationId"] == 1
    assert calls[0] == (
        "begin", {"now_ms": 0, "deferred": False, "loaded": False, "periodic": True})  # fmt: skip
    assert calls[1:3] == [("join_group", 250), ("advance", 3250)]


def test_heartbeats_and_commits_are_recorded_and_have_their_events(server):
    groups, events, calls = server.cluster.groups, [], []
    peer = server.connect()
    who = member(peer, "g")
    recorder = SimpleNamespace(
        begin=lambda **_: None, advance=lambda _: None, ask=lambda _, op, *__: calls.append(op)
    )
    groups.on_event = lambda event: events.append(getattr(event, "op", None))
    for record in (None, recorder):
        if record:
            groups.on_event = None
            groups.record_into(record)
        assert ask(peer, "Heartbeat", 3, heartbeat("g", *who))["errorCode"] == 0
        ask(peer, "OffsetCommit", 2, commit("g", "t", {0: 5}, *who))
    assert [op for op in events if op] == calls == ["heartbeat", "offset_commit"]


@pytest.mark.parametrize("version", [3, 4, 5])
def test_share_groups_have_no_coordinator_before_version_6_and_only_version_3_says_why(version):
    # KafkaApis: since version 4 the entries of keys have no messages
    keys = {"key": "s"} if version < 4 else {"coordinatorKeys": ["s"]}
    found = ask(Server().connect(), "FindCoordinator", version, {**keys, "keyType": 2})
    row = found if version < 4 else found["coordinators"][0]
    assert row["errorCode"] == 42
    assert bool(row["errorMessage"]) is (version < 4)
    assert (row["nodeId"], row["host"], row["port"]) == (-1, "", -1)
