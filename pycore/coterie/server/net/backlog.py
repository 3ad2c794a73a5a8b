"""Large responses of a connection that are not sent yet, and the turns in which they are written.

A thread or a transport gets one slice, and the next one when the peer has read that. The bytes
behind it stay references to stored batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from coterie.server.api.call import Part
from coterie.server.output_budget import Unsent
from coterie.server.services.adjacent_batches import Buffer, RecordRange

SLICE_BYTES = 1 << 20  # above the high-water mark of a transport, which then writes at once
SLICE_BUFFERS = 1024  # of small batches; the system takes so many with one call
TURN_BYTES = 1 << 21  # written by all connections in one iteration of the loop


class Backlog:
    """The parts of one connection's responses that its transport has not got yet."""

    __slots__ = ("_parts", "_start", "_taken_copied", "_unsent", "size")

    def __init__(self, unsent: Unsent) -> None:
        self._unsent = unsent
        self._parts: deque[Part] = deque()
        self._start = 0  # of the bytes of the first part that are not taken
        self._taken_copied = 0  # of encoded parts that the transport may still have
        self.size = 0

    def add(self, parts: Iterable[Part]) -> None:
        stored = copied = 0
        for part in parts:
            self._parts.append(part)
            if type(part) is RecordRange:
                stored += part.size
            else:
                copied += len(part)
        self.size += stored + copied
        self._unsent.add(stored, copied)

    def take(self, most_bytes: int) -> list[Buffer]:
        """Remove and return the next slice of at most so many bytes; buffers are never copied."""
        taken: list[Buffer] = []
        parts, room, stored = self._parts, most_bytes, 0
        while room and parts and len(taken) < SLICE_BUFFERS:
            part, start = parts[0], self._start
            if isinstance(part, RecordRange):
                buffers = part.buffers(start, room, SLICE_BUFFERS - len(taken))
                size = sum(map(len, buffers))
                taken += buffers
                stored += size
            else:
                size = min(room, len(part) - start)
                taken.append(memoryview(part)[start : start + size] if size < len(part) else part)
            room -= size
            self._start += size
            if self._start == len(part):
                parts.popleft()
                self._start = 0
                if not isinstance(part, RecordRange):  # it is freed as a whole
                    self._taken_copied += len(part)
        self.size -= most_bytes - room
        self._unsent.subtract(stored, 0)
        return taken

    def settle(self) -> None:
        """Count encoded parts no more that were taken: the transport has sent them."""
        if self._taken_copied:
            copied, self._taken_copied = self._taken_copied, 0
            self._unsent.subtract(0, copied)

    def clear(self) -> None:
        """Drop all parts; the transport has ended."""
        copied, stored = self._taken_copied, 0
        start = self._start
        for part in self._parts:
            if isinstance(part, RecordRange):
                stored += part.size - start
            else:
                copied += len(part)
            start = 0
        self._parts.clear()
        self.size = self._start = self._taken_copied = 0
        self._unsent.subtract(stored, copied)


class Writer(Protocol):
    def write_slice(self) -> int:
        """Write a slice; return its size, 0 if the connection has to wait or has no more."""


class Turns:
    """Lets connections write their slices in turn, a bounded number of bytes in each iteration."""

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
