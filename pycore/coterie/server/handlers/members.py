"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: what members ask.

Only what the versions do with fields is here; the coordinator decides. Source: ``KafkaApis.scala``,
``GroupCoordinatorAdapter.scala`` and the request classes.
"""

from __future__ import annotations

from coterie._core.coordinator.effects import OPS
from coterie.server.handling import Call
from coterie.values import (
    Error,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    SyncGroupResponse,
)

__all__ = ["heartbeat", "join_group", "leave_group", "sync_group"]

_JOIN, _SYNC = OPS["join_group"], OPS["sync_group"]
_HEARTBEAT, _LEAVE = OPS["heartbeat"], OPS["leave_group"]


def join_group(call: Call) -> None:
    """Let a member join; the answer comes when the generation begins."""
    body, version = call.body, call.api_version

    def answered(found: JoinGroupResponse) -> None:
        name = found.protocol_name
        call.answer(
            {
                "errorCode": found.error,
                "generationId": found.generation_id,
                "protocolType": found.protocol_type,
                "protocolName": "" if name is None and version < 7 else name,
                "leader": found.leader,
                "skipAssignment": found.skip_assignment,
                "memberId": found.member_id,
                "members": [
                    {
                        "memberId": member.member_id,
                        "groupInstanceId": member.group_instance_id,
                        "metadata": member.metadata,
                    }
                    for member in found.members
                ],
            }
        )

    session_ms = body["sessionTimeoutMs"]
    details = (
        body["protocolType"],
        tuple([(each["name"], each["metadata"]) for each in body["protocols"]]),
        session_ms,
        session_ms if version < 1 else body["rebalanceTimeoutMs"],
        call.client_id or "",
        call.connection.client_host,
        version >= 4,  # the id is told first, and a member is who comes back with it
        version >= 9,  # a leader may be told that its assignment is not needed
    )
    call.cluster.groups.ask(
        _JOIN, body["groupId"], -1, body["memberId"], body["groupInstanceId"], details, answered
    )


def sync_group(call: Call) -> None:
    """Answer with the member's assignment, once the leader has sent them all."""
    body = call.body

    def answered(found: SyncGroupResponse) -> None:
        call.answer(
            {
                "errorCode": found.error,
                "protocolType": found.protocol_type,
                "protocolName": found.protocol_name,
                "assignment": found.assignment,
            }
        )

    kind, name = body["protocolType"], body["protocolName"]
    if call.api_version >= 5 and (kind is None or name is None):
        return call.answer({"errorCode": Error.INCONSISTENT_GROUP_PROTOCOL})
    assignments = {each["memberId"]: each["assignment"] for each in body["assignments"]}
    return call.cluster.groups.ask(
        _SYNC, body["groupId"], body["generationId"], body["memberId"],
        body["groupInstanceId"], (kind, name, assignments), answered,
    )  # fmt: skip


def heartbeat(call: Call) -> None:
    """Say that a member lives."""
    body = call.body

    def answered(found: HeartbeatResponse) -> None:
        call.answer({"errorCode": found.error})

    call.cluster.groups.ask(
        _HEARTBEAT, body["groupId"], body["generationId"], body["memberId"],
        body["groupInstanceId"], None, answered,
    )  # fmt: skip


def leave_group(call: Call) -> None:
    """Let members go: one to version 2, whose error is the answer's, then a list."""
    body, version = call.body, call.api_version

    def answered(found: LeaveGroupResponse) -> None:
        error = found.error
        if version < 3 and not error and found.members:
            error = found.members[0].error
        members = [
            {
                "memberId": each.member_id,
                "groupInstanceId": each.group_instance_id,
                "errorCode": each.error,
            }
            for each in found.members
        ]
        call.answer({"errorCode": error, "members": members})

    if version < 3:
        leaving: tuple[tuple[str, str | None], ...] = ((body["memberId"], None),)
    else:
        leaving = tuple([(each["memberId"], each["groupInstanceId"]) for each in body["members"]])
    call.cluster.groups.ask(_LEAVE, body["groupId"], -1, None, None, leaving, answered)
