"""One broker's copy of a partition: the headers of its batches, and the bytes behind them.

The headers are in memory, 44 bytes for each batch; segments are read again where bytes count.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie._core.codec.reader import LogReader
from coterie.log.batch_headers import HEADER_DTYPE, NO_EPOCH, batch_headers
from coterie.log.folders import Segment, read_segment
from coterie.log.leader_epochs import EpochSpan, checkpoint_spans, spans_of
from coterie.log.mapped import intact

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEGMENTS_OPEN = 2  # of a copy: batches are read in the order of the log


class PartitionCopy:
    """A copy of a partition.

    Attributes
    ----------
    name : str
        The copy's path, as the caller gave it.
    segments : sequence of Segment
        In log order; none if the copy lacks the partition.
    headers : array of ``HEADER_DTYPE``
        Its batches in order of their offsets, without an unreadable end. ``segment`` is the number
        in ``segments``.
    spans : list of EpochSpan
        Which offsets were written under which epoch, by the batches and by the checkpoint.
    faults : int
        Batches at the end that cannot be read.
    """

    def __init__(self, name: str, segments: Sequence[Segment]) -> None:
        self.name = name
        self.segments = segments
        self.faults = 0
        self._data = functools.lru_cache(SEGMENTS_OPEN)(self._read)
        headers = [np.empty(0, HEADER_DTYPE)]
        for number in range(len(segments)):
            data = self._data(number)
            with intact(data):
                headers.append(batch_headers(data))
            headers[-1]["segment"] = number
        self.headers = self._readable(np.concatenate(headers))
        in_folder = bool(segments) and segments[0].partition is not None
        checkpoint = checkpoint_spans(self.folder, self.end_offset) if in_folder else []
        self.spans: list[EpochSpan] = [*spans_of(self.headers), *checkpoint]
        # Stable: of batches with one offset, the first of the log counts.
        order = np.argsort(self.headers["base_offset"], kind="stable")
        self.headers = self.headers[order]

    def _read(self, number: int) -> memoryview:
        return memoryview(read_segment(self.segments[number]))

    def _readable(self, headers: NDArray[Any]) -> NDArray[Any]:
        """Return the headers up to the last batch that can be read."""
        while len(headers) and self.batch(headers[-1]) is None:
            headers = headers[:-1]
            self.faults += 1
        return headers

    @property
    def folder(self) -> str:
        """The partition's folder, or the segment if it was named itself; "" if there is none."""
        if not self.segments:
            return ""
        path = self.segments[0].path
        return path if self.segments[0].partition is None else os.path.dirname(path) or "."

    @property
    def start_offset(self) -> int:
        """The offset at which the copy begins; compaction may have removed the first records."""
        named = self.segments[0].base_offset if self.segments else None
        if named is not None or not len(self.headers):
            return named or 0
        return int(self.headers["base_offset"][0])

    @property
    def end_offset(self) -> int:
        """The offset after the last one; an empty last segment has it as its name."""
        last = int(self.headers["last_offset"].max()) if len(self.headers) else -1
        return max(last + 1, *(segment.base_offset or 0 for segment in self.segments), 0)

    @property
    def records(self) -> int:
        """The number of records, by the headers."""
        return int(self.headers["records"].sum(dtype=np.int64))

    @property
    def last_epoch(self) -> int:
        """The highest leader epoch; -1 if there is none."""
        return max((span.epoch for span in self.spans), default=NO_EPOCH)

    def bytes_of(self, number: int) -> memoryview:
        """Return the bytes of a segment; read them inside ``intact``."""
        return self._data(number)

    def batch(self, header: Any) -> Any:
        """Return a batch with its records; None if it cannot be read."""
        data = self._data(int(header["segment"]))
        with intact(data):
            start = int(header["position"])
            return next(LogReader(data[start : start + int(header["size"])]), None)

    def joined(self, headers: NDArray[Any]) -> bytes:
        """Return the bytes of batches, one after the other."""
        parts = []
        for header in headers:
            data = self._data(int(header["segment"]))
            start = int(header["position"])
            with intact(data):
                parts.append(bytes(data[start : start + int(header["size"])]))
        return b"".join(parts)

    def pieces(self, headers: NDArray[Any], piece_bytes: int) -> Iterator[bytes]:
        """Yield the bytes of batches, about ``piece_bytes`` at a time."""
        for run in runs_of(headers, piece_bytes):
            yield self.joined(run)


def runs_of(headers: NDArray[Any], piece_bytes: int) -> Iterator[NDArray[Any]]:
    """Yield the headers in runs of about ``piece_bytes``."""
    if len(headers):
        numbers = np.cumsum(headers["size"].astype(np.int64)) // piece_bytes
        yield from np.split(headers, np.flatnonzero(np.diff(numbers)) + 1)
