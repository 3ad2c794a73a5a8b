"""One virtual clock for several coordinators: to advance one is to advance all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from coterie.arguments import milliseconds, span
from coterie.errors import ArgumentError, CoterieError

__all__ = ["Clocked", "SharedClock", "run_until"]


class Clocked(Protocol):
    """An object on virtual time: a coordinator, a server, an older design."""

    @property
    def now_ms(self) -> int:
        """Its time, in ms."""

    def next_deadline_ms(self) -> int | None:
        """Return its next deadline, in ms; None: nothing is scheduled."""

    def advance(self, now_ms: int) -> None:
        """Handle what is due up to this time, in order."""


def run_until(clocked: Clocked, is_done: Callable[[], bool], limit_ms: int) -> None:
    """Advance from deadline to deadline until ``is_done`` is true, or to the limit."""
    while not is_done():
        deadline_ms = clocked.next_deadline_ms()
        if deadline_ms is None or deadline_ms > limit_ms:
            clocked.advance(max(limit_ms, clocked.now_ms))
            return
        clocked.advance(max(deadline_ms, clocked.now_ms))


class SharedClock:
    """A virtual time that several objects share.

    Timers fire by deadline. Those of one deadline fire in the order in which their objects were
    added, then in the order of arming.

    Attributes
    ----------
    now_ms : int
        The time of all objects between two moves, in ms.
    """

    def __init__(self) -> None:
        self.now_ms = 0
        self._clocked: list[Clocked] = []
        self._advance: list[Callable[[int], None]] = []
        self._checks: list[Callable[[], None]] = []
        self._moved: list[Callable[[], None]] = []
        self._moving = False

    def add(
        self,
        clocked: Clocked,
        *,
        advance: Callable[[int], None] | None = None,
        check: Callable[[], None] = lambda: None,
        moved: Callable[[], None] = lambda: None,
    ) -> None:
        """Put an object on this clock; it must have the clock's time.

        ``advance`` moves the object alone, if its own method moves the clock. ``check`` is called
        before a move and may raise. ``moved`` is called after a move, even a failed one.
        """
        if self._clocked and clocked.now_ms != self.now_ms:
            raise ArgumentError(
                f"now_ms must be that of the shared clock, {self.now_ms}, not {clocked.now_ms}"
            )
        self.now_ms = clocked.now_ms
        self._clocked.append(clocked)
        self._advance.append(advance or clocked.advance)
        self._checks.append(check)
        self._moved.append(moved)

    def advance(self, ms: int) -> None:
        """Move all objects forward by a number of ms."""
        self.move(self.now_ms + span(ms))

    def move(self, now_ms: int) -> None:
        """Move all objects to a time, from deadline to deadline."""
        now_ms = milliseconds(now_ms, "now_ms")
        if self._moving:
            raise CoterieError("on_event must not move the clock, which is being moved")
        for check in self._checks:
            check()
        self._moving = True
        try:
            while self._step(now_ms):
                pass
        finally:
            self._moving = False
            for moved in self._moved:
                moved()

    def _step(self, limit_ms: int) -> bool:
        """Go to the earliest deadline, or to the limit; return whether the limit lies beyond."""
        due = [clocked.next_deadline_ms() for clocked in self._clocked]
        next_ms = min((ms for ms in due if ms is not None), default=limit_ms)
        self.now_ms = min(max(next_ms, self.now_ms), limit_ms)
        for clocked, advance, due_ms in zip(self._clocked, self._advance, due, strict=True):
            # Also if an interruption left timers that are due at the present time.
            if clocked.now_ms < self.now_ms or (due_ms is not None and due_ms <= self.now_ms):
                advance(max(self.now_ms, clocked.now_ms))
        return self.now_ms < limit_ms
