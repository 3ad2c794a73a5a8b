"""What a consumer subscribes to, and what its listener raises; how a consumer is named and ends.

Rules: SubscriptionState, ConsumerCoordinator, ConsumerRebalanceListenerInvoker (Kafka 3.9) and
AsyncKafkaConsumer (4.1).
"""

import re

import pytest

from coterie import ArgumentError
from coterie.testing import Consumer, IllegalStateError, KafkaError, SubscriptionPattern
from coterie.testing.client.errors import InvalidGroupIdError
from coterie.testing.process import Process
from support.consumers import Listener, Recorder, Story

CONFIG = {"coterie.behaviour": "4.1"}
CLASSIC = {"partition.assignment.strategy": "range"}
COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}
CONSUMER = {"group.protocol": "consumer"}
EACH = pytest.mark.parametrize(
    "settings", [CLASSIC, COOPERATIVE, CONSUMER], ids=["range", "cooperative", "consumer"]
)
ORDERS = re.compile("orders.*")
FIRST, SECOND = ("orders", 0), ("orders", 1)


class Raising(Listener):
    """Raises a given exception in each method that has one."""

    def __init__(self, name, calls, **failures):
        super().__init__(name, calls)
        self.failures = failures

    def _called(self, what, partitions):
        super()._called(what, partitions)
        if what in self.failures:
            raise self.failures[what]


def subscribed(settings, topics, **cluster):
    """A story with some topics and one consumer that subscribes to these."""
    story = Story(2, CONFIG, **cluster)
    for name in ("orders-2", "my-orders", "payments"):
        story.cluster.create_topic(name, 1)
    consumer = story.start("a", settings, subscribe=False)
    consumer.subscribe(topics, Listener("a", story.calls))
    return story, consumer


def topics_of(consumer):
    return {topic for topic, _ in consumer.assignment()}


@EACH
def test_an_expression_takes_the_topics_whose_whole_name_it_matches(settings):
    # SubscriptionState.matchesSubscribedPattern: Matcher.matches
    story, consumer = subscribed(settings, ORDERS)
    story.poll()
    assert consumer.subscription() == topics_of(consumer) == {"orders", "orders-2"}
    assert consumer.assignment() == {FIRST, SECOND, ("orders-2", 0)}


@EACH
def test_an_expression_takes_new_topics_when_the_metadata_are_refreshed(settings):
    story, consumer = subscribed(settings | {"metadata.max.age.ms": 20_000}, ORDERS)
    story.poll(5000)
    story.cluster.create_topic("orders-3", 1)
    story.poll(14_000)
    assert "orders-3" not in consumer.subscription()
    story.poll(16_000)
    assert "orders-3" in consumer.subscription()
    assert topics_of(consumer) == {"orders", "orders-2", "orders-3"}


def test_an_assignment_without_unknown_topics_leaves_the_metadata_until_their_age():
    # ConsumerCoordinator.maybeUpdateJoinedSubscription: only of topics that are not subscribed
    story = Story(2, CONFIG)
    consumer = story.start("a", CLASSIC | {"metadata.max.age.ms": 20_000}, subscribe=False)

    class Creating(Listener):
        def on_partitions_assigned(self, partitions):
            super().on_partitions_assigned(partitions)
            if len(partitions) == 2:
                story.cluster.create_topic("orders-2", 1)

    consumer.subscribe(ORDERS, Creating("a", story.calls))
    story.poll(15_000)
    assert "orders-2" in story.cluster.topics
    assert consumer.subscription() == {"orders"}
    story.poll(25_000)
    assert topics_of(consumer) == consumer.subscription() == {"orders", "orders-2"}


