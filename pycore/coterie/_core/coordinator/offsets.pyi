"""Offsets, clean-up, administration and elections of the coordinator up to Kafka 3.9.

A load folds the log as a replay does; offsets come from its last state, groups from each protocol's
own module. One bad record stops the load of a partition. Traces are played here, row by row.
Source: GroupCoordinator.scala, GroupMetadataManager.scala.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Self, final

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
        A record cannot be read; Kafka's load would stop.
    """

def offsets_of(fold: PartitionFold) -> dict[str, OffsetMap]:
    """Return the offsets of a fold by group id, including those of undecided transactions.

    ``fold`` is from :func:`fold_log`. The ids ascend.
    """

@final
class Trace:
    """A compiled trace: rows with interned names. Made by :func:`coterie.load_trace`."""

    header: dict[str, Any]
    count: int
    last_id: int
    sugar: bool
    def __new__(cls, header: dict[str, Any]) -> Self: ...
    def __len__(self) -> int: ...
    def add(
        self,
        line: int,
        at_ms: int,
        op: int,
        id: int,
        group_id: str | None,
        generation_id: int,
        member_id: str | None,
        instance: str | None,
        details: tuple[Any, ...] | None,
    ) -> None:
        """Append an event."""
    def requests(self) -> Iterator[tuple[Any, ...]]:
        """Yield (line, at, op, id, group, generation, member, instance, details)."""
