"""Sort keys for output: texts in Java's order, partitions by number."""

from __future__ import annotations

import functools
from collections.abc import Callable


def java_order(text: str) -> bytes:
    """Return the key for the order of Java's String.compareTo: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def partition_order(number: int | None) -> int:
    """Return the key of a partition of the offsets topic; an unknown number comes first."""
    return -1 if number is None else number


def place_order(place: tuple[str, int]) -> tuple[bytes, int]:
    """Return the key of (topic, partition)."""
    return java_order(place[0]), place[1]


def key_order() -> Callable[[tuple[str, str, int]], tuple[bytes, bytes, int]]:
    """Return a key function for (group, topic, partition); it encodes each name once."""
    order = functools.cache(java_order)
    return lambda key: (order(key[0]), order(key[1]), key[2])
