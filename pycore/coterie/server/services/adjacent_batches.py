"""Adjacent batches of a log, as a response sends them: references, not copies."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie.server.services.segment import StoredBatch

_DATA, _POSITION = attrgetter("data"), attrgetter("position")
Buffer = bytes | memoryview
SMALL = 1 << 14  # fewer bytes are copied: that costs less than a buffer for each batch
_SMALL_BATCH = 1 << 10  # on average: such batches are copied, for the same reason
_JOINED = 1 << 18  # bytes of small batches that are copied for one slice


class RecordRange:
    """The bytes of adjacent batches; the last batch may be cut.

    The range keeps the batches alive after retention or a deletion has removed them from the log.
    """

    __slots__ = ("_batches", "_last", "size")

    def __init__(self, batches: Sequence[StoredBatch], size: int) -> None:
        self._batches, self.size = batches, size
        last = batches[-1]
        end = batches[0].position + size - last.position
        self._last: Buffer = last.data if end >= len(last.data) else memoryview(last.data)[:end]

    def __len__(self) -> int:
        """Return the number of bytes."""
        return self.size

    def __iter__(self) -> Iterator[Buffer]:
        """Iterate over the bytes of each batch; only a cut batch is a memoryview."""
        whole = islice(self._batches, len(self._batches) - 1)
        return chain(map(_DATA, whole), (self._last,))

    def buffers(self, start: int, most_bytes: int, most: int) -> list[Buffer]:
        """Return the bytes from ``start`` on, as at most so many bytes and so many buffers.

        Small batches are joined. Of the others, only one that is not returned whole becomes a
        memoryview.
        """
        batches = self._batches
        are_small = self.size < _SMALL_BATCH * len(batches)
        if are_small:
            most_bytes, most = min(most_bytes, _JOINED), len(batches)
        begin = batches[0].position + start
        end = begin + min(most_bytes, self.size - start)
        first = bisect_right(batches, begin, key=_POSITION) - 1
        behind = min(bisect_left(batches, end, first, key=_POSITION), first + most)
        buffers: list[Buffer] = list(map(_DATA, batches[first:behind]))
        room = end - batches[behind - 1].position
        if room < len(buffers[-1]):
            buffers[-1] = memoryview(buffers[-1])[:room]
        sent = begin - batches[first].position
        if sent:
            buffers[0] = memoryview(buffers[0])[sent:]
        return [b"".join(buffers)] if are_small else buffers

    def __bytes__(self) -> bytes:
        """Return a copy of all bytes."""
        return b"".join(self)


def records_of(batches: Sequence[StoredBatch], size: int) -> bytes | RecordRange:
    """Return the first ``size`` bytes of batches; many bytes are referenced, few are copied."""
    records = RecordRange(batches, size)
    return records if size > SMALL else bytes(records)