def test_a_leader_refreshes_its_metadata_for_topics_of_other_members_alone():
    # ConsumerCoordinator.updateGroupSubscription, SubscriptionState.groupSubscribe
    story = Story(2, CONFIG)
    story.cluster.create_topic("payments", 1)
    consumer = story.start("a", CLASSIC | {"metadata.max.age.ms": 10**6})
    story.poll(10_000)
    story.cluster.add_partitions("orders", 4)
    consumer.enforce_rebalance()
    story.poll(5_000)
    assert story.owned() == {"a": [0, 1]}
    other = story.start("b", CLASSIC, subscribe=False)
    other.subscribe(["payments"], Listener("b", story.calls))
    story.poll(10_000)
    assert story.owned() == {"a": [0, 1, 2, 3], "b": [0]}


def test_a_follower_takes_a_matching_topic_that_it_does_not_know_yet():
    # ConsumerCoordinator.maybeUpdateJoinedSubscription
    story = Story(2, CONFIG, make_coordinator=Recorder)
    for name, age_ms in (("a", 20_000), ("b", 10**6)):
        consumer = story.start(name, CLASSIC | {"metadata.max.age.ms": age_ms}, subscribe=False)
        consumer.subscribe(ORDERS, Listener(name, story.calls))
        story.poll()
    story.cluster.create_topic("orders-2", 2)
    story.poll(40_000)
    assert {name: topics_of(one) for name, one in story.consumers.items()} == {
        "a": {"orders", "orders-2"}, "b": {"orders", "orders-2"},
    }  # fmt: skip
    assert story.consumers["b"].subscription() == {"orders", "orders-2"}
    joins = len(story.cluster.coordinator.of("join_group"))
    story.poll(60_000)
    assert len(story.cluster.coordinator.of("join_group")) == joins


@pytest.mark.parametrize("settings", [CLASSIC, COOPERATIVE], ids=["range", "cooperative"])
def test_an_assignment_for_a_former_subscription_is_not_taken(settings):
    # ConsumerCoordinator.onJoinComplete: assignmentMatchedSubscription, else it joins again
    story, consumer = subscribed(settings, ["orders"])
    consumer.poll(100)  # the join waits
    consumer.subscribe(["payments"], Listener("a", story.calls))
    story.poll(20_000)
    assert story.take_calls()[-1] == ("a", "assigned", [0])
    assert [numbers for _, what, numbers in story.calls if what == "assigned"] == []
    assert consumer.assignment() == {("payments", 0)}


@EACH
def test_a_changed_subscription_gives_up_the_topics_that_it_has_no_more(settings):
    # onJoinPrepare: a cooperative member revokes what it is not subscribed to
    story, consumer = subscribed(settings, ["orders", "payments"])
    story.poll()
    assert story.take_calls()[-1][1] == "assigned"
    consumer.subscribe(["payments", "my-orders"], Listener("a", story.calls))
    story.poll(20_000)
    assert topics_of(consumer) == {"payments", "my-orders"}
    calls = story.take_calls()
    if settings is CLASSIC:
        assert calls == [("a", "revoked", [0, 1, 0]), ("a", "assigned", [0, 0])]
    else:  # payments stays
        assert calls[:1] + calls[-1:] == [("a", "revoked", [0, 1]), ("a", "assigned", [0])]


@pytest.mark.parametrize("kind", ["topics", "pattern", "partitions", "server pattern"])
def test_one_way_to_choose_excludes_the_others_until_unsubscribe(kind):
    story = Story(2, CONFIG)
    consumer = story.start("a", CONSUMER, subscribe=False)
    ways = {
        "topics": lambda: consumer.subscribe(["orders"]),
        "pattern": lambda: consumer.subscribe(ORDERS),
        "partitions": lambda: consumer.assign([FIRST]),
        "server pattern": lambda: consumer.subscribe(SubscriptionPattern("o.*")),
    }
    assert (consumer.subscription(), consumer.assignment()) == (set(), set())
    ways[kind]()
    ways[kind]()
    for other in ways.keys() - {kind}:
        with pytest.raises(IllegalStateError, match="exclude each other"):
            ways[other]()
    assert consumer.subscription() == ({"orders"} if kind == "topics" else set())
    assert consumer.assignment() == ({FIRST} if kind == "partitions" else set())
    for end in (consumer.unsubscribe, lambda: consumer.subscribe([]), lambda: consumer.assign([])):
        end()
        assert (consumer.subscription(), consumer.assignment()) == (set(), set())
        with pytest.raises(IllegalStateError, match="before poll"):
            consumer.poll(0)
        for way in ways.values():
            way()
            consumer.unsubscribe()
        ways[kind]()


