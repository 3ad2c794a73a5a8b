"""The transaction coordinator (TransactionCoordinator, TransactionStateManager of Kafka).

It follows the cluster's clock. Its log is the topic ``__transaction_state``; a change takes effect
once its record is written. Markers are written within the request that ends the transaction. So
no client sees CONCURRENT_TRANSACTIONS after the end of a transaction, as it may in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from coterie._core.codec.batch import LogReader
from coterie._core.codec.compression import partition_for
from coterie.server.clock import Timer
from coterie.server.context import Context
from coterie.server.services.features import Features
from coterie.server.services.groups import Groups
from coterie.server.services.topics import OFFSETS_TOPIC, STATE_TOPIC, Topics
from coterie.server.services.transaction import (
    ENDING,
    LAST_EPOCH,
    NONE_YET,
    Partition,
    State,
    Transaction,
)
from coterie.server.services.transaction_records import key_bytes, read_key, read_value, value_bytes
from coterie.values import Error

CHECK_MS = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
EXPIRY_CHECK_MS = "transaction.remove.expired.transaction.cleanup.interval.ms"
EXPIRATION_MS = "transactional.id.expiration.ms"


class CurrentProducer(NamedTuple):
    """The response to InitProducerId and EndTxn: the producer id and epoch to use from now on."""

    error: Error
    producer_id: int = NONE_YET
    producer_epoch: int = NONE_YET


class TransactionCoordinator:
    """The transactional ids of a cluster; timers abort late transactions and expire ids."""

    def __init__(
        self, context: Context, topics: Topics, groups: Groups, features: Features
    ) -> None:
        self._context, self._topics, self._groups = context, topics, groups
        self._features = features
        self._by_id: dict[str, Transaction] = {}
        self._aborts: dict[str, Timer] = {}  # of ongoing transactions
        self._expiry: Timer | None = None
        self._began_ms = context.now_ms
        config = context.config
        self._partitions: int = config["transaction.state.log.num.partitions"]
        self._max_timeout_ms: int = config["transaction.max.timeout.ms"]
        self._check_ms: int = config[CHECK_MS]
        self._expiry_check_ms: int = config[EXPIRY_CHECK_MS]
        self._expiration_ms: int = config[EXPIRATION_MS]

    # Access by other services

    def partition_for(self, transactional_id: str) -> int:
        """Return the partition of ``__transaction_state`` for an id."""
        return partition_for(transactional_id, self._partitions)

    def ready(self) -> None:
        """Create the topic if it does not exist."""
        self._topics.internal(STATE_TOPIC)

    def transaction(self, transactional_id: str) -> Transaction | None:
        """Return the transaction of an id; None for an unknown id."""
        return self._by_id.get(transactional_id)

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._by_id.values())

    def verify(
        self,
        transactional_id: str | None,
        producer_id: int,
        producer_epoch: int,
        topic: str,
        partition: int,
        *,
        abortable: bool = False,
        adds: bool = False,
    ) -> Error:
        """Check that a transaction contains a partition, before an append to the partition.

        Do not call it if the partition already has an open transaction of the producer.
        ``abortable``: the client knows TRANSACTION_ABORTABLE (Produce from version 11 on,
        TxnOffsetCommit from version 4 on). ``adds``: the partition is added if it is missing
        (Produce 12, TxnOffsetCommit 5). Source:
        ReplicaManager.maybeSendPartitionsToTransactionCoordinator.
        """
        if transactional_id is None:
            return Error.NONE
        producer = (transactional_id, producer_id, producer_epoch)
        key = (topic, partition)
        if adds:
            error = self.add_partitions(*producer, [key], client_version=2)
        else:
            error = self.verify_partitions(*producer, [key])[key]
        if error is Error.NOT_COORDINATOR:
            return Error.COORDINATOR_NOT_AVAILABLE
        if error is Error.PRODUCER_FENCED:
            return Error.INVALID_PRODUCER_EPOCH
        if error is Error.TRANSACTION_ABORTABLE and not abortable:
            return Error.INVALID_TXN_STATE
        return error

    # Requests

    def verify_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[Partition],
    ) -> dict[Partition, Error]:
        """Answer AddPartitionsToTxn with ``verifyOnly``."""
        transaction = self._lookup(transactional_id, producer_id, producer_epoch)
        if isinstance(transaction, Transaction) and transaction.state in ENDING:
            transaction = Error.CONCURRENT_TRANSACTIONS
        if isinstance(transaction, Error):
            return dict.fromkeys(partitions, transaction)
        return {
            partition: Error.NONE
            if partition in transaction.partitions
            else Error.TRANSACTION_ABORTABLE
            for partition in partitions
        }

    def init_producer_id(
        self,
        transactional_id: str | None,
        timeout_ms: int,
        expected: tuple[int, int] | None = None,
    ) -> CurrentProducer:
        """Answer InitProducerId; ``expected``: the id and epoch of a producer that continues.

        If the producer has an open transaction, it is aborted and the response is
        CONCURRENT_TRANSACTIONS; the client then tries again.
        """
        if transactional_id is None:
            return CurrentProducer(Error.NONE, self._context.ids.producer_id(), 0)
        if not transactional_id:
            return CurrentProducer(Error.INVALID_REQUEST)
        if not 0 < timeout_ms <= self._max_timeout_ms:
            return CurrentProducer(Error.INVALID_TRANSACTION_TIMEOUT)
        if not self._owned(transactional_id):
            return CurrentProducer(Error.NOT_COORDINATOR)
        transaction = self._by_id.get(transactional_id)
        if transaction is None:
            producer_id = self._context.ids.producer_id()
            transaction = Transaction(
                transactional_id, producer_id, NONE_YET, timeout_ms, self._context.now_ms
            )
        if expected is not None and not transaction.is_from(*expected):
            return CurrentProducer(Error.PRODUCER_FENCED)
        if transaction.state in ENDING:
            return CurrentProducer(Error.CONCURRENT_TRANSACTIONS)
        if transaction.state is State.ONGOING:
            error = self._abort_and_fence(transaction)
            return CurrentProducer(error if error else Error.CONCURRENT_TRANSACTIONS)
        return self._begin(transaction, timeout_ms, None if expected is None else expected[1])

    def _begin(
        self, transaction: Transaction, timeout_ms: int, expected_epoch: int | None
    ) -> CurrentProducer:
        now_ms = self._context.now_ms
        begun: Transaction | None
        if transaction.producer_epoch < LAST_EPOCH:
            begun = transaction.begun(timeout_ms, expected_epoch, now_ms)
            if begun is None:
                return CurrentProducer(Error.PRODUCER_FENCED)
        elif expected_epoch not in (None, transaction.producer_epoch):
            return CurrentProducer(
                Error.UNKNOWN_SERVER_ERROR
            )  # Kafka throws: the epochs are exhausted
        else:
            producer_id = self._context.ids.producer_id()
            begun = transaction.rotated(producer_id, timeout_ms, expected_epoch, now_ms)
        error = self._store(begun)
        if error:
            return CurrentProducer(error)
        return CurrentProducer(Error.NONE, begun.producer_id, begun.producer_epoch)

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[Partition],
        *,
        client_version: int = 0,
    ) -> Error:
        """Answer AddPartitionsToTxn and AddOffsetsToTxn; this may start a transaction."""
        transaction = self._lookup(transactional_id, producer_id, producer_epoch)
        if isinstance(transaction, Error):
            return transaction
        if transaction.state in ENDING:
            return Error.CONCURRENT_TRANSACTIONS
        added = frozenset(partitions)
        if transaction.state is State.ONGOING and added <= transaction.partitions:
            return Error.NONE
        now_ms = self._context.now_ms
        return self._store(transaction.with_partitions(added, now_ms, client_version))

    def end_txn(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, committed: bool
    ) -> Error:
        """Answer EndTxn: record the decision, write the markers, and record the completion."""
        transaction = self._lookup(transactional_id, producer_id, producer_epoch)
        if isinstance(transaction, Error):
            return transaction
        error = transaction.answer_to_end(committed)
        if error is not None:
            return error
        return self._complete_after(transaction.ending(committed, self._context.now_ms))

    def end_txn_with_bump(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, committed: bool
    ) -> CurrentProducer:
        """Answer EndTxn 5, which raises the epoch of the producer."""
        if not transactional_id:
            return CurrentProducer(Error.INVALID_REQUEST)
        if not self._owned(transactional_id):
            return CurrentProducer(Error.NOT_COORDINATOR)
        transaction = self._by_id.get(transactional_id)
        if transaction is None:
            return CurrentProducer(Error.INVALID_PRODUCER_ID_MAPPING)
        error = transaction.answer_to_end_with_bump(producer_id, producer_epoch, committed)
        if error is None:
            next_id = self._context.ids.producer_id() if transaction.is_exhausted else NONE_YET
            decided = transaction.ending_with_bump(committed, self._context.now_ms, next_id)
            error = self._complete_after(decided)
        if error:
            return CurrentProducer(error)
        ended = self._by_id[transactional_id]
        return CurrentProducer(error, ended.producer_id, ended.producer_epoch)

    def described(self, transactional_id: str) -> Transaction | Error:
        """Return the transaction of an id for DescribeTransactions, or its error."""
        if not transactional_id:
            return Error.INVALID_REQUEST
        if not self._owned(transactional_id):
            return Error.NOT_COORDINATOR
        return self._by_id.get(transactional_id, Error.TRANSACTIONAL_ID_NOT_FOUND)

    def _lookup(
        self, transactional_id: str, producer_id: int, producer_epoch: int
    ) -> Transaction | Error:
        """Return the transaction of an id if it belongs to the producer, else the error."""
        if not transactional_id:
            return Error.INVALID_REQUEST
        if not self._owned(transactional_id):
            return Error.NOT_COORDINATOR
        transaction = self._by_id.get(transactional_id)
        if transaction is None or transaction.producer_id != producer_id:
            return Error.INVALID_PRODUCER_ID_MAPPING
        return (
            transaction if transaction.producer_epoch == producer_epoch else Error.PRODUCER_FENCED
        )

    # Changes

    def _owned(self, transactional_id: str) -> bool:
        partition = self.partition_for(transactional_id)
        return self._topics.partition(STATE_TOPIC, partition) is not None

    def _store(self, changed: Transaction) -> Error:
        """Write a change to the log, and then apply it."""
        name = changed.transactional_id
        log = self._topics.partition(STATE_TOPIC, self.partition_for(name))
        if log is None:
            return Error.NOT_COORDINATOR
        value = value_bytes(changed.value(), self._features.transaction_log_version)
        log.append_records([(self._context.now_ms, key_bytes(name), value)])
        self._take(changed)
        return Error.NONE

    def _take(self, changed: Transaction) -> None:
        name = changed.transactional_id
        self._by_id[name] = changed
        if changed.state is not State.ONGOING:
            if (timer := self._aborts.pop(name, None)) is not None:
                timer.cancel()
            self._watch_expiry(changed.updated_ms)
        elif name not in self._aborts:
            at_ms = self._next_check(changed.due_ms + 1, self._check_ms)
            self._aborts[name] = self._context.timers.call_at(at_ms, partial(self._abort, name))

    def _complete_after(self, decided: Transaction) -> Error:
        return self._store(decided) or self._complete(decided)

    def _abort_and_fence(self, transaction: Transaction) -> Error:
        """Abort an ongoing transaction; its producer does not get the next epoch."""
        now_ms = self._context.now_ms
        if self._features.bumps_epochs:
            return self._complete_after(transaction.ending_with_bump(False, now_ms))
        return self._complete_after(transaction.fenced().ending(False, now_ms))

    def _complete(self, decided: Transaction) -> Error:
        """Write the markers of a decided transaction, and record its completion."""
        topics, now_ms = self._topics, self._context.now_ms
        own = topics.partition(STATE_TOPIC, self.partition_for(decided.transactional_id))
        assert own is not None  # the decision was written there
        marker = (
            decided.producer_id,
            decided.producer_epoch,
            own.leader_epoch,
            decided.state is State.PREPARE_COMMIT,
        )
        of_groups = []
        for topic, number in sorted(decided.partitions):
            log = topics.partition(topic, number)
            if log is None:
                continue  # deleted, or never created
            if topic == OFFSETS_TOPIC:
                of_groups.append(number)
            else:
                log.append_marker(*marker, now_ms)
        if of_groups:
            self._groups.end_txn(*marker, of_groups)
        return self._store(decided.ended(now_ms))

    # Time

    def _next_check(self, at_ms: int, every_ms: int) -> int:
        """Return the time of Kafka's first periodic check at or after a time."""
        checks = -(-(at_ms - self._began_ms) // every_ms)
        return self._began_ms + max(checks, 1) * every_ms

    def _abort(self, name: str) -> None:
        """Abort a transaction after its time-out, and fence its producer."""
        del self._aborts[name]
        self._abort_and_fence(self._by_id[name])

    def _watch_expiry(self, updated_ms: int) -> None:
        """Schedule the expiry check; it ignores ids that were used in the meantime."""
        if self._expiry is None:
            at_ms = self._next_check(updated_ms + self._expiration_ms, self._expiry_check_ms)
            self._expiry = self._context.timers.call_at(at_ms, self._expire)

    def _expire(self) -> None:
        """Expire the ids that were not used for ``transactional.id.expiration.ms``."""
        self._expiry = None
        now_ms, topics = self._context.now_ms, self._topics
        idle = [
            transaction
            for transaction in self._by_id.values()
            if transaction.state is not State.ONGOING and transaction.state not in ENDING
        ]
        tombstones: dict[int, list[tuple[int, bytes, None]]] = {}
        for transaction in idle:
            if transaction.updated_ms <= now_ms - self._expiration_ms:
                name = transaction.transactional_id
                tombstones.setdefault(self.partition_for(name), []).append(
                    (now_ms, key_bytes(name), None)
                )
                del self._by_id[name]
        for partition, records in sorted(tombstones.items()):
            log = topics.partition(STATE_TOPIC, partition)
            if log is not None:  # None after a deletion of the topic
                log.append_records(records)
        remaining = [
            transaction.updated_ms
            for transaction in idle
            if transaction.transactional_id in self._by_id
        ]
        if remaining:
            self._watch_expiry(min(remaining))

    def load(self) -> None:
        """Load all ids from the log, as after an election, and complete decided transactions."""
        for timer in (*self._aborts.values(), *filter(None, [self._expiry])):
            timer.cancel()
        self._by_id, self._aborts, self._expiry = {}, {}, None
        loaded: dict[str, Transaction] = {}
        for number in range(self._partitions):
            log = self._topics.partition(STATE_TOPIC, number)
            for batch in LogReader(b"" if log is None else log.data()):
                for _, _, key, value, *_ in batch.records:
                    name = None if key is None else read_key(key)
                    if name is not None and value is None:
                        loaded.pop(name, None)
                    elif name is not None and value is not None:
                        loaded[name] = Transaction.loaded(name, read_value(value))
        for transaction in loaded.values():
            self._take(transaction)
        for transaction in loaded.values():
            if transaction.state in ENDING:
                self._complete(transaction)
