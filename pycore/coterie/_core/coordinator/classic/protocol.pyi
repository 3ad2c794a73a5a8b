"""The classic protocol: joins, syncs, heartbeats, leaves, rebalances; the load of its groups.

Source: GroupCoordinator.scala.
"""

from coterie._core.coordinator.classic.group import GroupMetadata
from coterie._core.fold.fold import PartitionFold

def groups_of(fold: PartitionFold) -> dict[str, GroupMetadata]:
    """Return the classic groups of a fold, by id in ascending order; they have no offsets.

    ``fold`` is from ``fold_log``.

    Raises
    ------
    CorruptData
        A group's value cannot be read; Kafka's load would stop.
    """
