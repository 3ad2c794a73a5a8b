"""The transaction coordinator of a simulated cluster, and the produce requests of its brokers.

It fences producers by their epochs as Kafka does (transaction version 1). It is always there: a
fail-over of the group coordinator only delays the markers for groups. Until they are written, the
next transaction of the producer gets CONCURRENT_TRANSACTIONS.
Source: ``TransactionCoordinator.scala``, ``TransactionStateManager.scala``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Protocol

from coterie.base.schedule import Schedule
from coterie.testing.topics import Topic, TopicPartition
from coterie.values import Error

CHECK_MS = 10_000  # transaction.abort.timed.out.transaction.cleanup.interval.ms
MARKER_RETRY_MS = 20
MOST_TIMEOUT_MS = 900_000  # transaction.max.timeout.ms
Records = Mapping[TopicPartition, list[tuple[Any, Any]]]  # key and value of each record


class Brokers(Protocol):
    """What transactions need of a cluster."""

    schedule: Schedule
    loading: bool
    _topics: dict[str, Topic]

    def wake_clients(self) -> None:
        """Let clients that wait look at the topics again."""

    def call(self, op: str, *args: Any, **fields: Any) -> Any:
        """Call an operation of the coordinator."""


class _State(Enum):
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    COMMITTING = "PrepareCommit"
    ABORTING = "PrepareAbort"
    COMMITTED = "CompleteCommit"
    ABORTED = "CompleteAbort"


class _Transaction:
    def __init__(self, producer_id: int) -> None:
        self.producer_id, self.epoch = producer_id, -1
        self.timeout_ms = self.start_ms = 0
        self.state = _State.EMPTY
        self.partitions: set[TopicPartition] = set()
        self.groups: set[str] = set()

    @property
    def ending(self) -> bool:
        return self.state in (_State.COMMITTING, _State.ABORTING)


class Transactions:
    """The transactions of a cluster."""

    def __init__(self, cluster: Brokers) -> None:
        self._cluster = cluster
        self._began_ms = cluster.schedule.now_ms
        self._by_id: dict[str, _Transaction] = {}
        self._by_producer: dict[int, _Transaction] = {}
        self._producers = 0
        # the last batch of each producer in each partition: epoch, sequence, first offset
        self._last: dict[tuple[int, TopicPartition], tuple[int, int, int]] = {}

    # Requests

    def init_producer_id(
        self, transactional_id: str | None, timeout_ms: int
    ) -> tuple[int, int] | Error:
        """Return producer id and epoch; a transaction of the former producer is aborted first."""
        if transactional_id is None:
            self._producers += 1
            return self._producers, 0
        if not 0 < timeout_ms <= MOST_TIMEOUT_MS:
            return Error.INVALID_TRANSACTION_TIMEOUT
        transaction = self._by_id.get(transactional_id)
        if transaction is None:
            self._producers += 1
            transaction = self._by_id[transactional_id] = _Transaction(self._producers)
            self._by_producer[transaction.producer_id] = transaction
        if transaction.ending:
            return Error.CONCURRENT_TRANSACTIONS
        if transaction.state is _State.ONGOING:
            self._abort_and_fence(transaction)
            return Error.CONCURRENT_TRANSACTIONS
        transaction.epoch += 1
        transaction.timeout_ms, transaction.state = timeout_ms, _State.EMPTY
        return transaction.producer_id, transaction.epoch

    def add_partitions_to_txn(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Iterable[Any]
    ) -> Error:
        """Add partitions to the transaction, which begins if it has not."""
        return self._add(transactional_id, producer_id, epoch, partitions=partitions)

    def add_offsets_to_txn(
        self, transactional_id: str, producer_id: int, epoch: int, group_id: str
    ) -> Error:
        """Add the offsets of a group to the transaction, which begins if it has not."""
        return self._add(transactional_id, producer_id, epoch, groups=[group_id])

    def _add(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        *,
        partitions: Iterable[Any] = (),
        groups: Iterable[str] = (),
    ) -> Error:
        transaction = self._lookup(transactional_id, producer_id, epoch)
        if isinstance(transaction, Error):
            return transaction
        if transaction.ending:
            return Error.CONCURRENT_TRANSACTIONS
        if transaction.state is not _State.ONGOING:
            transaction.state, transaction.start_ms = _State.ONGOING, self._cluster.schedule.now_ms
            self._expect_timeout(transaction)
        transaction.partitions |= {TopicPartition(*tp) for tp in partitions}
        transaction.groups.update(groups)
        return Error.NONE

    def end_txn(
        self, transactional_id: str, producer_id: int, epoch: int, *, committed: bool
    ) -> Error:
        """Decide a transaction, and write its markers."""
        transaction = self._lookup(transactional_id, producer_id, epoch)
        if isinstance(transaction, Error):
            return transaction
        done, under_way = (
            (_State.COMMITTED, _State.COMMITTING)
            if committed
            else (_State.ABORTED, _State.ABORTING)
        )
        if transaction.state is done:
            return Error.NONE  # a repeated request
        if transaction.state is under_way:
            return Error.CONCURRENT_TRANSACTIONS
        if transaction.state is not _State.ONGOING:
            return Error.INVALID_TXN_STATE
        self._end(transaction, committed=committed)
        return Error.NONE

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
        transaction = self._by_producer.get(producer_id)
        return self._verify(transaction, producer_epoch, lambda t: group_id in t.groups)

    # Inside

    def _lookup(self, transactional_id: str, producer_id: int, epoch: int) -> _Transaction | Error:
        transaction = self._by_id.get(transactional_id)
        if transaction is None or transaction.producer_id != producer_id:
            return Error.INVALID_PRODUCER_ID_MAPPING
        return transaction if transaction.epoch == epoch else Error.PRODUCER_FENCED

    def _verify(self, transaction: _Transaction | None, epoch: int, contains: Any) -> Error:
        if transaction is None:
            return Error.INVALID_PRODUCER_ID_MAPPING
        if epoch != transaction.epoch:
            return Error.INVALID_PRODUCER_EPOCH
        if transaction.ending:
            return Error.CONCURRENT_TRANSACTIONS
        if not contains(transaction):  # or has ended, and contains nothing
            return Error.TRANSACTION_ABORTABLE
        return Error.NONE

    def _append(
        self,
        tp: TopicPartition,
        producer_id: int,
        epoch: int,
        sequence: int,
        batch: list[tuple[Any, Any]],
        transactional: bool,
    ) -> int | Error:
        topic = self._cluster._topics.get(tp.topic)
        if topic is None or tp.partition >= len(topic.logs):
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        if transactional:
            transaction = self._by_producer.get(producer_id)
            error = self._verify(transaction, epoch, lambda t: tp in t.partitions)
            if error != Error.NONE:
                return error
        last = self._last.get((producer_id, tp))
        if last is not None and last[:2] == (epoch, sequence):
            return last[2]
        log, now_ms = topic.logs[tp.partition], self._cluster.schedule.now_ms
        marked = producer_id if transactional else None
        first, *_ = [log.append(now_ms, key, value, marked) for key, value in batch]
        self._last[producer_id, tp] = epoch, sequence, first
        return first

    def _expect_timeout(self, transaction: _Transaction) -> None:
        """Abort the transaction at the first check after its timeout, if it is still open."""
        due_ms = transaction.start_ms + transaction.timeout_ms - self._began_ms
        check_ms = self._began_ms - (-due_ms // CHECK_MS) * CHECK_MS
        started = transaction.epoch, transaction.start_ms

        def check() -> None:
            ongoing = transaction.state is _State.ONGOING
            if ongoing and (transaction.epoch, transaction.start_ms) == started:
                self._abort_and_fence(transaction)

        self._cluster.schedule.call_at(check_ms, check)

    def _abort_and_fence(self, transaction: _Transaction) -> None:
        transaction.epoch += 1  # no producer has it
        self._end(transaction, committed=False)

    def _end(self, transaction: _Transaction, *, committed: bool) -> None:
        transaction.state = _State.COMMITTING if committed else _State.ABORTING
        now_ms, topics = self._cluster.schedule.now_ms, self._cluster._topics
        for name, partition in sorted(transaction.partitions):
            if name in topics:
                log = topics[name].logs[partition]
                log.end_transaction(now_ms, transaction.producer_id, committed=committed)
        transaction.partitions.clear()
        self._cluster.wake_clients()
        self._mark_groups(transaction, committed)

    def _mark_groups(self, transaction: _Transaction, committed: bool) -> None:
        """Write the markers of the offsets topic, when the group coordinator has loaded it."""
        cluster = self._cluster
        if transaction.groups:
            if cluster.loading:
                cluster.schedule.call_later(
                    MARKER_RETRY_MS, self._mark_groups, transaction, committed
                )
                return
            cluster.call("end_txn", transaction.producer_id, committed=committed)
            transaction.groups.clear()
        transaction.state = _State.COMMITTED if committed else _State.ABORTED
