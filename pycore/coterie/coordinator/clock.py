"""One clock for several coordinators: whoever is advanced, all of them are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.arguments import milliseconds, whole
from coterie.errors import ArgumentError, CoterieError

if TYPE_CHECKING:
    from coterie.coordinator.group_coordinator import GroupCoordinator

__all__ = ["SharedClock"]


class SharedClock:
    """The virtual time of coordinators that live together.

    Timers of all of them fire by deadline; of one deadline, those of the coordinator that was
    made first come first, each coordinator's own in order of arming.

    Attributes
    ----------
    now_ms : int
        The time that every coordinator reads between two moves, in ms.
    """

    def __init__(self) -> None:
        self.now_ms = 0
        self._coordinators: list[GroupCoordinator] = []
        self._moving = False

    def add(self, coordinator: GroupCoordinator) -> None:
        """Let a coordinator live by this clock, whose time it must have."""
        if self._coordinators and coordinator.now_ms != self.now_ms:
            raise ArgumentError(
                f"now_ms must be that of the shared clock, {self.now_ms}, not {coordinator.now_ms}"
            )
        self.now_ms = coordinator.now_ms
        self._coordinators.append(coordinator)
        coordinator._clock = self

    def advance(self, ms: int) -> None:
        """Move every coordinator on by so many ms."""
        if (ms := whole(ms, "ms")) < 0:
            raise ArgumentError(f"time runs forward only: ms must not be negative, not {ms}")
        self.move(self.now_ms + ms)

    def move(self, now_ms: int) -> None:
        """Move every coordinator to a time, from deadline to deadline."""
        now_ms = milliseconds(now_ms, "now_ms")
        if self._moving:
            raise CoterieError("on_event must not move the clock, which is being moved")
        for coordinator in self._coordinators:
            coordinator._enter()
        self._moving = True
        try:
            while self._step(now_ms):
                pass
        finally:
            self._moving = False
            for coordinator in self._coordinators:
                coordinator._record("advance")

    def _step(self, limit_ms: int) -> bool:
        """Go to the next deadline of all, or to the limit; whether the limit lies beyond."""
        due = [coordinator.next_deadline_ms() for coordinator in self._coordinators]
        next_ms = min((ms for ms in due if ms is not None), default=limit_ms)
        self.now_ms = min(max(next_ms, self.now_ms), limit_ms)
        for coordinator, due_ms in zip(self._coordinators, due, strict=True):
            # What an interruption left due at its present time, too.
            if coordinator.now_ms < self.now_ms or (due_ms is not None and due_ms <= self.now_ms):
                coordinator._advance(max(self.now_ms, coordinator.now_ms))
        return self.now_ms < limit_ms
