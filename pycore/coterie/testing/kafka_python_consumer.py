"""The consumer of kafka-python on virtual time."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from types import SimpleNamespace
from typing import Any

from coterie.errors import ArgumentError, ConfigError
from coterie.testing import client
from coterie.testing.client import errors
from coterie.testing.client.settings import STRATEGY
from coterie.testing.kafka_python_client import PythonClient, javas, offsets_of, refusal, unknown
from coterie.testing.kafka_python_errors import named, translated
from coterie.testing.kafka_python_types import (
    ConsumerGroupMetadata,
    ConsumerRebalanceListener,
    ConsumerRecord,
    Future,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    headers_size,
    size_of,
)
from coterie.testing.program_client import ConsumerClient, bytes_of
from coterie.testing.topics import ConsumerRecord as Record
from coterie.testing.topics import TopicPartition

_DEFAULTS: dict[str, Any] = {
    "client_id": "kafka-python-3.0.12",
    "group_id": None,
    "group_instance_id": None,
    "client_rack": "",
    "key_deserializer": None,
    "value_deserializer": None,
    "request_timeout_ms": 305_000,
    "retry_backoff_ms": 100,
    "auto_offset_reset": "latest",
    "enable_auto_commit": True,
    "auto_commit_interval_ms": 5000,
    "default_offset_commit_callback": lambda offsets, response: True,
    "isolation_level": "read_uncommitted",
    "metadata_max_age_ms": 300_000,
    "partition_assignment_strategy": ("range", "roundrobin"),
    "max_poll_records": 500,
    "max_poll_interval_ms": 300_000,
    "session_timeout_ms": 45_000,
    "heartbeat_interval_ms": 3000,
    "consumer_timeout_ms": float("inf"),
}
_WITHOUT_EFFECT = (  # noqa: SIM905
    "enable_incremental_fetch_sessions fetch_min_bytes fetch_max_wait_ms fetch_max_bytes "
    "max_partition_fetch_bytes check_crcs metric_group_prefix exclude_internal_topics "
    "legacy_iterator"
).split()
_SHARED = (  # with the simulated consumer
    "group_id group_instance_id client_id client_rack isolation_level max_poll_interval_ms "
    "metadata_max_age_ms session_timeout_ms heartbeat_interval_ms retry_backoff_ms "
    "auto_commit_interval_ms request_timeout_ms"
)
_RESETS = {"smallest": "earliest", "largest": "latest", "earliest": "earliest", "latest": "latest"}


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the simulated consumer."""
    chosen = javas(config, _SHARED)
    chosen["auto.offset.reset"] = _RESETS.get(config["auto_offset_reset"], "none")
    chosen["enable.auto.commit"] = bool(config["enable_auto_commit"] and config["group_id"])
    chosen["retry.backoff.max.ms"] = config["retry_backoff_ms"]
    chosen["default.api.timeout.ms"] = config["request_timeout_ms"]
    assignors = config["partition_assignment_strategy"]
    chosen[STRATEGY] = [getattr(each, "name", each) for each in assignors]
    return chosen