def test_after_an_expression_a_subscription_has_its_own_topics_alone():
    for settings in (CLASSIC, CONSUMER):
        story, consumer = subscribed(settings, ORDERS)
        story.poll()
        consumer.unsubscribe()
        consumer.subscribe(["payments"])
        story.poll(60_000)
        assert topics_of(consumer) == {"payments"}


@pytest.mark.parametrize(
    ("topics", "named"),
    [(5, "topics"), ("orders", "topics"), ([5], "a topic"), (["orders", " "], "an empty name"),
     (SubscriptionPattern("o"), "needs group.protocol=consumer")],
)  # fmt: skip
def test_what_is_no_subscription_is_refused(topics, named):
    consumer = Story(1).start("a", subscribe=False)
    with pytest.raises(ArgumentError, match=named):
        consumer.subscribe(topics)
    assert consumer.subscription() == set()


def test_the_coordinator_matches_a_subscription_pattern():
    pytest.importorskip("re2")
    story, consumer = subscribed(CONSUMER, SubscriptionPattern("my-.*"), make_coordinator=Recorder)
    story.poll()
    assert topics_of(consumer) == {"my-orders"}
    fields = story.cluster.coordinator.of("consumer_group_heartbeat")[0][1]
    assert (fields["subscribed_topic_names"], fields["subscribed_topic_regex"]) == ([], "my-.*")
    for wrong in ("", 5):
        with pytest.raises(ArgumentError, match="the pattern"):
            consumer.subscribe(SubscriptionPattern(wrong))
    consumer.unsubscribe()
    consumer.subscribe(["orders"])
    story.poll()
    assert topics_of(consumer) == {"orders"}


# Listeners that raise


@EACH
def test_an_error_of_a_client_in_a_listener_is_raised_as_it_is_and_others_are_wrapped(settings):
    for failure in (KafkaError("mine"), ValueError("theirs")):
        story = Story(2, CONFIG)
        story.start("a", settings, listener=Raising("a", story.calls, assigned=failure))
        with pytest.raises(KafkaError) as raised:
            story.poll()
        if isinstance(failure, KafkaError):
            assert raised.value is failure
        else:
            assert "the rebalance listener raised ValueError('theirs')" in str(raised.value)
            assert raised.value.__cause__ is failure


@EACH
@pytest.mark.parametrize("ends", ["unsubscribe", "close"])
def test_a_listener_that_fails_at_the_end_does_not_keep_the_member(settings, ends):
    story = Story(2, CONFIG, make_coordinator=Recorder)
    listener = Raising("a", story.calls)
    consumer = story.start("a", settings, listener=listener)
    story.poll()
    listener.failures["revoked"] = ValueError("no")
    story.take_calls()
    with pytest.raises(KafkaError, match="no"):
        getattr(consumer, ends)()
    assert story.take_calls() == [("a", "revoked", [0, 1])]
    seen = story.cluster.coordinator.seen
    story.pass_time(100)
    seen.clear()
    story.pass_time(60_000)
    if ends == "close":
        assert seen == []
        with pytest.raises(IllegalStateError, match="has been closed"):
            consumer.poll(0)


def test_the_first_failure_of_a_cooperative_rebalance_is_raised_after_both_calls():
    # ConsumerCoordinator.onJoinComplete: firstException
    story = Story(2)
    listener = Raising("a", story.calls)
    story.start("a", COOPERATIVE, listener=listener)
    story.poll()
    story.take_calls()
    listener.failures.update(revoked=ValueError("one"), assigned=ValueError("two"))
    story.start("b", COOPERATIVE).poll(10)
    story.pass_time(3500)
    with pytest.raises(KafkaError, match="one"):
        story.poll(20_000, 50)
    assert story.take_calls()[:2] == [("a", "revoked", [1]), ("a", "assigned", [])]


