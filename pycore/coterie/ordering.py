"""The orders of what is shown: texts as Java sorts them, partitions by number.

Each is the key of a sort.
"""

from __future__ import annotations

import functools
from collections.abc import Callable


def java_order(text: str) -> bytes:
    """As Java's String.compareTo: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def partition_order(number: int | None) -> int:
    """Partitions of the offsets topic: the one whose number is not known comes first."""
    return -1 if number is None else number


def place_order(place: tuple[str, int]) -> tuple[bytes, int]:
    """(topic, partition)."""
    return java_order(place[0]), place[1]


def key_order() -> Callable[[tuple[str, str, int]], tuple[bytes, bytes, int]]:
    """Return the order of (group, topic, partition) for one sort, which encodes each name once."""
    order = functools.cache(java_order)
    return lambda key: (order(key[0]), order(key[1]), key[2])
