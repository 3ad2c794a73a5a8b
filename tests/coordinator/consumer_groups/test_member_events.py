"""Events of members: what the records of the golden traces say of them, and the causes."""

import json

import pytest

from coterie import Append, GroupCoordinator, load_trace
from coterie.events import Cause, ConsumerGroupChange, MemberFenced, MemberReconciled
from coterie.messages import decode_key, decode_value
from support.consumer_groups import golden

MEMBER, TARGET_EPOCH, CURRENT = 5, 6, 8  # versions of keys
STABLE = 0
SUBSCRIPTION = {
    "rebalance_timeout_ms": 5_000,
    "subscribed_topic_names": ["orders"],
    "topic_partitions": [],
}


def is_plain(name):
    """Whether records come by requests and time only."""
    others = ("append_raw", "hold_commits", "fail_append", "failover")
    return not any(f'"op":"{op}"' in line for line in golden.trace(name) for op in others)


PLAIN = [name for name in golden.names() if is_plain(name)]


def of_type(events, kind):
    return [event for event in events if type(event) is kind]


def converted(events):
    """When which groups became classic ones, or none."""
    changes = of_type(events, ConsumerGroupChange)
    return {(change.at, change.group_id) for change in changes if change.type != "consumer"}


def test_members_are_reconciled_when_their_records_say_so():
    for name in PLAIN[::2]:
        reconciled_by_records(name)


def reconciled_by_records(name):
    events = GroupCoordinator().play(load_trace(golden.trace(name))).events()
    targets, expected = {}, []
    for event in of_type(events, Append):
        key = decode_key(event.key)
        if event.value is None or key["version"] not in (TARGET_EPOCH, CURRENT):
            continue
        value = decode_value(key["version"], event.value)["data"]
        if key["version"] == TARGET_EPOCH:
            targets[event.group_id] = value["assignmentEpoch"]
        elif value["state"] == STABLE and value["memberEpoch"] == targets[event.group_id]:
            member_id = key["data"]["memberId"]
            expected.append((event.at, event.group_id, member_id, value["memberEpoch"]))
    found = [
        (event.at, event.group_id, event.member_id, event.member_epoch)
        for event in of_type(events, MemberReconciled)
    ]
    # A batch that ends a group may have a last record of a member, whom no group has then.
    ended = {group_id for _, group_id in converted(events)}
    assert [row for row in found if row[1] not in ended] == [
        row for row in expected if row[1] not in ended
    ]
    assert set(found) <= set(expected)


def test_members_are_fenced_when_time_alone_removes_them():
    for name in PLAIN[1::2]:
        fenced_by_time(name)


def fenced_by_time(name):
    trace = golden.trace(name)
    events = GroupCoordinator().play(load_trace(trace)).events()
    requests = {json.loads(line)["at"] for line in trace[1:]}
    removed = {
        (event.at, event.group_id, decode_key(event.key)["data"]["memberId"])
        for event in of_type(events, Append)
        if event.value is None and decode_key(event.key)["version"] == MEMBER
    }
    fenced = {(e.at, e.group_id, e.member_id) for e in of_type(events, MemberFenced)}
    assert fenced <= removed
    assert fenced >= {each for each in removed
                      if each[0] not in requests and each[:2] not in converted(events)}  # fmt: skip


@pytest.fixture
def coordinator():
    made = GroupCoordinator({"coterie.behaviour": "4.1"})
    made.set_topics({"orders": 2})
    return made


def test_a_member_that_sends_nothing_is_fenced_after_its_session(coordinator):
    coordinator.consumer_group_heartbeat("g", "a", **SUBSCRIPTION)
    coordinator.advance(45_000)
    (fenced,) = of_type(coordinator.events, MemberFenced)
    assert fenced == MemberFenced(45_000, "g", "a", 1, Cause.SESSION_TIMEOUT)
    assert fenced.as_dict() == {
        "at": 45_000, "event": "member_fenced", "group_id": "g", "member_id": "a",
        "member_epoch": 1, "cause": "SESSION_TIMEOUT",
    }  # fmt: skip


def test_a_member_that_does_not_give_up_its_partitions_is_fenced_after_its_own_timeout(coordinator):
    coordinator.consumer_group_heartbeat("g", "a", **SUBSCRIPTION)
    coordinator.consumer_group_heartbeat("g", "b", **SUBSCRIPTION)
    coordinator.take_events()
    for at_ms in (1_000, 3_000, 6_000):
        coordinator.advance(at_ms)
        coordinator.consumer_group_heartbeat("g", "a", 1)
    assert [(e.at, e.member_id, e.cause) for e in of_type(coordinator.events, MemberFenced)] == [
        (6_000, "a", Cause.REBALANCE_TIMEOUT)
    ]


def test_a_member_that_leaves_is_not_fenced(coordinator):
    coordinator.consumer_group_heartbeat("g", "a", **SUBSCRIPTION)
    assert of_type(coordinator.events, MemberReconciled) == [MemberReconciled(0, "g", "a", 1)]
    coordinator.consumer_group_heartbeat("g", "a", -1)
    assert not of_type(coordinator.events, MemberFenced)


def test_after_a_load_a_member_has_its_whole_timeout_again_to_give_up_partitions(coordinator):
    coordinator.consumer_group_heartbeat("g", "a", **SUBSCRIPTION)
    coordinator.consumer_group_heartbeat("g", "b", **SUBSCRIPTION)
    coordinator.consumer_group_heartbeat("g", "a", 1)
    coordinator.advance(4_003)
    coordinator.failover()
    coordinator.advance(9_002)
    assert not of_type(coordinator.events, MemberFenced)
    coordinator.advance(9_003)
    assert [(e.at, e.member_id, e.cause) for e in of_type(coordinator.events, MemberFenced)] == [
        (9_003, "a", Cause.REBALANCE_TIMEOUT)
    ]
