"""DeleteRecords: a partition's data below an offset."""

from __future__ import annotations

from typing import Any

from coterie.server.api.call import Call
from coterie.server.services.data.checks import Refused
from coterie.values import Error

__all__ = ["delete_records"]

_NONE_LEFT = -1


def delete_records(call: Call) -> None:
    """Delete what lies below offsets."""
    topics = []
    for topic in call.body["topics"]:
        found = [_deleted(call, topic["name"], each) for each in topic["partitions"]]
        if found:
            topics.append({"name": topic["name"], "partitions": found})
    return call.answer({"topics": topics})


def _deleted(call: Call, name: str, each: dict[str, Any]) -> dict[str, Any]:
    index = each["partitionIndex"]
    log = call.cluster.topics.partition(name, index)
    low_watermark, error = _NONE_LEFT, Error.NONE
    if log is None:
        error = Error.UNKNOWN_TOPIC_OR_PARTITION
    elif log.internal:
        error = Error.INVALID_TOPIC_EXCEPTION
    else:
        try:
            low_watermark = log.delete_below(each["offset"])
        except Refused as refused:
            error = refused.error
    return {"partitionIndex": index, "lowWatermark": low_watermark, "errorCode": error}
