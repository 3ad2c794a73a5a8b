"""The consumer protocol's assignment bytes of a classic group's member, as topics and partitions.

Knows bytes; what a topic is, and whether it lives, it does not. Bytes left after the partitions
(user data, later fields) are not looked at, as in Kafka. Source: ConsumerProtocol.java,
ConsumerProtocolAssignment.json.
"""

from __future__ import annotations

import struct

from coterie._core.codec.text import decode_utf8
from coterie.errors import CorruptData


def consumer_assignment(data: bytes) -> dict[str, list[int]]:
    """Return the partitions of each topic that the bytes assign, in rising order.

    No bytes at all mean nothing assigned. A topic without partitions is not there.

    Raises
    ------
    CorruptData
        The bytes end before the last field, hold a negative count, or a version below 0.
    """
    if not data:
        return {}
    try:
        return _read(data)
    except (struct.error, ValueError) as error:
        raise CorruptData(f"an assignment that cannot be read ({error})") from error


def _read(data: bytes) -> dict[str, list[int]]:
    version, topics = struct.unpack_from(">hi", data)
    if version < 0 or topics < 0:
        raise ValueError(f"version {version}, {topics} topics")
    at = 6
    found: dict[str, set[int]] = {}
    for _ in range(topics):
        (size,) = struct.unpack_from(">h", data, at)
        name, at = data[at + 2 : at + 2 + size], at + 2 + size
        if size < 0 or len(name) < size:
            raise ValueError("a topic's name is cut short")
        (count,) = struct.unpack_from(">i", data, at)
        if count < 0:
            raise ValueError(f"{count} partitions")
        # The check of the length comes with the first unpack beyond the end: no count is trusted.
        numbers = struct.iter_unpack(">i", _exactly(data, at + 4, 4 * count))
        found.setdefault(decode_utf8(name), set()).update(number for (number,) in numbers)
        at += 4 + 4 * count
    return {topic: sorted(numbers) for topic, numbers in found.items() if numbers}


def _exactly(data: bytes, start: int, size: int) -> bytes:
    if start + size > len(data):
        raise ValueError("the partitions are cut short")
    return data[start : start + size]
