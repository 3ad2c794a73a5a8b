"""APIs of unsupported features, answered as by a broker without the feature."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

from coterie.server.api.call import Call, Slices
from coterie.server.api.refusals import share_states
from coterie.server.api.rows_in_slices import Pace, answer_in_slices
from coterie.values import Error

_NO_AUTHORIZER = {
    "errorCode": Error.SECURITY_DISABLED,
    "errorMessage": "No Authorizer is configured.",
}
_LOG_DIR = "memory"
# Requests to a share coordinator, which is another broker's for all partitions where it is off.
_SHARE_STATES = {
    83: "initialize share group state",
    84: "read share group state",
    85: "write share group state",
    86: "delete share group state",
    87: "read share group state summary",
}
# AlterShareGroupOffsets and DeleteShareGroupOffsets; the other refusals have no message.
_MESSAGES = dict.fromkeys((91, 92), "The version of API is not supported.")


def describe_acls(call: Call) -> None:
    message = "No Authorizer is configured on the broker"
    return call.answer({**_NO_AUTHORIZER, "errorMessage": message, "resources": []})


def create_acls(call: Call) -> Slices:
    rows = repeat(_NO_AUTHORIZER, len(call.body["creations"]))
    return answer_in_slices(call, lambda some: {"results": some}, rows)


def delete_acls(call: Call) -> Slices:
    rows = repeat({**_NO_AUTHORIZER, "matchingAcls": []}, len(call.body["filters"]))
    return answer_in_slices(call, lambda some: {"filterResults": some}, rows)


def describe_client_quotas(call: Call) -> None:
    return call.answer({"errorCode": 0, "entries": []})


def list_partition_reassignments(call: Call) -> None:
    return call.answer({"errorCode": 0, "errorMessage": None, "topics": []})


def refuse_share_groups(call: Call) -> Slices | None:
    """Refuse a request about share groups: the feature ``share.version`` is off."""
    call.log("feature", "is refused: this server has no share groups, so no share consumer works")
    if call.api_key in _SHARE_STATES:
        why = f"Unable to {_SHARE_STATES[call.api_key]}: This is not the correct coordinator."
        topics = (share_states(topic, Error.NOT_COORDINATOR, why) for topic in call.body["topics"])
        return answer_in_slices(call, lambda rows: {"results": rows}, topics)
    return _refuse(call)


def refuse_streams_groups(call: Call) -> Slices | None:
    """Refuse a request about streams groups: the feature ``streams.version`` is off."""
    call.log("feature", "is refused: this server has no streams groups (KIP-1071)")
    return _refuse(call)


def _refuse(call: Call) -> Slices | None:
    """Answer UNSUPPORTED_VERSION for each group that is described, or for the whole request."""
    body = call.body
    if "groupIds" in body:
        return refuse_to_describe(call, body["groupIds"])
    if "groups" in body:
        return refuse_to_describe(call, (group["groupId"] for group in body["groups"]))
    message = _MESSAGES.get(call.api_key)
    call.answer({"errorCode": Error.UNSUPPORTED_VERSION, "errorMessage": message})
    return None


def refuse_to_describe(call: Call, group_ids: Iterable[str]) -> Slices:
    """Refuse to describe groups of a protocol that is off, each with its own error."""
    groups = (
        {"groupId": group_id, "errorCode": Error.UNSUPPORTED_VERSION} for group_id in group_ids
    )
    return answer_in_slices(call, lambda rows: {"groups": rows}, groups)


def describe_log_dirs(call: Call) -> Slices:
    """Return the sizes of partitions, in one log directory; they are read in slices."""
    requested = call.body["topics"]
    numbers_by_topic = (
        None if requested is None
        else {topic["topic"]: frozenset(topic["partitions"]) for topic in requested}
    )  # fmt: skip
    topics: list[dict[str, Any]] = []
    pace = Pace()
    for topic in call.cluster.topics:
        if pace.is_over(1 + len(topic.partitions)):
            yield
        if numbers_by_topic is not None and topic.name not in numbers_by_topic:
            continue
        partitions = [
            {"partitionIndex": log.number, "partitionSize": log.size, "offsetLag": 0}
            for log in topic.partitions
            if numbers_by_topic is None or log.number in numbers_by_topic[topic.name]
        ]
        if partitions:
            topics.append({"name": topic.name, "partitions": partitions})
    return call.answer(
        {
            "errorCode": 0,
            "results": [
                {
                    "errorCode": 0,
                    "logDir": _LOG_DIR,
                    "topics": topics,
                    "totalBytes": -1,
                    "usableBytes": -1,
                }
            ],
        }
    )


def elect_leaders(call: Call) -> Slices:
    return answer_in_slices(
        call, lambda rows: {"errorCode": 0, "replicaElectionResults": rows}, _elections(call)
    )


def _elections(call: Call) -> Iterator[dict[str, Any] | None]:
    requested = call.body["topicPartitions"]
    topics, pace = call.cluster.topics, Pace()
    if requested is None:
        for topic in topics:
            yield {"topic": topic.name, "partitionResult": []}
        return
    for entry in requested:
        partitions = []
        for number in entry["partitions"]:
            if pace.is_over():
                yield None
            error, message = (
                Error.ELECTION_NOT_NEEDED,
                "Leader election not needed for topic partition.",
            )
            if topics.partition(entry["topic"], number) is None:
                error = Error.UNKNOWN_TOPIC_OR_PARTITION
                message = f"No such topic as {entry['topic']}"
                if topics.get(entry["topic"]) is not None:
                    message = f"No such partition as {entry['topic']}-{number}"
            partitions.append({"partitionId": number, "errorCode": error, "errorMessage": message})
        yield {"topic": entry["topic"], "partitionResult": partitions}
