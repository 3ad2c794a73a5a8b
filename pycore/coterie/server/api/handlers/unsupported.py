"""APIs of what this server does not have, answered as a broker without it answers."""

from __future__ import annotations

from typing import Any

from coterie.server.api.call import Call
from coterie.values import Error

__all__ = [
    "create_acls",
    "delete_acls",
    "describe_acls",
    "describe_client_quotas",
    "describe_log_dirs",
    "elect_leaders",
    "list_partition_reassignments",
]

_NO_AUTHORIZER = {
    "errorCode": Error.SECURITY_DISABLED,
    "errorMessage": "No Authorizer is configured.",
}
_LOG_DIR = "memory"


def describe_acls(call: Call) -> None:
    """Say that nothing authorizes."""
    message = "No Authorizer is configured on the broker"
    return call.answer({**_NO_AUTHORIZER, "errorMessage": message, "resources": []})


def create_acls(call: Call) -> None:
    """Say that nothing authorizes."""
    return call.answer({"results": [_NO_AUTHORIZER for _ in call.body["creations"]]})


def delete_acls(call: Call) -> None:
    """Say that nothing authorizes."""
    return call.answer(
        {"filterResults": [{**_NO_AUTHORIZER, "matchingAcls": []} for _ in call.body["filters"]]}
    )


def describe_client_quotas(call: Call) -> None:
    """Tell that no client has a quota."""
    return call.answer({"errorCode": 0, "entries": []})


def list_partition_reassignments(call: Call) -> None:
    """Tell that no partition moves."""
    return call.answer({"errorCode": 0, "errorMessage": None, "topics": []})


def describe_log_dirs(call: Call) -> None:
    """Tell what partitions take, all in one place."""
    asked = call.body["topics"]
    wanted = None if asked is None else {each["topic"]: each["partitions"] for each in asked}
    topics: list[dict[str, Any]] = []
    for topic in call.cluster.topics:
        if wanted is not None and topic.name not in wanted:
            continue
        partitions = [
            {"partitionIndex": log.number, "partitionSize": log.size, "offsetLag": 0}
            for log in topic.partitions
            if wanted is None or log.number in wanted[topic.name]
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


def elect_leaders(call: Call) -> None:
    """Say of each partition that its leader is the one there is."""
    asked = call.body["topicPartitions"]
    topics = call.cluster.topics
    if asked is None:
        nothing = [{"topic": topic.name, "partitionResult": []} for topic in topics]
        return call.answer({"errorCode": 0, "replicaElectionResults": nothing})
    results = []
    for each in asked:
        found = []
        for number in each["partitions"]:
            error, message = (
                Error.ELECTION_NOT_NEEDED,
                "Leader election not needed for topic partition.",
            )
            if topics.partition(each["topic"], number) is None:
                error = Error.UNKNOWN_TOPIC_OR_PARTITION
                message = f"No such topic as {each['topic']}"
                if topics.get(each["topic"]) is not None:
                    message = f"No such partition as {each['topic']}-{number}"
            found.append({"partitionId": number, "errorCode": error, "errorMessage": message})
        results.append({"topic": each["topic"], "partitionResult": found})
    return call.answer({"errorCode": 0, "replicaElectionResults": results})
