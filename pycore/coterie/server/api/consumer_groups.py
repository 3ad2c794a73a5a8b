"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: groups of the consumer protocol (KIP-848).

Source: ``KafkaApis.scala``, ``GroupCoordinatorService.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from coterie.base.operations import NUMBER
from coterie.consumer_groups import (
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
    decode_topic_id,
    encode_topic_id,
)
from coterie.server.api.call import Call, Slices
from coterie.server.api.groups import NOT_REQUESTED, describe_each, operations_on_a_group
from coterie.server.api.heartbeat_messages import heartbeat_message, missing_group_message
from coterie.server.api.rows_in_slices import answer_in_slices, runs
from coterie.server.api.unsupported import refuse_to_describe
from coterie.values import Error

Body = dict[str, Any]
Row = tuple[Any, ...]  # the core's: id, error, state, epoch, target epoch, assignor, members
Assigned = Sequence[tuple[bytes, str, tuple[int, ...]]]  # topic id, name, partitions
_MEMBER = (  # the core's fields of a member, before its assignments
    *("memberId", "instanceId", "rackId", "memberEpoch", "clientId", "clientHost"),
    *("subscribedTopicNames", "subscribedTopicRegex", "memberType"),
)
_ERROR, _MEMBERS = 1, 6  # where a row has what
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
    size_max = cluster.groups.log.max_message_bytes
    if names and _size_of(names) > size_max and _size_of(set(names)) > size_max:
        # The log of a broker refuses the member's record.
        return call.answer({"errorCode": Error.UNKNOWN_SERVER_ERROR})
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


def _size_of(names: Collection[str]) -> int:
    """Return the least size of a record of these names: each has its length in front."""
    return len(names) + sum(map(len, names))


def _by_id(assigned: Iterable[TopicPartitions]) -> list[Body]:
    return [{"topicId": row.topic_id, "partitions": row.partitions} for row in assigned]


def consumer_group_describe(call: Call) -> Slices | None:
    """Describe groups of the consumer protocol, in slices; each has its own error."""
    group_ids, groups = call.body["groupIds"], call.cluster.groups
    if not call.cluster.has_consumer_groups:
        return refuse_to_describe(call, group_ids)
    operations = operations_on_a_group(call)

    def ask(group_id: str, answered: Callable[[Row, int], None]) -> None:
        groups.ask_row(
            _DESCRIBE, None, -1, None, None, (group_id,),
            lambda _, rows: answered(rows[0], len(rows[0][_MEMBERS])),
        )  # fmt: skip

    def answer(described: dict[str, Row]) -> Slices:
        # Kafka's order: the refused ones first
        refused_first = sorted(group_ids, key=lambda each: not described[each][_ERROR])
        rows = (
            row for each in refused_first for row in _described(call, described[each], operations)
        )
        return answer_in_slices(call, lambda some: {"groups": some}, rows)

    return describe_each(call, group_ids, ask, answer)


def _described(call: Call, group: Row, operations: int) -> Iterator[Body | None]:
    """Yield the entry of one group; None ends a slice before it."""
    group_id, error, state, epoch, target_epoch, assignor, members = group
    if error:
        message = None
        if error == Error.GROUP_ID_NOT_FOUND:
            message = missing_group_message(call.cluster.groups, group_id, "consumer")
        yield {
            "errorCode": error,
            "errorMessage": message,
            "groupId": group_id,
            "authorizedOperations": NOT_REQUESTED,
        }
        return
    entries: list[Body] = []
    for some in runs(members):
        if entries:
            yield None
        entries += [_member(member) for member in some]
    yield {
        "errorCode": 0,
        "groupId": group_id,
        "groupState": state,
        "groupEpoch": epoch,
        "assignmentEpoch": target_epoch,
        "assignorName": assignor,
        "members": entries,
        "authorizedOperations": operations,
    }


def _member(row: Row) -> Body:
    *fields, assigned, target = row
    return dict(zip(_MEMBER, fields, strict=True)) | {
        "assignment": {"topicPartitions": _by_name(assigned)},
        "targetAssignment": {"topicPartitions": _by_name(target)},
    }


def _by_name(assigned: Assigned) -> list[Body]:
    return [
        {"topicId": encode_topic_id(raw), "topicName": name, "partitions": partitions}
        for raw, name, partitions in assigned
    ]
