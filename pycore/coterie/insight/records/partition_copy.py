"""One broker's copy of a partition: what its segments hold, and the batches behind them.

Each segment is read once for a summary, and again where its batches count: only the headers of a
few segments are in memory.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coterie._core.codec.batch import LogReader
from coterie.insight.records.threads import Cancellation
from coterie.log.batch_headers import HEADER_DTYPE, NO_EPOCH, batch_headers
from coterie.log.folders import Segment, read_segment
from coterie.log.leader_epochs import EpochSpan, checkpoint_spans, spans_of
from coterie.log.mapped import intact
from coterie.log.topic_id import topic_id_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEGMENTS_OPEN = 2  # of a copy: batches are read in the order of the log


class SegmentSummary(NamedTuple):
    """The readable batches of a segment that has any; ``end`` is the offset after the last one."""

    first: int
    end: int
    batches: int
    records: int


class PartitionCopy:
    """A copy of a partition.

    Attributes
    ----------
    name : str
        The copy's path, as the caller gave it.
    segments : sequence of Segment
        In log order; none if the copy lacks the partition.
    summaries : dict of SegmentSummary
        By the number of the segment, without a batch at the end of the log that cannot be read.
    spans : list of EpochSpan
        Which offsets were written under which epoch, by the batches and by the checkpoint, in no
        order.
    topic_id : str or None
        The id of the topic, by the broker's ``partition.metadata``; None: it is not known.
    faults : int
        Batches at the end that cannot be read, and stretches of bytes that are no whole batch.
    """

    def __init__(
        self, name: str, segments: Sequence[Segment], reading: Cancellation | None = None
    ) -> None:
        self.name = name
        self._reading = reading or Cancellation()
        self.segments = segments
        self.topic_id = topic_id_of(segments)
        self.faults = 0
        self.summaries: dict[int, SegmentSummary] = {}
        self.spans: list[EpochSpan] = []
        self._cached = functools.lru_cache(SEGMENTS_OPEN)(self._read)
        for number in reversed(range(len(segments))):
            self._summarize(number)
        if segments and segments[0].partition is not None:
            self.spans += checkpoint_spans(self.folder, self.end_offset)

    def _read(self, number: int) -> memoryview:
        return memoryview(read_segment(self.segments[number]))

    def bytes_of(self, number: int) -> memoryview:
        """Return the bytes of a segment, to be read inside ``intact``.

        Raises
        ------
        CancelledError
            The comparison was cancelled; this ends its thread.
        """
        if self._reading.cancelled:
            raise CancelledError
        return self._cached(number)

    def _summarize(self, number: int) -> None:
        """Add a segment, the last one first."""
        data = self.bytes_of(number)
        with intact(data):
            headers = batch_headers(data)
        ends = headers["position"] + headers["size"]
        self.faults += int((np.append(0, ends) != np.append(headers["position"], len(data))).sum())
        while not self.summaries and len(headers) and self._is_unreadable(number, headers[-1]):
            headers = headers[:-1]
            self.faults += 1
        if len(headers):
            self.summaries[number] = SegmentSummary(
                int(headers["base_offset"].min()),
                int(headers["last_offset"].max()) + 1,
                len(headers),
                int(headers["records"].sum(dtype=np.int64)),
            )
            self.spans += spans_of(headers)

    def _is_unreadable(self, number: int, header: Any) -> bool:
        data, start = self.bytes_of(number), int(header["position"])
        with intact(data):
            return next(LogReader(data[start : start + int(header["size"])]), None) is None

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
        if named is not None:
            return named
        return min((summary.first for summary in self.summaries.values()), default=0)

    @property
    def end_offset(self) -> int:
        """The offset after the last one; an empty last segment has it as its name."""
        ends = [summary.end for summary in self.summaries.values()]
        return max([0, *ends, *(segment.base_offset or 0 for segment in self.segments)])

    @property
    def records(self) -> int:
        return sum(summary.records for summary in self.summaries.values())

    @property
    def last_epoch(self) -> int:
        """The highest leader epoch; -1 if there is none."""
        return max((span.epoch for span in self.spans), default=NO_EPOCH)

    def headers(self, numbers: Iterable[int]) -> NDArray[Any]:
        """Return the headers of segments, sorted by base offset."""
        found = [np.empty(0, HEADER_DTYPE)]
        for number in numbers:
            if number in self.summaries:
                data = self.bytes_of(number)
                with intact(data):
                    found.append(batch_headers(data)[: self.summaries[number].batches])
                found[-1]["segment"] = number
        headers = np.concatenate(found)
        # Stable: of batches with one offset, the first of the log counts.
        return headers[np.argsort(headers["base_offset"], kind="stable")]

    def joined(self, headers: NDArray[Any]) -> bytes:
        """Return the bytes of batches, one after the other."""
        parts = []
        for header in headers:
            data, start = self.bytes_of(int(header["segment"])), int(header["position"])
            with intact(data):
                parts.append(bytes(data[start : start + int(header["size"])]))
        return b"".join(parts)

    def pieces_from(self, begin: int, piece_bytes: int) -> Iterator[NDArray[Any]]:
        """Yield the headers of batches that reach ``begin``, about ``piece_bytes`` of them."""
        for number, summary in sorted(self.summaries.items()):
            if summary.end > begin:
                headers = self.headers([number])
                headers = headers[headers["last_offset"] >= begin]
                numbers = np.cumsum(headers["size"].astype(np.int64)) // piece_bytes
                yield from np.split(headers, np.flatnonzero(np.diff(numbers)) + 1)
