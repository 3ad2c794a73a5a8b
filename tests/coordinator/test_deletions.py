"""What may be deleted of a group in each state, and the tombstones in their order.

Rules: docs/rules/coordinator.md#deletion, docs/rules/consumer-groups.md#administration.
"""

import pytest

from coterie import Batch, Error, GroupCoordinator, OffsetAndMetadata
from coterie.events import ConsumerGroupChange
from coterie.messages import decode_key
from support.coordinator.classic_group import RANGE, join, stable

BEHAVIOURS = pytest.mark.parametrize("behaviour", ["2.4", "3.9", "4.1"])
NONE, NOT_FOUND = Error.NONE, Error.GROUP_ID_NOT_FOUND
NON_EMPTY, SUBSCRIBED = Error.NON_EMPTY_GROUP, Error.GROUP_SUBSCRIBED_TO_TOPIC
SHARE = (b"\0\x0b\0\1g", b"\0\0\0\0\0\1\0")


def made(behaviour="4.1", **options):
    coordinator = GroupCoordinator({"coterie.behaviour": behaviour}, **options)
    if behaviour == "4.1":
        coordinator.set_topics({"t": 2, "u": 2})
    return coordinator


def deleted(coordinator):
    """The errors of an OffsetDelete: its own, of a topic that is read, of another; of a group."""
    answer = coordinator.offset_delete("g", [("t", 0), ("u", 0)])
    rows = {(row.topic, row.partition): row.error for row in answer.partitions}
    group = coordinator.delete_groups(["g"]).groups[0].error
    return answer.error, rows.get(("t", 0)), rows.get(("u", 0)), group


@BEHAVIOURS
def test_a_classic_group_loses_what_its_state_and_type_allow(behaviour):
    coordinator = made(behaviour)
    assert deleted(coordinator) == (NOT_FOUND, None, None, NOT_FOUND)
    coordinator.offset_commit("g", {("t", 0): 5, ("u", 0): 6})
    ended = NONE if behaviour == "4.1" else NOT_FOUND  # before, with the last of its offsets
    assert deleted(coordinator) == (NONE, NONE, NONE, ended)
    (member,) = stable(coordinator)  # it reads topic t
    for topic in "tu":
        coordinator.offset_commit("g", {(topic, 0): 5}, generation_id=1, member_id=member)
    assert deleted(coordinator) == (NONE, SUBSCRIBED, NONE, NON_EMPTY)
    assert [row.topic for row in coordinator.offset_fetch("g").partitions] == ["t"]
    join(coordinator, client_id="b")
    assert coordinator.snapshot("g").state == "PreparingRebalance"
    assert deleted(coordinator) == (NONE, SUBSCRIBED, NONE, NON_EMPTY)
    first = made(behaviour)
    join(first)  # before a first generation nobody knows what is read
    assert deleted(first) == (NONE, SUBSCRIBED, SUBSCRIBED, NON_EMPTY)
    connect = made(behaviour)
    connect.join_group("g", protocol_type="connect", protocols=RANGE, client_id="c")
    assert deleted(connect) == (NON_EMPTY, None, None, NON_EMPTY)


def test_a_consumer_group_loses_what_it_does_not_read_and_goes_without_members():
    coordinator = made()
    coordinator.consumer_group_heartbeat(
        "g", "a", 0, rebalance_timeout_ms=5, subscribed_topic_names=["t"], topic_partitions=[]
    )
    for topic in "tu":
        coordinator.offset_commit("g", {(topic, 0): 5}, generation_id=1, member_id="a")
    assert deleted(coordinator) == (NONE, SUBSCRIBED, NONE, NON_EMPTY)
    assert [row.topic for row in coordinator.offset_fetch("g").partitions] == ["t"]
    coordinator.consumer_group_heartbeat("g", "a", -1)
    assert deleted(coordinator) == (NONE, NONE, NONE, NONE)
    assert coordinator.snapshot("g") is None


def test_a_share_group_is_no_group_to_these_requests():
    """ShareGroup.validateOffsetDelete throws a GroupIdNotFoundException."""
    coordinator = made(log=[Batch(0, records=(SHARE,))])
    assert deleted(coordinator) == (NOT_FOUND, None, None, NOT_FOUND)
    coordinator.cleanup()
    assert [row.type for row in coordinator.list_groups().groups] == ["share"]


def tombstones(coordinator):
    """Group, topic and partition, or the version of the key, of each record of the last batch."""
    for raw, value in coordinator.log[-1].records:
        assert value is None
        key = decode_key(raw)
        version, data = key["version"], key["data"]
        yield data["group"], (data["topic"], data["partition"]) if version < 2 else version


PLACES = [("\uff5e", 0), ("b", 10), ("b", 2), ("\U0001f600", 0), ("a", 1)]
ORDERED = [("a", 1), ("b", 2), ("b", 10), ("\U0001f600", 0), ("\uff5e", 0)]  # UTF-16 units


