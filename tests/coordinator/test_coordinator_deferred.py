"""Appends that come back late: what Kafka checks then, and what it does not."""

import copy
import sys
from collections import deque
from contextlib import contextmanager
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie import ArgumentError, CoterieError, Error, GroupCoordinator, Unanswered, load_trace
from coterie._core.coordinator.runtime import AppendOp
from support.coordinator.caller_log import Log
from support.coordinator.classic_group import join, stable
from support.trace_data import header
from support.trace_data import join as join_event


def commit(coordinator, offset, **fields):
    return coordinator.offset_commit("g", {("t", 0): offset}, **fields)


def shown(coordinator):
    return coordinator.offset_fetch("g", {"t": [0]})["t", 0].offset


@pytest.fixture
def deferred():
    return GroupCoordinator(appends="deferred")


def test_a_commit_waits_and_is_unstable_until_its_append_comes_back(deferred):
    pending = commit(deferred, 5)
    (append,) = deferred.appends
    assert (append.kind, append.group_id, append.transactional) == ("offset_commit", "g", False)
    assert not pending.done
    assert shown(deferred) == -1
    stable_answer = deferred.offset_fetch("g", {"t": [0]}, require_stable=True)
    assert stable_answer["t", 0].error is Error.UNSTABLE_OFFSET_COMMIT
    append.complete()
    assert pending.response.partitions[0].error is Error.NONE
    assert (shown(deferred), len(deferred.appends)) == (5, 0)


def test_an_append_says_which_producer_it_is_of(deferred):
    commit(deferred, 5)
    deferred.txn_offset_commit("g", {("t", 0): 6}, producer_id=7, producer_epoch=3)
    assert [(append.kind, append.producer_id, append.producer_epoch, append.transactional)
            for append in deferred.appends] == [
        ("offset_commit", -1, -1, False), ("txn_offset_commit", 7, 3, True)]  # fmt: skip
    blank = AppendOp()
    assert (blank.group_id, blank.records, blank.producer_id, blank.producer_epoch) == (
        None, (), -1, -1)  # fmt: skip
    assert not blank.transactional


def test_as_many_appends_fail_as_are_told_to(deferred):
    deferred.fail_append(Error.NOT_LEADER_OR_FOLLOWER, 2)
    pending = [commit(deferred, number) for number in range(4)]
    while deferred.appends:
        deferred.appends[0].complete()
    errors = [each.response.partitions[0].error for each in pending]
    assert errors == [Error.NOT_COORDINATOR] * 2 + [Error.NONE] * 2
    assert shown(deferred) == 3


def test_the_log_has_its_batches_by_offset_whichever_comes_back_first(deferred):
    for number in range(4):
        commit(deferred, number)
    for append, base_offset in zip(list(deferred.appends), [40, 7, 20, 0], strict=True):
        append.complete(base_offset=base_offset)
    assert [batch.base_offset for batch in deferred.log] == [0, 7, 20, 40]


def test_a_commit_that_is_written_at_once_ends_the_wait_for_an_earlier_one():
    log = Log()
    coordinator = GroupCoordinator(log_sink=log)
    log.answers = [None]  # the first finishes later
    first, _ = commit(coordinator, 1), commit(coordinator, 2)
    fetched = coordinator.offset_fetch("g", {"t": [0]}, require_stable=True)
    assert fetched["t", 0].offset == 2
    coordinator.appends[0].complete(base_offset=99)
    assert first.response.partitions[0].error is Error.NONE
    assert shown(coordinator) == 2


def test_an_append_is_completed_once(deferred):
    commit(deferred, 5)
    (append,) = deferred.appends
    append.complete()
    with pytest.raises(CoterieError, match="already"):
        append.complete()


def test_of_two_commits_the_later_position_wins_whichever_comes_back_first(deferred):
    commit(deferred, 1), commit(deferred, 2)
    first, second = deferred.appends
    second.complete(base_offset=10)
    assert shown(deferred) == 2
    first.complete(base_offset=11)
    # The first found no pending value of the partition any more: nothing changes.
    assert shown(deferred) == 2


