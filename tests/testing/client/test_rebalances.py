"""Rebalances of the classic protocol: what listeners are called with, and when.

The rules are those of ConsumerCoordinatorTest and AbstractCoordinatorTest (Kafka 3.9).
"""

import re

import pytest

from coterie import Error
from coterie.errors import ConfigError
from coterie.testing import FencedInstanceIdError, KafkaError
from support.consumers import Listener, Story

RANGE = {"partition.assignment.strategy": "range"}
COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}
ALL = [0, 1, 2]


def two(settings, partitions=3, **cluster):
    """Two members that share the partitions, the second after the first."""
    story = Story(partitions, **cluster)
    for name in "ab":
        story.start(name, settings)
        story.poll()
    return story


def test_an_eager_member_revokes_all_before_it_joins_again():
    story = two(RANGE)
    assert story.take_calls() == [
        ("a", "assigned", ALL),
        ("a", "revoked", ALL),
        ("a", "assigned", [0, 1]),
        ("b", "assigned", [2]),
    ]


def test_a_cooperative_member_revokes_only_what_it_loses():
    # onJoinComplete: it is called with what was added, even if that is nothing
    story = Story()
    for name in "ab":
        story.run(name, COOPERATIVE)
        story.pass_time(10_000)
    assert story.take_calls() == [
        ("a", "assigned", ALL),
        ("a", "revoked", [2]),
        ("a", "assigned", []),
        ("b", "assigned", []),
        ("a", "assigned", []),  # the second rebalance gives it to b
        ("b", "assigned", [2]),
    ]


@pytest.mark.parametrize("assignor", ["range", "sticky", "cooperative-sticky", "roundrobin"])
def test_members_get_partitions_whose_replicas_are_in_their_rack(assignor):
    # KIP-881: RangeAssignor and the sticky ones, where partitions have different racks
    story = Story(4, racks={"orders": [["r1"], ["r2"], ["r1", "r3"], ["r2"]]})
    for name, rack in (("a", "r2"), ("b", "r1")):
        story.run(name, {"partition.assignment.strategy": assignor, "client.rack": rack})
        story.pass_time(20_000)
    owned = {name: {n for _, n in story.consumers[name].assignment()} for name in "ab"}
    by_turns = {"a": {0, 2}, "b": {1, 3}}
    assert owned == (by_turns if assignor == "roundrobin" else {"a": {1, 3}, "b": {0, 2}})


def test_range_before_cooperative_sticky_is_eager():
    # the default of partition.assignment.strategy; ConsumerCoordinator: common protocols
    story = two({})
    assert ("a", "revoked", ALL) in story.take_calls()


@pytest.mark.parametrize(("settings", "reads"), [(RANGE, False), (COOPERATIVE, True)])
def test_a_cooperative_member_goes_on_reading_while_the_group_rebalances(settings, reads):
    story = Story(interval_ms=100)
    a = story.start("a", settings)
    story.poll()
    story.start("b", settings).poll(50)
    story.pass_time(3000)  # a heartbeat tells of the rebalance
    joins = len(story.of("join"))
    assert bool(a.poll(0)) == reads
    assert len(story.of("join")) == joins + 1  # and there is no answer yet


def test_a_member_that_the_coordinator_has_removed_loses_its_partitions():
    # testUnknownMemberIdOnHeartbeat..., testIllegalGenerationOnHeartbeat...
    for error in (Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION):
        story = Story()
        story.start("a")
        story.poll()
        story.take_calls()
        story.cluster.network.fail("a", "heartbeat", error)
        story.poll(60_000)
        assert story.take_calls() == [("a", "lost", ALL), ("a", "assigned", ALL)]


def test_a_listener_without_on_partitions_lost_gets_them_as_revoked():
    # ConsumerRebalanceListener.onPartitionsLost: its default
    calls = []

    class Old:
        def on_partitions_revoked(self, partitions):
            calls.append(len(partitions))

    story = Story()
    story.start("a", listener=Old())
    story.poll()
    story.cluster.network.fail("a", "heartbeat", Error.ILLEGAL_GENERATION)
    story.poll()
    # and the first join revokes nothing: it has no generation to revoke from
    assert calls == [3]


def test_a_member_that_polls_too_late_leaves_and_loses_its_partitions():
    # AbstractCoordinatorTest.testPollTimeoutExpiry...: maybeLeaveGroup
    story = two(RANGE | {"max.poll.interval.ms": 20_000})
    b = story.consumers.pop("b")
    story.take_calls()
    story.poll(30_000)
    late = [at for at, name, kind, _ in story.notes if (name, kind) == ("b", "leave")]
    polled = max(at for at, name, kind, _ in story.notes if (name, kind) == ("b", "poll"))
    assert 20_000 <= late[0] - polled <= 20_000 + 100  # the last poll may have waited for 100 ms
    assert story.take_calls() == [("a", "revoked", [0, 1]), ("a", "assigned", ALL)]
    b.poll(100)
    assert story.take_calls() == [("b", "lost", [2])]


