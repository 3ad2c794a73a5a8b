"""Positions, records, and what moves them; after KafkaConsumerTest and FetcherTest (Kafka 3.9)."""

import pytest

from coterie import ArgumentError, ConfigError, Error, OffsetAndMetadata
from coterie.testing import (
    Consumer,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    WakeupError,
)
from support.consumers import Listener, Story

FIRST, SECOND, THIRD = [("orders", number) for number in range(3)]


def reader(settings=(), **cluster):
    """A consumer that has assigned itself the first partition, with a record each second."""
    story = Story(**{"interval_ms": 1000} | cluster)
    consumer = story.start("a", settings, subscribe=False)
    consumer.assign([FIRST])
    return story, consumer


def offsets(records):
    return [record.offset for record in records]


def test_records_come_once_each_and_in_order():
    _, consumer = reader()
    found = [record for _ in range(20) for record in consumer.poll(1000)]
    assert offsets(found) == list(range(len(found)))
    assert len(found) >= 18
    assert all(record.timestamp <= 20_000 for record in found)


def test_a_poll_returns_as_soon_as_a_record_is_there():
    story, consumer = reader(interval_ms=7000)
    first = consumer.poll(60_000)
    assert [record.timestamp for record in first] == [2333]  # a third of the interval
    assert story.cluster.now_ms == 2333 + story.cluster.latency_ms
    assert consumer.poll(6000) == []
    assert story.cluster.now_ms == 2334 + 6000


def test_a_poll_returns_at_most_max_poll_records():
    # PlaintextConsumerTest.testMaxPollRecords
    story, consumer = reader({"max.poll.records": 4})
    story.pass_time(10_000)
    consumer.poll(10)
    assert [len(consumer.poll(0)) for _ in range(3)] == [4, 2, 0]


def test_partitions_take_turns():
    story = Story(interval_ms=100)
    consumer = story.start("a", {"max.poll.records": 30}, subscribe=False)
    consumer.assign([FIRST, SECOND, THIRD])
    story.pass_time(20_000)
    seen = [{record.partition for record in consumer.poll(10)} for _ in range(24)]
    assert {number for numbers in seen for number in numbers} == {0, 1, 2}


def test_a_partition_whose_records_are_all_read_is_read_after_the_others():
    # FetchCollector: a partition goes on in the next poll while it has more; then others come
    story = Story(2, interval_ms=1000)
    consumer = story.start("a", {"max.poll.records": 3}, subscribe=False)
    consumer.assign([FIRST, SECOND])
    for tp in (FIRST, SECOND):
        consumer.seek(tp, 0)
    story.pass_time(4400)  # four records of each
    turns = [[(one.partition, one.offset) for one in consumer.poll(0)] for _ in range(2)]
    assert turns == [[(0, 0), (0, 1), (0, 2)], [(0, 3), (1, 0), (1, 1)]]
    consumer.seek(FIRST, 1)
    consumer.seek(SECOND, 1)
    assert [(one.partition, one.offset) for one in consumer.poll(0)] == [(1, 1), (1, 2), (1, 3)]
    consumer.seek(SECOND, 2)
    assert [one.partition for one in consumer.poll(0)] == [0, 0, 0]


def test_unsubscribe_drops_what_the_application_has_assigned():
    _, consumer = reader()
    consumer.unsubscribe()
    assert consumer.assignment() == set()
    with pytest.raises(IllegalStateError):
        consumer.position(FIRST)
    consumer.assign([SECOND])
    assert consumer.assignment() == {SECOND}
    consumer.assign([])
    assert consumer.assignment() == set()


def test_it_goes_on_from_the_committed_offset():
    # KafkaConsumerTest.testFetchProgress..., testResetToCommittedOffset
    story, consumer = reader({"auto.offset.reset": "latest"})
    consumer.commit({FIRST: 3})
    story.pass_time(10_000)
    assert offsets(consumer.poll(100))[0] == 3


