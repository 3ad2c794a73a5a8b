"""Scripted members that crash, are refused, leave, or get responses that a test makes up.

Rules: AbstractMembershipManager and ConsumerHeartbeatRequestManager (Kafka 4.1), and
AbstractCoordinator, ConsumerCoordinator and StickyAssignor (Kafka 3.9).
"""

from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from coterie import ArgumentError, CoterieError, Error, Response
from coterie.consumer_groups import TopicPartitions, encode_topic_id
from coterie.testing import Member, MemberState, read_subscription
from coterie.testing.consumer_state import ConsumerState
from support.consumers import Recorder

OFFSETS = {("t", 0): 5}
BOTH = [("t", 0), ("t", 1)]
CALLS = {
    "classic": [("poll",), ("join",), ("sync",), ("leave",), ("commit", OFFSETS)],
    "consumer": [("poll",), ("reconcile",), ("heartbeat",), ("join",), ("send",), ("leave",),
                 ("unsubscribe",), ("subscribe", ["u"]), ("commit", OFFSETS)],
}  # fmt: skip


@pytest.fixture
def recorded():
    made = Recorder({"coterie.behaviour": "4.1", "group.initial.rebalance.delay.ms": 3000})
    made.set_topics({"t": 2, "u": 1})
    return made


def member(recorded, client_id="a", protocol="consumer", group="g", **options):
    """A member and the calls of its rebalance listener."""
    calls = []
    options = {"topics": {"t": 2}} | options
    made = Member(recorded, group, client_id=client_id, protocol=protocol,
                  on_rebalance=lambda *call: calls.append(call), **options)  # fmt: skip
    return made, calls


def joined(recorded, **options):
    """A consumer member that owns both partitions, and the response to its join."""
    one, calls = member(recorded, **options)
    one.poll()
    first = next(e.response for e in recorded.events if isinstance(e, Response))
    assert calls == [("assigned", BOTH)]
    calls.clear()
    return one, calls, first


def assigning(response, *numbers):
    """The same response with other partitions of its topic."""
    (topic,) = response.assignment
    return replace(response, assignment=(replace(topic, partitions=numbers),))


@pytest.mark.parametrize("protocol", CALLS)
def test_a_crashed_member_refuses_each_call_sends_nothing_and_stays_as_it_was(recorded, protocol):
    for polls in (0, 40):  # before its first request, and as a member
        one, _ = member(recorded, "ab"[polls > 0], protocol)
        for _ in range(polls):
            one.poll()
            recorded.advance_by(100)
        assert one.stable == (polls > 0)
        one.crash()
        assert one.events[-1] == (recorded.now_ms, "crash", one.member_id)
        recorded.advance_by(400_000)  # all is overdue

        def facts(one=one):
            return (
                one.generation_id,
                one.member_id,
                one.assignment,
                one.next_heartbeat_ms,
                one.stable,
                getattr(one, "state", None),
                len(one.events),
                len(recorded.seen),
            )

        before = facts()
        assert not one.stable
        for name, *args in CALLS[protocol]:
            with pytest.raises(CoterieError, match=f"<Member {one.member_id or 'a'} of 'g'> has"):
                getattr(one, name)(*args)
            assert facts() == before, name


def test_a_member_writes_down_its_actions_and_the_answers_in_order(recorded):
    one, calls, _ = joined(recorded, auto_commit_interval_ms=60_000)
    one.positions = {("t", 1): 7}
    recorded.advance_by(700)
    one.leave()
    assert one.events == [
        (0, "join", "a:1"), (0, "target", BOTH), (0, "assigned", BOTH), (0, "acknowledge", BOTH),
        (700, "commit", {("t", 1): 7}), (700, "revoked", BOTH), (700, "leave", "a:1"),
    ]  # fmt: skip
    assert calls == [("revoked", BOTH)]
    assert recorded.of("offset_commit")[0][0] == ("g", {("t", 1): 7})
    one, calls = member(recorded, "c", "classic", "h", auto_commit_interval_ms=60_000)
    one.poll()
    recorded.advance_by(3000)
    one.poll()
    one.positions = {("t", 0): 8}
    name = one.member_id
    one.leave()
    assert one.events == [
        (700, "join", name), (3700, "sync", 1), (3700, "assigned", BOTH),
        (3700, "commit", {("t", 0): 8}), (3700, "revoked", BOTH), (3700, "leave", name),
    ]  # fmt: skip
    assert calls == [("assigned", BOTH), ("revoked", BOTH)]


