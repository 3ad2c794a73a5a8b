"""Whose OffsetCommit and TxnOffsetCommit a group takes: each row of the rules.

Rules: docs/rules/coordinator.md#commits, docs/rules/consumer-groups.md#offsets.
"""

import pytest

from coterie import Batch, Error, GroupCoordinator
from support.coordinator.classic_group import RANGE, join

NONE, REBALANCING = Error.NONE, Error.REBALANCE_IN_PROGRESS
ILLEGAL, UNKNOWN = Error.ILLEGAL_GENERATION, Error.UNKNOWN_MEMBER_ID
FENCED, STALE = Error.FENCED_INSTANCE_ID, Error.STALE_MEMBER_EPOCH
NOT_FOUND, UNSUPPORTED = Error.GROUP_ID_NOT_FOUND, Error.UNSUPPORTED_VERSION
BEHAVIOURS = pytest.mark.parametrize("behaviour", ["2.4", "3.9", "4.1"])


def commit(coordinator, generation, member, instance=None, *, txn=False, version=9):
    request = {
        "op": "txn_offset_commit" if txn else "offset_commit", "group_id": "g",
        "generation_id": generation, "member_id": member, "group_instance_id": instance,
        "offsets": [{"topic": "t", "partition": 0, "offset": 5}],
    }  # fmt: skip
    request |= {"producer_id": 7, "producer_epoch": 0} if txn else {"version": version}
    (row,) = coordinator.handle(request).response.partitions
    return row.error


def classic(behaviour, state):
    """A group in a state, and the ids of its static and its dynamic member, of generation 1."""
    coordinator = GroupCoordinator(
        {"coterie.behaviour": behaviour, "group.initial.rebalance.delay.ms": 500}
    )
    fields = {"rebalance_timeout_ms": 60_000}
    joins = [join(coordinator, group_instance_id="i", **fields), join(coordinator, **fields)]
    static, dynamic = (coordinator.run_until(j, limit_ms=9000).member_id for j in joins)
    if state != "CompletingRebalance":
        for member in (static, dynamic):
            coordinator.sync_group("g", 1, member, assignments={})
    if state == "PreparingRebalance":
        join(coordinator, client_id="third", **fields)
    elif state == "Empty":
        coordinator.leave_group("g", [static, dynamic])
        coordinator.advance_by(60_000)
    assert coordinator.describe_group("g").state == state
    return coordinator, static, dynamic


@BEHAVIOURS
@pytest.mark.parametrize("state", ["Stable", "PreparingRebalance", "CompletingRebalance"])
def test_a_group_with_members_takes_commits_of_its_members_and_generation(behaviour, state):
    coordinator, static, dynamic = classic(behaviour, state)
    valid = REBALANCING if state == "CompletingRebalance" else NONE
    rows = [
        (1, dynamic, None, valid, NONE),
        (1, static, "i", valid, NONE),
        (1, static, None, valid, NONE),
        (0, dynamic, None, ILLEGAL, ILLEGAL),
        (2, static, "i", ILLEGAL, ILLEGAL),
        (-1, dynamic, None, ILLEGAL, ILLEGAL),
        (-1, "", None, UNKNOWN, NONE),
        (0, "", None, UNKNOWN, UNKNOWN),
        (1, "", None, UNKNOWN, UNKNOWN),
        (1, "x", None, UNKNOWN, UNKNOWN),
        (2, "x", None, UNKNOWN, UNKNOWN),
        (1, static, "j", UNKNOWN, UNKNOWN),
        (-1, "", "j", UNKNOWN, UNKNOWN),
        (1, dynamic, "i", FENCED, FENCED),
        (-1, "", "i", FENCED, FENCED),
    ]
    for generation, member, instance, plain, txn in rows:
        request = (generation, member, instance)
        assert (request, commit(coordinator, *request)) == (request, plain)
        assert (request, commit(coordinator, *request, txn=True)) == (request, txn)


@BEHAVIOURS
def test_an_empty_group_takes_all_commits_without_a_generation(behaviour):
    coordinator, _, dynamic = classic(behaviour, "Empty")
    for generation, member, instance, error in [
        (-1, "", None, NONE), (-1, dynamic, None, NONE), (-1, "x", "i", NONE),
        (0, "", None, UNKNOWN), (1, "", None, UNKNOWN), (2, dynamic, None, UNKNOWN),
        (0, "", "i", UNKNOWN),
    ]:  # fmt: skip
        for txn in (False, True):
            assert commit(coordinator, generation, member, instance, txn=txn) is error


