"""What must be gone, or be there again, after a request, a load, an expiry or a trace."""

import pytest

from coterie import Batch, Error, GroupCoordinator, Transition, load_trace
from coterie.events import Cause
from support.coordinator.caller_log import Log
from support.coordinator.classic_group import join, stable

BEHAVIOURS = pytest.mark.parametrize("behaviour", ["2.4", "3.9", "4.1"])
UNREADABLE = {"range": bytes.fromhex("0000 7fffffff 0001 74")}


def made(behaviour="3.9", config=None, **options):
    return GroupCoordinator({"coterie.behaviour": behaviour} | (config or {}), **options)


def members(coordinator):
    return [member.member_id for member in coordinator.snapshot("g").members]


@BEHAVIOURS
def test_a_load_of_another_log_leaves_nothing_of_the_one_before(behaviour):
    log = Log()
    coordinator = made(behaviour, log_sink=log)
    coordinator.offset_commit("g", {("t", 0): 5})
    coordinator.txn_offset_commit("h", {("t", 0): 6}, producer_id=7, producer_epoch=0)
    assert coordinator._core.open_transactions == {7: ["h"]}
    whole = list(log.batches)
    key = whole[0].records[0][0]
    log.batches[:] = [Batch(0, records=((key, b"\0\x09"),))]
    coordinator.failover()
    assert coordinator.load_error is not None
    log.batches.clear()
    for partition in (None, None):
        coordinator.resign(partition)
        coordinator.begin_load(partition)
        coordinator.finish_load(partition)
    assert coordinator.load_error is None
    assert coordinator._core.open_transactions == {}
    assert coordinator._core.offsets_of("g") is coordinator._core.offsets_of("h") is None
    assert coordinator.list_groups().groups == ()
    log.batches[:] = whole
    coordinator.failover()
    assert coordinator.offset_fetch("g")["t", 0].offset == 5
    assert coordinator._core.open_transactions == {7: ["h"]}


@BEHAVIOURS
@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_ends_its_transaction_and_no_other(behaviour, committed):
    coordinator = made(behaviour)
    for group_id, producer in [("g", 7), ("h", 7), ("g", 8)]:
        coordinator.txn_offset_commit(
            group_id, {("t", producer): producer}, producer_id=producer, producer_epoch=3
        )
    coordinator.end_txn(6, committed=committed)  # it has no offsets
    assert coordinator._core.open_transactions == {7: ["g", "h"], 8: ["g"]}
    coordinator.end_txn(7, committed=committed)
    assert coordinator._core.open_transactions == {8: ["g"]}
    marker = coordinator.log[-1]
    assert (marker.producer_id, marker.producer_epoch) == (7, 0)
    assert (marker.transactional, marker.control) == (True, True)
    assert marker.records == ((b"\0\0\0\1" if committed else b"\0\0\0\0", b"\0\0\0\0\0\0"),)
    found = {
        group_id: {
            row.partition: row.offset for row in coordinator.offset_fetch(group_id).partitions
        }
        for group_id in ("g", "h")
    }
    assert found == ({"g": {7: 7}, "h": {7: 7}} if committed else {"g": {}, "h": {}})


@BEHAVIOURS
def test_an_empty_value_is_no_tombstone(behaviour):
    log = [Batch(0, records=((b"\0\x63", b""), (b"\0\x63", None), (b"", b"x"), (None, b"")))]
    assert made(behaviour, log=log).log[0].records == log[0].records


@BEHAVIOURS
def test_of_equal_partitions_of_a_commit_the_last_counts(behaviour):
    coordinator = made(behaviour)
    rows = [("t", 0, 1), ("t", 0, 2), ("t", 1, 3), ("t", 0, 4)]
    for count, (first, second) in {2: (2, None), 4: (4, 3)}.items():
        offsets = [{"topic": t, "partition": p, "offset": o} for t, p, o in rows[:count]]
        coordinator.handle({"op": "offset_commit", "group_id": "g", "offsets": offsets})
        found = {row.partition: row.offset for row in coordinator.offset_fetch("g").partitions}
        assert (found[0], found.get(1)) == (first, second)


@BEHAVIOURS
def test_metadata_is_as_long_as_it_may_be_in_utf16_units(behaviour):
    coordinator = made(behaviour, {"offset.metadata.max.bytes": 4})
    for text, fits in [("", True), ("abcd", True), ("abcde", False), ("\U0001f600" * 2, True),
                       ("\U0001f600" * 2 + "a", False), ("\uffff" * 4, True)]:  # fmt: skip
        row = {"topic": "t", "partition": 0, "offset": 5, "metadata": text}
        request = {"op": "offset_commit", "group_id": "g", "offsets": [row]}
        (answer,) = coordinator.handle(request).response.partitions
        assert (text, answer.error) == (
            text, Error.NONE if fits else Error.OFFSET_METADATA_TOO_LARGE)  # fmt: skip


