"""The consumer protocol inside JoinGroup and SyncGroup: subscriptions and assignments as bytes.

Read and written by the table of messages, all of it, as Kafka's own readers do.
Source: ``ConsumerProtocol.java``. Rules: docs/rules/log-format.md#consumer-protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from coterie._core.codec.schema import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from coterie.arguments import binary, integer, sequence, string, walked, within
from coterie.errors import ArgumentError, CorruptData, shown

__all__ = [
    "Subscription",
    "assignment",
    "owned_partitions",
    "read_assignment",
    "read_subscription",
    "subscription",
]

LATEST = 3


@dataclass(frozen=True, slots=True)
class Subscription:
    """A parsed subscription; fields that its version has not are at their defaults."""

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: dict[str, list[int]] = field(default_factory=dict)
    generation_id: int = -1
    rack_id: str | None = None


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
    """Return the bytes of a subscription; topics and owned partitions are sorted, as in Java."""
    if isinstance(topics, Mapping):
        topics = topics.keys()
    given = walked(topics, "topics", "a list of names")
    held = _partitions({} if owned is None else _mapping(owned, "owned"))
    for each in held:
        each["partitions"].sort()
    data = {
        "topics": sorted(string(topic, "a topic") for topic in given),
        "userData": None if user_data is None else binary(user_data, "user_data"),
        "ownedPartitions": sorted(held, key=itemgetter("topic")),
        "generationId": integer(generation_id, "generation_id"),
        "rackId": None if rack_id is None else string(rack_id, "rack_id"),
    }
    return encode_subscription({"version": within(version, "version", 0, LATEST), "data": data})


def assignment(
    partitions: Mapping[str, Iterable[int]], version: int = 1, *, user_data: bytes | None = None
) -> bytes:
    """Return the bytes of an assignment, in the order given."""
    data = {
        "assignedPartitions": _partitions(_mapping(partitions, "partitions")),
        "userData": None if user_data is None else binary(user_data, "user_data"),
    }
    return encode_assignment({"version": within(version, "version", 0, LATEST), "data": data})


def read_subscription(data: bytes) -> Subscription:
    """Parse a subscription; versions above 3 are read as 3.

    Raises
    ------
    CorruptData
        Kafka's reader refuses it, or there are no bytes at all.
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
    """Return the partitions of an assignment; no bytes mean that nothing is assigned.

    Raises
    ------
    CorruptData
        Kafka's reader refuses it.
    """
    read = decode_assignment(binary(data, "data"))
    return {} if read is None else _by_topic(read["data"]["assignedPartitions"])


def owned_partitions(data: bytes) -> dict[str, list[int]]:
    """Return what an assignment gives: each partition once, in rising order, no empty topic."""
    held = read_assignment(data)
    return {topic: sorted(set(numbers)) for topic, numbers in held.items() if numbers}


def _by_topic(partitions: Iterable[dict[str, Any]]) -> dict[str, list[int]]:
    """Put the partitions of a topic that comes twice together."""
    held: dict[str, list[int]] = {}
    for one in partitions:
        held.setdefault(one["topic"], []).extend(one["partitions"])
    return held