@pytest.mark.parametrize(("policy", "first"), [("earliest", 0), ("latest", 10)])
def test_without_a_committed_offset_it_begins_by_the_reset_policy(policy, first):
    # testResetUsingAutoResetPolicy
    story, consumer = reader({"auto.offset.reset": policy})
    story.pass_time(10_000)
    assert offsets(consumer.poll(5000))[0] == first


def test_without_a_committed_offset_and_a_policy_the_poll_raises():
    # testMissingOffsetNoResetPolicy
    _, consumer = reader({"auto.offset.reset": "none"})
    with pytest.raises(NoOffsetForPartitionError) as raised:
        consumer.poll(100)
    assert raised.value.partitions == [FIRST]


@pytest.mark.parametrize("position", [2, 10**6])
def test_a_position_outside_of_the_log_raises_or_is_reset(position):
    # FetcherTest.testFetchOffsetOutOfRangeException, testFetchOffsetOutOfRange
    story, consumer = reader({"auto.offset.reset": "none"})
    story.pass_time(10_000)
    story.cluster.delete_records("orders", 0, 5)
    consumer.seek(FIRST, position)
    with pytest.raises(OffsetOutOfRangeError) as raised:
        consumer.poll(100)
    assert raised.value.partitions == {FIRST: position}
    story, consumer = reader()
    story.pass_time(10_000)
    story.cluster.delete_records("orders", 0, 5)
    consumer.seek(FIRST, position)
    assert offsets(consumer.poll(100))[0] == 5


def test_a_position_that_the_client_does_not_see_yet_is_not_out_of_range():
    story, consumer = reader({"auto.offset.reset": "none"}, latency_ms=600)
    consumer.seek(FIRST, 0)
    story.pass_time(9_400)  # ten records, of which nine have had the time to come
    assert len(consumer.poll(0)) == 9
    story.cluster.delete_records("orders", 0, 10)
    for position in (10, 9):  # the begin of the log, and what is gone from it
        consumer.seek(FIRST, position)
        if position == 10:
            assert consumer.poll(0) == []
        else:
            with pytest.raises(OffsetOutOfRangeError):
                consumer.poll(0)


def test_seek_sets_the_next_record_and_does_not_commit():
    story, consumer = reader()
    story.pass_time(10_000)
    consumer.poll(100)
    consumer.seek(FIRST, 4)
    assert consumer.position(FIRST) == 4
    assert offsets(consumer.poll(100))[0] == 4
    consumer.seek(FIRST, OffsetAndMetadata(2))
    assert offsets(consumer.poll(100))[0] == 2
    assert consumer.committed([FIRST]) == {FIRST: None}
    with pytest.raises(ArgumentError):
        consumer.seek(FIRST, -1)  # testSeekNegative
    with pytest.raises(IllegalStateError):
        consumer.seek(SECOND, 1)  # not assigned


