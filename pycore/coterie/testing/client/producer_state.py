"""The transactions of a producer: its state, its requests, and what their errors mean.

An error is fatal (the producer is fenced), abortable (only the transaction has failed), or passes:
then the request is sent again.
Source: ``TransactionManager.java``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from coterie._core.testing.clients import Sent
from coterie.testing.client.errors import (
    CommitFailedError,
    IllegalStateError,
    KafkaError,
    ProducerFencedError,
    RetriableError,
    error_of,
)
from coterie.testing.client.network import NetworkClient
from coterie.values import Error

_FENCED = (Error.PRODUCER_FENCED, Error.INVALID_PRODUCER_EPOCH)
_MISMATCH = (Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION)
_ABORTABLE = (Error.FENCED_INSTANCE_ID, Error.TRANSACTION_ABORTABLE)
_LOST_COORDINATOR = (Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_COORDINATOR,
                     Error.REQUEST_TIMED_OUT)  # fmt: skip
_FIRST_RETRY_MS = 20  # after CONCURRENT_TRANSACTIONS, while the former transaction ends


class State(Enum):
    """The state of a transactional producer; names are Kafka's."""

    UNINITIALIZED = "UNINITIALIZED"
    INITIALIZING = "INITIALIZING"
    READY = "READY"
    IN_TRANSACTION = "IN_TRANSACTION"
    COMMITTING = "COMMITTING_TRANSACTION"
    ABORTING = "ABORTING_TRANSACTION"
    ABORTABLE_ERROR = "ABORTABLE_ERROR"
    FATAL_ERROR = "FATAL_ERROR"


class ProducerState:
    def __init__(self, network: NetworkClient, transactional_id: str | None) -> None:
        self._network, self.transactional_id = network, transactional_id
        self.state = State.UNINITIALIZED
        self.producer_id = self.epoch = -1
        self.failure: KafkaError | None = None

    @property
    def producer(self) -> tuple[str | None, int, int]:
        """Who it is, as its requests say."""
        return self.transactional_id, self.producer_id, self.epoch

    def require(self, *states: State, what: str) -> None:
        """Raise unless it is in one of these states.

        Raises
        ------
        ProducerFencedError, KafkaError, IllegalStateError
            It is fenced; its transaction has failed; the call does not fit its state.
        """
        if self.transactional_id is None:
            raise IllegalStateError("a producer without a transactional.id has no transactions")
        if self.state in states:
            return
        self.raise_failure()
        raise IllegalStateError(f"{what} is not possible in state {self.state.value}")

    def raise_failure(self) -> None:
        """Raise what has ended the transaction, if something has."""
        if self.state not in (State.ABORTABLE_ERROR, State.FATAL_ERROR):
            return
        if isinstance(self.failure, ProducerFencedError):
            raise ProducerFencedError(
                f"another producer has the transactional.id {self.transactional_id!r}"
            )
        raise KafkaError(f"the transaction has failed: {self.failure}") from self.failure

    # Requests

    def send(self, op: str, *args: Any, **fields: Any) -> Sent:
        """Send a request until it succeeds, or fails for good; its value is the response."""
        sent = Sent()
        self._try(op, args, fields, sent, 0)
        return sent

    def _try(
        self, op: str, args: tuple[Any, ...], fields: dict[str, Any], sent: Sent, attempts: int
    ) -> None:
        network = self._network
        if sent.done:
            return  # it was given up

        def again(after_ms: int) -> None:
            network.process.call_later(after_ms, self._try, op, args, fields, sent, attempts + 1)

        def respond(response: Any) -> None:
            error = _error(response)
            if sent.done:
                return
            if error == Error.NONE:
                sent.complete(response)
            elif error == Error.CONCURRENT_TRANSACTIONS and not attempts:
                again(_FIRST_RETRY_MS)
            elif error is None or isinstance(error_of(error, op), RetriableError):
                if op == "txn_offset_commit" and (error is None or error in _LOST_COORDINATOR):
                    network.forget_coordinator()
                again(network.backoff_ms(attempts))
            else:
                sent.fail(self._failed(op, error))
            network.wake()

        if op != "txn_offset_commit":
            network.send(op, respond, *args, **fields)
        elif network.coordinator is None:
            network.look_up()
            again(network.backoff_ms(attempts))
        else:
            network.send_to_coordinator(op, respond, *args, **fields)

    def _failed(self, op: str, error: Error) -> KafkaError:
        """Change the state as an error demands; return what the call raises."""
        failure = error_of(error, op)
        if op == "produce":
            return self.fail_transaction(failure)
        if op == "txn_offset_commit" and error in _MISMATCH:
            return self.fail_transaction(
                CommitFailedError(
                    "the transaction's offset commit failed, because the consumer group metadata "
                    f"do not match: {error.name}"
                )
            )
        if error in _ABORTABLE and op != "end_txn":
            return self.fail_transaction(failure)
        if error in _FENCED:
            failure = ProducerFencedError(f"{op}: {error.name}")
        self.state, self.failure = State.FATAL_ERROR, failure
        return failure

    def fail_transaction(self, failure: KafkaError) -> KafkaError:
        """Let the transaction fail: it can only be aborted; return the failure."""
        if self.state is not State.FATAL_ERROR and self.transactional_id is not None:
            self.state, self.failure = State.ABORTABLE_ERROR, failure
        return failure

    # The way to a state

    def initialize(self, timeout_ms: int) -> Sent:
        """Get a producer id and epoch, which fences the former producer."""
        self.state = State.INITIALIZING
        return self._then(
            self.send("init_producer_id", self.transactional_id, timeout_ms), self._initialized
        )

    def _initialized(self, response: tuple[int, int]) -> None:
        self.producer_id, self.epoch = response
        self.state = State.READY

    def end(self, *, committed: bool) -> Sent:
        """Commit or abort the transaction at its coordinator."""
        return self._then(
            self.send("end_txn", *self.producer, committed=committed), lambda _: self.ended()
        )

    def ended(self) -> None:
        """Be ready for the next transaction."""
        self.state, self.failure = State.READY, None

    @staticmethod
    def _then(request: Sent, succeeded: Callable[[Any], None]) -> Sent:
        sent = Sent()

        def done(request: Sent) -> None:
            if request.failure is not None:
                sent.fail(request.failure)
            else:
                succeeded(request.value)
                sent.complete(request.value)

        request.then(done)
        return sent


def _error(response: Any) -> Error | None:
    """Return the first error of a response; None: there is no response."""
    if response is None or isinstance(response, Error):
        return response
    if isinstance(response, dict):  # of Produce
        each = [value for value in response.values() if isinstance(value, Error)]
    else:
        each = [one.error for one in getattr(response, "partitions", ())]
    return next((error for error in each if error != Error.NONE), Error.NONE)
