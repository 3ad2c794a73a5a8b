"""The cause of each transition of a classic group, and the member that it names."""

import pytest

from coterie import Error, GroupCoordinator, Transition
from coterie.events import Cause
from support.coordinator.classic_group import RANGE, join, stable

BEHAVIOURS = pytest.mark.parametrize("behaviour", ["2.4", "3.9", "4.1"])
OTHER = {"range": RANGE["range"].replace(b"t", b"u")}
LONG = {"session_timeout_ms": 300_000, "rebalance_timeout_ms": 20_000}


def made(behaviour, **options):
    return GroupCoordinator({"coterie.behaviour": behaviour}, **options)


def group_of_two(behaviour, **fields):
    """A Stable group, and the ids of its leader and its follower."""
    coordinator = made(behaviour)
    leader, follower = stable(coordinator, "a", "b", **fields)
    coordinator.take_events()
    return coordinator, leader, follower


def causes(coordinator):
    return [(event.to, event.cause, event.member_id) for event in coordinator.take_events()
            if isinstance(event, Transition)]  # fmt: skip


@BEHAVIOURS
@pytest.mark.parametrize(
    ("act", "cause", "names"),
    [
        (lambda c, a, b: join(c, a), Cause.LEADER_REJOIN, 0),
        (lambda c, a, b: join(c, a, protocols=OTHER), Cause.METADATA_CHANGED, 0),
        (lambda c, a, b: join(c, b, protocols=OTHER), Cause.METADATA_CHANGED, 1),
        (lambda c, a, b: c.leave_group("g", [b, a]), Cause.LEAVE, 1),
        (lambda c, a, b: (c.heartbeat("g", 1, b), c.advance_by(10_000)), Cause.SESSION_TIMEOUT, 0),
    ],
)
def test_a_rebalance_names_the_member_that_began_it(behaviour, act, cause, names):
    coordinator, *ids = group_of_two(behaviour)
    act(coordinator, *ids)
    assert causes(coordinator)[0] == ("PreparingRebalance", cause, ids[names])


@BEHAVIOURS
def test_a_new_member_that_begins_a_rebalance_is_named(behaviour):
    coordinator, *ids = group_of_two(behaviour)
    join(coordinator, client_id="c")
    (new,) = {member.member_id for member in coordinator.snapshot("g").members} - {*ids}
    assert causes(coordinator) == [("PreparingRebalance", Cause.JOIN, new)]


@BEHAVIOURS
def test_a_static_member_that_comes_back_with_another_vote_is_named_by_its_new_id(behaviour):
    """GroupMetadata.selectProtocol: the vote is another one, so the present one is over."""
    coordinator = made(behaviour)
    stable(coordinator, group_instance_id="i")
    coordinator.take_events()
    both = {"sticky": RANGE["range"], **RANGE}
    answer = join(coordinator, group_instance_id="i", protocols=both)
    new = answer.response.member_id
    assert causes(coordinator) == [
        ("PreparingRebalance", Cause.STATIC_RETURN, new),
        ("CompletingRebalance", Cause.COMPLETED, None),
    ]
    assert (answer.response.generation_id, answer.response.protocol_name) == (2, "sticky")


@BEHAVIOURS
@pytest.mark.parametrize("error", [Error.NOT_ENOUGH_REPLICAS, Error.KAFKA_STORAGE_ERROR])
def test_assignments_that_could_not_be_written_name_the_leader(behaviour, error):
    coordinator = made(behaviour)
    joins = [join(coordinator, client_id=client) for client in "ab"]
    leader, follower = (coordinator.run_until(each, limit_ms=9_000).member_id for each in joins)
    coordinator.sync_group("g", 1, follower)
    coordinator.take_events()
    coordinator.fail_append(error)
    coordinator.sync_group("g", 1, leader, assignments={})
    assert causes(coordinator) == [("PreparingRebalance", Cause.APPEND_FAILED, leader)]


@pytest.mark.parametrize("behaviour", ["3.9", "4.1"])
def test_of_several_members_that_do_not_sync_the_first_is_named(behaviour):
    coordinator = made(behaviour)
    joins = [join(coordinator, client_id=client, **LONG) for client in "abc"]
    leader, second, _ = (coordinator.run_until(j, limit_ms=90_000).member_id for j in joins)
    coordinator.sync_group("g", 1, leader, assignments={})
    coordinator.take_events()
    coordinator.advance_by(20_000)
    assert causes(coordinator) == [("PreparingRebalance", Cause.SYNC_TIMEOUT, second)]
    assert [m.member_id for m in coordinator.snapshot("g").members] == [leader]


@BEHAVIOURS
def test_a_rebalance_that_ends_in_time_or_by_its_timeout_names_nobody(behaviour):
    coordinator, leader, follower = group_of_two(behaviour, **LONG)
    join(coordinator, leader, **LONG)
    causes(coordinator)
    coordinator.advance_by(20_000)  # the follower does not join
    assert causes(coordinator) == [("CompletingRebalance", Cause.REBALANCE_TIMEOUT, None)]
    coordinator.leave_group("g", [leader])
    assert causes(coordinator) == [
        ("PreparingRebalance", Cause.LEAVE, leader), ("Empty", Cause.COMPLETED, None),
    ]  # fmt: skip
    assert follower not in [m.member_id for m in coordinator.snapshot("g").members]
