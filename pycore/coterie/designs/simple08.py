"""The low-level consumer of 0.8.2: brokers with leaders, their answers, and the loop around them.

``Cluster`` has the state of brokers, controller and ZooKeeper, ``ANSWERS`` a broker's responses;
``run`` plays a scenario of the format ``coterie-simple08``; ``SimpleReader`` is the document's
loop. Sources of the rules: ``MetadataCache``, ``PartitionLeaderSelector``, ``KafkaApis`` and
``SimpleConsumer`` of 0.8.2.2, as ``docs/designs.md`` describes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from coterie._core.codec.compression import partition_for
from coterie.base.arguments import called, integer, string, text, walked, whole, within
from coterie.errors import ArgumentError, CoterieError, shown
from coterie.values import Error

__all__ = [
    "EARLIEST",
    "LATEST",
    "Cluster",
    "Gone",
    "NoLeader",
    "SimpleConsumer",
    "SimpleReader",
    "run",
]


# Check brokers, replica lists and requests of the low-level consumer.
#
# Each function returns the value, or raises an error of one line.


HIGHEST_BROKER = 2**31 - 1
LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,255}")  # of `Topic`, legalChars and maxNameLength


def topic_name(value: Any, name: str) -> str:
    """Check the name of a topic."""
    topic = text(value, name)
    if not LEGAL_TOPIC.fullmatch(topic):
        raise ArgumentError(f"{name} must be the name of a topic, not {shown(topic)}")
    return topic


def topic_names(value: Any, name: str) -> list[str]:
    """Check a list of texts; they need not name topics that exist."""
    return [text(one, name) for one in walked(value, name)]


def broker_ids(value: Any, name: str, known: Collection[int] | None = None) -> tuple[int, ...]:
    """Check different broker ids, all of them known."""
    ids = tuple(within(one, name, 0, HIGHEST_BROKER) for one in walked(value, name))
    if len({*ids}) < len(ids) or (known is not None and not {*ids} <= {*known}):
        choice = "" if known is None else f" of {shown([*known])}"
        raise ArgumentError(f"{name} must be different ids{choice}, not {shown([*ids])}")
    return ids


def broker_id(value: Any, known: Collection[int]) -> int:
    """Check the id of a known broker."""
    broker = whole(value, "broker")
    if broker not in known:
        raise ArgumentError(f"broker {shown(broker)} is not one of {shown([*known])}")
    return broker


def replica_lists(value: Any, known: Collection[int]) -> dict[str, list[tuple[int, ...]]]:
    """Check the replica lists of topics; each has at least one broker, all of them known."""
    if not isinstance(value, Mapping):
        raise ArgumentError(f"topics must be an object, not {shown(value)}")
    topics: dict[str, list[tuple[int, ...]]] = {}
    for key, lists in value.items():
        topic = topic_name(key, "a topic")
        topics[topic] = []
        for replicas in walked(lists, f"topic {topic}", "a list of replica lists"):
            ids = broker_ids(replicas, f"topic {topic}: replicas", known)
            if not ids:
                raise ArgumentError(f"topic {topic}: a partition has no replicas")
            topics[topic].append(ids)
    return topics


FIELDS: dict[str, Callable[[Any, str], Any]] = {
    "topics": topic_names,
    "topic": text,
    "group": text,
    "metadata": text,
    "partition": whole,
    "offset": whole,
    "fetch_size": whole,
    "time": whole,
    "max_offsets": whole,
    "version": integer,
}
NEEDS: dict[str, tuple[str, ...]] = {  # fields of a request besides `api` and `broker`
    "metadata": ("topics",),
    "offsets": ("topic", "partition", "time", "max_offsets"),
    "fetch": ("topic", "partition", "offset", "fetch_size"),
    "consumer_metadata": ("group",),
    "offset_commit": ("version", "group", "topic", "partition", "offset", "metadata"),
    "offset_fetch": ("version", "group", "topic", "partition"),
    "znodes": (),
}


def request_fields(api: Any, request: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Check the required fields of a request, and return only these."""
    if not isinstance(api, str) or (api := str.__str__(api)) not in known:
        raise ArgumentError(f"api {shown(api)} is not known: {', '.join(known)}")
    return {name: FIELDS[name](request.get(name), f"{api}: {name}") for name in NEEDS[api]}


