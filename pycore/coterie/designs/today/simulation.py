"""Brokers, today's coordinator and consumers on one virtual clock.

Members are clients of ``coterie.testing``: they heartbeat, rejoin when required, and the leader
assigns. There is no polling: a consumer runs when its heartbeat is due, when a response has come,
or when it can reach its coordinator again; the coordinator runs at its deadlines. A consumer that
is cut off or held goes on fetching while its session expires. The leader sees new partitions when
its metadata are refreshed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie._core.codec.checksum import partition_for
from coterie.designs.coordinator09.play import Player, from_start
from coterie.designs.coordinator09.simulation import ProtocolCounts
from coterie.designs.coordinator09.store import Store
from coterie.designs.ledger import Ledgers
from coterie.designs.scenario import Scenario
from coterie.designs.schedule import Schedule
from coterie.designs.today.consumer import TodayConsumer
from coterie.designs.today.coordinator import CountedCoordinator
from coterie.designs.today.leaders import PARTITIONS, Leaders
from coterie.designs.today.log import OffsetsLog
from coterie.events import Response, Transition, Unanswered

SESSION_MS, METADATA_MS, COMMIT_MS = 45_000, 300_000, 5_000
DELIVERY_MS = 5  # of a response to its consumer
RETRY_MS = 100  # after an error
BOUNDARIES_OF_STATE = {  # boundaries of the 0.9 design, by the state that a group enters
    "PreparingRebalance": ("prepared", "told", "joined"),
    "CompletingRebalance": ("written",),
    "Stable": ("answered",),
}


@dataclass
class TodaySimulation:
    """Brokers, one coordinator and consumers, for the player of a scenario."""

    broker_ids: Sequence[int]
    from_start: bool = True
    note: Callable[..., None] | None = None
    schedule: Schedule = field(default_factory=Schedule)
    protocol_counts: ProtocolCounts = field(default_factory=ProtocolCounts)
    consumers: dict[str, TodayConsumer] = field(default_factory=dict)
    dies: Callable[[int, str, str], bool] | None = None

    def __post_init__(self) -> None:
        self.store = Store(tuple(self.broker_ids), live=set(self.broker_ids))
        self.log = OffsetsLog()
        self.coordinator = CountedCoordinator(
            self.log, on_event=self._on_event, member_ids=self._new_id
        )
        self.leaders = Leaders(
            self.store, self.schedule, resigns=self._resigns, loaded=self._loaded
        )
        self.ledgers = Ledgers(from_start=self.from_start, note=self._note)
        self._numbers: dict[str, int] = {}
        self._awaiting: dict[int, TodayConsumer] = {}  # by the id of the awaited response
        self._tick_ms: int | None = None  # when the coordinator runs next

    @property
    def costs(self) -> ProtocolCounts:
        """Counts so far."""
        self.protocol_counts.requests = self.coordinator.requests
        return self.protocol_counts

    def _new_id(self, prefix: str) -> str:
        number = self._numbers[prefix] = self._numbers.get(prefix, 0) + 1
        return f"{prefix}{number}"

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

    def start_consumer(
        self,
        name: str,
        topics: Sequence[str],
        *,
        group_id: str = "group1",
        session_timeout_ms: int | None = None,
        strategy: str = "range",
    ) -> None:
        """Start a consumer; no live consumer has its name."""
        ledger = self.ledgers.open(group_id)
        self.coordinator_of(group_id)
        consumer = self.consumers[name] = TodayConsumer(
            *(name, group_id, tuple(topics)),
            coordinator=self.coordinator,
            leaders=self.leaders,
            store=self.store,
            ledger=ledger,
            commit=self.commit,
            session_timeout_ms=session_timeout_ms or SESSION_MS,
            assignor=strategy,
        )
        self._act(consumer, consumer.turn)
        self.schedule.call_later(METADATA_MS, self._refresh, consumer)
        self.schedule.call_later(COMMIT_MS, self._commit, consumer)

    def commit(self, consumer: TodayConsumer) -> None:
        """Commit a consumer's progress."""
        if consumer.reachable and consumer.member.stable:
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

    def _wake(self, consumer: TodayConsumer, after_ms: int) -> None:
        """Schedule a consumer's next action, in place of the one scheduled before."""
        consumer.turn += 1
        self.schedule.call_later(after_ms, self._act, consumer, consumer.turn)

    def _act(self, consumer: TodayConsumer, turn: int) -> None:
        """Do what is due for a consumer, and schedule its next action."""
        if turn != consumer.turn or not consumer.reachable:
            return  # woken when it can reach the coordinator
        self.coordinator.move(self.schedule.now_ms)
        member = consumer.member
        member.poll()
        member.events.clear()
        if member.stable:
            self._wake(consumer, max(1, member.next_heartbeat_ms - self.schedule.now_ms))
            return
        pending = member.joining or member.syncing
        if pending is not None and pending.status == "waiting":
            self._awaiting[pending.id] = consumer
        else:
            self._wake(consumer, RETRY_MS)
        self._schedule_coordinator()
        self.coordinator.take_events()

    def _refresh(self, consumer: TodayConsumer) -> None:
        if not consumer.alive:
            return
        self.schedule.call_later(METADATA_MS, self._refresh, consumer)
        if not (consumer.reachable and consumer.refresh() and consumer.member.stable):
            return
        if self.coordinator.leads(consumer.group_id, consumer.member.member_id):
            consumer.rejoin()
            self._act(consumer, consumer.turn)

    def _commit(self, consumer: TodayConsumer) -> None:
        if consumer.alive:
            self.commit(consumer)
            self.schedule.call_later(COMMIT_MS, self._commit, consumer)

    # Reports

    def _note(self, kind: str, consumer: str, *details: object) -> None:
        if self.note is not None:
            self.note(self.schedule.now_ms, kind, consumer, *details)

    def _on_event(self, event: Any) -> None:
        """Deliver awaited responses, count rebalances, and stop brokers at their moments."""
        if isinstance(event, Response | Unanswered):
            consumer = self._awaiting.pop(event.id, None)
            if consumer is not None:
                self._wake(consumer, DELIVERY_MS)
        elif isinstance(event, Transition):
            self._changed(event)

    def _changed(self, event: Transition) -> None:
        if event.to == "PreparingRebalance":
            self.protocol_counts.rebalances += 1
            self._note("rebalance_began", "", event.group_id)
        elif event.to == "Stable":
            self._note("rebalance_ended", "", event.group_id)
            self.schedule.call_later(0, self._count_members, event.group_id)
        for boundary in BOUNDARIES_OF_STATE.get(event.to, ()):
            if self.dies is not None and self.dies(0, boundary, event.group_id):
                self.schedule.call_later(0, self._stop_coordinator, event.group_id)
                break

    def _count_members(self, group_id: str) -> None:
        self.protocol_counts.took_part += self.coordinator.size_of(group_id)

    def _stop_coordinator(self, group_id: str) -> None:
        broker = self.coordinator_of(group_id)
        if broker is not None:
            self.stop_broker(broker)


def play(
    scenario: Scenario,
    note: Callable[..., None] | None = None,
    schedule: Schedule | None = None,
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Play a scenario; return its points and counts."""
    schedule = schedule or Schedule()
    simulation = TodaySimulation(
        scenario.config.brokers, from_start(scenario), note, schedule=schedule
    )
    player = Player(scenario, simulation, note)
    player.run()
    costs = simulation.costs
    return player.points, {
        "rebalances": costs.rebalances,
        "took_part": costs.took_part,
        "requests": costs.requests,
        "refused": player.refused,
    }