# Names, and ends


def test_a_consumer_has_the_name_of_its_settings_or_its_process():
    cluster = Story(1).cluster
    process = Process(cluster.schedule, "process")
    named = Consumer(cluster, {"client.id": "c", "group.id": "g"}, process=process)
    assert (named.client_id, repr(named)) == ("c", "<Consumer c of 'g'>")
    assert Consumer(cluster, {}, process=process).client_id == "process"
    assert Consumer(cluster, {}).client_id == "consumer"
    for wrong in ({"cluster": 5}, {"process": 5}):
        with pytest.raises(ArgumentError, match=f"{next(iter(wrong))} must be a"):
            Consumer(**{"cluster": cluster, "settings": {}} | wrong)


def test_a_block_closes_its_consumer():
    story = Story(1)
    with story.start("a") as consumer:
        consumer.poll(10_000)
    assert story.of("closed") == [None]
    assert len(story.of("leave")) == 1
    with pytest.raises(IllegalStateError):
        consumer.assignment()


def test_without_a_group_there_is_nothing_to_rebalance():
    consumer = Consumer(Story(1).cluster, {})
    with pytest.raises(IllegalStateError, match="no group to rebalance"):
        consumer.enforce_rebalance()
    with pytest.raises(KafkaError, match=r"needs a group\.id"):
        consumer.committed([FIRST])


def test_assigning_other_partitions_commits_the_positions_before_if_that_is_due():
    # KafkaConsumer.assign: maybeAutoCommitOffsetsAsync
    story = Story(2)
    settings = {"enable.auto.commit": True, "auto.commit.interval.ms": 20_000}
    consumer = story.start("a", settings, subscribe=False)
    consumer.assign([FIRST])
    consumer.poll(5000)
    position = consumer.position(FIRST)
    story.pass_time(5000)
    consumer.assign([FIRST])
    assert story.of("commit") == []
    story.pass_time(15_000)
    consumer.assign([SECOND])
    (offsets,) = story.of("commit")
    assert {tp: at.offset for tp, at in offsets.items()} == {FIRST: position}


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        (lambda c: c.seek(FIRST, 2**63), ArgumentError, "offset"),
        (lambda c: c.seek(FIRST, "5"), ArgumentError, "offset"),
        (lambda c: c.seek(("orders",), 5), ArgumentError, "a pair of topic and number"),
        (lambda c: c.seek((5, 0), 5), ArgumentError, "a topic"),
        (lambda c: c.pause([SECOND]), IllegalStateError, "for partition orders-1"),
        (lambda c: c.position(SECOND), IllegalStateError, "no current assignment"),
        (lambda c: c.seek_to_end([SECOND]), IllegalStateError, "no current assignment"),
        (lambda c: c.offsets_for_times([FIRST]), ArgumentError, "times_ms must map partitions"),
        (lambda c: c.offsets_for_times({FIRST: -1}), ArgumentError, "a time"),
        (lambda c: c.end_offsets(5), ArgumentError, "partitions"),
        (lambda c: c.partitions_for(5), ArgumentError, "topic"),
        (lambda c: c.poll(-1), ArgumentError, "timeout_ms"),
        (lambda c: c.commit_async(callback=5), ArgumentError, "callback"),
    ],
)
def test_calls_refuse_what_they_cannot_use(call, error, named):
    story = Story(2)
    consumer = story.start("a", subscribe=False)
    consumer.assign([FIRST])
    with pytest.raises(error, match=named):
        call(consumer)
    consumer.seek(FIRST, 2**63 - 1)
    assert consumer.position(FIRST) == 2**63 - 1


