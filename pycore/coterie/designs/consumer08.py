"""The consumer of Kafka 0.8.2 over ZooKeeper: fetching, offsets, rebalances, and its threads.

``consumer08_cluster`` has the brokers and ZooKeeper's data as it sees them, and its share of the
partitions; ``consumer08_registration`` the content of its id node; ``consumer08_simulation`` runs a
scenario. Source of the rules: the classes of 0.8.2.2 that each section names.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from coterie.base.schedule import Call, Gate, Lock, PausingClock, Routine, Schedule, Task
from coterie.designs import consumer08_registration as registration
from coterie.designs.consumer08_cluster import (
    BROKERS,
    GROUPS,
    TOPICS,
    Brokers,
    ConsumerConfig,
    GroupViews,
    HostedPartition,
    Manager,
    PartitionKey,
    Unassignable,
    ZkClient,
    share_of,
    thread_ids,
    topics_present,
)
from coterie.designs.consumer08_registration import Unreadable
from coterie.designs.times import Times
from coterie.designs.zookeeper import ZooKeeper, ZooKeeperError

Note = Callable[..., None]  # takes what happened to a consumer


# A consumer's fetchers: they follow the leaders of its partitions and consume messages.
#
# Every message is consumed as soon as it is appended. Source: 0.8.2.2's ``ConsumerFetcherManager``:
# a partition without a leader is looked up again every ``refresh.leader.backoff.ms``, from a broker
# that is in ZooKeeper.


class Owned:
    """A partition that a consumer believes it owns.

    Attributes
    ----------
    offset
        The next offset to consume; -1 until it has been stored or looked up.
    has_stream
        Whether the program has a stream for it; without one, nothing is consumed.
    """

    __slots__ = ("has_stream", "number", "offset", "topic")

    def __init__(self, partition: tuple[str, int], offset: int, *, has_stream: bool) -> None:
        self.topic, self.number = partition
        self.offset = offset
        self.has_stream = has_stream


class Fetchers:
    """All fetchers of one consumer."""

    def __init__(
        self,
        schedule: Schedule,
        brokers: Brokers,
        config: ConsumerConfig,
        consumed: Callable[[Owned, int, int], None],
        read_brokers: Callable[[], Routine],
    ) -> None:
        self._schedule = schedule
        self._brokers = brokers
        self._smallest = config.auto_offset_reset == "smallest"
        self._backoff_ms = config.refresh_leader_backoff_ms
        self._consumed = consumed
        self._read_brokers = read_brokers
        self._finder: Task | None = None
        self._fetched: dict[tuple[str, int], Owned] = {}
        self._leaderless: dict[tuple[str, int], Owned] = {}
        self._began_ms = 0
        self._search_timer: Call | None = None
        self.requests = 0

    def start(self, owned: Iterable[Owned]) -> None:
        self._began_ms = self._schedule.now_ms
        self._fetched = {(entry.topic, entry.number): entry for entry in owned}
        for entry in self._fetched.values():
            self._begin(entry)
        self._register_search()

    def stop(self) -> None:
        if self._finder is not None:
            self._finder.kill()
        for topic, number in self._fetched:
            partition = self._brokers.partition(topic, number)
            if partition is not None:
                partition.readers.pop(self, None)
        self._leaderless = {}
        self._register_search()

    def appended(self, partition: HostedPartition) -> None:
        self._fetch(self._fetched[partition.topic, partition.number], partition)

    def lost(self, partition: HostedPartition) -> None:
        """Look for a partition's leader again."""
        key = partition.topic, partition.number
        self._leaderless[key] = self._fetched[key]
        self._register_search()
        self.leader_came()  # another replica may lead already

    def leader_came(self) -> None:
        """Schedule a search at the next multiple of the backoff since the start."""
        if self._search_timer is None:
            passed_ms = self._schedule.now_ms - self._began_ms
            wait_ms = self._backoff_ms - passed_ms % self._backoff_ms
            self._search_timer = self._schedule.call_later(wait_ms, self._start_search)

    def _start_search(self) -> None:
        self._search_timer = None
        if self._finder is None or self._finder.done:
            self._finder = Task(self._schedule, self._find())

    def _find(self) -> Routine:
        yield from self._read_brokers()
        leaderless, self._leaderless = self._leaderless, {}
        for owned in leaderless.values():
            self._begin(owned)
        self._register_search()

    def _register_search(self) -> None:
        if self._leaderless:
            self._brokers.seekers[self] = None
            return
        self._brokers.seekers.pop(self, None)
        if self._search_timer is not None:
            self._search_timer.cancel()
            self._search_timer = None

    def _begin(self, owned: Owned) -> None:
        partition = self._brokers.partition(owned.topic, owned.number)
        if partition is None or partition.leader is None:
            self._leaderless[owned.topic, owned.number] = owned
            return
        if not 0 <= owned.offset <= partition.end:
            owned.offset = 0 if self._smallest else partition.end
            self.requests += 1
        partition.readers[self] = None
        self._fetch(owned, partition)

    def _fetch(self, owned: Owned, partition: HostedPartition) -> None:
        self.requests += 1
        if owned.has_stream and partition.end > owned.offset:
            first, owned.offset = owned.offset, partition.end
            self._consumed(owned, first, owned.offset - 1)


