"""Error responses for a whole request, in the form of each API; a column of the API table.

The error is a field of the response where the API has one, and otherwise a field of each requested
entry. Source: ``getErrorResponse`` of each request class. Requests between the steps of SASL and
injected faults are answered with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.values import Error

Body = dict[str, Any]
# (request body, version, error) -> response body; None: the request has no response.
Refuse = Callable[[Body, int, int], Body | None]


_MESSAGES = {  # Kafka's messages; any other error's message is its name
    Error.INVALID_REQUEST: (
        "This most likely occurs because of a request being malformed by the client library or "
        "the message was sent to an incompatible broker. See the broker logs for more details."
    ),
}


def message_of(error: int) -> str:
    """Return the message that a response carries beside an error code."""
    return _MESSAGES.get(Error(error), Error(error).name)


def top(body: Body, version: int, error: int) -> Body:
    return {"errorCode": error, "errorMessage": message_of(error)}


def _entry(error: int, **fields: Any) -> Body:
    return {**fields, "errorCode": error, "errorMessage": message_of(error)}


def in_partitions(index: str = "partitionIndex", **blank: Any) -> Refuse:
    """Return a function that sets the error of each requested partition."""

    def refuse(body: Body, version: int, error: int) -> Body:
        topics = []
        for topic in body["topics"]:
            partitions = [
                _entry(
                    error,
                    **blank,
                    **{index: partition if isinstance(partition, int) else partition[index]},
                )
                for partition in topic.get("partitions") or topic.get("partitionIndexes") or ()
            ]
            topics.append({**_topic_identity(topic), "partitions": partitions})
        return {"topics": topics}

    return refuse


def _topic_identity(topic: Body) -> Body:
    return {field: topic[field] for field in ("name", "topic", "topicId") if field in topic}


def of_each(source: str, target: str, fields: dict[str, str]) -> Refuse:
    """Return a function that sets the error of each entry of a list.

    ``fields`` maps the fields of a response entry to those of the request entry.
    """

    def refuse(body: Body, version: int, error: int) -> Body:
        entries = [
            _entry(
                error,
                **{
                    name: entry[field] if isinstance(entry, dict) else entry
                    for name, field in fields.items()
                    if not isinstance(entry, dict) or field in entry
                },
            )
            for entry in body[source] or ()
        ]
        return {target: entries}

    return refuse


def produce(body: Body, version: int, error: int) -> Body | None:
    """Refuse each partition of Produce; with acks 0 there is no response."""
    if body["acks"] == 0:
        return None
    blank = {"baseOffset": -1, "logAppendTimeMs": -1, "logStartOffset": -1}
    return {
        "responses": [
            {
                "name": topic["name"],
                "partitionResponses": [
                    _entry(error, index=partition["index"], **blank)
                    for partition in topic["partitionData"]
                ],
            }
            for topic in body["topicData"]
            if topic["partitionData"]
        ]
    }


def fetch(body: Body, version: int, error: int) -> Body:
    """Refuse Fetch; since version 13, the response has no partitions."""
    responses = [
        {
            "topic": topic["topic"],
            "partitions": [
                {"partitionIndex": partition["partition"], "errorCode": error, "highWatermark": -1}
                for partition in topic["partitions"]
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
    """Refuse FindCoordinator; since version 4, each of its keys."""
    no_node = {"nodeId": -1, "host": "", "port": -1}
    if version < 4:
        return _entry(error, **no_node)
    return {"coordinators": [_entry(error, key=key, **no_node) for key in body["coordinatorKeys"]]}


def init_producer_id(body: Body, version: int, error: int) -> Body:
    return _entry(error, producerId=-1, producerEpoch=-1)


def join_group(body: Body, version: int, error: int) -> Body:
    name = None if version >= 7 else ""
    return {"errorCode": error, "generationId": -1, "protocolName": name, "leader": ""}


def offset_fetch(body: Body, version: int, error: int) -> Body:
    """Refuse OffsetFetch; the version decides which field has the error."""
    if version >= 8:
        return {"groups": [_entry(error, groupId=group["groupId"]) for group in body["groups"]]}
    if version >= 2:
        return {"errorCode": error}
    by_name: dict[str, dict[int, None]] = {}  # a duplicate partition is answered once
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
    """Return one error for all partitions of AddPartitionsToTxn, in the order of the request."""
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
    if version >= 4:
        return {"errorCode": error}
    return {"resultsByTopicV3AndBelow": added_partitions(body["v3AndBelowTopics"], error)}


def delete_topics(body: Body, version: int, error: int) -> Body:
    if version < 6:
        return {"responses": [_entry(error, name=name) for name in body["topicNames"]]}
    return {"responses": [_entry(error, **_topic_identity(topic)) for topic in body["topics"]]}


def alter_users(body: Body, version: int, error: int) -> Body:
    users = dict.fromkeys(entry["name"] for entry in body["deletions"] + body["upsertions"])
    return {"results": [_entry(error, user=user) for user in users]}


def share_state(body: Body, version: int, error: int) -> Body:
    """Refuse each partition of a request to a share coordinator."""
    return {"results": [share_states(topic, error, message_of(error)) for topic in body["topics"]]}


def share_states(topic: Body, error: int, message: str) -> Body:
    """Refuse each partition of one topic of such a request."""
    partitions = [
        {"partition": row["partition"], "errorCode": error, "errorMessage": message}
        for row in topic["partitions"]
    ]
    return {"topicId": topic["topicId"], "partitions": partitions}


def metadata(body: Body, version: int, error: int) -> Body:
    # A topic requested by id has no name; before version 12 the name cannot be null.
    return {
        "errorCode": error,  # since version 13
        "topics": [
            _entry(error, name=topic["name"] or "", topicId=topic["topicId"])
            for topic in body["topics"] or ()
        ],
    }


def markers(body: Body, version: int, error: int) -> Body:
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
