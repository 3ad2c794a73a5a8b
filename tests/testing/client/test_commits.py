"""Commits of a consumer: which error of a broker raises what, and what happens next.

The rules are those of ConsumerCoordinatorTest (Kafka 3.9), whose tests are named.
"""

from itertools import pairwise

import pytest

from coterie import ArgumentError, Error, OffsetAndMetadata
from coterie._core.codec.schema import decode_value
from coterie.consumer_groups import encode_topic_id
from coterie.coordinator.consumer_requests import derived_topic_id
from coterie.testing import (
    CommitFailedError,
    FencedInstanceIdError,
    KafkaError,
    KafkaTimeoutError,
    RebalanceInProgressError,
    RetriableCommitFailedError,
)
from coterie.testing.client.errors import StaleMemberEpochError
from support.consumers import Story

FIRST, SECOND, THIRD = (("orders", number) for number in range(3))
OFFSETS = {FIRST: 7}


@pytest.fixture
def story():
    story = Story()
    story.start("a")
    story.poll()
    story.take_calls()
    return story


def committed(story):
    return story.consumers["a"].committed([FIRST])[FIRST]


@pytest.mark.parametrize(
    "error",
    [
        Error.NOT_COORDINATOR,  # testCommitOffsetSyncNotCoordinator
        Error.COORDINATOR_NOT_AVAILABLE,  # testCommitOffsetSyncCoordinatorNotAvailable
        Error.COORDINATOR_LOAD_IN_PROGRESS,  # testRetryCommitUnknownTopicOrPartition and others
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.REQUEST_TIMED_OUT,
    ],
)
def test_commit_is_sent_again_after_an_error_that_may_pass(story, error):
    story.cluster.network.fail("a", "offset_commit", error, times=2)
    story.consumers["a"].commit(OFFSETS)
    assert committed(story).offset == 7
    assert [len(offsets) for offsets in story.of("commit")] == [1, 1, 1]


def test_commit_is_sent_again_after_a_disconnection_although_it_was_carried_out(story):
    # testCommitOffsetSyncCoordinatorDisconnected
    story.cluster.network.lose_response("a", "offset_commit")
    story.consumers["a"].commit(OFFSETS)
    assert len(story.of("commit")) == 2
    assert committed(story).offset == 7


@pytest.mark.parametrize(
    ("error", "raised", "calls"),
    [
        # testCommitOffsetRebalanceInProgress: the member joins again in the next poll
        (Error.REBALANCE_IN_PROGRESS, RebalanceInProgressError, ["revoked", "assigned"]),
        # testCommitOffsetUnknownMemberId, ...IllegalGeneration...: the partitions are lost
        (Error.UNKNOWN_MEMBER_ID, CommitFailedError, ["lost", "assigned"]),
        (Error.ILLEGAL_GENERATION, CommitFailedError, ["lost", "assigned"]),
        # testCommitOffsetMetadataTooLarge...: of no consequence for the membership
        (Error.OFFSET_METADATA_TOO_LARGE, KafkaError, []),
        (Error.FENCED_INSTANCE_ID, FencedInstanceIdError, []),
    ],
)
def test_commit_raises_what_a_retry_cannot_help(story, error, raised, calls):
    story.cluster.network.fail("a", "offset_commit", error)
    with pytest.raises(raised):
        story.consumers["a"].commit(OFFSETS)
    assert len(story.of("commit")) == 1
    assert committed(story) is None
    story.poll(60_000)  # the former member's session has to end
    assert [what for _, what, _ in story.take_calls()] == calls


def test_illegal_generation_keeps_the_member_id_and_unknown_member_does_not(story):
    # testCommitOffsetIllegalGenerationShouldResetGenerationId, ...UnknownMemberId
    consumer = story.consumers["a"]
    ids = [consumer.group_metadata().member_id]
    for error in (Error.ILLEGAL_GENERATION, Error.UNKNOWN_MEMBER_ID):
        story.cluster.network.fail("a", "offset_commit", error)
        with pytest.raises(CommitFailedError):
            consumer.commit(OFFSETS)
        story.poll(60_000)
        ids.append(consumer.group_metadata().member_id)
    assert ids[0] == ids[1] != ids[2]


