"""DescribeQuorum and UpdateFeatures, as answered by a node that is broker and controller.

Source: RaftUtil, KafkaRaftClient and QuorumController.
"""

from __future__ import annotations

from typing import Any

from coterie.server.api.call import Call, Slices
from coterie.server.api.rows_in_slices import Pace, answer_in_slices
from coterie.server.services.features import InvalidUpdate
from coterie.server.services.topics import METADATA_TOPIC
from coterie.values import Error
from coterie.wire import NO_ID

Body = dict[str, Any]

_NODES_SINCE = 2
_LEADER_EPOCH = 1  # of the only election of a single voter
_FAILED_FOR_ALL = "The update failed for all features since the following feature had an error"


def describe_quorum(call: Call) -> Slices | None:
    """Describe the metadata quorum: this cluster's controller is its only voter.

    There is no metadata log, so its end offset is 0, and no controller listener.
    """
    requested = call.body["topics"]
    if [(topic["topicName"], topic["partitions"]) for topic in requested] != [
        (METADATA_TOPIC, [{"partitionIndex": 0}])
    ]:
        behind = 1 if call.api_version >= _NODES_SINCE else 0  # the list of no nodes
        return answer_in_slices(
            call,
            lambda rows: {"errorMessage": "", "topics": rows},
            map(_unknown, requested),
            behind=behind,
        )
    controller, now_ms = min(call.cluster.nodes), call.cluster.now_ms
    voter = {
        "replicaId": controller,
        "replicaDirectoryId": NO_ID,
        "logEndOffset": 0,
        "lastFetchTimestamp": now_ms,
        "lastCaughtUpTimestamp": now_ms,
    }
    partition = {
        "partitionIndex": 0,
        "errorCode": 0,
        "errorMessage": "",
        "leaderId": controller,
        "leaderEpoch": _LEADER_EPOCH,
        "highWatermark": 0,
        "currentVoters": [voter],
        "observers": [
            {**voter, "replicaId": node} for node in call.cluster.nodes if node != controller
        ],
    }
    topic = {"topicName": METADATA_TOPIC, "partitions": [partition]}
    call.answer(
        {
            "errorCode": 0,
            "errorMessage": "",
            "topics": [topic],
            "nodes": [{"nodeId": controller, "listeners": []}],
        }
    )
    return None


def _unknown(topic: Body) -> Body:
    return {
        "topicName": topic["topicName"],
        "partitions": [
            {
                "partitionIndex": partition["partitionIndex"],
                "errorCode": Error.UNKNOWN_TOPIC_OR_PARTITION,
                "errorMessage": "This server does not host this topic-partition.",
            }
            for partition in topic["partitions"]
        ],
    }


def update_features(call: Call) -> Slices:
    """Change finalized feature levels.

    A refused update leaves the others unaffected in Kafka 3.9. Since Kafka 4 all fail with it.
    """
    body, features = call.body, call.cluster.features
    updates = {update["feature"]: update for update in body["featureUpdates"]}
    accepted: dict[str, int] = {}
    results: list[Body] = []
    pace = Pace()
    for name, update in sorted(updates.items()):
        if pace.is_over():
            yield
        error, message = Error.NONE, None
        level = update["maxVersionLevel"]
        try:
            features.check(name, level, update["upgradeType"], min(call.cluster.nodes))
            accepted[name] = level
        except InvalidUpdate as refused:
            error, message = Error.INVALID_UPDATE_VERSION, str(refused)
        if error and call.cluster.release.name != "3.9":
            message = f"{_FAILED_FOR_ALL}: {message}"
            return call.answer({"errorCode": error, "errorMessage": message, "results": []})
        results.append({"feature": name, "errorCode": error, "errorMessage": message})
    if not body["validateOnly"]:
        features.update(accepted)
    return call.answer({"errorCode": 0, "errorMessage": "", "results": results})
