"""A group that has ended leaves nothing behind: nobody has its names once its events are taken.

The references to a name are counted (``sys.getrefcount``), so every list, cache and look-up that
still has it shows.
"""

import gc
import sys

import pytest

from coterie import GroupCoordinator
from support.coordinator.classic_group import RANGE

BEHAVIOURS = ["2.4", "3.9", "4.1"]


class Nowhere:
    """A log that keeps nothing of what is written."""

    end, later = 0, False

    def append(self, batch):
        if self.later:
            return None
        self.end += len(batch.records)
        return self.end - len(batch.records)

    def read(self):
        return ()


def made(behaviour, **options):
    options = {"log_sink": Nowhere()} | options
    coordinator = GroupCoordinator({"coterie.behaviour": behaviour}, **options)
    if behaviour >= "4":
        coordinator.set_topics({"t": 1})
    return coordinator


def names(*texts):
    """Texts as objects that nothing else has."""
    return ["".join([text, "1"]) for text in texts]


def held(coordinator, *texts):
    """References to each text, once all that has happened is past."""
    coordinator.advance_by(600_000)
    coordinator.offset_commit("last", {("topic1", 0): 1, ("topic1", 1): 1})
    coordinator.take_events()
    return [sys.getrefcount(text) for text in texts]


def join(coordinator, group, member="", **fields):
    coordinator.join_group(
        group, member, session_timeout_ms=10_000, protocol_type="consumer", protocols=RANGE,
        **fields,
    )  # fmt: skip


def commit(coordinator, group, topic, **member):
    coordinator.offset_commit(group, {(topic, 0): 5}, **member)
    coordinator.txn_offset_commit(group, {(topic, 1): 5}, producer_id=7, producer_epoch=0)
    coordinator.end_txn(7, committed=True)


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_a_classic_group_leaves_nothing_behind(behaviour, static, leaves):
    group, member, topic, instance = names("group", "member", "topic", "instance")
    coordinator = made(behaviour, member_ids=lambda prefix: member)
    before = held(coordinator, group, member, topic, instance)
    if static:
        join(coordinator, group, group_instance_id=instance)
    else:
        join(coordinator, group, require_known_member_id=True)
        join(coordinator, group, member)
    coordinator.advance_by(5_000)
    coordinator.sync_group(group, 1, member, assignments={member: b"plan"})
    commit(coordinator, group, topic, generation_id=1, member_id=member)
    assert coordinator.snapshot(group).state == "Stable"
    if leaves:
        coordinator.leave_group(group, [member])
    coordinator.advance_by(60_000)
    coordinator.delete_groups([group])
    assert held(coordinator, group, member, topic, instance) == before


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_an_id_that_nobody_uses_leaves_nothing_behind(behaviour):
    group, member = names("group", "member")
    coordinator = made(behaviour, member_ids=lambda prefix: member)
    before = held(coordinator, group, member)
    join(coordinator, group, require_known_member_id=True)
    coordinator.advance_by(60_000)
    coordinator.delete_groups([group])
    assert held(coordinator, group, member) == before


@pytest.mark.parametrize("subscription", [
    {"subscribed_topic_names": ["t"]}, {"subscribed_topic_regex": "t.*"},
])  # fmt: skip
@pytest.mark.parametrize("leaves", [True, False])
def test_a_consumer_group_leaves_nothing_behind(leaves, subscription):
    group, member, topic, instance = names("group", "member", "topic", "instance")
    coordinator = made("4.1")
    before = held(coordinator, group, member, topic, instance)
    coordinator.consumer_group_heartbeat(
        group, member, 0, rebalance_timeout_ms=20_000, topic_partitions=[], instance_id=instance,
        **subscription,
    )  # fmt: skip
    commit(coordinator, group, topic, generation_id=1, member_id=member)
    if leaves:
        coordinator.consumer_group_heartbeat(group, member, -1, instance_id=instance)
    coordinator.advance_by(100_000)
    coordinator.delete_groups([group])
    assert held(coordinator, group, member, topic, instance) == before


@pytest.mark.parametrize("state", ["Empty", "PreparingRebalance", "CompletingRebalance"])
@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_a_group_of_a_partition_that_was_given_up_leaves_nothing_behind(behaviour, state):
    group, member, topic = names("group", "member", "topic")
    coordinator = made(behaviour, member_ids=lambda prefix: member)
    before = held(coordinator, group, member, topic)
    join(coordinator, group, require_known_member_id=state == "Empty")
    if state == "CompletingRebalance":
        coordinator.advance_by(5_000)
    assert coordinator.snapshot(group).state == state
    coordinator.txn_offset_commit(group, {(topic, 1): 5}, producer_id=7, producer_epoch=0)
    coordinator.offset_commit("another", {(topic, 0): 5})
    coordinator.failover()
    assert held(coordinator, group, member, topic) == before


def test_a_consumer_group_of_a_partition_that_was_given_up_leaves_nothing_behind():
    group, member, topic = names("group", "member", "topic")
    coordinator = made("4.1")
    before = held(coordinator, group, member, topic)
    coordinator.consumer_group_heartbeat(
        group, member, 0, rebalance_timeout_ms=20_000, topic_partitions=[],
        subscribed_topic_names=["t"],
    )  # fmt: skip
    coordinator.txn_offset_commit(group, {(topic, 1): 5}, producer_id=7, producer_epoch=0)
    coordinator.failover()
    assert held(coordinator, group, member, topic) == before


def test_a_consumer_group_whose_writes_finish_later_leaves_nothing_behind():
    group, member = names("group", "member")
    log = Nowhere()
    coordinator = made("4.1", log_sink=log)
    log.later = True

    def complete():
        while coordinator.appends:
            log.end += 10
            coordinator.appends[0].complete(base_offset=log.end)

    def after():
        coordinator.offset_commit("last", {("topic1", 0): 1})
        complete()
        coordinator.advance_by(600_000)
        complete()
        coordinator.take_events()
        gc.collect()  # a write and what began it know each other
        return [sys.getrefcount(text) for text in (group, member)]

    before = after()
    coordinator.consumer_group_heartbeat(
        group, member, 0, rebalance_timeout_ms=20_000, topic_partitions=[],
        subscribed_topic_names=["t"],
    )  # fmt: skip
    complete()
    coordinator.offset_commit(group, {("topic1", 0): 5}, generation_id=1, member_id=member)
    complete()
    coordinator.consumer_group_heartbeat(group, member, -1)
    complete()
    coordinator.delete_groups([group])
    complete()
    assert after() == before
