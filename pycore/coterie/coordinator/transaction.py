"""The state of one transactional id and its transitions. Source: TransactionMetadata.

A transition returns a new value, which takes effect once its record is in the log.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from coterie.coordinator.transaction_records import Value, by_topic
from coterie.values import Error

Partition = tuple[str, int]
NONE_YET = -1  # no producer id, no epoch, no start
LAST_EPOCH = 2**15 - 2  # the one after it is for fencing


class State(IntEnum):
    """The states by their numbers in the log; PrepareEpochFence is written as PrepareAbort."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6

    @property
    def title(self) -> str:
        return self.name.title().replace("_", "")


ENDING = (State.PREPARE_COMMIT, State.PREPARE_ABORT)


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transactional id; the last and the next producer id and epoch are not in the log.

    Kafka 4 raises the epoch with the end of a transaction, if the client knows that (KIP-890). Then
    ``client_version`` is 2. Once the epochs are exhausted, ``next_producer_id`` is the producer id
    that follows.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    updated_ms: int
    last_producer_id: int = NONE_YET
    last_producer_epoch: int = NONE_YET
    state: State = State.EMPTY
    partitions: frozenset[Partition] = frozenset()
    start_ms: int = NONE_YET
    next_producer_id: int = NONE_YET
    client_version: int = 0

    @property
    def is_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_EPOCH

    @property
    def due_ms(self) -> int:
        return self.start_ms + self.timeout_ms

    def is_from(self, producer_id: int, epoch: int) -> bool:
        """Return whether a producer id may continue this transactional id; ignores the epoch.

        A producer may also present the last producer id, whose epochs are exhausted, if it missed
        the response with the new one.
        """
        if self.producer_epoch == NONE_YET or producer_id == self.producer_id:
            return True
        return producer_id == self.last_producer_id and epoch >= LAST_EPOCH

    def begun(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> Transaction | None:
        """Return the state after InitProducerId; None if the producer is fenced."""
        epoch, last_epoch = self.producer_epoch + 1, NONE_YET
        if expected_epoch is not None:
            if self.producer_epoch in (NONE_YET, expected_epoch):
                last_epoch = self.producer_epoch
            elif expected_epoch == self.last_producer_epoch:  # a repeated request
                epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
            else:
                return None
        return self._emptied(self.producer_id, epoch, last_epoch, timeout_ms, now_ms)

    def rotated(
        self, producer_id: int, timeout_ms: int, expected_epoch: int | None, now_ms: int
    ) -> Transaction:
        """Return the state with a new producer id, once the epochs of the old one are exhausted."""
        last_epoch = NONE_YET if expected_epoch is None else self.producer_epoch
        return self._emptied(producer_id, 0, last_epoch, timeout_ms, now_ms)

    def _emptied(
        self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> Transaction:
        return replace(
            self,
            producer_id=producer_id,
            last_producer_id=self.producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            state=State.EMPTY,
            partitions=frozenset(),
            start_ms=NONE_YET,
            updated_ms=now_ms,
        )

    def with_partitions(
        self, added: frozenset[Partition], now_ms: int, client_version: int = 0
    ) -> Transaction:
        """Return the state with more partitions; the first ones start the transaction."""
        return replace(
            self,
            client_version=client_version,
            state=State.ONGOING,
            partitions=self.partitions | added,
            start_ms=self.start_ms if self.state is State.ONGOING else now_ms,
            updated_ms=now_ms,
        )

    def fenced(self) -> Transaction:
        """Return the state with the next epoch, which no producer has, to fence the producer."""
        return replace(self, producer_epoch=self.producer_epoch + 1, last_producer_epoch=NONE_YET)

    def ending(self, committed: bool, now_ms: int) -> Transaction:
        """Return the state after the decision to commit or abort."""
        state = State.PREPARE_COMMIT if committed else State.PREPARE_ABORT
        return replace(self, state=state, updated_ms=now_ms, client_version=0)

    def ending_with_bump(
        self, committed: bool, now_ms: int, next_producer_id: int = NONE_YET
    ) -> Transaction:
        """Return the state after the decision to commit or abort, with the next epoch.

        A transaction without partitions starts now.
        """
        return replace(
            self.ending(committed, now_ms),
            producer_epoch=self.producer_epoch + 1,
            last_producer_epoch=self.producer_epoch,
            next_producer_id=next_producer_id,
            start_ms=self.start_ms if self.state is State.ONGOING else now_ms,
            client_version=2,
        )

    def ended(self, now_ms: int) -> Transaction:
        done = self.state is State.PREPARE_COMMIT
        state = State.COMPLETE_COMMIT if done else State.COMPLETE_ABORT
        ended = replace(self, state=state, partitions=frozenset(), updated_ms=now_ms)
        if self.next_producer_id == NONE_YET:
            return ended
        return replace(
            ended,
            producer_id=self.next_producer_id,
            producer_epoch=0,
            last_producer_id=self.producer_id,
            next_producer_id=NONE_YET,
        )

    def answer_to_end(self, committed: bool) -> Error | None:
        """Return the response to EndTxn in this state; None: the transaction ends now."""
        if self.state is State.ONGOING:
            return None
        word = "COMMIT" if committed else "ABORT"
        errors = {
            State[f"COMPLETE_{word}"]: Error.NONE,
            State[f"PREPARE_{word}"]: Error.CONCURRENT_TRANSACTIONS,
        }
        return errors.get(self.state, Error.INVALID_TXN_STATE)

    def answer_to_end_with_bump(
        self, producer_id: int, epoch: int, committed: bool
    ) -> Error | None:
        """Return the response to EndTxn of a client that expects the next epoch; None: it ends now.

        The epoch shows whether the request is repeated: then the producer has missed the response.
        An abort without a transaction raises the epoch, too. Source: ``endTransaction`` of Kafka 4.
        """
        missed_id = (
            self.last_producer_id == producer_id and epoch == LAST_EPOCH and not self.producer_epoch
        )
        is_repeated = missed_id or self.producer_epoch == epoch + 1
        is_present = self.producer_epoch == epoch
        if self.producer_id != producer_id and not missed_id:
            return Error.INVALID_PRODUCER_ID_MAPPING
        if self.state in ENDING:
            fits = self.producer_epoch == epoch + 1
        elif self.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
            fits = is_present or is_repeated
        else:
            fits = is_present
        if not fits:
            return Error.PRODUCER_FENCED
        if self.state is State.ONGOING:
            return None
        if self.state is State.EMPTY or (not is_repeated and self.state not in ENDING):
            return Error.INVALID_TXN_STATE if committed else None
        return self.answer_to_end(committed)

    def value(self) -> Value:
        return Value(
            self.producer_id,
            self.producer_epoch,
            self.timeout_ms,
            int(self.state),
            None if self.state is State.EMPTY else by_topic(self.partitions),
            self.updated_ms,
            self.start_ms,
            self.client_version,
        )

    @classmethod
    def loaded(cls, transactional_id: str, value: Value) -> Transaction:
        partitions = value.partitions or {}
        return cls(
            transactional_id,
            value.producer_id,
            value.producer_epoch,
            value.timeout_ms,
            value.updated_ms,
            client_version=value.client_version,
            state=State(value.status),
            partitions=frozenset(
                (name, number) for name in partitions for number in partitions[name]
            ),
            start_ms=value.start_ms,
        )