@BEHAVIOURS
@pytest.mark.parametrize("generation", [-1, 0, 1])
def test_a_commit_without_a_generation_makes_a_group(behaviour, generation):
    def answer(**fields):
        coordinator = GroupCoordinator({"coterie.behaviour": behaviour})
        error = commit(coordinator, generation, "m", **fields)
        made = error in (NONE, UNKNOWN)  # a group that was made stays, whatever the answer is
        assert (coordinator.snapshot("g") is not None) == made
        return error

    found = [answer(version=8), answer(version=9), answer(txn=True)]
    if generation < 0:
        assert found == [NONE, NONE, NONE]
    elif behaviour == "4.1":
        assert found == [ILLEGAL, NOT_FOUND, ILLEGAL]
    else:  # the new group is Empty: then it has no such member
        assert found == [ILLEGAL, ILLEGAL, UNKNOWN]


@BEHAVIOURS
@pytest.mark.parametrize("state", ["Stable", "CompletingRebalance"])
def test_a_commit_restarts_the_session_unless_assignments_are_awaited(behaviour, state):
    coordinator, static, dynamic = classic(behaviour, state)
    coordinator.advance_by(9_999)
    commit(coordinator, 1, dynamic)
    commit(coordinator, 1, static, txn=True)
    coordinator.advance_by(1)
    left = {member.member_id for member in coordinator.snapshot("g").members}
    assert left == ({dynamic} if state == "Stable" else set())
    if state == "Stable":
        coordinator.advance_by(9_998)
        assert len(coordinator.snapshot("g").members) == 1


def consumers():
    """A consumer group of a member `a` and a classic one, and their epochs."""
    coordinator = GroupCoordinator({"coterie.behaviour": "4.1"})
    coordinator.set_topics({"t": 4})
    coordinator.consumer_group_heartbeat(
        "g", "a", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    for _ in range(2):  # an epoch that is neither 0 nor 1
        old = join(coordinator).response.member_id
        coordinator.leave_group("g", [old])
    classic_member = join(coordinator).response.member_id
    coordinator.consumer_group_heartbeat("g", "a", 1)
    coordinator.consumer_group_heartbeat("g", "a", 1, topic_partitions=[])
    (group,) = coordinator.consumer_group_describe(["g"]).groups
    return coordinator, {m.member_id: m.member_epoch for m in group.members}, classic_member


def test_a_consumer_group_takes_commits_of_its_members_and_their_epochs():
    coordinator, epochs, old = consumers()
    a, k = epochs["a"], epochs[old]
    assert min(a, k) > 1
    for request, version, error in [
        ((a, "a"), 9, NONE), ((a, "a"), 10, NONE), ((a, "a"), 8, UNSUPPORTED),
        ((a - 1, "a"), 9, STALE), ((a + 1, "a"), 9, STALE), ((-1, "a"), 9, STALE),
        ((a + 1, "a"), 8, UNSUPPORTED),
        ((k, old), 9, NONE), ((k, old), 8, NONE), ((k, old), 2, NONE),
        ((k - 1, old), 8, ILLEGAL), ((k + 1, old), 9, ILLEGAL), ((-1, old), 9, ILLEGAL),
        ((a, "x"), 9, UNKNOWN), ((-1, ""), 9, UNKNOWN), ((0, ""), 9, UNKNOWN),
        ((-1, "x"), 8, UNKNOWN),
    ]:  # fmt: skip
        assert (request, version, commit(coordinator, *request, version=version)) == (
            request, version, error)  # fmt: skip
    for request, error in [
        ((a, "a"), NONE), ((a - 1, "a"), ILLEGAL), ((a + 1, "a"), ILLEGAL), ((-1, "a"), ILLEGAL),
        ((k, old), NONE), ((k + 1, old), ILLEGAL), ((-1, ""), NONE), ((-1, "x"), UNKNOWN),
        ((0, ""), UNKNOWN), ((1, ""), UNKNOWN), ((-1, "", "i"), UNKNOWN),
    ]:  # fmt: skip
        assert (request, commit(coordinator, *request, txn=True)) == (request, error)


def test_a_consumer_group_without_members_takes_all_commits_without_an_epoch():
    coordinator, epochs, old = consumers()
    coordinator.leave_group("g", [old])
    coordinator.consumer_group_heartbeat("g", "a", -1)
    assert coordinator.list_groups().groups[0].state == "Empty"
    for generation, member, error in [
        (-1, "", NONE), (-1, "a", NONE), (-1, "x", NONE), (0, "", UNKNOWN), (0, "x", UNKNOWN),
        (epochs["a"], "a", UNKNOWN),
    ]:  # fmt: skip
        for txn in (False, True):
            assert commit(coordinator, generation, member, txn=txn) is error


def test_a_share_group_takes_no_commits_and_no_joins():
    share = (b"\0\x0b\0\1g", b"\0\0\0\0\0\1\0")
    coordinator = GroupCoordinator({"coterie.behaviour": "4.1"}, log=[Batch(0, records=(share,))])
    for txn in (False, True):
        assert commit(coordinator, -1, "", txn=txn) is NOT_FOUND
    refused = coordinator.join_group("g", protocol_type="consumer", protocols=RANGE, client_id="c")
    assert refused.response.error is Error.INCONSISTENT_GROUP_PROTOCOL
