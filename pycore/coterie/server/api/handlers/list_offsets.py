"""ListOffsets and OffsetForLeaderEpoch: where a partition's data begin, end, and lie by time."""

from __future__ import annotations

from collections import Counter
from typing import Any

from coterie.server.api.call import Call
from coterie.server.services.data.partition import PartitionLog
from coterie.values import Error

__all__ = ["list_offsets", "offset_for_leader_epoch"]

Body = dict[str, Any]
_Found = tuple[int, int, int]  # time, offset, leader epoch

LATEST, EARLIEST, LATEST_TIME, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
_SINCE = {LATEST: 1, EARLIEST: 1, LATEST_TIME: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
_CONSUMER = -1
_READ_COMMITTED = 1
_NOTHING: _Found = (-1, -1, -1)


def list_offsets(call: Call) -> None:
    """Find offsets by time, or the first and the last."""
    find = _old if call.api_version == 0 else _new
    named = Counter(
        (topic["name"], each["partitionIndex"])
        for topic in call.body["topics"]
        for each in topic["partitions"]
    )
    topics = []
    for topic in call.body["topics"]:
        found = []
        for each in topic["partitions"]:
            index = each["partitionIndex"]
            if named[topic["name"], index] > 1 and call.api_version:
                answer: Body = {"errorCode": Error.INVALID_REQUEST}
            else:
                answer = find(call, call.cluster.topics.partition(topic["name"], index), each)
            found.append({"partitionIndex": index, **answer})
        topics.append({"name": topic["name"], "partitions": found})
    return call.answer({"topics": topics})


def _old(call: Call, log: PartitionLog | None, each: Body) -> Body:
    """Find offsets as version 0 does: where segments begin that were last written before."""
    timestamp = each["timestamp"]
    if timestamp < EARLIEST:
        return {"errorCode": Error.UNSUPPORTED_VERSION}
    if log is None:
        return {"errorCode": Error.UNKNOWN_TOPIC_OR_PARTITION}
    starts = log.segment_starts()
    if timestamp == EARLIEST:
        starts = starts[:1]
    elif timestamp != LATEST:
        while starts and starts[-1][1] > timestamp:
            starts.pop()
    offsets = sorted((offset for offset, _ in starts), reverse=True)
    return {"errorCode": 0, "oldStyleOffsets": offsets[: max(each["maxNumOffsets"], 0)]}


def _new(call: Call, log: PartitionLog | None, each: Body) -> Body:
    timestamp = each["timestamp"]
    if timestamp < 0 and call.api_version < _SINCE.get(timestamp, 2**15):
        return {"errorCode": Error.UNSUPPORTED_VERSION}
    if log is None:
        return {"errorCode": Error.UNKNOWN_TOPIC_OR_PARTITION}
    error = log.epoch_refusal(each["currentLeaderEpoch"])
    if error is not Error.NONE:
        return {"errorCode": error}
    end = log.high_watermark
    committed = call.body["isolationLevel"] == _READ_COMMITTED
    if committed and call.body["replicaId"] == _CONSUMER:
        end = log.last_stable_offset
    found = _by_time(log, timestamp, end)
    return {"errorCode": 0, "timestamp": found[0], "offset": found[1], "leaderEpoch": found[2]}


def _by_time(log: PartitionLog, timestamp: int, end: int) -> _Found:
    if timestamp == LATEST:
        return -1, end, log.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        epoch, start = log.leader_epochs[0]
        return -1, log.log_start_offset, epoch if start <= log.log_start_offset else -1
    if timestamp == LATEST_TIERED:
        return _NOTHING  # nothing is kept elsewhere
    found = log.latest() if timestamp == LATEST_TIME else log.offset_at(timestamp)
    return found if found is not None and found[1] < end else _NOTHING


def offset_for_leader_epoch(call: Call) -> None:
    """Say where the epoch of a leader ended."""
    topics = []
    for topic in call.body["topics"]:
        found = []
        for each in topic["partitions"]:
            answer: Body = {"partition": each["partition"], "errorCode": 0}
            log = call.cluster.topics.partition(topic["topic"], each["partition"])
            if log is None:
                answer["errorCode"] = Error.UNKNOWN_TOPIC_OR_PARTITION
            else:
                answer["errorCode"] = error = log.epoch_refusal(each["currentLeaderEpoch"])
                if error is Error.NONE:
                    end = log.end_of_epoch(each["leaderEpoch"])
                    answer["leaderEpoch"], answer["endOffset"] = end
            found.append(answer)
        topics.append({"topic": topic["topic"], "partitions": found})
    return call.answer({"topics": topics})
