"""What a coordinator returns: pending answers, unfinished appends, the output of a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from coterie._core.coordinator.runtime import AppendOp, Outputs
from coterie.base.arguments import called, function, within
from coterie.coordinator.fields import error_code
from coterie.errors import ArgumentError, NotAnswered, shown
from coterie.events import Event, Response, Unanswered
from coterie.values import Error

T = TypeVar("T")
OnComplete = Callable[
    ["PendingAppend", Error, "int | None"], None
]  # with an error, or at an offset


class Pending(Generic[T]):
    """The answer to a request, which may come later.

    Attributes
    ----------
    id : int
        The request's id, as in the events.
    status : str
        ``"waiting"``, ``"answered"``, ``"replaced"`` (by a later request of the same member) or
        ``"dropped"`` (the member is gone); the last two are never answered.
    answered_at : int or None
        The virtual time of the answer, in ms.

    Examples
    --------
    >>> coordinator = GroupCoordinator()
    >>> join = coordinator.join_group("g", protocol_type="consumer", protocols={"range": b""})
    >>> join.status
    'waiting'
    >>> coordinator.advance(3000)
    >>> join.response.error, join.answered_at
    (<Error.NONE: 0>, 3000)
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
        """Set the outcome of the request; ``status`` last, because others read it first."""
        if isinstance(event, Response):
            self._response, self.answered_at = event.response, event.at
            self.status = "answered"
        else:
            self.status = event.why

    def __repr__(self) -> str:
        return f"<Pending {self.op} {self.id}: {self._response or self.status}>"


def now_or_later(pending: Pending[T]) -> T | Any:
    """Return the response; what waits for an append that has not finished: the Pending itself.

    That comes with deferred appends only, so it is ``Any`` to a type checker: callers of others
    need not look for it.
    """
    try:
        return pending.response
    except NotAnswered:
        if pending.status != "waiting":
            raise
        return pending


class PendingAppend:
    """An append that has not finished.

    It comes from ``appends="deferred"``, or from a ``log_sink`` that finishes an append later.

    Examples
    --------
    >>> coordinator = GroupCoordinator(appends="deferred")
    >>> commit = coordinator.offset_commit("g", {("orders", 0): 5})
    >>> commit.done, coordinator.appends[0].kind
    (False, 'offset_commit')
    >>> coordinator.appends[0].complete(Error.REQUEST_TIMED_OUT)
    >>> commit.response.partitions[0].error
    <Error.REQUEST_TIMED_OUT: 7>
    """

    __slots__ = ("_on_complete", "_op")

    def __init__(self, on_complete: OnComplete, op: AppendOp) -> None:
        if not isinstance(op, AppendOp):
            raise ArgumentError(f"an append is made by a coordinator, not of {shown(op)}")
        self._on_complete, self._op = function(on_complete, "on_complete"), op

    @property
    def group_id(self) -> str | None:
        """The group of the records; None: of several groups, or a marker."""
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

        Each is finished once. Until Kafka 3.9 the order is free. Since Kafka 4 the appends of one
        partition of the offsets topic succeed in their order, and one that fails takes those after
        it in its partition along (CoordinatorRuntime). The consequences happen within this call:
        checks, answers, Append events.
        """
        if base_offset is not None:
            within(base_offset, "base_offset", 0, 2**62 - 1)
        self._on_complete(self, error_code(error), base_offset)

    def __repr__(self) -> str:
        return f"<PendingAppend {self.kind} of {self.group_id!r}, {len(self.records)} records>"


class TraceOutput:
    """The output of a played trace, stored compactly; dicts and events are made on request.

    Examples
    --------
    >>> trace = load_trace([
    ...     {"format": "coterie-trace", "version": 1, "name": "one heartbeat"},
    ...     {"at": 0, "id": 1, "op": "heartbeat", "group_id": "g", "member_id": "m"},
    ... ])
    >>> output = GroupCoordinator().play(trace)
    >>> [line["error"] for line in output.lines()]
    ['UNKNOWN_MEMBER_ID']
    """

    __slots__ = ("_outputs",)

    def __init__(self, outputs: Outputs) -> None:
        if not isinstance(outputs, Outputs):
            raise ArgumentError(
                f"an output is made by GroupCoordinator.play, not of {shown(outputs)}"
            )
        self._outputs = outputs

    def __len__(self) -> int:
        return len(self._outputs)

    def lines(self) -> Iterable[dict[str, Any]]:
        """Return the lines of the trace's output, as :func:`coterie.run_trace` yields them."""
        return self._outputs.lines()

    def events(self) -> list[Event]:
        """Return the events, with causes and with the requests that were never answered."""
        return self._outputs.events()
