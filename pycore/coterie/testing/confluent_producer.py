"""The producer of confluent-kafka on virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.testing import client
from coterie.testing.client import errors
from coterie.testing.confluent_client import ConfluentClient, merged, offsets_of
from coterie.testing.confluent_types import (
    OFFSET_INVALID,
    TIMESTAMP_CREATE_TIME,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
    translated,
)
from coterie.testing.program_client import bytes_of

_SETTINGS = (
    *("transactional.id", "transaction.timeout.ms", "client.id"),
    *("retry.backoff.ms", "retry.backoff.max.ms"),
)


class Producer(ConfluentClient):
    """A producer of librdkafka."""

    def __init__(self, *args: Any, **named: Any) -> None:
        given: dict[str, Any] = {"client.id": "rdkafka", **merged(args, named, _SETTINGS)}
        super().__init__(str(given["client.id"]))
        self._on_delivery = given.get("on_delivery")
        chosen = {name: given[name] for name in _SETTINGS if name in given}
        chosen["client.id"] = self._name
        chosen["delivery.timeout.ms"] = int(
            given.get("delivery.timeout.ms", given.get("message.timeout.ms", 300_000))
        )
        self._inner = client.Producer(self._program.cluster, chosen, process=self._process)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __bool__(self) -> bool:
        return True

    def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = -1,
        callback: Any = None,
        on_delivery: Any = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Send a message in the background; ``poll`` and ``flush`` call the callback."""
        content, name = bytes_of(value), bytes_of(key)
        pairs = headers.items() if isinstance(headers, dict) else headers or ()
        more = tuple((of, bytes_of(data)) for of, data in pairs)
        call = on_delivery or callback or self._on_delivery
        with self._call():
            self._length += 1

            def delivered(written: Any, error: errors.KafkaError | None) -> None:
                number, offset = (partition, OFFSET_INVALID) if written is None else written[1:]
                failed = None if error is None else translated(error)
                stamp = TIMESTAMP_CREATE_TIME, self._process.now_ms
                data = name, content, list(more) or None
                message = Message(topic, number, offset, *data, failed, stamp)
                self._callbacks.append(lambda: self._reported(call, failed, message))

            number = None if partition < 0 else partition
            try:
                self._inner.send(
                    topic, content, name, partition=number, headers=more, callback=delivered
                )
            except errors.KafkaTimeoutError as error:
                delivered(None, error)

    def _reported(self, call: Any, error: KafkaError | None, message: Message) -> None:
        self._length -= 1
        if call is not None:
            call(error, message)

    def poll(self, timeout: float = -1) -> int:
        """Run the callbacks of written messages; wait for the first one up to ``timeout``."""
        with self._call():
            deadline_ms = self._deadline(timeout)
            while not self._callbacks and self._left(deadline_ms):
                self._inner._network.wait(deadline_ms)
                self._program.handle_signal()
                if self._queued:
                    self._give_way()
            return self._serve()

    def _wake(self) -> None:
        self._inner._network.wake()

    def flush(self, timeout: float = -1) -> int:
        """Wait until all messages are written or have failed; return the count of the rest."""
        with self._call():
            self._flush(self._deadline(timeout))
            return self._length

    def _flush(self, deadline_ms: int) -> None:
        self._inner._drain(deadline_ms)
        self._serve()

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        """Fail the messages of no request yet."""
        with self._call():
            dropped, self._inner._waiting = self._inner._waiting, []
            for one in dropped:
                one.sent.fail(errors.KafkaError("purged"))

    # Transactions

    def init_transactions(self, timeout: float = -1) -> None:
        """Get an epoch; it fences older producers."""
        self._within(timeout, self._inner.init_transactions)

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        self._within(-1, self._inner.begin_transaction)

    def send_offsets_to_transaction(
        self, positions: list[TopicPartition], group_metadata: Any, timeout: float = -1
    ) -> None:
        """Commit a consumer's offsets within the transaction."""
        offsets = offsets_of(positions)
        self._within(
            timeout, lambda: self._inner.send_offsets_to_transaction(offsets, group_metadata)
        )

    def commit_transaction(self, timeout: float = -1) -> None:
        """Write the messages that wait, and commit."""
        self._within(timeout, self._inner.commit_transaction)

    def abort_transaction(self, timeout: float = -1) -> None:
        """Abort the transaction."""
        self._within(timeout, self._inner.abort_transaction)

    def _within(self, timeout: float, call: Callable[[], None]) -> None:
        with self._call():
            self._inner._settings["max.block.ms"] = self._left(self._deadline(timeout))
            try:
                call()
            except errors.KafkaError as failed:
                error = translated(failed)
                error._retriable = isinstance(failed, errors.RetriableError)
                error._abort = not (
                    error._fatal or error._retriable or isinstance(failed, errors.IllegalStateError)
                )
                raise KafkaException(error) from None
            finally:
                self._serve()

    def close(self) -> bool:
        """End the producer, after :meth:`flush`."""
        if not self._closed:
            with self._call():
                self._inner.close()
                self._serve()
                self._closed = True
        return True
