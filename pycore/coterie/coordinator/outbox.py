"""What a call to a coordinator leaves: events, answers for who waits, appends that come later."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from coterie._core.coordinator.coordinator import Coordinator
from coterie._core.coordinator.runtime import AppendOp
from coterie.coordinator.inflight import Appends
from coterie.coordinator.pending import ComeBack, Pending, PendingAppend
from coterie.errors import CoterieError
from coterie.events import Response, Unanswered

__all__ = ["Outbox"]

_ANSWERS = (Response, Unanswered)


class Outbox:
    """Events in order, whoever waits for an answer, and appends that have not come back.

    Attributes
    ----------
    events : list
        What happened since they were last taken.
    waiting : dict
        Request id -> :class:`Pending` that has no answer yet.
    appends : Appends
        Those that have not come back, oldest first.
    """

    def __init__(self, on_event: Callable[[Any], None] | None, come_back: ComeBack) -> None:
        self.events: list[Any] = []
        self.waiting: dict[int, Pending[Any]] = {}
        self.appends = Appends()
        self._on_event, self._come_back = on_event, come_back
        self._fresh: deque[Any] = deque()  # events that are not settled, or not told, yet
        self._begun: deque[AppendOp] = deque()
        self._calling = False  # out to the caller, who must not call back

    def check(self) -> None:
        """Refuse a call out of a function that the coordinator calls."""
        if self._calling:
            raise CoterieError(
                "on_event must not call back into the coordinator, nor member_ids or log_sink"
            )

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Call out to the caller meanwhile."""
        outer, self._calling = self._calling, True
        try:
            yield
        finally:
            self._calling = outer

    def take(self) -> list[Any]:
        """Return the events, and begin a fresh list."""
        taken, self.events = self.events, []
        return taken

    def fill(self, core: Coordinator) -> None:
        """Turn the core's rows into events, settle who waits, and report.

        Interrupted anywhere, it goes on from there the next time: nothing is lost.
        """
        core.take_appends(self._begun)
        while self._begun:
            self.appends._put(PendingAppend(self._come_back, self._begun[0]))
            self._begun.popleft()
        core.take_events(self.events, self._fresh)
        for event in self._fresh:
            if isinstance(event, _ANSWERS) and event.id in self.waiting:
                self.waiting[event.id]._settle(event)
                del self.waiting[event.id]
        if self._on_event is None:
            self._fresh.clear()
        else:
            with self.calling():
                while self._fresh:
                    self._on_event(self._fresh.popleft())

    def tell_failure(self, core: Coordinator) -> None:
        """Raise what the caller's log has raised meanwhile: CoterieError, or an interruption."""
        failure = core.take_failure()
        if isinstance(failure, Exception):
            raise CoterieError(f"log_sink raised {failure!r:.120}; the append failed") from failure
        if failure is not None:
            raise failure