def test_commit_ends_with_its_timeout(story):
    # testCommitOffsetSyncCallbackWithNonRetriableException's neighbour: commitSync's Timer
    story.cluster.network.fail("a", "offset_commit", Error.NOT_COORDINATOR, times=10**6)
    begin = story.cluster.now_ms
    with pytest.raises(KafkaTimeoutError):
        story.consumers["a"].commit(OFFSETS, timeout_ms=5000)
    assert story.cluster.now_ms == begin + 5000


def test_commit_of_nothing_needs_no_request(story):
    story.consumers["a"].commit({})
    assert story.of("commit") == []


def test_commit_by_default_takes_all_positions(story):
    consumer = story.consumers["a"]
    consumer.commit()
    positions = {tp: consumer.position(tp) for tp in consumer.assignment()}
    offsets = consumer.committed(consumer.assignment())
    assert {tp: at.offset for tp, at in offsets.items()} == positions


def test_the_callback_of_an_asynchronous_commit_runs_in_a_later_call(story):
    # testCommitOffsetAsyncWithDefaultCallback, invokeCompletedOffsetCommitCallbacks
    done = []
    consumer = story.consumers["a"]
    consumer.commit_async(OFFSETS, lambda *outcome: done.append(outcome))
    story.pass_time(1000)
    assert done == []
    assert committed(story).offset == 7
    consumer.poll(0)
    assert [error for _, error in done] == [None]
    assert list(done[0][0]) == [FIRST]


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (Error.NOT_COORDINATOR, RetriableCommitFailedError),  # testCommitOffsetAsyncNotCoordinator
        (Error.COORDINATOR_LOAD_IN_PROGRESS, RetriableCommitFailedError),
        (Error.UNKNOWN_MEMBER_ID, CommitFailedError),
        (Error.REBALANCE_IN_PROGRESS, RebalanceInProgressError),
    ],
)
def test_an_asynchronous_commit_is_not_sent_again(story, error, raised):
    failures = []
    consumer = story.consumers["a"]
    story.cluster.network.fail("a", "offset_commit", error)
    consumer.commit_async(OFFSETS, lambda offsets, failure: failures.append(failure))
    story.pass_time(1000)
    consumer.poll(0)
    assert [type(one) for one in failures] == [raised]
    assert len(story.of("commit")) == 1


def test_a_disconnected_asynchronous_commit_may_be_retried(story):
    # testCommitOffsetAsyncDisconnected
    failures = []
    consumer = story.consumers["a"]
    story.cluster.network.lose_response("a", "offset_commit")
    consumer.commit_async(OFFSETS, lambda offsets, failure: failures.append(failure))
    story.poll(1000)
    assert [type(one) for one in failures] == [RetriableCommitFailedError]
    assert committed(story).offset == 7


def test_a_fenced_asynchronous_commit_ends_all_later_polls_and_commits():
    # testCommitAsyncWithUserAssignedType's neighbour: asyncCommitFenced
    story = Story()
    consumer = story.start("a", {"group.instance.id": "one"})
    story.poll()
    story.cluster.network.fail("a", "offset_commit", Error.FENCED_INSTANCE_ID)
    consumer.commit_async(OFFSETS)
    story.pass_time(1000)
    for call in (lambda: consumer.poll(0), lambda: consumer.commit(OFFSETS)):
        with pytest.raises(FencedInstanceIdError):
            call()


def test_commits_of_a_synchronous_call_come_after_asynchronous_ones(story):
    # testCommitAsync...OrderedCallbacks: a commit() runs the callbacks of those sent before
    order = []
    consumer = story.consumers["a"]
    for offset in (1, 2):
        consumer.commit_async({FIRST: offset}, lambda offsets, _: order.append(offsets))
    consumer.commit(OFFSETS)
    assert [one[FIRST].offset for one in order] == [1, 2]
    assert committed(story).offset == 7


def test_a_member_in_a_rebalance_cannot_commit(story):
    # testCommitOffsetShouldNotSetInstanceIdIfMemberIdIsUnknown's neighbour: generationIfStable
    story.start("b").poll(50)
    story.pass_time(3000)  # a heartbeat tells of the rebalance
    a = story.consumers["a"]
    a.poll(0)  # it joins again
    with pytest.raises(RebalanceInProgressError):
        a.commit(OFFSETS)


def test_a_consumer_outside_of_the_group_commits_what_it_assigned_itself():
    # testCommitOffsetOnly, testAutoCommitManualAssignment
    story = Story()
    consumer = story.start("a", {"enable.auto.commit": True}, subscribe=False)
    consumer.assign([FIRST])
    consumer.poll(5000)
    position = consumer.position(FIRST)
    story.pass_time(5000)
    consumer.poll(0)
    story.pass_time(10)
    assert committed(story).offset == position


