"""The producer of kafka-python on virtual time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from coterie.testing import client
from coterie.testing.client import errors
from coterie.testing.kafka_python_client import PythonClient, javas, offsets_of, unknown
from coterie.testing.kafka_python_errors import KafkaError, named, translated
from coterie.testing.kafka_python_types import (
    ConsumerGroupMetadata,
    Future,
    RecordMetadata,
    headers_size,
    size_of,
)
from coterie.testing.topics import TopicPartition

_DEFAULTS: dict[str, Any] = {
    "client_id": None,
    "key_serializer": None,
    "value_serializer": None,
    "enable_idempotence": True,
    "transactional_id": None,
    "transaction_timeout_ms": 60_000,
    "delivery_timeout_ms": 120_000,
    "max_block_ms": 60_000,
    "retry_backoff_ms": 100,
    "request_timeout_ms": 30_000,
}
_WITHOUT_EFFECT = (  # noqa: SIM905
    "acks compression_type retries batch_size linger_ms partitioner buffer_memory "
    "max_request_size metadata_max_age_ms"
).split()
_SHARED = (
    "client_id transactional_id transaction_timeout_ms delivery_timeout_ms max_block_ms "
    "retry_backoff_ms request_timeout_ms"
)
_numbers = count(1)


class KafkaProducer(PythonClient):
    """A producer of kafka-python."""

    def __init__(self, **configs: Any) -> None:
        bad = unknown(configs, _DEFAULTS, _WITHOUT_EFFECT)
        if bad:
            raise ValueError(f"Unrecognized configs: { {name: configs[name] for name in bad} }")
        self.config = {**_DEFAULTS, **configs}
        if self.config["client_id"] is None:
            self.config["client_id"] = f"kafka-python-producer-{next(_numbers)}"
        if self.config["transactional_id"] and not self.config["enable_idempotence"]:
            raise named("KafkaConfigurationError", "transactional_id needs enable_idempotence")
        super().__init__(str(self.config["client_id"]))
        chosen = javas(self.config, _SHARED) | {"client.id": self._name}
        self._inner = client.Producer(self._program.cluster, chosen, process=self._process)

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Future:
        """Send a record in the background; return a future of its RecordMetadata."""
        if value is None and key is None:
            raise ValueError("Need at least one: key or value")
        more = [] if headers is None else headers
        if not isinstance(more, list):
            raise TypeError("headers must be list-type")
        if not all(map(_is_header, more)):
            raise TypeError("All headers items must be (str, bytes) tuples")
        name = self._bytes("key", topic, more, key)
        content = self._bytes("value", topic, more, value)
        future = Future()
        with self._call():
            if partition is not None and partition not in self.partitions_for(topic):
                raise ValueError(f"Unrecognized partition {partition} for topic {topic}")
            sizes = size_of(name), size_of(content), headers_size(more)

            def delivered(written: Any, error: errors.KafkaError | None) -> None:
                if error is not None:
                    future.failure(translated(error))
                    return
                tp, at_ms = TopicPartition(*written[:2]), self._process.now_ms
                future.success(RecordMetadata(*tp, tp, written.offset, at_ms, None, *sizes))

            self._inner.send(
                *(topic, content, name),
                partition=partition,
                headers=tuple(more),
                callback=delivered,
            )
        return future

    def _bytes(self, what: str, topic: str, headers: list[Any], data: Any) -> bytes | None:
        serializer = self.config[f"{what}_serializer"]
        if serializer is not None:
            method = getattr(serializer, "serialize", None)
            data = serializer(data) if method is None else method(topic, headers, data)
        if data is None or isinstance(data, bytes | bytearray | memoryview):
            return None if data is None else bytes(data)
        raise TypeError(f"Unsupported type for serialized {what}: {type(data)}")

    def partitions_for(self, topic: str) -> set[int]:
        """Return the numbers of a topic's partitions."""
        known = self._program.cluster._topics.get(topic)
        if known is None:
            raise named("KafkaTimeoutError", f"topic {topic} is not in the metadata")
        return set(range(len(known.logs)))

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all records are written or have failed."""
        with self._call():
            self._inner._drain(self._deadline(timeout))
            if self._inner._waiting or self._inner._request is not None:
                raise named("KafkaTimeoutError", "the records were not flushed in time")

    # Transactions

    def init_transactions(self) -> None:
        """Get an epoch; it fences older producers."""
        self._within(self._inner.init_transactions)

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        self._within(self._inner.begin_transaction)

    def send_offsets_to_transaction(
        self, offsets: Any, group_metadata: ConsumerGroupMetadata | str
    ) -> None:
        """Commit a consumer's offsets within the transaction."""
        if isinstance(group_metadata, str):
            group_metadata = ConsumerGroupMetadata(group_metadata)
        who = client.ConsumerGroupMetadata(*group_metadata[:4])  # type: ignore[arg-type]
        chosen = offsets_of(offsets)
        self._within(lambda: self._inner.send_offsets_to_transaction(chosen, who))

    def commit_transaction(self) -> None:
        """Write the records that wait, and commit."""
        self._within(self._inner.commit_transaction)

    def abort_transaction(self) -> None:
        """Abort the transaction."""
        self._within(self._inner.abort_transaction)

    def _within(self, call: Callable[[], None]) -> None:
        with self._call():
            try:
                call()
            except errors.IllegalStateError as error:
                if self.config["transactional_id"] is None:
                    raise
                raise KafkaError(str(error)) from None

    def close(self, timeout: float | None = None) -> None:
        """Flush, and end the producer."""
        if not self._closed:
            self.flush(timeout)
            with self._call():
                self._inner.close()
                self._closed = True


def _is_header(item: Any) -> bool:
    return (
        isinstance(item, tuple)
        and len(item) == 2
        and isinstance(item[0], str)
        and isinstance(item[1], bytes)
    )
