"""What a load makes of groups whose log has lost records to compaction, or has had other types."""

import pytest

from coterie import Batch, Error, GroupCoordinator
from coterie.messages import decode_value, encode_key, encode_value
from support.coordinator.classic_group import RANGE

CONFIG = {"coterie.behaviour": "4.1", "group.initial.rebalance.delay.ms": 0}
CLASSIC_GROUP, SHARE_GROUP = b"\0\2", b"\0\13"  # versions of keys


def made(log=()):
    coordinator = GroupCoordinator(CONFIG, log=log)
    coordinator.set_topics({"t": 3})
    return coordinator


def beat(coordinator, group_id="g", member_id="m", **fields):
    return coordinator.consumer_group_heartbeat(
        group_id, member_id, 0, rebalance_timeout_ms=20_000, subscribed_topic_names=["t"],
        topic_partitions=[], **fields,
    )  # fmt: skip


def without(log, prefix):
    """A log without the records of a kind, as after compaction."""
    for batch in log:
        kept = tuple(row for row in batch.records if row[0][:2] != prefix)
        yield Batch(batch.base_offset, records=kept)


def types(coordinator):
    return {row.group_id: row.type for row in coordinator.list_groups().groups}


def test_a_group_that_had_only_offsets_is_the_consumer_group_that_it_became():
    first = made()
    first.offset_commit("g", {("t", 0): 5, ("t", 1): 6})
    beat(first)
    coordinator = made(without(first.log, CLASSIC_GROUP))
    assert coordinator.load_error is None
    assert types(coordinator) == {"g": "consumer"}
    assert coordinator.consumer_group_describe(["g"]) == first.consumer_group_describe(["g"])
    assert coordinator.offset_fetch("g")["t", 1].offset == 6


def test_offsets_alone_make_a_classic_group():
    first = made()
    first.offset_commit("g", {("t", 0): 5})
    coordinator = made(first.log)
    assert types(coordinator) == {"g": "classic"}
    assert coordinator.describe_group("g").state == "Empty"


@pytest.mark.parametrize("value", ["a group", None])
def test_a_record_of_a_classic_group_takes_the_place_of_any_group_of_its_id(value):
    """GroupMetadataManager.replay(GroupMetadataKey, ...) puts or removes whatever was there."""
    share = (SHARE_GROUP + b"\0\1g", b"\0\0\0\0\0\1\0")
    key = encode_key({"version": 2, "data": {"group": "g"}})
    data = {"protocolType": "consumer", "generation": 3, "protocol": None, "leader": None,
            "currentStateTimestamp": 7, "members": []}  # fmt: skip
    raw = None if value is None else encode_value(2, {"version": 3, "data": data})
    coordinator = made([Batch(0, records=(share,))])
    assert types(coordinator) == {"g": "share"}
    coordinator = made([Batch(0, records=(share, (key, raw)))])
    assert coordinator.load_error is None
    assert types(coordinator) == ({} if value is None else {"g": "classic"})


def test_texts_of_any_script_come_back_from_the_log():
    first = made()
    fields = {"instance_id": "instänce", "rack_id": "räck", "client_id": "cliënt \U0001f600",
              "client_host": "/höst"}  # fmt: skip
    assert beat(first, "grüppe", "mémber", **fields).error is Error.NONE
    (group,) = first.consumer_group_describe(["grüppe"]).groups
    (member,) = group.members
    assert (member.instance_id, member.rack_id, member.client_id, member.client_host) == tuple(
        fields.values()
    )
    again = made(first.log).consumer_group_describe(["grüppe"]).groups
    assert again == (group,)


@pytest.mark.parametrize("session_ms", [1, 7_001, 2**31 - 1])
def test_a_classic_member_of_a_log_keeps_its_timeouts_in_a_consumer_group(session_ms):
    """Also one that no coordinator takes today: the limits are settings."""
    member = {"memberId": "a", "groupInstanceId": None, "clientId": "c", "clientHost": "/h",
              "rebalanceTimeout": 8_003, "sessionTimeout": session_ms,
              "subscription": RANGE["range"], "assignment": b""}  # fmt: skip
    data = {"protocolType": "consumer", "generation": 4, "protocol": "range", "leader": "a",
            "currentStateTimestamp": 3, "members": [member]}  # fmt: skip
    key = encode_key({"version": 2, "data": {"group": "g"}})
    coordinator = made([Batch(0, records=((key, encode_value(2, {"version": 3, "data": data})),))])
    assert beat(coordinator).error is Error.NONE
    wanted = encode_key({"version": 5, "data": {"groupId": "g", "memberId": "a"}})
    upgraded = next(
        decode_value(5, value)["data"]
        for batch in coordinator.log for key, value in batch.records
        if key == wanted
    )  # fmt: skip
    assert upgraded["rebalanceTimeoutMs"] == 8_003
    assert upgraded["classicMemberMetadata"]["sessionTimeoutMs"] == session_ms


@pytest.mark.parametrize(("epoch", "member", "kind"), [(11, 10, "share"), (17, 19, "streams")])
def test_a_group_of_another_type_goes_with_its_epoch_or_its_partition(epoch, member, kind):
    """GroupMetadataManager.replay(ShareGroupMetadataKey, ...) and that of streams groups."""

    def key(version, name="g"):
        return version.to_bytes(2, "big") + b"\0\1" + name.encode()

    value = b"\0\0\0\0\0\1\0"
    there = ((key(epoch), value), (key(epoch, "h"), value), (key(member, "h"), value))
    for tombstones, left in [((), "gh"), ((member,), "gh"), ((epoch,), "g"),
                             ((epoch, epoch), "g")]:  # fmt: skip
        gone = tuple((key(version, "h"), None) for version in tombstones)
        coordinator = made([Batch(0, records=(*there, *gone))])
        assert types(coordinator) == dict.fromkeys(left, kind)
    coordinator.resign()
    assert types(coordinator) == {}
    coordinator.begin_load()
    coordinator.finish_load()
    assert types(coordinator) == {"g": kind}
    coordinator.handle({"op": "append_raw", "key": key(epoch), "value": None})
    coordinator.failover()
    assert types(coordinator) == {}
