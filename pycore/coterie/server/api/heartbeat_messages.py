"""The messages of refused ConsumerGroupHeartbeat and describe requests, as Kafka words them.

The coordinator gives an error only; the group, which the refused request has not changed, shows the
rest. Source: GroupMetadataManager.java, GroupCoordinatorService.java, ConsumerGroup.java.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from coterie.coordinator.snapshot import GroupSnapshot
from coterie.server.api.expressions import InvalidExpression, compiled
from coterie.server.services.groups import Groups
from coterie.values import Error

Body = Mapping[str, Any]
_ABANDON = "The member must abandon all its partitions and rejoin."
_LEAVES = -1, -2
_UPGRADES = ("upgrade", "bidirectional")


def heartbeat_message(groups: Groups, error: Error, body: Body, version: int) -> str | None:
    """Return the message of a refused heartbeat; None: Kafka sends none."""
    if error is Error.INVALID_REQUEST:
        return _invalid(body, version)
    if error is Error.GROUP_ID_NOT_FOUND:
        return _no_group(groups, body)
    message = _MESSAGES.get(error)
    return None if message is None else message(groups, body)


def missing_group_message(groups: Groups, group_id: str, group_type: str) -> str:
    """Return the message about a group that is not of a type, or does not exist."""
    if groups.type_of(group_id) is None:
        return f"Group {group_id} not found."
    return f"Group {group_id} is not a {group_type} group."


def _invalid(body: Body, version: int) -> str:
    epoch = body["memberEpoch"]
    if (version >= 1 or epoch > 0 or epoch == _LEAVES[0]) and not body["memberId"]:
        return "MemberId can't be empty."
    for field, name in (("groupId", "GroupId"), ("instanceId", "InstanceId"), ("rackId", "RackId")):
        if body[field] is not None and not body[field].strip():
            return f"{name} can't be empty."
    if epoch == 0:
        if body["rebalanceTimeoutMs"] == -1:
            return "RebalanceTimeoutMs must be provided in first request."
        if body["topicPartitions"] is None or body["topicPartitions"]:
            return "TopicPartitions must be empty when (re-)joining."
        return (
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining."
        )
    return "InstanceId can't be null." if epoch == _LEAVES[1] else "MemberEpoch is invalid."


def _no_group(groups: Groups, body: Body) -> str:
    group_id, epoch = body["groupId"], body["memberEpoch"]
    if groups.type_of(group_id) == "classic" and epoch == 0:
        return f"Cannot upgrade classic group {group_id} to consumer group because " + _no_upgrade(
            groups, group_id
        )
    if groups.type_of(group_id) is None and epoch not in _LEAVES:
        return f"Consumer group {group_id} not found."
    return missing_group_message(groups, group_id, "consumer")


def _no_upgrade(groups: Groups, group_id: str) -> str:
    group = groups.snapshot(group_id)
    if groups.config["group.consumer.migration.policy"] not in _UPGRADES:
        return "online upgrade is disabled."
    if not isinstance(group, GroupSnapshot) or group.protocol_type != "consumer":
        return "the group does not use the consumer embedded protocol."
    if len(group.members) > groups.config["group.consumer.max.size"]:
        return "the group size exceeds the consumer group maximum size."
    return "the embedded consumer protocol is malformed."


def _unknown_member(groups: Groups, body: Body) -> str:
    instance_id = body["instanceId"]
    if instance_id is not None and body["memberEpoch"] != 0 and _owner(groups, body) is None:
        return f"Instance id {instance_id} is unknown."
    return f"Member {body['memberId']} is not a member of group {body['groupId']}."


def _fenced_epoch(groups: Groups, body: Body) -> str | None:
    for member_id, _, known in groups.core.consumer_members(body["groupId"]):
        if member_id == body["memberId"]:
            received = body["memberEpoch"]
            word = "greater" if received > known else "smaller"
            return (
                f"The consumer group member has a {word} member epoch ({received}) than the one "
                f"known by the group coordinator ({known}). {_ABANDON}"
            )
    return None


def _owner(groups: Groups, body: Body) -> str | None:
    """Return the id of the member with the instance id of a request."""
    members = groups.core.consumer_members(body["groupId"])
    return next((each for each, instance, _ in members if instance == body["instanceId"]), None)


def _of_instance(form: str) -> Callable[[Groups, Body], str | None]:
    """Return a function that names the member, its instance id, and the owner of that."""

    def message(groups: Groups, body: Body) -> str | None:
        owner = _owner(groups, body)
        return None if owner is None else form.format(body["memberId"], body["instanceId"], owner)

    return message


def _no_expression(groups: Groups, body: Body) -> str | None:
    expression = body["subscribedTopicRegex"]
    try:
        compiled(expression)
    except InvalidExpression as why:
        return f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {why}."
    return None


_MESSAGES: Mapping[Error, Callable[[Groups, Body], str | None]] = {
    Error.FENCED_MEMBER_EPOCH: _fenced_epoch,
    Error.UNKNOWN_MEMBER_ID: _unknown_member,
    Error.FENCED_INSTANCE_ID: _of_instance(
        "Static member {0} with instance id {1} was fenced by member {2}."
    ),
    Error.UNRELEASED_INSTANCE_ID: _of_instance(
        "Static member {0} with instance id {1} cannot join the group because the instance id is "
        "owned by {2} member."
    ),
    Error.UNSUPPORTED_ASSIGNOR: lambda groups, body: (
        f"ServerAssignor {body['serverAssignor']} is not supported. Supported assignors: "
        f"{', '.join(groups.config['group.consumer.assignors'])}."
    ),
    Error.GROUP_MAX_SIZE_REACHED: lambda groups, body: (
        "The consumer group has reached its maximum capacity of "
        f"{groups.config['group.consumer.max.size']} members."
    ),
    Error.INVALID_REGULAR_EXPRESSION: _no_expression,
}