def test_seek_to_the_ends_is_looked_up_by_the_next_call():
    story, consumer = reader()
    story.pass_time(10_000)
    consumer.poll(100)
    consumer.seek_to_beginning()
    assert consumer.position(FIRST) == 0
    consumer.seek_to_end([FIRST])
    assert consumer.position(FIRST) == story.cluster.now_ms // 1000
    assert consumer.beginning_offsets([FIRST]) == {FIRST: 0}
    assert consumer.end_offsets([FIRST]) == {FIRST: story.cluster.now_ms // 1000}
    assert consumer.current_lag(FIRST) == 0


def test_offsets_for_times_is_the_first_record_not_before():
    story, consumer = reader()
    story.pass_time(10_000)
    second = consumer.poll(10)[1]
    at = second.timestamp
    for ms, found in ((at - 1, (1, at)), (at, (1, at)), (at + 1, (2, at + 1000)), (10**9, None)):
        assert consumer.offsets_for_times({FIRST: ms}) == {FIRST: found}


def test_paused_partitions_give_nothing_until_they_are_resumed():
    # KafkaConsumerTest.testPause, PlaintextConsumerTest.testPartitionPauseAndResume
    _story, consumer = reader()
    consumer.pause([FIRST])
    assert consumer.paused() == {FIRST}
    assert consumer.poll(10_000) == []
    consumer.resume([FIRST])
    assert offsets(consumer.poll(10)) == list(range(10))
    assert consumer.paused() == set()


def test_a_pause_is_lost_with_the_partition_but_not_over_a_cooperative_rebalance():
    # SubscriptionState.assignFromSubscribed: partitions that stay keep their state
    for strategy, paused in (("range", set()), ("cooperative-sticky", {FIRST, SECOND, THIRD})):
        story = Story()
        a = story.start("a", {"partition.assignment.strategy": strategy})
        story.poll()
        a.pause(a.assignment())
        a.enforce_rebalance()
        story.poll()
        assert a.paused() == paused


def test_a_position_waits_for_its_look_up_until_the_timeout():
    story, consumer = reader()
    story.cluster.network.cut("a")
    begin = story.cluster.now_ms
    with pytest.raises(KafkaTimeoutError):
        consumer.position(FIRST, timeout_ms=3000)
    assert story.cluster.now_ms == begin + 3000


def test_a_look_up_that_fails_is_repeated_soon_and_the_poll_waits_for_it():
    story, consumer = reader(interval_ms=None)
    story.cluster.produce("orders", 1000)
    story.pass_time(5000)
    story.cluster.network.fail("a", "list_offsets", Error.LEADER_NOT_AVAILABLE, times=3)
    begin = story.cluster.now_ms
    assert len(consumer.poll(60_000)) == 5
    assert 300 <= story.cluster.now_ms - begin < 700  # retry.backoff.ms each


def test_a_client_that_is_cut_off_has_only_the_records_that_reached_it():
    story, consumer = reader()
    consumer.poll(5000)
    story.pass_time(5000)
    story.cluster.network.cut("a")
    story.pass_time(20_000)
    before = offsets(consumer.poll(1000))
    assert consumer.poll(10_000) == []
    story.cluster.network.heal("a")
    assert offsets(consumer.poll(1000))[0] == before[-1] + 1


def test_no_records_come_after_production_stops():
    story, consumer = reader()
    consumer.poll(5000)
    story.cluster.produce("orders", None)
    consumer.poll(10)
    assert consumer.poll(60_000) == []
    story.cluster.produce("orders", 1000)
    assert len(consumer.poll(60_000)) == 1


def test_a_poll_waits_when_its_topic_has_fewer_partitions_than_it_reads():
    story = Story()
    consumer = story.start("a", subscribe=False)
    consumer.assign([("orders", 0), ("orders", 2)])
    story.cluster.delete_topic("orders")
    story.cluster.create_topic("orders", 1, None)
    consumer.seek(("orders", 0), 0)
    consumer.seek(("orders", 2), 0)
    for _ in range(3):
        assert consumer.poll(5000) == []
    assert story.cluster.now_ms == 15_000
    story.cluster.add_partitions("orders", 3)
    story.cluster.produce("orders", 1000)
    assert {record.partition for record in consumer.poll(5000) + consumer.poll(5000)} == {0, 2}


def test_wakeup_ends_the_poll_that_waits():
    story, consumer = reader(interval_ms=None)
    story.cluster.schedule.call_later(500, consumer.wakeup)
    with pytest.raises(WakeupError):
        consumer.poll(60_000)
    assert story.cluster.now_ms == 500
    assert consumer.poll(100) == []


def test_ways_to_choose_partitions_exclude_each_other():
    # testSubscribingCustomInterceptor...: SUBSCRIPTION_EXCEPTION_MESSAGE
    _, consumer = reader()
    with pytest.raises(IllegalStateError):
        consumer.subscribe(["orders"])
    consumer.unsubscribe()
    consumer.subscribe(["orders"], Listener("a", []))
    with pytest.raises(IllegalStateError):
        consumer.assign([FIRST])


def test_a_poll_needs_a_subscription_and_a_closed_consumer_does_nothing():
    # testPollThrowsOnNoSubscription..., testOperationsBySubscribing..., close is idempotent
    story = Story()
    consumer = story.start("a", subscribe=False)
    with pytest.raises(IllegalStateError):
        consumer.poll(0)
    for timeout_ms in (-1, "5", 1.5):
        with pytest.raises(ArgumentError, match="timeout_ms"):
            consumer.close(timeout_ms)
    consumer.close()
    consumer.close()
    with pytest.raises(IllegalStateError):
        consumer.subscribe(["orders"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"group.idd": "g"}, "'group.idd' is no setting of a consumer; did you mean 'group.id'?"),
        ({"session.timeout.ms": 0}, "session.timeout.ms must be from 1"),
        ({"auto.offset.reset": "first"}, "auto.offset.reset must be one of latest, earliest, none"),
        ({"enable.auto.commit": "maybe"}, "enable.auto.commit must be true or false"),
        ({"partition.assignment.strategy": "fair"}, "'fair' is not known; known are range,"),
        ({"heartbeat.interval.ms": 45_000}, "heartbeat.interval.ms must be below"),
        ({"enable.auto.commit": True}, "enable.auto.commit must be false without a group.id"),
        ({"group.id": ""}, "group.id must not be empty"),
    ],
)
def test_bad_settings_are_refused_in_one_line(settings, message):
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")) as refused:
        Consumer(Story().cluster, settings)
    assert "\n" not in str(refused.value)


