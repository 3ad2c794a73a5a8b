"""The answer that refuses a request as a whole, in its API's own form.

An error stands at the top where the API has a place there, and else in each entry that was asked
for. Source: ``getErrorResponse`` of each request class. SASL refuses so what comes between its
steps, and a test's injected faults look so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.values import Error

__all__ = ["added_partitions", "message_of", "refusal"]

Body = dict[str, Any]
_Refuse = Callable[[Body, int, int], Body]  # of the request's body, its version, and the error


_MESSAGES = {  # as a broker gives them; of the others the name says as much
    Error.INVALID_REQUEST: (
        "This most likely occurs because of a request being malformed by the client library or "
        "the message was sent to an incompatible broker. See the broker logs for more details."
    ),
}


def message_of(error: int) -> str:
    """Return what stands in an answer beside the number of an error."""
    return _MESSAGES.get(Error(error), Error(error).name)


def refusal(api_key: int, version: int, body: Body, error: int) -> Body:
    """Return the body that refuses a request with this error."""
    refuse = _REFUSALS.get(api_key)
    return _top(body, version, error) if refuse is None else refuse(body, version, error)


def _top(body: Body, version: int, error: int) -> Body:
    return {"errorCode": error, "errorMessage": message_of(error)}


def _entry(error: int, **fields: Any) -> Body:
    return {**fields, "errorCode": error, "errorMessage": message_of(error)}


def _partitions(index: str = "partitionIndex", **blank: Any) -> _Refuse:
    """Refuse what names topics and, in each, partitions: the error stands in each partition."""

    def refuse(body: Body, version: int, error: int) -> Body:
        topics = []
        for topic in body["topics"]:
            own = [
                _entry(error, **blank, **{index: each if isinstance(each, int) else each[index]})
                for each in topic.get("partitions") or topic.get("partitionIndexes") or ()
            ]
            topics.append({**_named(topic), "partitions": own})
        return {"topics": topics}

    return refuse


def _named(topic: Body) -> Body:
    return {field: topic[field] for field in ("name", "topic", "topicId") if field in topic}


def _each(source: str, target: str, fields: dict[str, str]) -> _Refuse:
    """Refuse a list entry by entry; ``fields``: of the answer's entry -> of the request's."""

    def refuse(body: Body, version: int, error: int) -> Body:
        entries = [
            _entry(
                error,
                **{
                    name: each[of] if isinstance(each, dict) else each
                    for name, of in fields.items()
                    if not isinstance(each, dict) or of in each
                },
            )
            for each in body[source] or ()
        ]
        return {target: entries}

    return refuse


def _produce(body: Body, version: int, error: int) -> Body:
    blank = {"baseOffset": -1, "logAppendTimeMs": -1, "logStartOffset": -1}
    return {
        "responses": [
            {
                "name": topic["name"],
                "partitionResponses": [
                    _entry(error, index=each["index"], **blank) for each in topic["partitionData"]
                ],
            }
            for topic in body["topicData"]
            if topic["partitionData"]
        ]
    }


def _fetch(body: Body, version: int, error: int) -> Body:
    responses = [
        {
            "topic": topic["topic"],
            "partitions": [
                {"partitionIndex": each["partition"], "errorCode": error, "highWatermark": -1}
                for each in topic["partitions"]
            ],
        }
        for topic in body["topics"]
    ]
    return {
        "errorCode": error,
        "sessionId": body["sessionId"],
        "responses": responses if version < 13 else [],
    }


def _find_coordinator(body: Body, version: int, error: int) -> Body:
    nobody = {"nodeId": -1, "host": "", "port": -1}
    if version < 4:
        return _entry(error, **nobody)
    return {"coordinators": [_entry(error, key=key, **nobody) for key in body["coordinatorKeys"]]}


def _join_group(body: Body, version: int, error: int) -> Body:
    name = None if version >= 7 else ""
    return {"errorCode": error, "generationId": -1, "protocolName": name, "leader": ""}


def _offset_fetch(body: Body, version: int, error: int) -> Body:
    if version >= 8:
        return {"groups": [_entry(error, groupId=each["groupId"]) for each in body["groups"]]}
    if version >= 2:
        return {"errorCode": error}
    by_name: dict[str, dict[int, None]] = {}  # a partition that is named twice is told once
    for topic in body["topics"] or ():
        by_name.setdefault(topic["name"], {}).update(dict.fromkeys(topic["partitionIndexes"]))
    topics = [
        {
            "name": name,
            "partitions": [
                _entry(error, partitionIndex=number, committedOffset=-1, metadata="")
                for number in numbers
            ],
        }
        for name, numbers in by_name.items()
        if numbers
    ]
    return {"topics": topics}


def added_partitions(topics: list[Body], error: int) -> list[Body]:
    """Return one error for all partitions that AddPartitionsToTxn asks for, as they were asked."""
    return [
        {
            "name": topic["name"],
            "resultsByPartition": [
                {"partitionIndex": number, "partitionErrorCode": error}
                for number in topic["partitions"]
            ],
        }
        for topic in topics
    ]


def _add_partitions(body: Body, version: int, error: int) -> Body:
    if version >= 4:
        return {"errorCode": error}
    return {"resultsByTopicV3AndBelow": added_partitions(body["v3AndBelowTopics"], error)}


def _delete_topics(body: Body, version: int, error: int) -> Body:
    if version < 6:
        return {"responses": [_entry(error, name=name) for name in body["topicNames"]]}
    return {"responses": [_entry(error, **_named(each)) for each in body["topics"]]}


def _metadata(body: Body, version: int, error: int) -> Body:
    # A topic that is asked for by its id has no name; versions before 12 cannot say so.
    return {
        "topics": [
            _entry(error, name=each["name"] or "", topicId=each["topicId"])
            for each in body["topics"] or ()
        ]
    }


def _markers(body: Body, version: int, error: int) -> Body:
    return {
        "markers": [
            {
                "producerId": marker["producerId"],
                "topics": [
                    {
                        "name": topic["name"],
                        "partitions": [
                            {"partitionIndex": number, "errorCode": error}
                            for number in topic["partitionIndexes"]
                        ],
                    }
                    for topic in marker["topics"]
                ],
            }
            for marker in body["markers"]
        ]
    }


_NAME = {"name": "name"}
_RESOURCE = {"resourceType": "resourceType", "resourceName": "resourceName"}
_REFUSALS: dict[int, _Refuse] = {
    0: _produce,
    1: _fetch,
    2: _partitions(timestamp=-1, offset=-1),
    3: _metadata,
    8: _partitions(),
    9: _offset_fetch,
    10: _find_coordinator,
    11: _join_group,
    15: _each("groups", "groups", {"groupId": "groupId"}),
    19: _each("topics", "topics", _NAME),
    20: _delete_topics,
    21: _partitions(lowWatermark=-1),
    22: lambda body, version, error: _entry(error, producerId=-1, producerEpoch=-1),
    23: _partitions("partition", leaderEpoch=-1, endOffset=-1),
    24: _add_partitions,
    27: _markers,
    28: _partitions(),
    32: _each("resources", "results", _RESOURCE),
    33: _each("resources", "responses", _RESOURCE),
    37: _each("topics", "results", _NAME),
    42: _each("groupsNames", "results", {"groupId": "groupId"}),
    44: _each("resources", "responses", _RESOURCE),
    61: _partitions(),
    69: _each("groupIds", "groups", {"groupId": "groupId"}),
    75: _each("topics", "topics", _NAME),
}
