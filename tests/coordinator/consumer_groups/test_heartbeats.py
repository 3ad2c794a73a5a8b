"""What a heartbeat of the consumer protocol must say, and what each of its fields changes.

Rules: docs/rules/consumer-groups.md#heartbeats; GroupMetadataManager.java
(throwIfConsumerGroupHeartbeatRequestIsInvalid, consumerGroupHeartbeat).
"""

import pytest

from coterie import Batch, Error, GroupCoordinator, load_trace
from coterie.consumer_groups import encode_topic_id
from coterie.coordinator.consumer_requests import derived_topic_id
from coterie.messages import decode_key, decode_value, encode_key, encode_value, partition_for

MEMBER, PARTITION_METADATA, REGEX = 5, 4, 16  # versions of keys
TOPIC = encode_topic_id(derived_topic_id("t"))
FIRST = {"rebalance_timeout_ms": 60_001, "subscribed_topic_names": ["t"], "topic_partitions": []}
INVALID, UNKNOWN = Error.INVALID_REQUEST, Error.UNKNOWN_MEMBER_ID
ALL = {"instance_id": "i", "rack_id": "r", "client_id": "client", "client_host": "/host",
       "subscribed_topic_names": ["t", "u"], "rebalance_timeout_ms": 7_001,
       "server_assignor": "range"}  # fmt: skip
AS_RECORDED = {"instance_id": "instanceId", "rack_id": "rackId", "client_id": "clientId",
               "client_host": "clientHost", "subscribed_topic_names": "subscribedTopicNames",
               "subscribed_topic_regex": "subscribedTopicRegex",
               "rebalance_timeout_ms": "rebalanceTimeoutMs",
               "server_assignor": "serverAssignor"}  # fmt: skip


def made(**config):
    coordinator = GroupCoordinator({"coterie.behaviour": "4.1"} | config)
    coordinator.set_topics({"t": 4, "u": 2})
    return coordinator


def beat(coordinator, member_id="a", epoch=0, group_id="g", **fields):
    if epoch == 0:
        fields = FIRST | fields
    return coordinator.consumer_group_heartbeat(group_id, member_id, epoch, **fields)


def written(coordinator, since=0):
    """Version, key and value of each record."""
    for batch in coordinator.log[since:]:
        for raw, value in batch.records:
            key = decode_key(raw)
            data = None if value is None else decode_value(key["version"], value)["data"]
            yield key["version"], key["data"], data


def members_written(coordinator, since=0):
    return [data for version, _, data in written(coordinator, since) if version == MEMBER]


@pytest.mark.parametrize("version", [0, 1])
def test_a_request_that_does_not_say_enough_is_invalid(version):
    without_id = INVALID if version else Error.NONE
    for fields, error in [
        ({}, Error.NONE),
        ({"rebalance_timeout_ms": -1}, INVALID),
        ({"rebalance_timeout_ms": -2}, Error.NONE),
        ({"topic_partitions": None}, INVALID),
        ({"topic_partitions": [{"topic_id": TOPIC, "partitions": [0]}]}, INVALID),
        ({"subscribed_topic_names": None}, INVALID),
        ({"subscribed_topic_names": None, "subscribed_topic_regex": "t"}, Error.NONE),
        ({"subscribed_topic_names": []}, Error.NONE),
        ({"instance_id": ""}, INVALID),
        ({"rack_id": ""}, INVALID),
        ({"group_id": ""}, INVALID),
        ({"member_id": ""}, without_id),
        ({"server_assignor": "other"}, Error.UNSUPPORTED_ASSIGNOR),
        ({"server_assignor": "range"}, Error.NONE),
        ({"epoch": 1}, Error.GROUP_ID_NOT_FOUND),
        ({"epoch": -1}, Error.GROUP_ID_NOT_FOUND),
        ({"epoch": -2}, INVALID),
        ({"epoch": -2, "instance_id": "i"}, Error.GROUP_ID_NOT_FOUND),
        ({"epoch": -3, "instance_id": "i"}, INVALID),
        ({"epoch": 1, "member_id": ""}, INVALID),
        ({"epoch": -1, "member_id": ""}, INVALID),
    ]:
        if "subscribed_topic_regex" in fields:
            pytest.importorskip("re2")
        assert (fields, beat(made(), version=version, **fields).error) == (fields, error)