# Brokers of 0.8.2 with their logs, partition states in ZooKeeper, and the controller.
#
# There is no clock: a broker is killed (:meth:`Cluster.kill`), and later its session ends
# (:meth:`Cluster.settle`). In between nothing changes for the others, which still answer as if it
# lived. Every message is committed before the next call, so the high watermark is the end of the
# leader's log.


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


# Responses of a broker of 0.8.2 to the requests of a simple consumer.
#
# Each function takes the cluster, the broker and the request's fields, and returns those of the
# response. Offsets of version 0 are stored in ZooKeeper, those of version 1 at the coordinator.


LONGEST_METADATA = 4096  # offset.metadata.max.bytes
OFFSETS_PARTITIONS = 50  # offsets.topic.num.partitions
LATEST, EARLIEST = -1, -2
SINCE_MS = 10**12  # from this time on all messages have been written; before it none
ResponseFields = dict[str, Any]
RequestFields = Mapping[str, Any]
TEXT_OF_LENGTH = re.compile(r"(\d+) characters")  # how a scenario writes a long text


class Gone(CoterieError):
    """The broker is dead: its socket is closed, and a second connection failed."""


def metadata(cluster: Cluster, broker: int, request: RequestFields) -> ResponseFields:
    """Return sorted topics from the broker's cache; all of them if none is named."""
    names = sorted(set(request["topics"]) or cluster.topics)
    return {"topics": [_topic(cluster, name) for name in names]}


def _topic(cluster: Cluster, name: str) -> ResponseFields:
    partitions = cluster.topics.get(name)
    error = Error.UNKNOWN_TOPIC_OR_PARTITION if partitions is None else Error.NONE
    described = [_partition(cluster, partition) for partition in partitions or []]
    return {"topic": name, "error": int(error), "partitions": described}


def _partition(cluster: Cluster, partition: Partition) -> ResponseFields:
    """Describe a partition from the broker's cache, without dead brokers."""
    cached, live = partition.cached, cluster.registered
    replicas = [one for one in partition.replicas if one in live]
    isr = [one for one in cached.isr if one in live]
    leader: int | None = cached.leader
    error = Error.NONE
    if cached.leader not in live:
        leader, isr, error = None, [], Error.LEADER_NOT_AVAILABLE
    elif len(replicas) < len(partition.replicas) or len(isr) < len(cached.isr):
        error = Error.REPLICA_NOT_AVAILABLE  # the partition can still be read
    return {
        "partition": partition.number,
        "error": int(error),
        "leader": leader,
        "replicas": replicas,
        "isr": isr,
    }


def _leader_error(
    cluster: Cluster, broker: int, request: RequestFields
) -> tuple[Partition | None, int]:
    partition = cluster.partition(request["topic"], request["partition"])
    if partition is None or broker not in partition.replicas:
        return None, int(Error.UNKNOWN_TOPIC_OR_PARTITION)
    # by the state node: only live brokers get requests, and a live leader knows that it leads
    if partition.state.leader != broker or broker not in cluster.alive:
        return None, int(Error.NOT_LEADER_OR_FOLLOWER)
    return partition, 0


def offsets(cluster: Cluster, broker: int, request: RequestFields) -> ResponseFields:
    """Return offsets before a time, in descending order: the end, then the starts of segments."""
    partition, error = _leader_error(cluster, broker, request)
    if partition is None:
        return {"error": error, "offsets": []}
    end, time = partition.end(broker), request["time"]
    before = [end, 0] if end else [0]  # logs of a scenario have one segment
    if time == EARLIEST:
        before = [0]
    elif time != LATEST and time < SINCE_MS:
        before = []
    return {"error": 0, "offsets": before[: max(request["max_offsets"], 0)]}