def test_the_first_of_two_commits_leaves_the_second_pending(deferred):
    commit(deferred, 1), commit(deferred, 2)
    first, second = deferred.appends
    first.complete()
    assert shown(deferred) == 1
    assert deferred.snapshot("g").pending_offsets["t", 0].offset == 2
    second.complete(Error.REQUEST_TIMED_OUT)
    assert (shown(deferred), deferred.snapshot("g").pending_offsets) == (1, {})


@pytest.mark.parametrize(
    ("offset", "fits"), [(-1, False), (0, True), (2**62 - 1, True), (2**62, False)]
)
def test_a_batch_lies_from_0_to_the_offset_where_a_log_may_end(deferred, offset, fits):
    commit(deferred, 1)
    (append,) = deferred.appends
    if fits:
        append.complete(base_offset=offset)
        assert append.done
    else:
        with pytest.raises(ArgumentError, match="base_offset"):
            append.complete(base_offset=offset)


def test_a_failed_commit_is_answered_with_the_translated_error(deferred):
    pending = commit(deferred, 5)
    deferred.appends[0].complete(Error.MESSAGE_TOO_LARGE)
    assert pending.response.partitions[0].error is Error.INVALID_COMMIT_OFFSET_SIZE
    assert shown(deferred) == -1


def test_a_commit_that_comes_back_to_a_dead_group_is_answered_and_no_more(deferred):
    pending = commit(deferred, 5)
    (append,) = deferred.appends
    deferred.failover()
    append.complete()
    assert pending.response.partitions[0].error is Error.NONE
    assert deferred.snapshot("g") is None
    deferred.failover()  # but the log has it now
    assert shown(deferred) == 5


def test_an_append_that_comes_back_after_the_offset_was_deleted_changes_nothing(deferred):
    commit(deferred, 1)
    deferred.appends[0].complete()
    commit(deferred, 2)
    (append,) = deferred.appends
    deferred.offset_delete("g", [("t", 0)])
    append.complete()
    assert shown(deferred) == -1


@pytest.mark.parametrize("others", [0, 3])
@pytest.mark.parametrize("producer", [{}, {"producer_id": 7, "producer_epoch": 0}])
def test_a_deleted_partition_takes_its_commits_in_flight_along(deferred, producer, others):
    ask = deferred.txn_offset_commit if producer else deferred.offset_commit
    pending = ask("g", {("t", 0): 5}, **producer)
    (append,) = deferred.appends
    deferred.delete_partitions([("t", 0), *((f"other-{n}", 0) for n in range(others))])
    append.complete()
    if producer:
        deferred.end_txn(7, committed=True)
    assert pending.response.partitions[0].error is Error.NONE
    assert shown(deferred) == -1


def test_a_marker_before_the_append_leaves_the_offset_unseen(deferred):
    deferred.txn_offset_commit("g", {("t", 0): 5}, producer_id=1, producer_epoch=0)
    deferred.end_txn(1, committed=True)
    deferred.appends[0].complete()
    assert shown(deferred) == -1


def waiting_leader(deferred):
    """A leader and a follower whose syncs wait for the append of the assignments."""
    joins = [join(deferred, client_id=client) for client in "ab"]
    deferred.advance(6000)
    leader, follower = (p.response.member_id for p in joins)
    syncs = [deferred.sync_group("g", 1, m, assignments={follower: b"f"} if m == leader else {})
             for m in (follower, leader)]  # fmt: skip
    (append,) = deferred.appends
    return leader, follower, syncs, append


def test_syncs_are_answered_when_the_assignments_are_written(deferred):
    _, _, (follower, leader), append = waiting_leader(deferred)
    assert not leader.done
    append.complete()
    assert (follower.response.assignment, leader.response.assignment) == (b"f", b"")
    assert deferred.describe_group("g").state == "Stable"


