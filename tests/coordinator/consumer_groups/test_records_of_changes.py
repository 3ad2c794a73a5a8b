"""Records of a consumer group whose members change in several ways at once."""

import pytest

from coterie import GroupCoordinator
from coterie.messages import decode_key, decode_value
from support.coordinator.classic_group import join

GROUP_EPOCH, MEMBER, TARGET, CURRENT = 3, 5, 7, 8  # versions of keys
TOPICS = {"t": 3, "u": 5, "v": 7}


def made(behaviour="4.1"):
    coordinator = GroupCoordinator({"coterie.behaviour": behaviour})
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


@pytest.mark.parametrize("behaviour", ["4.1", "4.1.2", "4.2"])
@pytest.mark.parametrize("others", [[], ["t"], ["u"], ["v"], ["t", "v"]])
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
    coordinator = made()
    beat(coordinator, "z", subscribed_topic_names=["t"], instance_id="i")
    for member_id in ("b", "c", "Y"):
        join(coordinator, member_id)
    renamed = join(coordinator, group_instance_id="i").response.member_id
    assert renamed < "Y"  # "z" would come last
    assert [row.type for row in coordinator.list_groups().groups] == ["classic"]
    gone = [(version, key["memberId"]) for version, key, value in records(coordinator)
            if value is None and "memberId" in key and key["memberId"] != "z"]  # fmt: skip
    expected = [renamed, "Y", "b", "c"]
    for kind in (CURRENT, TARGET, MEMBER):
        assert [name for version, name in gone if version == kind] == expected
