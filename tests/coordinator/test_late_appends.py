"""Appends that come back when the group has gone on: in a later state, a later generation, or dead.

Rules: docs/rules/coordinator.md#syncgroup, #static-return and #election.
"""

import pytest

from coterie import Error, GroupCoordinator, Transition
from coterie.events import Cause
from support.coordinator.classic_group import RANGE, join, stable

OTHER = {"range": RANGE["range"].replace(b"t", b"u")}
FAILED = Error.NOT_LEADER_OR_FOLLOWER


@pytest.fixture
def deferred():
    return GroupCoordinator(appends="deferred")


def awaited(deferred):
    """The ids of a leader and a follower whose assignments are awaited."""
    joins = [join(deferred, client_id=client) for client in "ab"]
    return [deferred.run_until(each, limit_ms=9_000).member_id for each in joins]


def assignments(deferred):
    return [member.assignment for member in deferred.snapshot("g").members]


@pytest.mark.parametrize("late", [Error.NONE, FAILED])
def test_of_a_leaders_two_syncs_the_append_that_comes_back_first_counts(deferred, late):
    leader, follower = awaited(deferred)
    waiting = deferred.sync_group("g", 1, follower)
    first = deferred.sync_group("g", 1, leader, assignments={follower: b"first"})
    second = deferred.sync_group("g", 1, leader, assignments={follower: b"second"})
    assert (first.status, second.status) == ("replaced", "waiting")
    one, two = deferred.appends
    one.complete()
    assert waiting.response.assignment == b"first"
    assert second.response.error is Error.NONE
    deferred.take_events()
    two.complete(late)
    assert deferred.describe_group("g").state == "Stable"
    assert assignments(deferred) == [b"", b"first"]
    assert not [event for event in deferred.take_events() if isinstance(event, Transition)]


@pytest.mark.parametrize("late", [Error.NONE, FAILED])
def test_assignments_of_the_generation_before_are_not_those_of_the_next(deferred, late):
    leader, follower = awaited(deferred)
    old = deferred.sync_group("g", 1, leader, assignments={follower: b"old"})
    (append,) = deferred.appends
    joins = [join(deferred, follower, protocols=OTHER), join(deferred, leader)]
    assert [each.response.generation_id for each in joins] == [2, 2]
    assert old.response.error is Error.REBALANCE_IN_PROGRESS
    waiting = deferred.sync_group("g", 2, follower)
    append.complete(late)
    assert deferred.describe_group("g").state == "CompletingRebalance"
    assert (waiting.done, assignments(deferred)) == (False, [b"", b""])
    deferred.sync_group("g", 2, leader, assignments={follower: b"new"})
    deferred.appends[-1].complete()
    assert waiting.response.assignment == b"new"


@pytest.mark.parametrize("error", [Error.NONE, FAILED])
def test_a_static_return_is_answered_by_its_append_even_if_the_group_was_unloaded(deferred, error):
    """GroupMetadataManager.onGroupUnloaded answers joins in PreparingRebalance only."""
    (old,) = stable(deferred, group_instance_id="i")
    pending = join(deferred, group_instance_id="i")
    (append,) = deferred.appends
    deferred.resign()
    assert not pending.done
    append.complete(error)
    answer = pending.response
    assert (answer.generation_id, answer.protocol_name, answer.leader) == (1, "range", old)
    if error is Error.NONE:
        assert (answer.error, answer.member_id == old) == (Error.NONE, False)
    else:
        assert (answer.error, answer.member_id) == (Error.NOT_COORDINATOR, "")
    assert deferred.next_deadline_ms() is None  # a group that is Dead has no sessions
    deferred.advance_by(600_000)
    causes = [event.cause for event in deferred.events if isinstance(event, Transition)]
    assert causes[-1] is Cause.FAILOVER


def commit(coordinator):
    """The error of one commit."""
    pending = coordinator.offset_commit("g", {("t", 0): 6})
    while coordinator.appends:
        coordinator.appends[0].complete()
    return pending.response.partitions[0].error


@pytest.mark.parametrize("behaviour", ["2.4", "3.9", "4.1"])
@pytest.mark.parametrize("appends", ["immediate", "deferred"])
def test_an_order_to_fail_concerns_markers_since_kafka_4_and_outlasts_a_failover(
    behaviour, appends
):
    """docs/rules/trace-format.md#events, rules 3, 4 and 6."""
    coordinator = GroupCoordinator({"coterie.behaviour": behaviour}, appends=appends)
    coordinator.txn_offset_commit("g", {("t", 0): 5}, producer_id=1, producer_epoch=0)
    while coordinator.appends:
        coordinator.appends[0].complete()
    coordinator.fail_append(Error.MESSAGE_TOO_LARGE, 7)
    coordinator.fail_append(FAILED, 2)  # in place of the first order
    coordinator.end_txn(1, committed=True)
    while coordinator.appends:
        coordinator.appends[0].complete()
    fails = behaviour == "4.1"
    assert [row.offset for row in coordinator.offset_fetch("g").partitions] == [5] * (not fails)
    errors = [commit(coordinator)]
    coordinator.failover()
    errors += [commit(coordinator), commit(coordinator)]
    assert errors == [
        Error.NOT_COORDINATOR, Error.NONE if fails else Error.NOT_COORDINATOR, Error.NONE,
    ]  # fmt: skip
