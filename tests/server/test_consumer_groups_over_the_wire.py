"""Groups of the consumer protocol over the wire, as a broker 4.1 answers."""

import pytest

from coterie import run_trace
from coterie.coordinator.recording import Recording
from support.server.asking import answer, ask, commit, joining, member, request
from support.server.playing import Server

REGEX = {"subscribedTopicNames": None, "subscribedTopicRegex": "or.*"}


@pytest.fixture
def server():
    made = Server({"offsets.topic.num.partitions": 4, "broker.rack": "r1"}, kafka="4.1")
    made.cluster.topics.create("orders", 3)
    return made


@pytest.fixture
def peer(server):
    return server.connect()


def beat(peer, member_id, epoch, version=1, **fields):
    body = {"groupId": "g", "memberId": member_id, "memberEpoch": epoch, **fields}
    return ask(peer, "ConsumerGroupHeartbeat", version, body)


def join(peer, member_id="m1", **fields):
    subscription = {"subscribedTopicNames": ["orders"], "topicPartitions": []}
    return beat(peer, member_id, 0, **{"rebalanceTimeoutMs": 1000, **subscription, **fields})


def assigned(response, server):
    """Topic -> partitions."""
    return {
        server.cluster.topics.by_id(row["topicId"]).name: row["partitions"]
        for row in response["assignment"]["topicPartitions"]
    }


def describe(peer, *group_ids, version=1, **fields):
    body = {"groupIds": list(group_ids), **fields}
    return ask(peer, "ConsumerGroupDescribe", version, body)["groups"]


def test_a_member_gets_the_partitions_of_the_topic_by_its_id(server, peer):
    joined = join(peer)
    assert (joined["errorCode"], joined["memberId"], joined["memberEpoch"]) == (0, "m1", 1)
    assert joined["heartbeatIntervalMs"] == 5000
    assert assigned(joined, server) == {"orders": [0, 1, 2]}


def test_partitions_that_are_added_reach_the_next_heartbeat(server, peer):
    join(peer)
    body = {"topics": [{"name": "orders", "count": 5, "assignments": None}], "timeoutMs": 1000}
    ask(peer, "CreatePartitions", 3, body)
    grown = beat(peer, "m1", 1)
    assert (grown["memberEpoch"], assigned(grown, server)) == (2, {"orders": [0, 1, 2, 3, 4]})


def test_a_topic_that_is_made_later_is_assigned_to_those_that_named_it(server, peer):
    assert assigned(join(peer, subscribedTopicNames=["orders", "late"]), server) == {
        "orders": [0, 1, 2]
    }
    topic = {"name": "late", "numPartitions": 1, "replicationFactor": 1}
    ask(peer, "CreateTopics", 7, {"topics": [topic], "timeoutMs": 1000})
    assert assigned(beat(peer, "m1", 1), server) == {"orders": [0, 1, 2], "late": [0]}


def test_a_topic_that_is_deleted_is_taken_away(server, peer):
    server.cluster.topics.create("gone", 1)
    join(peer, subscribedTopicNames=["orders", "gone"])
    ask(peer, "DeleteTopics", 5, {"topicNames": ["gone"], "timeoutMs": 1000})
    first = beat(peer, "m1", 1)  # gives the partition up
    second = beat(peer, "m1", first["memberEpoch"], topicPartitions=[])
    topics = {row["topicId"] for row in (second["assignment"] or first["assignment"])[
        "topicPartitions"]}  # fmt: skip
    assert topics == {server.cluster.topics.get("orders").topic_id}


def test_an_expression_is_resolved_by_the_server(server, peer):
    pytest.importorskip("re2", reason="the extra regex is not installed")
    joined = join(peer, **REGEX)
    assert assigned(joined, server) == {}  # it is resolved after the response
    assert assigned(beat(peer, "m1", 1), server) == {"orders": [0, 1, 2]}


def test_the_rack_of_the_broker_is_shown_and_is_part_of_the_metadata_hash(peer):
    (broker,) = ask(peer, "Metadata", 13, {"topics": []})["brokers"]
    assert broker["rack"] == "r1"
    hashes = set()
    for config in ({"broker.rack": "r1"}, {}):
        server = Server(config, seed=3, kafka="4.1")
        server.cluster.topics.create("orders", 3)
        join(server.connect())
        log = server.cluster.topics.get("__consumer_offsets")
        hashes.add(b"".join(bytes(part.data()) for part in log.partitions))
    assert len(hashes) == 2


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"member_id": ""}, 42, "MemberId can't be empty."),
        ({"groupId": ""}, 42, "GroupId can't be empty."),
        ({"instanceId": ""}, 42, "InstanceId can't be empty."),
        ({"rackId": ""}, 42, "RackId can't be empty."),
        ({"rebalanceTimeoutMs": -1}, 42, "RebalanceTimeoutMs must be provided in first request."),
        ({"topicPartitions": None}, 42, "TopicPartitions must be empty when (re-)joining."),
        (
            {"subscribedTopicNames": None},
            42,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining.",
        ),
        (
            {"serverAssignor": "sticky"},
            112,
            "ServerAssignor sticky is not supported. Supported assignors: uniform, range.",
        ),
    ],
)
def test_a_wrong_join_gets_kafka_s_message(peer, fields, error, message):
    response = join(peer, **fields)
    assert (response["errorCode"], response["errorMessage"]) == (error, message)


