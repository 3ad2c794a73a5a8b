"""Appends that come back late: in which order they began, and where their batches stand."""

import pytest

from coterie import ArgumentError, GroupCoordinator

DEFERRED = {"appends": "deferred"}


def commit_of(coordinator, count):
    return coordinator.offset_commit("g", {("t", number): 1 for number in range(count)})


@pytest.mark.parametrize("behaviour", ["3.9", "4.1"])
def test_a_batch_may_not_stand_where_another_does(behaviour):
    """Beside batches at 10 to 12 and at 20, one of two records."""
    ends = {0: 21, 8: 21, 13: 21, 18: 21, 21: 23, 30: 32}  # offset -> that after the last record
    for offset in (*ends, 9, 10, 11, 12, 19, 20):
        coordinator = GroupCoordinator({"coterie.behaviour": behaviour}, **DEFERRED)
        for count, at in ((3, 10), (1, 20)):
            commit_of(coordinator, count)
            coordinator.appends[0].complete(base_offset=at)
        commit_of(coordinator, 2)
        (append,) = coordinator.appends
        if offset not in ends:
            with pytest.raises(ArgumentError, match=f"base_offset {offset}"):
                append.complete(base_offset=offset)
            assert not append.done
            continue
        append.complete(base_offset=offset)
        commit_of(coordinator, 1)
        coordinator.appends[0].complete()
        placed = [batch.base_offset for batch in coordinator.log]
        assert placed == sorted([10, 20, offset, ends[offset]])


def test_the_appends_of_one_request_are_there_in_the_order_in_which_they_began():
    groups = ["c", "a", "d", "b"]
    written = GroupCoordinator()
    for group_id in groups:
        written.offset_commit(group_id, {("t", 0): 5})
    coordinator = GroupCoordinator(log=written.log, **DEFERRED)
    coordinator.delete_groups(groups)
    assert [append.group_id for append in coordinator.appends] == groups
