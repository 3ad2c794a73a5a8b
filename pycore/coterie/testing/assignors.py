"""The assignors of a classic group's leader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["ASSIGNORS", "Partitions"]

Partitions = dict[str, list[int]]


def range_assign(
    subscriptions: Mapping[str, Iterable[str]], partitions: Mapping[str, int], order: list[str]
) -> dict[str, Partitions]:
    """Assign as Kafka's RangeAssignor does, without racks; ``order``: the members, sorted."""
    out: dict[str, Partitions] = {member: {} for member in order}
    for topic in sorted(partitions):
        subscribers = [member for member in order if topic in subscriptions[member]]
        at = 0
        for number, member in enumerate(subscribers):
            count, extra = divmod(partitions[topic], len(subscribers))
            size = count + (number < extra)
            if size:
                out[member][topic] = list(range(at, at + size))
            at += size
    return out


def roundrobin_assign(
    subscriptions: Mapping[str, Iterable[str]], partitions: Mapping[str, int], order: list[str]
) -> dict[str, Partitions]:
    """Assign as Kafka's RoundRobinAssignor does."""
    out: dict[str, Partitions] = {member: {} for member in order}
    at = 0
    for topic in sorted(partitions):
        if not any(topic in subscriptions[member] for member in order):
            continue
        for partition in range(partitions[topic]):
            while topic not in subscriptions[order[at % len(order)]]:
                at += 1
            out[order[at % len(order)]].setdefault(topic, []).append(partition)
            at += 1
    return out


ASSIGNORS = {"range": range_assign, "roundrobin": roundrobin_assign}
