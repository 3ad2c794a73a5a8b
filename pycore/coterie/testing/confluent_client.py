"""What the consumer and the producer of confluent-kafka share: settings, threads, callbacks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from coterie.testing.client import errors
from coterie.testing.confluent_types import (
    CODE,
    KafkaError,
    KafkaException,
    TopicPartition,
    failure,
    translated,
)
from coterie.testing.process import Process
from coterie.testing.programs import current
from coterie.values import OffsetAndMetadata

FOR_EVER_MS = 2**31 - 1
A_SLIP = 0.94  # similarity of a misspelling: above that of any two properties of librdkafka
CALLBACKS = ("on_commit", "error_cb", "stats_cb", "throttle_cb", "logger", "on_delivery")


def merged(args: tuple[Any, ...], named: dict[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Return the settings of a client, from a dict, named arguments or both.

    A misspelling of a known one is refused; unknown ones have no effect.
    """
    if len(args) > 1 or not all(isinstance(each, dict) for each in args):
        raise TypeError("expected configuration dict")
    given = dict(args[0]) if args else {}
    given |= {
        name if name in CALLBACKS else name.replace("_", "."): of for name, of in named.items()
    }
    given |= given.pop("default.topic.config", None) or {}
    properties = frozenset((*known, *CALLBACKS))
    for name in given:
        if name not in properties and _is_slip(name, properties):
            raise failure(CODE._INVALID_ARG, f'No such configuration property: "{name}"')
    return given


@lru_cache(maxsize=1024)  # members of many histories have the same settings
def _is_slip(name: str, known: frozenset[str]) -> bool:
    return bool(get_close_matches(name, known, 1, A_SLIP))


class Client:
    """What a client has besides its protocol: calls of several threads, callbacks for a poll."""

    def __init__(self, name: str) -> None:
        self._program, _ = current()
        self._process: Process = self._program.new_process(name)
        self._thread: Process | None = None
        self._queued_calls = 0
        self._callbacks: deque[Callable[[], None]] = deque()
        self._closed = False

    @contextmanager
    def _call(self) -> Iterator[None]:
        """Enter a call of the present thread; calls of other threads wait for its end."""
        if self._closed:
            raise RuntimeError(f"{type(self).__name__} closed")
        _, thread = current()
        thread.check_alive()
        nested = self._thread is thread  # from a callback
        if not nested:
            self._begin(thread)
        try:
            yield
        except errors.KafkaError as error:
            raise KafkaException(translated(error)) from None
        finally:
            if not nested:
                self._thread = None

    def _begin(self, thread: Process) -> None:
        while self._thread is not None:
            self._queued_calls += 1
            self._wake()
            thread.sleep(1)
            self._queued_calls -= 1
        self._thread = thread
        self._process._program, self._process._hub = thread._program, thread._hub

    def _give_way(self) -> None:
        """Let the calls of other threads run first."""
        thread, self._thread = self._thread, None
        assert thread is not None
        thread.sleep(1)
        self._begin(thread)

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

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """Return the topics and their partitions."""
        known = self._program.cluster.topics
        names = known if topic is None else [topic]
        topics = {}
        for name in names:
            error = None if name in known else KafkaError(CODE.UNKNOWN_TOPIC_OR_PART)
            numbers = range(len(known[name].logs)) if name in known else ()
            partitions = {
                n: SimpleNamespace(id=n, leader=0, replicas=[0], isrs=[0], error=None)
                for n in numbers
            }
            topics[name] = SimpleNamespace(topic=name, partitions=partitions, error=error)
        broker = SimpleNamespace(id=0, host="coterie", port=9092)
        return SimpleNamespace(
            cluster_id="coterie", controller_id=0, brokers={0: broker}, topics=topics,
            orig_broker_id=0, orig_broker_name="coterie:9092/0",
        )  # fmt: skip

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> Any:
        """End the client."""
        raise NotImplementedError


def offsets_of(offsets: Iterable[TopicPartition]) -> dict[tuple[str, int], OffsetAndMetadata]:
    """Return the offsets that a commit may contain."""
    return {
        tp._place: OffsetAndMetadata(tp.offset, metadata=tp.metadata or "")
        for tp in offsets
        if tp.offset >= 0
    }


def bytes_of(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"a bytes-like object is required, not '{type(value).__name__}'")
