"""Steps that both algorithms of the sticky assignors take."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.testing.assignors.base import TopicPartition


def discard(partitions: list[TopicPartition], partition: TopicPartition) -> None:
    """Remove a partition from a list if it is there."""
    if partition in partitions:
        partitions.remove(partition)


def unassigned(
    partitions: list[TopicPartition], assigned: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """Return the partitions that are not assigned; both are sorted in the same way.

    As in Kafka, what is assigned and does not exist hides all that comes after it.
    """
    rest = iter(assigned)
    skipped = next(rest, None)
    left = []
    for partition in partitions:
        if partition == skipped:
            skipped = next(rest, None)
        else:
            left.append(partition)
    return left
