"""Assign partitions to threads: range, round robin, and the design document's ceiling rule.

Source: 0.8.2.2's ``PartitionAssignor``. A thread is ``(consumer id, number)``; threads are sorted
as the text ``ID-NUMBER``.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

PartitionKey = tuple[str, int]
Positions = Mapping[str, Mapping[str, int]]
"""The index of each thread among all threads of a topic, by topic."""


class Unassignable(ValueError):
    """Round robin is not allowed for this group."""


def java_sort_key(text: str) -> bytes:
    """Return a key that sorts text as Java does, by UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def java_hash(text: str) -> int:
    """Return Java's hash of a text (int32)."""
    units = java_sort_key(text)
    value = 0
    for i in range(0, len(units), 2):
        value = (31 * value + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def range_share(
    own: Mapping[str, Sequence[str]],
    partitions: Mapping[str, Sequence[int]],
    positions: Positions,
    *,
    ceiling: bool = False,
) -> dict[PartitionKey, str]:
    """Return a consumer's share by the range rule: consecutive partitions for each thread.

    Parameters
    ----------
    own : mapping
        The consumer's own threads, by topic.
    partitions : mapping
        The partitions of those topics, sorted.
    positions : mapping
        The index of each thread among all threads of the topic.
    ceiling : bool
        The document's rule: each thread takes ceil(P / C), the last ones the rest.
    """
    share: dict[PartitionKey, str] = {}
    for topic, threads in own.items():
        present = partitions[topic]
        places = positions[topic]
        least, more = divmod(len(present), len(places))
        for thread in threads:
            k = places[thread]
            if ceiling:
                size = least + bool(more)
                start = k * size
            else:
                start, size = least * k + min(k, more), least + (k < more)
            for partition in present[start : start + size]:
                share[topic, partition] = thread
    return share


@functools.lru_cache(maxsize=65536)
def round_robin_key(topic: str, partition: int) -> int:
    """Return the sort key of a partition in round robin."""
    return java_hash(f"[{topic},{partition}]")


def round_robin_share(
    own: Mapping[str, Sequence[str]],
    partitions: Mapping[str, Sequence[int]],
    positions: Positions,
) -> dict[PartitionKey, str]:
    """Deal all partitions of a consumer's topics to all threads in turn; return its share.

    If hashes are equal, the topic that the subscription names later comes first, as in a Scala map
    of two entries.

    Raises
    ------
    Unassignable
        The topics of the group do not all have the same threads, or there are none.
    """
    sets = list(positions.values())
    if not sets or any(other.keys() != sets[0].keys() for other in sets[1:]):
        raise Unassignable("round robin needs the same threads for every topic of the group")
    threads = list(sets[0])
    own_threads = {thread for names in own.values() for thread in names}
    partitions_in_turn = [(t, p) for t in reversed(list(own)) for p in partitions[t]]
    partitions_in_turn.sort(key=lambda key: round_robin_key(*key))
    share = {}
    for i, partition in enumerate(partitions_in_turn):
        thread = threads[i % len(threads)]
        if thread in own_threads:
            share[partition] = thread
    return share