@pytest.mark.parametrize("interval_ms", [1000, 5000])
def test_automatic_commits_come_in_polls_after_the_interval(interval_ms):
    # testAutoCommitDynamicAssignment
    story = Story()
    settings = {"enable.auto.commit": True, "auto.commit.interval.ms": interval_ms}
    consumer = story.start("a", settings)
    story.poll(4000)
    story.notes.clear()
    story.pass_time(20_000)
    assert story.of("commit") == []  # only a poll commits
    consumer.poll(0)
    assert len(story.of("commit")) == 1
    story.notes.clear()
    begin = story.cluster.now_ms
    story.poll(4 * interval_ms)
    times = [at - begin for at, _, kind, _ in story.notes if kind == "commit"]
    assert times == [interval_ms, 2 * interval_ms, 3 * interval_ms]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_without_an_interval_each_poll_commits_once_and_waits(protocol):
    # maybeAutoCommitOffsetsAsync: the timer has always expired
    story = Story(config={"coterie.behaviour": "4.1"})
    settings = {"enable.auto.commit": True, "auto.commit.interval.ms": 0}
    consumer = story.start("a", {**settings, "group.protocol": protocol})
    story.poll(20_000)
    story.cluster.produce("orders", None)
    consumer.poll(1000)
    story.notes.clear()
    begin = story.cluster.now_ms
    for _ in range(3):
        assert consumer.poll(1000) == []
    assert story.cluster.now_ms == begin + 3000
    times = [at - begin for at, _, kind, _ in story.notes if kind == "commit"]
    assert times == [0, 1000, 2000]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_commits_have_the_ids_of_their_topics_since_4_3(protocol):
    story = Story(config={"coterie.behaviour": "4.4"})
    consumer = story.start("a", {"group.protocol": protocol})
    story.poll(20_000)
    consumer.commit({FIRST: OffsetAndMetadata(7, 3, "m"), SECOND: 8})
    values = [decode_value(1, value)["data"] for batch in story.cluster.coordinator.log
              for key, value in batch.records if key[:2] == b"\0\1"][-2:]  # fmt: skip
    assert [(each["offset"], each["metadata"]) for each in values] == [(7, "m"), (8, "")]
    assert {each["topicId"] for each in values} == {encode_topic_id(derived_topic_id("orders"))}
    assert consumer.committed([FIRST])[FIRST] == OffsetAndMetadata(7, 3, "m")


def test_without_an_interval_another_assignment_commits_the_positions_of_the_one_before():
    # KafkaConsumer.assign: maybeAutoCommitOffsetsAsync
    story = Story()
    settings = {"enable.auto.commit": True, "auto.commit.interval.ms": 0}
    consumer = story.start("a", settings, subscribe=False)
    consumer.assign([FIRST])
    consumer.poll(5000)
    at = consumer.position(FIRST)
    story.notes.clear()
    consumer.assign([SECOND])
    assert story.of("commit") == [{FIRST: OffsetAndMetadata(at)}]


@pytest.mark.parametrize(
    ("op", "tries", "call"),
    [
        ("offset_commit", 2, lambda consumer: consumer.commit(OFFSETS, timeout_ms=300)),
        ("offset_fetch", 2, lambda consumer: consumer.committed([FIRST], timeout_ms=300)),
        ("list_offsets", 3, lambda consumer: consumer.end_offsets([FIRST], timeout_ms=300)),
    ],
)
def test_a_call_whose_time_is_over_after_a_backoff_does_not_try_again(op, tries, call):
    # Timer.notExpired; backoffs of 100 and 200 ms, of ListOffsets always 100 ms
    story = Story(latency_ms=0)
    consumer = story.start("a", subscribe=False)
    consumer.commit(OFFSETS)  # the coordinator is known
    story.cluster.network.fail("a", op, Error.COORDINATOR_LOAD_IN_PROGRESS, times=tries)
    begin = story.cluster.now_ms
    with pytest.raises(KafkaTimeoutError):
        call(consumer)
    assert story.cluster.now_ms - begin == 300
    call(consumer)


