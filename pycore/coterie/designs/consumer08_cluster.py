"""The cluster as a consumer of Kafka 0.8.2 sees it: brokers, views of ZooKeeper, its share."""

from __future__ import annotations

import contextlib
import functools
import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from coterie._core.codec.compression import partition_for
from coterie.base.schedule import Routine, Schedule, Task, TooManySteps
from coterie.designs import consumer08_registration as registration
from coterie.designs.checks import MOST_STREAMS
from coterie.designs.times import Times
from coterie.designs.zookeeper import (
    CHILDREN,
    CREATED,
    DATA,
    DELETED,
    Connection,
    Node,
    NodeExists,
    NoNode,
    Session,
    Tree,
    ZooKeeper,
)
from coterie.errors import ArgumentError


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """Settings of a consumer. Names and defaults are those of 0.8.2.2, ``_`` for ``.``."""

    zookeeper_session_timeout_ms: int = 6000
    zookeeper_sync_time_ms: int = 2000
    rebalance_max_retries: int = 4
    rebalance_backoff_ms: int = -1  # below 0: zookeeper.sync.time.ms
    auto_commit_enable: bool = True
    auto_commit_interval_ms: int = 60_000
    auto_offset_reset: str = "largest"
    offsets_storage: str = "zookeeper"
    dual_commit_enabled: bool = True  # only if offsets are stored in Kafka
    offsets_channel_backoff_ms: int = 1000
    exclude_internal_topics: bool = True
    partition_assignment_strategy: str = "range"
    refresh_leader_backoff_ms: int = 200
    assignment: str = ""  # "ceiling": the design document's rule, in place of the strategy

    @property
    def backoff_ms(self) -> int:
        """The pause after a failed try, ms."""
        backoff_ms = self.rebalance_backoff_ms
        return self.zookeeper_sync_time_ms if backoff_ms < 0 else backoff_ms


KNOWN = {name.replace("_", "."): name for name in ConsumerConfig.__slots__}
CHOICES = {
    "auto_offset_reset": ("largest", "smallest"),
    "offsets_storage": ("zookeeper", "kafka"),
    "assignment": ("", "ceiling"),
}
LEAST = {"rebalance_max_retries": 0, "rebalance_backoff_ms": 0}


def consumer_config(*layers: Mapping[str, Any]) -> ConsumerConfig:
    """Read settings: text, numbers or booleans by Kafka's names; later ones win.

    Settings without an effect in the simulation are ignored.
    """
    values: dict[str, Any] = {}
    for settings in layers:
        for key, value in settings.items():
            if key in KNOWN:
                values[KNOWN[key]] = _value(key, KNOWN[key], value)
    return ConsumerConfig(**values)


def _value(key: str, name: str, value: Any) -> Any:
    kind = type(getattr(ConsumerConfig(), name))
    if kind is bool:
        if str(value).lower() in ("true", "false"):
            return str(value).lower() == "true"
        raise ArgumentError(f"{key}: {value!r} is neither true nor false")
    if kind is int:
        try:
            number = int(str(value))
        except ValueError:
            raise ArgumentError(f"{key}: {value!r} is not a whole number") from None
        least = LEAST.get(name, 1)
        if not least <= number < 2**31:
            raise ArgumentError(f"{key}: {number} is not in {least} to 2147483647")
        return number
    text = str(value)
    if text not in CHOICES.get(name, (text,)):
        raise ArgumentError(f"{key}: {text!r} is none of {', '.join(filter(None, CHOICES[name]))}")
    return text


# Assign partitions to threads: range, round robin, and the design document's ceiling rule.
#
# Source: 0.8.2.2's ``PartitionAssignor``. A thread is ``(consumer id, number)``; threads are sorted
# as the text ``ID-NUMBER``.


PartitionKey = tuple[str, int]
Positions = Mapping[str, Mapping[str, int]]
"""The index of each thread among all threads of a topic, by topic."""


class Unassignable(ValueError):
    """Round robin is not allowed for this group."""


