"""The rebalances of one consumer: tries to release its partitions and to claim its share.

Source: 0.8.2.2's ``ZKRebalancerListener.syncedRebalance``, ``rebalance``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from coterie.designs.consumer08 import registration
from coterie.designs.consumer08.assignment import PartitionKey, Unassignable
from coterie.designs.consumer08.config import ConsumerConfig
from coterie.designs.consumer08.fetching import Fetchers, Owned
from coterie.designs.consumer08.offsets import OffsetClient
from coterie.designs.consumer08.views import (
    BROKERS,
    GROUPS,
    TOPICS,
    GroupViews,
    share_of,
    thread_ids,
    topics_present,
)
from coterie.designs.consumer08.zkclient import ZkClient
from coterie.designs.zookeeper.tree import ZooKeeperError
from coterie.schedule import Lock, Routine

Note = Callable[..., None]


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
        """Count an event."""
        self.watch_events[kind] = self.watch_events.get(kind, 0) + 1


class Rebalancer:
    """A consumer's partitions, and its rebalances, one at a time.

    Parameters
    ----------
    group, consumer_id, config
        The consumer's group, id and settings.
    zk, views, fetchers, offsets
        Parts of the consumer.
    claim_ms : int
        The time from the release to the claim.
    note : function of a kind and details
        Called for each entry of the timeline.
    """

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
        """Rebalance, after one in progress.

        Raises
        ------
        RebalanceFailed
            Every try failed.
        """
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
        """Return its threads by topic, from its id node."""
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
