"""GroupCoordinator's own ways: pending answers, events and causes, deferred appends, load."""

from collections import deque

import pytest

from coterie import (
    Append,
    ArgumentError,
    Batch,
    Cause,
    ConfigError,
    CoterieError,
    Error,
    GroupCoordinator,
    NotAnswered,
    OffsetAndMetadata,
    Transition,
    Unanswered,
)
from coterie._core.coordinator.coordinator import Coordinator
from coterie.base.operations import NUMBER
from coterie.coordinator.config import coordinator_config
from coterie.messages import decode_key, decode_value
from support.coordinator.classic_group import join, stable


def causes(coordinator):
    return [(e.to, e.cause, e.member_id) for e in coordinator.take_events()
            if isinstance(e, Transition)]  # fmt: skip


def test_a_join_is_answered_when_the_initial_delay_ends():
    coordinator = GroupCoordinator()
    pending = join(coordinator)
    assert (pending.status, pending.done, pending.answered_at) == ("waiting", False, None)
    with pytest.raises(NotAnswered, match="waiting"):
        _ = pending.response
    assert coordinator.next_deadline_ms() == 3000
    assert coordinator.run_until(pending, limit_ms=5000).error is Error.NONE
    assert (pending.answered_at, coordinator.now_ms) == (3000, 3000)


def test_run_until_stops_at_its_limit():
    coordinator = GroupCoordinator()
    pending = join(coordinator)
    with pytest.raises(NotAnswered):
        coordinator.run_until(pending, limit_ms=2999)
    assert coordinator.now_ms == 2999


def test_without_an_initial_delay_the_join_is_answered_within_the_call():
    coordinator = GroupCoordinator({"group.initial.rebalance.delay.ms": 0})
    assert join(coordinator).done


def ends_of_initial_delay(delay_ms, rebalance_ms, last_join_ms):
    """When a group is ready that new members join every 500 ms, up to a time."""
    coordinator = GroupCoordinator({"group.initial.rebalance.delay.ms": delay_ms}, now_ms=70_003)
    first = join(coordinator, rebalance_timeout_ms=rebalance_ms, session_timeout_ms=60_000)
    for after_ms in range(500, 20_000, 500):
        coordinator.advance(70_003 + after_ms)
        if after_ms <= last_join_ms:
            join(coordinator, rebalance_timeout_ms=0)
    return first.answered_at - 70_003


def test_an_initial_delay_is_extended_for_new_members_up_to_the_rebalance_timeout():
    """The rules of docs/rules/coordinator.md#initial-delay."""
    for delay_ms, rebalance_ms, last_join_ms, ready_ms in [
        (3_100, 2_100, 9_000, 3_100), (3_100, 3_100, 9_000, 3_100), (3_100, 3_101, 9_000, 3_101),
        (3_100, 4_200, 9_000, 4_200), (3_100, 7_300, 9_000, 7_300), (3_100, 9_300, 15_000, 9_300),
        (3_100, 9_300, 0, 3_100), (3_100, 9_300, 3_000, 6_200), (3_100, 9_300, 3_500, 9_300),
        (3_100, 60_000, 6_000, 9_300), (3_100, 60_000, 6_500, 12_400),
    ]:  # fmt: skip
        row = (delay_ms, rebalance_ms, last_join_ms)
        assert (row, ends_of_initial_delay(*row)) == (row, ready_ms)


def armed(coordinator):
    return {(timer.kind, timer.deadline_ms) for timer in coordinator.snapshot("g").timers
            if timer.kind != "session"}  # fmt: skip


@pytest.mark.parametrize("rebalance_ms", [1, 20_011])
def test_static_members_that_do_not_join_are_waited_for_again(rebalance_ms):
    """Rule 3 of docs/rules/coordinator.md#completion."""
    coordinator = GroupCoordinator()
    fields = {"rebalance_timeout_ms": rebalance_ms, "session_timeout_ms": 600_000}
    stable(coordinator, "a", group_instance_id="i", **fields)
    begun_ms = coordinator.now_ms
    fields["rebalance_timeout_ms"] += 5
    joined = join(coordinator, client_id="b", **fields)
    (dynamic,) = [member.member_id for member in coordinator.snapshot("g").members
                  if member.group_instance_id is None]  # fmt: skip
    coordinator.leave_group("g", [dynamic])
    assert joined.response.error is Error.UNKNOWN_MEMBER_ID
    due_ms = begun_ms + rebalance_ms + 5
    for _ in range(3):
        coordinator.advance(due_ms)
        due_ms += rebalance_ms
        view = coordinator.snapshot("g")
        assert (view.state, view.generation_id, len(view.members)) == ("PreparingRebalance", 1, 1)
        assert armed(coordinator) == {("join", due_ms)}


