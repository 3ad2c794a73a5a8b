"""The transaction coordinator (TransactionCoordinator, TransactionStateManager of Kafka 3.9).

Under the cluster's clock; its log is the topic ``__transaction_state``, and a change counts once
its record is there. Appends and markers are done within the request that asks for them, so that
nobody sees a transaction between its decision and its markers, as a client of Kafka may (51).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from coterie._core.codec.checksum import partition_for
from coterie._core.codec.reader import LogReader
from coterie.server.clock import Timer
from coterie.server.context import Context
from coterie.server.services.data.topics import Topics
from coterie.server.services.groups import Groups
from coterie.server.services.txn.records import key_bytes, read_key, read_value, value_bytes
from coterie.server.services.txn.transaction import (
    ENDING,
    LAST_EPOCH,
    NONE_YET,
    Partition,
    State,
    Transaction,
)
from coterie.values import Error

__all__ = ["STATE_TOPIC", "Initialized", "TransactionCoordinator"]

STATE_TOPIC, OFFSETS_TOPIC = "__transaction_state", "__consumer_offsets"
CHECK_MS = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
EXPIRY_CHECK_MS = "transaction.remove.expired.transaction.cleanup.interval.ms"
EXPIRATION_MS = "transactional.id.expiration.ms"


class Initialized(NamedTuple):
    """Answer to InitProducerId."""

    error: Error
    producer_id: int = NONE_YET
    producer_epoch: int = NONE_YET


class TransactionCoordinator:
    """All transactional ids of a cluster. Timers abort what takes too long, and forget ids."""

    def __init__(self, context: Context, topics: Topics, groups: Groups) -> None:
        self._context, self._topics, self._groups = context, topics, groups
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

    # What others ask

    def partition_for(self, transactional_id: str) -> int:
        """Return the partition of ``__transaction_state`` that keeps an id."""
        return partition_for(transactional_id, self._partitions)

    def ready(self) -> None:
        """Make the topic, where it does not exist yet."""
        self._topics.internal(STATE_TOPIC)

    def transaction(self, transactional_id: str) -> Transaction | None:
        """Return what is known of an id."""
        return self._by_id.get(transactional_id)

    def __iter__(self) -> Iterator[Transaction]:
        """Walk through all that are known."""
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
    ) -> Error:
        """Whether a transaction holds a partition, asked before something is appended to it.

        Not to be asked where the partition's log already has an open transaction of the producer
        (ReplicaManager.maybeStartTransactionVerificationForPartitions). ``abortable``: the client
        knows TRANSACTION_ABORTABLE (Produce above 10, TxnOffsetCommit from 4 on).
        """
        if transactional_id is None:
            return Error.NONE
        error = self.verify_partitions(
            transactional_id, producer_id, producer_epoch, [(topic, partition)]
        )[topic, partition]
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
        """Answer AddPartitionsToTxn that only asks."""
        found = self._found(transactional_id, producer_id, producer_epoch)
        if isinstance(found, Transaction) and found.state in ENDING:
            found = Error.CONCURRENT_TRANSACTIONS
        if isinstance(found, Error):
            return dict.fromkeys(partitions, found)
        return {
            each: Error.NONE if each in found.partitions else Error.TRANSACTION_ABORTABLE
            for each in partitions
        }

    def init_producer_id(
        self,
        transactional_id: str | None,
        timeout_ms: int,
        expected: tuple[int, int] | None = None,
    ) -> Initialized:
        """Answer InitProducerId; ``expected``: the id and epoch with which a producer goes on.

        A transaction that its producer left open is aborted first, and the answer is
        CONCURRENT_TRANSACTIONS: the next one begins.
        """
        if transactional_id is None:
            return Initialized(Error.NONE, self._context.ids.producer_id(), 0)
        if not transactional_id:
            return Initialized(Error.INVALID_REQUEST)
        if not 0 < timeout_ms <= self._max_timeout_ms:
            return Initialized(Error.INVALID_TRANSACTION_TIMEOUT)
        if not self._owned(transactional_id):
            return Initialized(Error.NOT_COORDINATOR)
        found = self._by_id.get(transactional_id)
        if found is None:
            producer_id = self._context.ids.producer_id()
            found = Transaction(
                transactional_id, producer_id, NONE_YET, timeout_ms, self._context.now_ms
            )
        if expected is not None and not found.is_from(*expected):
            return Initialized(Error.PRODUCER_FENCED)
        if found.state in ENDING:
            return Initialized(Error.CONCURRENT_TRANSACTIONS)
        if found.state is State.ONGOING:
            error = self._end(found.fenced(), committed=False)
            return Initialized(error if error else Error.CONCURRENT_TRANSACTIONS)
        return self._begin(found, timeout_ms, None if expected is None else expected[1])

    def _begin(
        self, found: Transaction, timeout_ms: int, expected_epoch: int | None
    ) -> Initialized:
        now_ms = self._context.now_ms
        begun: Transaction | None
        if found.producer_epoch < LAST_EPOCH:
            begun = found.begun(timeout_ms, expected_epoch, now_ms)
            if begun is None:
                return Initialized(Error.PRODUCER_FENCED)
        elif expected_epoch not in (None, found.producer_epoch):
            return Initialized(Error.UNKNOWN_SERVER_ERROR)  # Kafka throws: no epoch is left
        else:
            producer_id = self._context.ids.producer_id()
            begun = found.rotated(producer_id, timeout_ms, expected_epoch, now_ms)
        error = self._store(begun)
        if error:
            return Initialized(error)
        return Initialized(Error.NONE, begun.producer_id, begun.producer_epoch)

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[Partition],
    ) -> Error:
        """Answer AddPartitionsToTxn, and AddOffsetsToTxn: the first partitions begin it."""
        found = self._found(transactional_id, producer_id, producer_epoch)
        if isinstance(found, Error):
            return found
        if found.state in ENDING:
            return Error.CONCURRENT_TRANSACTIONS
        added = frozenset(partitions)
        if found.state is State.ONGOING and added <= found.partitions:
            return Error.NONE
        return self._store(found.with_partitions(added, self._context.now_ms))

    def end_txn(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, committed: bool
    ) -> Error:
        """Answer EndTxn: decide, write the markers, and note that they are written."""
        found = self._found(transactional_id, producer_id, producer_epoch)
        if isinstance(found, Error):
            return found
        error = found.answer_to_end(committed)
        return self._end(found, committed=committed) if error is None else error

    def described(self, transactional_id: str) -> Transaction | Error:
        """Answer DescribeTransactions: an id's transaction, or why there is nothing to tell."""
        if not transactional_id:
            return Error.INVALID_REQUEST
        if not self._owned(transactional_id):
            return Error.NOT_COORDINATOR
        return self._by_id.get(transactional_id, Error.TRANSACTIONAL_ID_NOT_FOUND)

    def _found(
        self, transactional_id: str, producer_id: int, producer_epoch: int
    ) -> Transaction | Error:
        """Return an id's transaction, if the producer is its producer."""
        if not transactional_id:
            return Error.INVALID_REQUEST
        if not self._owned(transactional_id):
            return Error.NOT_COORDINATOR
        found = self._by_id.get(transactional_id)
        if found is None or found.producer_id != producer_id:
            return Error.INVALID_PRODUCER_ID_MAPPING
        return found if found.producer_epoch == producer_epoch else Error.PRODUCER_FENCED

    # Changes

    def _owned(self, transactional_id: str) -> bool:
        partition = self.partition_for(transactional_id)
        return self._topics.partition(STATE_TOPIC, partition) is not None

    def _store(self, changed: Transaction) -> Error:
        """Write a change to the log; then it counts."""
        name = changed.transactional_id
        log = self._topics.partition(STATE_TOPIC, self.partition_for(name))
        if log is None:
            return Error.NOT_COORDINATOR
        log.append_records([(self._context.now_ms, key_bytes(name), value_bytes(changed.value()))])
        self._take(changed)
        return Error.NONE

    def _take(self, changed: Transaction) -> None:
        """Note what is now so, and what is due for it."""
        name = changed.transactional_id
        self._by_id[name] = changed
        if changed.state is not State.ONGOING:
            if (timer := self._aborts.pop(name, None)) is not None:
                timer.cancel()
            self._watch_expiry(changed.updated_ms)
        elif name not in self._aborts:
            at_ms = self._next_check(changed.due_ms + 1, self._check_ms)
            self._aborts[name] = self._context.timers.call_at(at_ms, partial(self._abort, name))

    def _end(self, found: Transaction, *, committed: bool) -> Error:
        decided = found.ending(committed, self._context.now_ms)
        return self._store(decided) or self._complete(decided)

    def _complete(self, decided: Transaction) -> Error:
        """Write the markers of what was decided, and that they are written."""
        topics, now_ms = self._topics, self._context.now_ms
        own = topics.partition(STATE_TOPIC, self.partition_for(decided.transactional_id))
        assert own is not None  # what was decided is stored there
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
                continue  # it was deleted, or never there
            if topic == OFFSETS_TOPIC:
                of_groups.append(number)
            else:
                log.append_marker(*marker, now_ms)
        if of_groups:
            self._groups.end_txn(*marker, of_groups)
        return self._store(decided.ended(now_ms))

    # Time

    def _next_check(self, at_ms: int, every_ms: int) -> int:
        """Return when what is due at a time is found: Kafka looks again and again."""
        checks = -(-(at_ms - self._began_ms) // every_ms)
        return self._began_ms + max(checks, 1) * every_ms

    def _abort(self, name: str) -> None:
        """Abort a transaction that took too long, and shut its producer out."""
        del self._aborts[name]
        self._end(self._by_id[name].fenced(), committed=False)

    def _watch_expiry(self, updated_ms: int) -> None:
        """Look when the first id may be due; that some were used since is found then."""
        if self._expiry is None:
            at_ms = self._next_check(updated_ms + self._expiration_ms, self._expiry_check_ms)
            self._expiry = self._context.timers.call_at(at_ms, self._expire)

    def _expire(self) -> None:
        """Forget the ids that nobody used for a week."""
        self._expiry = None
        now_ms, topics = self._context.now_ms, self._topics
        idle = [each for each in self._by_id.values()
                if each.state is not State.ONGOING and each.state not in ENDING]  # fmt: skip
        tombstones: dict[int, list[tuple[int, bytes, None]]] = {}
        for each in idle:
            if each.updated_ms <= now_ms - self._expiration_ms:
                name = each.transactional_id
                tombstones.setdefault(self.partition_for(name), []).append(
                    (now_ms, key_bytes(name), None)
                )
                del self._by_id[name]
        for partition, records in sorted(tombstones.items()):
            log = topics.partition(STATE_TOPIC, partition)
            if log is not None:  # else somebody deleted the topic
                log.append_records(records)
        left = [each.updated_ms for each in idle if each.transactional_id in self._by_id]
        if left:
            self._watch_expiry(min(left))

    def load(self) -> None:
        """Begin again from the log, as after an election; decided transactions are completed."""
        for timer in (*self._aborts.values(), *filter(None, [self._expiry])):
            timer.cancel()
        self._by_id.clear()
        self._aborts.clear()
        self._expiry = None
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
        for each in loaded.values():
            self._take(each)
        for each in loaded.values():
            if each.state in ENDING:
                self._complete(each)