def test_assignments_that_fail_to_be_written_start_a_rebalance(deferred):
    _, _, syncs, append = waiting_leader(deferred)
    append.complete(Error.REQUEST_TIMED_OUT)
    assert {p.response.error for p in syncs} == {Error.REBALANCE_IN_PROGRESS}
    assert deferred.describe_group("g").state == "PreparingRebalance"


def test_assignments_written_after_the_state_moved_on_change_nothing(deferred):
    _leader, _follower, syncs, append = waiting_leader(deferred)
    join(deferred, client_id="c")
    assert {p.response.error for p in syncs} == {Error.REBALANCE_IN_PROGRESS}
    append.complete()
    assert deferred.describe_group("g").state == "PreparingRebalance"
    assert deferred.snapshot("g").members[0].assignment == b""


def test_a_member_that_leaves_takes_its_waiting_sync_along(deferred):
    _leader, follower, (waits, _), append = waiting_leader(deferred)
    deferred.leave_group("g", [follower])
    assert waits.status == "dropped"
    append.complete(Error.NOT_LEADER_OR_FOLLOWER)
    assert deferred.describe_group("g").state == "PreparingRebalance"


def returning(deferred, **fields):
    """A static member that comes back into a stable group; its answer waits for the append."""
    (old,) = stable(deferred, "a", group_instance_id="i")
    pending = join(deferred, client_id="a", group_instance_id="i", **fields)
    (append,) = deferred.appends
    assert append.kind == "static_return"
    return old, pending, append


def test_a_static_return_is_answered_when_its_id_is_written(deferred):
    old, pending, append = returning(deferred, supports_skipping_assignment=True)
    append.complete()
    answer = pending.response
    assert (answer.error, answer.skip_assignment) == (Error.NONE, True)
    assert answer.leader == answer.member_id != old


def test_a_static_return_that_fails_takes_the_id_and_the_timeouts_back(deferred):
    old, pending, append = returning(deferred, session_timeout_ms=20_000,
                                     rebalance_timeout_ms=40_000,
                                     protocols={"range": b"new"})  # fmt: skip
    (member,) = deferred.snapshot("g").members
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (20_000, 40_000)
    append.complete(Error.NOT_LEADER_OR_FOLLOWER)
    answer = pending.response
    assert (answer.error, answer.member_id) == (Error.NOT_COORDINATOR, "")
    assert (answer.generation_id, answer.protocol_name, answer.leader) == (1, "range", old)
    (member,) = deferred.snapshot("g").members
    assert (member.member_id, member.session_timeout_ms) == (old, 10_000)
    assert member.rebalance_timeout_ms == 300_000
    assert member.protocols == (("range", b"new"),)  # Kafka keeps the new list
    assert not member.is_awaiting_join


def test_a_static_return_is_answered_once_if_a_rebalance_comes_first(deferred):
    _, pending, append = returning(deferred)
    join(deferred, client_id="b")
    deferred.advance_by(3000)
    answer = pending.response  # everyone waits: the next generation answers it
    assert answer.generation_id == 2
    append.complete()
    assert pending.response is answer
    assert len([e for e in deferred.events if getattr(e, "id", None) == pending.id]) == 1


def test_a_static_return_whose_member_left_meanwhile_is_not_taken_back(deferred):
    _, pending, append = returning(deferred)
    deferred.leave_group("g", [("", "i")])
    assert pending.response.error is Error.UNKNOWN_MEMBER_ID
    append.complete(Error.NOT_LEADER_OR_FOLLOWER)
    assert deferred.snapshot("g").members == ()


def test_tombstones_and_empty_generations_are_listed_but_nothing_waits(deferred):
    (member,) = stable(deferred)
    assert deferred.leave_group("g", [member]).members[0].error is Error.NONE
    assert [a.kind for a in deferred.appends] == ["empty_generation"]
    assert deferred.delete_groups(["g"]).groups[0].error is Error.NONE
    assert [a.kind for a in deferred.appends] == ["empty_generation", "tombstones"]
    for append in list(deferred.appends):
        append.complete(Error.KAFKA_STORAGE_ERROR)
    assert deferred.snapshot("g") is None