def test_a_rebalance_that_begins_before_all_have_synced_ends_the_sync_timeout():
    coordinator = GroupCoordinator()
    pending = join(coordinator, rebalance_timeout_ms=20_011)
    coordinator.run_until(pending, limit_ms=9_000)
    assert armed(coordinator) == {("sync", coordinator.now_ms + 20_011)}
    coordinator.advance_by(1_000)
    join(coordinator, client_id="b", rebalance_timeout_ms=7_003)
    assert armed(coordinator) == {("join", coordinator.now_ms + 20_011)}


def waited_for(coordinator):
    return coordinator.snapshot("g").pending_sync_members


def test_by_its_old_id_a_static_member_is_waited_for_that_comes_back_before_it_has_synced():
    """The sync timeout then rebalances the group: docs/rules/coordinator.md#static-return."""
    coordinator = GroupCoordinator()
    short = {"rebalance_timeout_ms": 5000}
    joins = [join(coordinator, client_id="a", **short),
             join(coordinator, client_id="b", group_instance_id="i", **short),
             join(coordinator, client_id="c", **short)]  # fmt: skip
    leader, old, third = [coordinator.run_until(each, limit_ms=600_000).member_id for each in joins]
    assert waited_for(coordinator) == (leader, old, third)
    coordinator.sync_group("g", 1, leader, assignments={old: b"plan"})
    new = join(coordinator, client_id="b", group_instance_id="i", **short).response.member_id
    assert new != old
    assert waited_for(coordinator) == (old, third)
    assert coordinator.sync_group("g", 1, new).response.assignment == b"plan"
    coordinator.sync_group("g", 1, third)
    assert waited_for(coordinator) == (old,)
    coordinator.take_events()
    coordinator.advance(coordinator.now_ms + 5000)
    assert causes(coordinator)[0] == ("PreparingRebalance", Cause.SYNC_TIMEOUT, old)
    assert waited_for(coordinator) == ()


def test_a_repeated_join_replaces_the_first_and_a_lost_sync_is_dropped():
    coordinator = GroupCoordinator()
    first, second = join(coordinator, client_id="a"), join(coordinator, client_id="b")
    coordinator.advance(6000)
    leader, follower = first.response.member_id, second.response.member_id
    waits = coordinator.sync_group("g", 1, follower)
    coordinator.leave_group("g", [follower])
    assert waits.status == "dropped"
    again = join(coordinator, leader)
    assert again.done
    with pytest.raises(NotAnswered, match="dropped"):
        _ = waits.response


@pytest.mark.parametrize("instance", [None, "i"])
def test_an_earlier_waiting_join_of_the_member_is_never_answered(instance):
    coordinator = GroupCoordinator({"group.initial.rebalance.delay.ms": 1000})
    ids = stable(coordinator, "a", "b")
    begun_ms = coordinator.now_ms
    joins = [join(coordinator, ids[0], protocols={"range": b"new"})]
    for _ in range(2):
        coordinator.advance_by(40)
        joins.append(join(coordinator, ids[0]))
    assert [p.status for p in joins] == ["replaced", "replaced", "waiting"]
    assert joins[1].id < joins[2].id
    unanswered = [event for event in coordinator.events if isinstance(event, Unanswered)]
    assert unanswered == [
        Unanswered(begun_ms + 40, joins[0].id, "join_group", "replaced"),
        Unanswered(begun_ms + 80, joins[1].id, "join_group", "replaced"),
    ]
    assert unanswered[0].as_dict() == {
        "at": begun_ms + 40,
        "event": "unanswered",
        "id": joins[0].id,
        "op": "join_group",
        "why": "replaced",
    }


def test_an_earlier_waiting_sync_of_the_member_is_never_answered():
    coordinator = GroupCoordinator()
    joins = [join(coordinator, client_id=name) for name in "ab"]
    coordinator.advance(6000)
    leader, follower = (answer.response.member_id for answer in joins)
    syncs = [coordinator.sync_group("g", 1, follower) for _ in range(2)]
    assert [each.status for each in syncs] == ["replaced", "waiting"]
    coordinator.sync_group("g", 1, leader, assignments={follower: b"f"})
    assert [each.status for each in syncs] == ["replaced", "answered"]
    assert syncs[1].response.assignment == b"f"
    unanswered = [event for event in coordinator.events if isinstance(event, Unanswered)]
    assert unanswered == [Unanswered(6000, syncs[0].id, "sync_group", "replaced")]