def filled(*groups):
    coordinator = made()
    for group_id in groups:
        coordinator.offset_commit(group_id, {place: 5 for place in PLACES[:4]})
        coordinator.txn_offset_commit(
            group_id, {place: 6 for place in PLACES[3:]}, producer_id=7, producer_epoch=0
        )
    return coordinator


def test_tombstones_of_a_request_are_one_batch_in_order_and_each_key_comes_once():
    coordinator = filled("h", "g")
    coordinator.delete_groups(["h", "g", "h", "none"])
    committed, undecided = ORDERED[1:], ORDERED[:1]
    assert [*tombstones(coordinator)] == [
        (group, place) for group in "gh" for place in [*committed, *undecided, 2]
    ]


def test_deleted_partitions_go_from_every_group_in_one_batch():
    coordinator = filled("h", "g", "other")
    coordinator.offset_delete("other", PLACES[:4])
    count = len(coordinator.log)
    coordinator.delete_partitions([("b", 10), ("a", 1), ("\uff5e", 0), ("c", 0)])
    assert len(coordinator.log) == count + 1
    rows = [("b", 10), ("\uff5e", 0), ("a", 1)]
    assert [*tombstones(coordinator)] == [
        *(("g", place) for place in rows), *(("h", place) for place in rows), ("other", ("a", 1)),
    ]  # fmt: skip
    left = {(row.topic, row.partition) for row in coordinator.offset_fetch("g").partitions}
    assert left == {("b", 2), ("\U0001f600", 0)}
    coordinator.delete_partitions([("c", 0)])
    assert len(coordinator.log) == count + 1


def test_each_group_that_a_request_changes_is_shown_once_in_the_order_of_ids():
    coordinator = made()
    for group_id in "cab":
        for epoch in (0, -1):
            coordinator.consumer_group_heartbeat(
                group_id, "m", epoch, rebalance_timeout_ms=5, subscribed_topic_names=["t"],
                topic_partitions=[],
            )  # fmt: skip
    coordinator.take_events()
    coordinator.delete_groups(["c", "b", "a"])
    changes = [e for e in coordinator.take_events() if isinstance(e, ConsumerGroupChange)]
    assert [(change.group_id, change.type) for change in changes] == [
        ("a", "none"), ("b", "none"), ("c", "none"),
    ]  # fmt: skip


@pytest.mark.parametrize(("behaviour", "due_ms"), [
    ("3.9", [7_001 * 10, 7_001 * 11]), ("4.1", [49_000 + 7_001 * 3, 49_000 + 7_001 * 4]),
])  # fmt: skip
def test_the_clean_up_comes_round_and_since_kafka_4_so_long_after_the_last_one(behaviour, due_ms):
    coordinator = GroupCoordinator(
        {"coterie.behaviour": behaviour, "offsets.retention.minutes": 1,
         "offsets.retention.check.interval.ms": 7_001, "coterie.cleanup": "periodic"}
    )  # fmt: skip
    coordinator.advance(49_000)
    if behaviour == "4.1":
        coordinator.cleanup()
    coordinator.resign()  # an election begins the rhythm anew since Kafka 4
    coordinator.begin_load()
    coordinator.finish_load()
    for at_ms in (10_000, 17_000):  # commits that expire one interval after the other
        position = OffsetAndMetadata(5, commit_timestamp=at_ms)
        coordinator.offset_commit("g", {("t", at_ms): position})
    for each_ms in due_ms:
        count = len(coordinator.log)
        coordinator.advance(each_ms - 1)
        assert len(coordinator.log) == count
        coordinator.advance_by(1)
        assert len(coordinator.log) == count + 1
    assert coordinator.snapshot("g") is None


@BEHAVIOURS
@pytest.mark.parametrize("committed", [True, False])
def test_a_deleted_group_takes_its_undecided_offsets_along(behaviour, committed):
    coordinator = made(behaviour)
    if committed:
        coordinator.offset_commit("g", {("t", 0): 5})
    coordinator.txn_offset_commit("g", {("t", 1): 6}, producer_id=7, producer_epoch=0)
    assert coordinator.delete_groups(["g"]).groups[0].error is NONE
    assert coordinator.snapshot("g") is None
    coordinator.end_txn(7, committed=True)
    assert coordinator.snapshot("g") is None
    assert coordinator.offset_fetch("g").partitions == ()


def test_an_offset_that_is_not_there_is_deleted_without_a_record_but_an_undecided_one_with_one():
    coordinator = made()
    coordinator.offset_commit("g", {("t", 0): 5})
    coordinator.txn_offset_commit("g", {("t", 1): 6}, producer_id=7, producer_epoch=0)
    count = len(coordinator.log)
    answer = coordinator.offset_delete("g", [("u", 0), ("t", 2)])
    assert (answer.error, {row.error for row in answer.partitions}) == (NONE, {NONE})
    assert len(coordinator.log) == count
    coordinator.offset_delete("g", [("u", 0), ("t", 1), ("t", 2)])
    assert [*tombstones(coordinator)] == [("g", ("t", 1))]
    coordinator.end_txn(7, committed=True)
    assert [row.partition for row in coordinator.offset_fetch("g").partitions] == [0]
