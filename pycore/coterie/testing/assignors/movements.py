"""Which partitions the general algorithm has moved, so that none moves to and fro.

Source: AbstractStickyAssignor.PartitionMovements.
"""

from __future__ import annotations

from coterie._core.codec.compression import java_hash
from coterie.testing.assignors.base import TopicPartition, spread

_Pair = tuple[str, str]  # from, to


class Movements:
    """The moves of partitions: where each was at first, and where it is."""

    def __init__(self) -> None:
        self.pair: dict[TopicPartition, _Pair] = {}
        self.moved: dict[str, dict[_Pair, _PartitionSet]] = {}  # by topic

    def add(self, partition: TopicPartition, source: str, target: str) -> None:
        """Take a move; two in a row are one, and there and back is none."""
        pair = self.pair.pop(partition, None)
        if pair is not None:
            by_pair = self.moved[partition[0]]
            by_pair[pair].remove(partition)
            if not by_pair[pair].partitions:
                del by_pair[pair]
            source = pair[0]
        if source != target:
            self.pair[partition] = source, target
            by_pair = self.moved.setdefault(partition[0], {})
            by_pair.setdefault((source, target), _PartitionSet()).add(partition)

    def actual(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """Return the partition to move in its place: one of the topic that came from the target."""
        source = self.pair.get(partition, (source,))[0]
        back = self.moved.get(partition[0], {}).get((target, source))
        return partition if back is None else back.first()


class _PartitionSet:
    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, int] = {}  # in order of their arrival
        self.bins = 16

    def add(self, partition: TopicPartition) -> None:
        topic, number = partition
        self.partitions[partition] = spread(31 * (31 + number) + java_hash(topic))
        if len(self.partitions) > self.bins * 3 // 4:
            self.bins *= 2

    def remove(self, partition: TopicPartition) -> None:
        del self.partitions[partition]

    def first(self) -> TopicPartition:
        """Return the first one in the order of the bins."""
        return min(self.partitions, key=lambda each: self.partitions[each] & self.bins - 1)