def test_without_an_interval_a_commit_that_failed_is_sent_again_after_the_backoff():
    story = Story()
    consumer = story.start("a", {"enable.auto.commit": True, "auto.commit.interval.ms": 0})
    story.poll(20_000)
    story.cluster.produce("orders", None)
    consumer.poll(1000)
    story.notes.clear()
    story.cluster.network.fail("a", "offset_commit", Error.COORDINATOR_LOAD_IN_PROGRESS)
    begin = story.cluster.now_ms
    consumer.poll(1000)
    times = [at - begin for at, _, kind, _ in story.notes if kind == "commit"]
    assert times == [0, 102]  # retry.backoff.ms after the answer


def test_automatic_commits_come_before_a_rebalance_and_before_the_end():
    # testAutoCommitDynamicAssignmentRebalance, testCommitAfterLeaveGroup; onJoinPrepare, close
    story = Story()
    consumer = story.start("a", {"enable.auto.commit": True, "auto.commit.interval.ms": 10**6})
    story.poll(20_000)
    story.notes.clear()
    consumer.enforce_rebalance()
    consumer.poll(1000)
    consumer.poll(1000)
    consumer.close()
    kinds = [kind for _, _, kind, _ in story.notes if kind in ("commit", "revoked", "leave")]
    assert kinds == ["commit", "revoked", "commit", "revoked", "leave"]


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_the_commit_before_a_rebalance_is_repeated_while_that_may_help(strategy):
    # ConsumerCoordinator.onJoinPrepare: retriable errors, until max.poll.interval.ms
    story = Story()
    settings = {"enable.auto.commit": True, "auto.commit.interval.ms": 10**6}
    consumer = story.start("a", {**settings, "partition.assignment.strategy": strategy})
    story.poll(20_000)
    story.take_calls()
    story.notes.clear()
    error = Error.COORDINATOR_LOAD_IN_PROGRESS
    story.cluster.network.fail("a", "offset_commit", error, times=2)
    consumer.enforce_rebalance()
    story.poll(10_000)
    commits = [at for at, _, kind, _ in story.notes if kind == "commit"]
    assert [round(after - before, -2) for before, after in pairwise(commits)] == [100, 100]
    outcomes = [outcome for _, outcome in story.of("committed")]
    assert outcomes == ["RetriableError", "RetriableError", None]
    joined = next(at for at, _, kind, _ in story.notes if kind == "join")
    assert commits[-1] < joined
    assert [what for _, what, _ in story.take_calls()] == (
        ["revoked", "assigned"] if strategy == "range" else ["assigned"]
    )


@pytest.mark.parametrize(
    ("offsets", "named"),
    [
        ([FIRST], "offsets must map partitions to offsets"),
        ({FIRST: -1}, "an offset must be from 0"),
        ({FIRST: OffsetAndMetadata(-1)}, "an offset must be from 0"),
        ({FIRST: 2**63}, "an offset"),
        ({FIRST: "7"}, "an offset"),
        ({FIRST: OffsetAndMetadata(7, metadata=5)}, "metadata"),
        ({FIRST: OffsetAndMetadata(7, leader_epoch=2**31)}, "leader_epoch"),
        ({("orders",): 7}, "a partition must be a pair"),
        ({("orders", -1): OffsetAndMetadata(7)}, "a partition must be from 0"),
    ],
)
def test_offsets_that_no_partition_has_are_refused(story, offsets, named):
    for call in (story.consumers["a"].commit, story.consumers["a"].commit_async):
        with pytest.raises(ArgumentError, match=named):
            call(offsets)
    assert story.of("commit") == []


def test_committed_offsets_come_back_with_all_their_fields(story):
    consumer = story.consumers["a"]
    offsets = {FIRST: OffsetAndMetadata(2**63 - 1, 4, "one"), SECOND: OffsetAndMetadata(0, 3, "")}
    consumer.commit(offsets)
    assert consumer.committed([SECOND, THIRD, FIRST]) == {**offsets, THIRD: None}


@pytest.mark.parametrize("large", [FIRST, SECOND, THIRD])
def test_an_error_of_any_partition_is_raised_and_the_others_are_committed(story, large):
    consumer = story.consumers["a"]
    offsets = {tp: OffsetAndMetadata(7) for tp in (FIRST, SECOND, THIRD)}
    offsets[large] = OffsetAndMetadata(7, metadata="x" * 4097)  # offset.metadata.max.bytes
    with pytest.raises(KafkaError, match="OFFSET_METADATA_TOO_LARGE"):
        consumer.commit(offsets)
    found = consumer.committed([FIRST, SECOND, THIRD])
    assert [tp for tp, at in found.items() if at is None] == [large]


