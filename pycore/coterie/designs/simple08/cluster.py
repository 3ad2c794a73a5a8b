"""Brokers of 0.8.2 with their logs, partition states in ZooKeeper, and the controller.

There is no clock: a broker is killed (:meth:`Cluster.kill`), and later its session ends
(:meth:`Cluster.settle`). In between nothing changes for the others, which still answer as if it
lived. Every message is committed before the next call, so the high watermark is the end of the
leader's log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from coterie.arguments import called, string, text, whole, within
from coterie.designs.simple08.checks import broker_id, broker_ids, replica_lists
from coterie.errors import ArgumentError, shown

MESSAGE_BYTES = 36  # of a message of the scenarios: 26 of its header, 10 of its value
SET_BYTES = 84  # about the size of a compressed set; scenarios do not contain it
MOST_AT_ONCE = 10**6  # messages; each is an entry in memory
CODECS = ("none", "gzip", "snappy", "lz4")


@dataclass(frozen=True)
class LogEntry:
    """An entry of a log: a message, or a compressed set of messages."""

    first: int
    last: int
    size: int

    @property
    def offsets(self) -> range:
        """Offsets of its messages."""
        return range(self.first, self.last + 1)


@dataclass(frozen=True)
class PartitionStateNode:
    """A partition's state node, ``/brokers/topics/T/partitions/P/state``."""

    leader: int
    isr: tuple[int, ...]
    leader_epoch: int
    controller_epoch: int

    def as_json(self) -> dict[str, object]:
        """Return the node's JSON."""
        return {
            "controller_epoch": self.controller_epoch,
            "leader": self.leader,
            "version": 1,
            "leader_epoch": self.leader_epoch,
            "isr": list(self.isr),
        }


@dataclass
class Partition:
    """A partition: its state node, the brokers' cached copy, and the log of each replica."""

    topic: str
    number: int
    replicas: tuple[int, ...]
    state: PartitionStateNode
    cached: PartitionStateNode  # last sent by the controller to the brokers' metadata caches
    logs: dict[int, list[LogEntry]] = field(default_factory=dict)
    compressed: bool = False
    offline: bool = False  # its leader has died, and there is no other

    def end(self, broker: int) -> int:
        """Return the offset that the next message of a replica's log gets."""
        log = self.logs[broker]
        return log[-1].last + 1 if log else 0