def fetch(cluster: Cluster, broker: int, request: RequestFields) -> ResponseFields:
    """Return messages from an offset on, up to the fetch size; compressed sets are complete."""
    partition, error = _leader_error(cluster, broker, request)
    if partition is not None and not 0 <= request["offset"] <= partition.end(broker):
        partition, error = None, int(Error.OFFSET_OUT_OF_RANGE)
    if partition is None:
        refusal: ResponseFields = {"error": error, "high_watermark": -1, "offsets": []}
        return refusal | {"bytes": 0, "valid_bytes": 0}
    entries = [entry for entry in partition.logs[broker] if entry.last >= request["offset"]]
    complete = list(_that_fit(entries, request["fetch_size"]))
    response: ResponseFields = {
        "error": 0,
        "high_watermark": partition.end(broker),
        "offsets": [offset for entry in complete for offset in entry.offsets],
    }
    if not partition.compressed:  # otherwise the size depends on the compressor
        response["bytes"] = min(request["fetch_size"], sum(entry.size for entry in entries))
        response["valid_bytes"] = sum(entry.size for entry in complete)
    return response


def _that_fit(entries: Iterable[LogEntry], size: int) -> Iterable[LogEntry]:
    for entry in entries:
        size -= entry.size
        if size < 0:
            return  # the last entry is incomplete, and dropped
        yield entry


class OffsetStore:
    """Stored offsets of groups, and their coordinators."""

    def __init__(self) -> None:
        self.in_zookeeper: dict[str, int] = {}  # path -> offset
        self.in_kafka: dict[tuple[str, str, int], tuple[int, str]] = {}
        self.has_topic = False

    def coordinator(self, cluster: Cluster, group: str) -> int | None:
        """Return a group's coordinator: a live broker, chosen by a hash of the group's name."""
        live = sorted(cluster.registered & cluster.alive)
        if not self.has_topic or not live:
            return None
        return live[partition_for(group, OFFSETS_PARTITIONS) % len(live)]

    def consumer_metadata(
        self, cluster: Cluster, broker: int, request: RequestFields
    ) -> ResponseFields:
        """Find the coordinator; the first request creates the offsets topic, and fails."""
        if not self.has_topic:
            self.has_topic = True
            return {"error": int(Error.COORDINATOR_NOT_AVAILABLE)}
        return {"error": 0, "same_from_both": True}

    def commit(self, cluster: Cluster, broker: int, request: RequestFields) -> ResponseFields:
        """Store an offset: version 0 in ZooKeeper by any broker, version 1 at the coordinator."""
        group, topic, partition = request["group"], request["topic"], request["partition"]
        in_zookeeper = request["version"] == 0
        error = Error.NONE
        if in_zookeeper and topic not in cluster.topics:
            error = Error.UNKNOWN_TOPIC_OR_PARTITION
        elif length_of(request["metadata"]) > LONGEST_METADATA:
            error = Error.OFFSET_METADATA_TOO_LARGE
        elif in_zookeeper:
            self.in_zookeeper[_path(group, topic, partition)] = request["offset"]
        elif broker != self.coordinator(cluster, group):
            error = Error.NOT_COORDINATOR
        else:
            value = request["offset"], request["metadata"]
            self.in_kafka[group, topic, partition] = value
        return {"error": int(error)}

    def fetch(self, cluster: Cluster, broker: int, request: RequestFields) -> ResponseFields:
        """Read a stored offset. In ZooKeeper there is no metadata, and no offset is an error."""
        group, topic, partition = request["group"], request["topic"], request["partition"]
        missing = int(Error.UNKNOWN_TOPIC_OR_PARTITION), -1, ""
        if request["version"] == 0:
            stored = self.in_zookeeper.get(_path(group, topic, partition))
            exists = topic in cluster.topics and stored is not None
            error, offset, metadata = (0, stored, "") if exists else missing
        elif cluster.partition(topic, partition) is None:
            error, offset, metadata = missing
        elif broker != self.coordinator(cluster, group):
            error, offset, metadata = int(Error.NOT_COORDINATOR), -1, ""
        else:
            error, (offset, metadata) = 0, self.in_kafka.get((group, topic, partition), (-1, ""))
        return {"error": error, "offset": offset, "metadata": metadata}


def _path(group: str, topic: str, partition: int) -> str:
    return f"/consumers/{group}/offsets/{topic}/{partition}"


def length_of(text: str) -> int:
    """Return the length of a text; a scenario writes a long one as ``5000 characters``."""
    match = TEXT_OF_LENGTH.fullmatch(text)
    return int(match[1]) if match else len(text)


ANSWERS: dict[str, Callable[[Cluster, int, RequestFields], ResponseFields]] = {
    "metadata": metadata,
    "offsets": offsets,
    "fetch": fetch,
}


