"""Brokers as consumers see them: who is alive, topics, leaders, logs, offsets kept in Kafka.

A partition's leader is the first live replica of its in-sync ones; when none of those lives, the
first live replica at all (0.8.2's default), and what only others had is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from coterie._core.codec.checksum import partition_for
from coterie.designs.consumer08.views import BROKERS, TOPICS, topic_data
from coterie.designs.zookeeper.session import ZooKeeper

OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITIONS, OFFSETS_REPLICAS = 50, 3
Manager = tuple[int, int]
"""A broker that keeps offsets, and how often it has started."""


class PartitionListener(Protocol):
    """What fetches from partitions."""

    def appended(self, partition: HostedPartition) -> None:
        """Take what came to a partition that it reads."""

    def lost(self, partition: HostedPartition) -> None:
        """Stop reading: a partition has lost its leader, or has another."""

    def leader_came(self) -> None:
        """Look again: some partition has a leader."""


class HostedPartition:
    """A partition's replicas, its leader, and where each replica's log ends."""

    __slots__ = ("ends", "in_sync", "leader", "number", "readers", "replicas", "topic")

    def __init__(self, topic: str, number: int, replicas: Sequence[int]) -> None:
        self.topic = topic
        self.number = number
        self.replicas = tuple(replicas)
        self.in_sync: list[int] = []
        self.ends = dict.fromkeys(replicas, 0)
        self.leader: int | None = None
        self.readers: dict[PartitionListener, None] = {}

    @property
    def end(self) -> int:
        """Where the leader's log ends."""
        return 0 if self.leader is None else self.ends[self.leader]