def test_a_wrong_heartbeat_gets_kafka_s_message_by_its_version_and_epoch(peer):
    """Source: throwIfConsumerGroupHeartbeatRequestIsInvalid. Version 0 joins without an id."""
    no_id, no_instance = "MemberId can't be empty.", "InstanceId can't be null."
    no_time = "RebalanceTimeoutMs must be provided in first request."
    messages = {
        (0, "", -3): "MemberEpoch is invalid.", (0, "", -2): no_instance, (0, "", -1): no_id,
        (0, "", 0): no_time, (0, "", 1): no_id, (1, "", -2): no_id, (1, "m1", -2): no_instance,
        (1, "m1", -3): "MemberEpoch is invalid.", (1, "m1", 0): no_time, (1, "", 0): no_id,
    }  # fmt: skip
    for (version, member_id, epoch), message in messages.items():
        response = beat(peer, member_id, epoch, version, rebalanceTimeoutMs=-1)
        found = response["errorCode"], response["errorMessage"]
        assert found == (42, message), (version, member_id, epoch)


ABANDON = "The member must abandon all its partitions and rejoin."


@pytest.mark.parametrize(
    ("member_id", "epoch", "fields", "error", "message"),
    [
        (
            *("m1", 9, {}, 110),
            "The consumer group member has a greater member epoch (9) than the one known by the "
            f"group coordinator (2). {ABANDON}",
        ),
        (
            *("m1", 1, {"topicPartitions": [{"topicId": "A" * 22, "partitions": [9]}]}, 110),
            "The consumer group member has a smaller member epoch (1) than the one known by the "
            f"group coordinator (2). {ABANDON}",
        ),
        ("nobody", 1, {}, 25, "Member nobody is not a member of group g."),
        ("nobody", -1, {}, 25, "Member nobody is not a member of group g."),
        ("m1", -2, {}, 42, "InstanceId can't be null."),
        ("m1", -3, {}, 42, "MemberEpoch is invalid."),
        ("m1", 2, {"instanceId": "i9"}, 25, "Instance id i9 is unknown."),
        ("m1", 2, {"groupId": "other"}, 69, "Consumer group other not found."),
        ("m1", -1, {"groupId": "other"}, 69, "Group other not found."),
        (
            *("m1", 2, {"instanceId": "i2"}, 82),
            "Static member m1 with instance id i2 was fenced by member m2.",
        ),
    ],
)
def test_a_wrong_heartbeat_gets_kafka_s_message(peer, member_id, epoch, fields, error, message):
    join(peer)
    join(peer, "m2", instanceId="i2")
    beat(peer, "m1", 1, topicPartitions=[])
    response = beat(peer, member_id, epoch, **fields)
    assert (response["errorCode"], response["errorMessage"]) == (error, message)


def test_an_instance_id_that_is_in_use_is_not_released(peer):
    join(peer, instanceId="i1")
    response = join(peer, "m2", instanceId="i1")
    assert (response["errorCode"], response["errorMessage"]) == (
        111,
        "Static member m2 with instance id i1 cannot join the group because the instance id is "
        "owned by m1 member.",
    )


