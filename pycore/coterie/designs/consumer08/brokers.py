"""Brokers as consumers see them: live brokers, topics, leaders, logs and offsets in Kafka.

A partition's leader is the first live in-sync replica. If none lives it is the first live replica
(0.8.2's default), and messages that only the others had are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from coterie._core.codec.compression import partition_for
from coterie.designs.consumer08.views import BROKERS, TOPICS, topic_data
from coterie.designs.zookeeper.session import ZooKeeper

OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITIONS, OFFSETS_REPLICAS = 50, 3
Manager = tuple[int, int]
"""The broker that stores a group's offsets, and how often it has started."""


class PartitionListener(Protocol):
    """Receives the changes of partitions that a consumer fetches."""

    def appended(self, partition: HostedPartition) -> None:
        """Handle messages that were appended."""

    def lost(self, partition: HostedPartition) -> None:
        """Handle a partition that has lost its leader, or has another."""

    def leader_came(self) -> None:
        """Handle a new leader of any partition."""


class HostedPartition:
    """A partition: its replicas, its leader, and the end of each replica's log."""

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
        """The end of the leader's log."""
        return 0 if self.leader is None else self.ends[self.leader]


class Brokers:
    """All brokers, and all partitions by topic and number.

    Parameters
    ----------
    zookeeper : ZooKeeper
        The service where brokers and topics are registered.
    ids : sequence of int
        The brokers.
    up : bool
        Whether they run.
    deletes : bool
        ``delete.topic.enable``.
    """

    def __init__(
        self, zookeeper: ZooKeeper, ids: Sequence[int], *, up: bool, deletes: bool
    ) -> None:
        self.ids = tuple(ids)
        self.alive: set[int] = set()
        self.topics: dict[str, dict[int, HostedPartition]] = {}
        self.seekers: dict[PartitionListener, None] = {}  # listeners that look for a leader
        self.stored_offsets: dict[tuple[str, str, int], int] = {}  # by group, topic, partition
        self._zookeeper = zookeeper
        self._deletes = deletes
        self._to_delete: dict[str, None] = {}
        self._on_start: list[Callable[[], None]] = []
        self._starts = dict.fromkeys(ids, 0)
        for path in ("/brokers", BROKERS, TOPICS, "/consumers"):
            zookeeper.create(path)
        for broker in ids if up else ():
            self.start(broker)

    def create_topic(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        """Create a topic; ``replicas`` are the brokers of each partition."""
        self.topics[topic] = {}
        self._add(topic, replicas)
        partitions = {number: one.replicas for number, one in self.topics[topic].items()}
        self._zookeeper.create(f"{TOPICS}/{topic}", topic_data(partitions))

    def add_partitions(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        """Add partitions to a topic."""
        self._add(topic, replicas)
        partitions = {number: one.replicas for number, one in self.topics[topic].items()}
        self._zookeeper.set(f"{TOPICS}/{topic}", topic_data(partitions))

    def touch_topic(self, topic: str) -> None:
        """Write a topic's node again as it is."""
        path = f"{TOPICS}/{topic}"
        self._zookeeper.set(path, self._zookeeper.tree.get(path))

    def delete_topic(self, topic: str) -> None:
        """Delete a topic, if that is enabled, as soon as all its replicas live."""
        if self._deletes:
            self._to_delete[topic] = None
            self._delete_topics()

    def produce(self, topic: str, number: int, count: int) -> bool:
        """Append messages to a partition; return whether it has a leader."""
        partition = self.topics.get(topic, {}).get(number)
        if partition is None or partition.leader is None:
            return False
        for broker in partition.in_sync:
            partition.ends[broker] += count
        for reader in list(partition.readers):
            reader.appended(partition)
        return True

    def start(self, broker: int) -> None:
        """Start a broker: it registers, follows leaders, and leads partitions without one."""
        if broker in self.alive:
            return
        self.alive.add(broker)
        self._starts[broker] += 1
        self._zookeeper.create(f"{BROKERS}/{broker}", "{}")
        for partition in self._partitions_on(broker):
            if partition.leader is None:
                self._elect(partition)
            if partition.leader != broker:
                partition.ends[broker] = partition.end
                if broker not in partition.in_sync:
                    partition.in_sync.append(broker)
        self._delete_topics()
        callbacks, self._on_start = self._on_start, []
        for callback in callbacks:
            callback()

    def stop(self, broker: int) -> None:
        """Stop a broker: its node goes at once, and other replicas become leaders."""
        if broker not in self.alive:
            return
        self.alive.discard(broker)
        self._zookeeper.delete(f"{BROKERS}/{broker}")
        for partition in self._partitions_on(broker):
            if broker in partition.in_sync:
                partition.in_sync.remove(broker)
            if partition.leader == broker:
                self._elect(partition)

    def offset_manager(self, group: str) -> Manager | None:
        """Return the offset manager of a group, if any; the first search creates the topic."""
        if not self.alive:
            return None
        if OFFSETS_TOPIC not in self.topics:
            live = sorted(self.alive)
            copies = range(min(OFFSETS_REPLICAS, len(live)))
            self.create_topic(
                OFFSETS_TOPIC,
                [[live[(i + k) % len(live)] for k in copies] for i in range(OFFSETS_PARTITIONS)],
            )
        partitions = self.topics[OFFSETS_TOPIC]
        leader = partitions[partition_for(group, len(partitions))].leader
        return None if leader is None else (leader, self._starts[leader])

    def reached(self, manager: Manager | None) -> bool:
        """Return whether a connection to an offset manager is still open: false after a restart."""
        if manager is None:
            return False
        broker, starts = manager
        return broker in self.alive and self._starts[broker] == starts

    def call_on_start(self, callback: Callable[[], None]) -> None:
        """Call a function once, at the next start of a broker."""
        self._on_start.append(callback)

    def partition(self, topic: str, number: int) -> HostedPartition | None:
        """Return a partition; None if it does not exist."""
        return self.topics.get(topic, {}).get(number)

    def _partitions_on(self, broker: int) -> list[HostedPartition]:
        return [
            partition
            for partitions in self.topics.values()
            for partition in partitions.values()
            if broker in partition.ends
        ]

    def _add(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        partitions = self.topics[topic]
        for ids in replicas:
            number = len(partitions)
            partitions[number] = partition = HostedPartition(topic, number, ids)
            partition.in_sync = [broker for broker in ids if broker in self.alive]
            self._elect(partition)

    def _elect(self, partition: HostedPartition) -> None:
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

    def _delete_topics(self) -> None:
        for topic in list(self._to_delete):
            partitions = self.topics[topic].values()
            if all(broker in self.alive for one in partitions for broker in one.replicas):
                del self._to_delete[topic]
                del self.topics[topic]
                self._zookeeper.delete(f"{TOPICS}/{topic}")
                for partition in partitions:
                    self._drop(partition)

    def _drop(self, partition: HostedPartition) -> None:
        readers, partition.readers = partition.readers, {}
        for reader in readers:
            reader.lost(partition)