# The classic protocol


def test_a_classic_member_is_stable_from_its_assignment_to_the_next_rebalance(recorded):
    members = [member(recorded, name, "classic")[0] for name in "ab"]
    leader, follower = members
    assert not leader.stable
    for one in members:
        one.poll()
        assert not one.stable  # its JoinGroup waits
    recorded.advance_by(3000)
    recorded.advance_by(3000)
    assert not leader.stable  # answered, but not synced
    follower.poll()
    assert not follower.stable  # its SyncGroup waits for the leader's
    leader.poll()
    follower.poll()
    assert (leader.stable, follower.stable) == (True, True)
    assert repr(follower) == f"<Member {follower.member_id} of 'g'>"
    member_id = follower.member_id
    follower.leave()
    assert (follower.stable, follower.member_id, follower.generation_id) == (False, "", -1)
    assert recorded.of("leave_group") == [(("g", [(member_id, None)]), {})]


def test_a_join_that_was_answered_counts_no_more_after_leaving(recorded):
    one, _ = member(recorded, protocol="classic")
    pending = one.join()
    recorded.advance_by(3000)
    assert pending.done
    one.leave()
    with pytest.raises(CoterieError, match="has no answer to its join"):
        one.sync()
    assert recorded.of("sync_group") == []


def test_a_refused_join_is_raised_by_each_poll_until_there_is_room():
    # AbstractCoordinator.joinGroupIfNeeded: it raises, and the next poll joins again
    recorded = Recorder({"group.max.size": 1, "group.initial.rebalance.delay.ms": 0})
    one, _ = member(recorded, "a", "classic")
    two, calls = member(recorded, "b", "classic")
    one.poll()
    for _ in range(2):
        with pytest.raises(CoterieError, match=r"of 'g'>: join was refused with GROUP_MAX_SIZE_RE"):
            two.poll()
        assert not two.stable
        assert two.events[-1] == (0, "join refused", "GROUP_MAX_SIZE_REACHED")
    assert len(recorded.of("sync_group")) == 1  # of the first member
    one.leave()
    two.poll()
    assert two.stable
    assert calls == [("assigned", BOTH)]


@pytest.mark.parametrize(
    ("error", "is_raised"),
    [
        *((error, False) for error in (
            Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION, Error.REBALANCE_IN_PROGRESS,
            Error.NOT_COORDINATOR, Error.COORDINATOR_NOT_AVAILABLE,
            Error.COORDINATOR_LOAD_IN_PROGRESS)),
        *((error, True) for error in (
            Error.GROUP_AUTHORIZATION_FAILED, Error.INVALID_GROUP_ID, Error.UNKNOWN_SERVER_ERROR)),
    ],
)  # fmt: skip
def test_an_error_of_a_heartbeat_is_raised_unless_the_next_join_may_help(
    recorded, error, is_raised
):
    # HeartbeatResponseHandler
    one, _ = member(recorded, protocol="classic")
    for _ in range(10):
        one.poll()
        recorded.advance_by(1000)
    joins = len(recorded.of("join_group"))
    with patch.object(recorded, "heartbeat", lambda *_, **__: SimpleNamespace(error=error)):
        recorded.advance_by(3000)
        if is_raised:
            with pytest.raises(CoterieError, match=f"heartbeat was refused with {error.name}"):
                one.poll()
        else:
            one.poll()
    assert ("heartbeat refused", error.name) in [event[1:] for event in one.events]
    for _ in range(60):  # the session of a former member has to end
        one.poll()
        recorded.advance_by(1000)
    assert one.stable
    assert len(recorded.of("join_group")) > joins