def test_only_a_group_of_consumers_has_subscribed_topics():
    coordinator = GroupCoordinator()
    ids = stable(coordinator)
    assert coordinator.snapshot("g").subscribed_topics == {"t"}
    coordinator.leave_group("g", ids)
    assert coordinator.snapshot("g").state == "Empty"
    assert coordinator.snapshot("g").subscribed_topics == frozenset()
    other = coordinator.join_group("g", protocol_type="connect", protocols={"x": b""})
    coordinator.run_until(other, limit_ms=60_000)
    assert coordinator.snapshot("g").subscribed_topics is None


def test_each_transition_has_its_cause():
    coordinator = GroupCoordinator()
    a, b = stable(coordinator, "a", "b", session_timeout_ms=1_000_000)
    assert causes(coordinator) == [
        ("PreparingRebalance", Cause.JOIN, a),
        ("CompletingRebalance", Cause.COMPLETED, None),
        ("Stable", Cause.COMPLETED, None),
    ]
    coordinator.leave_group("g", [b])
    assert causes(coordinator)[0] == ("PreparingRebalance", Cause.LEAVE, b)
    coordinator.advance_by(400_000)
    assert causes(coordinator)[0][1] is Cause.REBALANCE_TIMEOUT
    coordinator.cleanup()
    assert causes(coordinator) == [("Dead", Cause.CLEANUP, None)]


def test_a_failover_is_the_cause_of_the_end_of_a_group():
    coordinator = GroupCoordinator()
    stable(coordinator, "a", "b")
    coordinator.take_events()
    coordinator.failover()
    assert causes(coordinator)[0][1] is Cause.FAILOVER


def test_members_that_never_sync_go_at_the_sync_timeout():
    coordinator = GroupCoordinator()
    pending = join(coordinator, rebalance_timeout_ms=5000)
    coordinator.advance(3000)
    coordinator.take_events()
    coordinator.advance(8000)
    assert causes(coordinator)[0] == (
        "PreparingRebalance", Cause.SYNC_TIMEOUT, pending.response.member_id,
    )  # fmt: skip


def test_events_go_to_the_caller_in_order_and_must_not_call_back():
    seen = []
    coordinator = GroupCoordinator(on_event=seen.append)
    stable(coordinator)
    assert seen == coordinator.events

    def calls_back(event):
        coordinator.heartbeat("g", 1, "x")

    coordinator = GroupCoordinator(on_event=calls_back)
    with pytest.raises(CoterieError, match="must not call back"):
        coordinator.describe_group("g")


def test_a_snapshot_is_a_frozen_view_that_changes_nothing():
    coordinator = GroupCoordinator()
    (member,) = stable(coordinator)
    coordinator.offset_commit("g", {("t", 0): OffsetAndMetadata(5, 2, "m")}, generation_id=1,
                              member_id=member)  # fmt: skip
    view = coordinator.snapshot("g")
    assert (view.state, view.generation_id, view.leader_id) == ("Stable", 1, member)
    assert view.subscribed_topics == {"t"}
    assert [(t.kind, t.deadline_ms) for t in view.timers] == [("session", 13_000)]
    assert view.offsets["t", 0] == OffsetAndMetadata(5, 2, "m", 3000)
    assert coordinator.snapshot("absent") is None
    assert coordinator.snapshot("g") == view


def test_between_resignation_and_load_requests_are_told_so():
    coordinator = GroupCoordinator()
    (member,) = stable(coordinator)
    coordinator.resign()
    assert coordinator.heartbeat("g", 1, member).error is Error.NOT_COORDINATOR
    assert coordinator.sync_group("g", 1, member).response.error is Error.NOT_COORDINATOR
    coordinator.begin_load()
    assert coordinator.heartbeat("g", 1, member).error is Error.NONE
    assert coordinator.sync_group("g", 1, member).response.error is Error.REBALANCE_IN_PROGRESS
    assert coordinator.list_groups().error is Error.COORDINATOR_LOAD_IN_PROGRESS
    assert coordinator.describe_group("g").error is Error.COORDINATOR_LOAD_IN_PROGRESS
    coordinator.finish_load()
    assert coordinator.heartbeat("g", 1, member).error is Error.NONE
    with pytest.raises(CoterieError, match="begin_load"):
        coordinator.finish_load()


