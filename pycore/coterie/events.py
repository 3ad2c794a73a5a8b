"""Events of a coordinator, and their lines in the output of a trace.

Frozen, comparable, printable. Times are int milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from coterie._core.codec.schema import decode_key, decode_value, read_group_value
from coterie.consumer_groups import ConsumerGroupChange
from coterie.values import plain

__all__ = [
    "Append",
    "Cause",
    "ConsumerGroupChange",
    "Event",
    "MemberFenced",
    "MemberReconciled",
    "Response",
    "Transition",
    "Unanswered",
]


class Cause(Enum):
    """Why a group changed its state, or fenced a member; not part of a trace's lines."""

    JOIN = 0
    METADATA_CHANGED = 1
    LEADER_REJOIN = 2
    LEAVE = 3
    SESSION_TIMEOUT = 4
    REBALANCE_TIMEOUT = 5
    SYNC_TIMEOUT = 6
    STATIC_RETURN = 7
    APPEND_FAILED = 8
    SIZE = 9
    FAILOVER = 10
    COMPLETED = 11
    CLEANUP = 12


@dataclass(frozen=True, slots=True)
class Transition:
    """A group changed its state."""

    at: int
    group_id: str
    from_: str
    to: str
    generation_id: int
    cause: Cause
    member_id: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return its line in a trace's output, which has neither cause nor member."""
        return {
            "at": self.at,
            "event": "transition",
            "group_id": self.group_id,
            "from": self.from_,
            "to": self.to,
            "generation_id": self.generation_id,
        }


@dataclass(frozen=True, slots=True)
class Append:
    """A record was written to the coordinator's log; ``value`` None is a tombstone."""

    at: int
    group_id: str
    key: bytes
    value: bytes | None
    base_offset: int

    def as_dict(self) -> dict[str, Any]:
        """Return its line in a trace's output, which has no offset."""
        return {
            "at": self.at,
            "event": "append",
            "group_id": self.group_id,
            "key": plain(self.key),
            "value": plain(self.value),
        }

    def decoded(self) -> dict[str, Any]:
        """Return the record's fields: key and value as mappings, value None for a tombstone."""
        return _decoded(self.key, self.value)


@dataclass(frozen=True, slots=True)
class Response:
    """A request was answered."""

    at: int
    id: int
    op: str
    response: Any

    def as_dict(self) -> dict[str, Any]:
        """Return its line in a trace's output."""
        head = {"at": self.at, "event": "response", "id": self.id, "op": self.op}
        fields: dict[str, Any] = plain(self.response)
        return head | fields


@dataclass(frozen=True, slots=True)
class MemberReconciled:
    """A member of a consumer group has the target's epoch, and all that the target gives it."""

    at: int
    group_id: str
    member_id: str
    member_epoch: int

    def as_dict(self) -> dict[str, Any]:
        """Return the event as a dict; a trace's output has no line for it."""
        return {
            "at": self.at,
            "event": "member_reconciled",
            "group_id": self.group_id,
            "member_id": self.member_id,
            "member_epoch": self.member_epoch,
        }


@dataclass(frozen=True, slots=True)
class MemberFenced:
    """A timeout removed a member from a consumer group.

    ``cause`` is SESSION_TIMEOUT, REBALANCE_TIMEOUT (it did not give up its partitions, or as a
    classic member did not join again in time) or SYNC_TIMEOUT (of a classic member).
    """

    at: int
    group_id: str
    member_id: str
    member_epoch: int
    cause: Cause

    def as_dict(self) -> dict[str, Any]:
        """Return the event as a dict; a trace's output has no line for it."""
        return {
            "at": self.at,
            "event": "member_fenced",
            "group_id": self.group_id,
            "member_id": self.member_id,
            "member_epoch": self.member_epoch,
            "cause": self.cause.name,
        }


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A request will never be answered: ``why`` is ``"replaced"`` or ``"dropped"``."""

    at: int
    id: int
    op: str
    why: str

    def as_dict(self) -> dict[str, Any]:
        """Return the event as a dict; a trace's output has no line for such a request."""
        return {"at": self.at, "event": "unanswered", "id": self.id, "op": self.op, "why": self.why}


Event = (
    Transition
    | Append
    | Response
    | Unanswered
    | ConsumerGroupChange
    | MemberReconciled
    | MemberFenced
)


def _decoded(key: bytes, value: bytes | None) -> dict[str, Any]:
    """Return a record of a coordinator with the field names of a trace."""
    decoded_key = decode_key(key)
    version = decoded_key["version"]
    record = {"key": {"version": version} | decoded_key["data"], "value": None}
    if value is None:
        return record
    if version < 2:
        data = decode_value(version, value)["data"]
        record["value"] = {
            "offset": data["offset"],
            "leader_epoch": data.get("leaderEpoch", -1),
            "metadata": data["metadata"],
            "commit_timestamp": data["commitTimestamp"],
            "expire_timestamp": data.get("expireTimestamp", -1),
        }
        return record
    group = read_group_value(value)
    record["value"] = {
        "protocol_type": group.protocol_type,
        "generation_id": group.generation,
        "protocol_name": group.protocol,
        "leader": group.leader,
        "current_state_timestamp": group.current_state_timestamp,
        "members": [member._asdict() for member in group.members],
    }
    return record
