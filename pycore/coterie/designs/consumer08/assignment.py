"""Who gets which partition: range, round robin, and the design document's ceiling rule.

Source: 0.8.2.2's ``PartitionAssignor``. A thread is ``(consumer id, number)``; threads are sorted
as the text ``ID-NUMBER``.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

PartitionKey = tuple[str, int]
Positions = Mapping[str, Mapping[str, int]]
"""By topic: the place of each thread in the order of all threads of that topic."""


class Unassignable(ValueError):
    """Round robin is asked for where it is not allowed."""


def as_java_sorts(text: str) -> bytes:
    """Return a key by which text sorts as in Java: by its UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def java_hash(text: str) -> int:
    """Return Java's hash of a text: 32 bits, signed."""
    units = as_java_sorts(text)
    value = 0
    for i in range(0, len(units), 2):
        value = (31 * value + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def range_share(
    mine: Mapping[str, Sequence[str]],
    partitions: Mapping[str, Sequence[int]],
    positions: Positions,
    *,
    ceiling: bool = False,
) -> dict[PartitionKey, str]:
    """Give a consumer its part of each topic: a run of partitions for each of its threads.

    Parameters
    ----------
    mine : mapping
        The consumer's own threads, by topic.
    partitions : mapping
        The partitions of those topics, sorted.
    positions : mapping
        Where each thread stands among all that take the topic.
    ceiling : bool
        The document's rule: each thread takes ceil(P / C), the last ones what is left.
    """
    share: dict[PartitionKey, str] = {}
    for topic, threads in mine.items():
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
def place_in_round(topic: str, partition: int) -> int:
    """Return what round robin sorts a partition by."""
    return java_hash(f"[{topic},{partition}]")


def round_robin_share(
    mine: Mapping[str, Sequence[str]],
    partitions: Mapping[str, Sequence[int]],
    positions: Positions,
) -> dict[PartitionKey, str]:
    """Deal all partitions of a consumer's topics to all threads in turn; return its own.

    Equal hashes: the topic that the subscription names later comes first, as a Scala map has two.

    Raises
    ------
    Unassignable
        The topics that the group takes do not all have the same threads, or there are none.
    """
    sets = list(positions.values())
    if not sets or any(other.keys() != sets[0].keys() for other in sets[1:]):
        raise Unassignable("round robin needs the same threads for every topic of the group")
    threads = list(sets[0])
    own = {thread for names in mine.values() for thread in names}
    everything = [(t, p) for t in reversed(list(mine)) for p in partitions[t]]
    everything.sort(key=lambda one: place_in_round(*one))
    share = {}
    for i, partition in enumerate(everything):
        thread = threads[i % len(threads)]
        if thread in own:
            share[partition] = thread
    return share
