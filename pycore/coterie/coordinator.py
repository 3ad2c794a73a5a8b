"""GroupCoordinator: the coordinator in Python's terms, with pending answers and events.

Everything is decided in ``_core``; here requests become its tuples, and its rows become values.
Time is an argument, nothing is ever awaited, and the same calls give the same answers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from coterie._core.coordinator import Coordinator, Trace
from coterie._core.coordinator_base import AppendOp
from coterie.config import coordinator_config
from coterie.errors import CoterieError
from coterie.pending import Pending, PendingAppend, TraceOutput
from coterie.requests import NUMBER, OPS, REQUESTS, compile_request
from coterie.snapshot import GroupSnapshot, snapshot_of
from coterie.values import Batch, Error, Response, Unanswered

__all__ = ["GroupCoordinator"]

T = TypeVar("T")
EventSink = Callable[[Any], None]
_OWN = {
    "join_group": ("group_id", "member_id", "protocol_type", "protocols", "session_timeout_ms",
                   "rebalance_timeout_ms", "group_instance_id", "client_id", "client_host",
                   "require_known_member_id", "supports_skipping_assignment", "reason"),
    "sync_group": ("group_id", "generation_id", "member_id", "group_instance_id",
                   "protocol_type", "protocol_name", "assignments"),
    "heartbeat": ("group_id", "generation_id", "member_id", "group_instance_id"),
    "leave_group": ("group_id", "members"),
    "offset_commit": ("group_id", "offsets", "generation_id", "member_id", "group_instance_id"),
    "txn_offset_commit": ("group_id", "offsets", "producer_id", "producer_epoch",
                          "generation_id", "member_id", "group_instance_id"),
    "end_txn": ("producer_id", "committed"),
    "offset_fetch": ("group_id", "topics", "require_stable"),
    "offset_delete": ("group_id", "partitions"),
    "describe_group": ("group_id",),
    "list_groups": ("states",),
    "delete_groups": ("group_ids",),
    "delete_partitions": ("partitions",),
    "cleanup": (),
    "failover": (),
    "fail_append": ("error", "count"),
}  # fmt: skip


class GroupCoordinator:
    """Kafka's classic group coordinator under virtual time.

    Parameters
    ----------
    config
        Kafka's settings by their names, and ``coterie.cleanup``, ``coterie.behaviour``.
        None: the defaults; :meth:`play` then takes the trace's own as long as nothing was asked.
    now_ms
        Where the clock starts.
    member_ids
        ``member_ids(prefix) -> str``; default ``PREFIX-N``, N counted from 1 in eight digits.
    log
        Batches that are loaded first.
    appends
        ``"immediate"``: an append finishes within the call. ``"deferred"``: when its
        :class:`PendingAppend` in :attr:`appends` is completed.
    on_event
        Called with each event, in order; it must not call the coordinator.
    """

    recorder: Callable[[GroupCoordinator, int, str, dict[str, Any], int | None], None] | None = None

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        now_ms: int = 0,
        member_ids: Callable[[str], str] | None = None,
        *,
        log: Iterable[Batch] = (),
        appends: str = "immediate",
        on_event: EventSink | None = None,
    ) -> None:
        if appends not in ("immediate", "deferred"):
            raise ValueError(f"appends must be 'immediate' or 'deferred', not {appends!r}")
        self._may_adopt = config is None and now_ms == 0
        self._member_ids, self._deferred = member_ids, appends == "deferred"
        self._on_event, self._reporting = on_event, False
        self._waiting: dict[int, Pending[Any]] = {}
        self._ids = 0
        self._events: list[Any] = []
        self._appends: deque[PendingAppend] = deque()
        self._wrapped: dict[int, PendingAppend] = {}
        self._start(config, now_ms)
        batches = [
            (b.base_offset, b.producer_id, b.producer_epoch, b.transactional, b.control,
             tuple(b.records))
            for b in log
        ]  # fmt: skip
        if batches:
            self._may_adopt = False
            self._core.import_log(batches)
            self._drain()

    def _start(self, config: Mapping[str, Any] | None, now_ms: int) -> None:
        self._config = coordinator_config(config)
        self._core = Coordinator(self._config, now_ms, self._member_ids, self._deferred)

    # Time

    @property
    def now_ms(self) -> int:
        """The virtual time, in ms."""
        return self._core.now_ms

    @property
    def config(self) -> Mapping[str, Any]:
        """All settings, read-only."""
        return self._config

    def next_deadline_ms(self) -> int | None:
        """When the earliest armed timer is due; None without timers."""
        return self._core.next_deadline_ms()

    def advance(self, now_ms: int) -> None:
        """Move the clock, firing what falls due, in order; ValueError if time goes back."""
        self._enter()
        if now_ms < self.now_ms:
            raise ValueError(f"time runs forward only: {now_ms} < {self.now_ms}")
        self._record("advance", {}, None, at_ms=now_ms)
        try:
            self._core.advance(now_ms)
        finally:
            self._drain()

    def advance_by(self, ms: int) -> None:
        """Move the clock by so many ms."""
        self.advance(self.now_ms + ms)

    def run_until(self, pending: Pending[T], *, limit_ms: int) -> T:
        """Go from deadline to deadline until the request is answered; its response.

        Raises
        ------
        NotAnswered
            It is not answered by the time ``limit_ms``, where the clock then stands, or never
            will be.
        """
        while pending.status == "waiting":
            deadline_ms = self.next_deadline_ms()
            if deadline_ms is None or deadline_ms > limit_ms:
                self.advance(max(limit_ms, self.now_ms))
                break
            self.advance(max(deadline_ms, self.now_ms))
        return pending.response

    # Requests

    def join_group(
        self,
        group_id: str | None = None,
        member_id: str = "",
        *,
        protocol_type: str | None,
        protocols: Any = (),
        session_timeout_ms: int = 45000,
        rebalance_timeout_ms: int = 300000,
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "/127.0.0.1",
        require_known_member_id: bool = False,
        supports_skipping_assignment: bool = False,
        reason: str | None = None,
    ) -> Pending[Any]:
        """JoinGroup; ``protocols``: ordered mapping or pairs of name and metadata bytes."""
        return self._ask("join_group", locals())

    def sync_group(
        self,
        group_id: str | None = None,
        generation_id: int = -1,
        member_id: str = "",
        *,
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: Any = (),
    ) -> Pending[Any]:
        """SyncGroup; ``assignments``: mapping from member id to bytes."""
        return self._ask("sync_group", locals())

    def heartbeat(
        self,
        group_id: str | None = None,
        generation_id: int = -1,
        member_id: str = "",
        *,
        group_instance_id: str | None = None,
    ) -> Any:
        """Heartbeat."""
        return self._ask("heartbeat", locals()).response

    def leave_group(self, group_id: str | None = None, members: Any = ()) -> Any:
        """LeaveGroup; each member is an id or a pair of id and group instance id."""
        return self._ask("leave_group", locals()).response

    def offset_commit(
        self,
        group_id: str | None = None,
        offsets: Any = (),
        *,
        generation_id: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
    ) -> Pending[Any]:
        """OffsetCommit; ``offsets``: ``{(topic, partition): int or OffsetAndMetadata}``."""
        return self._ask("offset_commit", locals())

    def txn_offset_commit(
        self,
        group_id: str | None = None,
        offsets: Any = (),
        *,
        producer_id: int,
        producer_epoch: int,
        generation_id: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
    ) -> Pending[Any]:
        """TxnOffsetCommit; seen by readers once :meth:`end_txn` commits."""
        return self._ask("txn_offset_commit", locals())

    def end_txn(self, producer_id: int, *, committed: bool = False) -> None:
        """Let the producer's marker reach the groups; it is written to the log."""
        self._ask("end_txn", locals())

    def offset_fetch(
        self, group_id: str | None = None, topics: Any = None, *, require_stable: bool = False
    ) -> Any:
        """OffsetFetch; ``topics``: ``{topic: [partition]}``, None for all."""
        return self._ask("offset_fetch", locals()).response

    def offset_delete(self, group_id: str | None = None, partitions: Any = ()) -> Any:
        """OffsetDelete; ``partitions``: pairs of topic and partition."""
        return self._ask("offset_delete", locals()).response

    def describe_group(self, group_id: str | None = None) -> Any:
        """DescribeGroups of one group."""
        return self._ask("describe_group", locals()).response

    def list_groups(self, states: Iterable[str] = ()) -> Any:
        """ListGroups; no states mean all."""
        return self._ask("list_groups", locals()).response

    def delete_groups(self, group_ids: Iterable[str] = ()) -> Any:
        """DeleteGroups."""
        return self._ask("delete_groups", locals()).response

    def delete_partitions(self, partitions: Any = ()) -> None:
        """Tell that these partitions were deleted from the cluster."""
        self._ask("delete_partitions", locals())

    def cleanup(self) -> None:
        """Retention runs now, over every group."""
        self._ask("cleanup", {})

    def failover(self) -> None:
        """Resign, be elected again and load the log, within this millisecond."""
        self._ask("failover", {})

    def resign(self) -> None:
        """Give up the partition: who waits is told, groups are forgotten, the log stays."""
        self._elect(17)

    def begin_load(self) -> None:
        """Be elected; until :meth:`finish_load` requests get COORDINATOR_LOAD_IN_PROGRESS."""
        self._elect(18)

    def finish_load(self) -> None:
        """Load the log and own the partition again."""
        self._elect(19)

    def fail_append(self, error: Error | str, count: int = 1) -> None:
        """Let the next ``count`` appends fail with this log error; replaces an earlier order."""
        self._ask("fail_append", locals())

    def handle(self, request: Mapping[str, Any]) -> Any:
        """Handle a trace event given as a dict; returns what the method of that op returns."""
        op = request.get("op")
        if op == "advance":
            return self.advance(int(request.get("at", self.now_ms)))
        if op not in _OWN:
            raise ValueError(f"{op!r} is no op; the ops are {', '.join(OPS)}")
        given = {name: request[name] for name in _OWN[op] if request.get(name) is not None}
        return getattr(self, op)(**given)

    def play(self, trace: Trace) -> TraceOutput:
        """Run a compiled trace from :func:`coterie.load_trace`: the fast path.

        Its events are in the output alone, not in :attr:`events`. Raises TraceError with the
        line of the trace.
        """
        self._enter()
        if self._may_adopt and trace.header.get("config"):
            self._start(trace.header["config"], 0)
        self._may_adopt = False
        self._ids = max(self._ids, trace.last_id)
        self._core.play(trace)
        return TraceOutput(self._core.take_effects())

    # State

    @property
    def events(self) -> list[Any]:
        """What happened since the last :meth:`take_events`, in order."""
        return self._events

    def take_events(self) -> list[Any]:
        """:attr:`events`, and a fresh list from now on."""
        taken, self._events = self._events, []
        return taken

    @property
    def appends(self) -> deque[PendingAppend]:
        """Appends that have not come back, oldest first."""
        return self._appends

    @property
    def log(self) -> Sequence[Batch]:
        """The coordinator's log."""
        return tuple(
            Batch(base, producer, epoch, transactional, control, records)
            for base, producer, epoch, transactional, control, records in self._core.log
        )

    @property
    def load_error(self) -> str | None:
        """Why the last load left the partition empty; None where it did not."""
        return self._core.load_error

    def snapshot(self, group_id: str) -> GroupSnapshot | None:
        """Return a frozen view of a group, None if there is none. Never touches its state."""
        return snapshot_of(self._core, group_id)

    # Inside

    def _enter(self) -> None:
        if self._reporting:
            raise CoterieError("on_event must not call back into the coordinator")

    def _record(
        self, op: str, fields: dict[str, Any], request_id: int | None, at_ms: int | None = None
    ) -> None:
        if GroupCoordinator.recorder is not None:
            at = self.now_ms if at_ms is None else at_ms
            GroupCoordinator.recorder(self, at, op, fields, request_id)

    def _ask(self, op: str, fields: dict[str, Any]) -> Pending[Any]:
        self._enter()
        fields.pop("self", None)
        group_id, generation_id, member_id, instance, details = compile_request(op, fields)
        self._may_adopt = False
        self._ids += op in REQUESTS
        pending: Pending[Any] = Pending(self._ids, op)
        if op in REQUESTS:
            self._waiting[pending.id] = pending
        self._record(op, fields, pending.id if op in REQUESTS else None)
        try:
            self._core.call(NUMBER[op], pending.id, group_id, generation_id, member_id, instance,
                            details)  # fmt: skip
        finally:
            self._drain()
        return pending

    def _elect(self, number: int) -> None:
        self._enter()
        self._may_adopt = False
        try:
            self._core.call(number, 0, None, -1, None, None, None)
        finally:
            self._drain()

    def _complete(self, op: AppendOp, error: Error, base_offset: int | None) -> None:
        self._enter()
        try:
            self._core.complete(op, int(error), -1 if base_offset is None else base_offset)
        finally:
            self._drain()

    def _drain(self) -> None:
        """Turn the core's rows into events, settle who waits, and report."""
        if self._deferred:
            known = {id(op): self._wrapped.get(id(op)) for op in self._core.appends}
            self._wrapped = {
                id(op): known[id(op)] or PendingAppend(self, op) for op in self._core.appends
            }
            self._appends.clear()
            self._appends.extend(self._wrapped.values())
        events = self._core.take_effects().events()
        for event in events:
            if isinstance(event, Response) and (pending := self._waiting.pop(event.id, None)):
                pending.status, pending.answered_at = "answered", event.at
                pending._response = event.response
            elif isinstance(event, Unanswered) and (pending := self._waiting.pop(event.id, None)):
                pending.status = event.why
        self._events += events
        if self._on_event is not None:
            self._reporting = True
            try:
                for event in events:
                    self._on_event(event)
            finally:
                self._reporting = False
