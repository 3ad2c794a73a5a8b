"""Records of a consumer group whose members change in several ways at once."""

import pytest

from coterie import Error, GroupCoordinator
from coterie.messages import decode_key, decode_value
from support.coordinator.classic_group import RANGE, join

CLASSIC_GROUP, GROUP_EPOCH, MEMBER, TARGET, CURRENT, REGEX = 2, 3, 5, 7, 8, 16  # versions of keys
TOPICS = {"t": 3, "u": 5, "v": 7}


def made(behaviour="4.1", now_ms=0):
    coordinator = GroupCoordinator({"coterie.behaviour": behaviour}, now_ms=now_ms)
    coordinator.set_topics(TOPICS)
    return coordinator


def beat(coordinator, member_id, epoch=0, **fields):
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 20_000, "topic_partitions": []} | fields
    return coordinator.consumer_group_heartbeat("g", member_id, epoch, **fields)


def records(coordinator):
    """Key and value of each record since the last append; None: a tombstone."""
    for key, raw in coordinator.log[-1].records:
        read = decode_key(key)
        value = None if raw is None else decode_value(read["version"], raw)["data"]
        yield read["version"], read["data"], value


def hash_of(coordinator):
    (value,) = [value for version, _, value in records(coordinator) if version == GROUP_EPOCH]
    return value["metadataHash"]


def hash_of_readers_of(names, behaviour):
    coordinator = made(behaviour)
    beat(coordinator, "m", subscribed_topic_names=names)
    return hash_of(coordinator)


@pytest.mark.parametrize("behaviour", ["4.1", "4.1.2", "4.2", "4.4"])
@pytest.mark.parametrize("others", [[], ["t"], ["u"], ["v"], ["t", "v"], ["u", "t"]])
@pytest.mark.parametrize("now", [["u"], ["t"], ["t", "u"], ["v"]])
def test_the_metadata_hash_is_of_what_is_read_after_names_and_expression_have_changed(
    behaviour, others, now
):
    pytest.importorskip("re2")
    pytest.importorskip("xxhash")
    coordinator = made(behaviour)
    if others:
        beat(coordinator, "other", subscribed_topic_names=others)
    fields = {"subscribed_topic_names": ["t", "u"], "subscribed_topic_regex": "t|v"}
    joined = beat(coordinator, "m", **fields)
    coordinator.advance_by(1000)
    joined = beat(coordinator, "m", joined.member_epoch)  # the expression is resolved by now
    before = hash_of_readers_of(["t", "u", "v"], behaviour)
    fields = {"subscribed_topic_names": now, "subscribed_topic_regex": ""}
    if now == ["t", "u"]:  # only the expression goes: the names do not ask for a new epoch
        fields["subscribed_topic_names"] = ["u", "t", "absent"]
    beat(coordinator, "m", joined.member_epoch, **fields)
    expected = hash_of_readers_of(sorted({*now, *others}), behaviour)
    assert hash_of(coordinator) == expected
    assert (expected == before) == ({*now, *others} == {*TOPICS})


def test_a_group_that_a_renamed_member_turns_classic_ends_in_the_order_of_the_new_ids():
    coordinator = made(now_ms=123_456)
    beat(coordinator, "z", subscribed_topic_names=["t"], instance_id="i")
    for member_id in ("b", "c", "Y"):
        join(coordinator, member_id)
    renamed = join(coordinator, group_instance_id="i").response.member_id
    assert renamed < "Y"  # "z" would come last
    (classic,) = [value for version, _, value in records(coordinator) if version == CLASSIC_GROUP]
    assert classic["currentStateTimestamp"] == coordinator.now_ms == 123_456
    assert [row.type for row in coordinator.list_groups().groups] == ["classic"]
    gone = [(version, key["memberId"]) for version, key, value in records(coordinator)
            if value is None and "memberId" in key and key["memberId"] != "z"]  # fmt: skip
    expected = [renamed, "Y", "b", "c"]
    for kind in (CURRENT, TARGET, MEMBER):
        assert [name for version, name in gone if version == kind] == expected


def test_timeouts_and_times_are_the_same_in_both_types_of_group():
    """ConsumerGroup.fromClassicGroup and ClassicGroup.fromConsumerGroup."""
    coordinator = made(now_ms=123_456)
    fields = {"session_timeout_ms": 17_003, "rebalance_timeout_ms": 41_009}
    pending = join(coordinator, **fields)
    member_id = coordinator.run_until(pending, limit_ms=600_000).member_id
    coordinator.sync_group("g", 1, member_id, assignments={})
    beat(coordinator, "new", subscribed_topic_names=["t"])
    rows = {key["memberId"]: value for version, key, value in records(coordinator)
            if version == MEMBER}  # fmt: skip
    classic = rows[member_id]["classicMemberMetadata"]
    assert classic["sessionTimeoutMs"] == 17_003
    assert (rows[member_id]["rebalanceTimeoutMs"], rows["new"]["rebalanceTimeoutMs"]) == (
        41_009, 20_000)  # fmt: skip
    coordinator.advance_by(1_777)
    beat(coordinator, "new", -1)
    (group,) = [value for batch in coordinator.log for raw, data in batch.records
                if decode_key(raw)["version"] == CLASSIC_GROUP and data is not None
                for value in [decode_value(CLASSIC_GROUP, data)["data"]]][-1:]  # fmt: skip
    assert group["currentStateTimestamp"] == coordinator.now_ms
    (member,) = group["members"]
    assert (member["memberId"], member["sessionTimeout"], member["rebalanceTimeout"]) == (
        member_id, 17_003, 41_009)  # fmt: skip


