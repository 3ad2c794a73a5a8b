"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: groups of the consumer protocol (KIP-848).

Source: ``KafkaApis.scala``, ``GroupCoordinatorService.java``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coterie.consumer_groups import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
    DescribedConsumerGroup,
    DescribedTopicPartitions,
    TopicPartitions,
    decode_topic_id,
)
from coterie.operations import NUMBER
from coterie.server.api.call import Call, Slices
from coterie.server.api.handlers.groups import NOT_REQUESTED, operations_on_a_group
from coterie.server.api.handlers.heartbeat_messages import heartbeat_message, missing_group_message
from coterie.server.api.handlers.unsupported import refuse_to_describe
from coterie.server.api.rows_in_slices import answer_in_slices
from coterie.values import Error

__all__ = ["consumer_group_describe", "consumer_group_heartbeat"]

Body = dict[str, Any]
_HEARTBEAT, _DESCRIBE = NUMBER["consumer_group_heartbeat"], NUMBER["consumer_group_describe"]


def consumer_group_heartbeat(call: Call) -> None:
    """Join a group, keep a session alive, acknowledge an assignment, or leave."""
    cluster, body = call.cluster, call.body
    if not cluster.has_consumer_groups:
        return call.answer({"errorCode": Error.UNSUPPORTED_VERSION})

    def answered(response: ConsumerGroupHeartbeatResponse) -> None:
        if response.error:
            message = heartbeat_message(cluster.groups, response.error, body, call.api_version)
            return call.answer({"errorCode": response.error, "errorMessage": message})
        assigned = response.assignment
        return call.answer(
            {
                "errorCode": 0,
                "memberId": response.member_id,
                "memberEpoch": response.member_epoch,
                "heartbeatIntervalMs": response.heartbeat_interval_ms,
                "assignment": None if assigned is None else {"topicPartitions": _by_id(assigned)},
            }
        )

    names, owned = body["subscribedTopicNames"], body["topicPartitions"]
    details = (
        body["rackId"],
        body["rebalanceTimeoutMs"],
        None if names is None else tuple(names),
        body["subscribedTopicRegex"],
        body["serverAssignor"],
        None if owned is None
        else {decode_topic_id(row["topicId"]): tuple(row["partitions"]) for row in owned},
        call.client_id or "",
        call.connection.client_host,
        call.api_version,
    )  # fmt: skip
    return cluster.groups.ask(
        _HEARTBEAT, body["groupId"], body["memberEpoch"], body["memberId"], body["instanceId"],
        details, answered,
    )  # fmt: skip


def _by_id(assigned: Iterable[TopicPartitions]) -> list[Body]:
    return [{"topicId": row.topic_id, "partitions": row.partitions} for row in assigned]


def consumer_group_describe(call: Call) -> Slices | None:
    """Describe groups of the consumer protocol, in slices; each has its own error."""
    cluster, body = call.cluster, call.body
    if not cluster.has_consumer_groups:
        return refuse_to_describe(call)
    operations = operations_on_a_group(call)

    def answered(response: ConsumerGroupDescribeResponse) -> None:
        # Kafka's order: the refused ones first
        refused_first = sorted(response.groups, key=lambda group: group.error is Error.NONE)
        rows = (_described(call, group, operations) for group in refused_first)
        call.run(answer_in_slices(call, lambda some: {"groups": some}, rows))

    cluster.groups.ask(_DESCRIBE, None, -1, None, None, tuple(body["groupIds"]), answered)
    return None


def _described(call: Call, group: DescribedConsumerGroup, operations: int) -> Body:
    if group.error:
        message = None
        if group.error is Error.GROUP_ID_NOT_FOUND:
            message = missing_group_message(call.cluster.groups, group.group_id, "consumer")
        return {
            "errorCode": group.error,
            "errorMessage": message,
            "groupId": group.group_id,
            "authorizedOperations": NOT_REQUESTED,
        }
    return {
        "errorCode": 0,
        "groupId": group.group_id,
        "groupState": group.state,
        "groupEpoch": group.group_epoch,
        "assignmentEpoch": group.assignment_epoch,
        "assignorName": group.assignor_name,
        "members": [
            {
                "memberId": member.member_id,
                "instanceId": member.instance_id,
                "rackId": member.rack_id,
                "memberEpoch": member.member_epoch,
                "clientId": member.client_id,
                "clientHost": member.client_host,
                "subscribedTopicNames": member.subscribed_topic_names,
                "subscribedTopicRegex": member.subscribed_topic_regex,
                "assignment": {"topicPartitions": _by_name(member.assignment)},
                "targetAssignment": {"topicPartitions": _by_name(member.target_assignment)},
                "memberType": member.member_type,
            }
            for member in group.members
        ],
        "authorizedOperations": operations,
    }


def _by_name(assigned: Iterable[DescribedTopicPartitions]) -> list[Body]:
    return [
        {"topicId": row.topic_id, "topicName": row.topic, "partitions": row.partitions}
        for row in assigned
    ]
