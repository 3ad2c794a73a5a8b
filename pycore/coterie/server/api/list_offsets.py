"""ListOffsets and OffsetForLeaderEpoch: offsets by position, timestamp and leader epoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from coterie.server.api.call import Call, Slices
from coterie.server.api.rows_in_slices import Pace, answer_in_slices
from coterie.server.services.partition import PartitionLog
from coterie.values import Error

Body = dict[str, Any]
_Position = tuple[int, int, int]  # timestamp, offset, leader epoch

LATEST, EARLIEST, LATEST_TIME, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(
    -1, -7, -1
)
_SINCE = {
    LATEST: 1, EARLIEST: 1, LATEST_TIME: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}  # fmt: skip
_CONSUMER = -1
_READ_COMMITTED = 1
_NOTHING: _Position = (-1, -1, -1)


def list_offsets(call: Call) -> Slices:
    """Return offsets by timestamp, or the first or last offset, in slices."""
    return answer_in_slices(call, lambda rows: {"topics": rows}, _listed(call))


def _listed(call: Call) -> Iterator[Body | None]:
    find = _offsets_by_segment if call.api_version == 0 else _offset_by_timestamp
    counts = Counter(
        (topic["name"], partition["partitionIndex"])
        for topic in call.body["topics"]
        for partition in topic["partitions"]
    )
    pace = Pace()
    topics = call.body["topics"]
    for topic in _merged(topics) if call.cluster.groups.replays else topics:
        partitions = []
        for partition in topic["partitions"]:
            if pace.is_over():
                yield None
            index = partition["partitionIndex"]
            if counts[topic["name"], index] > 1 and call.api_version:
                answer: Body = {"errorCode": Error.INVALID_REQUEST}
            else:
                answer = find(call, call.cluster.topics.partition(topic["name"], index), partition)
            partitions.append({"partitionIndex": index, **answer})
        yield {"name": topic["name"], "partitions": partitions}


def _merged(topics: Iterable[Body]) -> list[Body]:
    """Return each partition once, and no topic without partitions, as Kafka 4 answers them."""
    by_name: dict[str, dict[int, Body]] = {}
    for topic in topics:
        for partition in topic["partitions"]:
            by_name.setdefault(topic["name"], {})[partition["partitionIndex"]] = partition
    return [
        {"name": name, "partitions": list(partitions.values())}
        for name, partitions in by_name.items()
    ]


def _offsets_by_segment(call: Call, log: PartitionLog | None, partition: Body) -> Body:
    """Find offsets as version 0 does: the base offsets of segments last written before a time."""
    timestamp = partition["timestamp"]
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
    return {"errorCode": 0, "oldStyleOffsets": offsets[: max(partition["maxNumOffsets"], 0)]}


def _offset_by_timestamp(call: Call, log: PartitionLog | None, partition: Body) -> Body:
    timestamp = partition["timestamp"]
    if timestamp < 0 and call.api_version < _SINCE.get(timestamp, 2**15):
        return {"errorCode": Error.UNSUPPORTED_VERSION}
    if log is None:
        return {"errorCode": Error.UNKNOWN_TOPIC_OR_PARTITION}
    error = log.epoch_refusal(partition["currentLeaderEpoch"])
    if error is not Error.NONE:
        return {"errorCode": error}
    end = log.high_watermark
    committed = call.body["isolationLevel"] == _READ_COMMITTED
    if committed and call.body["replicaId"] == _CONSUMER:
        end = log.last_stable_offset
    position = _by_time(log, timestamp, end)
    return {
        "errorCode": 0,
        "timestamp": position[0],
        "offset": position[1],
        "leaderEpoch": position[2],
    }


def _by_time(log: PartitionLog, timestamp: int, end: int) -> _Position:
    if timestamp == LATEST:
        return -1, end, log.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        epoch, start = log.leader_epochs[0]
        return -1, log.log_start_offset, epoch if start <= log.log_start_offset else -1
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOTHING  # there is no tiered storage
    position = log.latest() if timestamp == LATEST_TIME else log.offset_at(timestamp)
    return position if position is not None and position[1] < end else _NOTHING


def offset_for_leader_epoch(call: Call) -> Slices:
    """Return the end offset of each requested leader epoch, in slices."""
    return answer_in_slices(call, lambda rows: {"topics": rows}, _ends(call))


def _ends(call: Call) -> Iterator[Body | None]:
    pace = Pace()
    for topic in call.body["topics"]:
        partitions = []
        for partition in topic["partitions"]:
            if pace.is_over():
                yield None
            answer: Body = {"partition": partition["partition"], "errorCode": 0}
            log = call.cluster.topics.partition(topic["topic"], partition["partition"])
            if log is None:
                answer["errorCode"] = Error.UNKNOWN_TOPIC_OR_PARTITION
            else:
                answer["errorCode"] = error = log.epoch_refusal(partition["currentLeaderEpoch"])
                if error is Error.NONE:
                    end = log.end_of_epoch(partition["leaderEpoch"])
                    answer["leaderEpoch"], answer["endOffset"] = end
            partitions.append(answer)
        yield {"topic": topic["topic"], "partitions": partitions}
