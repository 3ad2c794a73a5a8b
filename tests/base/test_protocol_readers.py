"""All readers of subscriptions and assignments accept and refuse the same bytes as Kafka.

Sources: ConsumerProtocol.java, ConsumerProtocolAssignment.json, ConsumerProtocolSubscription.json
and the readers that Kafka generates from those.
Rules: docs/rules/log-format.md#consumer-protocol.
"""

import struct

import pytest

from coterie import CorruptData
from coterie._core.codec.schema import decode_assignment, decode_subscription
from coterie.base.consumer_protocol import (
    assignment,
    owned_partitions,
    read_assignment,
    read_subscription,
    subscription,
)
from support.log_writer import text

NULL = b"\xff\xff\xff\xff"
ONE_TOPIC = text(b"t") + struct.pack(">ii", 1, 5)
REFUSED_ASSIGNMENTS = {  # what Kafka's generated reader throws on
    "half a version": b"\0",
    "a negative version": struct.pack(">hi", -1, 0) + NULL,
    "no topics": struct.pack(">h", 0),
    "null for the topics": struct.pack(">h", 0) + NULL + NULL,
    "more topics than bytes": struct.pack(">hi", 0, 99) + NULL,
    "null for a topic": struct.pack(">hih", 0, 1, -1) + struct.pack(">i", 0) + NULL,
    "a topic longer than the rest": struct.pack(">hih", 0, 1, 99) + b"t",
    "null for the partitions": struct.pack(">hi", 0, 1) + text(b"t") + NULL + NULL,
    "a partition cut short": struct.pack(">hi", 0, 1) + ONE_TOPIC[:-1],
    "no user data": struct.pack(">hi", 0, 1) + ONE_TOPIC,
    "user data longer than the rest": struct.pack(">hi", 0, 1) + ONE_TOPIC + b"\0\0\0\2x",
}
REFUSED_SUBSCRIPTIONS = {
    "a negative version": struct.pack(">hi", -1, 0) + NULL,
    "null for the topics": struct.pack(">h", 0) + NULL + NULL,
    "null for a topic": struct.pack(">hih", 0, 1, -1) + NULL,
    "no user data": struct.pack(">hi", 0, 1) + text(b"t"),
    "no owned partitions": struct.pack(">hi", 1, 1) + text(b"t") + NULL,
    "null for owned partitions": struct.pack(">hi", 1, 1) + text(b"t") + NULL + NULL,
    "no generation": struct.pack(">hi", 2, 1) + text(b"t") + NULL + b"\0\0\0\0",
    "no rack": struct.pack(">hi", 3, 1) + text(b"t") + NULL + b"\0\0\0\0" + b"\0\0\0\1",
}


@pytest.mark.parametrize("read", [decode_assignment, read_assignment, owned_partitions])
@pytest.mark.parametrize("data", REFUSED_ASSIGNMENTS.values(), ids=REFUSED_ASSIGNMENTS)
def test_an_assignment_that_kafka_refuses_is_refused_by_every_reader(read, data):
    with pytest.raises(CorruptData):
        read(data)


@pytest.mark.parametrize("read", [decode_subscription, read_subscription])
@pytest.mark.parametrize("data", REFUSED_SUBSCRIPTIONS.values(), ids=REFUSED_SUBSCRIPTIONS)
def test_a_subscription_that_kafka_refuses_is_refused_by_every_reader(read, data):
    with pytest.raises(CorruptData):
        read(data)


@pytest.mark.parametrize(
    ("rack", "rack_id"), [(b"\xff\xff", None), (text(b""), None), (text(b"r"), "r")]
)
def test_an_empty_rack_is_none(rack, rack_id):  # ConsumerProtocol.deserializeSubscription
    data = struct.pack(">hi", 3, 0) + NULL + struct.pack(">ii", 0, 1) + rack
    assert read_subscription(data).rack_id == rack_id


