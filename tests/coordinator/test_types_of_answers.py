"""What a type checker and an editor know of answers and events.

``make types`` checks this file, too: ``assert_type`` fails there, and returns its value here.
"""

from typing import Any, assert_never, assert_type

from coterie import Append, GroupCoordinator, Pending, Transition
from coterie.consumer_groups import ConsumerGroupChange, ConsumerGroupDescribeResponse
from coterie.events import Event, MemberFenced, MemberReconciled, Response, Unanswered
from coterie.testing import ClassicMember
from coterie.values import (
    DescribeGroupResponse,
    Error,
    HeartbeatResponse,
    JoinGroupResponse,
    ListGroupsResponse,
    OffsetCommitResponse,
    SyncGroupResponse,
)


def test_a_request_returns_its_own_response() -> None:
    coordinator = GroupCoordinator()
    joining = coordinator.join_group("g", protocol_type="consumer", protocols={"range": b""})
    assert_type(joining, Pending[JoinGroupResponse])
    joined = coordinator.run_until(joining, limit_ms=10_000)
    assert_type(joined, JoinGroupResponse)
    assert isinstance(assert_type(joined.generation_id, int), int)
    syncing = coordinator.sync_group("g", joined.generation_id, joined.member_id)
    assert_type(syncing.response, SyncGroupResponse)
    beat = coordinator.heartbeat("g", joined.generation_id, joined.member_id)
    assert_type(beat, HeartbeatResponse | Any)
    assert beat.error is Error.NONE
    committed = assert_type(
        coordinator.offset_commit("g", {("t", 0): 5}), Pending[OffsetCommitResponse]
    )
    assert committed.response.partitions[0].error is Error.UNKNOWN_MEMBER_ID
    assert isinstance(coordinator.describe_group("g"), DescribeGroupResponse)
    assert_type(coordinator.list_groups(), ListGroupsResponse)


def test_events_are_of_one_union() -> None:
    seen: list[Event] = []
    coordinator = GroupCoordinator({"coterie.behaviour": "4.1"}, on_event=seen.append)
    member = ClassicMember(coordinator, "g", client_id="c", topics={"t": 1})
    assert_type(member.join(), Pending[JoinGroupResponse])
    member.crash()
    described = coordinator.consumer_group_describe(["g"])
    assert_type(described, ConsumerGroupDescribeResponse)
    for event in assert_type(coordinator.take_events(), list[Event]):
        assert_type(event.at, int)
        match event:
            case Transition():
                assert_type(event.from_, str)
            case Append():
                assert_type(event.value, bytes | None)
            case Response() | Unanswered():
                assert_type(event.op, str)
            case ConsumerGroupChange() | MemberReconciled() | MemberFenced():
                assert_type(event.group_id, str)
            case _:
                assert_never(event)
    assert seen
