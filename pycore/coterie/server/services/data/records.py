"""Adjacent batches of a log, as a response sends them: references, not copies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie.server.services.data.segment import StoredBatch

__all__ = ["Buffer", "RecordRange", "records_of"]

Buffer = bytes | memoryview
SMALL = 1 << 14  # fewer bytes are copied: that costs less than a buffer for each batch


class RecordRange:
    """The bytes of adjacent batches; the last batch may be cut.

    The range keeps the batches alive after retention or a deletion has removed them from the log.

    Attributes
    ----------
    size : int
        The number of bytes.
    """

    __slots__ = ("_batches", "size")

    def __init__(self, batches: Sequence[StoredBatch], size: int) -> None:
        self._batches, self.size = batches, size

    def __len__(self) -> int:
        """Return the number of bytes."""
        return self.size

    def __iter__(self) -> Iterator[Buffer]:
        """Yield the bytes of each batch; only a cut batch is a memoryview."""
        left = self.size
        for batch in self._batches:
            data = batch.data
            yield data if len(data) <= left else memoryview(data)[:left]
            left -= len(data)

    def __bytes__(self) -> bytes:
        """Return a copy of all bytes."""
        return b"".join(self)


def records_of(batches: Sequence[StoredBatch], size: int) -> bytes | RecordRange:
    """Return the first ``size`` bytes of batches; many bytes are referenced, few are copied."""
    records = RecordRange(batches, size)
    return records if size > SMALL else bytes(records)