def test_a_first_request_says_all_of_a_member_that_only_a_log_has_too():
    key = encode_key({"version": MEMBER, "data": {"groupId": "g", "memberId": "a"}})
    data = {"instanceId": None, "rackId": None, "clientId": "", "clientHost": "/127.0.0.1",
            "subscribedTopicNames": ["t"], "subscribedTopicRegex": "", "rebalanceTimeoutMs": 7,
            "serverAssignor": None}  # fmt: skip
    value = encode_value(MEMBER, {"version": 0, "data": data})
    coordinator = GroupCoordinator(
        {"coterie.behaviour": "4.1"}, log=[Batch(0, records=((key, value),))]
    )
    assert coordinator.consumer_group_heartbeat("g", "a", 0).error is INVALID
    assert beat(coordinator).member_epoch == 1


@pytest.mark.parametrize(("field", "value"), [
    ("rack_id", "other"), ("client_id", "other"), ("client_host", "/other"),
    ("subscribed_topic_names", ["u"]), ("rebalance_timeout_ms", 7_000),
    ("server_assignor", "uniform"), ("subscribed_topic_regex", "t|u"),
])  # fmt: skip
def test_each_field_alone_is_written_beside_what_was_there(field, value):
    if field == "subscribed_topic_regex":
        pytest.importorskip("re2")
    coordinator = made()
    beat(coordinator, **ALL)
    expected = {AS_RECORDED[name]: item for name, item in ALL.items()}
    expected |= {"subscribedTopicRegex": ""}
    (first,) = members_written(coordinator)
    assert first | expected == first
    who = {name: ALL[name] for name in ("client_id", "client_host")}  # of every request
    for same in (who, ALL):
        beat(coordinator, epoch=1, **same)
        assert members_written(coordinator) == [first]
    beat(coordinator, epoch=1, **who | {field: value})
    _, changed = members_written(coordinator)
    expected[AS_RECORDED[field]] = value
    assert changed | expected == changed


def test_who_sends_it_is_part_of_every_heartbeat():
    """The client id and host come with the connection: a member that moves is written anew."""
    coordinator = made()
    beat(coordinator, client_id="one", client_host="/1")
    for fields in [{"client_id": "two", "client_host": "/1"},
                   {"client_id": "two", "client_host": "/2"}]:  # fmt: skip
        before = len(coordinator.log)
        beat(coordinator, epoch=1, **fields)
        (row,) = members_written(coordinator, before)
        assert (row["clientId"], row["clientHost"]) == tuple(fields.values())
        beat(coordinator, epoch=1, **fields)
        assert len(coordinator.log) == before + 1