@given(
    st.lists(
        st.one_of(
            st.just("commit"),
            st.tuples(st.sampled_from(["complete", "fail"]), st.integers(0, 9)),
            st.sampled_from(["len", "list", "first", "last", "contains", "each", "reversed"]),
        ),
        max_size=60,
    )
)
def test_the_appends_in_flight_are_those_that_have_not_come_back_oldest_first(steps):
    coordinator = GroupCoordinator(appends="deferred")
    held, model, partitions = coordinator.appends, [], iter(range(100))
    for step in steps:
        if step == "commit":
            coordinator.offset_commit("g", {("t", next(partitions)): 1})
            model.append(held[-1])
        elif isinstance(step, tuple):
            if model:
                append = model.pop(step[1] % len(model))
                append.complete(Error.NONE if step[0] == "complete" else Error.REQUEST_TIMED_OUT)
        elif step == "len":
            assert (len(held), bool(held)) == (len(model), bool(model))
        elif step == "list":
            assert [*held] == model
        elif step == "contains":
            assert all(append in held for append in model)
        elif step == "each":
            assert [held[n] for n in range(-len(model), len(model))] == model * 2
        elif step == "reversed":
            assert [*reversed(held)] == model[::-1]
        elif model:
            index = 0 if step == "first" else -1
            assert held[index] is model[index]
    assert [*coordinator.appends] == model
    assert len(coordinator.appends) == len(model)


@contextmanager
def counted_calls():
    """Count the calls of Python functions: what is done, whatever the machine's speed."""
    calls = [0]

    def profile(_, event, __):
        calls[0] += event == "call"

    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(None)


