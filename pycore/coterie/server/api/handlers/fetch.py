"""Fetch: what partitions hold, at once or when enough has come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from coterie.server.api.call import Call
from coterie.server.clock import Timer
from coterie.server.services.data.downgrade import CannotDowngrade, downgraded
from coterie.server.services.data.fetch_sessions import (
    FIRST_EPOCH,
    NO_EPOCH,
    NO_SESSION,
    Asked,
    FetchSession,
    FetchSessions,
    Key,
    PartitionAnswer,
)
from coterie.server.services.data.partition import PartitionLog
from coterie.server.services.data.topics import NO_ID
from coterie.values import Error

__all__ = ["fetch"]

_BY_IDS = 13
_WHOLE_FIRST = 3
_MAGIC_2 = 4
_MOST_BYTES = 57671680  # fetch.max.bytes
_READ_COMMITTED = 1


def fetch(call: Call) -> None:
    """Answer a Fetch; it waits until there is enough, or its time is over."""
    by_ids = call.api_version >= _BY_IDS
    _, _, _, wait_ms, least, most, isolation, session_id, epoch, topics, forgotten, _ = call.row
    sessions = call.cluster.topics.sessions_of(call.node.id)
    asked = _asked(call, topics, by_ids)
    session: FetchSession | None = None
    if epoch in (FIRST_EPOCH, NO_EPOCH):
        sessions.drop(session_id)
    else:
        found = sessions.find(session_id, epoch, by_ids)
        if isinstance(found, Error):
            return call.answer((0, found, NO_SESSION, (), None))
        found.update(asked, _forgotten(forgotten, by_ids))
        if found.asked:
            session = found
            sessions.use(session)
            asked = list(session.asked.values())
        else:
            sessions.drop(session_id)
            asked = []
    if session is not None and by_ids:
        _name(call, session.asked.values())
    limits = Limits(wait_ms, least, most, isolation == _READ_COMMITTED)
    return _Fetch(call, limits, sessions, session, asked, new=epoch == FIRST_EPOCH).start()


def _asked(call: Call, topics: Iterable[tuple[Any, ...]], by_ids: bool) -> list[Asked]:
    """Return the partitions of a request, each once."""
    found: dict[Key, Asked] = {}
    for name, topic_id, partitions in topics:
        for number, epoch, offset, last_epoch, _, max_bytes, *_ in partitions:
            key = (topic_id, number) if by_ids else (name, number)
            topic, its_id = (None, topic_id) if by_ids else (name, NO_ID)
            found[key] = Asked(key, topic, its_id, number, offset, max_bytes, epoch, last_epoch)
    if by_ids:
        _name(call, found.values())
    return list(found.values())


def _name(call: Call, asked: Iterable[Asked]) -> None:
    """Put names to ids, where they are known; in a session a name that was found stays."""
    for each in asked:
        if each.topic is not None:
            continue
        topic = call.cluster.topics.by_id(each.topic_id)
        if topic is not None:
            each.topic = topic.name


def _forgotten(topics: Iterable[tuple[Any, ...]], by_ids: bool) -> list[Key]:
    return [
        (topic_id if by_ids else name, number)
        for name, topic_id, numbers in topics
        for number in numbers
    ]


class Limits(NamedTuple):
    """How long a fetch waits, for how many bytes, and whether for committed records alone."""

    wait_ms: int
    min_bytes: int
    max_bytes: int
    committed: bool


class _Fetch:
    """A fetch on its way: read now, and again when enough was written or its time is over.

    A session may have thousands of partitions, and most of them are quiet: what is made for each
    of them is not only made, the collector goes through it, and then through all that there is.
    """

    def __init__(
        self,
        call: Call,
        limits: Limits,
        sessions: FetchSessions,
        session: FetchSession | None,
        asked: Sequence[Asked],
        *,
        new: bool,
    ) -> None:
        self.call, self.sessions, self.session, self.new = call, sessions, session, new
        self.wait_ms, self.committed = limits.wait_ms, limits.committed
        self.max_bytes = min(limits.max_bytes, _MOST_BYTES)
        self.min_bytes = min(limits.min_bytes, self.max_bytes)
        self.asked = asked
        self.refused: list[tuple[Key, PartitionAnswer]] = []
        self.found: list[Asked] = []  # those that have a log
        self.logs: list[PartitionLog] = []
        self.timer: Timer | None = None
        for each in asked:
            log = each.log
            if log is None or log.deleted:
                log = each.log = self._log(each)
            if log is not None:
                self.found.append(each)
                self.logs.append(log)
            else:
                unknown = each.topic is None
                error = Error.UNKNOWN_TOPIC_ID if unknown else Error.UNKNOWN_TOPIC_OR_PARTITION
                self.refused.append((each.key, _nothing(each.partition, error, aborted=())))

    def start(self) -> None:
        """Answer now, or wait."""
        answers, size, ready = self._read()
        if ready or self.wait_ms <= 0 or not self.logs or size >= self.min_bytes:
            return self._answer(answers)
        self.timer = self.call.cluster.waits.call_later(self.wait_ms, self._finish)
        self.call.on_close = self._stop
        written = self._written
        for log in self.logs:
            log.waiters[self] = written
        return None

    def _log(self, asked: Asked) -> PartitionLog | None:
        if asked.topic is None:
            return None
        log: PartitionLog | None = self.call.cluster.topics.partition(asked.topic, asked.partition)
        return log

    def _written(self) -> None:
        """See whether there is enough now."""
        size = 0
        for each, log in zip(self.found, self.logs, strict=True):
            if each.quiet_at is log.state:
                continue
            end = log.last_stable_offset if self.committed else log.high_watermark
            if log.deleted or end < each.offset:
                return self._finish()
            size += min(log.readable(each.offset, end), each.max_bytes)
            if size >= self.min_bytes:
                return self._finish()
        return None

    def _finish(self) -> None:
        """Stop waiting, read again and answer."""
        if self.timer is not None:
            self._stop()
            self._answer(self._read()[0])

    def _stop(self) -> None:
        """Wait no longer."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
            self.call.on_close = None  # each holds the other: the collector would have to come
            for log in self.logs:
                log.waiters.pop(self, None)

    def _read(self) -> tuple[list[tuple[Key, PartitionAnswer]], int, bool]:
        """Read all; the answers, their bytes, and whether one of them cannot wait."""
        room, size, ready = self.max_bytes, 0, False
        whole_first = self.call.api_version >= _WHOLE_FIRST
        answers = []
        in_session = self.session is not None
        for each, log in zip(self.found, self.logs, strict=True):
            if in_session and (each.quiet_at is log.state or _is_quiet(each, log)):
                continue
            first = whole_first and size == 0
            answer = self._read_one(each, log, min(each.max_bytes, room), whole_first=first)
            size += len(answer.records)
            room = max(0, room - len(answer.records))
            ready = ready or answer.error != 0 or answer.diverging_epoch is not None
            answers.append((each.key, answer))
        return answers, size, ready

    def _read_one(
        self, asked: Asked, log: PartitionLog, max_bytes: int, *, whole_first: bool
    ) -> PartitionAnswer:
        if log.deleted:
            return _nothing(asked.partition, Error.UNKNOWN_TOPIC_OR_PARTITION)
        if not _is_its_topic(asked, log):
            return _nothing(asked.partition, Error.INCONSISTENT_TOPIC_ID)
        error = log.epoch_refusal(asked.leader_epoch)
        if error is not Error.NONE:
            return _nothing(asked.partition, error)
        if asked.last_fetched_epoch >= 0:
            epoch, end = log.end_of_epoch(asked.last_fetched_epoch)
            if epoch < 0 or end < 0:
                return _nothing(asked.partition, Error.OFFSET_OUT_OF_RANGE)
            if epoch < asked.last_fetched_epoch or end < asked.offset:
                return _told(asked, log, diverging_epoch=(epoch, end))
        end = log.last_stable_offset if self.committed else log.high_watermark
        if asked.max_bytes < 0:
            return _nothing(asked.partition, Error.UNKNOWN_SERVER_ERROR)
        found = log.read(asked.offset, max_bytes, end, whole_first=whole_first)
        if found is None:
            return _nothing(asked.partition, Error.OFFSET_OUT_OF_RANGE)
        aborted = None
        if self.committed:
            aborted = [
                (each.producer_id, each.first_offset)
                for each in (log.aborted(asked.offset, found.behind) if found.records else ())
            ]
        unfit = found.cut and self.call.api_version >= _WHOLE_FIRST
        return _told(asked, log, aborted=aborted, records=b"" if unfit else found.records)

    def _answer(self, answers: Sequence[tuple[Key, PartitionAnswer]]) -> None:
        """Answer; a session is told only what is new to it."""
        everything = [*answers, *self.refused]
        session_id = NO_SESSION
        if self.session is not None:
            session_id = self.session.id
            everything = self.session.changed(everything)
        elif self.new:
            asked = {each.key: each for each in self.asked}
            for key, answer in everything:
                asked[key].told_high_watermark = answer.high_watermark
                asked[key].told_log_start = answer.log_start_offset
            told = [asked[key] for key, _ in everything]
            session_id = self.sessions.make(told, self.call.api_version >= _BY_IDS)
        if self.call.api_version < _MAGIC_2:
            everything = [(key, self._old(key, answer)) for key, answer in everything]
        self.call.answer((0, 0, session_id, self._by_topic(everything), None))

    def _old(self, key: Key, answer: PartitionAnswer) -> PartitionAnswer:
        """Return an answer with records of magic 0 or 1."""
        offset = next(each.offset for each in self.asked if each.key == key)
        magic = 0 if self.call.api_version < 2 else 1
        try:
            return answer._replace(records=downgraded(answer.records, magic, offset))
        except CannotDowngrade:
            return _nothing(answer.partition, Error.UNSUPPORTED_COMPRESSION_TYPE)

    def _by_topic(self, answers: Iterable[tuple[Key, PartitionAnswer]]) -> list[tuple[Any, ...]]:
        """Put neighbours of one topic together."""
        by_ids = self.call.api_version >= _BY_IDS
        topics: list[tuple[Any, ...]] = []
        last: str | None = None
        partitions: list[PartitionAnswer] = []
        for (topic, _), answer in answers:
            if topic != last:
                last, partitions = topic, []
                topics.append((None, topic, partitions) if by_ids else (topic, None, partitions))
            partitions.append(answer)
        return topics


