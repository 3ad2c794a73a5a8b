"""Large responses of a connection that are not sent yet, and the turns in which they are written.

A transport gets one slice, and the next one when the peer has read that. The bytes behind it stay
references to stored batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from coterie.server.api.call import Part
from coterie.server.services.data.records import Buffer, RecordRange
from coterie.server.unsent import Unsent

__all__ = ["SLICE_BUFFERS", "SLICE_BYTES", "TURN_BYTES", "Backlog", "Turns", "Writer"]

SLICE_BYTES = 1 << 19  # above the high-water mark of a transport, which then writes at once
SLICE_BUFFERS = 256  # of small batches; the system takes 1024 with one call
TURN_BYTES = 1 << 20  # written by all connections in one iteration of the loop


class Backlog:
    """The parts of one connection's responses that its transport has not got yet.

    Attributes
    ----------
    size : int
        The number of bytes.
    """

    __slots__ = (
        "_batches", "_copied", "_is_stored", "_parts", "_rest", "_taken_copied", "_unsent", "size",
    )  # fmt: skip

    def __init__(self, unsent: Unsent) -> None:
        self._unsent = unsent
        self._parts: deque[Part] = deque()
        self._batches: Iterator[Buffer] = iter(())  # of the range that is being sent
        self._rest: Buffer = b""  # of the buffer that did not fit the last slice
        self._is_stored = False
        self._copied = 0  # of the encoded part that is being sent: it is freed as a whole
        self._taken_copied = 0  # of encoded parts that the transport may still have
        self.size = 0

    def add(self, parts: Iterable[Part]) -> None:
        """Append parts of a response."""
        stored = copied = 0
        for part in parts:
            self._parts.append(part)
            if type(part) is RecordRange:
                stored += part.size
            else:
                copied += len(part)
        self.size += stored + copied
        self._unsent.add(stored, copied)

    def take(self) -> list[Buffer]:
        """Remove and return the next slice; buffers are never copied."""
        taken: list[Buffer] = []
        room, stored = SLICE_BYTES, 0
        rest, batches, is_stored = self._rest, self._batches, self._is_stored
        while room and len(taken) < SLICE_BUFFERS:
            buffer = rest or next(batches, b"")
            if not buffer:
                self._end_part()
                if not self._parts:
                    break
                part = self._parts.popleft()
                is_stored = isinstance(part, RecordRange)
                if isinstance(part, RecordRange):
                    batches = self._batches = iter(part)
                else:
                    rest, self._copied = part, len(part)
                continue
            rest = b""
            size = len(buffer)
            if size > room:
                view = memoryview(buffer)
                buffer, rest, size = view[:room], view[room:], room
            taken.append(buffer)
            room -= size
            if is_stored:
                stored += size
        self._rest, self._is_stored = rest, is_stored
        self.size -= SLICE_BYTES - room
        if not self.size:
            self._end_part()
        self._unsent.subtract(stored, 0)
        return taken

    def _end_part(self) -> None:
        self._taken_copied += self._copied
        self._copied = 0

    def settle(self) -> None:
        """Count encoded parts no more that were taken: the transport has sent them."""
        if self._taken_copied:
            copied, self._taken_copied = self._taken_copied, 0
            self._unsent.subtract(0, copied)

    def clear(self) -> None:
        """Drop all parts; the transport has ended."""
        parts, self._parts = self._parts, deque()
        copied = self._copied + sum(len(p) for p in parts if type(p) is not RecordRange)
        rest = 0 if self._is_stored else len(self._rest)
        encoded = copied - self._copied + rest
        stored = self.size - encoded
        self._batches, self._rest = iter(()), b""
        copied += self._taken_copied
        self.size = self._copied = self._taken_copied = 0
        self._unsent.subtract(stored, copied)


class Writer(Protocol):
    """A connection with a backlog."""

    def write_slice(self) -> int:
        """Write a slice; return its size, 0 if the connection has to wait or has no more."""


class Turns:
    """Lets connections write their slices in turn, a bounded number of bytes in each iteration.

    Parameters
    ----------
    call_soon
        Calls a function in the next iteration of the loop.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._writers: deque[Writer] = deque()
        self._queued: set[Writer] = set()
        self._scheduled = False

    def add(self, writer: Writer) -> None:
        """Let a connection write from the next iteration on, until it has to wait."""
        if writer not in self._queued:
            self._queued.add(writer)
            self._writers.append(writer)
            self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self._write)

    def _write(self) -> None:
        self._scheduled = False
        left = TURN_BYTES
        for _ in range(len(self._writers)):
            if left <= 0:
                break
            writer = self._writers.popleft()
            self._queued.discard(writer)
            size = writer.write_slice()
            if size:
                left -= size
                self.add(writer)
        if self._writers:
            self._schedule()