class Cluster:
    """Brokers with topics, and their leaders as brokers die and return.

    Parameters
    ----------
    topics
        The replica list of each partition, by topic.
    brokers
        Ids of all brokers; the first to start is the controller.

    Raises
    ------
    ArgumentError
        A broker id is not a number from 0, or is repeated; a topic's name is not legal; a
        partition's replicas are not different brokers of the cluster, or there are none.
    """

    @called
    def __init__(self, topics: Mapping[str, Sequence[Sequence[int]]], brokers: Sequence[int]):
        self.brokers = broker_ids(brokers, "brokers")
        lists = replica_lists(topics, self.brokers)
        self.alive: set[int] = set()
        self.registered: set[int] = set()  # their sessions have not ended
        self.controller: int | None = None
        self.controller_epoch = 0
        self.topics = {topic: self._new(topic, replicas) for topic, replicas in lists.items()}

    @property
    def partitions(self) -> list[Partition]:
        """Partitions of all topics."""
        return [partition for topic in self.topics.values() for partition in topic]

    @called
    def partition(self, topic: str, number: int) -> Partition | None:
        """Return a partition; None if it does not exist."""
        of_topic, number = self.topics.get(text(topic, "topic"), []), whole(number, "partition")
        return of_topic[number] if 0 <= number < len(of_topic) else None

    @called
    def start(self, brokers: Sequence[int]) -> None:
        """Start brokers and wait until they have caught up and are in sync again.

        Raises
        ------
        ArgumentError
            A broker does not exist, or is repeated.
        """
        brokers = broker_ids(brokers, "brokers", self.brokers)
        self.settle()
        first = not self.controller_epoch
        self.alive.update(brokers)
        self.registered.update(brokers)
        if self.controller is None and brokers:
            self._elect_controller(min(brokers) if not first else brokers[0])
        for partition in self.partitions:
            if first and self.registered.intersection(partition.replicas):
                self._create(partition)
            self._elect(partition)
            self._catch_up(partition)

    @called
    def kill(self, broker: int) -> None:
        """Kill a broker; the others notice at :meth:`settle`.

        Raises
        ------
        ArgumentError
            The broker does not exist.
        """
        self.alive.discard(broker_id(broker, self.brokers))

    def settle(self) -> None:
        """End the sessions of dead brokers; the other brokers react."""
        dead = self.registered - self.alive
        if not dead:
            return
        self.registered -= dead
        if self.controller in dead:
            self._controller_died(dead)
        elif self.controller is not None:
            self._controller_acts(dead)

    def _controller_acts(self, dead: set[int]) -> None:
        """Elect leaders, and remove dead brokers from in-sync sets; each change is a new epoch."""
        for partition in self.partitions:
            if dead.isdisjoint(partition.replicas):
                continue
            self._elect(partition)
            state = partition.state
            for broker in (one for one in partition.replicas if one in dead & {*state.isr}):
                state = replace(
                    state,
                    leader=-1 if state.leader == broker else state.leader,
                    isr=tuple(one for one in state.isr if one != broker),
                    leader_epoch=state.leader_epoch + 1,
                    controller_epoch=self.controller_epoch,
                )
            partition.state = partition.cached = state

    def _controller_died(self, dead: set[int]) -> None:
        """Elect a controller; it elects leaders, and leaves in-sync sets as they are."""
        for partition in self.partitions:
            state = partition.state
            if state.leader in self.alive:  # by the leader itself: epochs stay
                isr = tuple(one for one in state.isr if one not in dead)
                partition.state = replace(state, isr=isr)
        self.controller = None
        if not self.alive:
            return
        self._elect_controller(min(self.alive))
        for partition in self.partitions:
            self._elect(partition)

    @called
    def produce(self, topic: str, number: int, count: int, codec: str = "none") -> bool:
        """Append messages: an entry for each, or one compressed set. False without a leader.

        Raises
        ------
        ArgumentError
            The count is below 0 or above a million, or the codec is unknown.
        """
        partition = self.partition(topic, number)
        count, codec = within(count, "count", 0, MOST_AT_ONCE), string(codec, "codec")
        if codec not in CODECS:
            raise ArgumentError(f"codec must be one of {', '.join(CODECS)}, not {shown(codec)}")
        if partition is None or partition.state.leader not in self.alive:
            return False
        base = partition.end(partition.state.leader)
        if codec == "none":
            entries = [LogEntry(at, at, MESSAGE_BYTES) for at in range(base, base + count)]
        else:
            partition.compressed = True
            entries = [LogEntry(base, base + count - 1, SET_BYTES + count)] if count else []
        for broker in partition.state.isr:
            if broker in self.alive:
                partition.logs[broker] += entries
        return True

    def _new(self, topic: str, lists: Sequence[Sequence[int]]) -> list[Partition]:
        no_leader = PartitionStateNode(-1, (), -1, 0)
        return [
            Partition(
                topic, number, tuple(replicas), no_leader, no_leader, {one: [] for one in replicas}
            )
            for number, replicas in enumerate(lists)
        ]

    def _elect_controller(self, broker: int) -> None:
        """Make a broker the controller: it reads all nodes and updates the brokers' caches."""
        self.controller = broker
        self.controller_epoch += 1
        for partition in self.partitions:
            partition.offline = partition.state.leader not in self.registered
            partition.cached = partition.state

    def _create(self, partition: Partition) -> None:
        """Elect the first leader of a new partition; all live replicas are in sync."""
        live = tuple(one for one in partition.replicas if one in self.registered)
        partition.state = partition.cached = PartitionStateNode(
            live[0], live, 0, self.controller_epoch
        )
        partition.offline = False

    def _elect(self, partition: Partition) -> None:
        """Elect a leader if there is none: an in-sync replica, otherwise any live one."""
        state = partition.state
        if state.leader in self.registered and not partition.offline:
            return
        live = [one for one in partition.replicas if one in self.registered]
        in_sync = tuple(one for one in state.isr if one in self.registered)
        partition.offline = not live
        if not live:
            return  # the node still names the dead leader
        leader = next((one for one in live if one in in_sync), live[0])
        partition.state = partition.cached = PartitionStateNode(
            leader, in_sync or (leader,), state.leader_epoch + 1, self.controller_epoch
        )

    def _catch_up(self, partition: Partition) -> None:
        """Copy the leader's log to live followers, which are in sync again."""
        state = partition.state
        if state.leader not in self.alive:
            return
        for broker in partition.replicas:
            if broker in self.alive and broker != state.leader:
                partition.logs[broker] = list(partition.logs[state.leader])
                if broker not in partition.state.isr:  # the leader does not tell the caches
                    isr = (*partition.state.isr, broker)
                    partition.state = replace(partition.state, isr=isr)
