"""The compacted offsets topic, which all brokers share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from coterie.values import Batch

_COMMIT = b"\x00\x00\x00\x01"  # the key of a marker: version 0, type 1


class OffsetsLog:
    """The last record of each key, in the order of writing, and the batches of open transactions.

    A rebalance writes all of a group, so memory for every record would grow with rebalances.
    """

    def __init__(self) -> None:
        self._end = 0
        self._records: dict[bytes | None, tuple[int, bytes | None]] = {}
        self._open: dict[int, list[Batch]] = {}  # by producer id

    def __len__(self) -> int:
        """Return the number of retained records."""
        return len(self._records)

    def append(self, batch: Batch) -> int:
        """Write records; return the offset of the first."""
        first = self._end
        self._end += len(batch.records)
        if batch.control:
            written = self._open.pop(batch.producer_id, [])
            if batch.records[0][0] == _COMMIT:
                for one in written:
                    self._retain(one, one.base_offset)
        elif batch.transactional:
            written = self._open.setdefault(batch.producer_id, [])
            written.append(replace(batch, base_offset=first))
        else:
            self._retain(batch, first)
        return first

    def _retain(self, batch: Batch, first: int) -> None:
        for offset, (key, value) in enumerate(batch.records, first):
            if offset < self._records.get(key, (0,))[0]:
                continue  # a commit outside of the transaction came after it
            self._records.pop(key, None)
            if value is not None:
                self._records[key] = offset, value

    def read(self) -> Iterator[Batch]:
        """Yield the retained records, each in a batch of its own, and open transactions."""
        batches = [
            Batch(offset, records=((key, value),)) for key, (offset, value) in self._records.items()
        ]
        for written in self._open.values():
            batches += written
        yield from sorted(batches, key=lambda batch: batch.base_offset)
