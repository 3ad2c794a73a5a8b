"""A part of a partition's data that is kept, and goes, as a whole."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from coterie.server.services.data.settings import LogSettings

__all__ = ["Kept", "Segment"]

_INDEX_BYTES = 10 * 1024 * 1024
_INDEX_ENTRY = 8
_LARGEST_DELTA = 2**31 - 1


class Kept(NamedTuple):
    """A batch in the log; ``indexed``: Kafka's offset index has an entry for it."""

    base_offset: int
    last_offset: int
    position: int
    max_timestamp: int
    leader_epoch: int
    indexed: bool
    data: bytes


class Segment:
    """Batches from one offset on, as a segment of Kafka's has them.

    Which batches lie together decides how far a fetch reads, and what retention takes away.
    """

    def __init__(self, base_offset: int, now_ms: int) -> None:
        self.base_offset = base_offset
        self.created_ms = self.modified_ms = now_ms
        self.first_timestamp: int | None = None
        self.max_timestamp = -1
        self.size = 0
        self.batches: list[Kept] = []
        self._last_offsets: list[int] = []
        self._since_index = self._indexed = 0

    @property
    def largest_timestamp(self) -> int:
        """The latest time of a record, or of the last write where records have none."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.modified_ms

    def is_full_for(
        self, size: int, last_offset: int, timestamp: int, settings: LogSettings, now_ms: int
    ) -> bool:
        """Whether a batch has to begin a new segment."""
        if not self.size:
            return False
        if self.size > settings.segment_bytes - size:
            return True
        if last_offset - self.base_offset > _LARGEST_DELTA:
            return True
        if self._indexed * _INDEX_ENTRY >= _INDEX_BYTES:
            return True
        first = self.first_timestamp
        waited = now_ms - self.created_ms if first is None else timestamp - first
        return waited > settings.segment_ms

    def append(
        self, data: bytes, base_offset: int, last_offset: int, timestamp: int, epoch: int,
        interval: int, now_ms: int,
    ) -> Kept:  # fmt: skip
        """Put a batch at the end; ``interval`` is that of the index, in bytes."""
        indexed = self._since_index > interval
        if indexed:
            self._since_index = 0
            self._indexed += 1
        self._since_index += len(data)
        kept = Kept(base_offset, last_offset, self.size, timestamp, epoch, indexed, data)
        self.batches.append(kept)
        self._last_offsets.append(last_offset)
        if self.first_timestamp is None and timestamp >= 0:
            self.first_timestamp = timestamp
        self.max_timestamp = max(self.max_timestamp, timestamp)
        self.size += len(data)
        self.modified_ms = now_ms
        return kept

    def index_of(self, offset: int) -> int:
        """Return the number of the batch that holds an offset, or of the first behind it."""
        return bisect_left(self._last_offsets, offset)

    def since(self, number: int) -> Iterator[Kept]:
        """Yield the batches from this one on; none is copied, however many lie behind."""
        batches = self.batches
        for n in range(number, len(batches)):
            yield batches[n]

    def bound_behind(self, position: int) -> int | None:
        """Return the offset at which Kafka's index says that such a position is reached.

        Its entries have the last offset of a batch. None: there is no entry so far on.
        """
        low = bisect_left(self.batches, position, key=lambda kept: kept.position)
        for kept in self.since(low):
            if kept.indexed:
                return kept.last_offset
        return None
