"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

The handlers only convert the fields of each version; the coordinator decides.
Source: ``KafkaApis.scala``,
``GroupCoordinatorAdapter.scala`` and the request classes.
"""

from __future__ import annotations

from typing import Any

from coterie.base.operations import NUMBER
from coterie.server.api.call import Call
from coterie.server.api.rows_in_slices import answer_in_slices
from coterie.values import Error, HeartbeatResponse

_JOIN, _SYNC = NUMBER["join_group"], NUMBER["sync_group"]
_HEARTBEAT, _LEAVE = NUMBER["heartbeat"], NUMBER["leave_group"]
_NULL_NAME_SINCE = 7  # first version with a nullable protocol name
_NO_ASSIGNMENT = (None, None, b"")


def join_group(call: Call) -> None:
    """Join a group; the response follows when the generation begins."""
    version = call.api_version
    group_id, session_ms, rebalance_ms, member_id, instance, kind, protocols, _ = call.row
    groups = call.cluster.groups

    def answered(error: int, payload: Any) -> None:
        if payload is None or type(payload) is str:  # an error; a text is the member id
            payload = (-1, None, None, "", payload or "", False, ())
        generation_id, kind, name, leader, member_id, skips, members = payload
        if error or name is None:
            name = None if version >= _NULL_NAME_SINCE else ""
        call.answer((0, error, generation_id, kind, name, leader, skips, member_id, members))

    size = sum(len(metadata) for _, metadata in protocols)
    if groups.type_of(group_id) == "consumer" and size > groups.log.max_message_bytes:
        return answered(Error.UNKNOWN_SERVER_ERROR, None)  # as in ConsumerGroupHeartbeat
    details = (
        kind,
        tuple(protocols),
        session_ms,
        session_ms if version < 1 else rebalance_ms,
        call.client_id or "",
        call.connection.client_host,
        version >= 4,  # MEMBER_ID_REQUIRED: a new member joins again with its id
        version >= 9,  # the response has skipAssignment
    )
    return groups.ask_row(_JOIN, group_id, -1, member_id, instance, details, answered)


def sync_group(call: Call) -> None:
    """Return the member's assignment once the leader has sent it."""
    group_id, generation_id, member_id, instance, kind, name, assignments = call.row

    def answered(error: int, payload: Any) -> None:
        call.answer((0, error, *(payload or _NO_ASSIGNMENT)))

    if call.api_version >= 5 and (kind is None or name is None):
        return call.answer((0, Error.INCONSISTENT_GROUP_PROTOCOL, *_NO_ASSIGNMENT))
    return call.cluster.groups.ask_row(
        _SYNC, group_id, generation_id, member_id, instance, (kind, name, dict(assignments)),
        answered,
    )  # fmt: skip


def heartbeat(call: Call) -> None:
    body = call.body

    def answered(response: HeartbeatResponse) -> None:
        call.answer({"errorCode": response.error})

    call.cluster.groups.ask(
        _HEARTBEAT, body["groupId"], body["generationId"], body["memberId"],
        body["groupInstanceId"], None, answered,
    )  # fmt: skip


def _member_error(row: Any) -> int:
    """Return the error in a row (member id, instance, error); without one the member has left."""
    return row[2] if len(row) > 2 else 0


def leave_group(call: Call) -> None:
    """Remove members; up to version 2 one, whose error is the error of the response."""
    body, version = call.body, call.api_version

    def answered(error: int, rows: Any) -> None:
        rows = rows or ()
        if version < 3 and not error and rows:
            (row,) = rows
            error = _member_error(row)
        members = (
            {"memberId": row[0], "groupInstanceId": row[1], "errorCode": _member_error(row)}
            for row in rows
        )
        body = {"errorCode": error}
        call.run(answer_in_slices(call, lambda some: {**body, "members": some}, members))

    if version < 3:
        leaving: tuple[tuple[str, str | None], ...] = ((body["memberId"], None),)
    else:
        leaving = tuple(
            [(member["memberId"], member["groupInstanceId"]) for member in body["members"]]
        )
    call.cluster.groups.ask_row(_LEAVE, body["groupId"], -1, None, None, leaving, answered)
