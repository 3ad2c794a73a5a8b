"""confluent-kafka's consumer (librdkafka), with the methods of Kafka's Java client."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coterie.base.extras import missing_module
from coterie.errors import ConfigError
from coterie.testing.client.errors import (
    CommitFailedError,
    KafkaError,
    KafkaTimeoutError,
    error_of,
)
from coterie.testing.client.settings import STRATEGY
from coterie.testing.confluent_consumer import ASSIGNORS
from coterie.testing.topics import ConsumerRecord, TopicPartition
from coterie.values import Error, OffsetAndMetadata

LOOK_UP_S = 1.0
HEARTBEAT_MS = 20
QUICK = {  # by the wall clock: it learns at once of what happens in virtual time
    "statistics.interval.ms": HEARTBEAT_MS,  # its thread looks at what is due as often
    "topic.metadata.refresh.interval.ms": 100,
    "fetch.wait.max.ms": 100,
    "fetch.error.backoff.ms": 10,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 20,
    "coordinator.query.interval.ms": 100,
    "log_level": 0,
}
UNKNOWN = (  # to librdkafka, or times that would run by the wall clock
    *("max.poll.records", "default.api.timeout.ms", "request.timeout.ms", "retry.backoff.max.ms"),
)
MEMBERSHIP = (Error.ILLEGAL_GENERATION, Error.UNKNOWN_MEMBER_ID, Error.STALE_MEMBER_EPOCH)


class ConfluentConsumer:
    """A client of :meth:`coterie.histories.History.play`.

    Parameters
    ----------
    settings : mapping
        Settings by Kafka's names; heartbeats and look-ups are quicker than any that are set.

    Raises
    ------
    CoterieError
        confluent-kafka is missing.
    ConfigError
        librdkafka does not know a setting or its value.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        try:
            import confluent_kafka
        except ModuleNotFoundError as error:
            raise missing_module(error) from error
        self._library = confluent_kafka
        self._most = settings.get("max.poll.records", 500)
        self._from_start = settings.get("auto.offset.reset") == "earliest"
        chosen = {name: value for name, value in settings.items() if name not in UNKNOWN}
        self._cooperative = settings.get("group.protocol") == "consumer"
        if not self._cooperative:
            strategy = ",".join(_names(settings.get(STRATEGY, "range")))
            chosen |= {STRATEGY: strategy, "heartbeat.interval.ms": HEARTBEAT_MS}
            self._cooperative = strategy == "cooperative-sticky"
        self._waiting: deque[Callable[..., None]] = deque()  # callbacks of commits
        self._starts: dict[TopicPartition, int] | None = None  # seeks of a listener
        self._pauses: list[TopicPartition] = []
        try:
            self._real = confluent_kafka.Consumer({**chosen, **QUICK, "on_commit": self._on_commit})
        except confluent_kafka.KafkaException as error:
            raise ConfigError(f"librdkafka: {error.args[0].str()}") from None

    @staticmethod
    def refuses(settings: Mapping[str, Any]) -> str | None:
        """Return why librdkafka does not take settings of Kafka's client; None: it does."""
        names = _names(settings.get(STRATEGY, "range"))
        for name in names:
            if name not in ASSIGNORS:
                return f"librdkafka has no assignor {name!r}"
        if len({name == "cooperative-sticky" for name in names}) > 1:
            return "librdkafka does not mix eager and cooperative assignors"
        poll_ms, session_ms = (
            int(settings.get(name, default))
            for name, default in (("max.poll.interval.ms", 300_000), ("session.timeout.ms", 45_000))
        )
        if poll_ms < session_ms:
            return f"librdkafka wants max.poll.interval.ms of {session_ms} or more, not {poll_ms}"
        return None

    # The group

    def subscribe(self, topics: Iterable[str], listener: Any) -> None:
        def assigned(_: Any, partitions: list[Any]) -> None:
            self._assigned(listener, partitions)

        self._real.subscribe(
            list(topics),
            on_assign=assigned,
            on_revoke=lambda _, tps: listener.on_partitions_revoked(_places(tps)),
            on_lost=lambda _, tps: listener.on_partitions_lost(_places(tps)),
        )

    def _assigned(self, listener: Any, partitions: list[Any]) -> None:
        """Call the listener; what it seeks to and pauses counts once the client has them."""
        self._starts, self._pauses = {}, []
        try:
            listener.on_partitions_assigned(_places(partitions))
        finally:
            starts, self._starts = self._starts, None
            real = [self._place(tp, starts.get(tp)) for tp in _places(partitions)]
            if self._cooperative:
                self._real.incremental_assign(real)
            else:
                self._real.assign(real)
            if self._pauses:
                self._real.pause([self._place(tp) for tp in self._pauses])

    def close(self) -> None:
        """Leave the group."""
        self._real.close()

    # Records

    def poll(self, wait_ms: int) -> list[ConsumerRecord]:
        """Return records; wait for the first one so long by the wall clock."""
        found: list[ConsumerRecord] = []
        wait_s = wait_ms / 1000
        while len(found) < self._most:
            message = self._called(self._real.poll, wait_s)
            if message is None:
                break
            error = message.error()
            if error is None:
                found.append(_record(message))
                wait_s = 0
            elif error.fatal():
                raise self._translated(error)
        return found

    def position(self, partition: TopicPartition) -> int | None:
        """Return the offset that is read next; None: it is not known yet."""
        (at,) = self._real.position([self._place(partition)])
        if at.offset >= 0:
            return int(at.offset)
        committed = self.committed([partition])[partition]
        if committed is not None:
            return committed.offset
        place = self._place(partition)
        ends = self._called(self._real.get_watermark_offsets, place, LOOK_UP_S)
        return None if ends is None else int(ends[0 if self._from_start else 1])

    def committed(
        self, partitions: Iterable[tuple[str, int]]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offset of each partition; None: there is none."""
        places = [self._place(tp) for tp in partitions]
        found = self._called(self._real.committed, places, LOOK_UP_S)
        return {
            TopicPartition(at.topic, at.partition): (
                OffsetAndMetadata(at.offset) if at.offset >= 0 else None
            )
            for at in found
        }

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from an offset."""
        if self._starts is not None:
            self._starts[partition] = offset
        else:
            self._called(self._real.seek, self._place(partition, offset))

    def pause(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Return no records of these partitions."""
        if self._starts is not None:
            self._pauses += [TopicPartition(*tp) for tp in partitions]
        else:
            self._called(self._real.pause, [self._place(tp) for tp in partitions])

    def resume(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Return records of these partitions again."""
        self._called(self._real.resume, [self._place(tp) for tp in partitions])

    # Commits

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None) -> None:
        """Commit offsets, by default all positions, and wait until it is done."""
        done = self._commit(offsets, asynchronous=False)
        for at in done or ():
            if at.error is not None:
                raise self._translated(at.error)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None,
        callback: Callable[[KafkaError | None], None],
    ) -> None:
        """Commit offsets without waiting; the callback gets None or the error, in a later poll."""
        if self._commit(offsets, asynchronous=True) is None:
            self._waiting.append(callback)
        else:  # there was nothing to commit
            callback(None)

    def _commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None, *, asynchronous: bool
    ) -> Any:
        chosen: dict[str, Any] = {"asynchronous": asynchronous}
        if offsets is not None:
            chosen["offsets"] = [self._place(tp, at.offset) for tp, at in offsets.items()]
            if not chosen["offsets"]:
                return []
        return self._called(self._real.commit, **chosen)

    def _on_commit(self, error: Any, partitions: list[Any]) -> None:
        failed = error or next((at.error for at in partitions if at.error is not None), None)
        if self._waiting:  # else it has committed by itself
            self._waiting.popleft()(None if failed is None else self._translated(failed))

    # Inside

    def _place(self, partition: tuple[str, int], offset: int | None = None) -> Any:
        topic, number = partition
        if offset is None:
            return self._library.TopicPartition(topic, number)
        return self._library.TopicPartition(topic, number, offset)

    def _called(self, method: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Call a method of the client; raise Kafka's exceptions."""
        try:
            return method(*args, **named)
        except self._library.KafkaException as failure:
            error = failure.args[0]
            if error.code() == self._library.KafkaError._NO_OFFSET:
                return []  # there is nothing to commit
            raise self._translated(error) from None

    def _translated(self, error: Any) -> KafkaError:
        code = error.code()
        if code == self._library.KafkaError._TIMED_OUT:
            return KafkaTimeoutError(str(error))
        if code in MEMBERSHIP or code == self._library.KafkaError._ASSIGNMENT_LOST:
            return CommitFailedError()
        if code < 0:
            return KafkaError(error.str())
        return error_of(Error(code), "the request")


def _names(strategy: Any) -> list[str]:
    return strategy.split(",") if isinstance(strategy, str) else list(strategy)


def _places(partitions: Iterable[Any]) -> list[TopicPartition]:
    return sorted(TopicPartition(at.topic, at.partition) for at in partitions)


def _record(message: Any) -> ConsumerRecord:
    data = message.key(), message.value()
    key, value = (None if each is None else each.decode() for each in data)
    place = message.topic(), message.partition(), message.offset()
    return ConsumerRecord(
        *place, message.timestamp()[1], key, value, tuple(message.headers() or ())
    )
