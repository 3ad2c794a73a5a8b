"""A cluster on a virtual clock: topics, one group coordinator, and the network to its clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coterie._core.coordinator.runtime import response_of
from coterie._core.testing.clients import ClientRequest
from coterie.base.arguments import called, function, milliseconds, sequence, text, within
from coterie.base.operations import NUMBER, OPERATIONS
from coterie.base.schedule import Schedule
from coterie.coordinator.config import CLASSIC_ONLY, KEEPING_TOPIC_IDS, coordinator_config
from coterie.coordinator.consumer_requests import derived_topic_id
from coterie.coordinator.group_coordinator import GroupCoordinator
from coterie.coordinator.pending import Pending
from coterie.errors import ArgumentError, shown
from coterie.events import Append, Response, Unanswered
from coterie.testing.cluster_coordinator import CountedCoordinator
from coterie.testing.member import partition_counts
from coterie.testing.network import Network
from coterie.testing.topic_log import OffsetsLog
from coterie.testing.topics import Interval, Topic, whole_interval
from coterie.testing.transactions import Transactions
from coterie.values import Error, OffsetAndMetadata

_CLASSIC_GROUP = b"\0\2"  # the version of the key of a classic group's record
_COMMITS = ("offset_commit", "txn_offset_commit")  # their errors stand at each partition


class Cluster:
    """Brokers that clients of ``coterie.testing`` connect to.

    Parameters
    ----------
    topics
        The partition count of each topic, ``{topic: partitions}``.
    config
        Settings of the coordinator, as of :class:`~coterie.GroupCoordinator`.
    interval_ms
        Each partition gets a record this often, or as often as a function of topic and partition
        returns. None: only producers give them records.
    schedule
        The clock; default: one that begins at 0.
    latency_ms
        How long a request takes to a broker, and its response back.
    racks
        The racks of the replicas of each partition, ``{topic: [[rack, ...], ...]}``, which the
        assignors of the classic protocol match with the ``client.rack`` of consumers. Partitions
        that are missing have none.
    make_coordinator
        Makes the coordinator, with the arguments of :class:`~coterie.GroupCoordinator`; give that
        class to record its requests. Default: one with fast heartbeats.

    Attributes
    ----------
    network : Network
        The faults of connections.
    on_note : function or None
        Called as ``on_note(at_ms, client, kind, details)`` with what clients do.
    on_group_end : function or None
        Called as ``on_group_end(group_id)`` when a classic group is removed, or becomes a consumer
        group: another one of this id begins its generations anew.
    member_ids : function or None
        Called as ``member_ids(client_id)`` for the member id of a client of the consumer protocol.
    node : int
        The broker that coordinates the groups; each fail-over gives another number.
    loading : bool
        Whether it still loads its log.
    transactions : Transactions
        The transaction coordinator.

    Examples
    --------
    >>> cluster = Cluster({"orders": 1})
    >>> cluster
    <Cluster: topics orders (1), now_ms=0>
    >>> consumer = Consumer(cluster, {"group.id": "g", "auto.offset.reset": "earliest"})
    >>> consumer.subscribe(["orders"])
    >>> cluster.network.fail("consumer", "join_group", "NOT_COORDINATOR")
    >>> [record.offset for record in consumer.poll(10_000)]
    [0, 1, 2]
    """

    def __init__(
        self,
        topics: Mapping[str, int],
        config: Mapping[str, Any] | None = None,
        *,
        interval_ms: Interval = 1000,
        schedule: Schedule | None = None,
        latency_ms: int = 1,
        racks: Mapping[str, Iterable[Iterable[str]]] | None = None,
        make_coordinator: Callable[..., GroupCoordinator] | None = None,
    ) -> None:
        counts, interval_ms = partition_counts(topics), _interval(interval_ms)
        if schedule is not None and not isinstance(schedule, Schedule):
            raise ArgumentError(f"schedule must be a Schedule, not {shown(schedule)}")
        self.schedule = Schedule() if schedule is None else schedule
        self.latency_ms = milliseconds(latency_ms, "latency_ms")
        self._racks = _racks_of(racks)
        self.network = Network(self.schedule, (*_OF_GROUPS, *_LOCAL))
        self.on_note: Callable[[int, str, str, Any], None] | None = None
        self.member_ids: Callable[[str], str] | None = None
        self.on_group_end: Callable[[str], None] | None = None
        self.node, self.loading = 0, False
        self._awaiting: dict[int, ClientRequest] = {}  # parked requests, by the id of the answer
        self._settled: list[Any] = []
        self._tick_ms: int | None = None  # when the coordinator runs next
        self._make_coordinator = (
            CountedCoordinator
            if make_coordinator is None
            else called(function(make_coordinator, "make_coordinator"))
        )
        self._log = OffsetsLog()
        self._config = config
        self._start_coordinator()
        self._topics: dict[str, Topic] = {}
        for name, partitions in counts.items():
            self._topics[name] = Topic(name, partitions, self.now_ms, interval_ms)
        self.transactions = Transactions(self)
        self._publish()

    def __repr__(self) -> str:
        topics = ", ".join(f"{name} ({len(topic.logs)})" for name, topic in self._topics.items())
        return f"<Cluster: topics {topics}, now_ms={self.now_ms}>"

    @property
    def now_ms(self) -> int:
        """The time of the clock, in ms."""
        return self.schedule.now_ms

    # Topics

    @property
    def topics(self) -> dict[str, Topic]:
        """The topics by their names: a copy."""
        return dict(self._topics)

    def create_topic(self, name: str, partitions: int, interval_ms: Interval = 1000) -> None:
        """Create a topic."""
        name = text(name, "name")
        partitions = partition_counts({name: partitions})[name]
        if name in self._topics:
            raise ArgumentError(f"topic {name!r} exists")
        self._topics[name] = Topic(name, partitions, self.now_ms, _interval(interval_ms))
        self._topics_changed()

    def add_partitions(self, name: str, total: int) -> None:
        """Give a topic more partitions; ``total`` is their number then."""
        topic = self._topic(name)
        topic.add_partitions(partition_counts({topic.name: total})[topic.name], self.now_ms)
        self._topics_changed()

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and the committed offsets of its partitions."""
        partitions = [(name, log.partition) for log in self._topic(name).logs]
        del self._topics[name]
        self._move()
        self.coordinator.delete_partitions(partitions)
        if self._has_consumer_groups:
            self.coordinator.set_topics(delete_topics=[name])
        self._topics_changed()

    def produce(self, name: str, interval_ms: Interval) -> None:
        """Give each partition a record this often from now on; None: stop."""
        self._topic(name).produce(_interval(interval_ms), self.now_ms)
        self.wake_clients()

    def delete_records(self, name: str, partition: int, before_offset: int) -> None:
        """Delete the records below an offset, as retention does."""
        logs = self._topic(name).logs
        log = logs[within(partition, "partition", 0, len(logs) - 1)]
        before_offset = within(before_offset, "before_offset", 0, log.end_offset(self.now_ms))
        log.log_start_offset = max(log.log_start_offset, before_offset)

    def wake_clients(self) -> None:
        """Let clients that wait look at the topics again, as a Fetch response does."""
        for host in self.network.hosts():
            for connection in host.connections:
                connection.process.call_later(self.latency_ms, connection.wake)

    def _topic(self, name: str) -> Topic:
        if text(name, "name") not in self._topics:
            raise ArgumentError(f"there is no topic {name!r}")
        return self._topics[name]

    def _publish(self) -> None:
        """Tell the coordinator of the topics, for groups of the consumer protocol."""
        if self._has_consumer_groups:
            self.coordinator.set_topics({name: len(t.logs) for name, t in self._topics.items()})

    def _topics_changed(self) -> None:
        self._move()
        self._publish()
        self._after_call()
        self.wake_clients()

    # The coordinator

    def _start_coordinator(self) -> None:
        """Start a broker, which loads the log."""
        made = self._make_coordinator(
            self._config, self.now_ms, log_sink=self._log, on_event=self._on_event
        )
        if not isinstance(made, GroupCoordinator):
            raise ArgumentError(f"make_coordinator must make a GroupCoordinator, not {shown(made)}")
        self.coordinator = made
        self._core, self._outbox = made._core, made._outbox
        self._advance = getattr(made, "move", self._advance_recorded)
        self._beat: Callable[..., Error] = getattr(made, "beat", self._beat_recorded)
        behaviour = made.config["coterie.behaviour"]
        self._has_consumer_groups = behaviour not in CLASSIC_ONLY
        self._keeps_topic_ids = behaviour in KEEPING_TOPIC_IDS

    def fail_over(self, load_ms: int = 100, *, config: Mapping[str, Any] | None = None) -> None:
        """Let another broker become the coordinator; it loads its log for so long.

        Until a client has found the new one it gets NOT_COORDINATOR, and during the load
        COORDINATOR_LOAD_IN_PROGRESS. ``config``: settings that the new broker has instead, such as
        those of another release.
        """
        milliseconds(load_ms, "load_ms")
        changed = {**(self._config or {}), **_changes(config)}
        self._move()
        self.node += 1
        self.coordinator.resign()
        if config is not None:
            self._after_call()
            self._config = changed
            self._start_coordinator()
            self._tick_ms = None
            self._publish()
            self.coordinator.resign()
        self.coordinator.begin_load()
        self.loading = True
        self._after_call()
        self.schedule.call_later(load_ms, self._loaded, self.node)

    def _loaded(self, node: int) -> None:
        if node == self.node:  # else yet another broker loads
            self._move()
            self.coordinator.finish_load()
            self.loading = False
            self._after_call()

    def call(self, op: str, *args: Any, **fields: Any) -> Any:
        """Call an operation of the coordinator now, as an admin does; return what it returns."""
        if not isinstance(op, str) or op not in OPERATIONS or not OPERATIONS[op].method:
            raise ArgumentError(f"op must be an operation of a coordinator, not {shown(op)}")
        self._move()
        result = getattr(self.coordinator, op)(*args, **fields)
        self._after_call()
        return result

    def _move(self) -> None:
        self._advance(self.schedule.now_ms)

    def _advance_recorded(self, now_ms: int) -> None:
        if now_ms > self._core.now_ms:
            self.coordinator.advance(now_ms)

    def _after_call(self) -> None:
        """Answer parked requests that have an answer now, and run at the next deadline."""
        self._outbox.events.clear()
        while self._settled:
            event = self._settled.pop(0)
            request = self._awaiting.pop(event.id, None)
            if request is None:
                continue
            if isinstance(event, Response):
                request.connection.answer(request, event.response)
            else:
                request.connection.never(request)
        deadline = self._core.next_deadline_ms()
        if deadline is not None and (self._tick_ms is None or deadline < self._tick_ms):
            self._tick_ms = deadline
            self.schedule.call_at(deadline, self._tick, deadline)

    def _tick(self, at_ms: int) -> None:
        if at_ms == self._tick_ms:  # else an earlier deadline has replaced this one
            self._tick_ms = None
            self._move()
            self._after_call()

    def _on_event(self, event: Any) -> None:
        """Take an event of the coordinator, which must not be called from here."""
        if isinstance(event, Response | Unanswered):
            if event.id in self._awaiting:
                self._settled.append(event)
        elif self.on_group_end and _ends_classic_group(event):
            self.on_group_end(event.group_id)

    # Requests of clients

    def _with_topic_ids(self, offsets: Mapping[Any, Any]) -> list[dict[str, Any]]:
        """Return the offsets of a commit with the ids of the topics, as a broker adds them."""
        rows = []
        for (topic, partition), entry in offsets.items():
            row = {"topic": topic, "partition": partition, "offset": entry}
            if isinstance(entry, OffsetAndMetadata):
                row |= {"offset": entry.offset, "leader_epoch": entry.leader_epoch}
                row["metadata"] = entry.metadata
            if topic in self._topics:
                row["topic_id"] = derived_topic_id(topic)
            rows.append(row)
        return rows

    def _handle(self, request: ClientRequest) -> None:
        local = _LOCAL.get(request.op)
        if local is not None:
            request.connection.answer(request, local(self, *request.values, **request.fields))
            return
        if request.node is not None and request.node != self.node:
            request.connection.answer(request, self._refusal(request, Error.NOT_COORDINATOR))
            return
        if request.op == "txn_offset_commit":
            fields = request.fields
            producer = fields["producer_id"], fields["producer_epoch"]
            error = self.transactions.verify_offsets(request.values[0], *producer)
            if error != Error.NONE:
                request.connection.answer(request, self._refusal(request, error))
                return
        self._advance(self.schedule.now_ms)
        values = request.values
        if self._keeps_topic_ids and request.op in _COMMITS:
            values = (values[0], self._with_topic_ids(values[1]))
        result = getattr(self.coordinator, request.op)(*values, **request.fields)
        if isinstance(result, Pending):
            if result.status == "waiting":
                self._awaiting[result.id] = request
            elif result.done:
                request.connection.answer(request, result.response)
            else:
                request.connection.never(request)
        else:
            request.connection.answer(request, result)
        self._after_call()

    def _heartbeat(
        self, group_id: str, generation_id: int, member_id: str, group_instance_id: str | None
    ) -> Error:
        """Handle a heartbeat that has arrived on a perfect connection; return its error."""
        now_ms = self.schedule.now_ms
        error = self._beat(now_ms, group_id, generation_id, member_id, group_instance_id)
        if error is not Error.NONE or self._outbox.events:  # else no deadline is earlier
            self._after_call()
        return error

    def _beat_recorded(
        self,
        at_ms: int,
        group_id: str,
        generation_id: int,
        member_id: str,
        group_instance_id: str | None,
    ) -> Error:
        self._advance(at_ms)
        response = self.coordinator.heartbeat(
            group_id, generation_id, member_id, group_instance_id=group_instance_id
        )
        return response.error

    def _refusal(self, request: ClientRequest, error: Any) -> Any:
        """Return the response to a request that a broker refuses."""
        op = request.op
        if op in _LOCAL:
            return error
        payload = None
        if op in _COMMITS:
            offsets = request.values[1] if len(request.values) > 1 else request.fields["offsets"]
            payload = [(tuple(partition), int(error)) for partition in offsets]
            error = Error.NONE
        return response_of(NUMBER[op], int(error), payload)

    def _find_coordinator(self) -> int | Error:
        return self.node

    def _list_offsets(
        self, timestamps: Mapping[tuple[str, int], int], *, committed: bool
    ) -> dict[tuple[str, int], tuple[int, int] | Error | None]:
        """Return offset and timestamp by partition, of a time, the end (-1) or the begin (-2)."""
        found: dict[tuple[str, int], tuple[int, int] | Error | None] = {}
        now_ms = self.now_ms
        for (name, partition), at in timestamps.items():
            topic = self._topics.get(name)
            if topic is None or partition >= len(topic.logs):
                found[name, partition] = Error.UNKNOWN_TOPIC_OR_PARTITION
                continue
            log = topic.logs[partition]
            end = log.last_stable_offset(now_ms) if committed else log.end_offset(now_ms)
            if at == -1:
                found[name, partition] = end, -1
            elif at == -2:
                found[name, partition] = log.log_start_offset, -1
            else:
                found[name, partition] = log.offset_for_time(at, end)
        return found


