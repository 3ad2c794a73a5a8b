"""A high-level consumer of Kafka 0.8.2: it starts, watches, rebalances, commits, closes or dies.

Its threads are tasks: the program (start, commit, close), ZooKeeper's event thread, the watcher
that rebalances after an event, and the timer of commits. Source: 0.8.2.2's
``ZookeeperConsumerConnector``, ``ZookeeperTopicEventWatcher``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from coterie.designs.consumer08 import registration
from coterie.designs.consumer08.brokers import Brokers
from coterie.designs.consumer08.config import ConsumerConfig
from coterie.designs.consumer08.fetching import Fetchers, Owned
from coterie.designs.consumer08.offsets import OffsetClient
from coterie.designs.consumer08.rebalance import ConsumerCounts, RebalanceFailed, Rebalancer
from coterie.designs.consumer08.views import GROUPS, TOPICS, GroupViews, thread_ids
from coterie.designs.consumer08.zkclient import ZkClient
from coterie.designs.times import Times
from coterie.designs.zookeeper.session import ZooKeeper
from coterie.designs.zookeeper.tree import ZooKeeperError
from coterie.schedule import Lock, PausingClock, Routine, Schedule, Task

START_ERROR = "kafka.common.ConsumerRebalanceFailedException"
ZK_ERROR = "org.I0Itec.zkclient.exception.ZkException"
Note = Callable[..., None]


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
    """One consumer.

    Parameters
    ----------
    context : RunContext
        The objects shared with the other consumers.
    name, group, consumer_id : str
        Its name in the scenario, its group, its ``consumer.id``.
    subscription : Subscription
        Its topics.
    config : ConsumerConfig
        Its settings.
    """

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
        """Its counts."""
        return self._rebalancer.counts

    @property
    def owned(self) -> dict[tuple[str, int], Owned]:
        """The partitions that it believes it owns."""
        return self._rebalancer.registry

    def start(self) -> None:
        """Start: register, watch, and rebalance for the first time."""
        if not self._rebalancer.closing:
            self._note("started")
            self._run(self._start())

    def close(self) -> None:
        """Shut down cleanly, after a rebalance in progress."""
        if self.state not in ("closed", "crashed") and not self._rebalancer.closing:
            self._rebalancer.closing = self.offsets.closing = True
            self._closer = Task(self._context.schedule, self._close())

    def commit(self) -> None:
        """Commit at the request of the program."""
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
