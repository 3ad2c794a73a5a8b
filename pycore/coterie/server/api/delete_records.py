"""DeleteRecords: remove the records of a partition below an offset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coterie.server.api.call import Call, Slices
from coterie.server.api.rows_in_slices import answer_in_slices, runs
from coterie.server.services.batch_checks import Refused
from coterie.values import Error

_NO_LOW_WATERMARK = -1


def delete_records(call: Call) -> Slices:
    return answer_in_slices(call, lambda rows: {"topics": rows}, _topics(call))


def _topics(call: Call) -> Iterator[dict[str, Any] | None]:
    for topic in call.body["topics"]:
        partitions: list[dict[str, Any]] = []
        for run in runs(topic["partitions"]):
            if partitions:
                yield None
            partitions += [_delete(call, topic["name"], partition) for partition in run]
        if partitions:
            yield {"name": topic["name"], "partitions": partitions}


def _delete(call: Call, name: str, partition: dict[str, Any]) -> dict[str, Any]:
    index = partition["partitionIndex"]
    log = call.cluster.topics.partition(name, index)
    low_watermark, error = _NO_LOW_WATERMARK, Error.NONE
    if log is None:
        error = Error.UNKNOWN_TOPIC_OR_PARTITION
    elif log.internal:
        error = Error.INVALID_TOPIC_EXCEPTION
    else:
        try:
            low_watermark = log.delete_below(partition["offset"])
        except Refused as refused:
            error = refused.error
    return {"partitionIndex": index, "lowWatermark": low_watermark, "errorCode": error}