class KafkaConsumer(PythonClient, ConsumerClient):
    """A consumer of kafka-python."""

    refuses = partial(refusal, assignors=("range", "roundrobin", "sticky", "cooperative-sticky"))

    def __init__(self, *topics: str, **configs: Any) -> None:
        bad = unknown(configs, _DEFAULTS, _WITHOUT_EFFECT)
        if bad:
            raise named("KafkaConfigurationError", f"Unrecognized configs: {bad}")
        self.config = {**_DEFAULTS, **configs}
        super().__init__(str(self.config["client_id"]))
        own = self._program.settings
        self.config |= {name.replace(".", "_"): own[name] for name in own if name != STRATEGY}
        if self.config["group_instance_id"] is not None and self.config["group_id"] is None:
            raise named("KafkaConfigurationError", "group_instance_id requires group_id")
        try:
            chosen = _settings(self.config) | own
            self._inner = client.Consumer(self._program.cluster, chosen, process=self._process)
        except (ConfigError, ArgumentError) as error:
            raise named("KafkaConfigurationError", str(error)) from None
        network = self._inner._network
        network.joins_in_background = network.revokes_nothing = True
        self._places = self._inner._subscriptions
        self._topics: set[str] | None = None
        self._pattern: re.Pattern[str] | None = None
        self._batch: deque[Record] = deque()  # of the iterator
        self._in_listener = False
        self._program.made(self)
        if topics:
            self.subscribe(topics)

    # The group

    def subscribe(
        self, topics: Sequence[str] = (), pattern: str | None = None, listener: Any = None
    ) -> None:
        """Subscribe to topics, or to those that begin with a match of an expression."""
        if not topics and not pattern:
            raise ValueError("Must provide topics or pattern")
        if isinstance(topics, str) or not isinstance(topics, Sequence):
            raise TypeError("Topics must be a list (or non-str sequence)")
        if listener and not isinstance(listener, ConsumerRebalanceListener):
            raise TypeError("listener must be a ConsumerRebalanceListener")
        with self._call():
            if topics and pattern:
                raise named("IllegalStateError", "either topics or a pattern")
            self._topics = set(topics)
            self._pattern = re.compile(f"(?:{pattern}).*") if pattern else None
            if self.config["group_id"] is not None:
                self._inner.subscribe(self._pattern or list(topics), self._adapted(listener))
            else:
                self._places.set_kind("topics")

    def _adapted(self, listener: Any) -> Any:
        """Return a listener whose methods get sets."""

        def called(name: str, partitions: list[TopicPartition]) -> None:
            self._in_listener = True
            try:
                getattr(listener, name)(set(partitions))
            finally:
                self._in_listener = False

        names = ("on_partitions_assigned", "on_partitions_revoked", "on_partitions_lost")
        return listener and SimpleNamespace(**{name: partial(called, name) for name in names})

    def _assign_all(self) -> None:
        """Without a group, a subscription means all partitions of its topics."""
        known = self._program.cluster._topics
        if self._pattern is not None:
            self._topics = {name for name in known if self._pattern.fullmatch(name)}
        chosen = [
            TopicPartition(name, number)
            for name in sorted((self._topics or set()) & known.keys())
            for number in range(len(known[name].logs))
        ]
        if self._places.assigned.keys() != set(chosen):
            self._places.assign(chosen)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, outside of the group."""
        if not partitions:
            self.unsubscribe()
            return
        with self._call():
            self._commit_now()
            self._inner.assign(list(partitions))

    def unsubscribe(self) -> None:
        """Leave the group without a call of the listener."""
        with self._call():
            self._commit_now()
            self._places.listener = self._topics = self._pattern = None
            self._batch.clear()
            self._inner.unsubscribe()

    def _commit_now(self) -> None:
        commits = self._inner._commits
        if (
            commits is not None
            and commits.automatic
            and self._inner._network.coordinator is not None
        ):
            commits.automatically()

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions."""
        return set(self._places.assigned)

    def subscription(self) -> set[str] | None:
        """Return the subscribed topics; None: it has not subscribed."""
        if self._topics is None:
            return None
        return set(self._places.topics) if self._pattern is not None else set(self._topics)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return who it is, for a transactional producer."""
        if self.config["group_id"] is None:
            return ConsumerGroupMetadata()
        with self._call():
            return ConsumerGroupMetadata(*self._inner.group_metadata(), self._state())

    def _state(self) -> str:
        group = getattr(self._inner._member, "group", None)
        if group is None or group.stable:
            return "<stable>"
        return "<rebalancing>" if group.in_rebalance else "<unjoined>"

    # Records

    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return records by partition, as soon as there are any."""
        if timeout_ms < 0:
            raise ValueError("Timeout must not be negative")
        most = self.config["max_poll_records"] if max_records is None else max_records
        if not isinstance(most, int):
            raise TypeError("max_records must be an integer")
        if most <= 0:
            raise ValueError("max_records must be positive")
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        with self._call():
            for record in self._records(self._until(timeout_ms), most):
                place = TopicPartition(record.topic, record.partition)
                found.setdefault(place, []).append(self._shown(record))
        return found

    def _records(self, deadline_ms: int, most: int) -> list[Record]:
        self._require_no_listener()
        self._inner._fetcher._most = most
        while True:
            left_ms = self._left(deadline_ms)
            if self._places.kind is None:
                self._program.sleep(left_ms)
                return []
            if self._topics is not None and self.config["group_id"] is None:
                self._assign_all()
            records = self._read(left_ms)
            self._program.handle_signal()
            if self._program.starts is not None:
                self._probe(self._program.starts, records)
                records = []
            if records or not self._left(deadline_ms):
                return records

    def _shown(self, record: Record) -> ConsumerRecord:
        topic, number, offset, at_ms, key, value, headers = record
        self._last = topic, number, offset
        raw = bytes_of(key), bytes_of(value)
        names = "key_deserializer", "value_deserializer"
        more = list(headers)
        key, value = (
            _read(self.config[name], topic, more, of) for name, of in zip(names, raw, strict=True)
        )
        sizes = size_of(raw[0]), size_of(raw[1]), headers_size(more)
        return ConsumerRecord(topic, number, 0, offset, at_ms, 0, key, value, more, None, *sizes)

    def __iter__(self) -> KafkaConsumer:
        return self

    def __next__(self) -> ConsumerRecord:
        found = None if self._closed else self._next()
        if found is None:
            raise StopIteration
        return found

    def _next(self) -> ConsumerRecord | None:
        """Return the next record of a batch; the position moves record by record."""
        with self._call():
            deadline_ms = self._until(self.config["consumer_timeout_ms"])
            while True:
                while self._batch:
                    record = self._batch.popleft()
                    state = self._places.assigned.get(TopicPartition(*record[:2]))
                    if state is not None and not state.paused and state.position == record.offset:
                        state.position += 1
                        return self._shown(record)
                if not self._left(deadline_ms):
                    return None
                records = self._records(deadline_ms, self.config["max_poll_records"])
                for record in reversed(records):
                    state = self._places.assigned[TopicPartition(*record[:2])]
                    state.position = record.offset
                self._batch.extend(records)

    # Positions

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int | None:
        """Return the offset that is read next; None: it is not known in time."""
        with self._call():
            self._assigned(partition)
            try:
                return self._inner.position(partition, self._wait_ms(timeout_ms))
            except errors.KafkaTimeoutError:
                return None

    def _require_no_listener(self) -> None:
        if self._in_listener and _runs_listeners_in_its_loop():
            raise RuntimeError("a listener of kafka-python 3 must not make a call that waits")

    def _wait_ms(self, timeout_ms: float | None) -> int:
        self._require_no_listener()
        chosen = self.config["request_timeout_ms"] if timeout_ms is None else timeout_ms
        return self._left(self._until(chosen))

    def _assigned(self, partition: Any) -> Any:
        _require(partition)
        if partition not in self._places.assigned:
            raise named("IllegalStateError", "Partition is not assigned")
        return self._places.assigned[partition]

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the end of a partition, as far as it is known."""
        with self._call():
            state, lag = self._assigned(partition), self._inner.current_lag(partition)
            return None if lag is None else state.position + lag

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from an offset."""
        _require(partition)
        if not isinstance(offset, int) or offset < 0:
            raise ValueError("Offset must be int >= 0")
        with self._call():
            self._seekable(partition)
            self._inner.seek(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on from the begin of partitions, by default all."""
        with self._call():
            self._inner.seek_to_beginning(self._seekable(*partitions))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on from the end of partitions, by default all."""
        with self._call():
            self._inner.seek_to_end(self._seekable(*partitions))

    def _seekable(self, *partitions: TopicPartition) -> list[TopicPartition]:
        _require(*partitions)
        for partition in partitions:
            if partition not in self._places.assigned:
                raise ValueError(f"Unassigned partition: {partition}")
        if not partitions and not self._places.assigned:
            raise ValueError("No partitions are currently assigned")
        self._batch.clear()
        return list(partitions or self._places.assigned)

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions."""
        self._set_paused(partitions, paused=True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        self._set_paused(partitions, paused=False)

    def _set_paused(self, partitions: Iterable[TopicPartition], *, paused: bool) -> None:
        _require(*partitions)
        for partition in partitions:
            self._places.assigned[partition].paused = paused  # a KeyError, as in kafka-python

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return set(self._places.where(lambda state: state.paused))

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        with self._call():
            return self._inner.beginning_offsets(list(partitions), self._wait_ms(timeout_ms))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the end of each partition."""
        with self._call():
            return self._inner.end_offsets(list(partitions), self._wait_ms(timeout_ms))

    def offsets_for_times(
        self, timestamps: dict[Any, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first offset of each partition at or after a time."""
        for tp, at in timestamps.items():
            if at < 0:
                raise ValueError(f"The target time for partition {tp} is {at}, below 0")
        with self._call():
            found = self._inner.offsets_for_times(timestamps, self._wait_ms(timeout_ms))
        return {tp: at and OffsetAndTimestamp(*at, 0) for tp, at in found.items()}

    def topics(self) -> set[str]:
        """Return all topics."""
        return set(self._program.cluster._topics)

    def partitions_for_topic(self, topic: str) -> set[int]:
        """Return the numbers of a topic's partitions."""
        return {tp.partition for tp in self._inner.partitions_for(topic)}

    # Commits

    def commit(self, offsets: Any = None, timeout_ms: float | None = None) -> None:
        """Commit offsets, by default the positions, and wait until it is done."""
        with self._call():
            chosen = self._chosen(offsets)
            if chosen:
                self._inner.commit(chosen, self._wait_ms(timeout_ms))
            self._program.handle_signal()

    def commit_async(
        self, offsets: Any = None, callback: Callable[[Any, Any], Any] | None = None
    ) -> Future:
        """Commit offsets without waiting; a later call of the consumer calls the callback."""
        call, future = callback or self.config["default_offset_commit_callback"], Future()
        with self._call():
            chosen = self._chosen(offsets)
            given = offsets or {tp: _shown_offset(at) for tp, at in chosen.items()}

            def done(_: Any, error: errors.KafkaError | None) -> None:
                failed = None if error is None else translated(error)
                ended(failed)
                call(given, failed)

            def ended(failed: Exception | None) -> None:
                if not future.is_done:
                    future.success(None) if failed is None else future.failure(failed)

            commits, ready = self._inner._committing(chosen)
            sent = commits.asynchronous(ready, done)
            if sent is not None:
                sent.then(lambda one: ended(one.failure and translated(one.failure)))
        return future

    def _chosen(self, offsets: Any) -> dict[Any, Any]:
        if self.config["group_id"] is None:
            raise named("IllegalStateError", "Requires group_id")
        return dict(self._places.all_consumed()) if offsets is None else offsets_of(offsets)

    def committed(
        self, partition: TopicPartition, metadata: bool = False, timeout_ms: float | None = None
    ) -> Any:
        """Return the committed offset of a partition, with its metadata if they are wished."""
        with self._call():
            self._chosen({})
            _require(partition)
            (at,) = self._inner.committed([partition], self._wait_ms(timeout_ms)).values()
        if at is None:
            return None
        return _shown_offset(at) if metadata else at.offset

    # The end

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Commit if it commits by itself, give up the partitions, and leave the group."""
        if self._closed:
            return
        with self._call():
            commits = self._inner._commits
            if commits is not None and not autocommit:
                commits.automatic = False
            self._closed = True
            try:
                self._inner.close(self._wait_ms(timeout_ms))
            finally:
                if self._program.consumer is self:
                    self._program.made(None)

    def __exit__(self, *failure: object) -> None:
        self.close(autocommit=failure[0] is None)


@cache
def _runs_listeners_in_its_loop() -> bool:
    """Whether it is version 3, as the installed one says; none: yes."""
    try:
        return int(version("kafka-python").partition(".")[0]) >= 3
    except PackageNotFoundError:
        return True


def _require(*partitions: Any) -> None:
    if not all(isinstance(each, TopicPartition) for each in partitions):
        raise TypeError("partitions must be TopicPartition namedtuples")


def _shown_offset(at: Any) -> OffsetAndMetadata:
    return OffsetAndMetadata(at.offset, at.metadata or "", at.leader_epoch)


def _read(deserializer: Any, topic: str, headers: list[Any], data: bytes | None) -> Any:
    """Return what a deserializer makes of a key or a value: a function, or an object."""
    if deserializer is None:
        return data
    method = getattr(deserializer, "deserialize", None)
    if method is None:
        return deserializer(data)
    try:
        return method(topic, headers, data)
    except TypeError:  # as of version 2
        return method(topic, data)