@pytest.mark.parametrize(("behaviour", "regex"), [("4.1", "t|v"), ("4.1.2", ""), ("4.2", "")])
def test_a_member_that_becomes_a_classic_one_drops_its_expression_since_4_1_2(behaviour, regex):
    pytest.importorskip("re2")
    coordinator = made(behaviour)
    fields = {"subscribed_topic_names": ["u"], "subscribed_topic_regex": "t|v"}
    beat(coordinator, "m", **fields)
    beat(coordinator, "n", subscribed_topic_names=["t"])
    join(coordinator, "m")
    written = list(records(coordinator))
    (member,) = [value for version, _, value in written if version == MEMBER]
    assert (member["subscribedTopicRegex"], member["subscribedTopicNames"]) == (regex, ["t"])
    dropped = [(key["regularExpression"], value) for version, key, value in written
               if version == REGEX]  # fmt: skip
    assert dropped == ([] if regex else [("t|v", None)])


def test_a_classic_member_of_a_consumer_group_leaves_by_its_id_or_by_its_instance():
    coordinator = made()
    beat(coordinator, "first", subscribed_topic_names=["t"])
    _, b, c, d = (
        join(coordinator, group_instance_id=f"instance-{name}").response.member_id
        for name in ("a", "b", "c", "d")
    )
    leaving = [("", "instance-a"), (b, "instance-b"), (c, "instance-d"), ("x", None), (c, None),
               ("", "instance-x")]  # fmt: skip
    answer = coordinator.leave_group("g", leaving)
    assert answer.error is Error.NONE
    assert [(each.member_id, each.group_instance_id, each.error) for each in answer.members] == [
        ("", "instance-a", Error.NONE),
        (b, "instance-b", Error.NONE),
        (c, "instance-d", Error.FENCED_INSTANCE_ID),
        ("x", None, Error.UNKNOWN_MEMBER_ID),
        (c, None, Error.NONE),
        ("", "instance-x", Error.UNKNOWN_MEMBER_ID),
    ]
    (group,) = coordinator.consumer_group_describe(["g"]).groups
    assert [member.member_id for member in group.members] == [d, "first"]


@pytest.mark.parametrize("protocol_type", ["consumer", "connect"])
def test_only_a_classic_group_of_consumers_becomes_a_consumer_group(protocol_type):
    coordinator = made()
    pending = coordinator.join_group("g", protocol_type=protocol_type, protocols=RANGE,
                                     client_id="c")  # fmt: skip
    member_id = coordinator.run_until(pending, limit_ms=60_000).member_id
    coordinator.sync_group("g", 1, member_id, assignments={})
    answer = beat(coordinator, "m", subscribed_topic_names=["t"])
    (group,) = coordinator.list_groups().groups
    if protocol_type == "consumer":
        assert (answer.error, group.type) == (Error.NONE, "consumer")
    else:
        assert (answer.error, group.type) == (Error.GROUP_ID_NOT_FOUND, "classic")


def test_an_expression_is_resolved_again_once_the_interval_has_passed():
    pytest.importorskip("re2")
    start_ms, interval_ms = 5_000_017, 60_000
    coordinator = GroupCoordinator(
        {"coterie.behaviour": "4.1", "group.consumer.regex.refresh.interval.ms": interval_ms},
        now_ms=start_ms,
    )
    coordinator.set_topics(TOPICS)
    epoch = beat(coordinator, "m", subscribed_topic_regex="t|v").member_epoch
    for after_ms in (10_001, 40_000, interval_ms, interval_ms + 1):
        coordinator.advance(start_ms + after_ms)
        before = len(coordinator.log)
        epoch = beat(coordinator, "m", epoch).member_epoch
        resolved = [value["timestamp"] for batch in coordinator.log[before:]
                    for key, raw in batch.records if decode_key(key)["version"] == REGEX
                    for value in [decode_value(REGEX, raw)["data"]]]  # fmt: skip
        assert resolved == ([coordinator.now_ms] if after_ms > interval_ms else [])


@pytest.mark.parametrize(("behaviour", "resolves"), [("4.1", False), ("4.1.2", True)])
def test_the_join_of_a_classic_member_resolves_expressions_since_4_1_2(behaviour, resolves):
    """There is a new topic, and more than ten seconds have passed."""
    pytest.importorskip("re2")
    coordinator = made(behaviour)
    epoch = beat(coordinator, "m", subscribed_topic_regex="t|w").member_epoch
    coordinator.set_topics(TOPICS | {"w": 1})
    coordinator.advance_by(10_001)

    def resolved_by(step):
        before = len(coordinator.log)
        step()
        return [decode_value(REGEX, raw)["data"]["topics"] for batch in coordinator.log[before:]
                for key, raw in batch.records if decode_key(key)["version"] == REGEX]  # fmt: skip

    of_join = resolved_by(lambda: join(coordinator))
    of_heartbeat = resolved_by(lambda: beat(coordinator, "m", epoch))
    expected = [["t", "w"]], []
    assert (of_join, of_heartbeat) == (expected if resolves else expected[::-1])
