"""A consumer's fetchers: they follow the leaders of its partitions and consume messages.

Every message is consumed as soon as it is appended. Source: 0.8.2.2's ``ConsumerFetcherManager``: a
partition without a leader is looked up again every ``refresh.leader.backoff.ms``, from a broker
that is in ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from coterie.designs.consumer08.brokers import Brokers, HostedPartition
from coterie.designs.consumer08.config import ConsumerConfig
from coterie.schedule import Call, Routine, Schedule, Task


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
    """All fetchers of one consumer.

    Parameters
    ----------
    schedule, brokers, config
        The clock, the brokers and the consumer's settings.
    consumed : function of an owned partition, the first and the last offset
        Called when messages are consumed.
    read_brokers : function
        Returns a task that reads the brokers in ZooKeeper; it waits while the consumer is cut off.
    """

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
        """Fetch partitions from their offsets."""
        self._began_ms = self._schedule.now_ms
        self._fetched = {(entry.topic, entry.number): entry for entry in owned}
        for entry in self._fetched.values():
            self._begin(entry)
        self._register_search()

    def stop(self) -> None:
        """Stop fetching, and looking for leaders."""
        if self._finder is not None:
            self._finder.kill()
        for topic, number in self._fetched:
            partition = self._brokers.partition(topic, number)
            if partition is not None:
                partition.readers.pop(self, None)
        self._leaderless = {}
        self._register_search()

    def appended(self, partition: HostedPartition) -> None:
        """Consume appended messages."""
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
