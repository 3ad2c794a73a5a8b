"""GroupCoordinator: the coordinator for Python, with pending answers and events.

``_core`` decides everything. Here requests become its tuples, and its rows become values. Time is
an argument, nothing is awaited, and the same calls give the same answers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from coterie._core.coordinator.coordinator import Coordinator
from coterie._core.coordinator.offsets import Trace
from coterie._core.coordinator.runtime import CallerLog
from coterie.base.arguments import called, function, milliseconds, sequence, span, text
from coterie.base.operations import NUMBER, OPERATIONS, REQUESTS
from coterie.consumer_groups import DescribedConsumerGroup
from coterie.coordinator.batches import batch_row
from coterie.coordinator.clock import SharedClock, run_until
from coterie.coordinator.config import CLASSIC_ONLY, coordinator_config
from coterie.coordinator.consumer_fields import read_metadata
from coterie.coordinator.consumer_requests import ConsumerGroupRequests
from coterie.coordinator.outbox import Outbox
from coterie.coordinator.pending import Pending, PendingAppend, TraceOutput, now_or_later
from coterie.coordinator.recorder import Recorder
from coterie.coordinator.requests import Compiled, arguments_of, compile_request, compile_values
from coterie.coordinator.sink import LogSink, sink_of
from coterie.coordinator.snapshot import GroupSnapshot, snapshot_of
from coterie.errors import ArgumentError, shown
from coterie.events import Event
from coterie.values import (
    Batch,
    DeleteGroupsResponse,
    DescribeGroupResponse,
    Error,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    ListGroupsResponse,
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
    SyncGroupResponse,
    TxnOffsetCommitResponse,
)

T = TypeVar("T")


class GroupCoordinator(ConsumerGroupRequests):
    """Kafka's group coordinator under virtual time.

    Parameters
    ----------
    config
        Kafka's settings by their names, and ``coterie.cleanup``, ``coterie.behaviour``.
        None: the defaults; :meth:`play` then takes the trace's own, if no request came before.
    now_ms
        The virtual time at which the clock starts, in ms.
    member_ids
        ``member_ids(prefix) -> str``; default ``PREFIX-N``, N counted from 1 in eight digits.
    log
        Batches to load first.
    appends
        ``"immediate"``: an append finishes within the call. ``"deferred"``: it finishes when its
        :class:`PendingAppend` in :attr:`appends` is completed. Since Kafka 4 readers then see what
        is committed, and a method returns a :class:`Pending` if its answer waits for an append.
    on_event
        Called with each event, in order: one of ``coterie.events.Event``.
    log_sink
        A :class:`~coterie.coordinator.sink.LogSink`: the records go to it, and each load reads
        it, the first one now. The coordinator then keeps no log. Not together with ``log``.

    Notes
    -----
    ``member_ids``, ``on_event`` and ``log_sink`` must not call the coordinator. One thread at a
    time: share it under a lock of your own.

    Examples
    --------
    >>> coordinator = GroupCoordinator({"group.initial.rebalance.delay.ms": 3000})
    >>> join = coordinator.join_group("g", protocol_type="consumer", protocols={"range": b""})
    >>> coordinator.run_until(join, limit_ms=60_000).generation_id
    1
    >>> coordinator
    <GroupCoordinator: 1 groups, now_ms=3000>
    >>> [event.to for event in coordinator.events if isinstance(event, Transition)]
    ['PreparingRebalance', 'CompletingRebalance']
    """

    @called
    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        now_ms: int = 0,
        member_ids: Callable[[str], str] | None = None,
        *,
        log: Iterable[Batch] = (),
        appends: str = "immediate",
        on_event: Callable[[Event], None] | None = None,
        log_sink: LogSink | None = None,
    ) -> None:
        if not isinstance(appends, str) or appends not in ("immediate", "deferred"):
            raise ArgumentError(f"appends must be 'immediate' or 'deferred', not {shown(appends)}")
        for name, callback in (("member_ids", member_ids), ("on_event", on_event)):
            if callback is not None:
                function(callback, name)
        now_ms = milliseconds(now_ms, "now_ms")
        self._may_adopt = config is None and now_ms == 0
        self._member_ids, self._deferred = member_ids, appends == "deferred"
        self._ids = 0
        self._outbox = Outbox(on_event, self._complete)
        self._clock: SharedClock | None = None
        self._recording: Recorder | None = None
        self._sink = None if log_sink is None else self._sink_of(log_sink)
        batches = [batch_row(batch) for batch in sequence(log, "log")]
        if self._sink is not None and (batches or self._deferred):
            raise ArgumentError("log and appends are for a log of our own, log_sink is yours")
        self._start(config, now_ms)
        if batches or self._sink is not None:
            self._core.import_log(batches)
            self._may_adopt &= not (batches or self._core.group_count)
            self._drain()
        self._loaded = bool(batches or self._core.group_count)

    def __repr__(self) -> str:
        return f"<GroupCoordinator: {self._core.group_count} groups, now_ms={self.now_ms}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a GroupCoordinator has timers and open requests, and is not copied: "
            "GroupCoordinator(log=coordinator.log) loads its groups"
        )

    def _start(self, config: Mapping[str, Any] | None, now_ms: int) -> None:
        self._config = coordinator_config(config)
        member_ids = None if self._member_ids is None else self._call_member_ids
        self._core = Coordinator(self._config, now_ms, member_ids, self._deferred, self._sink)

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
        """Return the earliest deadline of an armed timer, in ms; None without timers."""
        return self._core.next_deadline_ms()

    @called
    def advance(self, now_ms: int) -> None:
        """Move the clock and fire what is due, in order; ArgumentError if time goes back.

        If it is interrupted, the clock stays at the deadline of the timer that fired last.
        """
        self._outbox.check()
        now_ms = milliseconds(now_ms, "now_ms")
        if now_ms < self.now_ms:
            raise ArgumentError(f"time runs forward only: now_ms {now_ms} < {self.now_ms}")
        if self._clock is not None:
            self._clock.move(now_ms)
            return
        try:
            self._advance(now_ms)
        finally:
            self._record_advance()

    @called
    def advance_by(self, ms: int) -> None:
        """Move the clock by ``ms`` milliseconds, as :meth:`advance` does."""
        self.advance(self.now_ms + span(ms))

    @called
    def run_until(self, pending: Pending[T], *, limit_ms: int) -> T:
        """Move the clock from deadline to deadline until the answer is there, and return it.

        Raises
        ------
        NotAnswered
            There is no answer by ``limit_ms``, which is then the time, or there will never be one.
        """
        if not isinstance(pending, Pending):
            raise ArgumentError(f"pending must be what a request returned, not {shown(pending)}")
        run_until(self, lambda: pending.status != "waiting", milliseconds(limit_ms, "limit_ms"))
        return pending.response

    @called
    def live_by(self, clock: SharedClock) -> None:
        """Share a clock with other coordinators: to advance one is to advance all."""
        if not isinstance(clock, SharedClock):
            raise ArgumentError(f"clock must be a SharedClock, not {shown(clock)}")
        check, moved = self._outbox.check, self._record_advance
        clock.add(self, advance=self._advance, check=check, moved=moved)
        self._clock = clock

    # Requests

    @called
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
    ) -> Pending[JoinGroupResponse]:
        """Send JoinGroup; ``protocols``: ordered mapping or pairs of name and metadata bytes."""
        return self._ask(
            "join_group", group_id, member_id, group_instance_id, protocol_type, protocols,
            session_timeout_ms, rebalance_timeout_ms, client_id, client_host,
            require_known_member_id, supports_skipping_assignment, reason
        )  # fmt: skip

    @called
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
    ) -> Pending[SyncGroupResponse]:
        """Send SyncGroup; ``assignments``: mapping from member id to bytes."""
        return self._ask(
            "sync_group", group_id, generation_id, member_id, group_instance_id, protocol_type,
            protocol_name, assignments
        )  # fmt: skip

    @called
    def heartbeat(
        self,
        group_id: str | None = None,
        generation_id: int = -1,
        member_id: str = "",
        *,
        group_instance_id: str | None = None,
    ) -> HeartbeatResponse | Any:
        """Send Heartbeat."""
        fields = group_id, generation_id, member_id, group_instance_id
        return now_or_later(self._ask("heartbeat", *fields))

    @called
    def leave_group(
        self, group_id: str | None = None, members: Any = ()
    ) -> LeaveGroupResponse | Any:
        """Send LeaveGroup; each member is an id or a pair of id and group instance id."""
        return now_or_later(self._ask("leave_group", group_id, members))

    @called
    def offset_commit(
        self,
        group_id: str | None = None,
        offsets: Any = (),
        *,
        generation_id: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        version: int = 9,
        retention_time_ms: int = -1,
    ) -> Pending[OffsetCommitResponse]:
        """Send OffsetCommit; ``offsets``: ``{(topic, partition): int or OffsetAndMetadata}``.

        ``version`` and ``retention_time_ms`` matter since Kafka 4.1 only.
        """
        return self._ask(
            "offset_commit", group_id, generation_id, member_id, group_instance_id, offsets,
            version, retention_time_ms
        )  # fmt: skip

    @called
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
        version: int = 4,
    ) -> Pending[TxnOffsetCommitResponse]:
        """Send TxnOffsetCommit; readers see the offsets once :meth:`end_txn` commits."""
        return self._ask(
            "txn_offset_commit", group_id, generation_id, member_id, group_instance_id, offsets,
            producer_id, producer_epoch, version
        )  # fmt: skip

    @called
    def end_txn(self, producer_id: int, *, committed: bool = False) -> None:
        """Write the marker that ends a producer's transaction, and apply it to the groups."""
        self._ask("end_txn", producer_id, committed)

    @called
    def offset_fetch(
        self,
        group_id: str | None = None,
        topics: Any = None,
        *,
        require_stable: bool = False,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> OffsetFetchResponse | Any:
        """Send OffsetFetch; ``topics``: ``{topic: [partition]}``, None for all.

        Since Kafka 4.1 a consumer group checks the member and its epoch.
        """
        return now_or_later(
            self._ask("offset_fetch", group_id, topics, require_stable, member_id, member_epoch)
        )

    @called
    def offset_delete(
        self, group_id: str | None = None, partitions: Any = ()
    ) -> OffsetDeleteResponse | Any:
        """Send OffsetDelete; ``partitions``: pairs of topic and partition."""
        return now_or_later(self._ask("offset_delete", group_id, partitions))

    @called
    def describe_group(
        self, group_id: str | None = None, *, version: int = 5
    ) -> DescribeGroupResponse:
        """Send DescribeGroups for one group; from version 6 on an unknown one is an error."""
        answered: Pending[DescribeGroupResponse] = self._ask("describe_group", group_id, version)
        return answered.response

    @called
    def list_groups(
        self, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> ListGroupsResponse:
        """Send ListGroups for groups in these states and of these types; an empty list: any.

        ``types`` matter since Kafka 4.1 only.
        """
        answered: Pending[ListGroupsResponse] = self._ask("list_groups", states, types)
        return answered.response

    @called
    def delete_groups(self, group_ids: Iterable[str] = ()) -> DeleteGroupsResponse | Any:
        return now_or_later(self._ask("delete_groups", group_ids))

    @called
    def delete_partitions(self, partitions: Any = ()) -> None:
        """Remove the offsets of partitions, pairs of topic and number, deleted from the cluster."""
        self._ask("delete_partitions", partitions)

    def cleanup(self) -> None:
        self._ask("cleanup")

    def failover(self) -> None:
        """Resign, be elected again and load the log, within this millisecond."""
        self._ask("failover")

    @called
    def resign(self, partition: int | None = None) -> None:
        """Give up a partition of the offsets topic (None: all), with its groups; the log stays.

        Parked requests are answered with NOT_COORDINATOR. The partition of a group is
        ``coterie.messages.partition_for(group_id, n)``, n: ``offsets.topic.num.partitions``.
        """
        self._ask("resign", partition)

    @called
    def begin_load(self, partition: int | None = None) -> None:
        """Begin a load; until :meth:`finish_load` requests get COORDINATOR_LOAD_IN_PROGRESS.

        As in Kafka, an election is ignored while the partition is owned or loading: a load
        begins only after :meth:`resign` (GroupMetadataManager.addLoadingPartition).
        """
        self._ask("begin_load", partition)

    @called
    def finish_load(self, partition: int | None = None) -> None:
        """Load the log and own the partition again; CoterieError if no load is under way."""
        self._ask("finish_load", partition)

    @called
    def fail_append(self, error: Error | str, count: int = 1) -> None:
        """Let the next ``count`` appends fail with this error; replaces an earlier call."""
        self._ask("fail_append", error, count)

    @called
    def handle(self, request: Mapping[str, Any]) -> Any:
        """Handle a trace event given as a dict; return what the method of that op returns.

        ``at`` is used only for ``advance``; ``id`` is ignored. An op without a method returns a
        :class:`Pending`.
        """
        op, fields = arguments_of(request)
        if op == "advance":
            return self.advance(request.get("at", self.now_ms))
        if not OPERATIONS[op].method:
            return self._ask_compiled(op, compile_request(op, fields))
        return getattr(self, op)(**fields)

    @called
    def play(self, trace: Trace) -> TraceOutput:
        """Run a compiled trace from :func:`coterie.load_trace`: the fast path.

        Its events are in the output only, not in :attr:`events`; so is the answer to a request that
        was pending before. A wrong event is a TraceError with its line. The events before it are
        then in :attr:`events`, as after any call.
        """
        self._outbox.check()
        if not isinstance(trace, Trace):
            raise ArgumentError(f"trace must come from coterie.load_trace, not {shown(trace)}")
        if self._may_adopt and not self._core.taken and trace.header.get("config"):
            self._start(trace.header["config"], self.now_ms)
            if self._sink is not None:
                self._core.import_log(())
        if trace.header.get("version") == 2 and not self._core.taken:
            self._core.set_image(*read_metadata(trace.header))
        self._may_adopt = False
        self._ids = max(self._ids, trace.last_id)
        before = self._core.taken
        try:
            self._core.play(trace)
        except BaseException:
            try:
                self._record_play(trace, self._core.taken - before)
                self._record_advance()
            finally:
                self._drain()
            raise
        self._record_play(trace, len(trace))
        if self._clock is not None:
            self._clock.move(self.now_ms)
        if self._core.sink.failure is not None:
            self._drain()
            self._outbox.raise_failure(self._core)
        output = TraceOutput(self._core.take_outputs())
        self._drain()
        return output

    # State

    @property
    def events(self) -> list[Event]:
        """The events since the last :meth:`take_events`, in order."""
        return self._outbox.events

    def take_events(self) -> list[Event]:
        """Return :attr:`events` and begin a new list."""
        return self._outbox.take()

    @property
    def appends(self) -> deque[PendingAppend]:
        """Appends that have not finished, oldest first."""
        return self._outbox.appends

    @property
    def log(self) -> Sequence[Batch]:
        """The coordinator's log."""
        return tuple(Batch(*row) for row in self._core.batches())

    @property
    def load_error(self) -> str | None:
        """Why the last load left the partition empty; None if it did not."""
        return self._core.load_error

    @called
    def snapshot(self, group_id: str) -> GroupSnapshot | DescribedConsumerGroup | None:
        """Return a frozen view of a group's newest state, None if there is none.

        A consumer group is as ``consumer_group_describe`` has it. Nothing changes.
        """
        return snapshot_of(self._core, text(group_id, "group_id"))

    # Inside

    def _sink_of(self, log_sink: LogSink) -> CallerLog:
        return sink_of(log_sink, self._outbox.calling)

    def _call_member_ids(self, prefix: str) -> str:
        assert self._member_ids is not None
        with self._outbox.calling():
            return self._member_ids(prefix)

    def _record(self, taken: bool, op: str, request_id: int, compiled: Compiled) -> None:
        if self._recording is not None and taken:
            self._recording.ask(self.now_ms, op, request_id, compiled)
        elif self._recording is not None:
            self._recording.refuse()

    def _record_play(self, trace: Trace, count: int) -> None:
        if self._recording is not None:
            self._recording.play(trace, count)

    def _record_advance(self) -> None:
        if self._recording is not None:
            self._recording.advance(self.now_ms)

    def _record_into(self, recording: Recorder) -> None:
        """Record the requests from now on, and how this coordinator was made."""
        self._recording = recording
        recording.begin(
            now_ms=self.now_ms,
            deferred=self._deferred,
            loaded=self._loaded,
            periodic=self.config["coterie.cleanup"] is not None,
        )

    def _advance(self, now_ms: int) -> None:
        try:
            self._core.advance(now_ms)
        finally:
            self._drain()
        self._outbox.raise_failure(self._core)

    def _ask(self, op: str, *values: Any) -> Pending[Any]:
        """Run an operation; ``values`` are those of all its fields, in the order of its table."""
        return self._ask_compiled(op, compile_values(op, values))

    def _ask_compiled(self, op: str, compiled: Compiled) -> Pending[Any]:
        self._outbox.check()
        self._ids += op in REQUESTS
        pending: Pending[Any] = Pending(self._ids, op)
        before = self._core.taken
        try:
            self._core.call(NUMBER[op], pending.id, *compiled)
            if op in REQUESTS:
                self._outbox.waiting[pending.id] = pending
        finally:  # even if interrupted, record exactly what was decided
            try:
                self._record(self._core.taken > before, op, pending.id, compiled)
            finally:
                self._drain()
        self._outbox.raise_failure(self._core)
        return pending

    def _complete(self, append: PendingAppend, error: Error, base_offset: int | None) -> None:
        self._outbox.check()
        was_open = not append.done
        offset = -1 if base_offset is None else base_offset
        try:
            self._core.complete(append._op, int(error), offset)
        finally:
            try:
                if was_open and append.done:
                    others = error and self._config["coterie.behaviour"] not in CLASSIC_ONLY
                    self._outbox.appends._drop(append, with_others=bool(others))
            finally:
                self._drain()
        self._outbox.raise_failure(self._core)

    def _drain(self) -> None:
        self._outbox.fill(self._core)
