"""The first check of each request: the group id, and who has its partition of the offsets topic;
and what a join is answered that a check refuses.

Rules: docs/rules/coordinator.md#group-status, #describe-and-list and #sessions.
"""

import pytest

from coterie import Error, GroupCoordinator
from support.coordinator.classic_group import RANGE, join, stable

BEHAVIOURS = pytest.mark.parametrize("behaviour", ["2.4", "3.9", "4.1"])
NONE, INVALID = Error.NONE, Error.INVALID_GROUP_ID
ELSEWHERE, LOADING = Error.NOT_COORDINATOR, Error.COORDINATOR_LOAD_IN_PROGRESS
OFFSETS = [{"topic": "t", "partition": 0, "offset": 5}]
JOIN = {"protocol_type": "consumer", "client_id": "c", "client_host": "/h", "protocols": [],
        "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000}  # fmt: skip
TXN = {"offsets": OFFSETS, "producer_id": 7, "producer_epoch": 0}
# Fields; the error while it loads; that of the empty id.
REQUESTS = {
    "join_group": (JOIN, LOADING, INVALID),
    "sync_group": ({"generation_id": 1, "member_id": "m"}, Error.REBALANCE_IN_PROGRESS, INVALID),
    "heartbeat": ({"generation_id": 1, "member_id": "m"}, NONE, INVALID),
    "leave_group": ({"members": [{"member_id": "m"}]}, LOADING, INVALID),
    "offset_commit": ({"offsets": OFFSETS}, LOADING, NONE),
    "txn_offset_commit": (TXN, LOADING, INVALID),
    "offset_fetch": ({}, LOADING, NONE),
    "offset_delete": ({"partitions": []}, LOADING, INVALID),
    "describe_group": ({}, LOADING, NONE),
    "delete_groups": ({}, LOADING, Error.GROUP_ID_NOT_FOUND),
    "consumer_group_heartbeat": (
        {"member_id": "m", "rebalance_timeout_ms": 5, "subscribed_topic_names": ["t"],
         "topic_partitions": []}, LOADING, Error.INVALID_REQUEST),
    "consumer_group_describe": ({}, LOADING, INVALID),
}  # fmt: skip


def status_of(coordinator, op, group_id):
    several = op in ("delete_groups", "consumer_group_describe")
    name = {"group_ids": [group_id]} if several else {"group_id": group_id}
    answer = coordinator.handle({"op": op, **name, **REQUESTS[op][0]})
    answer = getattr(answer, "response", answer)
    rows = getattr(answer, "partitions", ()) or getattr(answer, "groups", ())
    return rows[0].error if op.endswith("commit") or several else answer.error


@BEHAVIOURS
@pytest.mark.parametrize("op", REQUESTS)
def test_a_request_is_refused_by_its_id_or_its_partition(behaviour, op):
    if op.startswith("consumer") and behaviour != "4.1":
        return
    _, loading, empty = REQUESTS[op]
    coordinator = GroupCoordinator({"coterie.behaviour": behaviour})
    assert status_of(coordinator, op, "") is empty
    if op not in ("delete_groups", "consumer_group_describe", "consumer_group_heartbeat"):
        assert status_of(coordinator, op, None) is INVALID
    coordinator.resign()
    assert status_of(coordinator, op, "g") is ELSEWHERE
    coordinator.begin_load()
    assert status_of(coordinator, op, "g") is loading
    coordinator.finish_load()
    assert status_of(coordinator, op, "g") not in (ELSEWHERE, LOADING)


@BEHAVIOURS
def test_groups_are_listed_by_state_and_type_in_any_case(behaviour):
    coordinator = GroupCoordinator({"coterie.behaviour": behaviour})
    coordinator.offset_commit("empty", {("t", 0): 5})
    stable(coordinator)
    coordinator.join_group("joining", protocol_type="connect", protocols=RANGE, client_id="c")
    rows = [("empty", "", "Empty"), ("g", "consumer", "Stable"),
            ("joining", "connect", "PreparingRebalance")]  # fmt: skip
    for states, names in [
        ([], ["empty", "g", "joining"]), (["STABLE"], ["g"]), (["dead"], []),
        (["stable", "preparingRebalance"], ["g", "joining"]), (["Empty", "Dead"], ["empty"]),
    ]:  # fmt: skip
        listed = coordinator.list_groups(states).groups
        assert [(row.group_id, row.protocol_type, row.state) for row in listed] == [
            row for row in rows if row[0] in names
        ]
    if behaviour == "4.1":
        for types, count in [(["CLASSIC"], 3), (["consumer"], 0), (["Consumer", "classic"], 3)]:
            assert len(coordinator.list_groups(types=types).groups) == count
        assert len(coordinator.list_groups(["stable"], ["classic"]).groups) == 1


def evictions(coordinator):
    core = coordinator._core
    return core.session_evictions, core.rebalance_evictions, core.sync_evictions


@BEHAVIOURS
def test_each_member_that_time_removes_is_counted_under_its_cause(behaviour):
    """It counts what the broker's metrics and its log tell apart."""
    coordinator = GroupCoordinator({"coterie.behaviour": behaviour})
    one, _ = stable(coordinator, "a", "b", session_timeout_ms=6_000)
    coordinator.advance_by(6_000)
    assert evictions(coordinator) == (2, 0, 0)
    long = {"session_timeout_ms": 300_000, "rebalance_timeout_ms": 3_000}
    coordinator = GroupCoordinator({"coterie.behaviour": behaviour})
    one, *_ = stable(coordinator, "a", "b", "c", **long)
    join(coordinator, one, protocols={"range": RANGE["range"].replace(b"t", b"u")}, **long)
    coordinator.advance_by(3_000)
    assert evictions(coordinator) == (0, 2, 0)
    coordinator = GroupCoordinator({"coterie.behaviour": behaviour})
    for client in "abc":
        join(coordinator, client_id=client, **long)
    coordinator.advance_by(3_000)
    assert coordinator.snapshot("g").state == "CompletingRebalance"
    coordinator.advance_by(3_000)
    assert evictions(coordinator) == ((0, 0, 0) if behaviour == "2.4" else (0, 0, 3))


REFUSED = {  # fields of the join -> error, member id of the answer
    "of a short session": ({"session_timeout_ms": 5_999}, "INVALID_SESSION_TIMEOUT", ""),
    "of an unknown id": ({"member_id": "x"}, "UNKNOWN_MEMBER_ID", "x"),
    "of another type": ({"protocol_type": "connect"}, "INCONSISTENT_GROUP_PROTOCOL", ""),
    "of an unknown instance": (
        {"member_id": "x", "group_instance_id": "j"}, "UNKNOWN_MEMBER_ID", "x"),
    "of another's instance": (
        {"member_id": "x", "group_instance_id": "i"}, "FENCED_INSTANCE_ID", "x"),
    "without an id": ({"require_known_member_id": True}, "MEMBER_ID_REQUIRED", "c-00000002"),
}  # fmt: skip


@pytest.mark.parametrize("behaviour", ["2.4", "3.9", "4.1"])
@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_join_has_no_generation_protocol_leader_or_members(behaviour, what):
    """docs/rules/coordinator.md#joingroup; the defaults of JoinGroupResponse.json."""
    fields, error, member_id = REFUSED[what]
    coordinator = GroupCoordinator({"coterie.behaviour": behaviour})
    stable(coordinator, group_instance_id="i")
    fields = {"protocol_type": "consumer", "protocols": {"range": b""}, "client_id": "c"} | fields
    answer = coordinator.join_group("g", **fields).response
    assert answer.error is Error[error]
    assert (answer.generation_id, answer.leader, answer.members) == (-1, "", ())
    assert not answer.protocol_type
    assert not answer.protocol_name
    assert not answer.skip_assignment
    if behaviour != "4.1" or error != "MEMBER_ID_REQUIRED":
        assert answer.member_id == member_id


@pytest.mark.parametrize("appends", ["immediate", "deferred"])
@pytest.mark.parametrize("first", ["none", "consumer"])
def test_a_join_whose_record_is_not_written_has_no_generation_either(appends, first):
    coordinator = GroupCoordinator({"coterie.behaviour": "4.1"}, appends=appends)
    coordinator.set_topics({"t": 4})
    if first == "consumer":
        coordinator.consumer_group_heartbeat(
            "g", "m", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"],
            topic_partitions=[],
        )  # fmt: skip
    while coordinator.appends:
        coordinator.appends[0].complete()
    if appends == "immediate":
        coordinator.fail_append(Error.NOT_ENOUGH_REPLICAS)
    pending = join(coordinator)
    while coordinator.appends:
        coordinator.appends[0].complete(Error.NOT_ENOUGH_REPLICAS)
    answer = pending.response
    assert answer.error is Error.COORDINATOR_NOT_AVAILABLE
    assert (answer.generation_id, answer.leader, answer.members) == (-1, "", ())
    assert (answer.member_id, answer.skip_assignment) == ("", False)
