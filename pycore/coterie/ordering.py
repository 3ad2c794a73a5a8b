"""The orders of what is shown: texts as Java sorts them, partitions by number."""

from __future__ import annotations


def java_order(text: str) -> bytes:
    """Sort key of Java's String.compareTo: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def partition_order(number: int | None) -> int:
    """Sort key of partitions of the topic: the one whose number is not known comes first."""
    return -1 if number is None else number