def java_sort_key(text: str) -> bytes:
    """Return a key that sorts text as Java does, by UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def java_hash(text: str) -> int:
    """Return Java's hash of a text (int32)."""
    units = java_sort_key(text)
    value = 0
    for i in range(0, len(units), 2):
        value = (31 * value + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def range_share(
    own: Mapping[str, Sequence[str]],
    partitions: Mapping[str, Sequence[int]],
    positions: Positions,
    *,
    ceiling: bool = False,
) -> dict[PartitionKey, str]:
    """Return a consumer's share by the range rule: consecutive partitions for each thread.

    Parameters
    ----------
    own : mapping
        The consumer's own threads, by topic.
    partitions : mapping
        The partitions of those topics, sorted.
    positions : mapping
        The index of each thread among all threads of the topic.
    ceiling : bool
        The document's rule: each thread takes ceil(P / C), the last ones the rest.
    """
    share: dict[PartitionKey, str] = {}
    for topic, threads in own.items():
        present = partitions[topic]
        places = positions[topic]
        least, more = divmod(len(present), len(places))
        for thread in threads:
            k = places[thread]
            if ceiling:
                size = least + bool(more)
                start = k * size
            else:
                start, size = least * k + min(k, more), least + (k < more)
            for partition in present[start : start + size]:
                share[topic, partition] = thread
    return share


@functools.lru_cache(maxsize=65536)
def round_robin_key(topic: str, partition: int) -> int:
    """Return the sort key of a partition in round robin."""
    return java_hash(f"[{topic},{partition}]")


def round_robin_share(
    own: Mapping[str, Sequence[str]],
    partitions: Mapping[str, Sequence[int]],
    positions: Positions,
) -> dict[PartitionKey, str]:
    """Deal all partitions of a consumer's topics to all threads in turn; return its share.

    If hashes are equal, the topic that the subscription names later comes first, as in a Scala map
    of two entries.

    Raises
    ------
    Unassignable
        The topics of the group do not all have the same threads, or there are none.
    """
    sets = list(positions.values())
    if not sets or any(other.keys() != sets[0].keys() for other in sets[1:]):
        raise Unassignable("round robin needs the same threads for every topic of the group")
    threads = list(sets[0])
    own_threads = {thread for names in own.values() for thread in names}
    partitions_in_turn = [(t, p) for t in reversed(list(own)) for p in partitions[t]]
    partitions_in_turn.sort(key=lambda key: round_robin_key(*key))
    share = {}
    for i, partition in enumerate(partitions_in_turn):
        thread = threads[i % len(threads)]
        if thread in own_threads:
            share[partition] = thread
    return share


# Cached views of a group and its topics in ZooKeeper.
#
# Every consumer of a group reads the same nodes at each rebalance. They are parsed once for all
# consumers until a node changes, which makes a herd of a thousand cheap to simulate. Each read is
# still counted as an operation.


BROKERS, TOPICS, GROUPS = "/brokers/ids", "/brokers/topics", "/consumers"
THREAD_ITEMS = 64  # the work of reading and sorting a thread, in items: four steps
Version = tuple[tuple[Node | None, int], ...]


@functools.lru_cache(maxsize=4096)
def partitions_in(data: str) -> Sequence[int]:
    """Return the sorted partitions in the text of a topic's node; possibly none.

    Raises
    ------
    registration.Unreadable
        The text is JSON of another form. Text that is not JSON has no partitions.
    """
    fields = registration.read_json(data)
    if fields is None:
        return []
    partitions = fields.get("partitions", {}) if isinstance(fields, dict) else None
    if not isinstance(partitions, dict):
        raise registration.Unreadable(data)
    try:
        return sorted(map(int, partitions))
    except ValueError:
        raise registration.Unreadable(data) from None


def topic_data(replicas: Mapping[int, Sequence[int]]) -> str:
    partitions = {str(partition): list(ids) for partition, ids in replicas.items()}
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"))


def topics_present(tree: Tree) -> Sequence[str]:
    return tree.children(TOPICS) if TOPICS in tree.nodes else ()


def partitions_of(tree: Tree, topic: str) -> Sequence[int]:
    """Return the sorted partitions of a topic; none if it does not exist."""
    node = tree.nodes.get(f"{TOPICS}/{topic}")
    return partitions_in(node.data) if node else ()


class GroupViews:
    """The threads of each topic by group, as in the id nodes."""

    def __init__(self, tree: Tree, schedule: Schedule) -> None:
        self._tree = tree
        self._schedule = schedule
        self._cache: dict[tuple[str, bool], tuple[Version, Positions]] = {}

    def spend(self, items: int) -> None:
        """Count work on many items against the limit of the run."""
        self._schedule.spend(items)

    def positions(self, group: str, *, exclude_internal: bool) -> Positions:
        """Return the index of each thread among those of its topic."""
        ids = f"{GROUPS}/{group}/ids"
        version = self._version(ids), self._version(TOPICS)
        cached = self._cache.get((group, exclude_internal))
        if cached is None or cached[0] != version:
            positions = self._read(ids, exclude_internal=exclude_internal)
            cached = self._cache[group, exclude_internal] = version, positions
        return cached[1]

    def _version(self, path: str) -> tuple[Node | None, int]:
        """Return a node and its count of changes; a new node of the same path counts from 0."""
        node = self._tree.nodes.get(path)
        return node, node.below if node else 0

    def _read(self, ids: str, *, exclude_internal: bool) -> Positions:
        present = topics_present(self._tree)
        threads: dict[str, list[str]] = {}
        for name in self._tree.children(ids) if ids in self._tree.nodes else ():
            subscription = registration.parse(self._tree.nodes[f"{ids}/{name}"].data)
            taken = subscription.topics(present, exclude_internal=exclude_internal)
            for topic, streams in taken.items():
                threads.setdefault(topic, []).extend(thread_ids(name, streams))
                self.spend(THREAD_ITEMS * streams)
        return {
            topic: {thread: place for place, thread in enumerate(sorted(names, key=java_sort_key))}
            for topic, names in threads.items()
        }


@functools.lru_cache(maxsize=4096)
def thread_ids(consumer_id: str, streams: int) -> Sequence[str]:
    """Return the ids of a consumer's threads.

    Raises
    ------
    TooManySteps
        An id node that was written from outside names more streams than a scenario may start.
    """
    if streams > MOST_STREAMS:
        raise TooManySteps(f"a consumer has {streams} streams of a topic; {MOST_STREAMS} at most")
    return [f"{consumer_id}-{number}" for number in range(streams)]


def share_of(
    tree: Tree,
    views: GroupViews,
    group: str,
    own: Mapping[str, Sequence[str]],
    config: ConsumerConfig,
) -> dict[PartitionKey, str]:
    """Compute a consumer's share by its own rule, from the present registrations."""
    positions = views.positions(group, exclude_internal=config.exclude_internal_topics)
    partitions = {topic: partitions_of(tree, topic) for topic in own}
    if config.assignment == "ceiling":
        return range_share(own, partitions, positions, ceiling=True)
    if config.partition_assignment_strategy == "roundrobin":
        views.spend(sum(map(len, partitions.values())))
        return round_robin_share(own, partitions, positions)
    return range_share(own, partitions, positions)


# Brokers as consumers see them: live brokers, topics, leaders, logs and offsets in Kafka.
#
# A partition's leader is the first live in-sync replica. If none lives it is the first live replica
# (0.8.2's default), and messages that only the others had are lost.


OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITIONS, OFFSETS_REPLICAS = 50, 3
Manager = tuple[int, int]
"""The broker that stores a group's offsets, and how often it has started."""


class PartitionListener(Protocol):
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
        return 0 if self.leader is None else self.ends[self.leader]


class Brokers:
    """All brokers, and all partitions by topic and number."""

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


# zkclient 0.3: a ZooKeeper client with listeners, whose events run one after another.
#
# A listener is permanent: when its watch fires, the event thread reads the node, which sets the
# watch again, and then runs the listener. After the end of a session, a new-session event comes
# first, then one event for every listener. Source: ``org.I0Itec.zkclient.ZkClient``.


Listener = Callable[[], "Routine | None"]
NEW_SESSION = "new_session"


class ZkClient:
    """One consumer's client."""

    def __init__(
        self,
        schedule: Schedule,
        zookeeper: ZooKeeper,
        name: str,
        timeout_ms: int,
        times: Times,
        *,
        new_session: Callable[[], Routine],
        counted: Callable[[str], None],
    ) -> None:
        self.connection = Connection(
            zookeeper,
            name,
            timeout_ms,
            self._received,
            self._expired,
            delivery_ms=times.delivery_ms,
            reconnect_ms=times.reconnect_ms,
        )
        self.zookeeper = zookeeper
        self._tree = zookeeper.tree
        self._schedule = schedule
        self._new_session = new_session
        self._counted = counted
        self._child_listeners: dict[str, Listener] = {}
        self._data_listeners: dict[str, Listener] = {}
        self._deleted_listeners: dict[str, Listener] = {}
        self._listens_to_sessions = False
        self._events: deque[tuple[str, str]] = deque()
        self.event_thread: Task | None = None

    @property
    def operations(self) -> int:
        return self.connection.operations

    def children(self, path: str) -> Routine:
        """Return the names of a node's children; NoNode if it does not exist."""
        names = yield from self.connection.call(self._children, path)
        return names

    def children_if_there(self, path: str) -> Routine:
        """Return the names of a node's children; none if it does not exist."""
        try:
            names = yield from self.children(path)
        except NoNode:
            return ()
        return names

    def read(self, path: str) -> Routine:
        """Return a node's data; NoNode if it does not exist."""
        data = yield from self.connection.call(self._read, path)
        return data

    def read_if_there(self, path: str) -> Routine:
        """Return a node's data; None if it does not exist."""
        try:
            data = yield from self.read(path)
        except NoNode:
            return None
        return data

    def ask(self, function: Callable[..., object], *args: object, count: int) -> Routine:
        """Do several reads at once; they count as ``count`` operations."""
        answer = yield from self.connection.call(function, *args, count=count)
        return answer

    def reach(self) -> Routine:
        """Wait until ZooKeeper can be reached; not counted as an operation."""
        yield from self.connection.call(lambda: None, count=0)

    def create_ephemeral(self, path: str, data: str) -> Routine:
        """Create an ephemeral node and its parents; return whether it exists with this text.

        An existing node with the same text counts as created, also if another client owns it.
        """
        try:
            yield from self.connection.call(self._create_ephemeral, path, data)
        except NodeExists:
            present = yield from self.read_if_there(path)
            return present == data
        return True

    def update(self, path: str, data: str) -> Routine:
        """Write a persistent node; create it and its parents if it is missing."""
        try:
            yield from self.connection.call(self.zookeeper.set, path, data)
        except NoNode:
            yield from self.connection.call(self.zookeeper.create_with_parents, path, data)

    def delete(self, path: str) -> Routine:
        """Delete a node, if it exists."""
        with contextlib.suppress(NoNode):
            yield from self.connection.call(self.zookeeper.delete, path)

    def listen_to_sessions(self) -> None:
        """Handle new sessions from now on; earlier ones are not reported."""
        self._listens_to_sessions = True

    def listen_to_children(self, path: str, listener: Listener) -> Routine:
        self._child_listeners[path] = listener
        yield from self._watch_children(path)

    def listen_to_data(self, path: str, changed: Listener, deleted: Listener) -> Routine:
        """Call a listener when a node is written or created, or another when it is deleted."""
        self._data_listeners[path] = changed
        self._deleted_listeners[path] = deleted
        yield from self.connection.call(self._watch_data, path)

    def stop_listening(self) -> None:
        self._listens_to_sessions = False
        for listeners in (self._child_listeners, self._data_listeners, self._deleted_listeners):
            listeners.clear()

    def watch_what_is_read(self, paths: Iterable[str]) -> None:
        """Set the data watches that a read of these nodes sets, for nodes with listeners.

        Without them, a change between the start of a new session and the session's event for the
        node would cause one event, not two.
        """
        for path in paths:
            if path in self._data_listeners and path in self._tree.nodes:
                self._tree.get(path, self.connection.session)

    def _create_ephemeral(self, path: str, data: str) -> None:
        self.connection.operations += (
            self.zookeeper.create_with_parents(path, data, self.connection.session) - 1
        )

    def _children(self, path: str) -> tuple[str, ...]:
        return self._tree.children(path, self._watcher(path))

    def _read(self, path: str) -> str:
        return self._tree.get(path, self._watcher(path))

    def _watcher(self, path: str) -> Session | None:
        listens = path in self._child_listeners or path in self._data_listeners
        return self.connection.session if listens else None

    def _watch_children(self, path: str) -> Routine:
        """Watch a node and its children; for a missing node, its creation."""
        if (yield from self.connection.call(self._watch_data, path)):
            yield from self.connection.call(self._children, path)

    def _received(self, kind: str, path: str) -> None:
        """Queue an event for listeners, if there are any."""
        if kind in (CHILDREN, CREATED, DELETED) and path in self._child_listeners:
            self._events.append((CHILDREN, path))
        if kind in (DATA, CREATED, DELETED) and path in self._data_listeners:
            self._events.append((DATA, path))
        self._schedule.call_soon(self._run_events)

    def _expired(self) -> None:
        if self._listens_to_sessions:
            self._events.append((NEW_SESSION, ""))
        self._events.extend((CHILDREN, path) for path in self._child_listeners)
        self._events.extend((DATA, path) for path in self._data_listeners)
        self._schedule.call_soon(self._run_events)

    def _run_events(self) -> None:
        if self._events and (self.event_thread is None or self.event_thread.done):
            self.event_thread = Task(self._schedule, self._handle_events())

    def _handle_events(self) -> Routine:
        while self._events:
            kind, path = self._events.popleft()
            if kind == NEW_SESSION:
                self._counted(NEW_SESSION)
                yield from self._new_session()
                continue
            if kind == CHILDREN:
                yield from self._watch_children(path)
                listener = self._child_listeners.get(path)
            else:
                exists = yield from self.connection.call(self._watch_data, path, count=2)
                listeners = self._data_listeners if exists else self._deleted_listeners
                listener = listeners.get(path)
            if listener is None:
                continue
            self._counted(_name_of(kind, path))
            routine = listener()
            if routine is not None:
                yield from routine

    def _watch_data(self, path: str) -> bool:
        return self._tree.exists(path, self.connection.session)


def _name_of(kind: str, path: str) -> str:
    if kind == DATA:
        return "topic_data"
    return {TOPICS: "topics_children", BROKERS: "brokers_children"}.get(path, "ids_children")
