"""The results of calls to a coordinator: events, answers to pending requests, open appends."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from coterie._core.coordinator.coordinator import Coordinator
from coterie._core.coordinator.runtime import AppendOp
from coterie.coordinator.inflight import Appends
from coterie.coordinator.pending import OnComplete, Pending, PendingAppend
from coterie.errors import CoterieError
from coterie.events import Event, Response, Unanswered

_ANSWERS = (Response, Unanswered)


class Outbox:
    """Events in order, requests without an answer, and unfinished appends."""

    def __init__(self, on_event: Callable[[Event], None] | None, on_complete: OnComplete) -> None:
        self.events: list[Event] = []
        self.waiting: dict[int, Pending[Any]] = {}
        self.appends = Appends()
        self._on_event, self._on_complete = on_event, on_complete
        self._fresh: deque[Event] = deque()  # events not yet settled or reported
        self._begun: deque[AppendOp] = deque()
        self._calling = False  # a function of the caller runs; it must not call back

    def check(self) -> None:
        """Refuse a call from a function that the coordinator is calling."""
        if self._calling:
            raise CoterieError(
                "on_event must not call back into the coordinator, nor member_ids or log_sink"
            )

    @contextmanager
    def calling(self) -> Iterator[None]:
        outer, self._calling = self._calling, True
        try:
            yield
        finally:
            self._calling = outer

    def take(self) -> list[Event]:
        events, self.events = self.events, []
        return events

    def fill(self, core: Coordinator) -> None:
        """Turn the core's rows into events, settle pending requests, and call ``on_event``.

        After an interruption the next call continues at the same place: nothing is lost.
        """
        core.take_appends(self._begun)
        while self._begun:
            self.appends._put(PendingAppend(self._on_complete, self._begun[0]))
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

    def raise_failure(self, core: Coordinator) -> None:
        """Raise the failure of the caller's log as a CoterieError; an interruption unchanged."""
        failure = core.take_failure()
        if isinstance(failure, Exception):
            raise CoterieError(f"log_sink raised {failure!r:.120}; the append failed") from failure
        if failure is not None:
            raise failure
