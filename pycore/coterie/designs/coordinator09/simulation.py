"""Brokers, consumers and ZooKeeper of the 0.9 design on one virtual clock.

Messages take a small time; what is sent to a dead broker is refused, what a broker had received
when it died is never answered. A broker can be made to die at any boundary of what it does
(:data:`~coterie.designs.coordinator09.broker.BOUNDARIES`): that is how the five points of failure
are reached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from coterie.designs.coordinator09 import messages as m
from coterie.designs.coordinator09.broker import CoordinatorBroker, Died
from coterie.designs.coordinator09.consumer import CoordinatedConsumer
from coterie.designs.coordinator09.store import Store
from coterie.designs.coordinator09.world import CoordinatorSettings
from coterie.designs.ledger import Ledgers, TopicPartition
from coterie.designs.schedule import Schedule

POINTS = {1: "prepared", 2: "told", 3: "joined", 4: "written", 5: "answered"}
"""The boundary at which each of the document's five points of failure lies."""


@dataclass
class ProtocolCounts:
    """Sums that the network and the coordinators keep."""

    requests: int = 0
    rebalances: int = 0
    took_part: int = 0
    last_rebalance_ms: int = 0


@dataclass(frozen=True)
class LogLine:
    """A line of the log: a change of state, or what somebody was told."""

    at_ms: int
    who: str
    what: str
    detail: str


