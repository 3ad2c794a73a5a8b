"""Brokers, one coordinator and consumers on one virtual clock: what both protocols share.

Members are clients of ``coterie.testing``. There is no polling: a consumer acts when its heartbeat
is due, when a response has come, or when it can reach its coordinator again; the coordinator runs
at its deadlines. A consumer that is cut off or held goes on fetching while its session expires.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from coterie._core.codec.compression import partition_for
from coterie.designs.coordinator09.play import Player, from_start
from coterie.designs.coordinator09.simulation import ProtocolCounts
from coterie.designs.coordinator09.store import Store
from coterie.designs.ledger import Ledgers
from coterie.designs.scenario import Scenario
from coterie.designs.today.leaders import PARTITIONS, Leaders
from coterie.designs.today.member import GroupConsumer
from coterie.schedule import Schedule
from coterie.testing.cluster.coordinator import CountedCoordinator
from coterie.testing.cluster.log import OffsetsLog

COMMIT_MS = 5_000
DELIVERY_MS = 5  # of a response to its consumer


@dataclass
class GroupCluster:
    """Brokers, a coordinator of one protocol and consumers, for the player of a scenario."""

    broker_ids: Sequence[int]
    from_start: bool = True
    note: Callable[..., None] | None = None
    schedule: Schedule = field(default_factory=Schedule)
    protocol_counts: ProtocolCounts = field(default_factory=ProtocolCounts)
    consumers: dict[str, Any] = field(default_factory=dict)
    dies: Callable[[int, str, str], bool] | None = None
    behaviour: ClassVar[str] = "3.9"  # of the coordinator

    def __post_init__(self) -> None:
        self.store = Store(tuple(self.broker_ids), live=set(self.broker_ids))
        self.log = OffsetsLog()
        self.coordinator = CountedCoordinator(
            {"coterie.behaviour": self.behaviour},
            on_event=self._on_event,
            log_sink=self.log,
        )
        self.leaders = Leaders(
            self.store, self.schedule, resigns=self._resigns, loaded=self._loaded
        )
        self.ledgers = Ledgers(from_start=self.from_start, note=self._note)
        self._tick_ms: int | None = None  # when the coordinator runs next

    @property
    def costs(self) -> ProtocolCounts:
        """Counts so far."""
        self.protocol_counts.requests = self.coordinator.requests
        return self.protocol_counts

    # Events of a scenario

    def run_until(self, at_ms: int) -> None:
        """Advance to a time."""
        self.schedule.run_until(at_ms)
        self.coordinator.move(at_ms)

    def counts(self, topic: str) -> int:
        """Return how many partitions a topic has."""
        return self.store.topics.get(topic, 0)

    def set_topic(self, topic: str, partitions: int) -> None:
        """Create a topic, give it more partitions, or delete it (0)."""
        self.store.topics[topic] = partitions

    def produce(self, topic: str, partition: int, count: int) -> None:
        """Append messages, for every group."""
        self.ledgers.produce((topic, partition), count)

    def _enter(self, consumer: GroupConsumer) -> None:
        """Let a new consumer begin; no live one has its name."""
        self.consumers[consumer.name] = consumer
        self._act(consumer, consumer.turn)

    def commit(self, consumer: GroupConsumer) -> None:
        """Commit a consumer's progress."""
        if consumer.reachable and consumer.may_commit:
            self.coordinator.requests += 1
            places = consumer.places()
            self.schedule.spend(len(places))
            self.ledgers[consumer.group_id].commit(consumer.name, places)

    def cut(self, name: str) -> None:
        """Cut a consumer off from the coordinator."""
        self.consumers[name].away = True

    def heal(self, name: str) -> None:
        """Allow the consumer to connect again."""
        self.consumers[name].away = False
        self._wake(self.consumers[name], DELIVERY_MS)

    hold, release = cut, heal

    def coordinator_of(self, group_id: str) -> int | None:
        """Return the coordinator of a group."""
        return self.leaders.of(group_id)

    def stop_broker(self, broker_id: int) -> None:
        """Stop a broker; the next one loads the log of its groups."""
        self.leaders.stopped(broker_id)

    def start_broker(self, broker_id: int) -> None:
        """Start a broker."""
        self.leaders.started(broker_id)

    def is_up(self, broker_id: int) -> bool:
        """Whether a broker lives."""
        return broker_id in self.store.live

    # Coordinators

    def _resigns(self, partition: int) -> None:
        """Forget the groups of a partition: its leader has stopped."""
        self.coordinator.move(self.schedule.now_ms)
        self.coordinator.resign(partition)
        self.coordinator.begin_load(partition)

    def _loaded(self, partition: int) -> None:
        """Load the groups of a partition from the log; their consumers go on."""
        self.coordinator.move(self.schedule.now_ms)
        self.coordinator.finish_load(partition)
        for consumer in self.consumers.values():
            if partition_for(consumer.group_id, PARTITIONS) == partition:
                self._wake(consumer, DELIVERY_MS)
        self._schedule_coordinator()

    def _schedule_coordinator(self) -> None:
        """Run the coordinator at its next deadline, unless it is scheduled earlier."""
        deadline = self.coordinator.next_deadline_ms()
        if deadline is not None and (self._tick_ms is None or deadline < self._tick_ms):
            self._tick_ms = deadline
            self.schedule.call_at(deadline, self._run_coordinator, deadline)

    def _run_coordinator(self, at_ms: int) -> None:
        if at_ms == self._tick_ms:  # otherwise an earlier deadline has replaced this one
            self._tick_ms = None
            self.coordinator.move(self.schedule.now_ms)
            self._schedule_coordinator()

    # Actions of consumers

    def _wake(self, consumer: GroupConsumer, after_ms: int) -> None:
        """Schedule a consumer's next action, in place of the one scheduled before."""
        consumer.turn += 1
        self.schedule.call_later(after_ms, self._act, consumer, consumer.turn)

    def _act(self, consumer: GroupConsumer, turn: int) -> None:
        """Do what is due for a consumer, if it was not woken for something else meanwhile."""
        if turn == consumer.turn and consumer.reachable:  # else it is woken when it can reach it
            self.coordinator.move(self.schedule.now_ms)
            self._take_turn(consumer)

    def _take_turn(self, consumer: Any) -> None:
        """Do what is due for a consumer, and schedule its next action."""
        raise NotImplementedError

    def _commit(self, consumer: GroupConsumer) -> None:
        if consumer.alive:
            self.commit(consumer)
            self.schedule.call_later(COMMIT_MS, self._commit, consumer)

    # Reports

    def _note(self, kind: str, consumer: str, *details: object) -> None:
        if self.note is not None:
            self.note(self.schedule.now_ms, kind, consumer, *details)

    def _on_event(self, event: Any) -> None:
        """Take an event of the coordinator, which must not be called from here."""
        raise NotImplementedError

    def _began(self, group_id: str) -> None:
        self.protocol_counts.rebalances += 1
        self._note("rebalance_began", "", group_id)

    def _ended(self, group_id: str) -> None:
        self._note("rebalance_ended", "", group_id)

    def _pass(self, boundaries: Iterable[str], group_id: str) -> None:
        """Stop the group's coordinator if the scenario says so for one of these boundaries."""
        if self.dies is not None and any(self.dies(0, one, group_id) for one in boundaries):
            self.schedule.call_later(0, self._stop_coordinator, group_id)

    def _stop_coordinator(self, group_id: str) -> None:
        broker = self.coordinator_of(group_id)
        if broker is not None:
            self.stop_broker(broker)


def play_in(
    kind: type[GroupCluster],
    scenario: Scenario,
    note: Callable[..., None] | None,
    schedule: Schedule | None,
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Play a scenario in a cluster of this kind; return its points and counts."""
    cluster = kind(
        scenario.config.brokers, from_start(scenario), note, schedule=schedule or Schedule()
    )
    player = Player(scenario, cluster, note)
    player.run()
    costs = cluster.costs
    return player.points, {
        "rebalances": costs.rebalances,
        "took_part": costs.took_part,
        "requests": costs.requests,
        "refused": player.refused,
    }
