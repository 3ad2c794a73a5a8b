"""The idempotent and transactional producers of a partition.

Source: ProducerStateManager, ProducerStateEntry, ProducerAppendInfo of Kafka 3.9 and 4.4.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from coterie.server.services.batches import Header
from coterie.values import Error

_BATCHES = 5  # the maximum of requests in flight
_MAX_SEQUENCE = 2**31 - 1
_MAX_EPOCH = 2**15 - 1
_BUMPS_EPOCHS = 2  # the transaction version whose markers have a new epoch


class BatchMetadata(NamedTuple):
    """A batch of a producer: sequences, first offset and latest timestamp."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    timestamp: int


class AbortedTxn(NamedTuple):
    """An aborted transaction, for read-committed fetches; ``last_offset`` is its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


class Producer:
    """One producer: its epoch, last batches and the first offset of its open transaction."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "first_offset", "timestamp")

    def __init__(self) -> None:
        self.epoch = -1
        self.coordinator_epoch = -1
        self.timestamp = -1
        self.first_offset: int | None = None
        self.batches: deque[BatchMetadata] = deque(maxlen=_BATCHES)

    @property
    def last_sequence(self) -> int:
        """The sequence of its last record in this epoch; -1 if there is none."""
        return self.batches[-1].last_sequence if self.batches else -1

    def move_to(self, epoch: int) -> None:
        """Switch to an epoch; a new epoch drops the batches of the old one."""
        if epoch != self.epoch:
            self.batches.clear()
            self.epoch = epoch


class Producers:
    """The producers of a partition.

    Attributes
    ----------
    aborted : list of AbortedTxn
        In the order of their markers.
    """

    def __init__(self) -> None:
        self.known: dict[int, Producer] = {}
        self.aborted: list[AbortedTxn] = []
        self._open: dict[int, int] = {}  # first offset -> producer id, in order of offsets

    def first_open_offset(self) -> int | None:
        """Return the first offset of the earliest open transaction."""
        return next(iter(self._open), None)

    def in_transaction(self, producer_id: int, epoch: int | None = None) -> bool:
        """Whether a producer has an open transaction, of an epoch or, for None, of any."""
        producer = self.known.get(producer_id)
        return (
            producer is not None
            and producer.first_offset is not None
            and epoch in (None, producer.epoch)
        )

    def duplicate(self, head: Header) -> BatchMetadata | None:
        """Return the earlier batch with the same sequences, if this one is a duplicate."""
        producer = self.known.get(head.producer_id)
        if producer is None or producer.epoch != head.producer_epoch:
            return None
        sequences = (head.base_sequence, head.last_sequence)
        return next((batch for batch in producer.batches if batch[:2] == sequences), None)

    def refusal(self, head: Header) -> Error:
        """Check the epoch and the sequence of a producer's batch."""
        producer = self.known.get(head.producer_id)
        if producer is None:
            return Error.NONE  # an expired or new producer may start at any sequence
        if head.producer_epoch < producer.epoch:
            return Error.INVALID_PRODUCER_EPOCH
        first = head.base_sequence
        if head.producer_epoch != producer.epoch:
            if first != 0 and producer.epoch != -1:
                return Error.OUT_OF_ORDER_SEQUENCE_NUMBER
        else:
            last = producer.last_sequence
            if first != last + 1 and not (first == 0 and last == _MAX_SEQUENCE):
                return Error.OUT_OF_ORDER_SEQUENCE_NUMBER
        if producer.first_offset is not None and not head.transactional:
            return Error.INVALID_TXN_STATE
        return Error.NONE

    def appended(self, head: Header) -> None:
        producer = self.known.setdefault(head.producer_id, Producer())
        producer.move_to(head.producer_epoch)
        producer.batches.append(
            BatchMetadata(
                head.base_sequence, head.last_sequence, head.base_offset, head.max_timestamp
            )
        )
        producer.timestamp = head.max_timestamp
        if head.transactional and producer.first_offset is None:
            producer.first_offset = head.base_offset
            self._open[head.base_offset] = head.producer_id

    def marker_refusal(
        self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> Error:
        """Return why a marker is refused.

        From transaction version 2 on, a marker has a higher epoch than its transaction.
        With the same epoch it is a repetition, or there is no higher epoch.
        """
        producer = self.known.get(producer_id)
        if producer is None:
            return Error.NONE
        is_late = (
            transaction_version >= _BUMPS_EPOCHS
            and epoch == producer.epoch
            and producer.first_offset is not None
            and epoch != _MAX_EPOCH
        )
        if epoch < producer.epoch or is_late:
            return Error.INVALID_PRODUCER_EPOCH
        if coordinator_epoch < producer.coordinator_epoch:
            return Error.TRANSACTION_COORDINATOR_FENCED
        return Error.NONE

    def ended(self, head: Header, coordinator_epoch: int, *, committed: bool) -> None:
        producer = self.known.setdefault(head.producer_id, Producer())
        if producer.first_offset is not None:
            del self._open[producer.first_offset]
            if not committed:
                self.aborted.append(
                    AbortedTxn(head.producer_id, producer.first_offset, head.base_offset)
                )
        producer.move_to(head.producer_epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.first_offset = None
        producer.timestamp = head.max_timestamp

    def forget(self, before_ms: int) -> None:
        """Expire producers without writes since a time, except those in a transaction."""
        for producer_id, producer in list(self.known.items()):
            if producer.first_offset is None and producer.timestamp <= before_ms:
                del self.known[producer_id]
