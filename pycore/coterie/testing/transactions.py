"""The transaction coordinator of a simulated cluster, and the produce requests of its brokers.

It fences producers by their epochs as Kafka does (transaction version 1). It is always there: a
fail-over of the group coordinator only delays the markers for groups. Until they are written, the
next transaction of the producer gets CONCURRENT_TRANSACTIONS.
Source: ``TransactionCoordinator.scala``, ``TransactionStateManager.scala``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, Protocol

from coterie._core.codec.compression import partition_for
from coterie.base.schedule import Schedule
from coterie.coordinator.transaction import Partition, State, Transaction
from coterie.coordinator.transactional_ids import TransactionalIds
from coterie.testing.topics import Topic, TopicPartition
from coterie.values import Error

CHECK_MS = 10_000  # transaction.abort.timed.out.transaction.cleanup.interval.ms
MARKER_RETRY_MS = 20
MOST_TIMEOUT_MS = 900_000  # transaction.max.timeout.ms
OFFSETS_TOPIC, OFFSETS_PARTITIONS = "__consumer_offsets", 50  # offsets.topic.num.partitions
Records = Mapping[TopicPartition, list[tuple[Any, ...]]]  # key, value, perhaps headers


class Brokers(Protocol):
    """What transactions need of a cluster."""

    schedule: Schedule
    loading: bool
    _topics: dict[str, Topic]

    def wake_clients(self) -> None:
        """Let clients that wait look at the topics again."""

    def call(self, op: str, *args: Any, **fields: Any) -> Any:
        """Call an operation of the coordinator."""


class Transactions(TransactionalIds):
    def __init__(self, cluster: Brokers) -> None:
        schedule = cluster.schedule
        super().__init__(
            *(lambda: schedule.now_ms, schedule.call_at, count(1).__next__),
            max_timeout_ms=MOST_TIMEOUT_MS,
            check_ms=CHECK_MS,
        )
        self._cluster = cluster
        self._names: dict[int, str] = {}  # transactional ids, by producer id
        # the last batch of each producer in each partition: epoch, sequence, first offset
        self._last: dict[tuple[int, TopicPartition], tuple[int, int, int]] = {}

    # Requests

    def init_producer_id(self, *args: Any, **more: Any) -> Any:
        """Return producer id and epoch, or an error."""
        error, *producer = super().init_producer_id(*args, **more)
        return error or tuple(producer)

    def add_partitions_to_txn(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Iterable[Any]
    ) -> Error:
        """Add partitions to the transaction, which begins if it has not."""
        added = [TopicPartition(*tp) for tp in partitions]
        return self.add_partitions(transactional_id, producer_id, epoch, added)

    def add_offsets_to_txn(
        self, transactional_id: str, producer_id: int, epoch: int, group_id: str
    ) -> Error:
        """Add the offsets of a group to the transaction, which begins if it has not."""
        return self.add_partitions(transactional_id, producer_id, epoch, [_offsets_of(group_id)])

    def produce(
        self, producer_id: int, epoch: int, sequence: int, records: Records, *, transactional: bool
    ) -> dict[TopicPartition, int | Error]:
        """Append batches; return the first offset of each, or its error.

        ``sequence`` is the number of the request: one that is repeated appends nothing.
        """
        found: dict[TopicPartition, int | Error] = {}
        for tp, batch in records.items():
            found[tp] = self._append(tp, producer_id, epoch, sequence, batch, transactional)
        self._cluster.wake_clients()
        return found

    def verify_offsets(self, group_id: str, producer_id: int, producer_epoch: int) -> Error:
        """Check that a producer's transaction contains the offsets of a group."""
        return self._verify(producer_id, producer_epoch, _offsets_of(group_id))

    # Inside

    def _verify(self, producer_id: int, epoch: int, partition: Partition) -> Error:
        name = self._names.get(producer_id)
        if name is None:
            return Error.INVALID_PRODUCER_ID_MAPPING
        return self.verify(name, producer_id, epoch, *partition, abortable=True)

    def _append(
        self,
        tp: TopicPartition,
        producer_id: int,
        epoch: int,
        sequence: int,
        batch: list[tuple[Any, ...]],
        transactional: bool,
    ) -> int | Error:
        topic = self._cluster._topics.get(tp.topic)
        if topic is None or tp.partition >= len(topic.logs):
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        if transactional:
            error = self._verify(producer_id, epoch, tp)
            if error != Error.NONE:
                return error
        last = self._last.get((producer_id, tp))
        if last is not None and last[:2] == (epoch, sequence):
            return last[2]
        log, now_ms = topic.logs[tp.partition], self._cluster.schedule.now_ms
        marked = producer_id if transactional else None
        first, *_ = [log.append(now_ms, key, value, marked, *more) for key, value, *more in batch]
        self._last[producer_id, tp] = epoch, sequence, first
        return first

    def _take(self, changed: Transaction) -> None:
        super()._take(changed)
        self._names[changed.producer_id] = changed.transactional_id

    def _complete(self, decided: Transaction) -> Error:
        now_ms, topics = self._cluster.schedule.now_ms, self._cluster._topics
        committed = decided.state is State.PREPARE_COMMIT
        for name, partition in sorted(decided.partitions):
            if name in topics:
                log = topics[name].logs[partition]
                log.end_transaction(now_ms, decided.producer_id, committed=committed)
        self._cluster.wake_clients()
        self._mark_groups(decided, committed)
        return Error.NONE

    def _mark_groups(self, decided: Transaction, committed: bool) -> None:
        """Write the markers of the offsets topic, when the group coordinator has loaded it."""
        cluster = self._cluster
        if any(topic == OFFSETS_TOPIC for topic, _ in decided.partitions):
            if cluster.loading:
                cluster.schedule.call_later(MARKER_RETRY_MS, self._mark_groups, decided, committed)
                return
            cluster.call("end_txn", decided.producer_id, committed=committed)
        self._store(decided.ended(cluster.schedule.now_ms))


def _offsets_of(group_id: str) -> Partition:
    return OFFSETS_TOPIC, partition_for(group_id, OFFSETS_PARTITIONS)
