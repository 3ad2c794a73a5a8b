"""What clients of applications share: calls of several threads, callbacks, waits for records."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from coterie._core.structures.schedule import Future as Signal
from coterie.testing import client
from coterie.testing.client import errors
from coterie.testing.process import Process
from coterie.testing.programs import current
from coterie.testing.topics import ConsumerRecord

FOR_EVER_MS = 2**31 - 1


class Client:
    """What a client has besides its protocol: calls of several threads, callbacks for a poll."""

    def __init__(self, name: str) -> None:
        self._program, _ = current()
        self._name = str(self._program.settings.get("client.id", name))  # a history's, for faults
        self._process: Process = self._program.new_process(self._name)
        self._thread: Process | None = None
        self._queued: deque[Signal] = deque()  # of threads that wait for the end of a call
        self._callbacks: deque[Callable[[], None]] = deque()
        self._closed = False

    @contextmanager
    def _call(self) -> Iterator[None]:
        """Enter a call of the present thread; calls of other threads wait for its end."""
        if self._closed:
            raise self._closed_failure()
        _, thread = current()
        thread.check_alive()
        nested = self._thread is thread  # from a callback
        if not nested:
            self._begin(thread)
        try:
            yield
        except errors.KafkaError as error:
            raise self._raised(error) from None
        finally:
            if not nested:
                self._free()

    def _closed_failure(self) -> Exception:
        """Return what a call of a closed client raises."""
        raise NotImplementedError

    def _raised(self, error: errors.KafkaError) -> Exception:
        """Return the library's exception for one of the simulated client."""
        raise NotImplementedError

    def _begin(self, thread: Process) -> None:
        while self._thread is not None:
            freed = Signal()
            self._queued.append(freed)
            self._wake()
            thread.wait(freed)
        self._thread = thread
        self._process._program, self._process._hub = thread._program, thread._hub

    def _free(self) -> None:
        self._thread = None
        if self._queued:
            self._queued.popleft().set()

    @contextmanager
    def _released(self) -> Iterator[None]:
        """Let the calls of other threads run meanwhile."""
        thread = self._thread
        assert thread is not None
        self._free()
        yield
        self._begin(thread)

    def _give_way(self) -> None:
        """Let the calls of other threads run first."""
        with self._released():
            current()[1].sleep(1)

    def _wake(self) -> None:
        """End the wait of a poll."""

    def _serve(self) -> int:
        """Run the callbacks that are due; return their count."""
        served = 0
        while self._callbacks:
            served += 1
            self._callbacks.popleft()()
        return served

    def _deadline(self, timeout: float | None) -> int:
        if timeout is None or timeout < 0:
            return self._process.now_ms + FOR_EVER_MS
        return self._process.now_ms + round(timeout * 1000)

    def _left(self, deadline_ms: int) -> int:
        return max(0, deadline_ms - self._process.now_ms)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> Any:
        """End the client."""
        raise NotImplementedError


class ConsumerClient(Client):
    """What a consumer of an application has besides."""

    _inner: client.Consumer
    _last: tuple[str, int, int] | None = None  # topic, partition and offset of the last record

    @property
    def waits(self) -> bool:
        """Whether the application waits for a record."""
        return self._inner._network.in_poll

    def _wake(self) -> None:
        if not self._closed:
            self._inner.wakeup()

    def _read(self, wait_ms: int) -> list[ConsumerRecord]:
        """Return records; a signal, or a call of another thread, may end the wait."""
        try:
            return self._inner.poll(wait_ms)
        except errors.WakeupError:
            if self._queued:
                self._give_way()
            return []

    def _probe(self, starts: dict[tuple[str, int], int], records: list[ConsumerRecord]) -> None:
        """Find the first position in each partition."""
        for record in records:
            starts.setdefault((record.topic, record.partition), record.offset)
        for place, at in self._inner._subscriptions.positions().items():
            starts.setdefault(tuple(place), at)


def bytes_of(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"a bytes-like object is required, not '{type(value).__name__}'")
