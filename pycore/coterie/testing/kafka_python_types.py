"""Records, offsets and futures by the names of kafka-python, and its listener."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from coterie._core.structures.schedule import Future as Signal
from coterie.testing.kafka_python_errors import RetriableError, named
from coterie.testing.programs import current
from coterie.testing.topics import TopicPartition

LOG = logging.getLogger("kafka.future")


class OffsetAndMetadata(NamedTuple):
    """An offset, and what its commit says besides."""

    offset: int | None = None
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """An offset, and the timestamp of its record, ms."""

    offset: int
    timestamp: int
    leader_epoch: int | None


class ConsumerGroupMetadata(NamedTuple):
    """Who a consumer is, for a transactional producer."""

    group_id: str | None = None
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    state: str = "<unjoined>"


class ConsumerRecord(NamedTuple):
    """A record as a consumer returns it."""

    topic: str
    partition: int
    leader_epoch: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: list[tuple[str, bytes | None]]
    checksum: int | None
    serialized_key_size: int
    serialized_value_size: int
    serialized_header_size: int


class RecordMetadata(NamedTuple):
    """Where a record was written."""

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int
    checksum: int | None
    serialized_key_size: int
    serialized_value_size: int
    serialized_header_size: int


class ConsumerRebalanceListener(ABC):
    """Base of listeners; each method gets a set of partitions."""

    @abstractmethod
    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Give up partitions; a first join gives up none."""

    @abstractmethod
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Begin with partitions."""

    def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        """Give up partitions that may have another owner already."""
        self.on_partitions_revoked(lost)


class Future:
    """The result of a call, which comes later; callbacks run in a thread of the client."""

    def __init__(self) -> None:
        self.is_done = False
        self.value: Any = None
        self.exception: BaseException | None = None
        self._program, _ = current()
        self._signal = Signal()
        self._calls: list[tuple[bool, Callable[[Any], Any]]] = []  # of failures, or of values

    def succeeded(self) -> bool:
        """Whether there is a value."""
        return self.is_done and self.exception is None

    def failed(self) -> bool:
        """Whether there is an exception."""
        return self.is_done and self.exception is not None

    def retriable(self) -> bool:
        """Whether the call may succeed later."""
        return isinstance(self.exception, RetriableError)

    def success(self, value: Any) -> Future:
        """Take the value."""
        return self._end(value, None)

    def failure(self, e: BaseException) -> Future:
        """Take the exception."""
        return self._end(None, e)

    def _end(self, value: Any, exception: BaseException | None) -> Future:
        self.value, self.exception, self.is_done = value, exception, True
        self._signal.set()
        calls, self._calls = self._calls, []
        due = [call for of_failure, call in calls if of_failure == self.failed()]
        if due:
            self._program.run_in_thread(lambda: self._run(*due))
        return self

    def _run(self, *calls: Callable[[Any], Any]) -> None:
        for call in calls:
            try:
                call(self.exception if self.failed() else self.value)
            except Exception:
                LOG.exception("Error processing callback")

    def _add(self, of_failure: bool, f: Any, args: Any, kwargs: Any) -> Future:
        call = partial(f, *args, **kwargs)
        if not self.is_done:
            self._calls.append((of_failure, call))
        elif of_failure == self.failed():
            self._run(call)
        return self

    def add_callback(self, f: Any, *args: Any, **kwargs: Any) -> Future:
        """Call a function with the value."""
        return self._add(False, f, args, kwargs)

    def add_errback(self, f: Any, *args: Any, **kwargs: Any) -> Future:
        """Call a function with the exception."""
        return self._add(True, f, args, kwargs)

    def add_both(self, f: Any, *args: Any, **kwargs: Any) -> Future:
        """Call a function with the one or the other."""
        return self.add_callback(f, *args, **kwargs).add_errback(f, *args, **kwargs)

    def get(self, timeout: float | None = None) -> Any:
        """Wait for the value; raise the exception."""
        program, thread = current()
        thread.check_alive()
        if not self.is_done:
            thread.wait(self._signal, None if timeout is None else round(timeout * 1000))
            program.handle_signal()
        if not self.is_done:
            raise named("KafkaTimeoutError", f"Timeout after waiting for {timeout} secs.")
        if self.exception is not None:
            raise self.exception
        return self.value


def size_of(data: bytes | None) -> int:
    """Return the size of a key or a value; None: -1."""
    return -1 if data is None else len(data)


def headers_size(headers: list[tuple[str, bytes | None]]) -> int:
    """Return the size of headers; none: -1."""
    return sum(len(name.encode()) + len(data or b"") for name, data in headers) or -1
