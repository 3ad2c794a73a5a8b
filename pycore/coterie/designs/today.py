"""Today's coordinator under the ops of a scenario: coterie's own, with scripted members.

Members are clients as ``coterie.testing`` has them: they heartbeat, rejoin when told, and the
leader assigns. The broker that coordinates is one of several; when it stops, the next one loads
the log. A consumer that is cut off or held keeps fetching, and its session runs out meanwhile. New
partitions are seen by the leader when its metadata are refreshed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.coordinator.group_coordinator import GroupCoordinator
from coterie.designs.coordinator09.cluster import Costs
from coterie.designs.coordinator09.play import Player, from_start
from coterie.designs.coordinator09.store import Store
from coterie.designs.ledger import Ledger, Place
from coterie.designs.scenario import Scenario
from coterie.designs.schedule import Schedule
from coterie.events import Transition
from coterie.testing import Member

SESSION_MS, HEARTBEAT_MS, METADATA_MS = 45_000, 3_000, 300_000
COMMIT_MS, POLL_MS, LOAD_MS = 5_000, 50, 1_000
MOMENTS = {  # where a group is at the boundaries of the 0.9 design
    "PreparingRebalance": ("prepared", "told", "joined"),
    "CompletingRebalance": ("written",),
    "Stable": ("answered",),
}


class _Counted(GroupCoordinator):
    """A coordinator that counts what it is asked."""

    requests = 0

    def join_group(self, *given: Any, **more: Any) -> Any:
        self.requests += 1
        return super().join_group(*given, **more)

    def sync_group(self, *given: Any, **more: Any) -> Any:
        self.requests += 1
        return super().sync_group(*given, **more)

    def heartbeat(self, *given: Any, **more: Any) -> Any:
        self.requests += 1
        return super().heartbeat(*given, **more)

    def offset_commit(self, *given: Any, **more: Any) -> Any:
        self.requests += 1
        return super().offset_commit(*given, **more)

    def leave_group(self, *given: Any, **more: Any) -> Any:
        self.requests += 1
        return super().leave_group(*given, **more)


class _Metadata(dict[str, int]):
    """Partition counts of a member's topics; of others', those of the cluster."""

    def __init__(self, own: Sequence[str], cluster: dict[str, int]) -> None:
        super().__init__({topic: cluster.get(topic, 0) for topic in own})
        self._seen = dict(cluster)

    def get(self, topic: str, default: Any = 0) -> Any:
        return self._seen.get(topic, 0)


class Consumer:
    """A member with its ledger's view of it."""

    def __init__(
        self, cluster: Cluster, name: str, group_id: str, topics: tuple[str, ...], **given: Any
    ) -> None:
        self.cluster, self.name, self.group_id, self.topics = cluster, name, group_id, topics
        self.alive, self.away = True, False
        self.member = Member(
            *(cluster.coordinator, group_id),
            client_id=name,
            topics={topic: cluster.counts(topic) for topic in topics},
            on_rebalance=self._rebalanced,
            heartbeat_interval_ms=HEARTBEAT_MS,
            **given,
        )
        self.refresh()

    @property
    def generation_id(self) -> int:
        """Its generation."""
        return self.member.generation_id

    @property
    def in_group(self) -> str:
        """What it is doing."""
        if not self.alive:
            return "Down"
        return "Stable" if self.member.stable else "Joining"

    def close(self) -> None:
        """Leave the group, with a commit; without one where the coordinator cannot be reached."""
        if self.away or self.cluster.down:
            self.crash()
            return
        self.cluster.commit(self)
        if self.member.member_id:
            self.member.leave()
        self.alive = False

    def crash(self) -> None:
        """Be gone."""
        self.alive = False
        self.member.crash()
        ledger = self.cluster.ledgers[self.group_id]
        ledger.give(self.name, list(ledger.owned_by(self.name)), commit=False)

    def refresh(self) -> bool:
        """Take new metadata; whether they differ for its topics."""
        before = dict(self.member.partitions)
        self.member.partitions = _Metadata(self.topics, self.cluster.store.topics)
        return before != dict(self.member.partitions)

    def rejoin(self) -> None:
        """Join again, as a leader whose topics have changed."""
        self._rebalanced("revoked", list(self.places()))
        self.member.assignment = {}
        self.member.needs_join = True

    def places(self) -> list[Place]:
        """Partitions that it was assigned."""
        return [(topic, n) for topic, held in self.member.assignment.items() for n in held]

    def _rebalanced(self, how: str, places: list[Place]) -> None:
        ledger = self.cluster.ledgers[self.group_id]
        if how == "assigned":
            ledger.take(self.name, places)
        else:
            ledger.give(self.name, places, commit=how == "revoked")