def test_a_poll_that_waits_is_not_late():
    story = Story(interval_ms=None)
    a = story.start("a", RANGE | {"max.poll.interval.ms": 20_000})
    assert a.poll(300_000) == []
    assert not story.of("late")
    assert story.take_calls() == [("a", "assigned", ALL)]


def test_close_revokes_and_leaves():
    # testCloseDynamicAssignment
    story = two(RANGE)
    story.take_calls()
    story.consumers.pop("b").close()
    begin = story.cluster.now_ms
    story.poll(5000)
    assert story.take_calls() == [
        ("b", "revoked", [2]),
        ("a", "revoked", [0, 1]),
        ("a", "assigned", ALL),
    ]
    assigned = [at for at, name, kind, _ in story.notes if (name, kind) == ("a", "assigned")]
    assert assigned[-1] - begin < 3100  # at a's next heartbeat, not after b's session


def test_a_crash_is_seen_when_the_session_ends():
    story = two(RANGE | {"session.timeout.ms": 20_000})
    story.take_calls()
    begin = story.cluster.now_ms
    story.kill("b")
    story.poll(40_000)
    assert story.take_calls() == [("a", "revoked", [0, 1]), ("a", "assigned", ALL)]
    assigned = [at for at, name, kind, _ in story.notes if (name, kind) == ("a", "assigned")]
    assert 17_000 - 100 <= assigned[-1] - begin <= 23_200


def test_a_static_member_does_not_leave_and_comes_back_without_a_rebalance():
    # testLeaveGroup..., KIP-345
    story = Story()
    for name in "ab":
        story.start(name, RANGE | {"group.instance.id": name})
        story.poll()
    story.take_calls()
    story.consumers.pop("b").close()
    story.start("b", RANGE | {"group.instance.id": "b"})
    story.poll()
    assert story.take_calls() == [("b", "revoked", [2]), ("b", "assigned", [2])]
    assert not story.of("leave")


def test_a_second_consumer_with_the_same_instance_id_fences_the_first():
    # testFencedInstanceId..., HeartbeatThread: the next poll of the first one raises
    story = Story()
    first = story.start("a", {"group.instance.id": "one"})
    story.poll()
    story.consumers.clear()
    story.start("b", {"group.instance.id": "one"})
    story.poll()
    with pytest.raises(FencedInstanceIdError):
        first.poll(0)
    story.take_calls()
    assert story.owned() == {"b": ALL}


def test_what_a_listener_raises_ends_the_poll_after_the_assignment_was_taken():
    # testRevokeExceptionThrown..., testSubscribeWithExceptionInListener: the first one is raised
    class Broken(Listener):
        def on_partitions_assigned(self, partitions):
            super().on_partitions_assigned(partitions)
            if partitions:
                raise ValueError("no room")

    story = Story()
    a = story.start("a", listener=Broken("a", story.calls))
    with pytest.raises(KafkaError, match="no room"):
        a.poll(10_000)
    assert story.owned() == {"a": ALL}
    a.poll(0)  # the assignment is complete: the same partitions are not new
    assert story.take_calls() == [("a", "assigned", ALL), ("a", "assigned", [])]


def test_unsubscribe_revokes_and_leaves_and_another_subscription_joins():
    story = Story()
    a = story.start("a")
    story.poll()
    story.take_calls()
    a.unsubscribe()
    assert story.take_calls() == [("a", "revoked", ALL)]
    assert not a.assignment()
    assert len(story.of("leave")) == 1
    a.subscribe(["orders"], Listener("a", story.calls))
    story.poll()
    assert story.take_calls() == [("a", "assigned", ALL)]


def test_a_changed_subscription_joins_again():
    # testSubscriptionChange...: rejoinNeededOrPending compares it with the joined one
    story = Story()
    story.cluster.create_topic("payments", 2)
    a = story.start("a")
    story.poll()
    story.take_calls()
    a.subscribe(["payments"], Listener("a", story.calls))
    story.poll()
    assert story.take_calls() == [("a", "revoked", ALL), ("a", "assigned", [0, 1])]


def test_the_leader_sees_new_partitions_when_its_metadata_is_refreshed():
    # testMetadataChangeTriggersRebalance, metadata.max.age.ms
    story = two(RANGE | {"metadata.max.age.ms": 60_000})
    story.cluster.add_partitions("orders", 5)
    story.poll(30_000)
    assert sum(map(len, story.owned().values())) == 3
    story.poll(40_000)
    assert story.owned() == {"a": [0, 1, 2], "b": [3, 4]}


def test_a_leader_refreshes_its_metadata_for_topics_that_are_new_to_it_only():
    # SubscriptionState.groupSubscribe: whether there are topics that it does not subscribe to
    story = Story()
    story.start("a", RANGE)
    story.poll()
    story.cluster.add_partitions("orders", 5)
    story.start("b", RANGE)
    story.poll()
    assert story.owned() == {"a": [0, 1], "b": [2]}
    story.cluster.create_topic("payments", 2)
    story.start("c", RANGE, subscribe=False).subscribe(["payments"])
    story.poll()
    assert story.owned() == {"a": [0, 1, 2], "b": [3, 4], "c": [0, 1]}


