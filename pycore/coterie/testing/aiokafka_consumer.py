"""The consumer of aiokafka on virtual time."""

from __future__ import annotations

import asyncio
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

from coterie._core.structures.schedule import Future as Signal
from coterie.errors import ArgumentError, ConfigError
from coterie.testing import client
from coterie.testing.aiokafka_client import (
    AsyncClient,
    OffsetAndTimestamp,
    ended,
    offsets_of,
    raised,
)
from coterie.testing.aiokafka_errors import ConsumerStoppedError, IllegalOperation
from coterie.testing.client import errors
from coterie.testing.client.fetcher import Fetcher
from coterie.testing.client.settings import STRATEGY
from coterie.testing.kafka_python_client import javas, refusal
from coterie.testing.kafka_python_errors import named
from coterie.testing.kafka_python_types import size_of
from coterie.testing.program_client import FOR_EVER_MS, ConsumerClient, bytes_of
from coterie.testing.programs import current
from coterie.testing.topics import ConsumerRecord as Record
from coterie.testing.topics import TopicPartition

LONG_S = FOR_EVER_MS / 1000
STEP_S = 0.01  # between two looks for records of some partitions while others have some
LOG = logging.getLogger("aiokafka.consumer")
_DEFAULTS: dict[str, Any] = {
    "client_id": "aiokafka-0.14.0",
    "group_id": None,
    "group_instance_id": None,
    "key_deserializer": None,
    "value_deserializer": None,
    "request_timeout_ms": 40_000,
    "retry_backoff_ms": 100,
    "auto_offset_reset": "latest",
    "enable_auto_commit": True,
    "auto_commit_interval_ms": 5000,
    "metadata_max_age_ms": 300_000,
    "partition_assignment_strategy": ("roundrobin",),
    "rebalance_timeout_ms": None,
    "session_timeout_ms": 10_000,
    "heartbeat_interval_ms": 3000,
    "max_poll_records": None,
    "isolation_level": "read_uncommitted",
    "client_rack": None,
}
WITHOUT_EFFECT = (  # noqa: SIM905 - of both clients
    "loop bootstrap_servers api_version ssl_context security_protocol connections_max_idle_ms "
    "sasl_mechanism sasl_plain_password sasl_plain_username sasl_kerberos_service_name "
    "sasl_kerberos_domain_name sasl_oauth_token_provider"
).split()
_WITHOUT_EFFECT = (  # noqa: SIM905
    "fetch_max_wait_ms fetch_max_bytes fetch_min_bytes max_partition_fetch_bytes check_crcs "
    "max_poll_interval_ms consumer_timeout_ms exclude_internal_topics"
).split()
_SHARED = (
    "group_id group_instance_id client_id client_rack isolation_level session_timeout_ms "
    "heartbeat_interval_ms retry_backoff_ms auto_commit_interval_ms request_timeout_ms "
    "metadata_max_age_ms"
)


@dataclass
class ConsumerRecord:
    """A record as a consumer returns it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    checksum: int | None
    serialized_key_size: int
    serialized_value_size: int
    headers: tuple[tuple[str, bytes | None], ...]


class ConsumerRebalanceListener(ABC):
    """Base of listeners, whose methods may be coroutines."""

    @abstractmethod
    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> Any:
        """Give up partitions; a first join gives up none."""

    @abstractmethod
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> Any:
        """Begin with partitions."""


class _Watch(Fetcher):
    """It returns no records to the thread of the group, but wakes those that wait for them."""

    waiting: set[asyncio.Future[None]]
    notify: Callable[[], None]

    @property
    def has_news(self) -> bool:
        """Whether there is something beyond a position."""
        network, committed = self._network, self._committed
        topics, sees_ms = network.cluster._topics, network.sees_ms
        return bool(self._subscriptions.beyond_positions(topics, sees_ms, committed))

    def collect(self) -> list[Record] | None:
        if self.waiting and self.has_news:
            self.notify()
        return None

    def next_records_ms(self) -> int | None:
        return super().next_records_ms() if self.waiting else self.next_reset_ms()


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the simulated consumer."""
    chosen = javas(config, _SHARED)
    reset = config["auto_offset_reset"]
    chosen["auto.offset.reset"] = reset if reset in ("earliest", "latest") else "none"
    chosen["enable.auto.commit"] = bool(config["enable_auto_commit"] and config["group_id"])
    chosen["retry.backoff.max.ms"] = config["retry_backoff_ms"]
    chosen["default.api.timeout.ms"] = config["request_timeout_ms"]
    rebalance_ms = config["rebalance_timeout_ms"]
    chosen["max.poll.interval.ms"] = rebalance_ms or config["session_timeout_ms"]
    assignors = config["partition_assignment_strategy"]
    chosen[STRATEGY] = [getattr(each, "name", each) for each in assignors]
    return chosen