@pytest.mark.parametrize(
    ("expression", "reason"),  # the reasons as RE2/J 1.8 gives them
    [
        ("(abc", "missing closing )"),
        ("[ab", "missing closing ]"),
        ("*a", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("a{2000}", "invalid repeat count"),
        ("[b-a]", "invalid character class range"),
        ("\\8", "invalid escape sequence"),
        ("\\", "trailing backslash at end of expression"),
    ],
)
def test_an_expression_that_does_not_compile_is_refused_with_the_reason(peer, expression, reason):
    pytest.importorskip("re2", reason="the extra regex is not installed")
    response = join(peer, **REGEX | {"subscribedTopicRegex": expression})
    assert (response["errorCode"], response["errorMessage"]) == (
        128,
        f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {reason}.",
    )


def test_a_full_group_refuses_the_next_member():
    server = Server({"group.consumer.max.size": 1}, kafka="4.1")
    server.cluster.topics.create("orders", 3)
    peer = server.connect()
    join(peer)
    response = join(peer, "m2")
    assert (response["errorCode"], response["errorMessage"]) == (
        81,
        "The consumer group has reached its maximum capacity of 1 members.",
    )


def test_a_classic_group_that_may_not_be_upgraded_says_why():
    config = {
        "group.consumer.migration.policy": "disabled",
        "group.initial.rebalance.delay.ms": 0,
    }
    server = Server(config, kafka="4.1")
    server.cluster.topics.create("orders", 3)
    peer = server.connect()
    member(peer, "g")
    response = join(peer)
    assert (response["errorCode"], response["errorMessage"]) == (
        69,
        "Cannot upgrade classic group g to consumer group because online upgrade is disabled.",
    )
    response = beat(peer, "m1", 1)
    assert (response["errorCode"], response["errorMessage"]) == (
        69,
        "Group g is not a consumer group.",
    )


@pytest.mark.parametrize(
    ("kind", "size", "why"),
    [
        ("connect", 9, "the group does not use the consumer embedded protocol."),
        ("consumer", 1, "the group size exceeds the consumer group maximum size."),
        ("consumer", 2, "the embedded consumer protocol is malformed."),
    ],
)
def test_a_classic_group_that_cannot_be_upgraded_says_why(kind, size, why):
    """ConsumerGroup.validateOnlineUpgrade of 4.1 checks policy, protocol, size, then metadata."""
    config = {"group.initial.rebalance.delay.ms": 0, "group.consumer.max.size": size,
              "group.consumer.migration.policy": "upgrade"}  # fmt: skip
    server = Server(config, kafka="4.1")
    server.cluster.topics.create("orders", 3)
    protocols = [{"name": "range", "metadata": b"\x00"}]
    for _ in range(2):
        server.connect().send(
            request("JoinGroup", 3, joining("g", protocolType=kind, protocols=protocols))
        )
    response = join(server.connect())
    assert (response["errorCode"], response["errorMessage"]) == (
        69,
        f"Cannot upgrade classic group g to consumer group because {why}",
    )


def test_groups_are_described_with_both_assignments(server, peer):
    joined = join(peer, instanceId="i1", rackId="r1")
    (group,) = describe(peer, "g", includeAuthorizedOperations=True)
    owned = [
        {
            "topicId": joined["assignment"]["topicPartitions"][0]["topicId"],
            "topicName": "orders",
            "partitions": [0, 1, 2],
        }
    ]
    assert group["authorizedOperations"] == 3400  # read, delete, describe, and both of configs
    (described,) = group["members"]
    assert described["assignment"]["topicPartitions"] == owned
    assert described["targetAssignment"]["topicPartitions"] == owned
    assert (described["instanceId"], described["rackId"], described["memberType"]) == (
        "i1",
        "r1",
        1,
    )
    assert (group["groupState"], group["groupEpoch"], group["assignmentEpoch"]) == ("Stable", 1, 1)


def test_a_group_of_another_type_is_not_described():
    server = Server({"group.initial.rebalance.delay.ms": 0}, kafka="4.1")
    server.cluster.topics.create("orders", 3)
    peer = server.connect()
    member(peer, "classic")
    join(peer)
    (group,) = describe(peer, "classic")
    assert (group["errorCode"], group["errorMessage"]) == (
        69,
        "Group classic is not a consumer group.",
    )
    (group,) = ask(peer, "DescribeGroups", 6, {"groups": ["g"]})["groups"]
    assert (group["errorCode"], group["errorMessage"], group["groupState"]) == (
        69,
        "Group g is not a classic group.",
        "Dead",
    )


def test_groups_are_listed_by_their_type(peer):
    join(peer)
    ask(peer, "OffsetCommit", 7, commit("simple", "orders", {0: 1}))
    for types, expected in (
        ([], {"g", "simple"}),
        (["CONSUMER"], {"g"}),
        (["classic"], {"simple"}),
        (["share"], set()),
    ):
        groups = ask(peer, "ListGroups", 5, {"typesFilter": types})["groups"]
        assert {group["groupId"] for group in groups} == expected


@pytest.mark.parametrize(
    ("version", "epoch", "error"),
    [(9, 1, 0), (9, 7, 113), (8, 1, 35), (2, 1, 35)],  # STALE_MEMBER_EPOCH, UNSUPPORTED_VERSION
)
def test_a_member_commits_with_its_epoch_since_version_9(peer, version, epoch, error):
    join(peer)
    body = commit("g", "orders", {0: 5}) | {"memberId": "m1", "generationIdOrMemberEpoch": epoch}
    response = ask(peer, "OffsetCommit", version, body)
    assert response["topics"][0]["partitions"][0]["errorCode"] == error


@pytest.mark.parametrize(("version", "error"), [(8, 22), (9, 69)])
def test_a_commit_of_a_member_to_no_group_is_refused_by_the_version(peer, version, error):
    body = commit("new", "orders", {0: 5}) | {"memberId": "m", "generationIdOrMemberEpoch": 3}
    response = ask(peer, "OffsetCommit", version, body)
    assert response["topics"][0]["partitions"][0]["errorCode"] == error


def test_a_fetch_of_offsets_checks_the_member_and_its_epoch(peer):
    join(peer)
    for member_id, epoch, error in (("m1", 1, 0), ("m1", 2, 113), ("m9", 1, 25), (None, -1, 0)):
        group = {"groupId": "g", "memberId": member_id, "memberEpoch": epoch, "topics": None}
        (found,) = ask(peer, "OffsetFetch", 9, {"groups": [group]})["groups"]
        assert found["errorCode"] == error


def test_a_member_whose_session_ends_is_gone_and_its_partitions_go_to_the_other(server, peer):
    join(peer)
    join(peer, "m2")
    server.run(44_999)
    assert {row["memberId"] for row in describe(peer, "g")[0]["members"]} == {"m1", "m2"}
    beat(peer, "m2", 2)
    server.run(1)
    assert {row["memberId"] for row in describe(peer, "g")[0]["members"]} == {"m2"}


def test_consumer_groups_go_on_after_a_restart_of_the_coordinator(server, peer):
    join(peer)
    server.cluster.groups.resign()
    assert beat(peer, "m1", 1)["errorCode"] == 16  # NOT_COORDINATOR
    server.cluster.groups.load()
    assert beat(peer, "m1", 1)["errorCode"] == 0
    assert describe(peer, "g")[0]["groupState"] == "Stable"


@pytest.mark.parametrize("config", [{"group.coordinator.rebalance.protocols": "classic"}, None])
def test_without_the_protocol_or_the_feature_consumer_groups_are_refused(config):
    server = Server(config or {}, kafka="4.1")
    peer = server.connect()
    if config is None:
        row = {"feature": "group.version", "maxVersionLevel": 0, "upgradeType": 2}
        assert ask(peer, "UpdateFeatures", 2, {"featureUpdates": [row]})["errorCode"] == 0
    assert join(peer)["errorCode"] == 35
    assert describe(peer, "g")[0]["errorCode"] == 35


def test_a_second_request_is_answered_while_a_join_of_a_classic_member_waits(server):
    first, second = server.connect(), server.connect()
    first.send(request("JoinGroup", 3, {
        "groupId": "c", "sessionTimeoutMs": 30000, "rebalanceTimeoutMs": 30000, "memberId": "",
        "protocolType": "consumer", "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\0"}],
    }))  # fmt: skip
    assert join(second)["errorCode"] == 0
    server.run(3000)
    assert answer(first, "JoinGroup", 3)["errorCode"] == 0