class Brokers:
    """All brokers, and all partitions by topic and number.

    Parameters
    ----------
    zookeeper : ZooKeeper
        Where they register, and where topics are.
    ids : sequence of int
        The brokers.
    up : bool
        Whether they run.
    deletes : bool
        ``delete.topic.enable``.
    """

    def __init__(
        self, zookeeper: ZooKeeper, ids: Sequence[int], *, up: bool = True, deletes: bool = False
    ) -> None:
        self.ids = tuple(ids)
        self.alive: set[int] = set()
        self.topics: dict[str, dict[int, HostedPartition]] = {}
        self.seekers: dict[PartitionListener, None] = {}  # look for a leader of something
        self.kept_offsets: dict[tuple[str, str, int], int] = {}  # by group, topic, partition
        self._zookeeper = zookeeper
        self._deletes = deletes
        self._to_delete: dict[str, None] = {}
        self._waiting: list[Callable[[], None]] = []
        self._starts = dict.fromkeys(ids, 0)
        for path in ("/brokers", BROKERS, TOPICS, "/consumers"):
            zookeeper.create(path)
        for broker in ids if up else ():
            self.start(broker)

    def create_topic(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        """Create a topic; ``replicas`` are the brokers of each partition."""
        self.topics[topic] = {}
        self._add(topic, replicas)
        made = {number: one.replicas for number, one in self.topics[topic].items()}
        self._zookeeper.create(f"{TOPICS}/{topic}", topic_data(made))

    def add_partitions(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        """Add partitions to a topic."""
        self._add(topic, replicas)
        made = {number: one.replicas for number, one in self.topics[topic].items()}
        self._zookeeper.set(f"{TOPICS}/{topic}", topic_data(made))

    def touch_topic(self, topic: str) -> None:
        """Write a topic's node again as it is."""
        path = f"{TOPICS}/{topic}"
        self._zookeeper.set(path, self._zookeeper.tree.get(path))

    def delete_topic(self, topic: str) -> None:
        """Delete a topic, where that is enabled and all its replicas live (else when they do)."""
        if self._deletes:
            self._to_delete[topic] = None
            self._delete_what_can()

    def produce(self, topic: str, number: int, count: int) -> bool:
        """Append messages to a partition; whether it had a leader to take them."""
        partition = self.topics.get(topic, {}).get(number)
        if partition is None or partition.leader is None:
            return False
        for broker in partition.in_sync:
            partition.ends[broker] += count
        for reader in list(partition.readers):
            reader.appended(partition)
        return True

    def start(self, broker: int) -> None:
        """Start a broker: it registers, follows, and leads what has no leader."""
        if broker in self.alive:
            return
        self.alive.add(broker)
        self._starts[broker] += 1
        self._zookeeper.create(f"{BROKERS}/{broker}", "{}")
        for partition in self._partitions_on(broker):
            if partition.leader is None:
                self._lead(partition)
            if partition.leader != broker:
                partition.ends[broker] = partition.end
                if broker not in partition.in_sync:
                    partition.in_sync.append(broker)
        self._delete_what_can()
        waiting, self._waiting = self._waiting, []
        for go_on in waiting:
            go_on()

    def stop(self, broker: int) -> None:
        """Stop a broker: its node goes at once, and others lead what it led."""
        if broker not in self.alive:
            return
        self.alive.discard(broker)
        self._zookeeper.delete(f"{BROKERS}/{broker}")
        for partition in self._partitions_on(broker):
            if broker in partition.in_sync and len(partition.in_sync) > 1:
                partition.in_sync.remove(broker)
            if partition.leader == broker:
                self._lead(partition)

    def offset_manager(self, group: str) -> Manager | None:
        """Return who keeps a group's offsets, if anybody; the first search makes the topic."""
        if not self.alive:
            return None
        if OFFSETS_TOPIC not in self.topics:
            live = sorted(self.alive)
            copies = range(min(OFFSETS_REPLICAS, len(live)))
            self.create_topic(
                OFFSETS_TOPIC,
                [[live[(i + k) % len(live)] for k in copies] for i in range(OFFSETS_PARTITIONS)],
            )
        made = self.topics[OFFSETS_TOPIC]
        leader = made[partition_for(group, len(made))].leader
        return None if leader is None else (leader, self._starts[leader])

    def reached(self, manager: Manager | None) -> bool:
        """Whether a connection to an offset manager is good: it has lived on since then."""
        if manager is None:
            return False
        broker, starts = manager
        return broker in self.alive and self._starts[broker] == starts

    def when_one_starts(self, go_on: Callable[[], None]) -> None:
        """Call a function once, when a broker starts."""
        self._waiting.append(go_on)

    def partition(self, topic: str, number: int) -> HostedPartition | None:
        """Return a partition; None of one that there is not."""
        return self.topics.get(topic, {}).get(number)

    def _partitions_on(self, broker: int) -> list[HostedPartition]:
        return [one for made in self.topics.values() for one in made.values() if broker in one.ends]

    def _add(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        made = self.topics[topic]
        for ids in replicas:
            number = len(made)
            made[number] = HostedPartition(topic, number, ids)
            made[number].in_sync = [broker for broker in ids if broker in self.alive]
            self._lead(made[number])

    def _lead(self, partition: HostedPartition) -> None:
        live = [broker for broker in partition.replicas if broker in self.alive]
        chosen = next((b for b in live if b in partition.in_sync), next(iter(live), None))
        before, partition.leader = partition.leader, chosen
        if chosen is not None and chosen not in partition.in_sync:
            partition.in_sync = [chosen]
        if before not in (None, chosen):
            self._drop(partition)
        if chosen is not None:
            for reader in list(self.seekers):
                reader.leader_came()

    def _delete_what_can(self) -> None:
        for topic in list(self._to_delete):
            made = self.topics[topic]
            if all(broker in self.alive for one in made.values() for broker in one.replicas):
                del self._to_delete[topic]
                del self.topics[topic]
                self._zookeeper.delete(f"{TOPICS}/{topic}")
                for partition in made.values():
                    partition.leader = None
                    self._drop(partition)

    def _drop(self, partition: HostedPartition) -> None:
        readers, partition.readers = partition.readers, {}
        for reader in readers:
            reader.lost(partition)
