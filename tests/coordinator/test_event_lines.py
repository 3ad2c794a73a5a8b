"""The events of a coordinator as text: a line each, without bytes and fields of classes."""

import pytest

from coterie import Error, GroupCoordinator
from coterie.consumer_groups import (
    ConsumerGroupChange,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from coterie.coordinator.event_lines import event_lines
from coterie.events import (
    Cause,
    MemberFenced,
    MemberReconciled,
    Response,
    Transition,
    Unanswered,
)
from coterie.server import Broker
from coterie.testing import Member, assignment
from coterie.values import (
    FetchedOffset,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    OffsetCommitResponse,
    OffsetFetchResponse,
    PartitionError,
    SyncGroupResponse,
)
from support.server import asking, sockets

UUID = "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d"
NONE, REFUSED = Error.NONE, Error.ILLEGAL_GENERATION


def joined(error=NONE, leader="m1"):
    return JoinGroupResponse(error, 3, "consumer", "range", leader, "m1", False, ())


def synced(data):
    return SyncGroupResponse(NONE, "consumer", "range", data)


def beaten(*rows, error=NONE, unchanged=False):
    return ConsumerGroupHeartbeatResponse(error, "m1", 4, 5000, None if unchanged else rows)


def committed(*errors):
    rows = [PartitionError("t", number, error) for number, error in enumerate(errors)]
    return OffsetCommitResponse(NONE, tuple(rows))


FETCHED = OffsetFetchResponse(
    NONE, (FetchedOffset("t", 0, 7, -1, "", NONE), FetchedOffset("t", 1, -1, -1, "", NONE))
)
ANSWERS = [
    ("join_group", joined(), "JoinGroup of m1: generation 3, leader, range"),
    ("join_group", joined(leader="m2"), "JoinGroup of m1: generation 3, follower, range"),
    ("join_group", joined(Error.UNKNOWN_MEMBER_ID), "JoinGroup of m1: UNKNOWN_MEMBER_ID"),
    ("sync_group", synced(assignment({"t": [0, 2]})), "SyncGroup of m0: assigned t 0 2"),
    ("sync_group", synced(b""), "SyncGroup of m0: assigned nothing"),
    ("sync_group", synced(b"\7"), "SyncGroup of m0: assigned by another protocol"),
    ("heartbeat", HeartbeatResponse(NONE), None),
    ("heartbeat", HeartbeatResponse(REFUSED), "Heartbeat of m0: ILLEGAL_GENERATION"),
    ("offset_commit", committed(NONE, REFUSED),
     "OffsetCommit of m0: t-0 committed, t-1 ILLEGAL_GENERATION"),
    ("offset_fetch", FETCHED, "OffsetFetch of m0: t-0 7, t-1 none"),
    ("leave_group", LeaveGroupResponse(NONE, ()), "LeaveGroup of m0: NONE"),
    ("consumer_group_heartbeat", beaten(unchanged=True), None),
    ("consumer_group_heartbeat", beaten(TopicPartitions("x", (0, 1))),
     "ConsumerGroupHeartbeat of m1: epoch 4, 2 partitions"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "response", "text"), ANSWERS)
def test_an_answer_says_who_got_what(op, response, text):
    lines = event_lines([Response(61_005, 9, op, response)], {9: ("g", "m0")})
    assert lines == ([] if text is None else ["group g", f"  1:01.005  {text}"])


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (Transition(0, "g", "Stable", "PreparingRebalance", 3, Cause.SESSION_TIMEOUT, "m1"),
         "Stable -> PreparingRebalance: session timeout of m1"),
        (Transition(0, "g", "PreparingRebalance", "CompletingRebalance", 4, Cause.COMPLETED),
         "PreparingRebalance -> CompletingRebalance, generation 4"),
        (ConsumerGroupChange(0, "g", "consumer", "Reconciling", 3, 2, 1),
         "Reconciling, epoch 3, target epoch 2, 1 member"),
        (ConsumerGroupChange(0, "g", "classic", None, 3, 2, 1),
         "no consumer group any more: classic"),
        (MemberFenced(0, "g", f"m-{UUID}", 3, Cause.REBALANCE_TIMEOUT),
         "m-0a1b is fenced: rebalance timeout, epoch 3"),
        (MemberReconciled(0, "g", "m1", 3), "m1 has its target, epoch 3"),
        (Unanswered(0, 9, "join_group", "replaced"), "JoinGroup of m0 is never answered: replaced"),
    ],
)  # fmt: skip
def test_an_event_says_what_happened(event, text):
    assert event_lines([event], {9: ("g", "m0")}) == ["group g", f"  0:00.000  {text}"]


def test_records_are_named_and_groups_are_in_columns_of_their_own():
    coordinator = GroupCoordinator({"coterie.behaviour": "4.1"}, now_ms=1_760_000_000_000)
    coordinator.set_topics({"orders": 1})
    coordinator.offset_commit("g", {("orders", 0): 5})
    coordinator.advance_by(250)
    Member(coordinator, "shop", client_id="m", topics=["orders"], protocol="consumer").poll()
    lines = event_lines(coordinator.events)
    assert lines[0] == "  0:00.000  g     written: offset of orders-0, 5"  # of the first event on
    assert "  0:00.250  shop  written: consumer group metadata" in lines
    coordinator.offset_delete("g", [("orders", 0)])
    assert "removed: offset of orders-0" in "".join(event_lines(coordinator.events))


def test_the_middle_of_a_long_timeline_is_left_out():
    events = [Response(number, number, "heartbeat", HeartbeatResponse(REFUSED))
              for number in range(300)]  # fmt: skip
    lines = event_lines(events)
    assert len(lines) == 201
    assert lines[100] == "            ... 100 lines left out"
    assert lines[-1].startswith("  0:00.299")


def test_a_fault_is_in_the_timeline_of_its_broker_with_its_group():
    with Broker(clock="virtual", topics={"t": 1}) as broker:
        connection = sockets.connect(broker)
        broker.fail("OffsetCommit", error="ILLEGAL_GENERATION")
        broker.fail("ListGroups", disconnect=True, delay_ms=70_000)
        sockets.ask(connection, "OffsetCommit", 3, asking.commit("g", "t", {0: 1}, "m1", 4))
        sockets.ask(connection, "OffsetCommit", 3, asking.commit("g", "t", {0: 1}))
        connection.send(asking.request("ListGroups", 0, {}))
        while len(broker.requests()) < 3:
            pass
        assert broker._timeline_lines() == [
            "group g",
            "  0:00.000  OffsetCommit of m1: ILLEGAL_GENERATION, injected",
            "  0:00.000  written: offset of t-0, 1",
            "  0:00.000  OffsetCommit: t-0 committed",
            "  0:00.000  ListGroups of tests: a delay of 70000 ms, then the connection closes, "
            "injected",
        ]
