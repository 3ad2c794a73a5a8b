"""Records of consumer groups that no coordinator wrote end a load with an error, not a crash."""

import pytest

from coterie import Batch, GroupCoordinator
from coterie._core.codec.schema import encode_key, encode_value
from support.coordinator.caller_log import Log

A = "AAAAAAAAAAAAAAAAAAAAAQ"
FIRST, LAST = -(2**31), 2**31 - 1


def current(partitions):
    """Key and value of the current assignment of member m in group g."""
    data = {
        "memberEpoch": 1, "previousMemberEpoch": 0, "state": 0, "partitionsPendingRevocation": [],
        "assignedPartitions": [{"topicId": A, "partitions": partitions}],
    }  # fmt: skip
    key = encode_key({"version": 8, "data": {"groupId": "g", "memberId": "m"}})
    return key, encode_value(8, {"version": 0, "data": data})


def target(partitions):
    """Key and value of the target assignment of member m in group g."""
    data = {"topicPartitions": [{"topicId": A, "partitions": partitions}]}
    key = encode_key({"version": 7, "data": {"groupId": "g", "memberId": "m"}})
    return key, encode_value(7, {"version": 0, "data": data})


@pytest.mark.parametrize("partitions", [[-1], [FIRST], [LAST], [10_000_000], [3, -5, 1]])
@pytest.mark.parametrize("record", [current, target])
def test_a_partition_that_no_topic_can_have_fails_the_load(record, partitions):
    log = Log()
    log.put(Batch(-1, records=(record(partitions),)))
    coordinator = GroupCoordinator({"coterie.behaviour": "4.1"}, log_sink=log)
    coordinator.failover()
    assert f"partitions {min(partitions)} to {max(partitions)}" in coordinator.load_error
