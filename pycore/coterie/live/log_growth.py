"""What a partition's files have grown by, and whether what was read of them has changed.

A segment is read up to the end of its last whole batch, as the header of each batch gives its size;
the rest waits. Once another segment follows, the rest is read, too: it stays as it is. Compaction,
retention and truncation remove or rewrite what was read. That is noticed by the list of files, by
their sizes, and by the bytes at both ends of what was read. A step costs a look at each file, and
the new bytes, which are looked at piece by piece: what was read of a mapping leaves the memory of
the process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from coterie.errors import LogError
from coterie.log.batch_headers import (
    batch_headers,
    check_of_ends,
    may_become_batch,
    whole_batches_end,
)
from coterie.log.folders import Segment, read_segment, unreadable
from coterie.log.mapped import forget, intact

PROVEN_BYTES = 256  # at both ends of what was read
GROWTH_PIECE_BYTES = 1 << 20  # read at once; their columns take several times that
Identity = tuple[int, int, int]


@dataclass(frozen=True)
class Growth:
    """New whole batches of a segment, and where they begin and end.

    ``held``: the segment's bytes; None: of the file with a number, which is open only while it is
    read, because a partition may have thousands of segments.
    """

    segment: Segment
    held: memoryview | None
    start: int
    end: int
    file_number: int = 0

    @property
    def data(self) -> memoryview:
        """The segment's bytes; raises LogError if another file has taken its place."""
        if self.held is not None:
            return self.held
        data = bytes_of(self.segment)
        if identity_of(self.segment)[0] != self.file_number:
            raise LogError(f"{self.segment.path}: was replaced while it was read; read it again")
        return data


@dataclass
class ReadSegment:
    """What was read of a segment: up to ``end``, and a checksum of the bytes that prove it."""

    path: str
    end: int
    proof: int
    identity: Identity
    waiting: int  # bytes behind ``end``
    is_damaged: bool  # these bytes are the beginning of no batch


class PartitionFiles:
    """The files of a partition, as far as they were read."""

    def __init__(self) -> None:
        self.read: list[ReadSegment] = []

    @property
    def waiting_bytes(self) -> int:
        """Bytes at the end that are no whole batch yet."""
        return self.read[-1].waiting if self.read else 0

    @property
    def damage(self) -> str | None:
        """Where bytes at the end are no batch, and never will be; None: nowhere."""
        last = self.read[-1] if self.read else None
        if last is None or not last.is_damaged:
            return None
        return (
            f"{last.path}: byte {last.end}: {last.waiting:,} bytes that are no batch; they are "
            "left out once the next segment begins"
        )

    def grown(self, segments: Sequence[Segment]) -> list[Growth] | None:
        """Return what is new, in log order; None: the log was truncated or rewritten.

        Raises
        ------
        LogError
            A file cannot be read.
        """
        if len(segments) < len(self.read):
            return None
        growths: list[Growth] = []
        for number, segment in enumerate(segments):
            is_last = number == len(segments) - 1
            known = self.read[number] if number < len(self.read) else None
            identity = identity_of(segment)
            if known is not None:
                if known.path != segment.path:
                    return None
                if known.identity == identity and (is_last or not known.waiting):
                    continue
            data = bytes_of(segment)
            with intact(data):
                start = 0 if known is None else known.end
                if known is not None and (
                    len(data) < start
                    or check_of_ends(data[:start], PROVEN_BYTES) != known.proof
                    or (segment.compression is not None and len(data) > start)
                    or (len(data) > start and number < len(self.read) - 1)
                ):
                    return None
                end = len(data)
                if is_last:
                    *_, end = start, *ends_of_pieces(data, start, end)
                proof = check_of_ends(data[:end], PROVEN_BYTES)
                is_damaged = not may_become_batch(data[end:])
            waiting = len(data) - end
            read = ReadSegment(segment.path, end, proof, identity, waiting, is_damaged)
            self.read[number : number + 1] = [read]
            if end > start or known is None:
                held = None if segment.compression is None else data
                growths.append(Growth(segment, held, start, end, identity[0]))
        return growths


def ends_of_pieces(data: memoryview, start: int, end: int) -> Iterator[int]:
    """Yield where pieces of whole batches end, from a batch boundary on.

    A piece has about ``GROWTH_PIECE_BYTES``, or one batch. Bytes at the end that are no batch are
    in none.
    """
    size = GROWTH_PIECE_BYTES
    while start < end:
        stop = min(start + size, end)
        found = whole_batches_end(data[:stop], start)
        forget(data, start, stop)
        if found > start:
            yield found
            start, size = found, GROWTH_PIECE_BYTES
        elif stop == end:
            return
        else:
            size *= 2


def pieces_of(growth: Growth) -> Iterator[Growth]:
    """Yield a growth piece by piece; the last one also has the bytes that are no batch."""
    growth = replace(growth, held=growth.data)
    with intact(growth.data):
        ends = [*ends_of_pieces(growth.data, growth.start, growth.end)][:-1]
    for start, end in pairwise([growth.start, *ends, growth.end]):
        yield replace(growth, start=start, end=end)
        forget(growth.data, start, end)


def up_to(growths: Sequence[Growth], next_offset: int) -> tuple[list[Growth], list[Growth]]:
    """Divide what a log has grown by: batches before a log offset, and those from it on."""
    before: list[Growth] = []
    for number, growth in enumerate(growths):
        data = growth.data
        with intact(data):
            headers = batch_headers(data[growth.start : growth.end])
        after = np.flatnonzero(headers["base_offset"] >= next_offset)
        if len(after):
            at = growth.start + int(headers["position"][after[0]])
            first = [replace(growth, end=at)] if at > growth.start else []
            return before + first, [replace(growth, start=at), *growths[number + 1 :]]
        before.append(growth)
    return before, []


def bytes_of(segment: Segment) -> memoryview:
    """Return a segment's bytes, mapped unless it is compressed."""
    return memoryview(read_segment(segment, map_from_bytes=1))


def identity_of(segment: Segment) -> Identity:
    """Return what changes with a file: its number, its listed size, and when it was written."""
    try:
        status = os.stat(segment.path)
    except OSError as error:
        raise unreadable(segment.path, error) from error
    return status.st_ino, segment.size, status.st_mtime_ns