# Offsets of a consumer: in ZooKeeper, in Kafka, or in both.
#
# Source: 0.8.2.2's ``ZookeeperConsumerConnector.commitOffsets``, ``fetchOffsets``.


NUMBER = re.compile(r"[+-]?[0-9]{1,99}")
LIMIT = 2**63


class OffsetClient:
    """Commits and fetches of one consumer's offsets."""

    def __init__(
        self,
        zk: ZkClient,
        brokers: Brokers,
        group: str,
        config: ConsumerConfig,
        committed: Callable[[str, int, int], None],
    ) -> None:
        self._zk = zk
        self._brokers = brokers
        self._group = group
        self._in_kafka = config.offsets_storage == "kafka"
        self._in_zookeeper = not self._in_kafka or config.dual_commit_enabled
        self._committed = committed
        self._known: dict[tuple[str, int], int] = {}  # last read or stored in ZooKeeper
        self._backoff_ms = config.offsets_channel_backoff_ms
        self._manager: Manager | None = None  # of the present connection
        self.closing = False
        self.requests = 0

    def connect(self) -> Routine:
        """Find the offset manager if offsets are in Kafka; wait until there is one."""
        while self._in_kafka and self._manager is None:
            self._manager = self._brokers.offset_manager(self._group)
            if self._manager is None:
                gate = Gate()
                self._brokers.call_on_start(gate.open)
                yield gate

    def _reaches(self) -> bool:
        """Return whether the manager can be reached; if not, it has to be found again."""
        if not self._brokers.reached(self._manager):
            self._manager = None
        return self._manager is not None

    def commit(self, owned: Iterable[Owned]) -> Routine:
        """Store the offset of each partition; in ZooKeeper only if it has changed.

        In Kafka, the request fails if the manager has died since: nothing is stored this time. A
        closing consumer tries again with the next manager.
        """
        offsets = {(one.topic, one.number): one.offset for one in owned}
        self._zk.zookeeper.schedule.spend(len(offsets))
        if self._in_kafka and offsets:
            yield from self.connect()
            while not self._reaches():
                if not self.closing:
                    return
                yield self._backoff_ms
                yield from self.connect()
            self.requests += 1
            for (topic, number), offset in offsets.items():
                self._brokers.stored_offsets[self._group, topic, number] = offset
                self._committed(topic, number, offset)
        if self._in_zookeeper:
            for key, offset in offsets.items():
                if self._known.get(key) != offset:
                    try:
                        yield from self._zk.update(self._path(*key), str(offset))
                    except ZooKeeperError:  # a foreign node is in the way; Kafka only logs this
                        return
                    self._known[key] = offset
                    if not self._in_kafka:
                        self._committed(*key, offset)

    def fetch(self, partitions: Iterable[tuple[str, int]]) -> Routine:
        """Return the stored offset of each partition, -1 if there is none.

        If offsets are in Kafka and cannot be read, there or in ZooKeeper, reading is repeated until
        it succeeds or the consumer closes.

        Raises
        ------
        Unreadable
            A node does not contain an offset, or the consumer closes meanwhile.
        """
        keys = list(partitions)
        while (offsets := (yield from self._fetch_once(keys))) is None:
            yield self._backoff_ms
        self._known.update(offsets)
        return offsets

    def _fetch_once(self, keys: Sequence[tuple[str, int]]) -> Routine:
        try:
            offsets = yield from self._fetch(keys)
        except Unreadable:
            if not self._in_kafka or self.closing:
                raise
            return None
        return offsets

    def _fetch(self, keys: Sequence[tuple[str, int]]) -> Routine:
        offsets = dict.fromkeys(keys, -1)
        if self._in_kafka and keys:
            yield from self.connect()
            if not self._reaches():
                raise Unreadable("the offset manager has died")
            self.requests += 1
            for key in keys:
                offsets[key] = self._brokers.stored_offsets.get((self._group, *key), -1)
        if self._in_zookeeper:
            for key in keys:
                text = yield from self._zk.read_if_there(self._path(*key))
                if text is not None:
                    stored = _number(text)
                    offsets[key] = max(stored, offsets[key]) if self._in_kafka else stored
        return offsets

    def _path(self, topic: str, number: int) -> str:
        return f"{GROUPS}/{self._group}/offsets/{topic}/{number}"