def test_a_commit_from_outside_of_an_active_group_fails(story):
    # ConsumerCoordinator.OffsetCommitResponseHandler: UNKNOWN_MEMBER_ID
    other = story.start("other", subscribe=False)
    other.assign([FIRST])
    with pytest.raises(CommitFailedError):
        other.commit(OFFSETS)
    assert other.assignment() == {FIRST}


def test_a_commit_of_nothing_waits_for_asynchronous_ones_up_to_its_timeout(story):
    # KafkaConsumer.commitSync: waits for the completion of pending asynchronous commits
    done = []
    consumer = story.consumers["a"]
    story.cluster.network.slow("a", 500)
    consumer.commit_async(OFFSETS, lambda *outcome: done.append(outcome))
    began_ms = story.cluster.now_ms
    with pytest.raises(KafkaTimeoutError):
        consumer.commit({}, timeout_ms=700)
    assert (story.cluster.now_ms - began_ms, done) == (700, [])
    consumer.commit({})
    assert story.cluster.now_ms - began_ms == 2 * (500 + 1)
    assert done == [({FIRST: OffsetAndMetadata(7)}, None)]


@pytest.mark.parametrize("fails", [False, True])
def test_an_asynchronous_commit_looks_for_the_coordinator_once(fails):
    # ConsumerCoordinator.commitOffsetsAsync: pendingAsyncCommits
    story = Story(interval_ms=None)
    consumer, done = story.start("a", subscribe=False), []
    if fails:
        story.cluster.network.fail("a", "find_coordinator", Error.COORDINATOR_NOT_AVAILABLE)
    consumer.commit_async(OFFSETS, lambda *outcome: done.append(outcome))
    consumer.assign([SECOND])
    for _ in range(3):  # the look-up, the commit, and the callback
        consumer.poll(100)
    ((offsets, failure),) = done
    assert offsets == {FIRST: OffsetAndMetadata(7)}
    assert type(failure) is (RetriableCommitFailedError if fails else type(None))
    assert (committed(story) is None) == fails


@pytest.mark.parametrize(
    ("op", "error", "is_lost"),
    [  # OffsetCommitResponseHandler, OffsetFetchResponseHandler: markCoordinatorUnknown
        *(
            (op, error, True)
            for op in ("offset_commit", "offset_fetch")
            for error in (Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_COORDINATOR)
        ),
        ("offset_commit", Error.REQUEST_TIMED_OUT, True),
        ("offset_commit", Error.COORDINATOR_LOAD_IN_PROGRESS, False),
        ("offset_commit", Error.UNKNOWN_TOPIC_OR_PARTITION, False),
        ("offset_fetch", Error.COORDINATOR_LOAD_IN_PROGRESS, False),
        ("offset_fetch", Error.UNSTABLE_OFFSET_COMMIT, False),
    ],
)
def test_after_some_errors_a_commit_or_its_fetch_looks_for_the_coordinator_again(
    op, error, is_lost
):
    story = Story(interval_ms=None)
    consumer = story.start("a", subscribe=False)
    consumer.commit(OFFSETS)
    story.cluster.network.fail("a", op, error)
    began_ms = story.cluster.now_ms
    if op == "offset_commit":
        consumer.commit(OFFSETS)
    else:
        assert committed(story).offset == 7
    # the answer, retry.backoff.ms, the look-up if there is one, and the next answer
    assert story.cluster.now_ms - began_ms == 2 + 100 + 2 * is_lost + 2


@pytest.mark.parametrize(
    ("is_read_before", "raised"), [(True, CommitFailedError), (False, RebalanceInProgressError)]
)
def test_a_commit_of_a_generation_that_is_over_fences_nobody(story, is_read_before, raised):
    # OffsetCommitResponseHandler: generationUnchanged, PREPARING_REBALANCE
    consumer, done = story.consumers["a"], []
    story.cluster.network.slow("a", 500)
    story.cluster.network.fail("a", "offset_commit", Error.FENCED_INSTANCE_ID)
    consumer.commit_async(OFFSETS, lambda *outcome: done.append(outcome))
    consumer.unsubscribe()
    story.pass_time(2000)
    if is_read_before:  # the next join
        consumer.committed([FIRST])
    consumer.subscribe(["orders"])
    story.poll(60_000)
    ((_, failure),) = done
    assert type(failure) is raised


