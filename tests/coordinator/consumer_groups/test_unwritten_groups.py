"""A group that a commit made of which nothing was written (OffsetMetadataManager 4.1.1).

Readers see it once the next write of its partition is committed; if that fails, the group goes.
"""

import pytest

from coterie import CoterieError, Error
from support.consumer_groups.deferred import beat, made, states
from support.coordinator.caller_log import Log
from support.coordinator.classic_group import join


@pytest.fixture
def unwritten():
    """A group that a commit made of which nothing was written (OffsetMetadataManager 4.1.1)."""
    coordinator = made(config={"offset.metadata.max.bytes": 1})
    answer = coordinator.handle({"op": "offset_commit", "group_id": "g", "offsets": [
        {"topic": "t", "partition": 0, "offset": 5, "metadata": "long"}]})  # fmt: skip
    assert answer.response.partitions[0].error is Error.OFFSET_METADATA_TOO_LARGE
    assert not coordinator.log
    return coordinator


def test_readers_do_not_see_it_until_the_next_write_of_its_partition(unwritten):
    assert (states(unwritten), unwritten.describe_group("g").state) == ({}, "Dead")
    unwritten.offset_commit("h", {("t", 0): 1})
    assert states(unwritten) == {"h": "Empty"}
    unwritten.offset_commit("i", {("t", 0): 1})
    assert states(unwritten) == {"g": "Empty", "h": "Empty", "i": "Empty"}
    assert unwritten.describe_group("g").state == "Empty"


def test_a_failed_write_of_its_partition_takes_it_back(unwritten):
    unwritten.fail_append(Error.NOT_ENOUGH_REPLICAS, 2)
    unwritten.offset_commit("h", {("t", 0): 1})
    assert unwritten.snapshot("g") is not None
    unwritten.offset_commit("i", {("t", 0): 1})
    assert unwritten.snapshot("g") is None


def test_the_newest_state_has_it(unwritten):
    late = unwritten.offset_commit("g", {("t", 0): 1}, generation_id=3, member_id="a")
    assert late.response.partitions[0].error is Error.UNKNOWN_MEMBER_ID  # not GROUP_ID_NOT_FOUND
    deleted = unwritten.offset_delete("g", [("t", 0)])
    assert deleted.error is Error.NONE
    assert unwritten.delete_groups(["g"]).groups[0].error is Error.NONE
    assert [[value for _, value in batch.records] for batch in unwritten.log] == [[None]]
    assert unwritten.snapshot("g") is None


def test_a_join_to_it_writes_no_first_record(unwritten):
    join(unwritten)
    assert not unwritten.log


def test_a_heartbeat_to_it_deletes_it_first(unwritten):
    assert beat(unwritten).member_epoch == 1
    assert unwritten.log[0].records[0] == (b"\0\2\0\1g", None)


def test_a_load_forgets_it(unwritten):
    unwritten.failover()
    assert unwritten.snapshot("g") is None


@pytest.mark.parametrize("written", [True, False])
def test_a_marker_of_its_partition_commits_it_or_takes_it_back(written):
    log = Log()
    coordinator = made(config={"offset.metadata.max.bytes": 1}, log_sink=log)
    coordinator.txn_offset_commit("i", {("t", 0): 5}, producer_id=7, producer_epoch=0)
    coordinator.handle({"op": "offset_commit", "group_id": "g", "offsets": [
        {"topic": "t", "partition": 0, "offset": 5, "metadata": "long"}]})  # fmt: skip
    assert states(coordinator) == {"i": "Empty"}
    if written:
        coordinator.end_txn(7, committed=True)
        assert states(coordinator) == {"g": "Empty", "i": "Empty"}
        return
    log.answers = [OSError("full")]
    with pytest.raises(CoterieError, match="full"):
        coordinator.end_txn(7, committed=True)
    assert coordinator.snapshot("g") is None
    assert coordinator._core.open_transactions == {7: ["i"]}


@pytest.mark.parametrize("request_", [
    {"op": "offset_commit", "group_id": "g", "offsets": []},
    {"op": "txn_offset_commit", "group_id": "g", "producer_id": 1, "producer_epoch": -1,
     "offsets": [{"topic": "t", "partition": 0, "offset": 5}]},
])  # fmt: skip
def test_other_commits_that_write_nothing_make_a_group_too(request_):
    coordinator = made()
    coordinator.handle(request_)
    assert not coordinator.log
    assert coordinator.snapshot("g") is not None
