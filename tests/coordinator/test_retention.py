"""Since when the offsets of each kind of group age, to the millisecond.

Rules: docs/rules/offsets.md#expiration.
"""

import pytest

from coterie import GroupCoordinator
from support.coordinator.classic_group import stable

RETENTION_MS = 60_000
START_MS = 300_000  # much more than the retention: an age is no time of day
BEHAVIOURS = pytest.mark.parametrize("behaviour", ["3.9", "4.1"])


def started(behaviour):
    coordinator = GroupCoordinator(
        {"coterie.behaviour": behaviour, "offsets.retention.minutes": RETENTION_MS // 60_000}
    )
    coordinator.advance(START_MS)
    return coordinator


def is_retained(coordinator, at_ms, topic="t"):
    """Whether a topic's offset outlives a clean-up at a time."""
    coordinator.advance(at_ms)
    coordinator.cleanup()
    return coordinator.offset_fetch("g", {topic: [0]})[topic, 0].offset != -1


def assert_retained_until(coordinator, end_ms):
    assert is_retained(coordinator, end_ms - 1)
    assert not is_retained(coordinator, end_ms)


@BEHAVIOURS
def test_an_offset_of_a_group_without_members_expires_so_long_after_its_commit(behaviour):
    coordinator = started(behaviour)
    coordinator.offset_commit("g", {("t", 0): 5})
    assert_retained_until(coordinator, START_MS + RETENTION_MS)


@BEHAVIOURS
def test_an_offset_of_a_group_that_became_empty_expires_so_long_after_that(behaviour):
    coordinator = started(behaviour)
    (member_id,) = stable(coordinator, session_timeout_ms=300_000)
    coordinator.offset_commit("g", {("t", 0): 5}, generation_id=1, member_id=member_id)
    left_ms = coordinator.now_ms + 1000
    coordinator.advance(left_ms)
    coordinator.leave_group("g", [member_id])
    assert_retained_until(coordinator, left_ms + RETENTION_MS)


@BEHAVIOURS
def test_an_offset_of_a_group_that_became_empty_at_time_0_expires_so_long_after_that(behaviour):
    coordinator = GroupCoordinator(
        {"coterie.behaviour": behaviour, "offsets.retention.minutes": RETENTION_MS // 60_000,
         "group.initial.rebalance.delay.ms": 0}
    )  # fmt: skip
    (member_id,) = stable(coordinator)
    coordinator.leave_group("g", [member_id])
    coordinator.advance(1_000)
    coordinator.offset_commit("g", {("t", 0): 5})
    assert_retained_until(coordinator, RETENTION_MS)


@BEHAVIOURS
def test_a_commit_to_a_group_that_became_empty_does_not_make_its_offsets_younger(behaviour):
    coordinator = started(behaviour)
    (member_id,) = stable(coordinator, session_timeout_ms=300_000)
    left_ms = coordinator.now_ms
    coordinator.leave_group("g", [member_id])
    coordinator.advance_by(RETENTION_MS - 1)
    coordinator.offset_commit("g", {("t", 0): 5})
    assert_retained_until(coordinator, left_ms + RETENTION_MS)


@BEHAVIOURS
def test_a_group_with_members_retains_what_they_read_and_the_rest_so_long_after_its_commit(
    behaviour,
):
    coordinator = started(behaviour)
    (member_id,) = stable(coordinator, session_timeout_ms=300_000)
    committed_ms = coordinator.now_ms
    offsets = {("t", 0): 5, ("u", 0): 6}
    coordinator.offset_commit("g", offsets, generation_id=1, member_id=member_id)
    assert is_retained(coordinator, committed_ms + RETENTION_MS - 1, "u")
    assert not is_retained(coordinator, committed_ms + RETENTION_MS, "u")
    assert is_retained(coordinator, committed_ms + 4 * RETENTION_MS, "t")


def test_a_consumer_group_retains_what_it_reads_and_the_rest_so_long_after_its_commit():
    coordinator = started("4.1")
    coordinator.set_topics({"t": 1, "u": 1})
    joined = coordinator.consumer_group_heartbeat(
        "g", "m", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    fields = {"generation_id": joined.member_epoch, "member_id": "m"}
    coordinator.offset_commit("g", {("t", 0): 5, ("u", 0): 6}, **fields)
    coordinator.advance_by(30_000)  # within the session
    coordinator.consumer_group_heartbeat("g", "m", joined.member_epoch)
    assert is_retained(coordinator, START_MS + RETENTION_MS - 1, "u")
    assert not is_retained(coordinator, START_MS + RETENTION_MS, "u")
    assert is_retained(coordinator, START_MS + RETENTION_MS, "t")


def test_offsets_of_a_consumer_group_age_from_their_commit_after_its_members_left():
    coordinator = started("4.1")
    coordinator.set_topics({"t": 1})
    joined = coordinator.consumer_group_heartbeat(
        "g", "m", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    fields = {"generation_id": joined.member_epoch, "member_id": "m"}
    coordinator.offset_commit("g", {("t", 0): 5}, **fields)
    coordinator.advance_by(20_000)
    coordinator.consumer_group_heartbeat("g", "m", -1)
    assert_retained_until(coordinator, START_MS + RETENTION_MS)


@pytest.mark.parametrize("retention_time_ms", [0, 1, 70_000])
def test_a_commit_with_a_retention_time_of_its_own_expires_so_long_after_it(retention_time_ms):
    coordinator = started("4.1")
    offsets = {("t", 0): 5}
    coordinator.offset_commit("g", offsets, version=4, retention_time_ms=retention_time_ms)
    if retention_time_ms:
        assert is_retained(coordinator, START_MS + retention_time_ms - 1)
    assert not is_retained(coordinator, START_MS + retention_time_ms)