@pytest.mark.parametrize("version", [0, 3, 4, 32_767])
def test_versions_above_the_last_are_read_as_the_last_and_bytes_left_over_are_ignored(version):
    data = struct.pack(">hi", version, 1) + ONE_TOPIC + NULL + b"later"
    assert read_assignment(data) == owned_partitions(data) == {"t": [5]}
    owned = struct.pack(">i", 1) + ONE_TOPIC + struct.pack(">i", 7) + text(b"r")
    data = struct.pack(">hi", version, 1) + text(b"t") + NULL + owned + b"later"
    read = read_subscription(data)
    assert (read.version, read.topics) == (version, ("t",))
    assert (read.owned, read.generation_id, read.rack_id) == (
        ({"t": [5]}, 7, "r") if version else ({}, -1, None)
    )


def test_a_topic_that_is_not_utf_8_is_read_as_java_reads_it():
    """A surrogate in UTF-8 is one broken sequence to Java, three to Python."""
    data = struct.pack(">hi", 0, 1) + text(b"\xed\xa0\x80x") + struct.pack(">ii", 1, 0) + NULL
    assert read_assignment(data) == owned_partitions(data) == {"\ufffdx": [0]}
    data = struct.pack(">hi", 0, 1) + text(b"\xed\xa0\x80x") + NULL
    assert read_subscription(data).topics == ("\ufffdx",)


def test_no_bytes_assign_nothing_and_are_no_subscription():
    assert read_assignment(b"") == owned_partitions(b"") == {}
    with pytest.raises(CorruptData):
        read_subscription(b"")


def test_owned_partitions_are_in_order_each_once_and_of_topics_that_have_any():
    twice = text(b"t") + struct.pack(">iiii", 3, 9, 5, 9)
    parts = [twice, text(b"none") + struct.pack(">i", 0), text(b"t") + struct.pack(">ii", 1, 2)]
    data = struct.pack(">hi", 0, 3) + b"".join(parts) + NULL
    assert owned_partitions(data) == {"t": [2, 5, 9]}
    assert read_assignment(data) == {"t": [9, 5, 9, 2], "none": []}


def test_a_subscription_is_sorted_as_java_sorts_it_and_of_version_1_by_default():
    """Source: ``ConsumerProtocol.serializeSubscription``."""
    topics = struct.pack(">hi", 1, 2) + text(b"a") + text(b"b") + NULL
    t, u = (text(topic) + struct.pack(">iii", 2, *parts) for topic, parts in
            ((b"t", (0, 1)), (b"u", (2, 9))))  # fmt: skip
    owned = {"u": [9, 2], "t": [1, 0]}
    assert subscription({"b", "a"}, owned=owned) == topics + struct.pack(">i", 2) + t + u
    read = read_subscription(subscription(["a"], 3, owned=owned, generation_id=4, rack_id="r"))
    assert (read.topics, read.generation_id, read.rack_id) == (("a",), 4, "r")
    assert read.owned == {"t": [0, 1], "u": [2, 9]}


def test_an_assignment_keeps_its_order_and_is_of_version_1_by_default():
    """Source: ``ConsumerProtocol.serializeAssignment``."""
    rows = {"u": [9, 2], "t": [1]}
    u, t = text(b"u") + struct.pack(">iii", 2, 9, 2), text(b"t") + struct.pack(">ii", 1, 1)
    assert assignment(rows) == struct.pack(">hi", 1, 2) + u + t + NULL
    assert assignment(rows, 3, user_data=b"x") == struct.pack(">hi", 3, 2) + u + t + b"\0\0\0\1x"
    assert read_assignment(assignment(rows)) == rows


def test_a_subscription_without_more_has_the_defaults_of_kafka():
    read = read_subscription(subscription(["a"], 0))
    assert (read.version, read.user_data, read.owned) == (0, None, {})
    assert (read.generation_id, read.rack_id, read.group_instance_id) == (-1, None, None)
    assert read_subscription(subscription(["a"], 3)).generation_id == -1
