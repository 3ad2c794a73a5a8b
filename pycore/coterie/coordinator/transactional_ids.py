"""What a transaction coordinator answers to producers, whatever its log, brokers and clock are.

Source: ``TransactionCoordinator.scala``, ``TransactionStateManager.scala``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from coterie.coordinator.transaction import (
    ENDING,
    LAST_EPOCH,
    NONE_YET,
    Partition,
    State,
    Transaction,
)
from coterie.values import Error


class CurrentProducer(NamedTuple):
    """The response to InitProducerId and EndTxn: the producer id and epoch to use from now on."""

    error: Error
    producer_id: int = NONE_YET
    producer_epoch: int = NONE_YET


class TransactionalIds(ABC):
    """The transactional ids of a cluster; timers abort late transactions.

    ``now`` returns the time, ``call_at`` calls a function at a time, ``new_producer_id`` returns
    the next producer id; ``check_ms``: the interval of the checks for late transactions.
    """

    def __init__(
        self,
        now: Callable[[], int],
        call_at: Callable[[int, Callable[[], None]], Any],
        new_producer_id: Callable[[], int],
        *,
        max_timeout_ms: int,
        check_ms: int,
    ) -> None:
        self._now, self._call_at, self._new_producer_id = now, call_at, new_producer_id
        self._max_timeout_ms, self._check_ms = max_timeout_ms, check_ms
        self._by_id: dict[str, Transaction] = {}
        self._aborts: dict[str, Any] = {}  # timers of ongoing transactions
        self._began_ms = now()

    # Access by other services

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
            return CurrentProducer(Error.NONE, self._new_producer_id(), 0)
        if not transactional_id:
            return CurrentProducer(Error.INVALID_REQUEST)
        if not 0 < timeout_ms <= self._max_timeout_ms:
            return CurrentProducer(Error.INVALID_TRANSACTION_TIMEOUT)
        if not self._owned(transactional_id):
            return CurrentProducer(Error.NOT_COORDINATOR)
        transaction = self._by_id.get(transactional_id)
        if transaction is None:
            producer_id = self._new_producer_id()
            transaction = Transaction(
                transactional_id, producer_id, NONE_YET, timeout_ms, self._now()
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
        now_ms = self._now()
        begun: Transaction | None
        if transaction.producer_epoch < LAST_EPOCH:
            begun = transaction.begun(timeout_ms, expected_epoch, now_ms)
            if begun is None:
                return CurrentProducer(Error.PRODUCER_FENCED)
        elif expected_epoch not in (None, transaction.producer_epoch):
            # Kafka throws: the epochs are exhausted
            return CurrentProducer(Error.UNKNOWN_SERVER_ERROR)
        else:
            producer_id = self._new_producer_id()
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
        now_ms = self._now()
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
        return self._complete_after(transaction.ending(committed, self._now()))

    def _find(self, transactional_id: str) -> Transaction | Error | None:
        if not transactional_id:
            return Error.INVALID_REQUEST
        if not self._owned(transactional_id):
            return Error.NOT_COORDINATOR
        return self._by_id.get(transactional_id)

    def _lookup(
        self, transactional_id: str, producer_id: int, producer_epoch: int
    ) -> Transaction | Error:
        """Return the transaction of an id if it belongs to the producer, else the error."""
        found = self._find(transactional_id)
        if isinstance(found, Error):
            return found
        if found is None or found.producer_id != producer_id:
            return Error.INVALID_PRODUCER_ID_MAPPING
        return found if found.producer_epoch == producer_epoch else Error.PRODUCER_FENCED

    # Changes

    def _owned(self, transactional_id: str) -> bool:
        """Whether this coordinator has the log of an id."""
        return True

    def _store(self, changed: Transaction) -> Error:
        """Apply a change; where there is a log, its record comes first."""
        self._take(changed)
        return Error.NONE

    @abstractmethod
    def _complete(self, decided: Transaction) -> Error:
        """Write the markers of a decided transaction, and record its completion."""

    def _take(self, changed: Transaction) -> None:
        name = changed.transactional_id
        self._by_id[name] = changed
        if changed.state is not State.ONGOING:
            if (timer := self._aborts.pop(name, None)) is not None:
                timer.cancel()
        elif name not in self._aborts:
            at_ms = self._next_check(changed.due_ms + 1, self._check_ms)
            self._aborts[name] = self._call_at(at_ms, partial(self._abort, name))

    def _complete_after(self, decided: Transaction) -> Error:
        return self._store(decided) or self._complete(decided)

    def _abort_and_fence(self, transaction: Transaction) -> Error:
        """Abort an ongoing transaction; its producer does not get the next epoch."""
        return self._complete_after(transaction.fenced().ending(False, self._now()))

    # Time

    def _next_check(self, at_ms: int, every_ms: int) -> int:
        """Return the time of Kafka's first periodic check at or after a time."""
        checks = -(-(at_ms - self._began_ms) // every_ms)
        return self._began_ms + max(checks, 1) * every_ms

    def _abort(self, name: str) -> None:
        """Abort a transaction after its time-out, and fence its producer."""
        del self._aborts[name]
        self._abort_and_fence(self._by_id[name])