@BEHAVIOURS
def test_an_id_that_was_handed_out_goes_if_the_group_is_full_by_then(behaviour):
    coordinator = made(behaviour, {"group.max.size": 1})
    known = join(coordinator, require_known_member_id=True).response.member_id
    assert coordinator.snapshot("g").pending_members == (known,)
    (member,) = stable(coordinator, "b")
    refused = join(coordinator, known).response
    assert refused.error is Error.GROUP_MAX_SIZE_REACHED
    assert coordinator.snapshot("g").pending_members == ()
    assert members(coordinator) == [member]


@BEHAVIOURS
def test_who_waits_for_its_assignment_is_not_evicted_meanwhile(behaviour):
    coordinator = made(behaviour)
    joins = [join(coordinator, client_id=c, rebalance_timeout_ms=60_000) for c in "ab"]
    leader, follower = (coordinator.run_until(each, limit_ms=9_000).member_id for each in joins)
    waiting = coordinator.sync_group("g", 1, follower)
    for _ in range(3):
        coordinator.advance_by(9_000)
        coordinator.heartbeat("g", 1, leader)
    assert not waiting.done
    coordinator.sync_group("g", 1, leader, assignments={follower: b"mine"})
    assert waiting.response.assignment == b"mine"
    coordinator.advance_by(9_999)
    assert members(coordinator) == [leader, follower]
    coordinator.advance_by(1)
    assert follower not in members(coordinator)


@pytest.mark.parametrize("behaviour", ["3.9", "4.1"])
def test_a_group_that_is_not_there_is_dead_and_an_error_since_version_6(behaviour):
    for version, error in [(4, Error.NONE), (5, Error.NONE), (6, Error.GROUP_ID_NOT_FOUND),
                           (7, Error.GROUP_ID_NOT_FOUND)]:  # fmt: skip
        request = {"op": "describe_group", "group_id": "g", "version": version}
        answer = made(behaviour).handle(request)
        assert (version, answer.state, answer.error) == (version, "Dead", error)


def test_a_trace_that_was_played_leaves_what_kafka_throws_in_a_timer_to_the_timer():
    """A trace stops there; a coordinator of a test goes on, as a broker does."""
    coordinator = made()
    coordinator.play(load_trace([{"format": "coterie-trace", "version": 1}]))
    join(coordinator, protocols=UNREADABLE)
    coordinator.advance_by(60_000)
    assert coordinator.snapshot("g").state == "PreparingRebalance"


@BEHAVIOURS
def test_assignments_of_a_generation_that_failed_are_forgotten(behaviour):
    coordinator = made(behaviour)
    one, two = stable(coordinator, "a", "b")
    again = join(coordinator, one, protocols={"range": b"\0\0\0\0\0\1\0\1u\xff\xff\xff\xff"})
    join(coordinator, two)
    assert again.response.generation_id == 2
    assert {m.assignment for m in coordinator.snapshot("g").members} == {b"plan"}
    coordinator.fail_append(Error.NOT_ENOUGH_REPLICAS, 1)
    coordinator.sync_group("g", 2, again.response.leader, assignments={one: b"x", two: b"y"})
    assert coordinator.snapshot("g").state == "PreparingRebalance"
    assert {m.assignment for m in coordinator.snapshot("g").members} == {b""}


def test_a_group_of_an_emptied_protocol_takes_any_and_a_group_of_none_takes_no_empty_list():
    for behaviour in ("3.9", "4.1"):
        coordinator = made(behaviour)
        refused = join(coordinator, protocols={}).response
        assert refused.error is Error.INCONSISTENT_GROUP_PROTOCOL
        nameless = coordinator.join_group("g", protocol_type="", protocols={"p": b""},
                                          client_id="c")  # fmt: skip
        assert nameless.response.error is Error.INCONSISTENT_GROUP_PROTOCOL


@BEHAVIOURS
def test_a_deleted_group_has_a_tombstone_of_its_own_if_it_had_a_record(behaviour):
    only_offsets, with_members = made(behaviour), made(behaviour)
    only_offsets.offset_commit("g", {("t", 1): 5, ("t", 0): 6})
    (member,) = stable(with_members)
    with_members.leave_group("g", [member])
    for coordinator, own in [(only_offsets, behaviour == "4.1"), (with_members, True)]:
        coordinator.delete_groups(["g"])
        keys = [key for key, value in coordinator.log[-1].records if value is None]
        assert (b"\0\2\0\1g" in keys) == own
        assert coordinator.snapshot("g") is None
    offsets = [key for key, _ in only_offsets.log[-1].records if key[1] == 1]
    assert [key[-1] for key in offsets] == [0, 1]


@BEHAVIOURS
def test_a_leave_that_a_pending_id_sends_lets_those_who_wait_go_on(behaviour):
    coordinator = made(behaviour)
    (member,) = stable(coordinator)
    known = join(coordinator, client_id="b", require_known_member_id=True).response.member_id
    waiting = join(coordinator, member, protocols={"range": b"\0\0\0\0\0\0\xff\xff\xff\xff"})
    assert not waiting.done
    assert coordinator.leave_group("g", [known]).error is Error.NONE
    assert waiting.response.generation_id == 2
    causes = [e.cause for e in coordinator.events if isinstance(e, Transition)]
    assert causes[-1] is Cause.COMPLETED