# SimpleConsumer, and the loop that the design document describes around it.
#
# The loop: find a live broker, request the partition's leader and followers, fetch from the leader,
# and find the new leader when a fetch fails. There is no group: the caller stores offsets.


FETCH_BYTES = 64 * 1024


def _cluster(value: Any) -> Cluster:
    if not isinstance(value, Cluster):
        raise ArgumentError(f"cluster must be a Cluster, not {shown(value)}")
    return value


class NoLeader(CoterieError):
    """No live broker names a live leader of the partition."""


class SimpleConsumer:
    """A socket to one broker, with one request at a time; errors are not retried.

    Parameters
    ----------
    cluster
        The simulated brokers.
    broker
        The id of its broker.

    Raises
    ------
    ArgumentError
        The broker does not exist.
    """

    @called
    def __init__(self, cluster: Cluster, broker: int):
        self.cluster = _cluster(cluster)
        self.broker = broker_id(broker, self.cluster.brokers)

    @called
    def ask(self, api: str, **request: Any) -> ResponseFields:
        """Send a request (``metadata``, ``offsets`` or ``fetch``) and return the response.

        Parameters
        ----------
        api : str
            The kind of request.
        request
            All of its fields, as in the table of ``docs/designs.md``.

        Raises
        ------
        ArgumentError
            There is no such request, or a field is missing, unknown or has a wrong type.
        Gone
            The broker is dead.
        """
        fields = request_fields(api, request, ANSWERS)
        if unknown := [name for name in request if name not in fields]:
            raise ArgumentError(f"{api}: there is no field {shown(unknown[0])}")
        if self.broker not in self.cluster.alive:
            raise Gone(f"broker {self.broker} is dead: it takes no connection")
        return ANSWERS[api](self.cluster, self.broker, fields)


class SimpleReader:
    """Read a partition through changes of its leader, as a program of 2014 did.

    Parameters
    ----------
    cluster
        The simulated brokers.
    topic, partition
        The partition to read.
    seeds
        The brokers to try first.
    offset
        The first offset to read, or LATEST or EARLIEST.

    Attributes
    ----------
    offset : int
        The next offset to read.
    leader : int or None
        The present leader; None if it has to be found.
    replicas : list
        Known replicas; they are tried before the seeds to find the leader.
    requests : int
        Number of requests so far, failed ones included.

    Raises
    ------
    ArgumentError
        The topic's name is not legal, or a seed does not exist.
    """

    @called
    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        partition: int,
        *,
        seeds: Sequence[int],
        offset: int = EARLIEST,
    ):
        self.cluster = _cluster(cluster)
        self.topic, self.partition = topic_name(topic, "topic"), integer(partition, "partition")
        self.seeds = list(broker_ids(seeds, "seeds", cluster.brokers))
        self.offset = whole(offset, "offset")
        self.leader: int | None = None
        self.replicas: list[int] = []
        self.requests = 0

    def find_leader(self) -> int | None:
        """Ask the replicas, then the seeds, for the leader; None if no response names one."""
        for broker in dict.fromkeys([*self.replicas, *self.seeds]):
            metadata = self._metadata(broker)
            # an unavailable replica does not matter to a reader of the leader
            if metadata and metadata["error"] in (Error.NONE, Error.REPLICA_NOT_AVAILABLE):
                self.replicas = metadata["replicas"]
                self.leader = metadata["leader"]
                return self.leader
        self.leader = None
        return None

    def read(self) -> list[int]:
        """Fetch once and return the offsets of the messages; [] at the end of the log.

        Raises
        ------
        NoLeader
            The leader does not respond, and there is no other yet: call again later.
        """
        for _ in range(2):  # with the known leader, then with a new one
            leader = self.leader if self.leader is not None else self.find_leader()
            response = None if leader is None else self._fetch(leader)
            if response is None or response["error"] == Error.NOT_LEADER_OR_FOLLOWER:
                self.leader = None
            elif response["error"] == Error.OFFSET_OUT_OF_RANGE:
                self.offset = LATEST  # the log was truncated: go on at its end
            elif response["error"] == Error.NONE:
                # a compressed set is complete, with messages before the offset
                offsets = [offset for offset in response["offsets"] if offset >= self.offset]
                self.offset = offsets[-1] + 1 if offsets else self.offset
                return offsets
        raise NoLeader(f"{self.topic}-{self.partition}: no broker leads it, as far as any knows")

    def _ask(self, broker: int, api: str, **request: Any) -> ResponseFields | None:
        self.requests += 1
        try:
            return SimpleConsumer(self.cluster, broker).ask(api, **request)
        except Gone:
            return None

    def _metadata(self, broker: int) -> ResponseFields | None:
        response = self._ask(broker, "metadata", topics=[self.topic])
        partitions = response["topics"][0]["partitions"] if response else []
        return next((one for one in partitions if one["partition"] == self.partition), None)

    def _fetch(self, leader: int) -> ResponseFields | None:
        partition = {"topic": self.topic, "partition": self.partition}
        if self.offset in (LATEST, EARLIEST):
            response = self._ask(leader, "offsets", **partition, time=self.offset, max_offsets=1)
            if not response or response["error"]:
                return response
            self.offset = response["offsets"][0]
        return self._ask(leader, "fetch", **partition, offset=self.offset, fetch_size=FETCH_BYTES)


