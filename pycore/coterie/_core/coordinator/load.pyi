from collections.abc import Iterable
from typing import Any

from coterie._core.coordinator.group import GroupMetadata
from coterie._core.fold.fold import PartitionFold

def fold_log(log: Iterable[tuple[Any, ...]]) -> PartitionFold:
    """Return the fold of a log: all that any part of a coordinator reads its groups from.

    Parameters
    ----------
    log
        (base offset, producer id, epoch, transactional, control, ((key, value), ...)) in order.

    Raises
    ------
    CorruptData
        A record that stops Kafka's load.
    """

def groups_of(fold: PartitionFold, now_ms: int) -> dict[str, GroupMetadata]:
    """Return the classic groups of a fold, by id: members, offsets, undecided transactions.

    Parameters
    ----------
    fold
        From :func:`fold_log`.
    now_ms
        Since when a group of which the log has offsets alone is Empty, in ms.

    Raises
    ------
    CorruptData
        A group's value that stops Kafka's load.
    """