@pytest.mark.parametrize(
    "error", [Error.OFFSET_METADATA_TOO_LARGE, Error.GROUP_AUTHORIZATION_FAILED]
)
def test_close_does_not_raise_what_its_last_commit_failed_with(error):
    # ConsumerCoordinator.maybeAutoCommitOffsetsSync
    story = Story()
    consumer = story.start("a", {"enable.auto.commit": True, "auto.commit.interval.ms": 10**6})
    story.poll(20_000)
    story.notes.clear()
    story.cluster.network.fail("a", "offset_commit", error)
    consumer.close()
    ((_, failure),) = story.of("committed")
    assert failure is not None
    story.pass_time(10)
    assert not story.cluster.call("describe_group", "g").members  # it has left all the same


def test_a_second_close_does_nothing():
    story = Story()
    consumer = story.start("a", {"enable.auto.commit": True, "auto.commit.interval.ms": 10**6})
    story.poll(20_000)
    consumer.close()
    story.notes.clear()
    consumer.close()
    story.pass_time(1000)
    assert [kind for _, name, kind, _ in story.notes if name == "a"] == []


@pytest.mark.parametrize(("timeout_ms", "waited_ms"), [(5000, 1002), (700, 700)])
def test_close_waits_for_the_answers_to_asynchronous_commits(timeout_ms, waited_ms):
    story = Story(interval_ms=None)
    consumer, done = story.start("a", subscribe=False), []
    consumer.committed([FIRST])
    story.cluster.network.slow("a", 500)
    consumer.commit_async(OFFSETS, lambda *outcome: done.append(outcome))
    began_ms = story.cluster.now_ms
    consumer.close(timeout_ms)
    assert story.cluster.now_ms - began_ms == waited_ms
    assert done == []  # Kafka's client does not run them either


def test_close_finds_the_coordinator_for_asynchronous_commits():
    story = Story(interval_ms=None)
    consumer = story.start("a", subscribe=False)
    consumer.commit_async(OFFSETS)
    consumer.close()
    assert story.cluster.call("offset_fetch", "g").partitions[0].offset == 7


@pytest.mark.parametrize(
    ("error", "backoffs"),
    [
        (Error.COORDINATOR_LOAD_IN_PROGRESS, True),
        (Error.NOT_COORDINATOR, True),
        (Error.UNSTABLE_OFFSET_COMMIT, True),
        (Error.UNKNOWN_TOPIC_OR_PARTITION, False),
        (Error.GROUP_AUTHORIZATION_FAILED, False),
    ],
)
def test_a_fetch_of_committed_offsets_is_repeated_while_that_may_help(story, error, backoffs):
    # ConsumerCoordinator.OffsetFetchResponseHandler
    consumer = story.consumers["a"]
    consumer.commit(OFFSETS)
    story.cluster.network.fail("a", "offset_fetch", error, times=3)
    began_ms = story.cluster.now_ms
    if backoffs:
        assert committed(story).offset == 7
        assert round(story.cluster.now_ms - began_ms, -2) == 100 + 200 + 400
    else:
        with pytest.raises(KafkaError):
            committed(story)
        assert story.cluster.now_ms - began_ms == 2
    story.cluster.network.end_faults("a")
    story.cluster.network.fail("a", "offset_fetch", Error.NOT_COORDINATOR, times=1000)
    began_ms = story.cluster.now_ms
    with pytest.raises(KafkaTimeoutError, match="committed offsets were not found in time"):
        consumer.committed([FIRST], timeout_ms=2500)
    assert story.cluster.now_ms - began_ms == 2500


def test_a_fetch_of_committed_offsets_is_not_repeated_with_an_epoch_that_nobody_has():
    # CommitRequestManager.fetchOffsetsWithRetries: only if the member has another epoch by then
    story = Story(config={"coterie.behaviour": "4.1"})
    consumer = story.start("a", {"group.protocol": "consumer"}, subscribe=False)
    consumer.assign([FIRST])
    story.cluster.network.fail("a", "offset_fetch", Error.STALE_MEMBER_EPOCH)
    with pytest.raises(StaleMemberEpochError):
        consumer.committed([FIRST])
    assert consumer.committed([FIRST]) == {FIRST: None}


@pytest.mark.parametrize("fault", ["lose_request", "lose_response"])
def test_a_fetch_of_committed_offsets_is_repeated_after_a_disconnection(story, fault):
    story.consumers["a"].commit(OFFSETS)
    getattr(story.cluster.network, fault)("a", "offset_fetch")
    assert committed(story).offset == 7
