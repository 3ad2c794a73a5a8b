"""Brokers, consumers and ZooKeeper of the 0.9 design on one virtual clock.

Messages take a small time. Requests to a dead broker are refused; requests that a broker had
received when it died are never answered. A broker can be made to die at any boundary
(:data:`~coterie.designs.coordinator09.broker.BOUNDARIES`), such as those of the five points of
failure.
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
from coterie.schedule import Schedule

POINTS = {1: "prepared", 2: "told", 3: "joined", 4: "written", 5: "answered"}
"""The boundary of each of the document's five points of failure."""


@dataclass
class ProtocolCounts:
    """Counts of the network and the coordinators."""

    requests: int = 0
    rebalances: int = 0
    took_part: int = 0


@dataclass(frozen=True)
class LogLine:
    """A line of the log: a change of state, or a message."""

    at_ms: int
    source: str
    text: str
    detail: str


@dataclass
class CoordinatorSimulation:
    """The simulation: apply events, then :meth:`run_until` a time.

    Attributes
    ----------
    logged : list
        Lines of the log, with ``keep_log``.
    note : callable or None
        Called for each entry of the timeline: time (ms), kind, consumer, details.
    dies : callable or None
        ``dies(broker id, boundary, group id)``: whether a coordinator of a group dies at this
        boundary.
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
        self._subscribed: dict[str, set[str]] = {}  # group -> its topics so far
        self.brokers = {one: CoordinatorBroker(self, one) for one in self.broker_ids}
        self.store = Store(self.broker_ids)
        for broker in self.broker_ids:
            self.start_broker(broker)

    def run_until(self, at_ms: int) -> None:
        """Advance to a time."""
        self.schedule.run_until(at_ms)

    # Events of a scenario

    def start_broker(self, broker_id: int) -> None:
        """Start a broker, and elect coordinators for groups without one."""
        broker = self.brokers[broker_id]
        if not broker.alive:
            broker.start()
            self.store.live.add(broker_id)
            self._elect_all()

    def stop_broker(self, broker_id: int, *, session_ms: int = 0) -> None:
        """Kill a broker; its node in ZooKeeper remains until its session ends."""
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
                self._watch_partitions(group_id, topic)
        for broker in self.brokers.values():
            for group in broker.groups.values():
                if topic in group.topics:
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
        strategy: str | None = None,
    ) -> CoordinatedConsumer:
        """Start a consumer; no live consumer has its name."""
        timeout = session_timeout_ms or self.settings.session_timeout_ms
        consumer = self.consumers[name] = CoordinatedConsumer(
            self,
            name,
            group_id,
            tuple(topics),
            session_timeout_ms=timeout,
            strategy=strategy or "range",
        )
        self.ledgers.open(group_id)
        subscribed = self._subscribed.setdefault(group_id, set())
        for topic in consumer.topics:
            if topic not in subscribed:
                subscribed.add(topic)
                self._watch_partitions(group_id, topic)
        consumer.start()
        return consumer

    def produce(self, topic: str, partition: int, count: int) -> None:
        """Append messages, for every group."""
        self.ledgers.produce((topic, partition), count)

    def cut(self, name: str) -> None:
        """Cut a consumer off from all coordinators."""
        self.consumers[name].cut = True

    def heal(self, name: str) -> None:
        """Allow the consumer to connect again."""
        self.consumers[name].cut = False

    def hold(self, name: str) -> None:
        """Delay responses to a consumer."""
        self.consumers[name].held = True

    def release(self, name: str) -> None:
        """Deliver delayed responses, in order."""
        consumer = self.consumers[name]
        consumer.held = False
        delayed, consumer.delayed = consumer.delayed, []
        for number, response in delayed:
            consumer.receive(number, response)

    # Coordinators

    def coordinator_of(self, group_id: str) -> int | None:
        """Return the coordinator of a group; elect one at the first request."""
        before = self.store.coordinators.get(group_id)
        coordinator = self.store.elect(group_id)
        if coordinator is not None and coordinator != before:
            self._notify_elected(group_id, coordinator)
        return coordinator

    def _elect_all(self) -> None:
        for group_id in list(self.store.coordinators):
            self.coordinator_of(group_id)

    def _notify_elected(self, group_id: str, broker_id: int) -> None:
        broker = self.brokers[broker_id]
        arguments = broker.guarded, broker.life, broker.elected, group_id
        self.schedule.call_later(self.settings.watch_ms, *arguments)

    def _session_ended(self, broker_id: int, life: int) -> None:
        broker = self.brokers[broker_id]
        if broker.life == life:
            self.store.live.discard(broker_id)
        # a broker that is back has an empty memory: its groups need a coordinator too
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
            consumer.delayed.append((number, response))
        elif not consumer.cut:
            consumer.receive(number, response)

    # Reports of brokers and consumers

    def boundary(self, broker: CoordinatorBroker, name: str, group_id: str) -> None:
        """Kill a coordinator at a boundary, if ``dies`` says so.

        Raises
        ------
        Died
            The broker has died.
        """
        if self.dies is not None and self.dies(broker.id, name, group_id):
            self.log(f"broker {broker.id}", "dies", name)
            self.stop_broker(broker.id, session_ms=self.settings.broker_session_ms)
            raise Died

    def log(self, source: str, text: str, detail: str) -> None:
        """Log an event, with ``keep_log``."""
        if self.keep_log:
            self.logged.append(LogLine(self.schedule.now_ms, source, text, detail))

    def _note(self, kind: str, consumer: str, *details: object) -> None:
        if self.note is not None:
            self.note(self.schedule.now_ms, kind, consumer, *details)

    def rebalance_prepared(self, group_id: str, reason: str) -> None:
        """Record the start of a rebalance."""
        self.costs.rebalances += 1
        self.log(group_id, "rebalance", reason)
        self._note("rebalance_began", "", group_id, reason)

    def rebalance_done(self, group_id: str, members: int) -> None:
        """Record a new generation, with its number of members."""
        self.costs.took_part += members
        self._note("rebalance_ended", "", group_id, members)

    def take(self, consumer: CoordinatedConsumer) -> None:
        """Start a consumer's fetching of its partitions."""
        self.schedule.spend(len(consumer.partitions))
        self.ledgers[consumer.group_id].take(consumer.name, consumer.partitions)

    def give(self, consumer: CoordinatedConsumer, *, commit: bool) -> None:
        """Stop a consumer's fetching; commit first if it is still a member of this generation."""
        self.schedule.spend(len(consumer.partitions))
        commit = commit and self._may_commit(consumer)
        ledger = self.ledgers[consumer.group_id]
        ledger.give(consumer.name, consumer.partitions, commit=commit)

    def commit(self, consumer: CoordinatedConsumer) -> None:
        """Commit a consumer's progress."""
        self.schedule.spend(len(consumer.partitions))
        if self._may_commit(consumer):
            self.ledgers[consumer.group_id].commit(consumer.name, consumer.partitions)

    def _may_commit(self, consumer: CoordinatedConsumer) -> bool:
        """Return whether a live coordinator accepts a commit of this id and generation."""
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

    def _watch_partitions(self, group_id: str, topic: str) -> None:
        """Include a topic's partitions in the counts of owners."""
        self.ledgers[group_id].watch((topic, n) for n in range(self.counts(topic)))

    def counts(self, topic: str) -> int:
        """Return how many partitions a topic has."""
        return self.store.topics.get(topic, 0)

    def owners(self, group_id: str = "group1") -> Mapping[TopicPartition, int]:
        """Return how many consumers fetch each partition of a group's topics."""
        return self.ledgers[group_id].owner_counts()
