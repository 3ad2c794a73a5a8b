"""Members that leave together, change their protocol, or wait for partitions of several owners.

Rules: docs/rules/consumer-groups.md#heartbeats, #classic-members and #conversion.
"""

import pytest

from coterie import Error, GroupCoordinator
from coterie.messages import decode_key, decode_value
from coterie.testing import subscription
from support.coordinator.classic_group import join

GROUP_EPOCH, MEMBER, TARGET, REGEX = 3, 5, 7, 16  # versions of keys
TOPICS = {"t": 4, "u": 2, "v": 3}
REBALANCING, NONE = Error.REBALANCE_IN_PROGRESS, Error.NONE


def made(**config):
    coordinator = GroupCoordinator({"coterie.behaviour": "4.1"} | config)
    coordinator.set_topics(TOPICS)
    return coordinator


def beat(coordinator, member_id="a", epoch=0, **fields):
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"],
                  "topic_partitions": []} | fields  # fmt: skip
    return coordinator.consumer_group_heartbeat("g", member_id, epoch, **fields)


def epochs(coordinator):
    (group,) = coordinator.consumer_group_describe(["g"]).groups
    return {member.member_id: member.member_epoch for member in group.members}


def records(coordinator, version, since=-1):
    """Name and value of each record of a kind; None: a tombstone."""
    for batch in coordinator.log[since:]:
        for raw, value in batch.records:
            key = decode_key(raw)
            if key["version"] == version:
                data = key["data"]
                name = data.get("memberId", data.get("regularExpression"))
                yield name, None if value is None else decode_value(version, value)["data"]


def hash_of(coordinator):
    ((_, value),) = records(coordinator, GROUP_EPOCH)
    return value["metadataHash"]


def hash_of_readers_of(*names):
    coordinator = made()
    beat(coordinator, "m", subscribed_topic_names=names)
    return hash_of(coordinator)


def test_an_instance_id_of_before_stays_taken_by_a_member_that_has_gone():
    """ConsumerGroup.staticMember: the id leads to no member."""
    coordinator = made()
    beat(coordinator, "rest")
    beat(coordinator, "a", instance_id="old")
    beat(coordinator, "a", 0, instance_id="new")
    beat(coordinator, "a", -1, instance_id="new")
    refused = [
        *(beat(coordinator, "a", epoch, instance_id="old").error for epoch in (0, 1, -1, -2)),
        *(
            join(coordinator, member, group_instance_id="old").response.error
            for member in ("", "a")
        ),
        coordinator.sync_group("g", 1, "a", group_instance_id="old").response.error,
        coordinator.heartbeat("g", 1, "a", group_instance_id="old").error,
        coordinator.leave_group("g", [("a", "old")]).members[0].error,
    ]
    assert set(refused) == {Error.UNKNOWN_MEMBER_ID}


def test_a_static_member_without_a_target_gets_one_when_it_comes_back():
    """TargetAssignmentBuilder: a target that was never written differs from an empty one."""
    coordinator = made()
    beat(coordinator, "rest", subscribed_topic_names=[])
    beat(coordinator, "a", instance_id="i", subscribed_topic_names=[])
    beat(coordinator, "a", -2, instance_id="i")
    beat(coordinator, "a", instance_id="i", subscribed_topic_names=["unknown"])
    targets = list(records(coordinator, TARGET))
    of_a = [value for name, value in targets if name == "a"]
    assert of_a == [None, {"topicPartitions": []}, {"topicPartitions": []}]


# ---- leaving ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("leaving", "left"), [
    ("b", "tuv"), ("bc", "tv"), ("bd", "tu"), ("bcd", "t"), ("d", "tu"), ("acd", "u"), ("a", "uv"),
])  # fmt: skip
def test_the_hash_after_members_left_together_is_of_what_the_others_read(leaving, left):
    pytest.importorskip("xxhash")
    coordinator = made(**{"group.consumer.migration.policy": "disabled"})
    for member_id, names in {"a": "t", "b": "u", "c": "u", "d": "v"}.items():
        beat(coordinator, member_id, subscribed_topic_names=[names])
    coordinator.leave_group("g", [*leaving])
    assert hash_of(coordinator) == hash_of_readers_of(*left)


