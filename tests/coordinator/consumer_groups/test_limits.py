"""The limits of groups and members hold up to the last value, in classic and in consumer groups.

Rules: GroupMetadataManager.java, ``classicGroupJoin...`` and ``throwIfConsumerGroupIsFull``.
"""

import pytest

from coterie import Error, GroupCoordinator
from support.coordinator.classic_group import join

LIMITS = {
    "coterie.behaviour": "4.1",
    "group.min.session.timeout.ms": 6000,
    "group.max.session.timeout.ms": 9000,
    "group.consumer.migration.policy": "bidirectional",
    "group.consumer.max.size": 2,
    "group.max.size": 2,
    "group.initial.rebalance.delay.ms": 0,
}


def beat(coordinator, member_id):
    """A member of the consumer protocol joins group `g`."""
    response = coordinator.consumer_group_heartbeat(
        *("g", member_id, 0),
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    return getattr(response, "response", response)


def made(first):
    coordinator = GroupCoordinator(LIMITS)
    coordinator.set_topics({"t": 4})
    if first == "consumer":
        assert beat(coordinator, "first").error == Error.NONE
    return coordinator


@pytest.mark.parametrize("first", ["none", "consumer"])
@pytest.mark.parametrize(("session_ms", "fits"),
                         [(5999, False), (6000, True), (9000, True), (9001, False)])  # fmt: skip
def test_a_session_timeout_is_accepted_from_the_least_to_the_most(first, session_ms, fits):
    coordinator = made(first)
    response = coordinator.run_until(
        join(coordinator, session_timeout_ms=session_ms), limit_ms=60_000
    )
    assert response.error == (Error.NONE if fits else Error.INVALID_SESSION_TIMEOUT)


def test_a_consumer_group_takes_as_many_members_as_it_may_have_and_knows_them():
    coordinator = made("consumer")
    second = coordinator.run_until(join(coordinator, session_timeout_ms=6000), limit_ms=60_000)
    assert second.error == Error.NONE
    third = join(coordinator, session_timeout_ms=6000).response
    assert (third.error, third.member_id) == (Error.GROUP_MAX_SIZE_REACHED, "")
    assert beat(coordinator, "fourth").error == Error.GROUP_MAX_SIZE_REACHED
    assert beat(coordinator, "first").error == Error.NONE  # both are known
    again = join(coordinator, second.member_id, session_timeout_ms=6000)
    assert coordinator.run_until(again, limit_ms=60_000).error == Error.NONE


def members(coordinator):
    (group,) = coordinator.consumer_group_describe(["g"]).groups
    return {member.member_id: member.member_epoch for member in group.members}


@pytest.mark.parametrize("heartbeats", [True, False])
def test_a_classic_member_of_a_consumer_group_has_the_session_that_it_asked_for(heartbeats):
    coordinator = made("consumer")
    joined = coordinator.run_until(join(coordinator, session_timeout_ms=7000), limit_ms=60_000)
    alive_ms = []
    for _ in range(14):
        coordinator.advance_by(500)
        coordinator.consumer_group_heartbeat("g", "first", members(coordinator)["first"])
        if heartbeats:
            coordinator.heartbeat("g", joined.generation_id, joined.member_id)
        if len(members(coordinator)) == 2:
            alive_ms.append(coordinator.now_ms)
    assert alive_ms[-1] == (7000 if heartbeats else 6500)
