"""One virtual clock for several coordinators: to advance one is to advance all."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from coterie.base.arguments import milliseconds, span
from coterie.errors import ArgumentError, CoterieError


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


class _Added(NamedTuple):
    """An object on a clock; see :meth:`SharedClock.add`."""

    clocked: Clocked
    advance: Callable[[int], None]
    check: Callable[[], None]
    moved: Callable[[], None]


class SharedClock:
    """A virtual time that several objects share.

    Timers fire by deadline. Those of one deadline fire in the order in which their objects were
    added, then in the order of arming.
    """

    def __init__(self) -> None:
        self.now_ms = 0
        self._added: list[_Added] = []
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
        if self._added and clocked.now_ms != self.now_ms:
            raise ArgumentError(
                f"now_ms must be that of the shared clock, {self.now_ms}, not {clocked.now_ms}"
            )
        self.now_ms = clocked.now_ms
        self._added.append(_Added(clocked, advance or clocked.advance, check, moved))

    def advance(self, ms: int) -> None:
        """Move all objects forward by a number of ms."""
        self.move(self.now_ms + span(ms))

    def move(self, now_ms: int) -> None:
        """Move all objects to a time, from deadline to deadline."""
        now_ms = milliseconds(now_ms, "now_ms")
        if self._moving:
            raise CoterieError("on_event must not move the clock, which is being moved")
        for each in self._added:
            each.check()
        self._moving = True
        try:
            while self._step(now_ms):
                pass
        finally:
            self._moving = False
            for each in self._added:
                each.moved()

    def _step(self, limit_ms: int) -> bool:
        """Go to the earliest deadline, or to the limit; return whether the limit lies beyond."""
        due = [each.clocked.next_deadline_ms() for each in self._added]
        next_ms = min((ms for ms in due if ms is not None), default=limit_ms)
        self.now_ms = min(max(next_ms, self.now_ms), limit_ms)
        for each, due_ms in zip(self._added, due, strict=True):
            own_ms = each.clocked.now_ms
            # Also if an interruption left timers that are due at the present time.
            if own_ms < self.now_ms or (due_ms is not None and due_ms <= self.now_ms):
                each.advance(max(self.now_ms, own_ms))
        return self.now_ms < limit_ms
