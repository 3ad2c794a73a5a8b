"""Values of the consumer protocol: responses, described groups, and the event of a change.

Frozen, comparable, printable; names are Kafka's in snake_case. A topic id is text: URL-safe base64
without padding, as Kafka prints it. Below each response stands the function that makes it from an
error and the core's payload.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from coterie.values import Error, encode_topic_id

__all__ = [
    "ConsumerGroupChange",
    "ConsumerGroupDescribeResponse",
    "ConsumerGroupHeartbeatResponse",
    "DescribedConsumerGroup",
    "DescribedConsumerMember",
    "DescribedTopicPartitions",
    "TopicPartitions",
    "decode_topic_id",
    "encode_topic_id",
]

_ERRORS = {int(error): error for error in Error}


def decode_topic_id(text: str) -> bytes:
    """Return the 16 bytes of a topic id.

    Raises
    ------
    ValueError
        The text is no URL-safe base64 of 16 bytes.
    """
    raw = base64.b64decode(text.rstrip("=") + "==", altchars=b"-_", validate=True)
    if len(raw) != 16:
        raise ValueError(f"a topic id has 16 bytes, not {len(raw)}")
    return raw


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """Partitions of one topic, by its id."""

    topic_id: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConsumerGroupHeartbeatResponse:
    """Answer to ConsumerGroupHeartbeat; ``assignment`` None: as it was."""

    error: Error
    member_id: str | None
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: tuple[TopicPartitions, ...] | None


def heartbeat_response(error: Error, payload: Any) -> ConsumerGroupHeartbeatResponse:
    """Make the response to ConsumerGroupHeartbeat."""
    if payload is None:
        return ConsumerGroupHeartbeatResponse(error, None, 0, 0, None)
    member_id, epoch, interval_ms, assigned = payload
    assignment = None if assigned is None else _topics(assigned.rows())
    return ConsumerGroupHeartbeatResponse(error, member_id, epoch, interval_ms, assignment)


def _topics(rows: Iterable[tuple[bytes, tuple[int, ...]]]) -> tuple[TopicPartitions, ...]:
    return tuple([TopicPartitions(encode_topic_id(raw), numbers) for raw, numbers in rows])


@dataclass(frozen=True, slots=True)
class DescribedTopicPartitions:
    """Partitions of one topic, by its id and name."""

    topic_id: str
    topic: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DescribedConsumerMember:
    """A member as ConsumerGroupDescribe shows it; ``member_type`` 0: classic, 1: consumer."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    member_type: int
    assignment: tuple[DescribedTopicPartitions, ...]
    target_assignment: tuple[DescribedTopicPartitions, ...]


@dataclass(frozen=True, slots=True)
class DescribedConsumerGroup:
    """A group as ConsumerGroupDescribe shows it."""

    group_id: str
    error: Error
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor_name: str
    members: tuple[DescribedConsumerMember, ...]


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescribeResponse:
    """Answer to ConsumerGroupDescribe; ``error`` is always NONE, each group has its own."""

    error: Error
    groups: tuple[DescribedConsumerGroup, ...]


def describe_response(error: Error, payload: Any) -> ConsumerGroupDescribeResponse:
    """Make the response to ConsumerGroupDescribe."""
    return ConsumerGroupDescribeResponse(
        error, tuple([described_group(*row) for row in payload or ()])
    )


def described_group(
    group_id: str, code: int, state: str, epoch: int, target_epoch: int, assignor: str, members: Any
) -> DescribedConsumerGroup:
    """Make a described group of the core's row."""
    described = [_member(row) for row in members]
    return DescribedConsumerGroup(
        group_id, _ERRORS[code], state, epoch, target_epoch, assignor, tuple(described)
    )


def _member(row: Any) -> DescribedConsumerMember:
    *fields, assigned, target = row
    values: tuple[Any, ...] = (*fields, _named(assigned), _named(target))
    return DescribedConsumerMember(*values)


def _named(rows: Any) -> tuple[DescribedTopicPartitions, ...]:
    return tuple([DescribedTopicPartitions(encode_topic_id(raw), *named) for raw, *named in rows])


@dataclass(frozen=True, slots=True)
class ConsumerGroupChange:
    """A consumer group changed its state, an epoch or its size, or ceased to be one.

    ``type`` is ``"consumer"``; ``"classic"`` or ``"none"`` if it is no consumer group any more:
    then the other fields mean nothing.
    """

    at: int
    group_id: str
    type: str
    state: str | None
    group_epoch: int
    assignment_epoch: int
    members: int

    def as_dict(self) -> dict[str, Any]:
        """Return its line in a trace's output."""
        head = {"at": self.at, "event": "group", "group_id": self.group_id, "type": self.type}
        if self.state is None:
            return head
        return head | {
            "state": self.state,
            "group_epoch": self.group_epoch,
            "assignment_epoch": self.assignment_epoch,
            "members": self.members,
        }
