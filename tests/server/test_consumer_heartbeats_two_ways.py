"""ConsumerGroupHeartbeat by the fast path and by the handlers: the answers and groups are the same.

The fast path answers those that name and change nothing; all others are left to the handler.
"""

import random

import pytest

from coterie import wire
from coterie._core.fast_path.dispatch import LAST_CONSUMER_VERSION
from coterie.server.api.table import SERVED_BY
from support.server.asking import KEY, framed, frames_of, request
from support.server.two_ways import Both

API = "ConsumerGroupHeartbeat"
HEARTBEAT = KEY[API]
GROUPS = ["g", "h", "группа"]
CONFIG = {"offsets.topic.num.partitions": 2, "group.consumer.session.timeout.ms": 45_000}
SUBSCRIBED = {"rebalanceTimeoutMs": 60_000, "subscribedTopicNames": ["t"], "topicPartitions": []}
STEPS = 600


def beat(body, version=1, **how):
    return request(API, version, body, **how)


@pytest.fixture(params=["4.1", "4.4"])
def both(request):
    """A member alone in a group, up to date."""
    made = Both(CONFIG, GROUPS, request.param, connections=1)
    joined(made)
    return made


def joined(both, **fields):
    """Let the member join."""
    both.epoch = 0
    both.send(0, steady(both, **SUBSCRIBED, **fields))
    (data,) = both.answers()
    both.epoch = wire.decode_response(HEARTBEAT, 1, data[4:]).body["memberEpoch"]
    is_quick(both, steady(both))  # reads the metadata, also that of __consumer_offsets


def steady(both, version=1, client_id="tests", correlation_id=1, **fields):
    """A heartbeat that changes nothing, with these fields changed."""
    body = {"groupId": "g", "memberId": "m", "memberEpoch": both.epoch, **fields}
    return beat(body, version, client_id=client_id, correlation_id=correlation_id)


def is_quick(both, data):
    """Whether the fast path answers a request, as the handler does."""
    both.handled.clear()
    both.send(0, data)
    both.answers()
    both.check()
    return not both.handled


def test_the_versions_of_the_fast_path_are_those_of_every_broker_since_4_1():
    for release in ("4.1", "4.4"):
        row = SERVED_BY[release][HEARTBEAT]
        assert (row.first, row.last) == (0, LAST_CONSUMER_VERSION)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("fields", "quick"),
    [
        ({}, True),
        ({"_unknown_tags": [(7, b"x")]}, True),
        ({"groupId": "h"}, False),
        ({"groupId": ""}, False),
        ({"memberId": "n"}, False),
        ({"memberId": ""}, False),
        ({"memberEpoch": 0}, False),
        ({"memberEpoch": 3}, False),
        ({"memberEpoch": -1}, False),
        ({"memberEpoch": -2}, False),
        ({"instanceId": "i"}, False),
        ({"instanceId": ""}, False),
        ({"rackId": "r"}, False),
        ({"rackId": ""}, False),
        ({"rebalanceTimeoutMs": 60_000}, False),
        ({"rebalanceTimeoutMs": 0}, False),
        ({"subscribedTopicNames": ["t"]}, False),
        ({"subscribedTopicNames": []}, False),
        ({"serverAssignor": "range"}, False),
        ({"serverAssignor": "none of all"}, False),
        ({"topicPartitions": []}, False),
    ],
)
def test_a_heartbeat_that_names_only_its_member_is_quick(both, version, fields, quick):
    assert is_quick(both, steady(both, version, **fields)) == quick


def test_a_heartbeat_from_another_client_is_not_quick(both):
    assert is_quick(both, steady(both))
    for client_id, quick in (("other", False), (None, False), ("", True), (None, True)):
        assert is_quick(both, steady(both, client_id=client_id)) == quick
    for peer in both.peers[0]:
        peer.connection.client_host = "/10.0.0.9"
    assert not is_quick(both, steady(both, client_id=None))
    assert is_quick(both, steady(both, client_id=None))


@pytest.mark.parametrize("kafka", ["4.1", "4.4"])
def test_a_static_member_names_its_instance_in_each_heartbeat(kafka):
    both = Both(CONFIG, GROUPS, kafka, connections=1)
    joined(both, instanceId="i")
    for instance, quick in (("i", True), (None, True), ("j", False), ("", False)):
        assert is_quick(both, steady(both, instanceId=instance)) == quick


def test_a_member_by_a_regular_expression_is_not_quick(both):
    both.send(0, steady(both, subscribedTopicRegex="t.*"))
    both.answers()
    assert not is_quick(both, steady(both))


def changed_topics():
    body = {"topics": [{"name": "t", "count": 5, "assignments": None}], "timeoutMs": 1000}
    return request("CreatePartitions", 3, body)


def without(feature):
    row = {"feature": feature, "maxVersionLevel": 0, "upgradeType": 2}
    return request("UpdateFeatures", 1, {"featureUpdates": [row]})


def interval(value):
    entry = {"name": "consumer.heartbeat.interval.ms", "value": value, "configOperation": 0}
    resource = {"resourceType": 32, "resourceName": "g", "configs": [entry]}
    return request("IncrementalAlterConfigs", 1, {"resources": [resource]})


@pytest.mark.parametrize(
    ("change", "quick"),
    [
        (changed_topics(), [False, False]),  # the second has the epoch of before
        (request("CreateTopics", 7, {"topics": [
            {"name": "other", "numPartitions": 1, "replicationFactor": 1}]}), [False, True]),
        (beat({"groupId": "g", "memberId": "n", "memberEpoch": 0, **SUBSCRIBED}), [False, False]),
        (without("group.version"), [False, False]),
        (interval("7000"), [True, True]),
    ],
    ids=["partitions", "topic", "member", "feature", "interval"],
)  # fmt: skip
def test_what_changes_for_a_member_reaches_its_next_heartbeat(both, change, quick):
    assert is_quick(both, steady(both))
    both.send(0, change)
    both.answers()
    assert [is_quick(both, steady(both)) for _ in quick] == quick


