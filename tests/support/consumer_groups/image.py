"""A metadata image as the slow model has it: topics, brokers, and the hash of what a group reads.

Rules: consumer groups, "Metadata". Nothing is cached but what the rule says is.
"""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass, field

import xxhash


def decode_id(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")


def encode_id(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def id_order(topic_id: bytes) -> tuple[int, int]:
    """Java's ``Uuid.compareTo``: two signed halves, the upper one first."""
    return struct.unpack(">qq", topic_id)


@dataclass
class Topic:
    id: bytes
    name: str
    replicas: list[list[int]]  # of each partition


@dataclass
class Image:
    version: int = 1
    topics: dict[str, Topic] = field(default_factory=dict)  # by name
    racks: dict[int, str | None] = field(default_factory=dict)  # by broker
    last_with_new_topics: int = 1

    def by_id(self, topic_id: bytes) -> Topic | None:
        return next((topic for topic in self.topics.values() if topic.id == topic_id), None)

    def add(self, event) -> set[str]:
        """Apply brokers, deletions and topics of a header or an event; names that changed."""
        changed, created, self.gone = set(), False, []
        for broker in event.get("brokers") or ():
            self.racks[broker["id"]] = broker.get("rack")
        for name in event.get("delete_topics") or ():
            if name in self.topics:
                self.gone.append(self.topics.pop(name))
                changed.add(name)
        for row in event.get("topics") or ():
            topic = self.topics.get(row["topic"])
            topic_id = decode_id(row["topic_id"])
            if topic is None or topic.id != topic_id:
                self.gone += [] if topic is None else [topic]
                topic = self.topics[row["topic"]] = Topic(topic_id, row["topic"], [])
                created = True
            given = row.get("replicas")
            count = row["partitions"]
            if isinstance(count, list):
                count = len(count)
            for number in range(len(topic.replicas), count):
                topic.replicas.append(given[number] if given else [number % 4, (number + 1) % 4])
            changed.add(row["topic"])
        self.new_topics = created
        return changed

    def hash_of(self, name: str) -> int:
        topic = self.topics[name]
        data = b"\0" + topic.id[:8][::-1] + topic.id[8:][::-1] + sized(topic.name)
        data += struct.pack("<i", len(topic.replicas))
        for number, replicas in enumerate(topic.replicas):
            data += struct.pack("<i", number)
            racks = sorted(
                rack for broker in replicas if (rack := self.racks.get(broker)) is not None
            )
            for rack in racks:
                data += struct.pack("<i", utf16_length(rack)) + sized(rack)
        return xxhash.xxh3_64_intdigest(data)


def utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def sized(text: str) -> bytes:
    return text.encode("utf-16-le") + struct.pack("<i", utf16_length(text))


def group_hash(hashes: dict[str, int]) -> int:
    """Combine topic hashes by name; a signed int64, 0 without topics."""
    if not hashes:
        return 0
    data = b"".join(struct.pack("<Q", hashes[name]) for name in sorted(hashes))
    (value,) = struct.unpack("<q", struct.pack("<Q", xxhash.xxh3_64_intdigest(data)))
    return value