def test_an_election_of_who_owns_the_partition_is_ignored():
    coordinator = GroupCoordinator()
    (member,) = stable(coordinator)
    coordinator.begin_load()
    assert coordinator.heartbeat("g", 1, member).error is Error.NONE
    assert coordinator.describe_group("g").error is Error.NONE
    with pytest.raises(CoterieError, match="which is ignored unless resign came first"):
        coordinator.finish_load()
    coordinator.resign()
    coordinator.begin_load()
    coordinator.begin_load()  # while it loads, too
    coordinator.finish_load()
    assert coordinator.describe_group("g").state == "Stable"


def test_a_coordinator_made_from_a_log_is_what_a_failover_gives():
    first = GroupCoordinator()
    (member,) = stable(first)
    first.offset_commit("g", {("t", 0): 5}, generation_id=1, member_id=member)
    first.txn_offset_commit("g", {("t", 1): 6}, producer_id=1, producer_epoch=0)
    second = GroupCoordinator(now_ms=first.now_ms, log=first.log)
    first.failover()
    assert second.snapshot("g") == first.snapshot("g")
    assert second.log == first.log
    second.end_txn(1, committed=True)
    assert second.offset_fetch("g", {"t": [1]})["t", 1].offset == 6


def test_one_bad_record_empties_the_partition_which_is_owned_all_the_same():
    good = GroupCoordinator()
    good.offset_commit("g", {("t", 0): 5})
    bad = Batch(1, records=((b"\0\1\0\1g", b""),))
    coordinator = GroupCoordinator(log=[*good.log, bad])
    assert "topic" in coordinator.load_error
    assert coordinator.list_groups().groups == ()
    assert coordinator.offset_commit("g", {("t", 0): 5}).done


@pytest.mark.parametrize("expire_ms", [-(2**63), -2, -1, 0, 5000, 5001, None])
def test_a_commit_with_an_expiry_of_any_time_but_minus_one_is_written_and_goes_by_it(expire_ms):
    """-1 alone is none, here and after a load: GroupMetadataManager.readMessageValue."""
    coordinator = GroupCoordinator(now_ms=5000)
    coordinator.offset_commit("s", {("t", 0): OffsetAndMetadata(7, expire_timestamp=expire_ms)})
    expected = None if expire_ms == -1 else expire_ms
    (((key, value),),) = (batch.records for batch in coordinator.log)
    told = decode_value(decode_key(key)["version"], value)
    assert told["version"] == (3 if expected is None else 1)
    assert told["data"].get("expireTimestamp") == expected
    loaded = GroupCoordinator(now_ms=5000, log=coordinator.log)
    for one in (coordinator, loaded):
        assert one.snapshot("s").offsets["t", 0].expire_timestamp == expected
        one.cleanup()
        assert (one.snapshot("s") is None) == (expected is not None and expected <= 5000)


def test_an_append_event_decodes():
    coordinator = GroupCoordinator()
    (member,) = stable(coordinator)
    coordinator.offset_commit("g", {("t", 0): OffsetAndMetadata(5, metadata="é")})
    coordinator.offset_commit("s", {("t", 0): OffsetAndMetadata(5, metadata="é")})
    group, offset = [e.decoded() for e in coordinator.events if isinstance(e, Append)]
    assert group["value"]["members"][0]["member_id"] == member
    assert offset["key"] == {"version": 1, "group": "s", "topic": "t", "partition": 0}
    assert offset["value"]["metadata"] == "é"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda c: c.advance(-1),
        lambda c: c.handle({"op": "poll"}),
        lambda c: c.heartbeat("g", "1", "m"),
        lambda c: c.heartbeat(7, 1, "m"),
        lambda c: c.offset_commit("g", {"t": 1}),
        lambda c: c.offset_commit("g", {("t", 2**31): 1}),
        lambda c: c.fail_append("NO_SUCH_ERROR"),
        lambda c: c.join_group("g", protocol_type="consumer", protocols={"range": "?"}),
        lambda c: GroupCoordinator(appends="later"),
        lambda c: GroupCoordinator({"group.max.size": 0}),
    ],
)
def test_wrong_use_is_a_value_error_and_changes_nothing(wrong):
    coordinator = GroupCoordinator()
    with pytest.raises(ValueError):  # noqa: PT011 - each has its own words
        wrong(coordinator)
    assert coordinator.list_groups().groups == ()