def test_an_assignment_of_known_topics_refreshes_no_metadata():
    # ConsumerCoordinator.maybeUpdateJoinedSubscription: only topics that are new to it do
    class Creates(Listener):
        def on_partitions_assigned(self, partitions):
            if "payments" not in story.cluster.topics:
                story.cluster.create_topic("payments", 2)

    story = Story()
    a = story.start("a", RANGE | {"metadata.max.age.ms": 60_000}, subscribe=False)
    a.subscribe(re.compile(".*"), Creates("a", story.calls))
    story.poll(50_000)
    assert story.owned() == {"a": ALL}
    story.poll(20_000)
    assert story.owned() == {"a": [0, 0, 1, 1, 2]}


def test_a_leader_forgets_the_topics_of_members_that_have_left():
    # ConsumerCoordinator.onLeaderElected: the metadata snapshot of the present subscriptions
    settings = RANGE | {"metadata.max.age.ms": 60_000}
    story = Story()
    story.cluster.create_topic("payments", 2)
    story.start("a", settings)
    story.start("b", settings, subscribe=False).subscribe(["payments"])
    story.poll(20_000)
    assert story.owned() == {"a": ALL, "b": [0, 1]}
    story.consumers.pop("b").close()
    story.poll(20_000)
    story.notes.clear()
    story.poll(150_000)
    assert story.of("join") == []  # nothing has changed


def test_a_deleted_topic_is_seen_at_once_by_those_who_read_it():
    # FetchCollector: UNKNOWN_TOPIC_OR_PARTITION asks for metadata
    story = two(RANGE)
    story.cluster.delete_topic("orders")
    story.poll(10_000)
    assert story.owned() == {"a": [], "b": []}
    story.cluster.create_topic("orders", 4)
    story.poll(10_000)
    assert story.owned() == {"a": [0, 1], "b": [2, 3]}


def test_a_rebalance_waits_for_no_member_longer_than_its_rebalance_timeout():
    story = two(RANGE | {"max.poll.interval.ms": 20_000})
    story.consumers.pop("b")
    story.take_calls()
    story.consumers["a"].enforce_rebalance()
    story.poll(25_000)
    assert story.take_calls() == [("a", "revoked", [0, 1]), ("a", "assigned", ALL)]


def test_members_go_on_after_a_fail_over():
    story = two(RANGE)
    story.take_calls()
    story.cluster.fail_over(load_ms=2000)
    values = story.poll(60_000)
    assert story.take_calls() == []
    assert len(values) == 180
    assert story.consumers["a"].commit() is None


def test_the_new_coordinator_may_be_of_another_release():
    """Of 3.9, which refuses the consumer protocol, then of 4.4, which knows the group's members."""
    story = two(RANGE, config={"coterie.behaviour": "3.9"})
    story.take_calls()
    story.cluster.fail_over(config={"coterie.behaviour": "4.4"})
    story.poll(60_000)
    assert story.take_calls() == []
    story.start("c", {"group.protocol": "consumer"})
    story.poll(60_000)
    assert sorted(story.owned().values()) == [[0], [1], [2]]
    with pytest.raises(ConfigError):
        story.cluster.fail_over(config={"coterie.behaviour": "5"})
    assert not story.cluster.loading


def test_a_join_that_a_fail_over_interrupts_is_tried_again():
    story = Story()
    story.start("a").poll(50)  # JoinGroup waits for the initial rebalance delay
    story.cluster.fail_over(load_ms=2000)
    story.poll(10_000)
    assert story.take_calls() == [("a", "assigned", ALL)]


def test_a_member_that_is_cut_off_is_replaced_and_comes_back():
    story = two(RANGE | {"session.timeout.ms": 10_000})
    story.take_calls()
    story.cluster.network.cut("b")
    story.poll(30_000)
    assert story.take_calls() == [("a", "revoked", [0, 1]), ("a", "assigned", ALL)]
    assert story.owned() == {"a": ALL, "b": [2]}  # b cannot know
    story.cluster.network.heal("b")
    story.poll(10_000)
    assert story.take_calls()[:1] == [("b", "lost", [2])]
    assert sorted(map(len, story.owned().values())) == [1, 2]


def test_a_paused_process_sends_no_heartbeats():
    story = Story()
    for name in "ab":
        story.run(name, RANGE)
        story.pass_time(10_000)
    story.take_calls()
    story.processes["b"].pause()
    story.pass_time(60_000)
    assert story.take_calls() == [("a", "revoked", [0, 1]), ("a", "assigned", ALL)]
    story.processes["b"].resume()
    story.pass_time(20_000)
    assert story.take_calls()[0] == ("b", "lost", [2])