def _changes(config: Any) -> dict[str, Any]:
    """Return settings of a coordinator once they are checked."""
    coordinator_config(config)
    return dict(config or {})


def _ends_classic_group(event: Any) -> bool:
    return isinstance(event, Append) and event.value is None and event.key[:2] == _CLASSIC_GROUP


def _racks_of(racks: Any) -> dict[str, tuple[frozenset[str], ...]]:
    if racks is not None and not isinstance(racks, Mapping):
        raise ArgumentError(f"racks must map topics to racks of partitions, not {shown(racks)}")
    return {
        text(topic, "a topic of racks"): tuple(
            frozenset(text(rack, "a rack") for rack in sequence(replicas, "racks of a partition"))
            for replicas in sequence(partitions, "racks of a topic")
        )
        for topic, partitions in (racks or {}).items()
    }


def _interval(interval_ms: Any) -> Interval:
    if callable(interval_ms):
        given: Interval = interval_ms
        return given
    return whole_interval(interval_ms)


_OF_GROUPS = (  # the requests of clients that go to the coordinator
    *("join_group", "sync_group", "heartbeat", "leave_group", "consumer_group_heartbeat"),
    *("offset_commit", "offset_fetch", "txn_offset_commit"),
)
_LOCAL: dict[str, Callable[..., Any]] = {
    "find_coordinator": Cluster._find_coordinator,
    "list_offsets": Cluster._list_offsets,
    "init_producer_id": lambda self, *args: self.transactions.init_producer_id(*args),
    "add_partitions_to_txn": lambda self, *args: self.transactions.add_partitions_to_txn(*args),
    "add_offsets_to_txn": lambda self, *args: self.transactions.add_offsets_to_txn(*args),
    "end_txn": lambda self, *args, **end: self.transactions.end_txn(*args, **end),
    "produce": lambda self, *args, **kind: self.transactions.produce(*args, **kind),
}
