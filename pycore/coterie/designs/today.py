"""Today's coordinator under the ops of a scenario: coterie's own, with scripted members.

``GroupCluster`` has what the classic and the consumer protocol share: the clock, brokers, and the
next action of each; ``Leaders`` the leaders of the offsets topic's partitions. ``GroupConsumer`` is
a fetching member of ``coterie.testing``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from coterie._core.codec.compression import partition_for
from coterie.base.schedule import Schedule
from coterie.designs.coordinator09 import Store
from coterie.designs.coordinator09_simulation import Player, ProtocolCounts, from_start
from coterie.designs.ledger import Ledgers, TopicPartition
from coterie.designs.scenario import Scenario
from coterie.events import Response, Transition, Unanswered
from coterie.testing.assignors.base import flat
from coterie.testing.classic import ClassicMember
from coterie.testing.cluster_coordinator import CountedCoordinator
from coterie.testing.member import Member
from coterie.testing.topic_log import OffsetsLog

# The leaders of the offsets topic's partitions, which coordinate the groups.
#
# When a leader stops, the next live broker is elected and loads the partition. Until it has loaded
# it, requests of its groups are not answered. If it stops meanwhile, the next one begins to load.


PARTITIONS = 50  # of the offsets topic
LOAD_MS = 1_000  # from an election until the log is read


class Leaders:
    """Leaders of the partitions of all groups."""

    def __init__(
        self,
        store: Store,
        schedule: Schedule,
        *,
        resigns: Callable[[int], None],
        loaded: Callable[[int], None],
    ) -> None:
        self._store, self._schedule = store, schedule
        self._resigns, self._loaded = resigns, loaded
        self._elections: dict[int, int] = {}  # count by partition
        self._unavailable: set[int] = set()  # without a leader, or loading

    def of(self, group_id: str) -> int | None:
        """Return the coordinator of a group; None if no broker lives."""
        partition = partition_for(group_id, PARTITIONS)
        if partition not in self._elections:
            self._elections[partition] = 0
            if self._store.elect(str(partition)) is None:
                self._resigns(partition)
                self._unavailable.add(partition)
        leader = self._store.coordinators.get(str(partition))
        return leader if leader in self._store.live else None

    def answers(self, group_id: str) -> bool:
        return partition_for(group_id, PARTITIONS) not in self._unavailable

    def stopped(self, broker: int) -> None:
        """Handle a stopped broker: its partitions need another leader."""
        self._store.live.discard(broker)
        for partition in self._elections:
            if self._store.coordinators.get(str(partition)) == broker:
                if partition not in self._unavailable:
                    self._unavailable.add(partition)
                    self._resigns(partition)
                self._elect(partition)

    def started(self, broker: int) -> None:
        """Handle a started broker: it leads partitions without a leader."""
        leaderless = [one for one in self._unavailable if not self._has_leader(one)]
        self._store.live.add(broker)
        for partition in sorted(leaderless):
            self._elect(partition)

    def _has_leader(self, partition: int) -> bool:
        return self._store.coordinators.get(str(partition)) in self._store.live

    def _elect(self, partition: int) -> None:
        if self._store.elect(str(partition)) is not None:
            self._elections[partition] += 1
            number = self._elections[partition]
            self._schedule.call_later(LOAD_MS, self._load, partition, number)

    def _load(self, partition: int, number: int) -> None:
        """Finish a load, if the broker that began it still lives."""
        if self._elections[partition] == number and self._has_leader(partition):
            self._unavailable.discard(partition)
            self._loaded(partition)


# A consumer of a group: a scripted member that fetches its partitions.

Who = tuple[str, str, tuple[str, ...]]  # a consumer's name, its group and its topics


class GroupConsumer:
    """A member, with these options, and its owned partitions in the ledger.

    Attributes
    ----------
    member : Member
        Its client, of either protocol.
    away : bool
        Whether it is cut off from the coordinator; it goes on fetching.
    turn : int
        The number of its last scheduled action; earlier ones are ignored.
    """

    member: Member

    def __init__(self, cluster: GroupCluster, who: Who, **options: Any) -> None:
        self.name, self.group_id, self.topics = who
        self._leaders, self._ledger = cluster.leaders, cluster.ledgers[self.group_id]
        self._commit = cluster.commit
        self.alive, self.away = True, False
        self.turn = 0
        self.member = Member(
            *(cluster.coordinator, self.group_id),
            client_id=self.name,
            topics=self.topics,
            on_rebalance=self._rebalanced,
            **options,
        )

    @property
    def generation_id(self) -> int:
        """Its generation, or its epoch."""
        return self.member.generation_id

    @property
    def in_group(self) -> str:
        if not self.alive:
            return "Down"
        return "Stable" if self.member.stable else self._unstable()

    def _unstable(self) -> str:
        return "Joining"

    @property
    def reachable(self) -> bool:
        return self.alive and not self.away and self._leaders.answers(self.group_id)

    @property
    def may_commit(self) -> bool:
        return self.member.stable

    def close(self) -> None:
        """Commit and leave the group; if the coordinator cannot be reached, crash."""
        if not self.reachable:
            self.crash()
            return
        self._commit(self)
        if self.in_the_group:
            self.member.leave()
        self.alive = False

    @property
    def in_the_group(self) -> bool:
        return bool(self.member.member_id)

    def crash(self) -> None:
        """End without a commit and without a request to leave."""
        self.alive = False
        self.member.crash()
        self._ledger.give(self.name, list(self._ledger.owned_by(self.name)), commit=False)

    def places(self) -> list[TopicPartition]:
        return flat(self.member.assignment)

    def _rebalanced(self, how: str, places: list[TopicPartition]) -> None:
        if how == "assigned":
            self._ledger.take(self.name, places)
        else:
            self._ledger.give(self.name, places, commit=how == "revoked")


# Brokers, one coordinator and consumers on one virtual clock: what both protocols share.
#
# Members are clients of ``coterie.testing``. There is no polling: a consumer acts when its
# heartbeat is due, when a response has come, or when it can reach its coordinator again; the
# coordinator runs at its deadlines. A consumer that is cut off or held goes on fetching while its
# session expires.


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
    behaviour: str = "3.9"  # of the coordinator
    settings: ClassVar[Mapping[str, int]] = {}  # of the coordinator, besides

    def __post_init__(self) -> None:
        self.store = Store(tuple(self.broker_ids), live=set(self.broker_ids))
        self.log = OffsetsLog()
        self.coordinator = CountedCoordinator(
            {"coterie.behaviour": self.behaviour, **self.settings},
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
        self.protocol_counts.requests = self.coordinator.requests
        return self.protocol_counts

    # Events of a scenario

    def run_until(self, at_ms: int) -> None:
        self.schedule.run_until(at_ms)
        self.coordinator.move(at_ms)

    def counts(self, topic: str) -> int:
        return self.store.topics.get(topic, 0)

    def set_topic(self, topic: str, partitions: int) -> None:
        """Create a topic, give it more partitions, or delete it (0)."""
        self.store.topics[topic] = partitions

    def produce(self, topic: str, partition: int, count: int) -> None:
        self.ledgers.produce((topic, partition), count)

    def start_consumer(
        self,
        name: str,
        topics: Sequence[str],
        *,
        group_id: str = "group1",
        session_timeout_ms: int | None = None,
        strategy: str | None = None,
    ) -> None:
        """Start a consumer; no live consumer has its name."""
        self.ledgers.open(group_id)
        self.coordinator_of(group_id)
        consumer = self._consumer((name, group_id, tuple(topics)), session_timeout_ms, strategy)
        self.consumers[name] = consumer
        self._act(consumer, consumer.turn)
        self.schedule.call_later(COMMIT_MS, self._commit, consumer)

    def _consumer(self, who: Who, session_timeout_ms: int | None, strategy: str | None) -> Any:
        """Make a consumer of the protocol."""
        raise NotImplementedError

    def commit(self, consumer: GroupConsumer) -> None:
        if consumer.reachable and consumer.may_commit:
            self.coordinator.requests += 1
            places = consumer.places()
            self.schedule.spend(len(places))
            self.ledgers[consumer.group_id].commit(consumer.name, places)

    def cut(self, name: str) -> None:
        self.consumers[name].away = True

    def heal(self, name: str) -> None:
        """Allow the consumer to connect again."""
        self.consumers[name].away = False
        self._wake(self.consumers[name], DELIVERY_MS)

    hold, release = cut, heal

    def coordinator_of(self, group_id: str) -> int | None:
        return self.leaders.of(group_id)

    def stop_broker(self, broker_id: int) -> None:
        """Stop a broker; the next one loads the log of its groups."""
        self.leaders.stopped(broker_id)

    def start_broker(self, broker_id: int) -> None:
        self.leaders.started(broker_id)

    def is_up(self, broker_id: int) -> bool:
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
    **options: str,
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Play a scenario in a cluster of this kind; return its points and counts.

    ``options``: as of the cluster.
    """
    cluster = kind(
        *(scenario.config.brokers, from_start(scenario), note),
        schedule=schedule or Schedule(),
        **options,  # type: ignore[arg-type]
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


# A consumer of today's design: a member of the classic protocol.


HEARTBEAT_MS = 3_000


class _Metadata(dict[str, int]):
    """Partition counts of a member's topics; ``get`` knows those of all topics."""

    def __init__(self, own: Sequence[str], cluster: dict[str, int]) -> None:
        super().__init__({topic: cluster.get(topic, 0) for topic in own})
        self._cluster = dict(cluster)

    def get(self, topic: str, default: Any = None) -> Any:
        return self._cluster.get(topic, 0)


class TodayConsumer(GroupConsumer):
    """A member that assigns by the metadata of ``store`` if it leads."""

    member: ClassicMember

    def __init__(self, cluster: GroupCluster, who: Who, **options: Any) -> None:
        super().__init__(cluster, who, heartbeat_interval_ms=HEARTBEAT_MS, **options)
        self._store = cluster.store
        self.refresh()

    def refresh(self) -> bool:
        """Refresh metadata; return whether they have changed for its topics."""
        before = dict(self.member.partitions)
        self.member.partitions = _Metadata(self.topics, self._store.topics)
        return before != dict(self.member.partitions)

    def rejoin(self) -> None:
        """Join again, as a leader after a change of its topics."""
        self._rebalanced("revoked", self.places())
        self.member.assignment = {}
        self.member.needs_join = True


# Today's coordinator and consumers of the classic protocol.
#
# Members heartbeat, rejoin when required, and the leader assigns. It sees new partitions when its
# metadata are refreshed.


SESSION_MS, METADATA_MS = 45_000, 300_000
RETRY_MS = 100  # after an error
BOUNDARIES_OF_STATE = {  # boundaries of the 0.9 design, by the state that a group enters
    "PreparingRebalance": ("prepared", "told", "joined"),
    "CompletingRebalance": ("written",),
    "Stable": ("answered",),
}


class TodaySimulation(GroupCluster):
    def __post_init__(self) -> None:
        super().__post_init__()
        self._awaiting: dict[int, TodayConsumer] = {}  # by the id of the awaited response

    def _consumer(self, who: Who, session_timeout_ms: int | None, strategy: str | None) -> Any:
        timeout_ms, assignor = session_timeout_ms or SESSION_MS, strategy or "range"
        consumer = TodayConsumer(self, who, session_timeout_ms=timeout_ms, assignor=assignor)
        self.schedule.call_later(METADATA_MS, self._refresh, consumer)
        return consumer

    def _take_turn(self, consumer: TodayConsumer) -> None:
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
            self._began(event.group_id)
        elif event.to == "Stable":
            self._ended(event.group_id)
            self.schedule.call_later(0, self._count_members, event.group_id)
        self._pass(BOUNDARIES_OF_STATE.get(event.to, ()), event.group_id)

    def _count_members(self, group_id: str) -> None:
        self.protocol_counts.took_part += self.coordinator.size_of(group_id)


def play(
    scenario: Scenario,
    note: Callable[..., None] | None = None,
    schedule: Schedule | None = None,
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Play a scenario; return its points and counts."""
    return play_in(TodaySimulation, scenario, note, schedule)
