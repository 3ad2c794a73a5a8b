"""The responses of a coordinator, made of its rows: an error, and a payload of the core.

One function an operation; the core's table of operations names it (effects.pyx). A payload of None
is that of a request that failed as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from coterie import values
from coterie.values import Error

__all__: list[str] = []

_ERRORS = {int(error): error for error in Error}
# ((topic, partition), number of its error), or a row of a commit, which has more: that was written
_Partitions = Iterable[tuple[Any, ...]]


def joined(error: Error, payload: Any) -> values.JoinGroupResponse:
    """Make the response to JoinGroup; of one that failed the payload is the member id."""
    if payload is None or type(payload) is str:
        return values.JoinGroupResponse(error, -1, None, None, "", payload or "", False, ())
    generation, kind, name, leader, member_id, skip, members = payload
    told = tuple([values.JoinMember(*entry) for entry in members])
    return values.JoinGroupResponse(error, generation, kind, name, leader, member_id, skip, told)


def synced(error: Error, payload: Any) -> values.SyncGroupResponse:
    """Make the response to SyncGroup."""
    return values.SyncGroupResponse(error, *(payload or (None, None, b"")))


def beaten(error: Error, payload: Any) -> values.HeartbeatResponse:
    """Make the response to Heartbeat."""
    return values.HeartbeatResponse(error)


def left(error: Error, payload: Any) -> values.LeaveGroupResponse:
    """Make the response to LeaveGroup. A pair is of the request: that member has left."""
    members = [
        values.LeaveMember(row[0], row[1], _ERRORS[row[2]] if len(row) > 2 else Error.NONE)
        for row in payload or ()
    ]
    return values.LeaveGroupResponse(error, tuple(members))


def committed(error: Error, payload: Any) -> values.OffsetCommitResponse:
    """Make the response to OffsetCommit."""
    return values.OffsetCommitResponse(error, _partitions(payload))


def txn_committed(error: Error, payload: Any) -> values.TxnOffsetCommitResponse:
    """Make the response to TxnOffsetCommit."""
    return values.TxnOffsetCommitResponse(error, _partitions(payload))


def fetched(error: Error, payload: Any) -> values.OffsetFetchResponse:
    """Make the response to OffsetFetch."""
    offsets = [
        values.FetchedOffset(topic, partition, offset, epoch, metadata, _ERRORS[code])
        for topic, partition, offset, epoch, metadata, code in payload or ()
    ]
    return values.OffsetFetchResponse(error, tuple(offsets))


def offsets_deleted(error: Error, payload: Any) -> values.OffsetDeleteResponse:
    """Make the response to OffsetDelete."""
    return values.OffsetDeleteResponse(error, _partitions(payload))


def described(error: Error, payload: Any) -> values.DescribeGroupResponse:
    """Make the response to DescribeGroups, of one group."""
    if payload is None:
        return values.DescribeGroupResponse(error, "", "", "", ())
    return values.DescribeGroupResponse(
        error, payload.state, payload.protocol_type, payload.protocol_name, payload.members
    )


def listed(error: Error, payload: Any) -> values.ListGroupsResponse:
    """Make the response to ListGroups."""
    return values.ListGroupsResponse(error, payload or ())


def groups_deleted(error: Error, payload: Any) -> values.DeleteGroupsResponse:
    """Make the response to DeleteGroups."""
    groups = [values.DeletedGroup(group_id, _ERRORS[code]) for group_id, code in payload or ()]
    return values.DeleteGroupsResponse(error, tuple(groups))


def _partitions(payload: _Partitions | None) -> tuple[values.PartitionError, ...]:
    found = []
    for row in payload or ():
        topic, partition = row[0]
        error = _ERRORS[row[1]] if len(row) == 2 else Error.NONE
        found.append(values.PartitionError(topic, partition, error))
    return tuple(found)
