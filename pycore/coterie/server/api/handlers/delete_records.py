"""DeleteRecords: remove the records of a partition below an offset."""

from __future__ import annotations

from typing import Any

from coterie.server.api.call import Call
from coterie.server.services.data.checks import Refused
from coterie.values import Error

__all__ = ["delete_records"]

_NO_LOW_WATERMARK = -1


def delete_records(call: Call) -> None:
    """Delete the records below the requested offsets."""
    topics = []
    for topic in call.body["topics"]:
        partitions = [_delete(call, topic["name"], partition) for partition in topic["partitions"]]
        if partitions:
            topics.append({"name": topic["name"], "partitions": partitions})
    return call.answer({"topics": topics})


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
