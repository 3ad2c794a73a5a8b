"""Appends that finish later, since Kafka 4: who waits, what readers see, what a failure takes back.

The rules are those of CoordinatorRuntime and SnapshottableCoordinator (4.1.1): the newest state has
every record, readers see what is committed, and a failed write reverts its partition.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie import Batch, CoterieError, Error, GroupCoordinator, NotAnswered, Pending
from support.consumer_groups.deferred import CONFIG, beat, complete_all, made, states
from support.coordinator.caller_log import Log
from support.coordinator.classic_group import join, stable
from support.examples import examples


@pytest.fixture
def deferred():
    return made(appends="deferred")


def joined(coordinator, group="g", member="a", **fields):
    answer = beat(coordinator, group, member, **fields)
    complete_all(coordinator)
    return answer.response


def described(coordinator, group="g"):
    return coordinator.consumer_group_describe([group]).groups[0]


def test_a_heartbeat_is_answered_and_its_group_seen_once_its_append_is_complete(deferred):
    answer = beat(deferred)
    (append,) = deferred.appends
    assert (append.kind, append.group_id, append.done) == ("consumer_group", "g", False)
    assert isinstance(answer, Pending)
    assert not answer.done
    with pytest.raises(NotAnswered):
        _ = answer.response
    assert described(deferred).error is Error.GROUP_ID_NOT_FOUND
    assert states(deferred) == {}
    assert deferred.snapshot("g").group_epoch == 1  # the newest state
    append.complete()
    assert answer.response.member_epoch == 1
    assert states(deferred) == {"g": "Stable"}
    assert [batch.base_offset for batch in deferred.log] == [0]


def test_a_request_without_records_waits_for_those_before_it_in_its_partition(deferred):
    joined(deferred), joined(deferred, "h")
    waits_for = deferred.offset_commit("i", {("t", 0): 1})
    same, other = beat(deferred, epoch=1), beat(deferred, "h", epoch=1)
    assert not same.done
    assert other.member_epoch == 1  # of the other partition
    deferred.appends[0].complete()
    assert (same.done, waits_for.done) == (True, True)


def test_a_refusal_does_not_wait(deferred):
    beat(deferred)
    assert beat(deferred, member="b", epoch=4).error is Error.UNKNOWN_MEMBER_ID


def test_a_failed_append_fails_those_after_it_in_its_partition_and_takes_them_back(deferred):
    joined(deferred)
    before = described(deferred)
    first, second = beat(deferred, member="b"), beat(deferred, member="c")
    other, later = beat(deferred, "h"), deferred.offset_commit("i", {("t", 0): 1})
    appends = list(deferred.appends)
    appends[1].complete(Error.NOT_ENOUGH_REPLICAS)
    assert second.response.error is Error.COORDINATOR_NOT_AVAILABLE
    assert later.response.partitions[0].error is Error.COORDINATOR_NOT_AVAILABLE
    assert [append.done for append in appends] == [False, True, False, True]
    assert list(deferred.appends) == [appends[0], appends[2]]
    assert not first.done
    assert not other.done
    appends[0].complete()
    assert {row.member_id for row in described(deferred).members} == {"a", "b"}
    assert before.group_epoch + 1 == described(deferred).group_epoch
    assert deferred.snapshot("i") is None
    with pytest.raises(CoterieError, match="already"):
        appends[3].complete()


def test_appends_of_one_partition_succeed_in_their_order(deferred):
    beat(deferred), beat(deferred, member="b"), beat(deferred, "h")
    first, second, other = deferred.appends
    with pytest.raises(CoterieError, match="in their order"):
        second.complete()
    other.complete()
    first.complete()
    second.complete()
    assert states(deferred) == {"g": "Assigning", "h": "Stable"} or states(deferred) == {
        "g": "Reconciling", "h": "Stable"}  # fmt: skip


def test_an_answer_waits_no_longer_than_the_timeout_and_the_write_stays(deferred):
    answer, late = beat(deferred), deferred.offset_commit("i", {("t", 0): 1})
    deferred.advance_by(4999)
    assert not answer.done
    deferred.advance_by(1)
    assert answer.response.error is Error.COORDINATOR_NOT_AVAILABLE
    assert late.response.partitions[0].error is Error.COORDINATOR_NOT_AVAILABLE
    complete_all(deferred)
    assert described(deferred).members[0].member_id == "a"
    assert deferred.offset_fetch("i", {"t": [0]})["t", 0].offset == 1


@pytest.mark.parametrize("stable_only", [False, True])
def test_a_fetch_sees_committed_offsets_or_waits_to_see_the_newest(deferred, stable_only):
    deferred.offset_commit("g", {("t", 0): 1})
    complete_all(deferred)
    deferred.offset_commit("g", {("t", 0): 2})
    fetched = deferred.offset_fetch("g", {"t": [0]}, require_stable=stable_only)
    if stable_only:
        assert not fetched.done
        deferred.appends[0].complete()
        fetched = fetched.response
    assert fetched["t", 0].offset == (2 if stable_only else 1)


def test_a_timer_whose_write_fails_fires_again_half_a_second_later(deferred):
    joined(deferred)
    deferred.advance_by(45_000)
    (append,) = deferred.appends
    append.complete(Error.REQUEST_TIMED_OUT)
    assert [row.member_id for row in described(deferred).members] == ["a"]
    deferred.advance_by(499)
    assert not deferred.appends
    deferred.advance_by(1)
    complete_all(deferred)
    assert states(deferred) == {"g": "Empty"}


def test_what_waits_when_a_partition_is_given_up_is_refused_and_only_the_log_may_have_it(deferred):
    answer = beat(deferred)
    (append,) = deferred.appends
    deferred.failover()
    assert answer.response.error is Error.NOT_COORDINATOR
    append.complete()
    assert states(deferred) == {}
    deferred.failover()
    assert states(deferred) == {"g": "Stable"}


def test_a_transaction_and_its_marker_are_taken_back_together(deferred):
    deferred.txn_offset_commit("g", {("t", 0): 5}, producer_id=1, producer_epoch=0)
    deferred.end_txn(1, committed=True)
    first, marker = deferred.appends
    assert (first.kind, marker.kind) == ("txn_offset_commit", "end_txn")
    first.complete()
    marker.complete(Error.NOT_ENOUGH_REPLICAS)
    fetched = deferred.offset_fetch("g", {"t": [0]}, require_stable=True)
    assert fetched["t", 0].error is Error.UNSTABLE_OFFSET_COMMIT
    deferred.end_txn(1, committed=True)
    complete_all(deferred)
    assert deferred.offset_fetch("g", {"t": [0]})["t", 0].offset == 5


def test_of_a_transaction_and_a_plain_commit_the_later_position_counts(deferred):
    deferred.txn_offset_commit("g", {("t", 0): 5}, producer_id=1, producer_epoch=0)
    deferred.offset_commit("g", {("t", 0): 6})
    deferred.end_txn(1, committed=True)
    complete_all(deferred)
    assert deferred.offset_fetch("g", {"t": [0]})["t", 0].offset == 6


@pytest.mark.parametrize("error", [Error.NONE, Error.NOT_ENOUGH_REPLICAS])
def test_an_upgrade_that_fails_leaves_the_classic_group_with_its_timers(deferred, error):
    pending = join(deferred)
    complete_all(deferred)
    member = deferred.run_until(pending, limit_ms=60_000).member_id
    deferred.sync_group("g", 1, member, assignments={})
    complete_all(deferred)
    answer = beat(deferred)
    assert deferred.describe_group("g").state == "Stable"
    deferred.appends[0].complete(error)
    if error is Error.NONE:
        assert deferred.describe_group("g").state == "Dead"
        assert len(described(deferred).members) == 2
        return
    assert answer.response.error is Error.COORDINATOR_NOT_AVAILABLE
    assert deferred.heartbeat("g", 1, member).error is Error.NONE
    deferred.advance_by(10_000)  # its session
    assert deferred.snapshot("g").members == ()


@pytest.mark.parametrize("error", [Error.NONE, Error.NOT_ENOUGH_REPLICAS])
def test_a_downgrade_that_fails_leaves_the_consumer_group(deferred, error):
    joined(deferred)
    pending = join(deferred, member_id="b")
    complete_all(deferred)
    assert pending.done
    answer = beat(deferred, epoch=-1)
    assert [row.type for row in deferred.list_groups().groups] == ["consumer"]
    deferred.appends[0].complete(error)
    if error is Error.NONE:
        assert [row.type for row in deferred.list_groups().groups] == ["classic"]
        return
    assert answer.response.error is Error.COORDINATOR_NOT_AVAILABLE
    assert {row.member_id for row in described(deferred).members} == {"a", "b"}
    assert deferred.snapshot("g") == described(deferred)


def test_a_classic_group_goes_on_when_its_assignments_are_committed(deferred):
    pending = join(deferred)
    (append,) = deferred.appends
    assert append.kind == "new_group"
    assert deferred.describe_group("g").state == "Dead"
    append.complete()
    member = deferred.run_until(pending, limit_ms=60_000).member_id
    assert not deferred.sync_group("g", 1, member, assignments={member: b"plan"}).done
    answer = deferred.heartbeat("g", 1, member)
    assert not answer.done
    assert deferred.snapshot("g").state == "CompletingRebalance"
    complete_all(deferred)
    assert answer.response.error is Error.NONE
    assert deferred.snapshot("g").state == "Stable"


@pytest.mark.parametrize("late", [Error.REQUEST_TIMED_OUT, Error.NOT_ENOUGH_REPLICAS])
def test_assignments_that_fail_or_are_late_end_the_generation(deferred, late):
    pending = join(deferred)
    complete_all(deferred)
    member = deferred.run_until(pending, limit_ms=60_000).member_id
    sync = deferred.sync_group("g", 1, member, assignments={member: b"plan"})
    if late is Error.REQUEST_TIMED_OUT:
        deferred.advance_by(5000)
    else:
        deferred.appends[0].complete(late)
    assert sync.response.error is Error.COORDINATOR_NOT_AVAILABLE
    assert deferred.snapshot("g").state == "PreparingRebalance"


def test_a_classic_group_whose_first_record_fails_is_gone(deferred):
    pending = join(deferred)
    deferred.appends[0].complete(Error.NOT_ENOUGH_REPLICAS)
    assert pending.response.error is Error.COORDINATOR_NOT_AVAILABLE
    assert deferred.snapshot("g") is None
    deferred.advance_by(600_000)
    assert not deferred.appends
    pending = join(deferred)
    complete_all(deferred)
    assert deferred.run_until(pending, limit_ms=700_000).generation_id == 1


def test_with_held_commits_classic_groups_wait_too():
    coordinator = made()
    (member,) = stable(coordinator)
    coordinator.handle({"op": "hold_commits"})
    joining = coordinator.join_group("i", protocol_type="consumer", client_id="c",
                                     protocols={"range": b""})  # fmt: skip
    assert not joining.done
    assert not coordinator.heartbeat("g", 1, member).done
    assert states(coordinator) == {"g": "Stable"}
    coordinator.handle({"op": "release_commits"})
    assert states(coordinator) == {"g": "Stable", "i": "PreparingRebalance"}


def test_a_log_that_finishes_later_decides_when_readers_see_it():
    log = Log(later=True)
    coordinator = made(log_sink=log)
    first, second = beat(coordinator), beat(coordinator, member="b")
    assert len(log.batches) == 2
    appends = list(coordinator.appends)
    appends[1].complete(base_offset=101)
    assert not second.done  # the first is not committed
    appends[0].complete(base_offset=100)
    assert first.response.member_epoch == 1
    assert second.done


def test_an_append_that_finishes_at_once_waits_for_an_earlier_one():
    log = Log()
    coordinator = made(log_sink=log)
    log.answers = [None]
    first = beat(coordinator)
    second = coordinator.offset_commit("i", {("t", 0): 1})
    assert not second.done
    coordinator.appends[0].complete(base_offset=99)
    assert (first.done, second.done) == (True, True)


@pytest.mark.parametrize(("error", "answered"), [
    (Error.NOT_ENOUGH_REPLICAS, Error.COORDINATOR_NOT_AVAILABLE),
    (Error.NETWORK_EXCEPTION, Error.COORDINATOR_LOAD_IN_PROGRESS),
])  # fmt: skip
def test_what_waits_for_a_write_that_fails_is_answered_as_its_request_is(deferred, error, answered):
    """A heartbeat of a classic member goes on while the coordinator loads (GroupCoordinator)."""
    (member,) = stable(deferred)
    deferred.offset_commit("i", {("t", 0): 1})
    complete_all(deferred)
    deferred.offset_commit("i", {("t", 0): 2})
    beaten = deferred.heartbeat("g", 1, member)
    fetched = deferred.offset_fetch("i", {"t": [0]}, require_stable=True)
    plain, deleted = deferred.offset_delete("i", []), deferred.delete_groups(["x", "i"])
    committed = deferred.offset_commit("g", {("t", 0): 3}, generation_id=1, member_id=member)
    left = deferred.leave_group("g", [member])
    assert not any(each.done for each in (beaten, fetched, plain, deleted, committed, left))
    deferred.appends[0].complete(error)
    loading = answered is Error.COORDINATOR_LOAD_IN_PROGRESS
    assert beaten.response.error is (Error.NONE if loading else answered)
    assert [each.response.error for each in (plain, left)] == [answered] * 2
    assert fetched.response.error is (answered if loading else Error.NOT_COORDINATOR)
    assert fetched.response.partitions == ()  # GroupCoordinatorService.handleOffsetFetchException
    assert committed.response.partitions[0].error is answered
    assert {row.group_id: row.error for row in deleted.response.groups} == {
        "x": answered, "i": answered}  # fmt: skip


def test_an_answer_that_came_too_late_is_given_once(deferred):
    answers = [beat(deferred), deferred.offset_commit("i", {("t", 0): 1})]
    deferred.advance_by(5000)
    complete_all(deferred)
    assert all(answer.done for answer in answers)
    assert [type(event).__name__ for event in deferred.events].count("Response") == 2


def test_a_load_answers_what_was_held_and_an_append_of_before_fails_without_effect():
    coordinator = made()
    coordinator.handle({"op": "hold_commits"})
    held = beat(coordinator)
    coordinator.failover()
    assert held.response.error is Error.NOT_COORDINATOR
    assert not beat(coordinator, "h").done  # the log itself has not changed
    deferred = made(appends="deferred")
    beat(deferred)
    (append,) = deferred.appends
    deferred.failover()
    append.complete(Error.NOT_ENOUGH_REPLICAS)
    assert states(deferred) == {}
    beat(deferred, member="b")
    complete_all(deferred)
    assert [row.member_id for row in described(deferred).members] == ["b"]


def test_a_group_whose_first_write_failed_reads_no_topic(deferred):
    beat(deferred)
    complete_all(deferred, Error.NOT_ENOUGH_REPLICAS)
    deferred.set_topics({"t": 5})
    joined(deferred, member="b")
    assert [row.partitions for row in described(deferred).members[0].assignment] == [
        (0, 1, 2, 3, 4)
    ]


# ---- whatever happens -----------------------------------------------------------------------

GROUPS, MEMBERS = ("g", "h", "i"), ("a", "b", "c")
groups, members = st.sampled_from(GROUPS), st.sampled_from(MEMBERS)
positions = st.dictionaries(
    st.tuples(st.sampled_from("tu"), st.integers(0, 1)), st.integers(0, 99), min_size=1, max_size=2
)
actions = st.one_of(
    st.tuples(st.just("join"), groups, members, st.sampled_from([["t"], ["u"], ["t", "u"]])),
    st.tuples(st.just("join"), groups, members, st.sampled_from([["t"], ["t", "u"]])),
    st.tuples(st.just("beat"), groups, members, st.booleans()),
    st.tuples(st.just("beat"), groups, members, st.booleans()),
    st.tuples(st.just("leave"), groups, members),
    st.tuples(st.just("static"), groups, st.sampled_from("xy")),
    st.tuples(st.just("away"), groups, st.sampled_from("xy")),
    st.tuples(st.just("commit"), groups, positions),
    st.tuples(st.just("txn"), groups, positions, st.integers(1, 2)),
    st.tuples(st.just("end"), st.integers(1, 2), st.booleans()),
    st.tuples(st.just("delete"), st.lists(groups, unique=True)),
    st.tuples(st.just("delete offsets"), groups),
    st.tuples(st.just("finish"), st.integers(0, 5), st.booleans()),
    st.tuples(st.just("finish"), st.integers(0, 5), st.booleans()),
)


def act(coordinator, epochs, action, *given_):
    """Do what an action says; ``epochs``: of each member, as its last answer had it."""
    if action in ("txn", "end") and any(each.kind == "end_txn" for each in coordinator.appends):
        return None  # a producer's next transaction begins when its marker is written
    if action == "join":
        group, member, names = given_
        answer = beat(coordinator, group, member, subscribed_topic_names=names)
    elif action == "beat":
        group, member, gives_up = given_
        epoch = epochs.get((group, member), 1)
        owned = [] if gives_up else None
        answer = beat(coordinator, group, member, max(epoch, 1), topic_partitions=owned)
    elif action == "static":
        return beat(coordinator, *given_, instance_id="i")
    elif action == "away":
        return beat(coordinator, *given_, -2, instance_id="i")
    elif action == "leave":
        return beat(coordinator, *given_, -1)
    elif action == "commit":
        return coordinator.offset_commit(*given_)
    elif action == "txn":
        group, offsets, producer = given_
        return coordinator.txn_offset_commit(group, offsets, producer_id=producer, producer_epoch=0)
    elif action == "end":
        return coordinator.end_txn(given_[0], committed=given_[1])
    elif action == "delete":
        return coordinator.delete_groups(given_[0])
    else:
        return coordinator.offset_delete(given_[0], [("t", 0), ("t", 1), ("u", 0)])
    if not isinstance(answer, Pending) and answer.error is Error.NONE:
        epochs[group, member] = answer.member_epoch
    return answer


def finish(coordinator, number, succeeds):
    """Complete an append, or fail it; success only of the first of a partition."""
    appends = list(coordinator.appends)
    if not appends:
        return
    append = appends[number % len(appends)]
    try:
        append.complete(Error.NONE if succeeds else Error.NOT_ENOUGH_REPLICAS)
    except CoterieError:
        assert append is not appends[0]


def read(coordinator):
    """All that readers of the committed state see."""
    return (
        [described(coordinator, group) for group in GROUPS],
        coordinator.list_groups(),
        [coordinator.describe_group(group).state for group in GROUPS],
        [coordinator.offset_fetch(group) for group in GROUPS],
    )


def replayed(log):
    coordinator = GroupCoordinator(CONFIG, log=log)
    coordinator.set_topics({"t": 4, "u": 2})
    coordinator.failover()  # the load knows the topics
    return coordinator


@settings(max_examples=examples(120))
@given(st.lists(actions, max_size=25), st.lists(actions, max_size=8))
def test_readers_see_a_replay_of_the_log_and_failed_writes_leave_nothing(before, after):
    deferred, epochs = made(appends="deferred"), {}
    for action in before:
        if action[0] == "finish":
            finish(deferred, *action[1:])
        else:
            act(deferred, epochs, *action)
        assert read(deferred) == read(replayed(deferred.log))
    complete_all(deferred, Error.NOT_ENOUGH_REPLICAS)
    model, known = replayed(deferred.log), dict(epochs)
    assert read(deferred) == read(model)
    # The newest state is that of the replay, too: all goes on as there.
    for action in after:
        if action[0] == "finish":
            continue
        expected = act(model, known, *action)
        answer = act(deferred, epochs, *action)
        complete_all(deferred)
        assert answer_of(answer) == answer_of(expected)
        epochs.update(known)
        assert read(deferred) == read(model)
        assert records(deferred.log) == records(model.log)


def answer_of(answer):
    return answer.response if isinstance(answer, Pending) else answer


def records(log: tuple[Batch, ...]):
    return [batch.records for batch in log]
