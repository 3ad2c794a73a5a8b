"""The transaction coordinator (TransactionCoordinator, TransactionStateManager of Kafka).

It follows the cluster's clock. Its log is the topic ``__transaction_state``; a change takes effect
once its record is written. Markers are written within the request that ends the transaction. So
no client sees CONCURRENT_TRANSACTIONS after the end of a transaction, as it may in Kafka.
"""

from __future__ import annotations

from coterie._core.codec.batch import LogReader
from coterie._core.codec.compression import partition_for
from coterie.coordinator.transaction import ENDING, NONE_YET, State, Transaction
from coterie.coordinator.transaction_records import key_bytes, read_key, read_value, value_bytes
from coterie.coordinator.transactional_ids import CurrentProducer, TransactionalIds
from coterie.server.clock import Timer
from coterie.server.context import Context
from coterie.server.services.features import Features
from coterie.server.services.groups import Groups
from coterie.server.services.topics import OFFSETS_TOPIC, STATE_TOPIC, Topics
from coterie.values import Error

CHECK_MS = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
EXPIRY_CHECK_MS = "transaction.remove.expired.transaction.cleanup.interval.ms"
EXPIRATION_MS = "transactional.id.expiration.ms"


class TransactionCoordinator(TransactionalIds):
    """The transactional ids of a server; timers expire those that are idle."""

    def __init__(
        self, context: Context, topics: Topics, groups: Groups, features: Features
    ) -> None:
        config = context.config
        super().__init__(
            *(lambda: context.now_ms, context.timers.call_at, context.ids.producer_id),
            max_timeout_ms=config["transaction.max.timeout.ms"],
            check_ms=config[CHECK_MS],
        )
        self._context, self._topics, self._groups = context, topics, groups
        self._features = features
        self._expiry: Timer | None = None
        self._partitions: int = config["transaction.state.log.num.partitions"]
        self._expiry_check_ms: int = config[EXPIRY_CHECK_MS]
        self._expiration_ms: int = config[EXPIRATION_MS]

    # Access by other services

    def partition_for(self, transactional_id: str) -> int:
        """Return the partition of ``__transaction_state`` for an id."""
        return partition_for(transactional_id, self._partitions)

    def ready(self) -> None:
        """Create the topic if it does not exist."""
        self._topics.internal(STATE_TOPIC)

    # Requests

    def end_txn_with_bump(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, committed: bool
    ) -> CurrentProducer:
        """Answer EndTxn 5, which raises the epoch of the producer."""
        transaction = self._find(transactional_id)
        if not isinstance(transaction, Transaction):
            return CurrentProducer(transaction or Error.INVALID_PRODUCER_ID_MAPPING)
        error = transaction.answer_to_end_with_bump(producer_id, producer_epoch, committed)
        if error is None:
            next_id = self._new_producer_id() if transaction.is_exhausted else NONE_YET
            decided = transaction.ending_with_bump(committed, self._context.now_ms, next_id)
            error = self._complete_after(decided)
        if error:
            return CurrentProducer(error)
        ended = self._by_id[transactional_id]
        return CurrentProducer(error, ended.producer_id, ended.producer_epoch)

    def described(self, transactional_id: str) -> Transaction | Error:
        """Return the transaction of an id for DescribeTransactions, or its error."""
        return self._find(transactional_id) or Error.TRANSACTIONAL_ID_NOT_FOUND

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
        return super()._store(changed)

    def _take(self, changed: Transaction) -> None:
        super()._take(changed)
        if changed.state is not State.ONGOING:
            self._watch_expiry(changed.updated_ms)

    def _abort_and_fence(self, transaction: Transaction) -> Error:
        if self._features.bumps_epochs:
            return self._complete_after(transaction.ending_with_bump(False, self._context.now_ms))
        return super()._abort_and_fence(transaction)

    def _complete(self, decided: Transaction) -> Error:
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
