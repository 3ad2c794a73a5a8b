"""The compacted offsets topic, which all brokers share."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.values import Batch


class OffsetsLog:
    """The last record of each key, in the order of writing.

    A rebalance writes all of a group, so memory for every record would grow with rebalances.
    """

    def __init__(self) -> None:
        self._end = 0
        self._records: dict[bytes | None, tuple[int, bytes | None]] = {}

    def __len__(self) -> int:
        """Return the number of retained records."""
        return len(self._records)

    def append(self, batch: Batch) -> int:
        """Write records; return the offset of the first."""
        first = self._end
        for key, value in batch.records:
            self._records.pop(key, None)
            if value is not None:
                self._records[key] = self._end, value
            self._end += 1
        return first

    def read(self) -> Iterator[Batch]:
        """Yield the retained records, each in a batch of its own."""
        for key, (offset, value) in self._records.items():
            yield Batch(offset, records=((key, value),))
