"""Logs of Redpanda, which writes Kafka's records, and a version before each member of a group.

They are read as Kafka's; commands say once whose log it is. Cost: the first and the last metadata
of each group are looked at; :func:`begins_as_redpandas` reads ``HEAD_BYTES`` of each partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from coterie._core.codec.schema import is_redpandas
from coterie.log.folders import Segment, read_segment
from coterie.state.partial import ScanOptions

if TYPE_CHECKING:
    from coterie._core.fold.fold import PartitionFold

HEAD_BYTES = 1 << 20
REDPANDA = (
    "this is a log of Redpanda, not of Kafka: a version stands before each member in its group "
    "metadata, which is read all the same"
)


def is_of_redpanda(fold: PartitionFold) -> bool:
    values = (record.value for log in fold.groups.values() for record in (log.first, log.last))
    return any(value is not None and is_redpandas(value) for value in values)


def begins_as_redpandas(partitions: Iterable[Sequence[Segment]]) -> bool:
    """Whether one of these partitions begins with metadata in Redpanda's layout."""
    for first, *_ in partitions:
        fold = ScanOptions().new_fold()
        data = memoryview(read_segment(first))[:HEAD_BYTES]
        fold.scan(data, file=first.name, position=0, expected_offset=-1)
        if is_of_redpanda(fold):
            return True
    return False
