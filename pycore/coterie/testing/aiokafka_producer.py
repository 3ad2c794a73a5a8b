"""The producer of aiokafka on virtual time."""

from __future__ import annotations

import asyncio
from itertools import count
from types import SimpleNamespace
from typing import Any, NamedTuple

from coterie.testing import client
from coterie.testing.aiokafka_client import AsyncClient, ended, offsets_of, raised
from coterie.testing.aiokafka_consumer import WITHOUT_EFFECT
from coterie.testing.aiokafka_errors import IllegalOperation
from coterie.testing.client import errors
from coterie.testing.client.producer_state import State
from coterie.testing.kafka_python_client import javas
from coterie.testing.kafka_python_errors import named
from coterie.testing.program_client import bytes_of
from coterie.testing.topics import TopicPartition

_DEFAULTS: dict[str, Any] = {
    "client_id": None,
    "key_serializer": None,
    "value_serializer": None,
    "request_timeout_ms": 40_000,
    "retry_backoff_ms": 100,
    "transactional_id": None,
    "transaction_timeout_ms": 60_000,
}
_WITHOUT_EFFECT = (  # noqa: SIM905
    "metadata_max_age_ms acks compression_type max_batch_size partitioner max_request_size "
    "linger_ms enable_idempotence"
).split()
_SHARED = "client_id request_timeout_ms retry_backoff_ms transactional_id transaction_timeout_ms"
_numbers = count(1)


class RecordMetadata(NamedTuple):
    """Where a record was written."""

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int | None
    timestamp_type: int
    log_start_offset: int | None


class BatchBuilder:
    """Records of a batch; it has no limit of size."""

    def __init__(self, producer: AIOKafkaProducer) -> None:
        self._producer = producer
        self._records: list[tuple[bytes | None, bytes | None, Any]] = []
        self._closed = False

    def append(self, *, timestamp: int | None, key: Any, value: Any, headers: Any = ()) -> Any:
        """Add a record; return None if the batch is closed."""
        if self._closed:
            return None
        name, content = self._producer._serialized(key, value)
        self._records.append((name, content, headers or ()))
        return SimpleNamespace(offset=len(self._records) - 1, timestamp=timestamp)

    def close(self) -> None:
        """Take no more records."""
        self._closed = True

    def closed(self) -> bool:
        """Whether it takes no more records."""
        return self._closed

    def record_count(self) -> int:
        """Return the number of records."""
        return len(self._records)


