"""Metadata, DescribeCluster and DescribeTopicPartitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coterie.base.topic_names import name_refusal
from coterie.server.api.call import Call, Slices
from coterie.server.api.rows_in_slices import Pace, answer_in_slices
from coterie.server.services.partition import PartitionLog
from coterie.server.services.topics import INTERNAL, Topic
from coterie.values import Error
from coterie.wire import NO_ID

Body = dict[str, Any]

CLUSTER_OPERATIONS, TOPIC_OPERATIONS, NOT_REQUESTED = 8096, 3576, -(2**31)
_IDS_SINCE = 12
_CLUSTER_OPERATIONS_SINCE, _CLUSTER_OPERATIONS_UNTIL = 8, 10
_INT32 = 4  # bytes
_SLICE_NAMES = 10_000  # that are read before other requests are handled
_MOST_PARTITIONS = 2000  # max.request.partition.size.limit
_BROKERS = 1


def metadata(call: Call) -> Slices:
    """Return brokers and requested topics; create missing topics where that is enabled.

    Many topics are described in slices: other requests are handled between them.
    """
    requested, may_create, cluster_operations, topic_operations = call.row
    version = call.api_version
    if version == 0 and not requested:
        requested = None
    names: dict[str, None] = {}
    ids: dict[str, None] = {}
    for start in range(0, len(requested or ()), _SLICE_NAMES):
        if start:
            yield
        for topic_id, name in requested[start : start + _SLICE_NAMES]:
            if version < _IDS_SINCE and (name is None or topic_id != NO_ID):
                return call.refuse(Error.INVALID_REQUEST)
            if topic_id != NO_ID:
                ids[topic_id] = None
            elif name is None:
                return call.answer({"topics": [_no_topic(Error.UNKNOWN_SERVER_ERROR, "")]})
            names[name] = None
    rows: Iterable[Body]
    if requested is None:
        rows = (_topic(call, topic) for topic in call.cluster.topics)
    elif ids:
        rows = (_by_id(call, topic_id) for topic_id in ids)
    else:
        rows = (_by_name(call, name, may_create) for name in names)
    if topic_operations:
        rows = map(_with_operations, rows)
    has_operations = _CLUSTER_OPERATIONS_SINCE <= version <= _CLUSTER_OPERATIONS_UNTIL
    response = {
        "brokers": _brokers(call, "nodeId"),
        "clusterId": call.cluster.cluster_id,
        "controllerId": min(call.cluster.nodes),
        "clusterAuthorizedOperations": (
            CLUSTER_OPERATIONS if has_operations and cluster_operations else NOT_REQUESTED
        ),
    }
    behind = _INT32 if has_operations else 0
    yield from answer_in_slices(
        call, lambda some: {**response, "topics": some}, rows, behind=behind
    )


def _by_id(call: Call, topic_id: str) -> Body:
    topic = call.cluster.topics.by_id(topic_id)
    if topic is None:
        return _no_topic(Error.UNKNOWN_TOPIC_ID, None, topic_id)
    return _topic(call, topic)


def _by_name(call: Call, name: str, may_create: bool) -> Body:
    topic = call.cluster.topics.get(name)
    return _missing(call, name, may_create) if topic is None else _topic(call, topic)


def _with_operations(row: Body) -> Body:
    if row["errorCode"] != Error.UNKNOWN_TOPIC_ID:
        row["topicAuthorizedOperations"] = TOPIC_OPERATIONS
    return row


def _brokers(call: Call, id_field: str) -> list[Body]:
    brokers = []
    for node in call.cluster.nodes.values():
        host, port = node.address(call.connection.listener)
        brokers.append({id_field: node.id, "host": host, "port": port, "rack": node.rack})
    return brokers


def _topic(call: Call, topic: Topic) -> Body:
    return {
        "errorCode": 0,
        "name": topic.name,
        "topicId": topic.topic_id,
        "isInternal": topic.internal,
        "partitions": [_partition(call, log) for log in topic.partitions],
    }


def _partition(call: Call, log: PartitionLog) -> Body:
    leader = call.cluster.leader_of(log.topic, log.number).id
    return {
        "errorCode": 0,
        "partitionIndex": log.number,
        "leaderId": leader,
        "leaderEpoch": log.leader_epoch,
        "replicaNodes": [leader],
        "isrNodes": [leader],
        "offlineReplicas": [],
    }


def _no_topic(error: Error, name: str | None, topic_id: str = NO_ID) -> Body:
    return {
        "errorCode": error,
        "name": name,
        "topicId": topic_id,
        "isInternal": name in INTERNAL,
        "partitions": [],
    }


def _missing(call: Call, name: str, may_create: bool) -> Body:
    """Describe a missing topic; create it for the next request where that is enabled."""
    if name_refusal(name) is not None:
        return _no_topic(Error.INVALID_TOPIC_EXCEPTION, name)
    cluster = call.cluster
    if cluster.config["auto.create.topics.enable"] and may_create:
        if name in INTERNAL:
            cluster.topics.internal(name)
        else:
            if cluster.topics.colliding(name) is not None:
                return _no_topic(Error.INVALID_TOPIC_EXCEPTION, name)
            cluster.topics.create(name, cluster.config["num.partitions"])
    return _no_topic(Error.UNKNOWN_TOPIC_OR_PARTITION, name)


def describe_cluster(call: Call) -> None:
    if call.api_version >= 1 and call.body["endpointType"] != _BROKERS:
        controllers = call.body["endpointType"] == _BROKERS + 1
        return call.answer(
            {
                "errorCode": (
                    Error.MISMATCHED_ENDPOINT_TYPE if controllers
                    else Error.UNSUPPORTED_ENDPOINT_TYPE
                ),
                "errorMessage": (
                    "The request was sent to an endpoint of type BROKER, but we wanted an "
                    "endpoint of type CONTROLLER"
                    if controllers
                    else f"Unsupported endpoint type {call.body['endpointType']}"
                ),
            }
        )  # fmt: skip
    wants_operations = call.body["includeClusterAuthorizedOperations"]
    return call.answer(
        {
            "errorCode": 0,
            "errorMessage": None,
            "clusterId": call.cluster.cluster_id,
            "controllerId": min(call.cluster.nodes),
            "brokers": _brokers(call, "brokerId"),
            "clusterAuthorizedOperations": CLUSTER_OPERATIONS
            if wants_operations
            else NOT_REQUESTED,
        }
    )


def describe_topic_partitions(call: Call) -> Slices:
    """Describe topics in the order of their names, page by page."""
    body = call.body
    cursor = body["cursor"]
    first = cursor["topicName"] if cursor else ""
    topics = call.cluster.topics
    requested = [topic["name"] for topic in body["topics"]]
    names = sorted({name for name in requested or [t.name for t in topics] if name >= first})
    if cursor and ((requested and first not in names) or cursor["partitionIndex"] < 0):
        return call.refuse(Error.INVALID_REQUEST)
    room = max(min(_MOST_PARTITIONS, body["responsePartitionLimit"]), 1)
    answers: list[Body] = []
    following, pace = None, Pace()
    for name in names:
        if pace.is_over():
            yield
        topic = topics.get(name)
        if topic is None:
            if requested:
                bad = name_refusal(name) is not None
                error = Error.INVALID_TOPIC_EXCEPTION if bad else Error.UNKNOWN_TOPIC_OR_PARTITION
                answers.append(_no_topic(error, name))
            continue
        start = cursor["partitionIndex"] if cursor and name == first else 0
        if room <= 0:
            following = {"topicName": name, "partitionIndex": start}
            break
        shown = topic.partitions[start : start + room]
        room -= len(shown)
        answers.append({**_topic(call, topic), "partitions": [_elr(call, log) for log in shown]})
        if start + len(shown) < len(topic.partitions):
            following = {"topicName": name, "partitionIndex": start + len(shown)}
            break
    for answer in answers:
        answer["topicAuthorizedOperations"] = TOPIC_OPERATIONS
    return call.answer({"topics": answers, "nextCursor": following})


def _elr(call: Call, log: PartitionLog) -> Body:
    return {
        **_partition(call, log),
        "eligibleLeaderReplicas": [],
        "lastKnownElr": [],
    }
