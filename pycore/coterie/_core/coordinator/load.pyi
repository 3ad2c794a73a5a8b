from collections.abc import Iterable
from typing import Any

from coterie._core.fold.fold import PartitionFold
from coterie._core.structures.offsets import OffsetMap

def fold_log(log: Iterable[tuple[Any, ...]]) -> PartitionFold:
    """Return the fold of a log, from which each component reads its groups.

    Parameters
    ----------
    log
        (base offset, producer id, epoch, transactional, control, ((key, value), ...)) in order.

    Raises
    ------
    CorruptData
        A record that stops Kafka's load.
    """

def offsets_of(fold: PartitionFold) -> dict[str, OffsetMap]:
    """Return the offsets of a fold by group id, those of undecided transactions included.

    ``fold`` is from :func:`fold_log`. The ids ascend.
    """
