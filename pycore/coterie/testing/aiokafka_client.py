"""What the consumer and the producer of aiokafka share: calls in threads of virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from coterie import values
from coterie.testing.client import errors
from coterie.testing.kafka_python_client import PythonClient
from coterie.testing.kafka_python_errors import named, translated
from coterie.testing.topics import TopicPartition


class OffsetAndMetadata(NamedTuple):
    """An offset, and what its commit says besides."""

    offset: int
    metadata: str


class OffsetAndTimestamp(NamedTuple):
    """An offset, and the timestamp of its record, ms."""

    offset: int
    timestamp: int | None


class AsyncClient(PythonClient):
    """A client of aiokafka; the simulated one blocks, so its calls have threads of their own."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._loop = asyncio.get_running_loop()

    async def _do(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return what a call of the simulated client returns."""
        done = self._loop.create_future()

        def run() -> None:
            try:
                with self._call():
                    found = function(*args)
            except Exception as error:
                self._soon(ended, done, None, error)
            else:
                self._soon(ended, done, found, None)

        self._program.run_in_thread(run)
        return await asyncio.shield(done)

    def _soon(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a function in the loop, unless it is over."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *args)

    async def start(self) -> None:
        """Connect."""
        raise NotImplementedError

    async def stop(self) -> None:
        """End the client."""
        raise NotImplementedError

    async def __aenter__(self) -> Any:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


def ended(done: asyncio.Future[Any], found: Any, error: Exception | None) -> None:
    """End a future, unless it has been cancelled."""
    if not done.done():
        done.set_result(found) if error is None else done.set_exception(error)


def raised(error: errors.KafkaError) -> Exception:
    """Return aiokafka's exception for one of the simulated client."""
    if isinstance(error, errors.RebalanceInProgressError):
        return named("CommitFailedError", str(error))
    return translated(error)


def offsets_of(offsets: Any) -> dict[tuple[str, int], values.OffsetAndMetadata | int]:
    """Return offsets as a commit names them: numbers, or pairs with metadata."""
    if not offsets or not isinstance(offsets, dict):
        raise ValueError(offsets)
    found: dict[tuple[str, int], values.OffsetAndMetadata | int] = {}
    for tp, at in offsets.items():
        if not isinstance(tp, TopicPartition):
            raise TypeError("Key should be TopicPartition instance")
        offset, metadata = (at, "") if isinstance(at, int) else at
        if not isinstance(metadata, str):
            raise TypeError("Metadata should be a string")
        found[tp] = values.OffsetAndMetadata(offset, metadata=metadata)
    return found
