"""The answer that refuses a request as a whole, in each API's own form: a column of ``apis``.

An error stands at the top where the API has a place there, and else in each entry that was asked
for. Source: ``getErrorResponse`` of each request class. SASL refuses so what comes between its
steps, and a test's injected faults look so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.values import Error

__all__ = [
    "Refuse",
    "added_partitions",
    "in_partitions",
    "message_of",
    "of_each",
    "top",
]

Body = dict[str, Any]
# Of the request's body, its version, and the error; None: nobody waits for an answer.
Refuse = Callable[[Body, int, int], Body | None]


_MESSAGES = {  # as a broker gives them; of the others the name says as much
    Error.INVALID_REQUEST: (
        "This most likely occurs because of a request being malformed by the client library or "
        "the message was sent to an incompatible broker. See the broker logs for more details."
    ),
}


def message_of(error: int) -> str:
    """Return what stands in an answer beside the number of an error."""
    return _MESSAGES.get(Error(error), Error(error).name)


def top(body: Body, version: int, error: int) -> Body:
    """Refuse at the top."""
    return {"errorCode": error, "errorMessage": message_of(error)}


def _entry(error: int, **fields: Any) -> Body:
    return {**fields, "errorCode": error, "errorMessage": message_of(error)}


def in_partitions(index: str = "partitionIndex", **blank: Any) -> Refuse:
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


def of_each(source: str, target: str, fields: dict[str, str]) -> Refuse:
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


def produce(body: Body, version: int, error: int) -> Body | None:
    """Refuse Produce partition by partition; there is no answer without acks."""
    if body["acks"] == 0:
        return None
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


def fetch(body: Body, version: int, error: int) -> Body:
    """Refuse Fetch; from version 13 on the error at the top is all."""
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


def find_coordinator(body: Body, version: int, error: int) -> Body:
    """Refuse FindCoordinator: nobody coordinates; from version 4 on of each key."""
    nobody = {"nodeId": -1, "host": "", "port": -1}
    if version < 4:
        return _entry(error, **nobody)
    return {"coordinators": [_entry(error, key=key, **nobody) for key in body["coordinatorKeys"]]}


def init_producer_id(body: Body, version: int, error: int) -> Body:
    """Refuse InitProducerId: there is no producer."""
    return _entry(error, producerId=-1, producerEpoch=-1)


def join_group(body: Body, version: int, error: int) -> Body:
    """Refuse JoinGroup."""
    name = None if version >= 7 else ""
    return {"errorCode": error, "generationId": -1, "protocolName": name, "leader": ""}


def offset_fetch(body: Body, version: int, error: int) -> Body:
    """Refuse OffsetFetch; where the error stands depends on the version."""
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


def add_partitions(body: Body, version: int, error: int) -> Body:
    """Refuse AddPartitionsToTxn."""
    if version >= 4:
        return {"errorCode": error}
    return {"resultsByTopicV3AndBelow": added_partitions(body["v3AndBelowTopics"], error)}


def delete_topics(body: Body, version: int, error: int) -> Body:
    """Refuse DeleteTopics topic by topic."""
    if version < 6:
        return {"responses": [_entry(error, name=name) for name in body["topicNames"]]}
    return {"responses": [_entry(error, **_named(each)) for each in body["topics"]]}


def metadata(body: Body, version: int, error: int) -> Body:
    """Refuse Metadata topic by topic."""
    # A topic that is asked for by its id has no name; versions before 12 cannot say so.
    return {
        "topics": [
            _entry(error, name=each["name"] or "", topicId=each["topicId"])
            for each in body["topics"] or ()
        ]
    }


def markers(body: Body, version: int, error: int) -> Body:
    """Refuse WriteTxnMarkers partition by partition."""
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
