"""FindCoordinator, and what is asked of groups as a whole.

Source: ``KafkaApis.scala``, ``GroupCoordinatorAdapter.scala``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coterie.operations import NUMBER
from coterie.server.api.call import Call
from coterie.server.api.refusals import message_of
from coterie.values import (
    DeleteGroupsResponse,
    DescribeGroupResponse,
    Error,
)

__all__ = [
    "consumer_group_describe",
    "consumer_group_heartbeat",
    "delete_groups",
    "describe_groups",
    "find_coordinator",
    "list_groups",
]

_DESCRIBE, _LIST = NUMBER["describe_group"], NUMBER["list_groups"]
_DELETE = NUMBER["delete_groups"]
_SEVERAL_SINCE = 4
_GROUP, _TRANSACTION, _SHARE = range(3)  # types of keys
_SHARE_SINCE = 6  # but a broker without share groups has no coordinator for them
_CLASSIC = "classic"
# All that may be done to a group where nothing is forbidden: read, delete, describe, as bits of
# AclOperation's codes 3, 6 and 8.
_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8
_NOT_ASKED = -(1 << 31)


def find_coordinator(call: Call) -> None:
    """Say which broker coordinates a group or a transactional id; several from version 4 on."""
    body, version = call.body, call.api_version
    kind = body["keyType"]
    if version < _SEVERAL_SINCE:
        found = _found(call, kind, body["key"])
        if not found["errorCode"]:
            found["errorMessage"] = Error.NONE.name
        return call.answer(found)
    return call.answer(
        {
            "coordinators": [
                {"key": key, **_found(call, kind, key)} for key in body["coordinatorKeys"]
            ]
        }
    )


def _found(call: Call, kind: int, key: str) -> dict[str, Any]:
    if kind not in (_GROUP, _TRANSACTION):
        error, told = Error.INVALID_REQUEST, message_of(Error.INVALID_REQUEST)
        if kind == _SHARE and call.api_version >= _SEVERAL_SINCE:
            told = ""
            if call.api_version >= _SHARE_SINCE:
                error = Error.COORDINATOR_NOT_AVAILABLE
        return {"errorCode": error, "errorMessage": told, "nodeId": -1, "host": "", "port": -1}
    if kind == _GROUP:
        call.cluster.groups.log.make()
    else:
        call.cluster.transactions.ready()
    node = call.cluster.coordinator_of(kind, key)
    host, port = node.address(call.connection.listener)
    return {"errorCode": 0, "errorMessage": "", "nodeId": node.id, "host": host, "port": port}


def describe_groups(call: Call) -> None:
    """Describe groups; one that is not there is Dead."""
    body = call.body
    operations = _OPERATIONS if body["includeAuthorizedOperations"] else _NOT_ASKED
    groups: list[dict[str, Any]] = []

    def answered(found: DescribeGroupResponse) -> None:
        groups.append(
            {
                "errorCode": found.error,
                "groupId": body["groups"][len(groups)],
                "groupState": found.state,
                "protocolType": found.protocol_type,
                "protocolData": found.protocol_name,
                "members": [
                    {
                        "memberId": member.member_id,
                        "groupInstanceId": member.group_instance_id,
                        "clientId": member.client_id,
                        "clientHost": member.client_host,
                        "memberMetadata": member.metadata,
                        "memberAssignment": member.assignment,
                    }
                    for member in found.members
                ],
                "authorizedOperations": _NOT_ASKED if found.error else operations,
            }
        )
        if len(groups) == len(body["groups"]):
            call.answer({"groups": groups})

    if not body["groups"]:
        return call.answer({"groups": []})
    for group_id in body["groups"]:
        call.cluster.groups.ask(_DESCRIBE, group_id, -1, None, None, None, answered)
    return None


def list_groups(call: Call) -> None:
    """List groups in these states and of these types; names' case does not matter."""
    body = call.body
    types = {each.lower() for each in body["typesFilter"] or ()}
    of_these = not types or _CLASSIC in types

    def answered(error: int, groups: Iterable[tuple[str, str, str]] | None) -> None:
        # Rows of the answer, as the core has them: a dict of each is most of the cost.
        found = [(*group, _CLASSIC) for group in groups or ()] if of_these else []
        call.answer((0, error, found))

    states = tuple(body["statesFilter"] or ())
    call.cluster.groups.ask_row(_LIST, None, -1, None, None, (states, ()), answered)


def delete_groups(call: Call) -> None:
    """Delete groups without members."""

    def answered(found: DeleteGroupsResponse) -> None:
        results = [{"groupId": each.group_id, "errorCode": each.error} for each in found.groups]
        call.answer({"results": results})

    names = tuple(call.body["groupsNames"])
    call.cluster.groups.ask(_DELETE, None, -1, None, None, names, answered)


def consumer_group_heartbeat(call: Call) -> None:
    """Refuse the newer protocol, as a broker does on which only the classic one is on."""
    call.answer({"errorCode": Error.UNSUPPORTED_VERSION})


def consumer_group_describe(call: Call) -> None:
    """Refuse to describe groups of the newer protocol, one by one."""
    groups = [
        {"groupId": group_id, "errorCode": Error.UNSUPPORTED_VERSION}
        for group_id in call.body["groupIds"]
    ]
    call.answer({"groups": groups})
