"""OffsetFetch: what a partition without an offset shows, and who may ask a consumer group.

Rules: docs/rules/offsets.md#fetch, docs/rules/consumer-groups.md#offsets;
OffsetMetadataManager.java (fetchOffsets, validateOffsetFetch).
"""

import pytest

from coterie import Batch, Error, GroupCoordinator
from coterie.messages import encode_key, encode_value
from coterie.values import RefusedOffsetFetch
from support.coordinator.classic_group import join

NONE, UNKNOWN = Error.NONE, Error.UNKNOWN_MEMBER_ID
THROWN = Error.UNKNOWN_SERVER_ERROR  # a null member id


@pytest.mark.parametrize("behaviour", ["2.4", "3.9", "4.1"])
def test_a_partition_without_an_offset_has_minus_one_for_every_number(behaviour):
    coordinator = GroupCoordinator({"coterie.behaviour": behaviour})
    commit = {
        "op": "offset_commit",
        "group_id": "g",
        "offsets": [
            {"topic": "t", "partition": 1, "offset": 5, "leader_epoch": 3, "metadata": "note"}
        ],
    }
    coordinator.handle(commit)
    for group_id, stable in [("g", False), ("g", True), ("h", False), ("h", True)]:
        fetched = coordinator.offset_fetch(
            group_id, {"t": [0, 1]}, require_stable=stable
        ).partitions
        rows = [(row.offset, row.leader_epoch, row.metadata, row.error) for row in fetched]
        known = (5, 3, "note", NONE) if group_id == "g" else (-1, -1, "", NONE)
        assert rows == [(-1, -1, "", NONE), known]


def consumers():
    """A consumer group with a member `a` and a classic one, and their epochs."""
    coordinator = GroupCoordinator({"coterie.behaviour": "4.1"})
    coordinator.set_topics({"t": 4})
    coordinator.consumer_group_heartbeat(
        "g", "a", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    old = join(coordinator).response.member_id
    coordinator.consumer_group_heartbeat("g", "a", 1)
    coordinator.consumer_group_heartbeat("g", "a", 1, topic_partitions=[])
    (group,) = coordinator.consumer_group_describe(["g"]).groups
    return coordinator, {m.member_id: m.member_epoch for m in group.members}, old


@pytest.mark.parametrize("stable", [False, True])
def test_a_consumer_group_checks_the_member_of_a_fetch_and_its_epoch(stable):
    coordinator, epochs, old = consumers()
    coordinator.offset_commit("classic", {("t", 0): 5})
    a, k = epochs["a"], epochs[old]
    assert (a, k) == (2, 2)
    stale, illegal = Error.STALE_MEMBER_EPOCH, Error.ILLEGAL_GENERATION
    for group_id, member_id, epoch, error in [
        ("g", None, -1, NONE), ("g", None, 0, THROWN), ("g", None, 2, THROWN),
        ("g", "", -1, UNKNOWN), ("g", "x", 2, UNKNOWN), ("g", "x", -1, UNKNOWN),
        ("g", "a", a, NONE), ("g", "a", a - 1, stale), ("g", "a", a + 1, stale),
        ("g", "a", -1, stale),
        ("g", old, k, NONE), ("g", old, k - 1, illegal), ("g", old, k + 1, illegal),
        ("g", old, -1, illegal),
        # what is no consumer group has no members to check
        ("classic", "a", 2, NONE), ("classic", None, 0, NONE), ("none", "a", 2, NONE),
        ("none", None, -1, NONE),
    ]:  # fmt: skip
        request = (group_id, member_id, epoch)
        fetched = coordinator.offset_fetch(
            group_id, {"t": [0]}, require_stable=stable, member_id=member_id, member_epoch=epoch
        )
        assert (request, fetched.error) == (request, error)
        # a write handles its errors, and answers with partitions; a read throws them
        assert isinstance(fetched, RefusedOffsetFetch) == (error is not NONE and not stable)
        if group_id == "classic":
            assert fetched["t", 0].offset == 5


def test_an_uncommitted_member_may_fetch_stable_offsets_only():
    """The newest state has it, that of readers does not yet."""
    coordinator = GroupCoordinator({"coterie.behaviour": "4.1"}, appends="deferred")
    coordinator.set_topics({"t": 4})
    coordinator.consumer_group_heartbeat(
        "g", "a", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    fields = {"member_id": "b", "member_epoch": 1}
    assert coordinator.offset_fetch("g", {"t": [0]}, **fields).error is NONE  # no such group yet
    refused = coordinator.offset_fetch("g", {"t": [0]}, require_stable=True, **fields)
    assert getattr(refused, "response", refused).error is UNKNOWN
    waits = coordinator.offset_fetch(
        "g", {"t": [0]}, require_stable=True, member_id="a", member_epoch=1
    )
    assert not waits.done
    coordinator.appends[0].complete()
    assert waits.response.error is NONE
    assert coordinator.offset_fetch("g", {"t": [0]}, **fields).error is UNKNOWN


@pytest.mark.parametrize("with_transaction", [False, True])
@pytest.mark.parametrize("behaviour", ["3.9", "4.1"])
def test_offsets_of_each_version_of_a_record_load_with_what_the_version_has(
    behaviour, with_transaction
):
    """Values 0, 1 and 2 have no leader epoch, and only value 1 has an expiry."""
    records = []
    for version in range(4):
        key = {"version": 1, "data": {"group": "g", "topic": "t", "partition": version}}
        data = {"offset": 10 + version, "metadata": f"note {version}", "commitTimestamp": 7_000}
        data |= {"expireTimestamp": 90_007} if version == 1 else {}
        data |= {"leaderEpoch": 4} if version == 3 else {}
        records.append((encode_key(key), encode_value(1, {"version": version, "data": data})))
    log = [Batch(0, records=tuple(records))]
    if with_transaction:
        key = encode_key({"version": 1, "data": {"group": "other", "topic": "t", "partition": 0}})
        log.append(Batch(4, 7, 0, transactional=True, records=((key, records[3][1]),)))
    coordinator = GroupCoordinator(
        {"coterie.behaviour": behaviour, "offsets.retention.minutes": 1}, log=log, now_ms=10_000
    )
    assert coordinator.load_error is None
    fetched = coordinator.offset_fetch("g").partitions
    assert [(row.offset, row.leader_epoch, row.metadata) for row in fetched] == [
        (10, -1, "note 0"), (11, -1, "note 1"), (12, -1, "note 2"), (13, 4, "note 3"),
    ]  # fmt: skip
    for at_ms, left in [(66_999, [0, 1, 2, 3]), (67_000, [1]), (90_006, [1]), (90_007, [])]:
        coordinator.advance(at_ms)
        coordinator.cleanup()
        assert [row.partition for row in coordinator.offset_fetch("g").partitions] == left
    if with_transaction:
        coordinator.end_txn(7, committed=True)
        assert coordinator.offset_fetch("other")["t", 0].offset == 13
