"""Consumers of the consumer protocol: callbacks, commits and fencing as in Kafka's client.

The rules are those of AbstractMembershipManager, ConsumerHeartbeatRequestManager,
CommitRequestManager and AsyncKafkaConsumer (Kafka 4.1.1), and of their tests.
"""

import pytest

from coterie import ConfigError, Error
from coterie.testing import (
    Cluster,
    CommitFailedError,
    Consumer,
    KafkaError,
    RetriableCommitFailedError,
)
from support.consumers import SETTINGS, Listener, Story

CONFIG = {"coterie.behaviour": "4.1"}
PROTOCOL = {"group.protocol": "consumer"}
RARELY = {"enable.auto.commit": True, "auto.commit.interval.ms": 1_000_000}


class Raising(Listener):
    """Raises in some of its methods."""

    def __init__(self, name, calls, *kinds):
        super().__init__(name, calls)
        self.kinds = set(kinds)

    def _called(self, what, partitions):
        super()._called(what, partitions)
        if what in self.kinds:
            raise ValueError(what)


def story(**cluster):
    return Story(config=CONFIG, **cluster)


def joined(settings=(), partitions=3):
    """A story with a member ``a`` that owns everything."""
    made = Story(partitions, CONFIG)
    made.start("a", PROTOCOL | dict(settings))
    made.poll()
    made.take_calls()
    return made


def test_a_member_revokes_before_the_other_one_is_assigned():
    group = joined()
    group.start("b", PROTOCOL)
    group.poll(20_000)
    assert group.take_calls() == [
        ("b", "assigned", []),
        ("a", "revoked", [2]),
        ("a", "assigned", []),
        ("b", "assigned", [2]),
    ]


def test_the_assigned_callback_comes_without_new_partitions_too():
    group = joined(partitions=1)
    group.start("b", PROTOCOL)
    group.poll(20_000)
    assert group.take_calls() == [("b", "assigned", [])]


def test_a_poll_calls_back_what_was_committed_before_it_calls_the_listener():
    # AsyncKafkaConsumer.updateAssignmentMetadataIfNeeded: callbacks, then background events
    group = joined()
    a = group.consumers.pop("a")
    a.commit_async({("orders", 0): 1}, lambda *_: group.calls.append("committed"))
    group.start("b", PROTOCOL)
    group.poll(20_000)  # a heartbeats, and does not poll
    group.take_calls()
    a.poll(0)
    assert group.take_calls()[:2] == ["committed", ("a", "revoked", [2])]


def test_positions_are_committed_before_partitions_are_revoked():
    group = joined(RARELY)
    group.start("b", PROTOCOL)
    group.notes.clear()
    group.poll(20_000)
    kinds = [kind for _, client, kind, _ in group.notes if client == "a" and kind != "poll"]
    assert kinds == ["commit", "committed", "revoked", "assigned"]


def test_only_a_poll_commits_before_a_rebalance():
    # the background thread does not know which records have been processed
    group = joined(RARELY)
    a = group.consumers.pop("a")
    group.start("b", PROTOCOL)
    group.notes.clear()
    group.poll(20_000)  # a heartbeats, and does not poll
    assert group.of("commit") == []
    assert group.take_calls() == [("b", "assigned", [])]
    a.poll(0)
    assert len(group.of("commit")) == 1


def test_no_record_of_a_partition_that_is_being_revoked_is_returned():
    group = joined(RARELY)
    group.start("b", PROTOCOL)
    a = group.consumers["a"]
    group.cluster.network.slow("a", 500)  # the commit before the revocation takes a second
    seen = []
    while not group.of("revoked"):
        before = bool(group.of("commit"))
        records = a.poll(100)
        seen += [(before, record.partition) for record in records]
        group.consumers["b"].poll(0)
    last = [partition for before, partition in seen if before]
    assert 2 not in last[1:]


def test_a_stale_epoch_in_the_commit_before_a_rebalance_is_tried_again():
    group = joined(RARELY)
    group.start("b", PROTOCOL)
    group.cluster.network.fail("a", "offset_commit", Error.STALE_MEMBER_EPOCH, times=2)
    group.poll(20_000)
    outcomes = [outcome for _, outcome in group.of("committed")]
    assert outcomes[:3] == ["StaleMemberEpochError", "StaleMemberEpochError", None]
    assert ("a", "revoked", [2]) in group.take_calls()


