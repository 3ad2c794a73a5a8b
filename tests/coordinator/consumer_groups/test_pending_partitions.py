"""Writes over several partitions of the offsets topic: what waits for what, and what fails with it.

Of the two partitions one has the groups "g" and "i", the other one "h". A request that concerns
groups of both is one write of both. Rules: docs/rules/consumer-groups.md#writes.
"""

import pytest

from coterie import Error, Response
from coterie.messages import partition_for
from support.consumer_groups.deferred import beat, complete_all, made
from support.coordinator.caller_log import Log

FAILED = Error.NOT_ENOUGH_REPLICAS


def with_offsets(**options):
    coordinator = made(**options)
    for group_id in "ghi":
        coordinator.offset_commit(group_id, {("t", 0): 5, ("u", 0): 5})
    complete_all(coordinator)
    return coordinator


def commit(coordinator, group_id, offset=6):
    return coordinator.offset_commit(group_id, {("t", 0): offset})


def visible(coordinator):
    """The offset of t-0 that readers see in each group; -1: none."""
    return [coordinator.offset_fetch(group_id, {"t": [0]})["t", 0].offset for group_id in "ghi"]


def errors(pending):
    return {row.error for row in pending.response.partitions}


def test_a_write_of_both_partitions_waits_for_one_before_it_and_those_after_it_wait_too():
    log = Log()
    coordinator = with_offsets(log_sink=log)
    log.later = True
    first = commit(coordinator, "g")
    coordinator.delete_partitions([("u", 0)])
    last = commit(coordinator, "h")
    one, both, three = coordinator.appends
    assert (one.group_id, both.group_id, three.group_id) == ("g", None, "h")
    three.complete(base_offset=202)
    both.complete(base_offset=201)
    assert (first.done, last.done) == (False, False)
    assert visible(coordinator) == [5, 5, 5]
    assert coordinator.offset_fetch("h", {"u": [0]})["u", 0].offset == 5
    one.complete(base_offset=200)
    assert (first.done, last.done) == (True, True)
    assert visible(coordinator) == [6, 6, 5]
    assert coordinator.offset_fetch("h", {"u": [0]})["u", 0].offset == -1


def test_a_write_of_both_partitions_that_fails_takes_those_after_it_in_either_along():
    coordinator = with_offsets(appends="deferred")
    first = commit(coordinator, "g")
    coordinator.delete_partitions([("u", 0)])
    pending = [commit(coordinator, group_id) for group_id in "hi"]
    one, _, _, _ = coordinator.appends
    one.complete(FAILED)
    assert not coordinator.appends
    for each in (first, *pending):
        assert errors(each) == {Error.COORDINATOR_NOT_AVAILABLE}
    assert visible(coordinator) == [5, 5, 5]
    assert coordinator.offset_fetch("h", {"u": [0]})["u", 0].offset == 5
    commit(coordinator, "h", 7)
    complete_all(coordinator)
    assert visible(coordinator) == [5, 7, 5]


@pytest.mark.parametrize("error", [Error.NONE, FAILED])
def test_a_write_of_one_partition_concerns_no_write_of_the_other(error):
    coordinator = with_offsets(appends="deferred")
    mine, other = commit(coordinator, "g"), commit(coordinator, "h")
    coordinator.appends[0].complete(error)
    assert (mine.done, other.done) == (True, False)
    coordinator.appends[0].complete()
    assert errors(other) == {Error.NONE}
    assert visible(coordinator) == [6 if error is Error.NONE else 5, 6, 5]


@pytest.mark.parametrize(("group_ids", "waits"), [("h", False), ("i", True), ("hi", True)])
def test_tombstones_that_are_written_at_once_wait_if_their_partition_has_a_write_before(
    group_ids, waits
):
    log = Log()
    coordinator = with_offsets(log_sink=log)
    log.answers = [None]  # only the first finishes later
    first = commit(coordinator, "g")
    deleted = coordinator.delete_groups([*group_ids])
    assert getattr(deleted, "done", True) != waits
    there = {row.group_id for row in coordinator.list_groups().groups}
    assert there == {*"ghi"} - (set() if waits else {*group_ids})
    coordinator.appends[0].complete(base_offset=300)
    assert first.done
    answer = getattr(deleted, "response", deleted)
    assert {row.error for row in answer.groups} == {Error.NONE}
    assert {row.group_id for row in coordinator.list_groups().groups} == {*"ghi"} - {*group_ids}


@pytest.mark.parametrize("theirs", ["g", "h"])
def test_who_waits_for_a_write_over_both_is_refused_when_either_partition_is_given_up(theirs):
    coordinator = with_offsets(appends="deferred")
    deleted = coordinator.delete_groups(["h", "i"])
    mine = commit(coordinator, "g")
    coordinator.resign(partition_for(theirs, 2))
    assert {row.error for row in deleted.response.groups} == {Error.NOT_COORDINATOR}
    assert mine.done == (theirs == "g")
    for append in list(coordinator.appends):
        append.complete()
    assert errors(mine) == {Error.NOT_COORDINATOR if theirs == "g" else Error.NONE}


def test_commits_that_were_held_are_answered_in_their_order_once_they_are_released():
    coordinator = with_offsets()
    coordinator.handle({"op": "hold_commits"})
    first = commit(coordinator, "g")
    deletion = coordinator.delete_groups(["h", "i"])
    pending = [first, beat(coordinator), deletion]  # which is written after all others
    assert not any(each.done for each in pending)
    assert visible(coordinator) == [5, 5, 5]
    coordinator.take_events()
    coordinator.handle({"op": "release_commits"})
    answered = [e.id for e in coordinator.take_events() if isinstance(e, Response)]
    assert answered == [each.id for each in pending]
    assert commit(coordinator, "g", 8).done