def test_a_client_that_comes_back_is_written_however_often_it_was_there():
    """Equal heartbeats of a trace are one object: what one has found is not what the next finds."""
    header = {"format": "coterie-trace", "version": 2, "config": {"coterie.behaviour": "4.1"},
              "topics": [{"topic": "t", "topic_id": TOPIC, "partitions": 2}]}  # fmt: skip
    clients = ["one", "one", "one", "two", "two", "one", "one", "two", "one"]
    events = [
        {"op": "consumer_group_heartbeat", "group_id": "g", "member_id": "a", "client_id": client,
         "member_epoch": int(number > 0), "id": number, "at": number,
         **(FIRST if number == 0 else {})}
        for number, client in enumerate(clients)
    ]  # fmt: skip
    coordinator = GroupCoordinator()
    coordinator.play(load_trace([header, *events]))
    rows = [row["clientId"] for row in members_written(coordinator)]
    assert rows == ["one", "two", "one", "two", "one"]


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 300, 16_382, 16_383, 16_384])
def test_records_have_the_bytes_of_the_table_of_messages_whatever_the_lengths(size):
    coordinator = made()
    text = "x" * size
    fields = {"client_id": text, "client_host": "é" * (size // 2), "rack_id": text or None}
    beat(coordinator, **fields, subscribed_topic_names=["t", text])
    metadata = b"\0\0\0\0\0\1" + size.to_bytes(2, "big") + text.encode() + b"\xff\xff\xff\xff"
    protocols = [("range", metadata), (text or "none", metadata)]
    coordinator.join_group("g", protocol_type="consumer", protocols=protocols, client_id="c")
    coordinator.offset_commit("g", {("t", 0): 5})
    kinds = set()
    for batch in coordinator.log:
        for raw, value in batch.records:
            key = decode_key(raw)
            assert encode_key(key) == raw
            if value is not None:
                kinds.add(key["version"])
                read = decode_value(key["version"], value)
                assert encode_value(key["version"], read) == value
    assert kinds >= {3, MEMBER, 6, 7, 8}


def test_settings_of_a_group_of_its_own_count_at_once_and_after_a_load():
    coordinator = made()
    beat(coordinator)
    beat(coordinator, "b", group_id="other")
    assert beat(coordinator, epoch=1).heartbeat_interval_ms == 5_000
    config = {"consumer.session.timeout.ms": 50_003, "consumer.heartbeat.interval.ms": 6_007}
    coordinator.handle({"op": "group_config", "group_id": "g", "config": config})
    assert beat(coordinator, epoch=1).heartbeat_interval_ms == 6_007
    assert beat(coordinator, "b", 1, "other").heartbeat_interval_ms == 5_000
    for _ in range(2):
        begun_ms = coordinator.now_ms
        coordinator.advance(begun_ms + 45_000)
        assert coordinator.snapshot("other").members == ()
        coordinator.advance(begun_ms + 50_002)
        assert len(coordinator.snapshot("g").members) == 1
        coordinator.failover()
    coordinator.advance_by(50_003)
    assert coordinator.snapshot("g").members == ()


def test_partition_metadata_of_an_older_coordinator_is_removed_once_the_write_succeeds():
    first = made()
    beat(first)
    key = encode_key({"version": PARTITION_METADATA, "data": {"groupId": "g"}})
    end = len(first.log[-1].records) + first.log[-1].base_offset
    log = [*first.log, Batch(end, records=((key, b"\0\0\1\0"),))]
    coordinator = GroupCoordinator({"coterie.behaviour": "4.1"}, log=log, appends="deferred")
    coordinator.set_topics({"t": 4})
    assert coordinator.load_error is None

    def answer_and_removed():
        answer = beat(coordinator, epoch=1)
        removed = [[name for name, _ in append.records] for append in coordinator.appends]
        return answer, removed

    answer, removed = answer_and_removed()
    assert removed == [[key]]
    coordinator.appends[0].complete(Error.NOT_ENOUGH_REPLICAS)
    assert answer.response.error is Error.COORDINATOR_NOT_AVAILABLE
    coordinator.set_topics({"t": 4})  # the next look at the metadata
    answer, removed = answer_and_removed()
    assert removed == [[key]]
    coordinator.appends[0].complete()
    assert answer.response.error is Error.NONE
    coordinator.set_topics({"t": 4})
    assert answer_and_removed()[1] == []


def test_metadata_is_looked_at_again_after_the_largest_number_of_milliseconds():
    """METADATA_REFRESH_INTERVAL_MS. Racks alone ask for nothing before."""
    interval_ms, start_ms = 2**31 - 1, 50_000_021
    config = dict.fromkeys(
        ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"), 2**31 - 1
    ) | {"offsets.topic.num.partitions": 2, "coterie.behaviour": "4.1"}
    coordinator = GroupCoordinator(config, now_ms=start_ms)
    topic = {"topic": "t", "topic_id": TOPIC, "partitions": 2, "replicas": [[1], [1]]}
    coordinator.handle({"op": "metadata", "brokers": [{"id": 1, "rack": "a"}], "topics": [topic]})
    beat(coordinator)
    beat(coordinator, epoch=1)  # the first look of the group that the records have made
    coordinator.handle({"op": "metadata", "brokers": [{"id": 1, "rack": "b"}]})
    coordinator.resign(1 - partition_for("g", 2))  # it has no group; known hashes are forgotten
    coordinator.advance(start_ms + interval_ms - 1)
    for fields in ({}, {"rebalance_timeout_ms": 60_001, "subscribed_topic_names": ["t"]}):
        assert beat(coordinator, epoch=1, **fields).member_epoch == 1
    coordinator.advance_by(1)
    assert beat(coordinator, epoch=1).member_epoch == 2
    assert beat(coordinator, epoch=2).member_epoch == 2


def test_the_epoch_before_is_accepted_of_a_member_that_has_not_heard_of_its_own_yet():
    """GroupMetadataManager.throwIfConsumerGroupMemberEpochIsInvalid: what it owns must be its."""
    coordinator = made()
    beat(coordinator, instance_id="i")
    beat(coordinator, epoch=1, instance_id="i", subscribed_topic_names=["t", "u"])
    fenced, none = Error.FENCED_MEMBER_EPOCH, Error.NONE

    def owned(*partitions, topic=TOPIC):
        return {"topic_partitions": [{"topic_id": topic, "partitions": list(partitions)}]}

    for epoch, fields, error in [
        (2, {}, none), (1, {"topic_partitions": []}, none), (1, owned(0, 3), none), (1, {}, fenced),
        (1, owned(0, 4), fenced), (1, owned(0, topic="A" * 21 + "Q"), fenced),
        (1, owned(topic="A" * 21 + "Q"), none), (3, {"topic_partitions": []}, fenced),
    ]:  # fmt: skip
        answer = beat(coordinator, epoch=epoch, instance_id="i", **fields)
        assert (epoch, fields, answer.error) == (epoch, fields, error)
    beat(coordinator, epoch=-2, instance_id="i")  # away: now the epoch before is a later one
    for epoch in (1, 2):
        again = beat(coordinator, epoch=epoch, instance_id="i", topic_partitions=[])
        assert again.error is fenced


def test_a_topic_that_is_made_anew_under_another_id_is_another_topic():
    coordinator = made()
    beat(coordinator)
    new = {"topic": "t", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": 3}
    coordinator.handle({"op": "metadata", "topics": [new]})
    (group,) = coordinator.consumer_group_describe(["g"]).groups
    assert group.members[0].assignment == ()  # the id has no name any more
    answer = beat(coordinator, epoch=1, topic_partitions=[])
    assert answer.member_epoch == 2
    (group,) = coordinator.consumer_group_describe(["g"]).groups
    assert [(row.topic, row.partitions) for row in group.members[0].assignment] == [
        ("t", (0, 1, 2))
    ]
    coordinator.handle({"op": "metadata", "delete_topics": ["t"]})
    coordinator.handle({"op": "metadata", "topics": [new | {"partitions": 2}]})
    beat(coordinator, epoch=2)
    beat(coordinator, epoch=beat(coordinator, epoch=2, topic_partitions=[]).member_epoch)
    (group,) = coordinator.consumer_group_describe(["g"]).groups
    assert [row.partitions for row in group.members[0].assignment] == [(0, 1)]


@pytest.mark.parametrize(
    ("assignor", "others"), [("uniform", ["t"]), ("range", ["t"]), ("range", ["t", "u"])]
)
def test_partitions_that_a_topic_no_longer_has_are_given_to_nobody(assignor, others):
    coordinator = made()
    beat(coordinator, server_assignor=assignor, subscribed_topic_names=["t", "u"])
    beat(coordinator, "b", server_assignor=assignor, subscribed_topic_names=others)
    coordinator.handle({"op": "metadata", "delete_topics": ["t"]})
    coordinator.handle(
        {"op": "metadata", "topics": [{"topic": "t", "topic_id": TOPIC, "partitions": 3}]}
    )
    for _ in range(3):
        (group,) = coordinator.consumer_group_describe(["g"]).groups
        for member in group.members:
            beat(coordinator, member.member_id, member.member_epoch, topic_partitions=[])
    (group,) = coordinator.consumer_group_describe(["g"]).groups
    targets = sorted((row.topic, number) for member in group.members
                     for row in member.target_assignment for number in row.partitions)  # fmt: skip
    assert targets == [("t", 0), ("t", 1), ("t", 2), ("u", 0), ("u", 1)]
    (second,) = [member for member in group.members if member.member_id == "b"]
    assert {row.topic for row in second.target_assignment} <= {*others}


def test_a_new_topic_is_matched_once_ten_seconds_have_passed():
    pytest.importorskip("re2")
    coordinator = made()
    fields = {"subscribed_topic_names": None, "subscribed_topic_regex": "t|v"}
    beat(coordinator, **fields)
    assert beat(coordinator, epoch=1).member_epoch == 2
    begun_ms = coordinator.now_ms
    coordinator.set_topics({"v": 1})
    for after_ms, resolved in [(1, False), (10_000, False), (10_001, True)]:
        coordinator.advance(begun_ms + after_ms)
        count = sum(version == REGEX for version, _, _ in written(coordinator))
        beat(coordinator, epoch=2)
        found = [data["topics"] for version, _, data in written(coordinator) if version == REGEX]
        assert (after_ms, len(found) - count) == (after_ms, int(resolved))
    assert found == [["t"], ["t", "v"]]


def test_an_expression_that_is_none_is_an_error_of_the_request_alone(capfd):
    pytest.importorskip("re2")
    coordinator = made()
    refused = beat(coordinator, subscribed_topic_regex="(")
    assert refused.error is Error.INVALID_REGULAR_EXPRESSION
    assert capfd.readouterr() == ("", "")
    assert coordinator.snapshot("g") is None


@pytest.mark.parametrize("kind", ["rebalance", "join", "sync"])
def test_timers_of_a_member_that_left_are_none_of_those_who_come_after_it(kind):
    coordinator = made(**{"group.consumer.migration.policy": "upgrade"})
    short = {"rebalance_timeout_ms": 3_000}
    if kind == "rebalance":
        leaving = "a"
        beat(coordinator, **short)
        beat(coordinator, "b")
        beat(coordinator, epoch=1)
    else:
        beat(coordinator, "b")
        join = {"protocol_type": "consumer", "client_id": "c", **short,
                "protocols": {"range": b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"}}  # fmt: skip
        joined = coordinator.join_group("g", **join).response
        leaving = joined.member_id
        if kind == "join":
            coordinator.sync_group("g", joined.generation_id, leaving)
            beat(coordinator, "x")
            coordinator.heartbeat("g", joined.generation_id, leaving)
    coordinator.leave_group("g", [leaving])
    for name in "cdefh":
        beat(coordinator, name)
    count = len(coordinator.log)
    coordinator.advance_by(44_999)
    assert len(coordinator.log) == count
    assert {"c", "d", "e", "f", "h"} <= {m.member_id for m in coordinator.snapshot("g").members}


@pytest.mark.parametrize("full", [False, True])
def test_metadata_that_could_not_be_written_is_looked_at_again_by_the_next_heartbeat(full):
    """The refresh deadline has the epoch that was to be: docs/rules/consumer-groups.md#writes."""
    coordinator = made()
    fields = {"subscribed_topic_names": ["t"], "rebalance_timeout_ms": 60_001} if full else {}
    assert beat(coordinator).member_epoch == 1
    assert beat(coordinator, epoch=1, **fields).member_epoch == 1
    coordinator.set_topics({"t": 5})
    coordinator.fail_append(Error.NOT_ENOUGH_REPLICAS, 2)
    for _ in range(2):
        assert beat(coordinator, epoch=1, **fields).error is Error.COORDINATOR_NOT_AVAILABLE
        assert coordinator.snapshot("g").group_epoch == 1
    answer = beat(coordinator, epoch=1, **fields)
    assert (answer.member_epoch, answer.assignment[0].partitions) == (2, (0, 1, 2, 3, 4))


def test_an_assignment_is_answered_to_a_full_request_and_to_no_other():
    """What Kafka takes for full names the timeout, names or expression, and the partitions."""
    pytest.importorskip("re2")
    coordinator = made()
    first = beat(coordinator, subscribed_topic_regex="t")
    epoch = beat(coordinator, epoch=first.member_epoch).member_epoch
    timeout, owned = {"rebalance_timeout_ms": 60_001}, {"topic_partitions": []}
    names, regex = {"subscribed_topic_names": ["t"]}, {"subscribed_topic_regex": "t"}
    for fields, full in [
        ({}, False), (timeout | owned, False), (timeout | names, False), (names | owned, False),
        (timeout | regex, False), (regex | owned, False), (names | regex | owned, False),
        (timeout | names | owned, True), (timeout | regex | owned, True),
        (timeout | names | regex | owned, True),
    ]:  # fmt: skip
        answer = beat(coordinator, epoch=epoch, **fields)
        assert answer.member_epoch == epoch
        assert (fields, answer.assignment is not None) == (fields, full)
