"""Timers: functions that are called at their time. Nothing here reads a clock.

A server has two sets of them. One follows the server's clock (groups, transactions, retention),
which may be virtual. The other always follows the wall clock; it is for waits.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count

_FEW = 64  # so many cancelled timers are not worth a sweep


class Timer:
    """A function that is called at its time, unless it is cancelled before."""

    __slots__ = ("_timers", "function")

    def __init__(self, timers: Timers, function: Callable[[], None]) -> None:
        self._timers = timers
        self.function: Callable[[], None] | None = function

    def cancel(self) -> None:
        """Cancel it; nothing happens if it was called or cancelled before."""
        if self.function is not None:
            self.function = None
            self._timers._cancelled += 1
            self._timers._sweep()


class Timers:
    """Functions by deadline, then in the order in which they were armed.

    Attributes
    ----------
    now_ms : int
        The time, in ms; :meth:`advance` moves it.
    on_armed
        Called when a timer becomes the earliest one, so that the time can be moved sooner.
    """

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms
        self.on_armed: Callable[[], None] | None = None
        self._heap: list[tuple[int, int, Timer]] = []
        self._order = count()
        self._cancelled = 0

    def call_at(self, at_ms: int, function: Callable[[], None]) -> Timer:
        """Call the function at this time; if the time has passed, at the next move."""
        timer = Timer(self, function)
        heappush(self._heap, (at_ms, next(self._order), timer))
        if self._heap[0][2] is timer and self.on_armed is not None:
            self.on_armed()
        return timer

    def call_later(self, ms: int, function: Callable[[], None]) -> Timer:
        """Call the function ``ms`` from now."""
        return self.call_at(self.now_ms + ms, function)

    def next_deadline_ms(self) -> int | None:
        """Return when the next function is due; None: there is none."""
        while self._heap and self._heap[0][2].function is None:
            heappop(self._heap)
            self._cancelled -= 1
        return self._heap[0][0] if self._heap else None

    def advance(self, now_ms: int) -> None:
        """Move the time forward and call the due functions, in order, each at its own time."""
        while (due_ms := self.next_deadline_ms()) is not None and due_ms <= now_ms:
            timer = heappop(self._heap)[2]
            self.now_ms = max(self.now_ms, due_ms)
            function, timer.function = timer.function, None
            if function is not None:
                function()
        self.now_ms = max(self.now_ms, now_ms)

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def _sweep(self) -> None:
        if self._cancelled > max(_FEW, len(self._heap) // 2):
            armed = [entry for entry in self._heap if entry[2].function is not None]
            heapify(armed)
            self._heap, self._cancelled = armed, 0
