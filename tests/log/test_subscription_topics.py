"""The topics of a subscription are the same live, after a load and in a replay."""

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coterie import Error, GroupCoordinator, scan
from coterie._core.codec.schema import consumer_topics
from support.log_writer import batch, text

# Bytes, and what Java makes of them: new String(bytes, UTF_8) under OpenJDK 17.
BAD = "\ufffd"
AS_JAVA = {
    "eda08078": BAD + "x",
    "edbfbf": BAD,
    "eda080edb080": BAD * 2,
    "eda0": BAD,
    "eda0f0": BAD * 2,
    "ed80": BAD,
    "ed9fbf": "\ud7ff",
    "61ed6180": f"a{BAD}a{BAD}",
    "c080": BAD * 2,
    "f0808080": BAD * 4,
    "f4908080": BAD * 4,
    "f8888080": BAD * 4,
    "e28228": BAD + "(",
    "f09f98": BAD,
    "f09f9880": "\U0001f600",
    "fe80": BAD * 2,
    "e2": BAD,
    "80": BAD,
}
AWKWARD = st.lists(
    st.sampled_from(
        [b"\xed", b"\xa0", b"\x80", b"\xbf", b"\xf0", b"\xe0", b"\xc2", b"\xf4", b"x", b"\xff"]
    ),
    max_size=8,
).map(b"".join)


def subscription(*topics, version=0, user_data=b"\xff\xff\xff\xff"):
    parts = [struct.pack(">hi", version, len(topics)), *map(text, topics), user_data]
    return b"".join(parts)


def live(*subscriptions):
    """A stable group of members with these subscriptions; stuck where Kafka's code throws."""
    coordinator = GroupCoordinator()
    joins = [
        coordinator.join_group("g", protocol_type="consumer", protocols={"range": data})
        for data in subscriptions
    ]
    coordinator.advance(10_000)
    for pending in joins:
        if pending.done:
            coordinator.sync_group("g", 1, pending.response.member_id)
    return coordinator


def replayed(coordinator):
    """Return the only group of a replay of the coordinator's log."""
    records = [(0, *record) for entry in coordinator.log for record in entry.records]
    (group,) = scan(batch(0, records)).groups()
    return group["subscribed_topics"]


@pytest.mark.parametrize("data", AS_JAVA)
def test_a_topic_that_is_not_utf_8_is_read_as_java_reads_it(data):
    coordinator = live(subscription(bytes.fromhex(data)))
    assert coordinator.snapshot("g").subscribed_topics == {AS_JAVA[data]}
    answer = coordinator.offset_delete("g", [(AS_JAVA[data], 0), ("other", 0)])
    errors = [partition.error for partition in answer.partitions]
    assert errors == [Error.GROUP_SUBSCRIBED_TO_TOPIC, Error.NONE]
    assert replayed(coordinator) == [AS_JAVA[data]]


@given(st.lists(st.lists(st.one_of(AWKWARD, st.binary(max_size=9)), max_size=4), min_size=1,
                max_size=3))  # fmt: skip
@example([[b"\xed\xa0\x80\x78"], [b"\xed\xa0\x80\x78"]])
def test_live_after_a_load_and_in_a_replay_the_topics_are_the_same(members):
    coordinator = live(*(subscription(*topics) for topics in members))
    topics = coordinator.snapshot("g").subscribed_topics
    assert len(topics) <= len({topic for entry in members for topic in entry})
    assert replayed(coordinator) == sorted(topics, key=lambda name: name.encode("utf-16-be"))
    coordinator.failover()
    assert coordinator.snapshot("g").subscribed_topics == topics


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0",
        subscription(b"t", version=-1),
        struct.pack(">hi", 0, 1) + b"\0",
        subscription(b"t", user_data=b"\0\0"),
    ],
)
def test_a_subscription_that_ends_too_soon_leaves_the_topics_unknown(data):
    """Kafka catches what ConsumerProtocol throws of a buffer that is too short."""
    coordinator = live(data)
    assert coordinator.describe_group("g").state == "Stable"
    assert coordinator.snapshot("g").subscribed_topics is None
    assert replayed(coordinator) is None


@pytest.mark.parametrize("user_data", [b"\xff\xff\xff\xfe", b"\0\0\0\2ab", b"\0\0\0\0rest"])
@pytest.mark.parametrize("version", [0, 1, 3, 32_767])
def test_whatever_its_version_a_subscription_is_read_as_of_version_0(version, user_data):
    data = subscription(b"t", b"u", version=version, user_data=user_data)
    coordinator = live(data)
    assert coordinator.snapshot("g").subscribed_topics == {"t", "u"}
    assert replayed(coordinator) == ["t", "u"]


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">hi", 0, -1) + b"\xff" * 4,
        struct.pack(">hi", 0, 2**31 - 1) + b"\xff" * 4,
        struct.pack(">hih", 0, 1, -1) + b"\xff" * 4,
        struct.pack(">hih", 0, 1, 9) + b"t",
        subscription(b"t", user_data=b"\0\0\0\3ab"),
    ],
)
def test_of_a_subscription_on_which_kafka_throws_a_replay_knows_no_topics(data):
    assert consumer_topics([data], "range") is None
    coordinator = live(data)
    view = coordinator.snapshot("g")
    assert (view.state, view.generation_id) == ("PreparingRebalance", 1)