@dataclass
class Cluster:
    """Brokers, one coordinator, consumers: what a scenario's player drives."""

    broker_ids: Sequence[int]
    from_start: bool = True
    note: Callable[..., None] | None = None
    schedule: Schedule = field(default_factory=Schedule)
    kept: Costs = field(default_factory=Costs)
    consumers: dict[str, Consumer] = field(default_factory=dict)
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    down: bool = False
    dies: Callable[[int, str], bool] | None = None

    def __post_init__(self) -> None:
        self.store = Store(tuple(self.broker_ids), live=set(self.broker_ids))
        self.coordinator = _Counted(on_event=self._happened, member_ids=self._new_id)
        self._ends: dict[Place, int] = {}
        self._numbers: dict[str, int] = {}

    @property
    def costs(self) -> Costs:
        """Sums so far."""
        self.kept.requests = self.coordinator.requests
        return self.kept

    def _new_id(self, prefix: str) -> str:
        number = self._numbers[prefix] = self._numbers.get(prefix, 0) + 1
        return f"{prefix}{number}"

    def run_until(self, at_ms: int) -> None:
        """Let time pass."""
        self.schedule.run_until(at_ms)
        self.coordinator.advance(at_ms)

    def counts(self, topic: str) -> int:
        """Return how many partitions a topic has."""
        return self.store.topics.get(topic, 0)

    def set_topic(self, topic: str, partitions: int) -> None:
        """Create a topic, give it more partitions, or delete it (0)."""
        self.store.topics[topic] = partitions

    def produce(self, topic: str, partition: int, count: int) -> None:
        """Add messages, for every group."""
        self._ends[topic, partition] = self._ends.get((topic, partition), 0) + count
        for ledger in self.ledgers.values():
            ledger.produce((topic, partition), count)

    def start_consumer(
        self,
        name: str,
        topics: Sequence[str],
        *,
        group_id: str = "group1",
        session_timeout_ms: int | None = None,
        strategy: str = "range",
    ) -> None:
        """Start a consumer under a name that no live one has."""
        if group_id not in self.ledgers:
            ledger = self.ledgers[group_id] = Ledger(from_start=self.from_start, note=self._note)
            ledger.ends.update(self._ends)
        self.coordinator_of(group_id)
        consumer = self.consumers[name] = Consumer(
            *(self, name, group_id, tuple(topics)),
            session_timeout_ms=session_timeout_ms or SESSION_MS,
            assignor=strategy,
        )
        self._poll(consumer)
        self.schedule.call_later(METADATA_MS, self._refresh, consumer)
        self.schedule.call_later(COMMIT_MS, self._commit, consumer)

    def commit(self, consumer: Consumer) -> None:
        """Commit what a consumer has consumed."""
        if consumer.member.stable and not consumer.away and not self.down:
            self.coordinator.requests += 1
            self.ledgers[consumer.group_id].commit(consumer.name, consumer.places())

    def cut(self, name: str) -> None:
        """Cut a consumer off from the coordinator."""
        self.consumers[name].away = True

    def heal(self, name: str) -> None:
        """Let it connect again."""
        self.consumers[name].away = False

    hold, release = cut, heal

    def coordinator_of(self, group_id: str) -> int | None:
        """Find the broker that coordinates."""
        return self.store.elect(group_id)

    def stop_broker(self, broker_id: int) -> None:
        """Stop a broker; if it coordinates, the next one loads the log."""
        self.store.live.discard(broker_id)
        if broker_id in self.store.coordinators.values() and not self.down:
            self.down = True
            self.coordinator.resign()
            self.coordinator.begin_load()
            self.schedule.call_later(LOAD_MS, self._load)

    def start_broker(self, broker_id: int) -> None:
        """Start a broker."""
        self.store.live.add(broker_id)
        if self.down:
            self.schedule.call_later(LOAD_MS, self._load)

    def _load(self) -> None:
        if self.down and self.store.live:
            for group_id in self.store.coordinators:
                self.store.elect(group_id)
            self.coordinator.advance(self.schedule.now_ms)
            self.coordinator.finish_load()
            self.down = False

    def _poll(self, consumer: Consumer) -> None:
        """Let a consumer do what is due, and come again."""
        if not consumer.alive:
            return
        now = self.schedule.now_ms
        if not consumer.away and not self.down:
            self.coordinator.advance(now)
            consumer.member.poll()
        wait = POLL_MS
        if consumer.member.stable and not consumer.away and not self.down:
            wait = max(1, consumer.member.next_heartbeat_ms - now)
        self.schedule.call_later(wait, self._poll, consumer)

    def _refresh(self, consumer: Consumer) -> None:
        if not consumer.alive:
            return
        if not consumer.away and not self.down:
            group = self.coordinator.snapshot(consumer.group_id)
            leads = group is not None and group.leader_id == consumer.member.member_id
            if consumer.refresh() and leads and consumer.member.stable:
                consumer.rejoin()
        self.schedule.call_later(METADATA_MS, self._refresh, consumer)

    def _commit(self, consumer: Consumer) -> None:
        if consumer.alive:
            self.commit(consumer)
            self.schedule.call_later(COMMIT_MS, self._commit, consumer)

    def _note(self, kind: str, consumer: str, *details: object) -> None:
        if self.note is not None:
            self.note(self.schedule.now_ms, kind, consumer, *details)

    def _happened(self, event: Any) -> None:
        """Count rebalances by the group's transitions; stop the broker at its moment."""
        if not isinstance(event, Transition):
            return
        if event.to == "PreparingRebalance":
            self.kept.rebalances += 1
            self._note("rebalance_began", "", event.group_id)
        elif event.to == "Stable":
            self._note("rebalance_ended", "", event.group_id)
            self.schedule.call_later(0, self._count_members, event.group_id)
        for boundary in MOMENTS.get(event.to, ()):
            if self.dies is not None and self.dies(0, boundary):
                self.schedule.call_later(0, self._coordinator_dies, event.group_id)

    def _count_members(self, group_id: str) -> None:
        group = self.coordinator.snapshot(group_id)
        self.kept.took_part += len(group.members) if group else 0

    def _coordinator_dies(self, group_id: str) -> None:
        broker = self.coordinator_of(group_id)
        if broker is not None:
            self.stop_broker(broker)


def play(
    scenario: Scenario, note: Callable[..., None] | None = None
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Play a scenario; return its points and what was counted."""
    cluster = Cluster(scenario.config.brokers, from_start(scenario), note)
    player = Player(scenario, cluster, note)
    player.run()
    costs = cluster.costs
    return player.points, {
        "rebalances": costs.rebalances,
        "took_part": costs.took_part,
        "requests": costs.requests,
    }