CALLS = {
    "subscribe": (["orders"],), "unsubscribe": (), "assign": ([FIRST],), "assignment": (),
    "subscription": (), "poll": (0,), "commit": (), "commit_async": (), "committed": ([FIRST],),
    "position": (FIRST,), "seek": (FIRST, 0), "seek_to_beginning": (), "seek_to_end": (),
    "pause": ([FIRST],), "resume": ([FIRST],), "paused": (), "beginning_offsets": ([FIRST],),
    "end_offsets": ([FIRST],), "offsets_for_times": ({FIRST: 0},), "current_lag": (FIRST,),
    "partitions_for": ("orders",), "group_metadata": (), "enforce_rebalance": (),
}  # fmt: skip


def test_a_closed_consumer_refuses_every_call():
    # KafkaConsumer.acquireAndEnsureOpen
    public = {name for name in vars(Consumer) if not name.startswith("_")}
    assert public - {"close", "wakeup"} == CALLS.keys()
    for settings in (CLASSIC, CONSUMER):
        story = Story(2, CONFIG)
        consumer = story.start("a", settings)
        story.poll()
        consumer.close()
        story.notes.clear()
        began_ms = story.cluster.now_ms
        for name, given in CALLS.items():
            with pytest.raises(IllegalStateError, match="this consumer has been closed"):
                getattr(consumer, name)(*given)
        assert (story.notes, story.cluster.now_ms) == ([], began_ms)


@EACH
def test_partitions_are_given_up_in_their_order_whatever_was_read_last(settings):
    for ends in ("unsubscribe", "close"):
        story = Story(4, CONFIG, interval_ms=400)
        consumer = story.start("a", settings | {"max.poll.records": 1})
        story.poll(10_000)  # it reads the partitions in turns
        story.take_calls()
        consumer.seek(("orders", 0), 0)
        for _ in range(3):
            consumer.poll(500)
        getattr(consumer, ends)()
        assert story.take_calls() == [("a", "revoked", [0, 1, 2, 3])]


def test_a_group_of_the_consumer_protocol_follows_the_topics_of_the_cluster():
    story, consumer = subscribed(CONSUMER, ["orders", "later"])
    story.poll(10_000)
    assert consumer.assignment() == {FIRST, SECOND}
    cluster = story.cluster
    for change, expected in (
        (lambda: cluster.add_partitions("orders", 3), {FIRST, SECOND, ("orders", 2)}),
        (lambda: cluster.create_topic("later", 1), {FIRST, SECOND, ("orders", 2), ("later", 0)}),
        (lambda: cluster.delete_topic("orders"), {("later", 0)}),
    ):
        change()
        story.poll(12_000)
        assert consumer.assignment() == expected


def test_a_poll_that_waits_gets_the_first_record_of_a_topic_that_begins_to_produce():
    story = Story(1, interval_ms=None)
    consumer = story.start("a", subscribe=False)
    consumer.assign([FIRST])
    consumer.poll(1000)
    cluster = story.cluster
    cluster.schedule.call_later(500, cluster.produce, "orders", 3000)
    (record,) = consumer.poll(60_000)
    assert (record.timestamp, cluster.now_ms) == (4500, 4500 + cluster.latency_ms)


@pytest.mark.parametrize("settings", [CLASSIC, CONSUMER], ids=["classic", "consumer"])
def test_a_closed_consumer_is_closed_before_it_lacks_a_group(settings):
    consumer = Consumer(Story(1).cluster, {**settings, "client.id": "alone"})
    with pytest.raises(InvalidGroupIdError):
        consumer.subscribe(["orders"])
    with pytest.raises(InvalidGroupIdError):
        consumer.commit()
    with pytest.raises(InvalidGroupIdError):
        consumer.committed([FIRST])
    consumer.close()
    with pytest.raises(IllegalStateError, match="has been closed"):
        consumer.committed([FIRST])
    with pytest.raises(IllegalStateError, match="has been closed"):
        consumer.subscribe(["orders"])
    with pytest.raises(IllegalStateError, match="has been closed"):
        consumer.commit()