def test_a_leader_orders_static_members_by_their_instances(recorded):
    # AbstractPartitionAssignor.MemberInfo
    members = [
        member(recorded, name, "classic", group_instance_id=instance)[0]
        for name, instance in (("a", "z"), ("b", "y"))
    ]
    while recorded.now_ms < 10_000:
        for one in members:
            one.poll()
        recorded.advance_by(500)
    assert [one.assignment for one in members] == [{"t": [1]}, {"t": [0]}]


def test_a_sticky_member_joins_again_with_what_it_owned_and_in_which_generation(recorded):
    # StickyAssignor.serializeTopicPartitionAssignment: topics with their partitions, generation
    one, _ = member(recorded, protocol="classic", assignor="sticky")
    one.poll()
    recorded.advance_by(3000)
    one.poll()
    one.join()
    user_data = [
        read_subscription(fields["protocols"]["sticky"]).user_data
        for _, fields in recorded.of("join_group")
    ]
    owned = bytes.fromhex("00000001 0001 74 00000002 00000000 0000000100000001")
    assert (user_data[0], user_data[-1]) == (None, owned)


# The consumer protocol


def test_the_next_heartbeat_counts_from_the_last_one_or_from_the_response_with_a_new_interval(
    recorded,
):
    one, _, _ = joined(recorded)
    recorded.advance_by(5000)
    response = one.send()
    recorded.advance_by(200)
    one.receive(response)
    assert one.next_heartbeat_ms == 5000 + 5000
    one.receive(replace(response, heartbeat_interval_ms=2000))
    assert one.next_heartbeat_ms == 5200 + 2000
    one.send()
    assert one.next_heartbeat_ms == 5200 + 2000
    recorded.advance_by(1)
    one.send()
    assert one.next_heartbeat_ms == 5201 + 2000


def test_each_heartbeat_of_a_join_that_has_no_answer_yet_has_all_fields(recorded):
    one, _ = member(recorded, rack_id="r", server_assignor="range")
    one.send()
    one.send()
    (_, first), (_, second) = recorded.of("consumer_group_heartbeat")
    assert first == second
    assert {"rack_id", "server_assignor", "rebalance_timeout_ms", "subscribed_topic_names",
            "topic_partitions"} < first.keys()  # fmt: skip


def test_the_same_partitions_again_are_acknowledged_without_callbacks(recorded):
    one, calls, response = joined(recorded)
    one.receive(assigning(response, 0))
    assert one.state is MemberState.RECONCILING
    one.receive(assigning(response, 0, 1))
    one.reconcile()
    assert (calls, one.state) == ([], MemberState.ACKNOWLEDGING)
    assert (one.heartbeat_due, one.stable) == (True, False)
    one.send()
    assert one.state is MemberState.STABLE
    (topic,) = recorded.of("consumer_group_heartbeat")[-1][1]["topic_partitions"]
    assert topic["partitions"] == (0, 1)


def test_an_assignment_that_comes_during_a_callback_replaces_the_one_before(recorded):
    one, calls, response = joined(recorded)

    def listen(what, partitions):
        calls.append((what, partitions))
        if len(calls) == 1:
            one.receive(assigning(response, 1))

    one.on_rebalance = listen
    one.receive(assigning(response, 0))
    one.reconcile()
    assert calls == [("revoked", [("t", 1)])]
    assert (one.state, one.assignment) == (MemberState.RECONCILING, {"t": [0, 1]})
    one.reconcile()
    assert calls[1:] == [("revoked", [("t", 0)]), ("assigned", [])]
    assert (one.state, one.assignment) == (MemberState.ACKNOWLEDGING, {"t": [1]})


def test_topics_without_a_known_name_wait_and_the_others_are_taken(recorded):
    one, calls, response = joined(recorded)
    unknown = TopicPartitions(encode_topic_id(bytes(15) + b"\1"), (3,))
    less = assigning(response, 0)
    one.receive(replace(less, assignment=(unknown, *less.assignment)))
    one.reconcile()
    assert calls == [("revoked", [("t", 1)]), ("assigned", [])]
    one.send()
    assert (one.state, one.stable) == (MemberState.RECONCILING, False)
    one.reconcile()  # still unknown
    assert (len(calls), one.state) == (2, MemberState.RECONCILING)


