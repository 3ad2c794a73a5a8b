"""Classic groups beside writes that are not committed: what comes back, and whose timers fire."""

import pytest

from coterie import Batch, Error, GroupCoordinator
from coterie.messages import encode_key

CLASSIC_GROUP = 2  # version of a key
FAILED = Error.NOT_LEADER_OR_FOLLOWER


@pytest.fixture
def coordinator():
    made = GroupCoordinator({"coterie.behaviour": "4.1"}, appends="deferred")
    made.set_topics({"t": 2})
    return made


def complete(coordinator, error=Error.NONE):
    while coordinator.appends:
        coordinator.appends[0].complete(error)


def join(coordinator, group_id, **more):
    fields = {"protocol_type": "consumer", "protocols": [("range", b"")]}
    return coordinator.join_group(group_id, "", session_timeout_ms=10_000, **fields | more)


def upgrade(coordinator, group_id):
    coordinator.consumer_group_heartbeat(
        group_id, "new", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"],
        topic_partitions=[],
    )  # fmt: skip


def generations(coordinator, *group_ids):
    return [coordinator.snapshot(group_id).generation_id for group_id in group_ids]


def test_a_group_whose_commit_failed_and_one_that_came_later_have_timers_of_their_own(coordinator):
    coordinator.offset_commit("g", {("t", 0): 5})
    complete(coordinator)
    coordinator.offset_commit("g", {("t", 0): 6})
    complete(coordinator, FAILED)
    for group_id in ("h", "g"):
        join(coordinator, group_id)
        complete(coordinator)
    coordinator.advance_by(4_000)
    assert generations(coordinator, "h", "g") == [1, 1]


@pytest.mark.parametrize("error", [Error.NONE, FAILED])
def test_an_id_that_expires_during_an_upgrade_disturbs_no_other_group(coordinator, error):
    join(coordinator, "g", require_known_member_id=True)
    complete(coordinator)
    upgrade(coordinator, "g")
    (upgrading,) = coordinator.appends
    coordinator.advance_by(11_000)
    join(coordinator, "h")
    upgrading.complete(error)
    complete(coordinator)
    join(coordinator, "i")
    complete(coordinator)
    coordinator.advance_by(4_000)
    complete(coordinator)
    assert generations(coordinator, "h", "i") == [1, 1]
    if error:
        assert coordinator.snapshot("g").pending_members == ()


def test_topics_of_a_group_that_a_tombstone_of_a_classic_group_removes_have_no_reader():
    first = GroupCoordinator({"coterie.behaviour": "4.1"})
    first.set_topics({"t": 2})
    upgrade(first, "g")
    key = encode_key({"version": CLASSIC_GROUP, "data": {"group": "g"}})
    end = sum(len(batch.records) for batch in first.log)
    log = [*first.log, Batch(end, records=((key, None),))]
    loaded = GroupCoordinator({"coterie.behaviour": "4.1"}, log=log)
    assert loaded.snapshot("g") is None
    loaded.set_topics({"t": 3})  # the topic has no reader
    assert loaded.load_error is None
