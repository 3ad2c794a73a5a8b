"""A snapshot has each fact of a group in its own field: every value here differs from the others.

Rules: MemberMetadata.java (isNew, isAwaitingJoin, isAwaitingSync), ClassicGroup.java.
"""

import pytest

from coterie import GroupCoordinator, OffsetAndMetadata
from coterie.coordinator.snapshot import MemberSnapshot, TimerSnapshot
from coterie.testing import subscription

T, U = subscription(["t"]), subscription(["u"])
DELAY_MS = 3000


@pytest.fixture
def group():
    """Two members in their first rebalance: ``a``, then a static one."""
    coordinator = GroupCoordinator({"group.initial.rebalance.delay.ms": DELAY_MS})
    joins = [
        coordinator.join_group(
            "g", protocol_type="consumer", protocols={"range": T, "sticky": T}, client_id="a",
            client_host="/1", session_timeout_ms=10_000, rebalance_timeout_ms=20_000,
        ),
        coordinator.join_group(
            "g", protocol_type="consumer", protocols={"sticky": U}, client_id="b",
            client_host="/2", session_timeout_ms=30_000, rebalance_timeout_ms=40_000,
            group_instance_id="i",
        ),
    ]  # fmt: skip
    return coordinator, joins


def members(coordinator):
    return {member.client_id: member for member in coordinator.snapshot("g").members}


def states(coordinator):
    """Of each member: new, awaiting its join, awaiting its sync."""
    return {
        name: (member.is_new, member.is_awaiting_join, member.is_awaiting_sync)
        for name, member in members(coordinator).items()
    }


def test_the_flags_of_members_follow_a_rebalance(group):
    coordinator, joins = group
    assert states(coordinator) == {"a": (True, True, False), "b": (True, True, False)}
    leader, follower = (coordinator.run_until(join, limit_ms=60_000).member_id for join in joins)
    assert states(coordinator) == {"a": (False, False, False), "b": (False, False, False)}
    waits = coordinator.sync_group("g", 1, follower, group_instance_id="i")
    assert states(coordinator)["b"] == (False, False, True)
    assert coordinator.snapshot("g").pending_sync_members == (leader,)
    coordinator.sync_group("g", 1, leader, assignments={leader: b"one", follower: b"two"})
    assert waits.response.assignment == b"two"
    assert states(coordinator) == {"a": (False, False, False), "b": (False, False, False)}


def test_each_fact_is_in_its_own_field(group):
    coordinator, joins = group
    leader, follower = (coordinator.run_until(join, limit_ms=60_000).member_id for join in joins)
    at_ms = coordinator.now_ms
    coordinator.advance_by(1000)
    coordinator.sync_group("g", 1, follower, group_instance_id="i")
    coordinator.sync_group("g", 1, leader, assignments={leader: b"one", follower: b"two"})
    coordinator.offset_commit("g", {("t", 0): OffsetAndMetadata(7, 4, "m")}, generation_id=1,
                              member_id=leader)  # fmt: skip
    pending = coordinator.join_group("g", protocol_type="consumer", protocols={"sticky": T},
                                     require_known_member_id=True).response.member_id  # fmt: skip
    view = coordinator.snapshot("g")
    assert view.members == (
        MemberSnapshot(leader, None, "a", "/1", "consumer", (("range", T), ("sticky", T)),
                       10_000, 20_000, b"one", False, False, False),
        MemberSnapshot(follower, "i", "b", "/2", "consumer", (("sticky", U),),
                       30_000, 40_000, b"two", False, False, False),
    )  # fmt: skip
    assert (view.group_id, view.state, view.protocol_type) == ("g", "Stable", "consumer")
    assert (view.protocol_name, view.generation_id, view.leader_id) == ("sticky", 1, leader)
    assert view.current_state_timestamp == at_ms + 1000
    assert view.static_members == {"i": follower}
    assert (view.pending_members, view.pending_sync_members) == ((pending,), ())
    assert view.supported_protocols == {"range": 1, "sticky": 2}
    assert view.subscribed_topics == {"t", "u"}
    assert sorted(view.timers, key=lambda timer: timer.deadline_ms) == [
        TimerSnapshot("session", leader, at_ms + 11_000),
        TimerSnapshot("session", follower, at_ms + 31_000),
        TimerSnapshot("pending", pending, at_ms + 46_000),
    ]
    assert view.offsets == {("t", 0): OffsetAndMetadata(7, 4, "m", at_ms + 1000)}
    assert (view.pending_offsets, view.pending_txn_offsets) == ({}, {})
