"""A consumer's fetchers: what they read from, and what is consumed.

Every message is consumed at once when it comes. Source: 0.8.2.2's ``ConsumerFetcherManager``: a
partition without a leader is looked up again every ``refresh.leader.backoff.ms``, from a broker
that is in ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from coterie.designs.consumer08.brokers import Brokers, HostedPartition
from coterie.designs.consumer08.config import ConsumerConfig
from coterie.designs.schedule import Routine, Schedule, Task


class Owned:
    """A partition that a consumer believes its own.

    Attributes
    ----------
    offset
        The next to consume; -1 as long as it has neither been stored nor looked up.
    has_stream
        Whether the program has a stream for it: without one nothing is consumed.
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
        The clock, what it reads from, and how it is set.
    consumed : function of a partition owned, the first and the last offset
        Called when messages are consumed.
    read_brokers : function
        Returns what reads the brokers in ZooKeeper: who is cut off waits, and finds no leader.
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
        self._reads: dict[tuple[str, int], Owned] = {}
        self._looks_for: dict[tuple[str, int], Owned] = {}
        self._began_ms = 0
        self._look: tuple[int, int] | None = None
        self.requests = 0

    def start(self, owned: Iterable[Owned]) -> None:
        """Fetch from these partitions, from their offsets."""
        self._began_ms = self._schedule.now_ms
        self._reads = {(one.topic, one.number): one for one in owned}
        for one in self._reads.values():
            self._begin(one)
        self._seek()

    def stop(self) -> None:
        """Fetch no more, and look for no leader."""
        if self._finder is not None:
            self._finder.kill()
        for topic, number in self._reads:
            partition = self._brokers.partition(topic, number)
            if partition is not None:
                partition.readers.pop(self, None)
        self._reads = {}
        self._looks_for = {}
        self._seek()

    def appended(self, partition: HostedPartition) -> None:
        """Consume what has come."""
        self._take(self._reads[partition.topic, partition.number], partition)

    def lost(self, partition: HostedPartition) -> None:
        """Look for the leader of a partition again."""
        key = partition.topic, partition.number
        self._looks_for[key] = self._reads[key]
        self._seek()
        self.leader_came()  # there may be another already

    def leader_came(self) -> None:
        """Look at the next time at which it would."""
        if self._look is None:
            passed = self._schedule.now_ms - self._began_ms
            wait_ms = self._backoff_ms - passed % self._backoff_ms
            self._look = self._schedule.call_later(wait_ms, self._look_now)

    def _look_now(self) -> None:
        self._look = None
        if self._finder is None or self._finder.done:
            self._finder = Task(self._schedule, self._find())

    def _find(self) -> Routine:
        yield from self._read_brokers()
        looked_for, self._looks_for = self._looks_for, {}
        for one in looked_for.values():
            self._begin(one)
        self._seek()

    def _seek(self) -> None:
        if self._looks_for:
            self._brokers.seekers[self] = None
            return
        self._brokers.seekers.pop(self, None)
        if self._look is not None:
            self._schedule.cancel(self._look)
            self._look = None

    def _begin(self, one: Owned) -> None:
        partition = self._brokers.partition(one.topic, one.number)
        if partition is None or partition.leader is None:
            self._looks_for[one.topic, one.number] = one
            return
        if not 0 <= one.offset <= partition.end:
            one.offset = 0 if self._smallest else partition.end
            self.requests += 1
        partition.readers[self] = None
        self._take(one, partition)

    def _take(self, one: Owned, partition: HostedPartition) -> None:
        self.requests += 1
        if one.has_stream and partition.end > one.offset:
            first, one.offset = one.offset, partition.end
            self._consumed(one, first, one.offset - 1)
