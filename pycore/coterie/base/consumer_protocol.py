"""Subscriptions and assignments: the consumer protocol inside JoinGroup and SyncGroup.

Messages are read and written completely, as by Kafka's own code.
Source: ``ConsumerProtocol.java``. Rules: docs/rules/log-format.md#consumer-protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie._core.codec.schema import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from coterie.base.arguments import binary, integer, sequence, string, walked, within
from coterie.base.ordering import java_order
from coterie.errors import ArgumentError, CorruptData, shown

LATEST = 3


@dataclass(frozen=True, slots=True)
class Subscription:
    """A parsed subscription; fields that its version lacks have their defaults.

    ``group_instance_id`` is not in the bytes: a leader has it from the response to JoinGroup.
    """

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: dict[str, list[int]] = field(default_factory=dict)
    generation_id: int = -1
    rack_id: str | None = None
    group_instance_id: str | None = None


def _mapping(value: Any, name: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise ArgumentError(f"{name} must be {{topic: [partition]}}, not {shown(value)}")
    return value


def _partitions(owned: Mapping[str, Iterable[int]]) -> list[dict[str, Any]]:
    return [
        {
            "topic": string(topic, "a topic"),
            "partitions": [
                integer(number, "a partition") for number in sequence(partitions, "partitions")
            ],
        }
        for topic, partitions in owned.items()
    ]


def subscription(
    topics: Iterable[str],
    version: int = 1,
    *,
    user_data: bytes | None = None,
    owned: Mapping[str, Iterable[int]] | None = None,
    generation_id: int = -1,
    rack_id: str | None = None,
) -> bytes:
    r"""Encode a subscription; topics and owned partitions are sorted, as in Java.

    Examples
    --------
    >>> subscription(["orders"])
    b'\x00\x01\x00\x00\x00\x01\x00\x06orders\xff\xff\xff\xff\x00\x00\x00\x00'
    """
    if isinstance(topics, Mapping):
        topics = topics.keys()
    topic_names = walked(topics, "topics", "a list of names")
    owned_rows = _partitions({} if owned is None else _mapping(owned, "owned"))
    for row in owned_rows:
        row["partitions"].sort()
    data = {
        "topics": sorted((string(topic, "a topic") for topic in topic_names), key=java_order),
        "userData": None if user_data is None else binary(user_data, "user_data"),
        "ownedPartitions": sorted(owned_rows, key=lambda row: java_order(row["topic"])),
        "generationId": integer(generation_id, "generation_id"),
        "rackId": None if rack_id is None else string(rack_id, "rack_id"),
    }
    return encode_subscription({"version": within(version, "version", 0, LATEST), "data": data})


def assignment(
    partitions: Mapping[str, Iterable[int]], version: int = 1, *, user_data: bytes | None = None
) -> bytes:
    """Encode an assignment, in the order of the mapping.

    Examples
    --------
    >>> read_assignment(assignment({"orders": [0, 1]}))
    {'orders': [0, 1]}
    """
    data = {
        "assignedPartitions": _partitions(_mapping(partitions, "partitions")),
        "userData": None if user_data is None else binary(user_data, "user_data"),
    }
    return encode_assignment({"version": within(version, "version", 0, LATEST), "data": data})


def read_subscription(data: bytes) -> Subscription:
    """Decode a subscription; a version above 3 is read as 3.

    Raises
    ------
    CorruptData
        Kafka's reader would throw, or ``data`` is empty.

    Examples
    --------
    >>> read_subscription(subscription(["orders", "audit"])).topics
    ('audit', 'orders')
    """
    read = decode_subscription(binary(data, "data"))
    if read is None:
        raise CorruptData("a subscription without bytes")
    fields = read["data"]
    return Subscription(
        read["version"],
        tuple(fields["topics"]),
        fields["userData"],
        _by_topic(fields.get("ownedPartitions", ())),
        fields.get("generationId", -1),
        fields.get("rackId") or None,
    )


def read_assignment(data: bytes) -> dict[str, list[int]]:
    """Decode an assignment to partitions by topic; empty bytes assign nothing.

    Raises
    ------
    CorruptData
        Kafka's reader would throw.

    Examples
    --------
    >>> read_assignment(b"")
    {}
    """
    read = decode_assignment(binary(data, "data"))
    return {} if read is None else _by_topic(read["data"]["assignedPartitions"])


def owned_partitions(data: bytes) -> dict[str, list[int]]:
    """Decode an assignment: partitions in rising order without duplicates or empty topics."""
    assigned = read_assignment(data)
    return {topic: sorted(set(numbers)) for topic, numbers in assigned.items() if numbers}


def _by_topic(partitions: Iterable[dict[str, Any]]) -> dict[str, list[int]]:
    """Return partitions by topic; merge repeated topics."""
    by_topic: dict[str, list[int]] = {}
    for row in partitions:
        by_topic.setdefault(row["topic"], []).extend(row["partitions"])
    return by_topic
