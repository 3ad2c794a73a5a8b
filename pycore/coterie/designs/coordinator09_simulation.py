"""Brokers, consumers and ZooKeeper of the 0.9 design on one virtual clock.

Messages take a small time. Requests to a dead broker are refused; requests that a broker had
received when it died are never answered. A broker can be made to die at any boundary
(:data:`~coterie.designs.coordinator09.BOUNDARIES`), such as those of the five points of
failure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.base.schedule import Schedule
from coterie.designs import consumer08_registration as registration
from coterie.designs import coordinator09_messages as m
from coterie.designs import ops
from coterie.designs.consumer08_cluster import consumer_config
from coterie.designs.coordinator09 import (
    CoordinatedConsumer,
    CoordinatorBroker,
    CoordinatorSettings,
    Died,
    Store,
)
from coterie.designs.ledger import Ledgers, TopicPartition
from coterie.designs.ops import MOMENTS
from coterie.designs.scenario import Scenario

POINTS = {1: "prepared", 2: "told", 3: "joined", 4: "written", 5: "answered"}
"""The boundary of each of the document's five points of failure."""


@dataclass
class ProtocolCounts:
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
        self.ledgers.produce((topic, partition), count)

    def cut(self, name: str) -> None:
        self.consumers[name].cut = True

    def heal(self, name: str) -> None:
        """Allow the consumer to connect again."""
        self.consumers[name].cut = False

    def hold(self, name: str) -> None:
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
        """Kill a coordinator at a boundary, if ``dies`` says so."""
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
        self.costs.rebalances += 1
        self.log(group_id, "rebalance", reason)
        self._note("rebalance_began", "", group_id, reason)

    def rebalance_done(self, group_id: str, members: int) -> None:
        self.costs.took_part += members
        self._note("rebalance_ended", "", group_id, members)

    def take(self, consumer: CoordinatedConsumer) -> None:
        self.schedule.spend(len(consumer.partitions))
        self.ledgers[consumer.group_id].take(consumer.name, consumer.partitions)

    def give(self, consumer: CoordinatedConsumer, *, commit: bool) -> None:
        """Stop a consumer's fetching; commit first if it is still a member of this generation."""
        self.schedule.spend(len(consumer.partitions))
        commit = commit and self._may_commit(consumer)
        ledger = self.ledgers[consumer.group_id]
        ledger.give(consumer.name, consumer.partitions, commit=commit)

    def commit(self, consumer: CoordinatedConsumer) -> None:
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
        self.ledgers[group_id].watch((topic, n) for n in range(self.counts(topic)))

    def counts(self, topic: str) -> int:
        return self.store.topics.get(topic, 0)

    def owners(self, group_id: str = "group1") -> Mapping[TopicPartition, int]:
        """Return how many consumers fetch each partition of a group's topics."""
        return self.ledgers[group_id].owner_counts()


# Play a scenario under the 0.9 design: the effect of each op, and the state at each point.
#
# ``zk_cut`` and ``zk_hold`` apply to a consumer's connection to the brokers. ``expire`` and foreign
# nodes have no effect. A topic filter is resolved when its consumer starts, since a JoinGroup names
# topics.


SESSION = "zookeeper.session.timeout.ms"  # one setting for all designs
STRATEGY = "partition.assignment.strategy"
BOUNDARY = dict(zip(MOMENTS, POINTS.values(), strict=True))