def test_an_unknown_setting_is_a_config_error():
    with pytest.raises(ConfigError, match=r"did you mean 'group\.max\.size'"):
        GroupCoordinator({"group.maxsize": 3})


@pytest.mark.parametrize("behaviour", ["3.9", "4.1"])
@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_is_of_its_producer_with_an_epoch(behaviour, committed):
    """MemoryRecords.writeEndTransactionalMarker: epoch -1 would be none."""
    coordinator = GroupCoordinator({"coterie.behaviour": behaviour})
    coordinator.txn_offset_commit("g", {("t", 0): 5}, producer_id=7, producer_epoch=3)
    coordinator.end_txn(7, committed=committed)
    marker = coordinator.log[-1]
    assert (marker.producer_id, marker.producer_epoch) == (7, 0)
    assert (marker.transactional, marker.control, len(marker.records)) == (True, True, 1)
    assert coordinator.offset_fetch("g", {"t": [0]})["t", 0].offset == (5 if committed else -1)


def test_of_a_partition_that_a_commit_names_twice_the_last_offset_counts():
    """GroupCoordinator.handleCommitOffsets has a map, in the order of the request."""
    for entries, expected in [
        ("t0=5 t0=6", "t0=6"), ("t0=5 t1=6 t0=7", "t0=7 t1=6"), ("t1=5 t0=6", "t1=5 t0=6"),
        ("t0=5 u0=6 t0=7", "t0=7 u0=6"), ("t0=5 t1=6 t1=7 t1=8", "t0=5 t1=8"),
    ]:  # fmt: skip
        coordinator = GroupCoordinator()
        offsets = [{"topic": each[0], "partition": int(each[1]), "offset": int(each[3:])}
                   for each in entries.split()]  # fmt: skip
        request = {"op": "offset_commit", "group_id": "g", "offsets": offsets}
        answered = coordinator.handle(request).response.partitions
        found = [f"{row.topic}{row.partition}" for row in answered]
        assert found == [each[:2] for each in expected.split()]
        values = [
            decode_value(1, value)["data"]["offset"] for _, value in coordinator.log[0].records
        ]
        assert values == [int(each[3:]) for each in expected.split()]


def test_events_go_to_both_lists_of_the_caller_or_to_none():
    class Interrupted(deque):
        def extend(self, _):
            raise KeyboardInterrupt

    core = Coordinator(coordinator_config(None))
    core.call(NUMBER["describe_group"], 1, "g", -1, None, None, (5,))
    events = []
    with pytest.raises(KeyboardInterrupt):
        core.take_events(events, Interrupted())
    assert events == []
    fresh = deque()
    core.take_events(events, fresh)
    assert [event.id for event in events] == [event.id for event in fresh] == [1]


def test_a_core_takes_times_up_to_a_bound_that_its_timers_fit_beyond():
    latest_ms = 2**60
    config = coordinator_config(None)
    assert Coordinator(config, latest_ms).now_ms == latest_ms
    with pytest.raises(ArgumentError, match=f"at most {latest_ms} ms, not {latest_ms + 1}"):
        Coordinator(config, latest_ms + 1)
    core = Coordinator(config)
    core.advance(latest_ms)
    with pytest.raises(ArgumentError, match=f"at most {latest_ms} ms, not {latest_ms + 1}"):
        core.advance(latest_ms + 1)
    with pytest.raises(ArgumentError, match="time runs forward only"):
        core.advance(latest_ms - 1)
    assert core.now_ms == latest_ms


def test_assignments_of_a_generation_end_with_a_rebalance_before_the_leader_has_synced():
    """GroupCoordinator.resetAndPropagateAssignmentError; a plain rebalance keeps them."""
    coordinator = GroupCoordinator()
    (first,) = stable(coordinator, "a")

    def assignments():
        return [member.assignment for member in coordinator.snapshot("g").members]

    join(coordinator, first)  # the leader alone: the next generation begins at once
    assert coordinator.snapshot("g").state == "CompletingRebalance"
    assert assignments() == [b"plan"]
    join(coordinator, client_id="b")
    assert coordinator.snapshot("g").state == "PreparingRebalance"
    assert assignments() == [b"", b""]
    assert {kind for kind, _ in armed(coordinator)} == {"join"}  # nobody has to sync any more