def _number(text: str) -> int:
    """Parse an offset: decimal digits, int64."""
    value = int(text) if NUMBER.fullmatch(text) else LIMIT
    if not -LIMIT <= value < LIMIT:
        raise Unreadable(text)
    return value


# The rebalances of one consumer: tries to release its partitions and to claim its share.
#
# Source: 0.8.2.2's ``ZKRebalancerListener.syncedRebalance``, ``rebalance``.


class RebalanceFailed(Exception):
    """All tries failed. The consumer owns nothing and stays registered."""


@dataclass(slots=True)
class ConsumerCounts:
    """Counts of a consumer since its start.

    Attributes
    ----------
    rebalances, failed_rebalances, tries, conflicts
        The number of rebalances, of those whose tries all failed, of tries, and of partitions that
        another consumer owned.
    no_broker_rebalances
        Tries that found no broker.
    watch_events
        Events handled by its event thread, by kind.
    """

    rebalances: int = 0
    failed_rebalances: int = 0
    no_broker_rebalances: int = 0
    tries: int = 0
    conflicts: int = 0
    watch_events: dict[str, int] = field(default_factory=dict)

    def event(self, kind: str) -> None:
        self.watch_events[kind] = self.watch_events.get(kind, 0) + 1


class Rebalancer:
    """A consumer's partitions, and its rebalances, one at a time."""

    def __init__(
        self,
        group: str,
        consumer_id: str,
        config: ConsumerConfig,
        *,
        zk: ZkClient,
        views: GroupViews,
        fetchers: Fetchers,
        offsets: OffsetClient,
        claim_ms: int,
        note: Note,
    ) -> None:
        self.counts = ConsumerCounts()
        self.lock = Lock()
        self.registry: dict[PartitionKey, Owned] = {}
        self.streams: set[tuple[str, str]] = set()  # topics and threads that have a stream
        self.closing = False
        self.wake: Callable[[], None] = lambda: None
        self._group = group
        self._id = consumer_id
        self._config = config
        self._zk = zk
        self._views = views
        self._fetchers = fetchers
        self._offsets = offsets
        self._claim_ms = claim_ms
        self._note = note

    def rebalance(self) -> Routine:
        """Rebalance, after one in progress."""
        yield from self.lock.acquire()
        try:
            if self.closing:
                return
            self.counts.rebalances += 1
            self._note("rebalance_began")
            for _ in range(self._config.rebalance_max_retries):
                self.counts.tries += 1
                succeeded = yield from self._try()
                if succeeded:
                    self._note("rebalance_ended", True)
                    return
                yield from self.stop_and_commit()
                yield self._config.backoff_ms
            self.counts.failed_rebalances += 1
            self._note("rebalance_ended", False)
        finally:
            self.lock.release()
        raise RebalanceFailed(self._id)

    def stop_and_commit(self) -> Routine:
        """Stop fetching, and commit if auto commit is enabled."""
        self._fetchers.stop()
        if self._config.auto_commit_enable:
            yield from self._offsets.commit(self.registry.values())

    def forget(self) -> None:
        """Give up all partitions, without a commit and without ZooKeeper."""
        self._replace({})

    def _try(self) -> Routine:
        """Try once and return whether it succeeded. It fails if any read or write fails."""
        try:
            succeeded = yield from self._attempt()
        except (ZooKeeperError, registration.Unreadable, Unassignable):
            return False
        return succeeded

    def _attempt(self) -> Routine:
        brokers = yield from self._zk.children_if_there(BROKERS)
        yield from self._own_threads()
        if not brokers:
            self.counts.no_broker_rebalances += 1
            yield from self._zk.listen_to_children(BROKERS, self.wake)
            return True
        yield from self.stop_and_commit()
        for topic, number in self.registry:
            yield from self._zk.delete(self._owner_path(topic, number))
        self._replace({})
        yield self._claim_ms
        yield from self._zk.children(f"{GROUPS}/{self._group}/ids")
        own = yield from self._own_threads()
        share = yield from self._zk.ask(self._share, own, count=self._registered() + len(own))
        stored = yield from self._offsets.fetch(share)
        if self.closing or not (yield from self._claim(share)):
            return False
        self._replace(
            {
                key: Owned(key, offset, has_stream=(key[0], share[key]) in self.streams)
                for key, offset in stored.items()
            }
        )
        self._fetchers.start(self.registry.values())
        return True

    def _share(self, own: Mapping[str, Sequence[str]]) -> dict[PartitionKey, str]:
        """Read the group and the partitions of its topics, and compute its share."""
        self._zk.watch_what_is_read(f"{TOPICS}/{topic}" for topic in own)
        tree = self._zk.zookeeper.tree
        return share_of(tree, self._views, self._group, own, self._config)

    def _own_threads(self) -> Routine:
        data = yield from self._zk.read(f"{GROUPS}/{self._group}/ids/{self._id}")
        subscription = registration.parse(data)
        present: Sequence[str] = ()
        if subscription.by_filter:
            yield from self._zk.children_if_there(TOPICS)
            present = topics_present(self._zk.zookeeper.tree)
        topics = subscription.topics(present, exclude_internal=self._config.exclude_internal_topics)
        return {topic: thread_ids(self._id, streams) for topic, streams in topics.items()}

    def _claim(self, share: dict[PartitionKey, str]) -> Routine:
        """Create the owner nodes and return whether all exist; if not, delete the new ones."""
        created = []
        for (topic, number), thread in share.items():
            path = self._owner_path(topic, number)
            try:
                is_owner = yield from self._zk.create_ephemeral(path, thread)
            except ZooKeeperError:  # its parent is a foreign ephemeral node
                is_owner = False
            if is_owner:
                created.append(path)
        if len(created) == len(share):
            return True
        self.counts.conflicts += len(share) - len(created)
        for path in created:
            yield from self._zk.delete(path)
        return False

    def _replace(self, registry: dict[PartitionKey, Owned]) -> None:
        for key in self.registry:
            self._note("gives_up", *key)
        self.registry = registry
        for key in registry:
            self._note("owns", *key)

    def _registered(self) -> int:
        node = self._zk.zookeeper.tree.nodes.get(f"{GROUPS}/{self._group}/ids")
        return len(node.children) if node else 0

    def _owner_path(self, topic: str, number: int) -> str:
        return f"{GROUPS}/{self._group}/owners/{topic}/{number}"