# Play a scenario of the low-level consumer: apply its events, and answer its requests.
#
# Responses in the file are ignored. An event without fields, such as ``session of broker 0 ended``,
# lets time pass until nothing is pending.


CLOSED = {"exception": "java.nio.channels.ClosedChannelException"}
PLACE = ("partition", "count")
NODE_WORDS = {  # words of a step that say which nodes it reads
    "states": re.compile(r"\b(?:states?|leaders?|isr|in-sync|elect\w*|epochs?)\b", re.I),
    "offsets": re.compile(r"\b(?:offsets?|commit\w*|version 0)\b", re.I),
}


def run(scenario: Mapping[str, Any]) -> list[ResponseFields]:
    """Play a scenario and return its steps, each request with its response.

    Parameters
    ----------
    scenario
        A file of the format ``coterie-simple08``, with or without its responses.

    Raises
    ------
    ArgumentError
        A step is wrong; the message names it.
    """
    player = Player(scenario)
    return [player.play(step, f"step {at}") for at, step in enumerate(player.steps, 1)]


class Player:
    """The state of a scenario that is being played."""

    def __init__(self, scenario: Mapping[str, Any]):
        config = _mapping(_mapping(scenario, "scenario").get("config"), "config")
        topics: Any = config.get("topics")
        brokers: Any = config.get("brokers")
        try:
            self.cluster = Cluster(topics, brokers)
        except ArgumentError as error:
            raise ArgumentError(f"config: {error}") from None
        self.offsets = OffsetStore()
        self.requests: list[Mapping[str, Any]] = []  # to brokers so far
        self.steps = _list(scenario.get("steps"), "steps")

    def play(self, value: Any, place: str) -> ResponseFields:
        """Play a step; error messages name it by its ``place``."""
        step = _mapping(value, place)
        place = f"step {shown(step['step'])}" if isinstance(step.get("step"), int) else place
        result = {name: field for name, field in step.items() if name != "response"}
        if "request" in step:
            request = _mapping(step["request"], f"{place}: request")
            return result | {"response": self.answer(request, str(step.get("doc", "")), place)}
        self.event(step, place)
        return result

    def event(self, step: Mapping[str, Any], place: str) -> None:
        name = step.get("event")
        if not isinstance(name, str):
            raise ArgumentError(f"{place}: event {shown(name)} is not known")
        if name in ("started", "start"):
            self.cluster.start([self._broker(one, place) for one in _brokers_of(step, place)])
        elif name in ("kill", "killed", "stop", "stopped"):
            for one in _brokers_of(step, place):
                self.cluster.kill(self._broker(one, place))
        elif name == "produce":
            self._produce(step, place)
        elif not step.keys() - {"step", "event", "doc"}:
            self.cluster.settle()
        else:
            raise ArgumentError(f"{place}: event {shown(name)} is not known")

    def _produce(self, step: Mapping[str, Any], place: str) -> None:
        topic, codec = step.get("topic"), step.get("codec", "none")
        number, count = (step[name] if _is_int(step.get(name)) else -1 for name in PLACE)
        if not isinstance(topic, str) or number < 0 or count < 0:
            raise ArgumentError(f"{place}: produce needs a topic, a partition and a count")
        try:
            partition = self.cluster.partition(topic, number)
            self.cluster.produce(topic, number, count, codec)
        except ArgumentError as error:
            raise ArgumentError(f"{place}: {error}") from None
        if partition is None:
            missing = f"topic {shown(topic)}, partition {shown(number)}"
            raise ArgumentError(f"{place}: nothing to produce to: {missing}")

    def answer(self, request: Mapping[str, Any], doc: str, place: str) -> ResponseFields:
        """Return the response to a request, or the exception of its sender."""
        api: Any = request.get("api")
        try:
            request = {**request, **request_fields(api, request, NEEDS)}
        except ArgumentError as error:
            raise ArgumentError(f"{place}: {error}") from None
        if api == "znodes":
            return self._nodes(doc)
        self.requests.append(request)
        broker = self._broker_asked(request, place)
        if broker is None or broker not in self.cluster.alive:
            return dict(CLOSED)
        answers: dict[str, Callable[[Cluster, int, Mapping[str, Any]], ResponseFields]] = {
            **ANSWERS,
            "consumer_metadata": self.offsets.consumer_metadata,
            "offset_commit": self.offsets.commit,
            "offset_fetch": self.offsets.fetch,
        }
        return answers[api](self.cluster, broker, request)

    def _broker_asked(self, request: Mapping[str, Any], place: str) -> int | None:
        """Return the broker of a request; ``coordinator`` stands for a group's coordinator."""
        named = request.get("broker")
        if not isinstance(named, str) or named not in ("coordinator", "not the coordinator"):
            return self._broker(named, place)
        coordinator = self.offsets.coordinator(self.cluster, request["group"])
        if named == "coordinator":
            return coordinator
        others = (broker for broker in sorted(self.cluster.alive) if broker != coordinator)
        return next(others, None)

    def _broker(self, value: Any, place: str) -> int:
        if not _is_int(value) or value not in self.cluster.brokers:
            raise ArgumentError(
                f"{place}: broker {shown(value)} is not one of {shown(list(self.cluster.brokers))}"
            )
        return int(value)

    def _nodes(self, doc: str) -> ResponseFields:
        """Return nodes of ZooKeeper: stored offsets, or the partition states of a topic.

        The request does not say which. The step's text may. Otherwise they are offsets after a
        request of version 0, which stores offsets in nodes, and states after any other request.
        """
        before = self.requests[-1] if self.requests else {}
        offsets = before.get("version") == 0
        if (kind := _kind_of_nodes(doc)) is not None:
            offsets = kind == "offsets"
        if offsets:
            return {path: str(at) for path, at in sorted(self.offsets.in_zookeeper.items())}
        return {
            f"/brokers/topics/{one.topic}/partitions/{one.number}/state": one.state.as_json()
            for one in self.cluster.topics.get(self._topic_of_states(doc), [])
        }

    def _topic_of_states(self, doc: str) -> str:
        """Return the topic in a step's text, or of the last request, or else the first topic."""
        topics = self.cluster.topics
        if (named := re.search(r"\btopic ([\w.-]+)", doc)) and named[1] in topics:
            return named[1]
        words = [one for one in re.findall(r"[\w.-]+", doc) if len(one) > 1]
        requested = (name for one in reversed(self.requests) for name in _requested_topics(one))
        return next((one for one in (*words, *requested, *topics) if one in topics), "")


def _kind_of_nodes(doc: str) -> str | None:
    """Return the kind of nodes in a step's text; None if it names none, or both."""
    kinds = [kind for kind, words in NODE_WORDS.items() if words.search(doc)]
    return kinds[0] if len(kinds) == 1 else None


def _requested_topics(request: Mapping[str, Any]) -> Sequence[str]:
    topics = request.get("topics", [request.get("topic", "")])
    return [one for one in topics if isinstance(one, str)]


def _brokers_of(step: Mapping[str, Any], place: str) -> Sequence[Any]:
    if "broker" in step:
        return [step["broker"]]
    return _list(step.get("brokers"), f"{place}: brokers")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _mapping(value: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ArgumentError(f"{place} must be an object, not {shown(value)}")
    return value


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise ArgumentError(f"{place} must be a list, not {shown(value)}")
    return value
