"""When a rebalance ends that no first member began, and since when a group is in its state.

Rules: docs/rules/coordinator.md#initial-delay and #completion.
"""

import pytest

from coterie import Batch, Error, GroupCoordinator
from coterie.messages import encode_key, encode_value
from support.coordinator.classic_group import RANGE, join, stable

BEHAVIOURS = pytest.mark.parametrize("behaviour", ["2.4", "3.9", "4.1"])
DELAY_MS, START_MS = 3_100, 70_003
LONG = {"session_timeout_ms": 60_000, "rebalance_timeout_ms": 40_000}


def made(behaviour, delay_ms=DELAY_MS):
    return GroupCoordinator(
        {"coterie.behaviour": behaviour, "group.initial.rebalance.delay.ms": delay_ms},
        now_ms=START_MS,
    )


def ready_after_ms(coordinator, *joins_ms):
    """How long an Empty group waits for the members that join at these times after the first."""
    begun_ms = coordinator.now_ms
    first = join(coordinator, **LONG)
    for after_ms in joins_ms:
        coordinator.advance(begun_ms + after_ms)
        join(coordinator, client_id=f"after-{after_ms}", **LONG)
    coordinator.run_until(first, limit_ms=begun_ms + 60_000)
    return first.answered_at - begun_ms


@BEHAVIOURS
@pytest.mark.parametrize("joins_ms", [(), (0,), (1_000, 3_099), (1_000, 4_000, 6_500)])
def test_a_group_that_was_emptied_waits_once_but_since_kafka_4_as_a_new_one(behaviour, joins_ms):
    """In 4.1 a member is new if the state before PreparingRebalance was Empty."""
    coordinator = made(behaviour)
    coordinator.leave_group("g", stable(coordinator, **LONG))
    assert coordinator.snapshot("g").state == "Empty"
    if behaviour == "4.1":
        waits = 1 + len({after_ms // DELAY_MS for after_ms in joins_ms})
    else:
        waits, joins_ms = 1, [after_ms for after_ms in joins_ms if after_ms < DELAY_MS]
    assert ready_after_ms(coordinator, *joins_ms) == waits * DELAY_MS


@BEHAVIOURS
def test_members_that_join_a_later_rebalance_do_not_extend_the_next_initial_delay(behaviour):
    coordinator = made(behaviour)
    ids = stable(coordinator, "a", **LONG)
    joins = [join(coordinator, client_id=client, **LONG) for client in "bcd"]  # Stable, then not
    coordinator.leave_group("g", ids)
    ids = [each.response.member_id for each in joins]
    coordinator.leave_group("g", ids)
    assert coordinator.snapshot("g").state == "Empty"
    assert ready_after_ms(coordinator) == DELAY_MS


def loaded(behaviour, **member):
    """A coordinator that has loaded a group with one static member."""
    fields = {"memberId": "m", "groupInstanceId": "i", "clientId": "c", "clientHost": "/h",
              "rebalanceTimeout": 9_000, "sessionTimeout": 60_000, "subscription": RANGE["range"],
              "assignment": b""} | member  # fmt: skip
    data = {"protocolType": "consumer", "generation": 1, "protocol": "range", "leader": "m",
            "currentStateTimestamp": 3, "members": [fields]}  # fmt: skip
    key = encode_key({"version": 2, "data": {"group": "g"}})
    log = [Batch(0, records=((key, encode_value(2, {"version": 3, "data": data})),))]
    return GroupCoordinator({"coterie.behaviour": behaviour}, now_ms=START_MS, log=log)


@pytest.mark.parametrize("behaviour", ["2.4", "4.1"])
def test_a_static_member_without_a_rebalance_timeout_is_waited_for_by_the_millisecond(behaviour):
    """Kafka waits again within the millisecond, and does nothing else."""
    coordinator = loaded(behaviour, rebalanceTimeout=0)
    joined = join(coordinator, client_id="b", rebalance_timeout_ms=5_000)
    ids = [m.member_id for m in coordinator.snapshot("g").members if not m.group_instance_id]
    coordinator.leave_group("g", ids)
    assert joined.response.error is Error.UNKNOWN_MEMBER_ID
    for due_ms in range(START_MS + 5_000, START_MS + 5_004):
        assert coordinator.next_deadline_ms() == due_ms
        coordinator.advance(due_ms)
        assert coordinator.snapshot("g").state == "PreparingRebalance"
    back = join(coordinator, group_instance_id="i", rebalance_timeout_ms=5_000)
    assert back.response.generation_id == 2


@BEHAVIOURS
def test_a_group_of_offsets_is_empty_since_it_was_made(behaviour):
    coordinator = made(behaviour)
    coordinator.advance_by(1_777)
    coordinator.offset_commit("g", {("t", 0): 5})
    assert coordinator.snapshot("g").current_state_timestamp == START_MS + 1_777
    coordinator.advance_by(1)
    coordinator.offset_commit("g", {("t", 0): 6})
    assert coordinator.snapshot("g").current_state_timestamp == START_MS + 1_777
    again = GroupCoordinator(
        {"coterie.behaviour": behaviour}, log=coordinator.log, now_ms=START_MS + 9_000
    )
    assert again.snapshot("g").current_state_timestamp == START_MS + 9_000