# A high-level consumer of Kafka 0.8.2: it starts, watches, rebalances, commits, closes or dies.
#
# Its threads are tasks: the program (start, commit, close), ZooKeeper's event thread, the watcher
# that rebalances after an event, and the timer of commits. Source: 0.8.2.2's
# ``ZookeeperConsumerConnector``, ``ZookeeperTopicEventWatcher``.


START_ERROR = "kafka.common.ConsumerRebalanceFailedException"
ZK_ERROR = "org.I0Itec.zkclient.exception.ZkException"


@dataclass(frozen=True, slots=True)
class RunContext:
    """The objects that all consumers of a run share.

    ``periods`` is the clock of periodic commits, which is paused while a point settles.
    """

    schedule: Schedule
    periods: PausingClock
    zookeeper: ZooKeeper
    brokers: Brokers
    views: GroupViews
    times: Times
    note: Note


class ZooKeeperConsumer:
    def __init__(
        self,
        context: RunContext,
        name: str,
        group: str,
        consumer_id: str,
        subscription: registration.Subscription,
        config: ConsumerConfig,
    ) -> None:
        self.name = name
        self.group = group
        self.state = "running"
        self.start_error = ""
        self.consumed: dict[tuple[str, int], list[list[int]]] = {}
        self._context = context
        self._id = f"{group}_{consumer_id}"
        self._subscription = subscription
        self._config = config
        self._woken = False
        self._watcher: Task | None = None
        self._closer: Task | None = None
        self._committer: Task | None = None
        self._tasks: list[Task] = []
        self._commit_timer: int | None = None
        self._topics_seen: list[str] = []
        self._topics_lock = Lock()
        self._watched: dict[str, None] = {}  # all topics that it has subscribed to so far
        self.zk = ZkClient(
            context.schedule,
            context.zookeeper,
            name,
            config.zookeeper_session_timeout_ms,
            context.times,
            new_session=self._new_session,
            counted=self._counted,
        )
        self.fetchers = Fetchers(
            context.schedule, context.brokers, config, self._consume, self.zk.reach
        )
        self.offsets = OffsetClient(self.zk, context.brokers, group, config, self._committed)
        self._rebalancer = Rebalancer(
            group,
            self._id,
            config,
            zk=self.zk,
            views=context.views,
            fetchers=self.fetchers,
            offsets=self.offsets,
            claim_ms=context.times.claim_ms,
            note=self._note,
        )
        self._rebalancer.wake = self._wake

    @property
    def counts(self) -> ConsumerCounts:
        return self._rebalancer.counts

    @property
    def owned(self) -> dict[tuple[str, int], Owned]:
        return self._rebalancer.registry

    def start(self) -> None:
        """Start: register, watch, and rebalance for the first time."""
        if not self._rebalancer.closing:
            self._note("started")
            self._run(self._start())

    def close(self) -> None:
        if self.state not in ("closed", "crashed") and not self._rebalancer.closing:
            self._rebalancer.closing = self.offsets.closing = True
            self._closer = Task(self._context.schedule, self._close())

    def commit(self) -> None:
        if not self._rebalancer.closing:
            self._run(self.offsets.commit(self.owned.values()))

    def crash(self) -> None:
        """End its process; its session ends by its timeout."""
        if self.state in ("closed", "crashed"):
            return
        if self._closer is not None:
            self._closer.kill()
        self._end("crashed")
        self.zk.connection.crash()

    def _run(self, run: Routine) -> Task:
        self._tasks = [task for task in self._tasks if not task.done]
        self._tasks.append(Task(self._context.schedule, run))
        return self._tasks[-1]

    def _start(self) -> Routine:
        yield from self.offsets.connect()
        if self._config.auto_commit_enable:
            self._commit_later()
        try:
            if self._subscription.by_filter:
                self._topics_seen = yield from self._allowed_topics()
            yield from self._register()
            yield self._context.times.watch_ms
            yield from self._watch_and_rebalance()
        except RebalanceFailed:
            self._fail_start(START_ERROR)
            return
        except ZooKeeperError:  # a foreign node is in the way
            self._fail_start(ZK_ERROR)
            return
        if self._subscription.by_filter and not self._rebalancer.closing:
            yield from self.zk.listen_to_children(TOPICS, self._topics_changed)
            yield from self._topics_changed()

    def _fail_start(self, error: str) -> None:
        if self.state == "running":
            self.state, self.start_error = "start_failed", error

    def _register(self) -> Routine:
        """Create the id node; wait until that of an earlier session under this id is gone."""
        path = f"{GROUPS}/{self.group}/ids/{self._id}"
        data = registration.node_data(self._subscription, self._context.schedule.now_ms)
        while not (yield from self.zk.create_ephemeral(path, data)):
            if (yield from self.zk.read_if_there(path)) is not None:
                yield self._config.zookeeper_session_timeout_ms

    def _watch_and_rebalance(self) -> Routine:
        """Listen to sessions, watch the group and its topics, and rebalance."""
        topics = dict(self._subscription.streams)
        if self._subscription.by_filter:
            ((_, streams),) = self._subscription.streams
            topics = dict.fromkeys((yield from self._allowed_topics()), streams)
        for topic, streams in topics.items():
            self._rebalancer.streams.update(
                (topic, thread) for thread in thread_ids(self._id, streams)
            )
        self._watched.update(dict.fromkeys(topics))
        self.zk.listen_to_sessions()
        yield from self.zk.listen_to_children(f"{GROUPS}/{self.group}/ids", self._wake)
        for topic in self._watched:
            yield from self.zk.listen_to_data(f"{TOPICS}/{topic}", self._wake, _nothing)
        yield from self._rebalancer.rebalance()

    def _allowed_topics(self) -> Routine:
        present = yield from self.zk.children_if_there(TOPICS)
        exclude = self._config.exclude_internal_topics
        return list(self._subscription.topics(present, exclude_internal=exclude))

    def _topics_changed(self) -> Routine:
        """Subscribe again if a topic has been created or deleted; one change at a time."""
        yield from self._topics_lock.acquire()
        try:
            before, self._topics_seen = self._topics_seen, (yield from self._allowed_topics())
            if set(before) != set(self._topics_seen):
                yield from self._quietly(self._watch_and_rebalance())
        finally:
            self._topics_lock.release()

    def _new_session(self) -> Routine:
        self._rebalancer.forget()
        yield from self._quietly(self._return())

    def _return(self) -> Routine:
        yield from self._register()
        yield from self._rebalancer.rebalance()

    def _wake(self) -> None:
        """Make the watcher rebalance; if it is rebalancing, once more afterwards."""
        self._woken = True
        if self._watcher is None or self._watcher.done:
            self._watcher = Task(self._context.schedule, self._watch())

    def _watch(self) -> Routine:
        while self._woken and not self._rebalancer.closing:
            self._woken = False
            yield from self._quietly(self._rebalancer.rebalance())

    def _quietly(self, run: Routine) -> Routine:
        """Run a task on a thread that only logs failures."""
        with contextlib.suppress(RebalanceFailed, ZooKeeperError):
            yield from run

    def _commit_later(self) -> None:
        later = self._context.periods.call_later
        self._commit_timer = later(self._config.auto_commit_interval_ms, self._commit_in_time)

    def _commit_in_time(self) -> None:
        self._commit_later()
        if self.owned and (self._committer is None or self._committer.done):
            self._committer = self._run(self.offsets.commit(self.owned.values()))

    def _close(self) -> Routine:
        yield from self._rebalancer.lock.acquire()
        self.zk.stop_listening()
        yield from self._rebalancer.stop_and_commit()
        self._end("closed")
        self.zk.connection.close()

    def _end(self, state: str) -> None:
        self.state = state
        self._rebalancer.closing = self.offsets.closing = True
        if self._commit_timer is not None:
            self._context.periods.cancel(self._commit_timer)
        self.fetchers.stop()
        self._rebalancer.forget()
        for task in (*self._tasks, self._watcher, self.zk.event_thread):
            if task is not None:
                task.kill()
        self._note(state)

    def _consume(self, owned: Owned, first: int, last: int) -> None:
        ranges = self.consumed.setdefault((owned.topic, owned.number), [])
        if ranges and ranges[-1][1] + 1 == first:
            ranges[-1][1] = last
        else:
            ranges.append([first, last])
        self._note("consumed", owned.topic, owned.number, first, last)

    def _committed(self, topic: str, number: int, offset: int) -> None:
        self._note("committed", topic, number, offset)

    def _counted(self, kind: str) -> None:
        self.counts.event(kind)
        self._note("event", kind)

    def _note(self, kind: str, *details: object) -> None:
        self._context.note(kind, self.name, *details)


def _nothing() -> None:
    """Handle the deletion of a topic: a consumer only logs a warning."""