@dataclass
class CoordinatorSimulation:
    """The simulation: call what happens, then :meth:`run_until` a moment.

    Attributes
    ----------
    logged : list
        What happened, if ``keep_log``.
    note : callable or None
        Called for each entry of the timeline: moment, kind, consumer, details.
    dies : callable or None
        ``dies(broker id, boundary, group id)``: whether the broker that has come to a boundary with
        a group dies there.
    """

    broker_ids: Sequence[int]
    settings: CoordinatorSettings = field(default_factory=CoordinatorSettings)
    keep_log: bool = True
    note: Callable[..., None] | None = None
    dies: Callable[[int, str, str], bool] | None = None
    schedule: Schedule = field(default_factory=Schedule)
    costs: ProtocolCounts = field(default_factory=ProtocolCounts)
    logged: list[LogLine] = field(default_factory=list)
    consumers: dict[str, CoordinatedConsumer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.broker_ids = tuple(self.broker_ids)
        self.ledgers = Ledgers(from_start=self.settings.from_start, note=self._note)
        self._subscribed: dict[str, set[str]] = {}  # group -> topics that it ever subscribed to
        self.brokers = {one: CoordinatorBroker(self, one) for one in self.broker_ids}
        self.store = Store(self.broker_ids)
        for broker in self.broker_ids:
            self.start_broker(broker)

    def run_until(self, at_ms: int) -> None:
        """Let time pass."""
        self.schedule.run_until(at_ms)

    # What happens in a scenario

    def start_broker(self, broker_id: int) -> None:
        """Start a broker; groups without a coordinator get one."""
        broker = self.brokers[broker_id]
        if not broker.alive:
            broker.start()
            self.store.live.add(broker_id)
            self._elect_all()

    def stop_broker(self, broker_id: int, *, session_ms: int = 0) -> None:
        """Kill a broker; its node in ZooKeeper goes when its session ends."""
        broker = self.brokers[broker_id]
        if broker.alive:
            broker.kill()
            self.log(f"broker {broker_id}", "Down", "")
            self.schedule.call_later(session_ms, self._session_ended, broker_id, broker.life)

    def is_up(self, broker_id: int) -> bool:
        """Whether a broker lives."""
        return self.brokers[broker_id].alive

    def set_topic(self, topic: str, partitions: int) -> None:
        """Create a topic, give it more partitions, or delete it (0); watches fire."""
        self.store.topics[topic] = partitions
        for group_id, topics in self._subscribed.items():
            if topic in topics:
                self._count_places(group_id, topic)
        for group_id, broker_id in self.store.coordinators.items():
            broker = self.brokers.get(broker_id)
            group = broker and broker.groups.get(group_id)
            if broker and group and topic in group.topics:
                self.store.watch_events += 1
                self.schedule.call_later(
                    self.settings.watch_ms,
                    *(broker.guarded, broker.life, broker.topics_changed, group),
                )

    def start_consumer(
        self,
        name: str,
        topics: Sequence[str],
        *,
        group_id: str = "group1",
        session_timeout_ms: int | None = None,
        strategy: str = "range",
    ) -> CoordinatedConsumer:
        """Start a consumer under a name that no live one has."""
        timeout = session_timeout_ms or self.settings.session_timeout_ms
        consumer = self.consumers[name] = CoordinatedConsumer(
            self, name, group_id, tuple(topics), session_timeout_ms=timeout, strategy=strategy
        )
        self.ledgers.open(group_id)
        subscribed = self._subscribed.setdefault(group_id, set())
        for topic in consumer.topics:
            if topic not in subscribed:
                subscribed.add(topic)
                self._count_places(group_id, topic)
        consumer.start()
        return consumer

    def produce(self, topic: str, partition: int, count: int) -> None:
        """Add messages, for every group."""
        self.ledgers.produce((topic, partition), count)

    def cut(self, name: str) -> None:
        """Cut a consumer off from all brokers' coordinators."""
        self.consumers[name].cut = True

    def heal(self, name: str) -> None:
        """Let it connect again."""
        self.consumers[name].cut = False

    def hold(self, name: str) -> None:
        """Keep back what is sent to a consumer."""
        self.consumers[name].held = True

    def release(self, name: str) -> None:
        """Deliver what was kept back, in order."""
        consumer = self.consumers[name]
        consumer.held = False
        kept, consumer.kept = consumer.kept, []
        for number, response in kept:
            consumer.receive(number, response)

    # Who coordinates

    def coordinator_of(self, group_id: str) -> int | None:
        """Find the coordinator of a group; the first time anybody asks, one is elected."""
        before = self.store.coordinators.get(group_id)
        found = self.store.elect(group_id)
        if found is not None and found != before:
            self._tell_elected(group_id, found)
        return found

    def _elect_all(self) -> None:
        for group_id in list(self.store.coordinators):
            self.coordinator_of(group_id)

    def _tell_elected(self, group_id: str, broker_id: int) -> None:
        broker = self.brokers[broker_id]
        arguments = broker.guarded, broker.life, broker.elected, group_id
        self.schedule.call_later(self.settings.watch_ms, *arguments)

    def _session_ended(self, broker_id: int, life: int) -> None:
        broker = self.brokers[broker_id]
        if broker.life == life:
            self.store.live.discard(broker_id)
        # if it is back it knows nothing: its groups are without a coordinator all the same
        self.store.release({*self.store.coordinators} - broker.groups.keys(), broker_id)
        self._elect_all()

    # The network

    def to_broker(
        self, consumer: CoordinatedConsumer, broker_id: int, number: int, request: m.GroupRequest
    ) -> None:
        """Send a request."""
        self.costs.requests += 1
        if consumer.cut:
            self.schedule.call_later(self.settings.delivery_ms, consumer.refused, number)
        else:
            delay = self.settings.delivery_ms
            self.schedule.call_later(delay, self._arrive, consumer, broker_id, number, request)

    def _arrive(
        self, consumer: CoordinatedConsumer, broker_id: int, number: int, request: m.GroupRequest
    ) -> None:
        broker = self.brokers[broker_id]
        if broker.alive:
            broker.guarded(broker.life, broker.handle, consumer, number, request)
        else:
            self.schedule.call_later(self.settings.delivery_ms, consumer.refused, number)

    def to_consumer(
        self, consumer: CoordinatedConsumer, number: int, response: m.GroupResponse
    ) -> None:
        """Send a response."""
        self.schedule.call_later(
            self.settings.delivery_ms, self._come_back, consumer, number, response
        )

    def _come_back(
        self, consumer: CoordinatedConsumer, number: int, response: m.GroupResponse
    ) -> None:
        if consumer.held:
            consumer.kept.append((number, response))
        elif not consumer.cut:
            consumer.receive(number, response)

    # What brokers and consumers report

    def boundary(self, broker: CoordinatorBroker, name: str, group_id: str) -> None:
        """Let the broker die here, as it coordinates a group, if it is to.

        Raises
        ------
        Died
            It does.
        """
        if self.dies is not None and self.dies(broker.id, name, group_id):
            self.log(f"broker {broker.id}", "dies", name)
            self.stop_broker(broker.id, session_ms=self.settings.broker_session_ms)
            raise Died

    def log(self, who: str, what: str, detail: str) -> None:
        """Keep a line of what happened."""
        if self.keep_log:
            self.logged.append(LogLine(self.schedule.now_ms, who, what, detail))

    def _note(self, kind: str, consumer: str, *details: object) -> None:
        if self.note is not None:
            self.note(self.schedule.now_ms, kind, consumer, *details)

    def rebalance_prepared(self, group_id: str, why: str) -> None:
        """Note that a rebalance of a group has begun."""
        self.costs.rebalances += 1
        self.costs.last_rebalance_ms = self.schedule.now_ms
        self.log(group_id, "rebalance", why)
        self._note("rebalance_began", "", group_id, why)

    def rebalance_done(self, group_id: str, members: int) -> None:
        """Note how many consumers a new generation has."""
        self.costs.took_part += members
        self.costs.last_rebalance_ms = self.schedule.now_ms
        self._note("rebalance_ended", "", group_id, members)

    def take(self, consumer: CoordinatedConsumer) -> None:
        """Let a consumer fetch its partitions."""
        self.schedule.spend(len(consumer.partitions))
        self.ledgers[consumer.group_id].take(consumer.name, consumer.partitions)

    def give(self, consumer: CoordinatedConsumer, *, commit: bool) -> None:
        """Let it stop, with a commit if the group still has it in this generation."""
        self.schedule.spend(len(consumer.partitions))
        commit = commit and self._may_commit(consumer)
        ledger = self.ledgers[consumer.group_id]
        ledger.give(consumer.name, consumer.partitions, commit=commit)

    def commit(self, consumer: CoordinatedConsumer) -> None:
        """Commit what a consumer has consumed."""
        self.schedule.spend(len(consumer.partitions))
        if self._may_commit(consumer):
            self.ledgers[consumer.group_id].commit(consumer.name, consumer.partitions)

    def _may_commit(self, consumer: CoordinatedConsumer) -> bool:
        """Whether the coordinator takes a commit: it is alive, and knows id and generation."""
        if consumer.cut or consumer.coordinator is None:
            return False
        self.costs.requests += 1
        broker = self.brokers[consumer.coordinator]
        group = broker.groups.get(consumer.group_id)
        if group is None or consumer.id not in group.members:
            return False
        if group.generation_id != consumer.generation_id:
            return False
        broker.guarded(broker.life, broker.shown, group, consumer.id)
        return True

    def _count_places(self, group_id: str, topic: str) -> None:
        """Count the owners of a topic's partitions from now on: somebody subscribes to it."""
        self.ledgers[group_id].watch((topic, n) for n in range(self.counts(topic)))

    def counts(self, topic: str) -> int:
        """Return how many partitions a topic has."""
        return self.store.topics.get(topic, 0)

    def owners(self, group_id: str = "group1") -> Mapping[TopicPartition, int]:
        """Return how many consumers fetch each partition of a group's topics."""
        return self.ledgers[group_id].owner_counts()