def _is_its_topic(asked: Asked, log: PartitionLog) -> bool:
    """Whether a log is of the topic whose id was asked for, not of a later one of its name.

    Source: ``readFromLog`` of ReplicaManager; a session finds logs by the name that it keeps.
    """
    return asked.topic_id in (NO_ID, log.topic_id)


def _is_quiet(asked: Asked, log: PartitionLog) -> bool:
    """Whether a session has nothing to tell of a partition: most of many, in most fetches.

    It stays so until the log is in another state; only that is looked at from then on.
    """
    epoch = log.leader_epochs[-1][0]
    quiet = (
        asked.offset == log.log_end_offset == asked.told_high_watermark
        and asked.told_log_start == log.log_start_offset <= asked.offset
        and not log.deleted
        and _is_its_topic(asked, log)
        and asked.leader_epoch in (-1, epoch)
        and asked.last_fetched_epoch in (-1, epoch)
        and asked.max_bytes >= 0
    )
    asked.quiet_at = log.state if quiet else None
    return quiet


def _told(
    asked: Asked,
    log: PartitionLog,
    *,
    diverging_epoch: tuple[int, int] | None = None,
    aborted: Sequence[tuple[int, int]] | None = None,
    records: bytes = b"",
) -> PartitionAnswer:
    return PartitionAnswer(
        asked.partition, 0, log.high_watermark, log.last_stable_offset, log.log_start_offset,
        diverging_epoch, None, None, aborted, -1, records,
    )  # fmt: skip


def _nothing(
    partition: int, error: Error, *, aborted: Sequence[tuple[int, int]] | None = None
) -> PartitionAnswer:
    return PartitionAnswer(partition, error, -1, -1, -1, None, None, None, aborted, -1, b"")