class AIOKafkaProducer(AsyncClient):
    """A producer of aiokafka."""

    def __init__(self, **configs: Any) -> None:
        bad = set(configs).difference(_DEFAULTS, _WITHOUT_EFFECT, WITHOUT_EFFECT)
        if bad:
            raise TypeError(f"AIOKafkaProducer() got unexpected keyword arguments {sorted(bad)}")
        self._config = {**_DEFAULTS, **configs}
        if self._config["client_id"] is None:
            self._config["client_id"] = f"aiokafka-producer-{next(_numbers)}"
        super().__init__(str(self._config["client_id"]))
        chosen = javas(self._config, _SHARED) | {"client.id": self._name}
        self._inner = client.Producer(self._program.cluster, chosen, process=self._process)

    def _raised(self, error: errors.KafkaError) -> Exception:
        if isinstance(error, errors.ProducerFencedError):
            return named("ProducerFencedError", str(error))
        return raised(error)

    async def start(self) -> None:
        """Get an epoch, if it has transactions."""
        if self._config["transactional_id"] is not None:
            await self._do(self._inner.init_transactions)

    async def stop(self) -> None:
        """Write the rest, and end the producer."""
        if not self._closed and self._process.alive:
            await self._do(self._inner.close)
            self._closed = True

    async def flush(self) -> None:
        """Wait until all records are written or have failed."""
        await self._do(self._inner.flush)

    async def partitions_for(self, topic: str) -> set[int]:
        """Return the numbers of a topic's partitions."""
        known = self._program.cluster._topics.get(topic)
        if known is None:
            raise named("UnknownTopicOrPartitionError", topic)
        return set(range(len(known.logs)))

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Any = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Send a record in the background; return a future of its RecordMetadata."""
        assert value is not None or key is not None, "Need at least one: key or value"
        numbers = await self.partitions_for(topic)
        transactional = self._config["transactional_id"] is not None
        if transactional and self._inner._state.state is not State.IN_TRANSACTION:
            raise IllegalOperation("Can't send messages while not in transaction")
        assert partition is None or partition in numbers, "Unrecognized partition"
        name, content = self._serialized(key, value)
        future: asyncio.Future[RecordMetadata] = self._loop.create_future()

        def delivered(written: Any, error: errors.KafkaError | None) -> None:
            if error is not None:
                self._soon(ended, future, None, self._raised(error))
                return
            tp = TopicPartition(*written[:2])
            found = RecordMetadata(*tp, tp, written.offset, self._process.now_ms, 0, 0)
            self._soon(ended, future, found, None)

        more = tuple(headers or ())
        self._inner.send(
            topic, content, name, partition=partition, headers=more, callback=delivered
        )
        return future

    def _serialized(self, *pair: Any) -> list[bytes | None]:
        """Return a key and a value as bytes."""
        names = "key_serializer", "value_serializer"
        chosen = [self._config[name] or (lambda of: of) for name in names]
        return [bytes_of(call(of)) for call, of in zip(chosen, pair, strict=True)]

    def create_batch(self) -> BatchBuilder:
        """Return an empty batch of records."""
        return BatchBuilder(self)

    async def send_batch(
        self, batch: BatchBuilder, topic: str, *, partition: int
    ) -> asyncio.Future[RecordMetadata]:
        """Send the records of a batch; return a future of the first one's RecordMetadata."""
        batch.close()
        plain = {"key_serializer": None, "value_serializer": None}
        config, self._config = self._config, self._config | plain
        try:
            first, *_ = [
                await self.send(topic, value, key, partition, None, headers)
                for key, value, headers in batch._records
            ]
        finally:
            self._config = config
        return first

    async def send_and_wait(self, *args: Any, **named: Any) -> RecordMetadata:
        """Send a record, and wait until it is written."""
        return await (await self.send(*args, **named))

    # Transactions

    async def begin_transaction(self) -> None:
        """Begin a transaction."""
        await self._within(self._inner.begin_transaction)

    async def commit_transaction(self) -> None:
        """Write the records that wait, and commit."""
        await self._within(self._inner.commit_transaction)

    async def abort_transaction(self) -> None:
        """Abort the transaction."""
        await self._within(self._inner.abort_transaction)

    async def send_offsets_to_transaction(self, offsets: Any, group_id: str) -> None:
        """Commit offsets of a group within the transaction."""
        if not group_id or not isinstance(group_id, str):
            raise ValueError(group_id)
        who = client.ConsumerGroupMetadata(group_id, -1, "", None)
        await self._within(self._inner.send_offsets_to_transaction, offsets_of(offsets), who)

    async def _within(self, call: Any, *args: Any) -> None:
        if self._config["transactional_id"] is None:
            raise IllegalOperation("You need to configure transaction_id to use transactions")
        await self._do(call, *args)

    def transaction(self) -> _Transaction:
        """Return a context: a transaction, committed at its end, aborted by an exception."""
        return _Transaction(self)


class _Transaction:
    def __init__(self, producer: AIOKafkaProducer) -> None:
        self._producer = producer

    async def __aenter__(self) -> _Transaction:
        await self._producer.begin_transaction()
        return self

    async def __aexit__(self, *failure: object) -> None:
        if failure[0] is None:
            await self._producer.commit_transaction()
        elif self._producer._inner._state.state is not State.FATAL_ERROR:
            await self._producer.abort_transaction()
