"""FindCoordinator, and the administration of groups.

Source: ``KafkaApis.scala``, ``GroupCoordinatorAdapter.scala``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from coterie.base.operations import NUMBER
from coterie.server.api.call import Call, Slices
from coterie.server.api.heartbeat_messages import missing_group_message
from coterie.server.api.refusals import message_of
from coterie.server.api.rows_in_slices import Pace, answer_in_slices
from coterie.values import (
    DeleteGroupsResponse,
    DescribeGroupResponse,
    Error,
)

_DESCRIBE, _LIST = NUMBER["describe_group"], NUMBER["list_groups"]
_DELETE = NUMBER["delete_groups"]
_SEVERAL_SINCE = 4
_GROUP, _TRANSACTION, _SHARE = range(3)  # key types
_SHARE_SINCE = 6  # but a broker without share groups has no coordinator for them
# SharePartitionKey of Kafka 4: group, topic id, partition.
_SHARE_KEY = re.compile(r"[^:]*[^:\s][^:]*:[A-Za-z0-9_-]{22}:-?[0-9]+")
_CLASSIC = "classic"
_GROUP_ENTRIES = 10  # describing a group costs as much as so many of its members
_DELETED_AT_ONCE = 100  # groups; each writes a batch of tombstones
# The operations on a group without an authorizer, as bits of the AclOperation codes: read, delete,
# describe; since Kafka 4 groups have settings, which can be described and altered.
_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8
_OPERATIONS_4 = _OPERATIONS | 1 << 10 | 1 << 11
NOT_REQUESTED = -(1 << 31)


def find_coordinator(call: Call) -> Slices | None:
    """Find the coordinator of a group or transactional id, or (version 4 and later) of several."""
    body, version = call.body, call.api_version
    kind = body["keyType"]
    if version < _SEVERAL_SINCE:
        coordinator = _coordinator(call, kind, body["key"])
        if not coordinator["errorCode"]:
            coordinator["errorMessage"] = Error.NONE.name
        call.answer(coordinator)
        return None
    rows = ({"key": key, **_coordinator(call, kind, key)} for key in body["coordinatorKeys"])
    return answer_in_slices(call, lambda some: {"coordinators": some}, rows)


def _coordinator(call: Call, kind: int, key: str) -> dict[str, Any]:
    if kind not in (_GROUP, _TRANSACTION):
        error, message = Error.INVALID_REQUEST, message_of(Error.INVALID_REQUEST)
        if kind == _SHARE and call.api_version >= _SEVERAL_SINCE:
            message = ""
            is_key = not call.cluster.groups.replays or _SHARE_KEY.fullmatch(key) is not None
            if call.api_version >= _SHARE_SINCE and is_key:
                error = Error.COORDINATOR_NOT_AVAILABLE
        return {"errorCode": error, "errorMessage": message, "nodeId": -1, "host": "", "port": -1}
    if kind == _GROUP:
        call.cluster.groups.log.make()
    else:
        call.cluster.transactions.ready()
    node = call.cluster.coordinator_of(kind, key)
    host, port = node.address(call.connection.listener)
    return {"errorCode": 0, "errorMessage": "", "nodeId": node.id, "host": host, "port": port}


def describe_groups(call: Call) -> Slices:
    """Describe groups, in slices; the state of an unknown group is Dead."""
    group_ids, groups = call.body["groups"], call.cluster.groups
    details = (call.api_version,) if groups.replays else None
    operations = operations_on_a_group(call)

    def ask(group_id: str, answered: Callable[[DescribeGroupResponse, int], None]) -> None:
        groups.ask(
            _DESCRIBE, group_id, -1, None, None, details,
            lambda response: answered(response, len(response.members)),
        )  # fmt: skip

    def answer(described: dict[str, DescribeGroupResponse]) -> Slices:
        rows = (_described(call, each, described[each], operations) for each in group_ids)
        return answer_in_slices(call, lambda some: {"groups": some}, rows)

    return describe_each(call, group_ids, ask, answer)


def describe_each(
    call: Call,
    group_ids: Iterable[str],
    ask: Callable[[str, Callable[[Any, int], None]], None],
    answer: Callable[[dict[str, Any]], Slices],
) -> Slices:
    """Ask the coordinator about each group once, in slices, and answer with what it says.

    Parameters
    ----------
    call
        The request.
    group_ids : iterable
        The groups that it names; however often it names one, memory is bounded by the groups.
    ask : callable
        Gets a group id, and what is to be called with the description and its number of members.
    answer : callable
        Gets the descriptions by group id.
    """
    names, pace = list(dict.fromkeys(group_ids)), Pace()
    described: dict[str, Any] = {}
    size, is_delivering = 0, False

    def answered(description: Any, members: int) -> None:
        nonlocal size
        described[names[len(described)]], size = description, members
        if is_delivering and len(described) == len(names):
            call.run(answer(described))

    for name in names:
        ask(name, answered)
        if pace.is_over(_GROUP_ENTRIES + size):
            yield
    # Responses to a request that came behind another's are delivered after this function.
    is_delivering = len(described) < len(names)
    if not is_delivering:
        yield from answer(described)


def _described(
    call: Call, group_id: str, group: DescribeGroupResponse, operations: int
) -> dict[str, Any]:
    message = None
    if group.error is Error.GROUP_ID_NOT_FOUND:
        message = missing_group_message(call.cluster.groups, group_id, "classic")
    return {
        "errorCode": group.error,
        "errorMessage": message,
        "groupId": group_id,
        "groupState": group.state,
        "protocolType": group.protocol_type,
        "protocolData": group.protocol_name,
        "members": [
            {
                "memberId": member.member_id,
                "groupInstanceId": member.group_instance_id,
                "clientId": member.client_id,
                "clientHost": member.client_host,
                "memberMetadata": member.metadata,
                "memberAssignment": member.assignment,
            }
            for member in group.members
        ],
        "authorizedOperations": NOT_REQUESTED if group.error else operations,
    }


def operations_on_a_group(call: Call) -> int:
    """Return what a client may do with a group, if the request wants to know it."""
    if not call.body["includeAuthorizedOperations"]:
        return NOT_REQUESTED
    return _OPERATIONS_4 if call.cluster.groups.replays else _OPERATIONS


def list_groups(call: Call) -> None:
    """List groups by state and type, in slices; the filters are case-insensitive."""
    body, groups = call.body, call.cluster.groups
    types = {group_type.lower() for group_type in body["typesFilter"] or ()}
    lists_classic = not types or _CLASSIC in types

    def answered(error: int, rows: Iterable[tuple[str, ...]]) -> None:
        # The core's own rows: a dict for each group would take most of the time.
        if not groups.replays:  # it knows no types
            rows = ((*row, _CLASSIC) for row in rows) if lists_classic else ()
        call.run(answer_in_slices(call, lambda some: (0, error, some), rows))

    filters = (tuple(body["statesFilter"] or ()), tuple(types))
    groups.ask_row(_LIST, None, -1, None, None, filters, answered)


def delete_groups(call: Call) -> Slices:
    results: list[dict[str, Any]] = []
    is_delivering = False
    names = list(dict.fromkeys(call.body["groupsNames"]))

    def answered(response: DeleteGroupsResponse) -> None:
        results.extend(
            {"groupId": group.group_id, "errorCode": group.error} for group in response.groups
        )
        if is_delivering and len(results) == len(names):
            call.answer({"results": results})

    for start in range(0, len(names) or 1, _DELETED_AT_ONCE):
        if start:
            yield
        some = tuple(names[start : start + _DELETED_AT_ONCE])
        call.cluster.groups.ask(_DELETE, None, -1, None, None, some, answered)
    is_delivering = len(results) < len(names)  # as in DescribeGroups
    if not is_delivering:
        yield from answer_in_slices(call, lambda rows: {"results": rows}, results)