@pytest.mark.parametrize(
    "error", [Error.OFFSET_METADATA_TOO_LARGE, Error.UNKNOWN_TOPIC_OR_PARTITION]
)
def test_another_error_of_the_commit_does_not_stop_the_rebalance(error):
    # CommitRequestManager.autoCommitSyncBeforeRebalanceWithRetries
    group = joined(RARELY)
    group.start("b", PROTOCOL)
    group.cluster.network.fail("a", "offset_commit", error)
    group.notes.clear()
    group.poll(20_000)
    kinds = [kind for _, name, kind, _ in group.notes if name == "a" and kind != "poll"]
    assert kinds == ["commit", "committed", "revoked", "assigned"]
    assert ("a", "revoked", [2]) in group.take_calls()


@pytest.mark.parametrize("error", [None, Error.OFFSET_METADATA_TOO_LARGE])
def test_without_a_listener_the_commit_is_over_before_partitions_are_revoked(error):
    group = story()
    group.start("a", PROTOCOL | RARELY, subscribe=False).subscribe(["orders"])
    group.poll()
    if error:
        group.cluster.network.fail("a", "offset_commit", error)
    group.start("b", PROTOCOL)
    group.notes.clear()
    group.poll(20_000)
    kinds = [kind for _, client, kind, _ in group.notes if client == "a" and kind != "poll"]
    assert kinds == ["commit", "committed", "revoked", "assigned"]


