"""What a coordinator hands out: answers and appends that may have to wait, a trace's output."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, SupportsIndex, TypeVar

from coterie._core.coordinator.effects import Effects
from coterie._core.coordinator.runtime import AppendOp
from coterie.arguments import called, function, within
from coterie.coordinator.fields import error_code
from coterie.errors import ArgumentError, NotAnswered, shown
from coterie.events import Response, Unanswered
from coterie.values import Error

__all__ = ["Appends", "Pending", "PendingAppend", "TraceOutput"]

T = TypeVar("T")
ComeBack = Callable[["PendingAppend", Error, "int | None"], None]  # with an error, or at an offset


class Pending(Generic[T]):
    """The answer to a request that may have to wait.

    Attributes
    ----------
    id : int
        The request's id, as in the events.
    status : str
        ``"waiting"``, ``"answered"``, ``"replaced"`` (by a later request of the same member) or
        ``"dropped"`` (the member is gone); the last two are never answered.
    answered_at : int or None
        The virtual time of the answer, in ms.
    """

    __slots__ = ("_response", "answered_at", "id", "op", "status")

    def __init__(self, request_id: int, op: str) -> None:
        self.id, self.op = request_id, op
        self.status = "waiting"
        self.answered_at: int | None = None
        self._response: T | None = None

    @property
    def done(self) -> bool:
        """Whether the request has been answered."""
        return self.status == "answered"

    @property
    def response(self) -> T:
        """The response; NotAnswered if there is none."""
        if self._response is None:
            raise NotAnswered(f"{self.op} (request {self.id}) is {self.status}")
        return self._response

    def _settle(self, event: Response | Unanswered) -> None:
        """Note what became of the request; the status last, by which others go."""
        if isinstance(event, Response):
            self._response, self.answered_at = event.response, event.at
            self.status = "answered"
        else:
            self.status = event.why

    def __repr__(self) -> str:
        return f"<Pending {self.op} {self.id}: {self._response or self.status}>"


class PendingAppend:
    """An append that has not finished.

    There are such with ``appends="deferred"``, and if a ``log_sink`` finishes an append later.
    """

    __slots__ = ("_come_back", "_op", "_taken")

    def __init__(self, come_back: ComeBack, op: AppendOp) -> None:
        if not isinstance(op, AppendOp):
            raise ArgumentError(f"an append is made by a coordinator, not of {shown(op)}")
        self._come_back, self._op = function(come_back, "come_back"), op
        self._taken = False  # out of the coordinator's deque by its caller

    @property
    def group_id(self) -> str:
        """The group whose records these are."""
        return self._op.group_id

    @property
    def records(self) -> tuple[tuple[bytes, bytes | None], ...]:
        """Key and value of each record; a value of None is a tombstone."""
        return self._op.records

    @property
    def producer_id(self) -> int:
        """The transaction's producer, or -1."""
        return self._op.producer_id

    @property
    def producer_epoch(self) -> int:
        """The producer's epoch, or -1."""
        return self._op.producer_epoch

    @property
    def transactional(self) -> bool:
        """Whether a marker decides these records."""
        return self._op.transactional

    @property
    def kind(self) -> str:
        """What was written: assignment, static_return, empty_generation, offset_commit, ..."""
        return self._op.kind

    @property
    def done(self) -> bool:
        """Whether it was completed."""
        return self._op.done

    @called
    def complete(self, error: Error = Error.NONE, *, base_offset: int | None = None) -> None:
        """Finish the append, with a log-level error or at an offset (default: the end of the log).

        Appends may be finished in any order, each once. What depends on it happens within this
        call: the checks, the answers, the Append events.
        """
        if base_offset is not None:
            within(base_offset, "base_offset", 0, 2**62 - 1)
        self._come_back(self, error_code(error), base_offset)

    def __repr__(self) -> str:
        return f"<PendingAppend {self.kind} of {self.group_id!r}, {len(self.records)} records>"


class Appends(deque[PendingAppend]):
    """Those that have not come back, oldest first.

    One that came back from between others goes when the next one looks: so that each costs the
    same, in whatever order they come back.
    """

    _gone = 0  # how many of them are still here

    def drop(self, append: PendingAppend) -> None:
        """Take out one that came back; it may have been taken out by the caller."""
        if append._taken:
            return
        if super().__len__() and self._oldest() is append:
            take, end = super().popleft, self._oldest
        elif super().__len__() and self._newest() is append:
            take, end = super().pop, self._newest
        else:
            self._gone += 1
            return
        take()
        while self._gone and super().__len__() and end().done:
            take()
            self._gone -= 1

    def popleft(self) -> PendingAppend:
        """Take out the oldest; it may be completed later."""
        self._sweep()
        append = super().popleft()
        append._taken = True
        return append

    def pop(self) -> PendingAppend:  # type: ignore[override]
        """Take out the newest; it may be completed later."""
        self._sweep()
        append = super().pop()
        append._taken = True
        return append

    def _oldest(self) -> PendingAppend:
        return super().__getitem__(0)

    def _newest(self) -> PendingAppend:
        # No index below 0: C turns one into another by `len`, which is ours.
        return super().__getitem__(super().__len__() - 1)

    def _sweep(self) -> None:
        if self._gone:
            waiting = [append for append in super().__iter__() if not append.done]
            self.clear()
            self.extend(waiting)
            self._gone = 0

    def __len__(self) -> int:
        self._sweep()
        return super().__len__()

    def __iter__(self) -> Iterator[PendingAppend]:
        self._sweep()
        return super().__iter__()

    def __reversed__(self) -> Iterator[PendingAppend]:
        self._sweep()
        return super().__reversed__()

    def __contains__(self, append: object) -> bool:
        self._sweep()
        return super().__contains__(append)

    def __getitem__(self, index: SupportsIndex) -> PendingAppend:  # type: ignore[override]
        self._sweep()
        return super().__getitem__(index)


class TraceOutput:
    """What playing a trace gave, compactly; made into dicts or events when asked for."""

    __slots__ = ("_effects",)

    def __init__(self, effects: Effects) -> None:
        if not isinstance(effects, Effects):
            raise ArgumentError(
                f"an output is made by GroupCoordinator.play, not of {shown(effects)}"
            )
        self._effects = effects

    def __len__(self) -> int:
        return len(self._effects)

    def lines(self) -> Iterable[dict[str, Any]]:
        """Return the lines of the trace's output, as :func:`coterie.run_trace` yields them."""
        return self._effects.lines()

    def events(self) -> list[Any]:
        """Return events: with causes, and with the requests that were never answered."""
        return self._effects.events()
