"""The consumer protocol inside JoinGroup and SyncGroup: subscriptions and assignments as bytes.

Read by the tables of ``coterie._core.codec.fields``, all of it, as Kafka's own readers do. Source:
``ConsumerProtocol.java``; bytes: log-format.md, section 8.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie._core.codec.schema import decode_assignment, decode_subscription
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


def _text(value: str | None, name: str = "a topic") -> bytes:
    if value is None:
        return b"\xff\xff"
    raw = string(value, name).encode("utf-8", "replace")
    if len(raw) > 0x7FFF:
        raise ArgumentError(f"a text of {len(raw)} bytes is too long (at most 32767)")
    return struct.pack(">h", len(raw)) + raw


def _bytes(value: bytes | None) -> bytes:
    if value is None:
        return b"\xff\xff\xff\xff"
    given = binary(value, "user_data")
    return struct.pack(">i", len(given)) + given


def _mapping(value: Any, name: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise ArgumentError(f"{name} must be {{topic: [partition]}}, not {shown(value)}")
    return value


def _partitions(owned: Mapping[str, Iterable[int]]) -> bytes:
    out = [struct.pack(">i", len(owned))]
    for topic, partitions in owned.items():
        numbers = [integer(number, "a partition") for number in sequence(partitions, "partitions")]
        out += [_text(topic), struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join(out)


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
    version = within(version, "version", 0, LATEST)
    if isinstance(topics, Mapping):
        topics = topics.keys()
    given = walked(topics, "topics", "a list of names")
    names = sorted(string(topic, "a topic") for topic in given)
    out = [struct.pack(">hi", version, len(names)), *map(_text, names), _bytes(user_data)]
    held = {} if owned is None else _mapping(owned, "owned")
    if version >= 1:
        numbers = {
            string(topic, "a topic"): sorted(
                integer(number, "a partition") for number in sequence(held[topic], "partitions")
            )
            for topic in held
        }
        out.append(_partitions({topic: numbers[topic] for topic in sorted(numbers)}))
    generation_id = integer(generation_id, "generation_id")
    if version >= 2:
        out.append(struct.pack(">i", generation_id))
    if version >= 3:
        out.append(_text(rack_id, "rack_id"))
    return b"".join(out)


def assignment(
    partitions: Mapping[str, Iterable[int]], version: int = 1, *, user_data: bytes | None = None
) -> bytes:
    """Return the bytes of an assignment, in the order given."""
    version = within(version, "version", 0, LATEST)
    held = _mapping(partitions, "partitions")
    return struct.pack(">h", version) + _partitions(held) + _bytes(user_data)


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
