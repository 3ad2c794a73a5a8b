"""The consumer of confluent-kafka on virtual time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

from coterie.errors import ArgumentError, ConfigError
from coterie.testing import client
from coterie.testing.client import errors
from coterie.testing.client.settings import CLASSIC_ONLY, STRATEGY
from coterie.testing.confluent_client import ConfluentClient, merged, offsets_of
from coterie.testing.confluent_types import (
    CODE,
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    TIMESTAMP_CREATE_TIME,
    KafkaError,
    Message,
    TopicPartition,
    failure,
    translated,
)
from coterie.testing.program_client import FOR_EVER_MS, ConsumerClient, bytes_of
from coterie.testing.topics import ConsumerRecord
from coterie.values import OffsetAndMetadata

ASSIGNORS = ("range", "roundrobin", "cooperative-sticky")
EOF_STEP_MS = 10  # between two looks for the end of a partition
_RESETS = {
    **dict.fromkeys(("smallest", "earliest", "beginning"), "earliest"),
    **dict.fromkeys(("largest", "latest", "end"), "latest"),
    "error": "none",
}
_OWN = {  # settings of this class alone, and their defaults
    "enable.auto.commit": True,
    "auto.commit.interval.ms": 5000,
    "enable.auto.offset.store": True,
    "enable.partition.eof": False,
    "allow.auto.create.topics": False,
}
_DEFAULTS = {
    "client.id": "rdkafka",
    "auto.offset.reset": "largest",
    "isolation.level": "read_committed",
    "max.poll.interval.ms": 300_000,
    "topic.metadata.refresh.interval.ms": 300_000,
}
_SHARED = (  # settings of the simulated consumer, too
    *("group.id", "group.instance.id", "client.id", "client.rack", "session.timeout.ms"),
    *("heartbeat.interval.ms", "max.poll.interval.ms", "isolation.level", "group.protocol"),
    *("group.remote.assignor", STRATEGY),
    *("retry.backoff.ms", "retry.backoff.max.ms"),
)


def _assignors(strategy: Any) -> list[str]:
    """Return the known assignors, cooperative or eager as the first one."""
    names = strategy.split(",") if isinstance(strategy, str) else strategy
    known = [name for name in names if name in ASSIGNORS]
    if not known:
        raise failure(CODE._INVALID_ARG, f"unsupported {STRATEGY}: {strategy}")
    cooperative = known[0] == ASSIGNORS[2]
    return [name for name in known if (name == ASSIGNORS[2]) == cooperative]


def _boolean(value: Any) -> bool:
    return value.lower() == "true" if isinstance(value, str) else bool(value)


class _Progress:
    """Of an assigned partition: the first offset, the position, the stored offset."""

    def __init__(self, start: int) -> None:
        self.start = OFFSET_STORED if start == OFFSET_INVALID else start
        self.position = self.stored = OFFSET_INVALID
        self.metadata: str | None = None
        self.ended_at = OFFSET_INVALID  # the offset of its last PARTITION_EOF


class Consumer(ConfluentClient, ConsumerClient):
    """A consumer of librdkafka."""

    def __init__(self, *args: Any, **named: Any) -> None:
        given = merged(args, named, (*_OWN, *_DEFAULTS, *_SHARED))
        if not given.get("group.id"):
            raise ValueError("Failed to create consumer: group.id must be set")
        settings: dict[str, Any] = {**_DEFAULTS, **_OWN, **given}
        super().__init__(str(settings["client.id"]))
        self._on_commit = given.get("on_commit")
        self._max_poll_interval_ms = int(settings["max.poll.interval.ms"])
        self._commits_itself = _boolean(settings["enable.auto.commit"])
        self._commit_interval_ms = int(settings["auto.commit.interval.ms"])
        self._stores = _boolean(settings["enable.auto.offset.store"])
        self._shows_ends = _boolean(settings["enable.partition.eof"])
        chosen = {name: settings[name] for name in _SHARED if name in settings}
        reset = settings["auto.offset.reset"]
        chosen["auto.offset.reset"] = _RESETS.get(reset, reset)
        refresh_ms = int(settings["topic.metadata.refresh.interval.ms"])
        chosen |= {"enable.auto.commit": False, "max.poll.records": 1}
        chosen["metadata.max.age.ms"] = FOR_EVER_MS if refresh_ms < 0 else refresh_ms
        chosen |= self._program.settings
        self._cooperative = chosen.get("group.protocol") == "consumer"
        if not self._cooperative:
            chosen[STRATEGY] = names = _assignors(chosen.get(STRATEGY, "range,roundrobin"))
            self._cooperative = names == ["cooperative-sticky"]
        elif self._program.settings:  # a history may have chosen the protocol
            for name in CLASSIC_ONLY:
                chosen.pop(name, None)
        if self._max_poll_interval_ms < int(chosen.get("session.timeout.ms", 45_000)):
            reason = "`max.poll.interval.ms`must be >= `session.timeout.ms`"
            raise failure(CODE._INVALID_ARG, reason)
        try:
            self._inner = client.Consumer(self._program.cluster, chosen, process=self._process)
        except (ConfigError, ArgumentError) as error:
            raise failure(CODE._INVALID_ARG, str(error)) from None
        self._inner._network.joins_in_background = True
        self._progress: dict[tuple[str, int], _Progress] = {}
        self._paused: set[tuple[str, int]] = set()  # assigned or not
        self._commits: dict[tuple[str, int], int] = {}  # its last commits
        self._known: set[str] = set()  # topics of all partitions so far
        self._offered: list[tuple[str, int]] | None = None  # by a rebalance, in its callback
        self._rebalance_callbacks: dict[str, Any] = {}
        self._topics: list[str] = []
        self._failure: BaseException | None = None  # of a callback
        self._unsubscribes = self._in_group = False
        self._polled_ms = self._process.now_ms
        self._missing: set[str] = set()
        self._errors: list[Message] = []  # for the next polls
        if self._commits_itself and self._commit_interval_ms > 0:
            self._process.call_later(self._commit_interval_ms, self._commit_when_due)
        self._program.made(self)

    # The group

    def subscribe(
        self, topics: list[str], on_assign: Any = None, on_revoke: Any = None, on_lost: Any = None
    ) -> None:
        """Subscribe to topics; a name with ``^`` in front is an expression."""
        if not isinstance(topics, list) or not all(isinstance(each, str) for each in topics):
            raise TypeError("expected list of topic unicode strings")
        calls = {"on_assign": on_assign, "on_revoke": on_revoke, "on_lost": on_lost}
        for name, call in calls.items():
            if call is not None and not callable(call):
                raise TypeError(f"{name} expects a callable")
        with self._call():
            self._rebalance_callbacks, self._unsubscribes, self._in_group = calls, False, True
            self._missing = set()
            listener = SimpleNamespace(
                on_partitions_assigned=partial(self._rebalanced, "on_assign"),
                on_partitions_revoked=partial(self._rebalanced, "on_revoke"),
                on_partitions_lost=partial(self._rebalanced, "on_lost"),
            )
            chosen: Any = topics
            self._topics = topics
            if any(each.startswith("^") for each in topics):
                names = [f"{t}.*" if t[0] == "^" else re.escape(t) for t in topics]
                self._topics, chosen = [], re.compile("|".join(names))
            self._inner.subscribe(chosen, listener)
            self._polled_ms = self._process.now_ms

    def unsubscribe(self) -> None:
        """Leave the group; the next poll gives the partitions up."""
        with self._call():
            self._unsubscribes = self._in_group

    def _rebalanced(self, what: str, partitions: list[Any]) -> None:
        """Call the application's callback of a rebalance."""
        places = [tuple(tp) for tp in partitions]
        assigns = what == "on_assign"
        if not assigns and not places:
            return
        self._offered = places
        call = self._rebalance_callbacks.get(what)
        if what == "on_lost" and call is None:
            call = self._rebalance_callbacks.get("on_revoke")
        try:
            if call is not None:
                call(self, [TopicPartition(*place) for place in sorted(places)])
        except Exception as error:
            self._failure = error
            self._inner.wakeup()
        finally:
            offered, self._offered = self._offered, None
        if assigns and offered is not None:  # the callback has not
            self._take([TopicPartition(*place) for place in offered], adds=self._cooperative)
        elif not assigns:
            if what == "on_revoke" and self._commits_itself:
                self._commit_stored(places)
            for place in places:
                self._progress.pop(place, None)

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions from their offsets on, and no others."""
        with self._call():
            self._require(incremental=False)
            self._take(partitions, adds=False)

    def unassign(self) -> None:
        """Read no partitions."""
        self.assign([])

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions, too."""
        with self._call():
            self._require(incremental=True)
            if any(tp._place in self._progress for tp in partitions):
                raise failure(CODE._CONFLICT)
            self._take(partitions, adds=True)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Read these partitions no more."""
        with self._call():
            self._require(incremental=True)
            if not all(tp._place in self._progress for tp in partitions):
                raise failure(CODE._INVALID_ARG)
            left = {place for place in self._progress if TopicPartition(*place) not in partitions}
            self._read_only(left)

    def _require(self, *, incremental: bool) -> None:
        """Refuse a call of the other kind of rebalances: eager or cooperative."""
        if self._in_group and incremental != self._cooperative:
            names = ("incremental_assign() and _unassign()", "assign()")
            raise failure(CODE._STATE, f"a member of this group has to use {names[incremental]}")

    def _take(self, partitions: Iterable[TopicPartition], *, adds: bool) -> None:
        chosen = {tp._place: tp.offset for tp in partitions}
        self._offered = None
        new = {place: at for place, at in chosen.items() if not adds or place not in self._progress}
        self._read_only({*self._progress, *chosen} if adds else set(chosen))
        self._inner.pause([place for place in new if place in self._paused])
        for place, at in new.items():
            self._known.add(place[0])
            self._progress[place] = _Progress(at)
            if at not in (OFFSET_INVALID, OFFSET_STORED):
                self._go_to(place, at)

    def _read_only(self, places: set[tuple[str, int]]) -> None:
        """Let the simulated consumer read these partitions alone."""
        if self._in_group:
            owned = self._inner.assignment()
            if places - owned:
                raise failure(CODE._STATE, "a member reads only what its group has assigned")
            self._inner.pause(owned - places)
            self._inner.resume(places - self._progress.keys())
        else:
            self._inner.assign([*places])
        self._progress = {place: of for place, of in self._progress.items() if place in places}

    def assignment(self) -> list[TopicPartition]:
        """Return the assigned partitions, with their first offsets."""
        with self._call():
            return [TopicPartition(*place, of.start) for place, of in self._progress.items()]

    # Messages

    def poll(self, timeout: float = -1) -> Message | None:
        """Return a message or an error; run callbacks meanwhile."""
        with self._call():
            return self._next(self._deadline(timeout))

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """Return up to ``num_messages``, fewer after the timeout."""
        if not 0 <= num_messages <= 1_000_000:
            raise ValueError("num_messages must be between 0 and 1000000 (1M)")
        found: list[Message] = []
        with self._call():
            deadline_ms = self._deadline(timeout)
            while len(found) < num_messages:
                message = self._next(deadline_ms)
                if message is None:
                    break
                found.append(message)
        return found

    def _next(self, deadline_ms: int) -> Message | None:
        while True:
            self._serve()
            message = self._own_error()
            if message is not None:
                return message
            if self._unsubscribes:
                self._unsubscribes = self._in_group = False
                self._inner.unsubscribe()
            left_ms = self._left(deadline_ms)
            if not self._in_group and not self._progress:
                self._program.sleep(left_ms)
                return None
            step_ms = min(left_ms, EOF_STEP_MS) if self._shows_ends else left_ms
            records: list[ConsumerRecord] = []
            try:
                records = self._read(step_ms)
            except errors.KafkaError as error:
                self._errors += self._messages_of(error)
            finally:
                self._polled_ms = self._process.now_ms
            failed, self._failure = self._failure, None
            if failed is not None:
                raise failed
            self._program.handle_signal()
            if self._program.starts is not None:
                self._probe(self._program.starts, records)
            elif records:
                return self._returned(records[0])
            message = self._end() if self._shows_ends else None
            if message is not None:
                return message
            if not self._left(deadline_ms):
                self._serve()
                return None

    def _messages_of(self, error: errors.KafkaError) -> list[Message]:
        """Return the messages of an error: one for each partition that it ends."""
        failed = translated(error)
        if failed != CODE._AUTO_OFFSET_RESET:
            return [Message(error=failed)]
        places: list[tuple[str, int]] = [(t, n) for t, n in getattr(error, "partitions", ())]
        self._inner.seek_to_end(places)
        self._inner.pause(places)
        return [Message(t, n, OFFSET_INVALID, error=failed) for t, n in places]

    def _returned(self, record: ConsumerRecord) -> Message:
        topic, number, offset, at_ms, key, value, headers = record
        self._last = topic, number, offset
        place = self._progress.get((topic, number))
        if place is not None:
            place.position = offset + 1
            if self._stores:
                place.stored, place.metadata = offset + 1, None
        content = bytes_of(key), bytes_of(value), list(headers) or None
        return Message(topic, number, offset, *content, timestamp=(TIMESTAMP_CREATE_TIME, at_ms))

    def _own_error(self) -> Message | None:
        """Return an earlier error, that of a late poll, or of an unknown topic."""
        if self._errors:
            return self._errors.pop(0)
        late_ms = self._process.now_ms - self._polled_ms
        if self._in_group and self._progress and late_ms >= self._max_poll_interval_ms:
            self._polled_ms = self._process.now_ms
            reason = f"Application maximum poll interval ({self._max_poll_interval_ms}ms) exceeded"
            return Message(error=KafkaError(CODE._MAX_POLL_EXCEEDED, reason))
        known = self._program.cluster._topics
        for topic in self._topics:
            if topic not in known and topic not in self._missing:
                self._missing.add(topic)
                error = KafkaError(CODE.UNKNOWN_TOPIC_OR_PART, f"{topic} is not available")
                return Message(topic, None, None, error=error)
        return None

    def _end(self) -> Message | None:
        """Return the end of a partition that the position has reached."""
        for place, of in self._progress.items():
            if self._inner.current_lag(place) == 0:
                at = self._inner.position(place)
                if of.ended_at != at:
                    of.ended_at = at
                    return Message(*place, at, error=KafkaError(CODE._PARTITION_EOF))
        return None

    # Positions

    def seek(self, partition: TopicPartition) -> None:
        """Go on from an offset."""
        with self._call():
            place = self._assigned(partition)
            place.position = OFFSET_INVALID
            self._go_to(partition._place, partition.offset)

    def _go_to(self, place: tuple[str, int], offset: int) -> None:
        if offset == OFFSET_BEGINNING:
            self._inner.seek_to_beginning([place])
        elif offset == OFFSET_END:
            self._inner.seek_to_end([place])
        elif offset >= 0:
            self._inner.seek(place, offset)
        else:
            raise failure(CODE._INVALID_ARG)

    def _assigned(self, partition: TopicPartition) -> _Progress:
        place = self._progress.get(partition._place)
        if place is None:
            known = partition.topic in self._known
            raise failure(CODE._STATE if known else CODE._UNKNOWN_PARTITION)
        return place

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Return no messages of these partitions."""
        with self._call():
            chosen = {tp._place for tp in partitions}
            self._paused |= chosen
            self._inner.pause(chosen & self._progress.keys())

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Return messages of these partitions again."""
        with self._call():
            chosen = {tp._place for tp in partitions}
            self._paused -= chosen
            self._inner.resume(chosen & self._progress.keys())

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return the offsets after the last returned messages."""
        with self._call():
            found = [(tp._place, self._progress.get(tp._place)) for tp in partitions]
            return [
                TopicPartition(*place, OFFSET_INVALID if of is None else of.position)
                for place, of in found
            ]

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        """Return the first offset of a partition and its end."""
        with self._call():
            wait_ms, place = self._left(self._deadline(timeout)), partition._place
            (low,) = self._inner.beginning_offsets([place], wait_ms).values()
            (high,) = self._inner.end_offsets([place], wait_ms).values()
            return low, high

    def offsets_for_times(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """Return the first offset of each partition at or after the time in its ``offset``."""
        with self._call():
            times = {tp._place: tp.offset for tp in partitions}
            found = self._inner.offsets_for_times(times, self._left(self._deadline(timeout)))
            at = {tuple(tp): OFFSET_END if of is None else of[0] for tp, of in found.items()}
            return [TopicPartition(*tp._place, at[tp._place]) for tp in partitions]

    # Commits

    def store_offsets(
        self, message: Message | None = None, offsets: list[TopicPartition] | None = None
    ) -> None:
        """Store the offset after a message, or offsets, for the next commit."""
        with self._call():
            chosen = self._offsets(message, offsets)
            if chosen is None:
                raise ValueError("expected either message or offsets")
            if self._stores:
                raise failure(CODE._INVALID_ARG)
            assigned = [tp for tp in chosen if tp._place in self._progress]
            for tp in assigned or chosen[:1]:  # it is refused if none of them is assigned
                place = self._assigned(tp)
                place.stored, place.metadata = tp.offset, tp.metadata

    @staticmethod
    def _offsets(message: Any, offsets: list[TopicPartition] | None) -> list[TopicPartition] | None:
        if message is not None and offsets is not None:
            raise ValueError("message and offsets are mutually exclusive")
        if message is None:
            return offsets
        topic, number, offset = message.topic(), message.partition(), message.offset()
        return [TopicPartition(topic, number, offset + 1)]

    def commit(
        self,
        message: Message | None = None,
        offsets: list[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> list[TopicPartition] | None:
        """Commit the offset after a message, offsets, or by default the stored ones."""
        with self._call():
            chosen = self._offsets(message, offsets)
            if chosen is None:
                chosen = self._stored(self._progress)
            ready = offsets_of(chosen)
            if asynchronous:
                self._commit_async(chosen, ready)
                return None
            if not ready:
                raise failure(CODE._NO_OFFSET)
            self._inner.commit(ready)
            self._committed(ready)
            self._program.handle_signal()
            return chosen

    def _stored(
        self, places: Iterable[tuple[str, int]], *, again: bool = False
    ) -> list[TopicPartition]:
        """Return the stored offsets; ``again``: committed ones, too."""
        found = []
        for place in places:
            tp, of = TopicPartition(*place), self._progress.get(place)
            before = self._commits.get(place, OFFSET_INVALID)
            if of is not None and (again or of.stored > before):
                tp.offset, tp.metadata = of.stored, of.metadata
            found.append(tp)
        return found

    def _committed(self, offsets: dict[tuple[str, int], OffsetAndMetadata]) -> None:
        self._commits |= {place: at.offset for place, at in offsets.items()}

    def _commit_async(self, chosen: list[TopicPartition], ready: dict[Any, Any]) -> None:
        if not ready:
            self._report(chosen, KafkaError(CODE._NO_OFFSET))
            return

        def done(_: Any, error: errors.KafkaError | None) -> None:
            self._report(chosen, None if error is None else translated(error))

        def answered(sent: Any) -> None:
            if sent.failure is None:
                self._committed(ready)

        commits, offsets = self._inner._committing(ready)
        sent = commits.asynchronous(offsets, done)
        if sent is not None:
            sent.then(answered)

    def _report(self, chosen: list[TopicPartition], error: KafkaError | None) -> None:
        """Let the next poll call ``on_commit``."""
        call = self._on_commit
        if call is not None:
            self._callbacks.append(lambda: call(error, chosen))
            self._inner.wakeup()

    def _commit_when_due(self) -> None:
        if not self._closed:
            self._process.call_later(self._commit_interval_ms, self._commit_when_due)
            chosen = self._stored(self._progress)
            ready = offsets_of(chosen)
            if ready:
                with suppress(errors.KafkaError):
                    self._commit_async(chosen, ready)

    def _commit_stored(self, places: Iterable[tuple[str, int]]) -> None:
        """Commit the stored offsets of revoked partitions, and wait for the response."""
        chosen = self._stored(places, again=True)
        ready = offsets_of(chosen)
        if ready:
            error = None
            try:
                self._inner.commit(ready, 5_000)
            except errors.KafkaError as failed:
                error = translated(failed)
            self._report(chosen, error)

    def committed(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        """Return the committed offset of each partition."""
        with self._call():
            wait_ms = self._left(self._deadline(timeout))
            found = self._inner.committed([tp._place for tp in partitions], wait_ms)
            ready = {tuple(tp): at and (at.offset, at.metadata or None) for tp, at in found.items()}
            return [TopicPartition(*tp._place, *(ready[tp._place] or ())) for tp in partitions]

    # The rest

    def consumer_group_metadata(self) -> Any:
        """Return the group, generation and member id for a transactional producer."""
        with self._call():
            return self._inner.group_metadata()

    def memberid(self) -> str:
        """Return the member id."""
        with self._call():
            return self._inner.group_metadata().member_id

    def close(self) -> None:
        """Give up the partitions, and leave the group."""
        if self._closed:
            return
        with self._call():
            self._inner.close()
            self._closed = True
            if self._program.consumer is self:
                self._program.made(None)
            self._serve()
        failed, self._failure = self._failure, None
        if failed is not None:
            raise failed