def test_a_trace_of_the_server_has_the_topics_and_gives_the_same_responses(server, peer):
    recording = Recording()
    server.cluster.groups.record_into(recording)
    live = [join(peer), join(peer, "m2")]
    server.cluster.topics.grow("orders", 5)
    live += [beat(peer, "m1", 1, topicPartitions=[]), beat(peer, "m2", 2)]
    server.run(45_000)
    live.append(join(peer, "m3"))
    lines = recording.lines("trace", server.cluster.groups.config, server.cluster.groups.now_ms)
    assert lines[0]["version"] == 2
    replayed = [
        row.get("response", row)
        for row in run_trace(lines)
        if row["event"] == "response" and row["op"] == "consumer_group_heartbeat"
    ]
    assert [row["member_epoch"] for row in replayed] == [row["memberEpoch"] for row in live]
    assert [row.get("assignment") for row in replayed] == [
        None if row["assignment"] is None
        else [
            {"topic_id": each["topicId"], "partitions": each["partitions"]}
            for each in row["assignment"]["topicPartitions"]
        ]
        for row in live
    ]  # fmt: skip


def test_groups_that_cannot_be_described_come_first_in_their_order(peer):
    for group_id in ("g", "h"):
        join(peer, groupId=group_id)
    rows = describe(peer, "g", "none", "h", "absent")
    assert [(row["groupId"], row["errorCode"]) for row in rows] == [
        ("none", 69), ("absent", 69), ("g", 0), ("h", 0),
    ]  # fmt: skip
