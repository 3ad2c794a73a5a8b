"""The records of ``__transaction_state``: key version 0, value versions 0 and 1.

Kafka 3.9.1 writes values of version 0, and Kafka 4 of version 1, which has compact lengths and
tagged fields. Source: TransactionLog.valueToBytes, TransactionLogValue.json.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from coterie.errors import CorruptData
from coterie.wire.varints import unsigned_varint

_HEAD = struct.Struct(">hqhib")
_TAIL = struct.Struct(">qq")
_INT, _SHORT = struct.Struct(">i"), struct.Struct(">h")
_NO_TAGS, _CLIENT_VERSION = b"\0", 2  # the number of a tagged field


class Value(NamedTuple):
    """The value of a record; ``partitions`` is None (null) in the state Empty."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: int
    partitions: dict[str, list[int]] | None
    updated_ms: int
    start_ms: int
    client_version: int = 0  # in version 1 only


def key_bytes(transactional_id: str) -> bytes:
    return _SHORT.pack(0) + _text(transactional_id)


def value_bytes(value: Value, version: int = 0) -> bytes:
    count, text = (_count, _compact_text) if version else (_INT.pack, _text)
    parts = [
        _HEAD.pack(version, value.producer_id, value.producer_epoch, value.timeout_ms, value.status)
    ]
    parts.append(count(-1 if value.partitions is None else len(value.partitions)))
    for topic, numbers in (value.partitions or {}).items():
        parts += (text(topic), count(len(numbers)), *map(_INT.pack, numbers))
        parts.append(_NO_TAGS if version else b"")
    parts.append(_TAIL.pack(value.updated_ms, value.start_ms))
    return b"".join(parts) + (_tags(value) if version else b"")


def _tags(value: Value) -> bytes:
    """Encode the tagged fields; Kafka 4.1 writes one of the three, if it is not 0."""
    if not value.client_version:
        return _NO_TAGS
    return b"\1" + bytes((_CLIENT_VERSION, _SHORT.size)) + _SHORT.pack(value.client_version)


def _count(number: int) -> bytes:
    return unsigned_varint(number + 1)


def _compact_text(text: str) -> bytes:
    data = text.encode()
    return _count(len(data)) + data


def _text(text: str) -> bytes:
    data = text.encode()
    return _SHORT.pack(len(data)) + data


class _Reader:
    def __init__(self, data: bytes, flexible: bool, at: int) -> None:
        self.data, self.flexible, self.at = data, flexible, at

    def number(self, form: struct.Struct) -> int:
        (number,) = form.unpack(self.take(form.size))
        return int(number)

    def take(self, size: int) -> bytes:
        end = self.at + size
        if not 0 <= size <= len(self.data) - self.at:
            raise CorruptData(f"{size} bytes needed", position=self.at)
        taken, self.at = self.data[self.at : end], end
        return taken

    def varint(self) -> int:
        number = 0
        for shift in range(0, 35, 7):
            (byte,) = self.take(1)
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise CorruptData("a varint is too long", position=self.at)

    def count(self, form: struct.Struct = _INT) -> int:
        count = self.varint() - 1 if self.flexible else self.number(form)
        if count > len(self.data) - self.at:
            raise CorruptData(f"{count} entries needed", position=self.at)
        return count

    def text(self) -> str:
        return self.take(self.count(_SHORT)).decode("utf-8", "replace")

    def tags(self) -> dict[int, bytes]:
        fields = {}
        for _ in range(self.varint() if self.flexible else 0):
            tag = self.varint()
            fields[tag] = self.take(self.varint())
        return fields


def read_key(key: bytes) -> str | None:
    """Return the transactional id of a key; None if its version is unknown."""
    reader = _Reader(key, False, 0)
    return reader.text() if reader.number(_SHORT) == 0 else None


def read_value(value: bytes) -> Value:
    """Read a record's value."""
    head = _Reader(value, False, 0).take(_HEAD.size)
    version, producer_id, producer_epoch, timeout_ms, status = _HEAD.unpack(head)
    if version not in (0, 1):
        raise CorruptData(f"version {version} of a transaction is not known")
    reader = _Reader(value, version == 1, _HEAD.size)
    count = reader.count()
    partitions: dict[str, list[int]] | None = None if count < 0 else {}
    for _ in range(count):
        topic = reader.text()
        numbers = [reader.number(_INT) for _ in range(reader.count())]
        reader.tags()
        if partitions is not None:
            partitions[topic] = numbers
    updated_ms, start_ms = _TAIL.unpack(reader.take(_TAIL.size))
    client_version = int.from_bytes(reader.tags().get(_CLIENT_VERSION, b"\0"), "big")
    return Value(
        producer_id, producer_epoch, timeout_ms, status, partitions, updated_ms, start_ms,
        client_version,
    )  # fmt: skip


def by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Group partitions by topic; topics and partitions are sorted."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return topics