@pytest.mark.parametrize("error", [Error.FENCED_MEMBER_EPOCH, Error.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_loses_its_partitions_and_joins_again(error):
    group = joined()
    group.cluster.network.fail("a", "consumer_group_heartbeat", error)
    member_id = group.consumers["a"].group_metadata().member_id
    group.poll()
    assert group.take_calls() == [("a", "lost", [0, 1, 2]), ("a", "assigned", [0, 1, 2])]
    assert group.consumers["a"].group_metadata().member_id == member_id


def test_a_member_that_does_not_poll_leaves_and_comes_back_with_the_next_poll():
    group = joined({"max.poll.interval.ms": 20_000})
    group.start("b", PROTOCOL)
    group.consumers.pop("a").commit({("orders", 0): 1})
    polled_ms = group.cluster.now_ms
    group.poll(40_000)
    assert group.owned() == {"b": [0, 1, 2]}
    assert next(at for at, _, kind, _ in group.notes if kind == "late") - polled_ms <= 20_000
    assert group.take_calls() == [("b", "assigned", []), ("b", "assigned", [0, 1, 2])]


@pytest.mark.parametrize(("ms", "calls"), [(19_999, []), (20_000, ["lost", "assigned"])])
def test_a_member_whose_poll_comes_just_too_late_comes_back_with_it(ms, calls):
    # Timer.isExpired: at its deadline
    group = joined({"max.poll.interval.ms": 20_000})
    group.consumers["a"].poll(0)
    group.pass_time(ms)
    group.poll()
    assert group.take_calls() == [("a", call, [0, 1, 2]) for call in calls]


def test_the_lost_partitions_of_a_late_member_are_seen_in_its_next_poll():
    group = joined({"max.poll.interval.ms": 20_000})
    group.pass_time(25_000)
    assert group.take_calls() == []
    group.consumers["a"].poll(0)
    assert group.take_calls() == [("a", "lost", [0, 1, 2])]
    group.poll()
    assert group.take_calls() == [("a", "assigned", [0, 1, 2])]


def test_a_fatal_error_is_raised_and_the_partitions_are_lost():
    group = joined()
    group.cluster.network.fail("a", "consumer_group_heartbeat", Error.UNSUPPORTED_ASSIGNOR)
    with pytest.raises(KafkaError, match="UNSUPPORTED_ASSIGNOR"):
        group.poll()
    assert group.take_calls() == [("a", "lost", [0, 1, 2])]
    group.poll(10_000)
    assert group.take_calls() == []  # it stays out


@pytest.mark.parametrize("error", ["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE",
                                   "COORDINATOR_LOAD_IN_PROGRESS"])  # fmt: skip
def test_errors_of_the_coordinator_cost_no_partitions(error):
    group = joined()
    group.cluster.network.fail("a", "consumer_group_heartbeat", Error[error], times=3)
    group.poll(30_000)
    assert group.take_calls() == []
    assert group.owned() == {"a": [0, 1, 2]}


def test_a_failover_costs_no_partitions():
    group = joined()
    group.cluster.fail_over(2000)
    group.poll(30_000)
    assert group.take_calls() == []
    group.consumers["a"].commit()


def test_topics_are_known_by_the_metadata_while_the_coordinator_loads():
    group = story()
    group.run("a", PROTOCOL)
    group.pass_time(3)  # the assignment is on its way
    group.cluster.fail_over(2000)
    group.pass_time(1000)
    assert group.cluster.loading
    assert group.owned() == {"a": [0, 1, 2]}


def test_a_topic_that_the_metadata_lack_does_not_hold_up_the_others():
    group = story()
    group.cluster.coordinator.set_topics({"elsewhere": 1})
    group.start("a", PROTOCOL).subscribe(["orders", "elsewhere"])
    group.poll(3000)
    assert group.owned() == {"a": [0, 1, 2]}


def test_a_failed_callback_is_raised_and_called_again():
    group = story()
    group.start("a", PROTOCOL, listener=Raising("a", group.calls, "assigned"))
    with pytest.raises(KafkaError, match="ValueError"):
        group.poll()
    assert group.take_calls() == [("a", "assigned", [0, 1, 2])]
    with pytest.raises(KafkaError, match="ValueError"):
        group.poll()
    assert group.take_calls() == [("a", "assigned", [])]


def test_a_revocation_that_failed_is_called_again_before_anything_is_given_up():
    group = story()
    listener = Raising("a", group.calls, "revoked")
    a = group.start("a", PROTOCOL, listener=listener)
    group.poll()
    group.start("b", PROTOCOL)
    group.take_calls()
    for _ in range(2):
        with pytest.raises(KafkaError, match="ValueError"):
            group.poll(20_000)
        assert group.take_calls()[-1] == ("a", "revoked", [2])
        assert {number for _, number in a.assignment()} == {0, 1, 2}
    listener.kinds.clear()
    group.poll(20_000)
    assert group.take_calls() == [
        ("a", "revoked", [2]), ("a", "assigned", []), ("b", "assigned", [2]),
    ]  # fmt: skip


def test_no_record_is_returned_before_the_assigned_callback_has_succeeded():
    group = story()
    listener = Raising("a", group.calls, "assigned")
    a = group.start("a", PROTOCOL, listener=listener)
    for _ in range(2):
        with pytest.raises(KafkaError):
            a.poll(10_000)
        assert group.owned() == {"a": [0, 1, 2]}
    listener.kinds.clear()
    assert a.poll(10_000)


def test_a_commit_of_a_member_that_was_removed_fails():
    group = joined({"max.poll.interval.ms": 20_000})
    group.start("b", PROTOCOL)
    a = group.consumers.pop("a")
    group.poll(40_000)
    with pytest.raises(CommitFailedError):
        a.commit({("orders", 0): 5})


def test_a_commit_with_an_old_epoch_fails_in_a_call_and_in_a_callback():
    group = joined()
    a, failures = group.consumers["a"], []
    group.cluster.network.fail("a", "offset_commit", Error.STALE_MEMBER_EPOCH, times=2)
    with pytest.raises(CommitFailedError, match="STALE_MEMBER_EPOCH"):
        a.commit()
    a.commit_async(callback=lambda offsets, failure: failures.append(failure))
    group.poll(1000)
    assert [failure.error for failure in failures] == [Error.STALE_MEMBER_EPOCH]
    assert not isinstance(failures[0], RetriableCommitFailedError)


@pytest.mark.parametrize("error", [Error.FENCED_MEMBER_EPOCH, Error.ILLEGAL_GENERATION])
def test_an_error_that_no_commit_should_have_says_nothing_about_the_membership(error):
    # CommitRequestManager.OffsetCommitRequestState: an unexpected error
    group = joined()
    group.cluster.network.fail("a", "offset_commit", error)
    with pytest.raises(KafkaError, match=f"unexpected error in commit: {error.name}") as raised:
        group.consumers["a"].commit()
    assert type(raised.value) is KafkaError
    group.take_calls()
    group.poll(20_000)
    assert group.take_calls() == []


def test_unsubscribe_revokes_and_leaves():
    group = joined()
    a = group.consumers["a"]
    a.unsubscribe()
    assert group.take_calls() == [("a", "revoked", [0, 1, 2])]
    assert group.cluster.call("consumer_group_describe", ["g"]).groups[0].members == ()
    assert a.group_metadata()[1:3] == (-1, "")


def test_close_commits_revokes_and_leaves():
    group = joined(RARELY)
    group.notes.clear()
    group.consumers.pop("a").close()
    kinds = [kind for _, _, kind, _ in group.notes]
    assert kinds == ["commit", "committed", "revoked", "leave", "closed"]
    assert group.cluster.call("consumer_group_describe", ["g"]).groups[0].members == ()


def test_a_static_member_gets_its_partitions_back():
    group = joined({"group.instance.id": "i"})
    group.start("b", PROTOCOL)
    group.poll(20_000)
    before = group.owned()
    group.consumers.pop("a").close()
    group.take_calls()
    group.start("a", PROTOCOL | {"group.instance.id": "i"})
    group.poll(20_000)
    assert group.owned() == before
    assert group.take_calls() == [("a", "assigned", before["a"])]


def test_an_instance_id_that_is_in_use_is_refused():
    group = joined({"group.instance.id": "i"})
    twin = group.start("twin", PROTOCOL | {"group.instance.id": "i"})
    with pytest.raises(KafkaError, match="UNRELEASED_INSTANCE_ID"):
        twin.poll(10_000)
    assert group.owned()["a"] == [0, 1, 2]


def test_the_members_choose_the_assignor():
    group = joined({"group.remote.assignor": "range"}, partitions=5)
    group.start("b", PROTOCOL | {"group.remote.assignor": "range"})
    group.poll(30_000)
    assert group.owned() == {"a": [0, 1, 2], "b": [3, 4]}


def test_classic_members_are_replaced_one_by_one():
    group = Story(3, CONFIG | {"group.consumer.migration.policy": "bidirectional"})
    group.start("old")
    group.start("old too")
    group.poll(20_000)
    group.start("new", PROTOCOL)
    group.poll(30_000)
    group.consumers.pop("old").close()
    group.poll(30_000)
    owned = group.owned()
    assert sorted(n for numbers in owned.values() for n in numbers) == [0, 1, 2]
    assert all(owned[name] for name in ("old too", "new"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"session.timeout.ms": 1000}, "session.timeout.ms cannot be set when group.protocol"),
        ({"heartbeat.interval.ms": 1000}, "heartbeat.interval.ms cannot be set"),
        ({"partition.assignment.strategy": "range"}, "partition.assignment.strategy cannot be"),
        ({"group.protocol": "classic", "group.remote.assignor": "range"}, "group.remote.assignor"),
    ],
)
def test_settings_of_the_other_protocol_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        Consumer(Cluster({"orders": 1}), SETTINGS | PROTOCOL | settings)


def test_a_member_that_was_late_twice_stays_out_each_time_until_it_polls():
    group = Story(3, CONFIG)
    a = group.start("a", PROTOCOL | {"max.poll.interval.ms": 20_000}, subscribe=False)
    a.subscribe(["orders"])  # without a listener nothing waits for a poll
    for _ in range(2):
        group.poll(10_000)
        assert len(a.assignment()) == 3
        group.pass_time(60_000)
        assert group.cluster.call("consumer_group_describe", ["g"]).groups[0].members == ()


def test_a_member_that_is_fenced_during_the_commit_before_a_rebalance_is_assigned_anew():
    group = joined(RARELY)
    group.start("b", PROTOCOL)
    network = group.cluster.network
    network.slow("a", 4000)
    while not group.of("commit"):
        group.poll(200)
    network.fail("a", "consumer_group_heartbeat", Error.FENCED_MEMBER_EPOCH)
    group.poll(60_000)
    network.slow("a", 0)
    group.poll(60_000)
    assert network.host("a").faults == []
    assert sorted(map(len, group.owned().values())) == [1, 2]
    assert ("a", "lost", [0, 1, 2]) in group.take_calls()