class Player:
    """Apply the ops of a scenario to the simulation of a design with a coordinator."""

    def __init__(
        self, scenario: Scenario, simulation: Any, note: Callable[..., None] | None
    ) -> None:
        self.scenario, self.simulation = scenario, simulation
        self.states: dict[str, str] = {}
        self.note = note
        self.points: list[dict[str, Any]] = []
        self.replicas: dict[str, list[tuple[int, ...]]] = {}  # of each partition, by topic
        self.refused = 0  # messages for partitions without a live replica
        self.stops: dict[str, list[str]] = {}  # boundaries of the next rebalances, by group
        simulation.dies = self.dies
        self.effects: dict[type[ops.Op], Callable[[Any], None]] = {
            ops.CreateTopic: self.create_topic,
            ops.AddPartitions: self.add_partitions,
            ops.DeleteTopic: self.delete_topic,
            ops.Produce: self.produce,
            ops.Start: self.start,
            ops.Close: self.close,
            ops.Crash: self.crash,
            ops.Commit: lambda op: self.simulation.commit(self.simulation.consumers[op.consumer]),
            ops.ZkCut: lambda op: self.simulation.cut(op.consumer),
            ops.ZkHeal: lambda op: self.simulation.heal(op.consumer),
            ops.ZkHold: lambda op: self.simulation.hold(op.consumer),
            ops.ZkRelease: lambda op: self.simulation.release(op.consumer),
            ops.BrokerStop: lambda op: self.simulation.stop_broker(op.broker),
            ops.BrokerStart: lambda op: self.simulation.start_broker(op.broker),
            ops.CoordinatorStop: self.coordinator_stop,
            ops.Settle: self.settle,
        }
        if not scenario.config.brokers_up:
            for broker in scenario.config.brokers:
                self.simulation.stop_broker(broker)

    def run(self) -> None:
        for op in self.scenario.ops:
            self.simulation.run_until(op.at)
            effect = self.effects.get(type(op))
            if effect is not None:
                effect(op)
        self.simulation.run_until(self.scenario.ops[-1].at if self.scenario.ops else 0)

    def create_topic(self, op: ops.CreateTopic) -> None:
        self.replicas[op.topic] = list(op.replicas)
        self.simulation.set_topic(op.topic, len(op.replicas))

    def add_partitions(self, op: ops.AddPartitions) -> None:
        self.replicas[op.topic] += op.replicas
        self.simulation.set_topic(op.topic, self.simulation.counts(op.topic) + len(op.replicas))

    def produce(self, op: ops.Produce) -> None:
        """Append messages if a replica lives, so that the partition has a leader."""
        if any(self.simulation.is_up(broker) for broker in self.replicas[op.topic][op.partition]):
            self.simulation.produce(op.topic, op.partition, op.count)
        else:
            self.refused += op.count

    def delete_topic(self, op: ops.DeleteTopic) -> None:
        if self.scenario.config.deletes_topics:
            self.simulation.set_topic(op.topic, 0)

    def start(self, op: ops.Start) -> None:
        settings = {**self.scenario.config.consumer, **op.config}
        config = consumer_config(settings)
        if op.subscription is not None:
            topics = sorted(op.subscription)
        else:
            pattern = "white_list" if op.whitelist is not None else "black_list"
            text = op.whitelist if op.whitelist is not None else op.blacklist
            subscription = registration.by_filter(pattern, text or "", op.streams)
            present = [name for name, size in self.simulation.store.topics.items() if size]
            topics = sorted(subscription.topics(present, exclude_internal=True))
        self.states[op.name] = "running"
        self._note("started", op.name)
        timeout = config.zookeeper_session_timeout_ms if SESSION in settings else None
        self.simulation.start_consumer(
            op.name,
            topics,
            group_id=op.group,
            session_timeout_ms=timeout,
            strategy=config.partition_assignment_strategy if STRATEGY in settings else None,
        )

    def close(self, op: ops.Close) -> None:
        self.simulation.consumers[op.consumer].close()
        self.states[op.consumer] = "closed"
        self._note("closed", op.consumer)

    def crash(self, op: ops.Crash) -> None:
        self.simulation.consumers[op.consumer].crash()
        self.states[op.consumer] = "crashed"
        self._note("crashed", op.consumer)

    def coordinator_stop(self, op: ops.CoordinatorStop) -> None:
        """Stop the coordinator now, or at a moment of the group's next rebalance."""
        broker = self.simulation.coordinator_of(op.group)
        if not op.moment:
            if broker is not None:
                self.simulation.stop_broker(broker)
            return
        self.stops.setdefault(op.group, []).append(BOUNDARY[op.moment])

    def dies(self, _: int, boundary: str, group: str) -> bool:
        """Return whether a group's coordinator stops at a boundary, by the next of its stops."""
        stops = self.stops.get(group)
        if not stops or stops[0] != boundary:
            return False
        stops.pop(0)
        return True

    def settle(self, op: ops.Settle) -> None:
        consumers = {}
        unowned, several = [], {}
        for group, ledger in sorted(self.simulation.ledgers.items()):
            subscribed = {
                topic
                for one in self.simulation.consumers.values()
                if one.group_id == group and one.alive
                for topic in one.topics
            }
            for (topic, number), owners in sorted(ledger.owners.items()):
                place = f"{group} {topic}/{number}"
                if not owners and topic in subscribed:
                    unowned.append(place)
                if len(owners) > 1:
                    several[place] = sorted(owners)
        owned = {group: ledger.owned_by_all() for group, ledger in self.simulation.ledgers.items()}
        for name, one in sorted(self.simulation.consumers.items()):
            ledger = self.simulation.ledgers[one.group_id]
            consumers[name] = {
                "state": self.states[name],
                "in_group": one.in_group,
                "generation": one.generation_id,
                "next_offsets": {
                    f"{topic}/{number}": offset
                    for (topic, number), offset in owned[one.group_id].get(name, {}).items()
                },
                "consumed": {
                    f"{topic}/{number}": ranges
                    for (topic, number), ranges in sorted(ledger.ranges_of(name).items())
                },
            }
        point = {"point": op.point, "at": op.at, "consumers": consumers}
        point["partitions_without_consumer"] = unowned
        point["partitions_that_several_believe_theirs"] = several
        self.points.append(point)

    def _note(self, kind: str, consumer: str) -> None:
        if self.note is not None:
            self.note(self.simulation.schedule.now_ms, kind, consumer)


def from_start(scenario: Scenario) -> bool:
    """Return whether consumers without a committed offset begin at the start."""
    return consumer_config(scenario.config.consumer).auto_offset_reset == "smallest"


def play(
    scenario: Scenario,
    note: Callable[..., None] | None = None,
    schedule: Schedule | None = None,
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Play a scenario; return its points and counts."""
    settings = CoordinatorSettings(from_start=from_start(scenario))
    schedule = schedule or Schedule()
    simulation = CoordinatorSimulation(
        scenario.config.brokers, settings, keep_log=False, note=note, schedule=schedule
    )
    player = Player(scenario, simulation, note)
    player.run()
    costs, store = simulation.costs, simulation.store
    return player.points, {
        "rebalances": costs.rebalances,
        "took_part": costs.took_part,
        "watch_events": store.watch_events,
        "zookeeper_operations": store.operations,
        "requests": costs.requests,
        "refused": player.refused,
    }
