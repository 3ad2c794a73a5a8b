"""The offsets topic as brokers share it: what one wrote, the next one loads. It is compacted."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.values import Batch


class OffsetsLog:
    """The last record of each key, in the order in which they were written.

    A group of a thousand consumers is written whole at each rebalance: only the last one counts.
    """

    def __init__(self) -> None:
        self._end = 0
        self._kept: dict[bytes | None, tuple[int, bytes | None]] = {}

    def __len__(self) -> int:
        """Return how many records it keeps."""
        return len(self._kept)

    def append(self, batch: Batch) -> int:
        """Write records; return the offset of the first."""
        first = self._end
        for key, value in batch.records:
            self._kept.pop(key, None)
            if value is not None:
                self._kept[key] = self._end, value
            self._end += 1
        return first

    def read(self) -> Iterator[Batch]:
        """Yield what is kept, a batch for each record."""
        for key, (offset, value) in self._kept.items():
            yield Batch(offset, records=((key, value),))
