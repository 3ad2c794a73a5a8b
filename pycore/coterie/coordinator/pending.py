"""What a coordinator hands out: answers and appends that may have to wait, a trace's output."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from coterie._core.coordinator.outputs import Outputs
from coterie._core.coordinator.runtime import AppendOp
from coterie.arguments import called, function, within
from coterie.coordinator.fields import error_code
from coterie.errors import ArgumentError, NotAnswered, shown
from coterie.events import Response, Unanswered
from coterie.values import Error

__all__ = ["Pending", "PendingAppend", "TraceOutput"]

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

    __slots__ = ("_come_back", "_op")

    def __init__(self, come_back: ComeBack, op: AppendOp) -> None:
        if not isinstance(op, AppendOp):
            raise ArgumentError(f"an append is made by a coordinator, not of {shown(op)}")
        self._come_back, self._op = function(come_back, "come_back"), op

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


class TraceOutput:
    """What playing a trace gave, compactly; made into dicts or events when asked for."""

    __slots__ = ("_effects",)

    def __init__(self, outputs: Outputs) -> None:
        if not isinstance(outputs, Outputs):
            raise ArgumentError(
                f"an output is made by GroupCoordinator.play, not of {shown(outputs)}"
            )
        self._effects = outputs

    def __len__(self) -> int:
        return len(self._effects)

    def lines(self) -> Iterable[dict[str, Any]]:
        """Return the lines of the trace's output, as :func:`coterie.run_trace` yields them."""
        return self._effects.lines()

    def events(self) -> list[Any]:
        """Return events: with causes, and with the requests that were never answered."""
        return self._effects.events()