@pytest.mark.parametrize(("leaving", "lost", "left"), [
    ("b", [], "tuv"), ("bc", ["u"], "tuv"), ("bcd", ["u", "u|v"], "t"), ("d", ["u|v"], "tu"),
])  # fmt: skip
def test_an_expression_ends_with_the_last_of_those_that_leave_together(leaving, lost, left):
    pytest.importorskip("re2")
    pytest.importorskip("xxhash")
    coordinator = made()
    beat(coordinator)
    for member_id, regex in {"b": "u", "c": "u", "d": "u|v"}.items():
        beat(coordinator, member_id, subscribed_topic_names=[], subscribed_topic_regex=regex)
        coordinator.advance_by(10_001)  # so that each is resolved
        beat(coordinator, member_id, epochs(coordinator)[member_id], topic_partitions=[])
    coordinator.leave_group("g", [*leaving])
    assert list(records(coordinator, REGEX)) == [(regex, None) for regex in lost]
    assert hash_of(coordinator) == hash_of_readers_of(*left)


# ---- protocols --------------------------------------------------------------------------------


def settled(coordinator, *ids):
    """Let each member do what it has to, until all have what they shall have."""
    for _ in range(4):
        for member_id in ids:
            beat(coordinator, member_id, epochs(coordinator)[member_id], topic_partitions=[])


def test_a_heartbeat_of_the_consumer_protocol_alone_makes_a_classic_member_one_of_it():
    coordinator = made()
    beat(coordinator)
    fields = {"client_id": "c", "client_host": "/h"}
    classic = join(coordinator, **fields).response.member_id
    settled(coordinator, "a")
    join(coordinator, classic, **fields)
    epoch = epochs(coordinator)[classic]
    assert {*epochs(coordinator).values()} == {epoch}
    count = len(coordinator.log)
    assert beat(coordinator, "a", epoch, client_host="/127.0.0.1").error is NONE
    for _ in range(2):  # the second one says nothing new
        assert beat(coordinator, classic, epoch, **fields).member_epoch == epoch
    ((name, value),) = records(coordinator, MEMBER, count)
    assert (name, value["classicMemberMetadata"]) == (classic, None)
    assert value["subscribedTopicNames"] == ["t"]
    assert coordinator.heartbeat("g", epoch, classic).error is Error.UNKNOWN_MEMBER_ID


def test_an_upgraded_group_has_the_racks_and_reads_the_topics_of_all_its_members():
    pytest.importorskip("xxhash")
    coordinator = made()
    of = {"a": subscription(["u", "t"], 3, rack_id="ra"),
          "b": subscription(["v"], 3, rack_id="rb"), "c": subscription(["v", "x"])}  # fmt: skip
    joins = {client: join(coordinator, client_id=client, protocols={"range": metadata})
             for client, metadata in of.items()}  # fmt: skip
    ids = {client: coordinator.run_until(j, limit_ms=9_000).member_id
           for client, j in joins.items()}  # fmt: skip
    for member_id in ids.values():
        coordinator.sync_group("g", 1, member_id, assignments={})
    before = len(coordinator.log)
    assert beat(coordinator, "new", server_assignor="range").error is NONE
    rows = {name: (value["rackId"], value["subscribedTopicNames"])
            for name, value in records(coordinator, MEMBER, before) if value}  # fmt: skip
    assert rows == {ids["a"]: ("ra", ["t", "u"]), ids["b"]: ("rb", ["v"]),
                    ids["c"]: (None, ["v", "x"]), "new": (None, ["t"])}  # fmt: skip
    hashes = [value["metadataHash"] for _, value in records(coordinator, GROUP_EPOCH, before)]
    assert set(hashes) == {hash_of_readers_of("t", "u", "v")}


# ---- waiting ----------------------------------------------------------------------------------


def test_a_classic_member_joins_again_only_once_all_that_it_waits_for_is_free():
    coordinator = made()
    coordinator.set_topics({"t": 6})
    beat(coordinator, "a")
    beat(coordinator, "b")
    settled(coordinator, "a", "b")
    member = join(coordinator).response
    coordinator.sync_group("g", member.generation_id, member.member_id)

    def answer():
        return coordinator.heartbeat("g", member.generation_id, member.member_id).error

    for name in "ab":  # each hears that it shall give up one
        beat(coordinator, name, epochs(coordinator)[name])
    assert answer() is NONE
    beat(coordinator, "a", epochs(coordinator)["a"], topic_partitions=[])
    assert answer() is NONE  # the other one is not free yet
    again = join(coordinator, member.member_id).response
    assert again.generation_id == member.generation_id
    coordinator.sync_group("g", member.generation_id, member.member_id)
    assert answer() is NONE  # what it has by now is no obstacle, nor what it waits for alone
    beat(coordinator, "b", epochs(coordinator)["b"], topic_partitions=[])
    assert answer() is REBALANCING
