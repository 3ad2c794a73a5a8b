"""A segment of a partition's log; retention deletes whole segments."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from coterie.server.topic_settings import LogSettings

_OFFSET_ENTRY, _TIME_ENTRY = 8, 12  # bytes, in Kafka's indexes of a segment
_LARGEST_DELTA = 2**31 - 1


class StoredBatch(NamedTuple):
    """A batch in the log; ``indexed``: Kafka's offset index would have an entry for it."""

    base_offset: int
    last_offset: int
    position: int
    max_timestamp: int
    leader_epoch: int
    indexed: bool
    data: bytes


class Segment:
    """The batches of one of Kafka's segments.

    The borders of segments decide where a fetch ends and what retention deletes.
    """

    def __init__(
        self, base_offset: int, now_ms: int, index_bytes: int = LogSettings.segment_index_bytes
    ) -> None:
        self.base_offset = base_offset
        self._most_offset_entries = index_bytes // _OFFSET_ENTRY
        self._most_time_entries = index_bytes // _TIME_ENTRY - 1
        self.created_ms = self.modified_ms = now_ms
        self.first_timestamp: int | None = None
        self.max_timestamp = -1
        self.size = 0
        self.batches: list[StoredBatch] = []
        self._last_offsets: list[int] = []
        self._since_index = self._offset_entries = self._time_entries = 0
        self._indexed_timestamp = -1

    @property
    def largest_timestamp(self) -> int:
        """The latest timestamp of its records, or the last write time if they have none."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.modified_ms

    def is_full_for(
        self, size: int, last_offset: int, timestamp: int, settings: LogSettings, now_ms: int
    ) -> bool:
        if not self.size:
            return False
        if self.size > settings.segment_bytes - size:
            return True
        if last_offset - self.base_offset > _LARGEST_DELTA:
            return True
        if self._offset_entries >= self._most_offset_entries:
            return True
        if self._time_entries >= self._most_time_entries:
            return True
        first = self.first_timestamp
        waited = now_ms - self.created_ms if first is None else timestamp - first
        return waited > settings.segment_ms

    def append(
        self, data: bytes, base_offset: int, last_offset: int, timestamp: int, epoch: int,
        interval: int, now_ms: int,
    ) -> StoredBatch:  # fmt: skip
        """Append a batch; ``interval`` is ``index.interval.bytes``."""
        indexed = self._since_index > interval
        self.max_timestamp = max(self.max_timestamp, timestamp)
        if indexed:
            self._since_index = 0
            self._offset_entries += 1
            if self.max_timestamp > self._indexed_timestamp:
                self._indexed_timestamp = self.max_timestamp
                self._time_entries += 1
        self._since_index += len(data)
        batch = StoredBatch(base_offset, last_offset, self.size, timestamp, epoch, indexed, data)
        self.batches.append(batch)
        self._last_offsets.append(last_offset)
        if self.first_timestamp is None and timestamp >= 0:
            self.first_timestamp = timestamp
        self.size += len(data)
        self.modified_ms = now_ms
        return batch

    def index_of(self, offset: int) -> int:
        """Return the index of the batch that contains an offset, or of the next one."""
        return bisect_left(self._last_offsets, offset)

    def behind(self, number: int, end: int, room: int | None = None) -> int:
        """Return the index behind the batches that begin below an offset and within ``room``.

        ``room``: a number of bytes from the batch of index ``number`` on; None: any number.
        """
        batches = self.batches
        high = len(batches)
        if high and batches[-1].base_offset >= end:
            high = bisect_left(batches, end, number, key=lambda batch: batch.base_offset)
        if room is None:
            return high
        position = batches[number].position + room
        if batches[high - 1].position < position:
            return high
        return bisect_left(batches, position, number, high, key=lambda batch: batch.position)

    def size_between(self, offset: int, end: int) -> int:
        """Return the size of the batches from the one with an offset to those that reach ``end``.

        Batches that begin at ``end`` or later are left out.
        """
        first = self.index_of(offset)
        last = self.behind(first, end) - 1
        if last < first:
            return 0
        batches = self.batches
        return batches[last].position + len(batches[last].data) - batches[first].position

    def bound_behind(self, position: int) -> int | None:
        """Return the offset of the first entry of Kafka's offset index at or after a position.

        An entry has the last offset of its batch. None if there is no such entry.
        """
        low = bisect_left(self.batches, position, key=lambda batch: batch.position)
        for n in range(low, len(self.batches)):
            if self.batches[n].indexed:
                return self.batches[n].last_offset
        return None