class AIOKafkaConsumer(AsyncClient, ConsumerClient):
    """A consumer of aiokafka: a thread of its own takes part in the group, and commits."""

    refuses = partial(refusal, assignors=("range", "roundrobin", "sticky"))

    def __init__(self, *topics: str, **configs: Any) -> None:
        bad = set(configs).difference(_DEFAULTS, _WITHOUT_EFFECT, WITHOUT_EFFECT)
        if bad:
            raise TypeError(f"AIOKafkaConsumer() got unexpected keyword arguments {sorted(bad)}")
        self._config = {**_DEFAULTS, **configs}
        super().__init__(str(self._config["client_id"]))
        own = self._program.settings
        self._config |= {name.replace(".", "_"): own[name] for name in own if name != STRATEGY}
        self._group_id = self._config["group_id"]
        try:
            chosen = _settings(self._config) | own
            self._inner = client.Consumer(self._program.cluster, chosen, process=self._process)
        except (ConfigError, ArgumentError) as error:
            raise ValueError(str(error)) from None
        inner = self._inner
        inner._network.joins_in_background = inner._network.revokes_nothing = True
        self._places = inner._subscriptions
        inner._fetcher = self._watch = _Watch(
            inner._network, inner._metadata, inner._subscriptions, inner._commits
        )
        self._watch.waiting, self._watch.notify = set(), self._notify
        self._topics: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self._failure: Exception | None = None  # of the group's thread, for the next call
        self._tasks: set[asyncio.Task[None]] = set()
        self._started = False
        self._program.made(self)
        if topics:
            self.subscribe(topics)

    def _raised(self, error: errors.KafkaError) -> Exception:
        return raised(error)

    def _closed_failure(self) -> Exception:
        return ConsumerStoppedError()

    @property
    def waits(self) -> bool:
        """Whether the application waits for a record."""
        return bool(self._watch.waiting)

    # The thread of the group

    async def start(self) -> None:
        """Connect, and wait for the first assignment."""
        self._started = True
        self._program.run_in_thread(self._run)
        while self._places.auto_assigned and self._group_id and not self._assigned:
            await self._news(LONG_S, self._config["retry_backoff_ms"] / 1000)

    @property
    def _assigned(self) -> bool:
        group = getattr(self._inner._member, "group", None)
        return group is not None and group.stable and group.joining is None

    def _run(self) -> None:
        while not self._closed:
            self._step()

    def _step(self) -> None:
        try:
            with self._call():
                self._take_part()
        except ConsumerStoppedError:
            pass
        except Exception as error:
            self._failure = error
            self._notify()
            current()[1].sleep(self._config["retry_backoff_ms"])

    def _take_part(self) -> None:
        if self._topics and self._group_id is None:
            self._assign_all()
        if self._places.kind is None:
            self._inner._network.wait(self._process.now_ms + FOR_EVER_MS)
            if self._queued:
                self._give_way()
            return
        self._read(FOR_EVER_MS)

    def _notify(self) -> None:
        """Let all who wait look again."""
        waiting = list(self._watch.waiting)
        self._watch.waiting.clear()
        for future in waiting:
            self._soon(ended, future, None, None)

    async def _news(self, timeout_s: float, step_s: float) -> None:
        """Wait for records, for a change of the assignment, or for a failure.

        Where there are records that could not be taken, look again after a step.
        """
        if self._watch.has_news:  # of other partitions, of one that is gone, or too early
            await asyncio.sleep(min(timeout_s, step_s))
        else:
            future = self._loop.create_future()
            self._watch.waiting.add(future)
            self._inner._network.wake()
            try:
                await asyncio.wait([future], timeout=timeout_s)
            finally:
                self._watch.waiting.discard(future)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _adapted(self, listener: Any) -> Any:
        """Return a listener whose methods run in the loop, while its thread waits."""

        def called(name: str, partitions: list[TopicPartition]) -> None:
            if listener is not None:
                done = Signal()
                self._soon(self._begin_task, self._listen(listener, name, partitions, done))
                with self._released():
                    current()[1].wait(done)
            if name == "on_partitions_assigned":
                self._process.call_later(0, self._notify)

        names = ("on_partitions_assigned", "on_partitions_revoked")
        return SimpleNamespace(**{name: partial(called, name) for name in names})

    @staticmethod
    async def _listen(listener: Any, name: str, partitions: Any, done: Signal) -> None:
        try:
            found = getattr(listener, name)(set(partitions))
            if asyncio.iscoroutine(found):
                await found
        except Exception:
            LOG.exception("User provided subscription listener %s failed %s", listener, name)
        finally:
            done.set()

    def _begin_task(self, coroutine: Any) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Commit if it commits by itself, and leave the group; no listener is called."""
        if not self._closed and self._process.alive:
            self._places.listener = None
            await self._do(self._close)

    def _close(self) -> None:
        self._closed = True
        try:
            self._inner.close()
        finally:
            if self._program.consumer is self:
                self._program.made(None)
            self._notify()

    # The group

    def subscribe(self, topics: Any = (), pattern: str | None = None, listener: Any = None) -> None:
        """Subscribe to topics, or to those that begin with a match of an expression."""
        if bool(topics) == bool(pattern):
            raise TypeError("You should provide either `topics` or `pattern`")
        if topics and not isinstance(topics, tuple | set | list):
            raise TypeError("Topics should be list of strings")
        if listener is not None and not isinstance(listener, ConsumerRebalanceListener):
            raise TypeError("listener should be an instance of ConsumerRebalanceListener")
        with self._quickly():
            self._topics = set(topics or ())
            self._pattern = re.compile(f"(?:{pattern}).*") if pattern else None
            if self._group_id is not None:
                chosen: Any = self._pattern or list(topics)
                self._inner.subscribe(chosen, self._adapted(listener))
            else:
                self._places.set_kind("topics")

    @contextmanager
    def _quickly(self) -> Iterator[None]:
        """Do what waits for nothing; the thread of the group goes on with it."""
        if self._closed:
            raise ConsumerStoppedError
        try:
            yield
        except errors.KafkaError as error:
            raise raised(error) from None
        self._wake()

    def _assign_all(self) -> None:
        """Without a group, a subscription means all partitions of its topics."""
        known = self._program.cluster._topics
        names = [name for name in known if self._pattern and self._pattern.fullmatch(name)]
        chosen = [
            TopicPartition(name, number)
            for name in names or sorted(self._topics & known.keys())
            for number in range(len(known[name].logs))
        ]
        if self._places.assigned.keys() != set(chosen):
            self._places.assign(chosen)

    def unsubscribe(self) -> None:
        """Leave the group without a call of the listener."""
        self._places.listener, self._topics, self._pattern = None, set(), None
        if not self._closed:  # after stop it does nothing
            with self._quickly():
                self._inner.unsubscribe()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, outside of the group."""
        with self._quickly():
            self._inner.assign(list(partitions))

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions."""
        return set(self._places.assigned)

    def subscription(self) -> set[str]:
        """Return the subscribed topics."""
        return set(self._places.topics) if self._group_id else set(self._topics)

    # Records

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord:
        """Return the next record."""
        found = await self._records(partitions, 1, None)
        return self._shown(found[0])

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return records by partition, as soon as there are any."""
        if max_records is not None and (not isinstance(max_records, int) or max_records < 1):
            raise ValueError("`max_records` must be a positive Integer")
        most = max_records or self._config["max_poll_records"] or 2**31 - 1
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        for record in await self._records(partitions, most, timeout_ms):
            place = TopicPartition(record.topic, record.partition)
            found.setdefault(place, []).append(self._shown(record))
        return found

    async def _records(
        self, partitions: tuple[TopicPartition, ...], most: int, timeout_ms: float | None
    ) -> list[Record]:
        end_ms = self._until(timeout_ms)
        step_s = STEP_S if partitions else self._config["retry_backoff_ms"] / 1000
        while True:
            if self._closed:
                raise ConsumerStoppedError
            records = self._collect(partitions, most)
            left_ms = self._left(end_ms)
            if records or not left_ms:
                return records
            await self._news(left_ms / 1000, step_s)

    def _collect(self, partitions: tuple[TopicPartition, ...], most: int) -> list[Record]:
        """Take what has reached the client; positions move with it."""
        if not self._places.all_valid and not self._places.assigned:
            return []
        others = [
            state
            for tp, state in self._places.assigned.items()
            if partitions and tp not in partitions and not state.paused
        ]
        for state in others:
            state.paused = True
        self._watch._most = most
        try:
            records = Fetcher.collect(self._watch) or []
        except errors.KafkaError as error:
            raise raised(error) from None
        finally:
            for state in others:
                state.paused = False
        if self._program.starts is not None:
            self._probe(self._program.starts, records)
            return []
        return records

    def _shown(self, record: Record) -> ConsumerRecord:
        topic, number, offset, at_ms, key, value, headers = record
        self._last = topic, number, offset
        raw = bytes_of(key), bytes_of(value)
        names = "key_deserializer", "value_deserializer"
        key, value = (
            self._config[name](of) if self._config[name] else of
            for name, of in zip(names, raw, strict=True)
        )
        sizes = size_of(raw[0]), size_of(raw[1])
        return ConsumerRecord(topic, number, offset, at_ms, 0, key, value, None, *sizes, headers)

    def __aiter__(self) -> AIOKafkaConsumer:
        if self._closed:
            raise ConsumerStoppedError
        return self

    async def __anext__(self) -> ConsumerRecord:
        try:
            return await self.getone()
        except ConsumerStoppedError:
            raise StopAsyncIteration from None

    # Positions

    def _require(self, *partitions: Any) -> list[TopicPartition]:
        if not all(isinstance(tp, TopicPartition) for tp in partitions):
            raise TypeError("partitions must be TopicPartition instances")
        chosen = list(partitions or self._places.assigned)
        assert chosen, "No partitions are currently assigned"
        bad = [tp for tp in chosen if tp not in self._places.assigned]
        if bad:
            raise named("IllegalStateError", f"Partitions {bad} are not assigned")
        return chosen

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset that is read next."""
        self._require(partition)
        return await self._do(self._inner.position, partition)  # type: ignore[no-any-return]

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the end of a partition, as far as it is known."""
        self._require(partition)
        at, lag = self._places.assigned[partition].position, self._inner.current_lag(partition)
        return None if at is None or lag is None else at + lag

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from an offset."""
        if not isinstance(offset, int) or offset < 0:
            raise ValueError("Offset must be a positive integer")
        with self._quickly():
            self._require(partition)
            self._inner.seek(partition, offset)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> bool:
        """Go on from the begin of partitions, by default all."""
        return await self._seek_to(self._inner.seek_to_beginning, partitions)

    async def seek_to_end(self, *partitions: TopicPartition) -> bool:
        """Go on from the end of partitions, by default all."""
        return await self._seek_to(self._inner.seek_to_end, partitions)

    async def _seek_to(self, call: Any, partitions: tuple[TopicPartition, ...]) -> bool:
        chosen = self._require(*partitions)
        await self._do(call, chosen)
        for tp in chosen:
            await self._do(self._inner.position, tp)
        return True

    async def seek_to_committed(
        self, *partitions: TopicPartition
    ) -> dict[TopicPartition, int | None]:
        """Go on from the committed offsets of partitions, by default all."""
        found = {tp: await self.committed(tp) for tp in self._require(*partitions)}
        for tp, at in found.items():
            if at:
                self.seek(tp, at)
        return found

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions."""
        self._set_paused(partitions, paused=True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        self._set_paused(partitions, paused=False)

    def _set_paused(self, partitions: tuple[TopicPartition, ...], *, paused: bool) -> None:
        with self._quickly():
            for tp in self._require(*partitions) if partitions else ():
                self._places.assigned[tp].paused = paused
        self._notify()

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return set(self._places.where(lambda state: state.paused))

    async def beginning_offsets(self, partitions: Any) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        found: dict[TopicPartition, int] = await self._do(self._inner.beginning_offsets, partitions)
        return found

    async def end_offsets(self, partitions: Any) -> dict[TopicPartition, int]:
        """Return the end of each partition."""
        found: dict[TopicPartition, int] = await self._do(self._inner.end_offsets, partitions)
        return found

    async def offsets_for_times(
        self, timestamps: dict[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first offset of each partition at or after a time."""
        for tp, at in timestamps.items():
            if at < 0:
                raise ValueError(f"The target time for partition {tp} is {at}, below 0")
        found = await self._do(self._inner.offsets_for_times, timestamps)
        return {tp: at and OffsetAndTimestamp(*at) for tp, at in found.items()}

    async def topics(self) -> set[str]:
        """Return all topics."""
        return set(self._program.cluster._topics)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the numbers of a topic's partitions."""
        return {tp.partition for tp in self._inner.partitions_for(topic)} or None

    # Commits

    def _group(self) -> None:
        if self._group_id is None:
            raise IllegalOperation("Requires group_id")

    async def commit(self, offsets: Any = None) -> None:
        """Commit offsets, by default the positions, and wait until it is done."""
        self._group()
        if self._places.kind is None:
            raise named("IllegalStateError", "Not subscribed to any topics")
        if not self._places.assigned:
            raise named("IllegalStateError", "No partitions assigned")
        chosen = None if offsets is None else offsets_of(offsets)
        if chosen is not None:
            self._require(*chosen)
        await self._do(self._inner.commit, chosen)

    async def committed(self, partition: TopicPartition) -> int | None:
        """Return the committed offset of a partition."""
        self._group()
        (at,) = (await self._do(self._inner.committed, [partition])).values()
        return None if at is None else at.offset