def test_assignments_are_numbered_as_they_come_and_the_same_one_again_is_none():
    # LocalAssignment.updateWith; NONE_EPOCH is -1
    state, numbers = ConsumerState(MemberState.JOINING), []
    for partitions in ((0,), (0,), (0, 1), (), ()):
        numbers.append(state.target.number)
        topics = [TopicPartitions("id", partitions)]
        state.accept(SimpleNamespace(heartbeat_interval_ms=5, member_epoch=1, assignment=topics))
    assert numbers == [-1, 0, 0, 1, 2]
    state.join()
    assert state.target.number == state.current.number == -1


def test_a_fenced_member_has_no_epoch_and_commits_from_outside_of_the_group(recorded):
    one, _, response = joined(recorded)
    one.commit(OFFSETS)
    one.receive(replace(response, error=Error.FENCED_MEMBER_EPOCH))
    assert (one.state, one.generation_id, one.member_epoch) == (MemberState.FENCED, 0, 0)
    one.commit(OFFSETS)
    (_, within), (args, outside) = recorded.of("offset_commit")
    assert within == {"generation_id": 1, "member_id": "a:1", "group_instance_id": None}
    assert (args, outside) == (("g", OFFSETS), {})


def test_partitions_are_lost_rather_than_revoked_when_the_epoch_is_gone(recorded):
    # AbstractMembershipManager.signalMemberLeavingGroup: onPartitionsRevoked for an epoch above 0
    one, calls, _ = joined(recorded)
    recorded.resign()
    one.join()  # refused: it has no epoch yet
    one.unsubscribe()
    assert calls == [("lost", BOTH)]
    assert one.assignment == {}


@pytest.mark.parametrize("error", ["FENCED_MEMBER_EPOCH", "UNSUPPORTED_ASSIGNOR", None])
def test_a_member_outside_of_the_group_leaves_without_a_request_and_stays_out(recorded, error):
    one, calls, response = joined(recorded)
    if error is None:
        one.unsubscribe()
        calls.clear()
    else:
        one.receive(replace(response, error=Error[error]))
    count = len(recorded.seen)
    assert one.unsubscribe() is None
    assert calls == ([] if error is None else [("lost", BOTH)])
    assert one.assignment == {}
    recorded.advance_by(400_000)  # poll is late, and the heartbeat overdue
    assert (one.heartbeat(), one.heartbeat_due) == (None, False)
    fatal = error == "UNSUPPORTED_ASSIGNOR"
    assert one.state is (MemberState.FATAL if fatal else MemberState.UNSUBSCRIBED)
    one.receive(response)  # of a heartbeat before
    assert len(recorded.seen) == count
    assert not one.stable
    one.subscribe(["t"])
    assert one.state is (MemberState.FATAL if fatal else MemberState.JOINING)
    assert fatal or one.next_heartbeat_ms == recorded.now_ms


def test_a_new_subscription_is_checked_and_replaces_the_one_before(recorded):
    one, _, _ = joined(recorded)
    with pytest.raises(ArgumentError, match="subscribed_topic_regex"):
        one.subscribe(["u"], subscribed_topic_regex=5)
    one.subscribe(["u"], subscribed_topic_regex="t.*")
    one.send()
    fields = recorded.of("consumer_group_heartbeat")[-1][1]
    assert (fields["subscribed_topic_names"], fields["subscribed_topic_regex"]) == (["u"], "t.*")


def test_the_time_between_polls_begins_with_the_member_and_with_each_poll():
    recorded = Recorder({"coterie.behaviour": "4.1"}, 5_000_000)
    recorded.set_topics({"t": 2})
    one, _ = member(recorded, rebalance_timeout_ms=20_000)
    assert one.heartbeat().member_epoch == 1  # it joins, and is not late
    recorded.advance_by(19_999)
    one.poll()
    recorded.advance_by(19_999)
    assert one.heartbeat().member_epoch == 1
    recorded.advance_by(1)
    assert one.heartbeat().member_epoch == -1
    assert one.state is MemberState.STALE