LOOKS = {
    "len": len,
    "first": lambda held: held[0],
    "last": lambda held: held[-1],
    "in": lambda held: held[0] in held,
    "begun to be walked through": lambda held: next(iter(held)),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_a_look_at_the_appends_in_flight_costs_the_same_however_many_there_are(look):
    def calls(count):
        coordinator = GroupCoordinator(appends="deferred")
        for n in range(count):
            coordinator.offset_commit("g", {("t", n): n})
        middle = list(coordinator.appends)[20:40]
        with counted_calls() as made:
            for append in middle:
                append.complete()
                look(coordinator.appends)
        assert len(coordinator.appends) == count - 20
        return made[0]

    calls(60)  # a first call may import
    assert abs(calls(60) - calls(600)) < 20  # one a completion


def in_flight(count=5):
    deferred = GroupCoordinator(appends="deferred")
    for n in range(count):
        deferred.offset_commit("g", {("t", n): n})
    deferred.appends[1].complete()  # one is gone from between
    return deferred, list(deferred.appends)


OF_A_DEQUE = {
    "clear": lambda held: held.clear(),
    "pop": lambda held: held.pop(),
    "popleft": lambda held: held.popleft(),
    "remove": lambda held: held.remove(held[1]),
    "del": lambda held: held.__delitem__(-2),
    "rotate": lambda held: held.rotate(1),
    "reverse": lambda held: held.reverse(),
    "index": lambda held: held.index(held[2]),
    "count": lambda held: held.count(held[2]),
    "copy": lambda held: held.copy() + copy.copy(held) + held * 2,
    "equal": lambda held: (held == deque(held), held == held.copy(), held != deque()),
    "anything": lambda held: mock.ANY in held,
    "nothing": lambda held: (5 in held, [] in held, None in held),
    "moved": lambda held: held.appendleft(held.pop()),
    "moved back": lambda held: held.insert(2, held.popleft()),
    "text": repr,
}


@pytest.mark.parametrize("use", OF_A_DEQUE.values(), ids=OF_A_DEQUE)
def test_the_appends_in_flight_are_used_as_a_deque_is(use):
    deferred, appends = in_flight()
    plain = deque(appends)
    assert isinstance(deferred.appends, deque)
    assert use(deferred.appends) == use(plain)
    assert [*deferred.appends] == [*plain]
    assert len(deferred.appends) == len(plain)
    assert deferred.appends == plain
    for append in appends:  # even those that were taken out
        append.complete()
    assert not deferred.appends


@pytest.mark.parametrize("index", [4, -5, 2**70, "x", 1.5, slice(0, 2), None])
def test_an_index_that_a_deque_does_not_take_is_refused_alike(index):
    deferred, appends = in_flight()
    with pytest.raises((IndexError, TypeError)) as refused:
        deferred.appends[index]
    with pytest.raises(refused.type):
        deque(appends)[index]
    with pytest.raises(IndexError, match="empty"):
        GroupCoordinator().appends.pop()


def test_what_is_no_append_or_came_back_is_not_taken_among_those_in_flight():
    deferred, appends = in_flight()
    appends[1].complete()
    for wrong in (5, None, deferred):
        with pytest.raises(ArgumentError, match="appends holds PendingAppend objects, not "):
            deferred.appends.append(wrong)
    with pytest.raises(ArgumentError, match="not 5"):
        deferred.appends[0] = 5
    deferred.appends.extend([appends[1], appends[0]])
    assert [*deferred.appends] == [appends[0], appends[2], appends[3]]
    for append in (appends[3], appends[0], appends[2]):
        append.complete()
    assert len(deferred.appends) == 0


def test_a_static_return_that_fails_after_a_later_one_leaves_that_without_an_answer(deferred):
    old, first, append = returning(deferred)
    second = join(deferred, client_id="a", group_instance_id="i")
    assert first.response.error is Error.FENCED_INSTANCE_ID
    append.complete(Error.NOT_LEADER_OR_FOLLOWER)
    told = [event for event in deferred.events if getattr(event, "id", None) == second.id]
    assert told == [Unanswered(deferred.now_ms, second.id, "join_group", "replaced")]
    (member,) = deferred.snapshot("g").members
    assert (member.member_id, member.is_awaiting_join) == (old, False)


def test_a_session_begins_anew_where_a_static_return_could_not_be_written(deferred):
    old, pending, append = returning(deferred)
    deferred.advance_by(4000)
    append.complete(Error.NOT_LEADER_OR_FOLLOWER)
    now_ms = deferred.now_ms
    assert pending.response.error is Error.NOT_COORDINATOR
    (timer,) = deferred.snapshot("g").timers
    assert (timer.kind, timer.member_id, timer.deadline_ms) == ("session", old, now_ms + 10_000)
    deferred.advance_by(9_999)
    assert deferred.describe_group("g").state == "Stable"
    deferred.advance_by(1)
    assert deferred.describe_group("g").state != "Stable"


def test_an_append_that_was_taken_out_can_be_completed_and_never_stands_there_again():
    deferred = GroupCoordinator(appends="deferred")
    pending = [deferred.offset_commit("g", {("t", n): n}) for n in range(4)]
    taken = list(deferred.appends)
    taken[1].complete()
    assert [deferred.appends.popleft(), deferred.appends.popleft()] == [taken[0], taken[2]]
    assert (taken[1] in deferred.appends, taken[3] in deferred.appends) == (False, True)
    assert [*reversed(deferred.appends)] == [taken[3]]
    assert deferred.appends.pop() is taken[3]
    assert len(deferred.appends) == 0
    for append in (taken[3], taken[2], taken[0]):
        append.complete()
    assert [one.status for one in pending] == ["answered"] * 4
    assert [*deferred.appends] == []


def test_a_trace_that_fails_leaves_nobody_waiting_whom_it_answered():
    ids = iter(["first"])

    def member_ids(prefix):
        return next(ids)  # there is no second

    coordinator = GroupCoordinator({"group.initial.rebalance.delay.ms": 3000}, 0, member_ids)
    waiting = coordinator.join_group("g", protocol_type="consumer", protocols={"range": b""})
    trace = load_trace([header(), join_event(5000, 9, "another")])
    with pytest.raises((CoterieError, StopIteration)):
        coordinator.play(trace)
    assert waiting.status == "answered"
    assert waiting.response.member_id == "first"