def test_settings_may_be_text_as_in_a_file():
    consumer = Consumer(
        Story().cluster,
        {
            "bootstrap.servers": "broker:9092",
            "group.id": "g",
            "max.poll.records": "7",
            "enable.auto.commit": "FALSE",
            "partition.assignment.strategy": "org.apache.kafka.clients.consumer.StickyAssignor",
        },
    )
    assert consumer._settings["max.poll.records"] == 7
    assert consumer._settings["partition.assignment.strategy"] == ["sticky"]


def test_calls_that_need_a_group_are_refused_without_one():
    consumer = Consumer(Story().cluster, {})
    for call in (lambda: consumer.subscribe(["orders"]), consumer.commit, consumer.group_metadata):
        with pytest.raises(KafkaError, match=r"needs a group\.id"):
            call()
    consumer.assign([FIRST])
    assert offsets(consumer.poll(5000)) == [0]  # the end was 0 when it began


def test_a_position_that_the_application_seeks_during_a_look_up_stays():
    # SubscriptionState.maybeSeekUnvalidated; OffsetFetch for what is still initializing
    for begin in (lambda c: None, lambda c: c.seek_to_end()):
        story, consumer = reader()
        consumer.commit({FIRST: 2})
        story.pass_time(10_000)
        begin(consumer)
        story.cluster.schedule.call_later(1, consumer.seek, FIRST, 5)
        assert offsets(consumer.poll(100))[0] == 5


def test_an_error_of_a_position_is_raised_when_no_records_are_left_to_return():
    # FetchCollector.collectFetch: an exception waits while there are records
    story = Story(2)
    consumer = story.start("a", {"auto.offset.reset": "none"}, subscribe=False)
    consumer.assign([FIRST, SECOND])
    consumer.seek(FIRST, 0)
    consumer.seek(SECOND, 1000)
    story.pass_time(4000)
    assert {record.partition for record in consumer.poll(0)} == {0}
    with pytest.raises(OffsetOutOfRangeError):
        consumer.poll(0)


@pytest.mark.parametrize(("isolation", "lag"), [("read_uncommitted", 6), ("read_committed", 4)])
def test_the_lag_counts_from_the_position_to_the_end_that_the_consumer_may_read(isolation, lag):
    story, consumer = reader({"isolation.level": isolation}, interval_ms=None)
    log = story.cluster.topics["orders"].logs[0]
    assert consumer.current_lag(FIRST) is None  # no position yet
    for number in range(9):
        log.append(0, None, number, producer_id=7 if number == 7 else None)
    consumer.seek(FIRST, 3)
    story.pass_time(10)
    assert consumer.current_lag(FIRST) == lag
    with pytest.raises(IllegalStateError):
        consumer.current_lag(SECOND)