def test_a_heartbeat_keeps_a_member_alive_by_either_way(both):
    for _ in range(4):
        both.run(30_000)
        assert is_quick(both, steady(both))
    both.run(45_001)
    assert not is_quick(both, steady(both))


def test_requests_after_one_that_is_left_are_answered_in_order(both):
    both.handled.clear()
    left = steady(both, correlation_id=2, memberId="n")
    both.send(0, steady(both) + left + steady(both, correlation_id=3))
    (received,) = both.answers()
    assert [frame[3] for frame in frames_of(received)] == [1, 2, 3]
    assert both.handled == [HEARTBEAT]


@pytest.mark.parametrize("version", [0, 1])
def test_a_frame_that_ends_anywhere_is_read_as_by_the_codec(both, version):
    whole = steady(both, version)[4:]
    both.handled.clear()
    for size in range(2, len(whole)):
        both.send(0, framed(whole[:size]))
        both.answers()
    assert not both.handled
    assert is_quick(both, framed(whole + b"more"))
    null = whole.replace(b"\2g\2m", b"\0\2m"), whole.replace(b"\2g\2m", b"\2g\0")
    not_text = whole.replace(b"\2g\2m", b"\2\xff\2m"), whole.replace(b"\2g\2m", b"\2g\2\xff")
    long_zero = whole[:-5] + b"\x80\0" + whole[-4:]  # a null of two bytes
    for frame in (*null, *not_text, long_zero, whole[:-1] + b"\1"):
        both.send(0, framed(frame))
        both.answers()
    both.check()


class Client:
    """Members that join, follow their assignments and leave; most heartbeats name nothing."""

    def __init__(self, rng):
        self.rng, self.sent = rng, {}
        self.members = {}  # (group, member id) -> epoch, assignment

    def request(self):
        rng = self.rng
        member = group, member_id = rng.choice(GROUPS), rng.choice("abc")
        epoch, owned = self.members.get(member, (0, None))
        body = {"groupId": group, "memberId": member_id, "memberEpoch": epoch}
        if member_id == "c":
            body["instanceId"] = rng.choice(["i", "i", "i", None])
        if not epoch:
            body |= SUBSCRIBED | {"subscribedTopicNames": rng.choice([["t"], ["t", "u"], ["x"]])}
        elif owned is not None:  # acknowledge it
            body |= {"topicPartitions": owned}
            self.members[member] = epoch, None
        elif rng.random() < 0.15:
            body |= rng.choice([
                {"memberEpoch": rng.choice([-2, -1, 0, epoch - 1, epoch + 1])}, {"rackId": "r"},
                {"rebalanceTimeoutMs": rng.choice([500, 60_000])}, {"serverAssignor": "range"},
                {"subscribedTopicNames": rng.choice([["t"], ["u"], []])}, {"instanceId": "j"},
            ])  # fmt: skip
            if body["memberEpoch"] < 0:
                self.members.pop(member)
        body["_unknown_tags"] = rng.choice([[], [], [(7, b"x")]])
        version, number = rng.randint(0, LAST_CONSUMER_VERSION), len(self.sent)
        self.sent[number] = version, member
        data = beat(body, version, correlation_id=number)
        return damaged(rng, data) if rng.random() < 0.1 else data

    def learn(self, data):
        for frame in frames_of(data):
            version, member = self.sent.get(int.from_bytes(frame[:4], "big"), (0, None))
            body = wire.decode_response(HEARTBEAT, version, frame).body
            if member is None:
                continue
            if body["errorCode"] or body["memberEpoch"] <= 0:
                self.members.pop(member, None)
            elif (assignment := body["assignment"]) is not None:
                self.members[member] = body["memberEpoch"], assignment["topicPartitions"]
            else:
                self.members[member] = body["memberEpoch"], None


def damaged(rng, data):
    """Change some bytes of a request after its API and version, and cut some."""
    frame = bytearray(data[4:])
    for _ in range(rng.randint(1, 3)):
        frame[rng.randrange(8, len(frame))] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF])
    return framed(bytes(frame[: rng.choice([len(frame)] * 3 + [rng.randrange(8, len(frame))])]))


@pytest.mark.parametrize("kafka", ["4.1", "4.4"])
@pytest.mark.parametrize("seed", range(3))
def test_random_heartbeats_are_answered_alike_by_both_ways(seed, kafka):
    rng = random.Random(seed)
    both = Both(CONFIG, GROUPS, kafka)
    client = Client(rng)
    for step in range(STEPS):
        number = rng.randrange(len(both.peers))
        data = b"".join(client.request() for _ in range(rng.choice([1, 1, 1, 3])))
        cut = rng.randrange(len(data)) if rng.random() < 0.2 else len(data)
        both.send(number, data[:cut])
        both.send(number, data[cut:])
        if step == STEPS // 2:
            both.send(number, changed_topics())
        if rng.random() < 0.2:
            both.run(rng.choice([10, 1000, 20_000]))
        for response in both.answers():
            if step != STEPS // 2:
                client.learn(response)
    both.check()
    assert STEPS // 4 < len(both.handled) < len(client.sent) * 3 // 4


def test_frames_of_any_bytes_end_both_ways_alike(both):
    rng = random.Random(9)
    for _ in range(1000):
        head = bytes([0, HEARTBEAT, 0, rng.randrange(3)]) + bytes(4) + b"\0\1c\0"
        both.send(0, framed(head + rng.randbytes(rng.randrange(40))))
        both.answers()
    both.check()
