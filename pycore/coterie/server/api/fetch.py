"""Fetch: read from partitions, at once or when enough data has arrived."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any, NamedTuple

from coterie.server.api.call import Call, Slices
from coterie.server.api.fetch_frame import fetch_frame
from coterie.server.api.rows_in_slices import Pace
from coterie.server.clock import Timer
from coterie.server.services.adjacent_batches import RecordRange
from coterie.server.services.downgrade import CannotDowngrade, downgraded
from coterie.server.services.fetch_sessions import (
    FIRST_EPOCH,
    NO_EPOCH,
    NO_SESSION,
    FetchSession,
    FetchSessions,
    Key,
    PartitionRow,
    RequestedPartition,
)
from coterie.server.services.partition import PartitionLog
from coterie.values import Error
from coterie.wire import NO_ID

_BY_IDS = 13
_WHOLE_FIRST = 3
_MAGIC_2 = 4
_MOST_BYTES = 57671680  # fetch.max.bytes
_READ_COMMITTED = 1
_ENTRIES = 5  # reading a partition costs as much as so many entries of a list


def fetch(call: Call) -> Slices:
    """Answer a Fetch once it has ``minBytes``, or after ``maxWaitMs``.

    Many partitions are read in slices.
    """
    by_ids = call.api_version >= _BY_IDS
    _, _, _, wait_ms, least, most, isolation, session_id, epoch, topics, forgotten, _ = call.row
    sessions = call.cluster.topics.sessions_of(call.node.id)
    requested = _requested(call, topics, by_ids)
    session: FetchSession | None = None
    if epoch in (FIRST_EPOCH, NO_EPOCH):
        sessions.drop(session_id)
    else:
        session_or_error = sessions.find(session_id, epoch, by_ids)
        if isinstance(session_or_error, Error):
            return call.answer((0, session_or_error, NO_SESSION, (), None))
        session_or_error.update(requested, _forgotten(forgotten, by_ids))
        if session_or_error.requested:
            session = session_or_error
            sessions.use(session)
            requested = list(session.requested.values())
        else:
            sessions.drop(session_id)
            requested = []
    if session is not None and by_ids:
        _name(call, session.requested.values())
    limits = Limits(wait_ms, least, most, isolation == _READ_COMMITTED)
    started = _Fetch(call, limits, sessions, session, requested, new=epoch == FIRST_EPOCH)
    yield from started.start()


def _requested(
    call: Call, topics: Iterable[tuple[Any, ...]], by_ids: bool
) -> list[RequestedPartition]:
    """Return the requested partitions, without duplicates."""
    requested: dict[Key, RequestedPartition] = {}
    for name, topic_id, partitions in topics:
        for number, epoch, offset, last_epoch, _, max_bytes, *_ in partitions:
            key = (topic_id, number) if by_ids else (name, number)
            topic, its_id = (None, topic_id) if by_ids else (name, NO_ID)
            requested[key] = RequestedPartition(
                key, topic, its_id, number, offset, max_bytes, epoch, last_epoch
            )
    if by_ids:
        _name(call, requested.values())
    return list(requested.values())


def _name(call: Call, requested: Iterable[RequestedPartition]) -> None:
    """Set topic names by id where they are known; a session keeps a name once it has it."""
    for partition in requested:
        if partition.topic is not None:
            continue
        topic = call.cluster.topics.by_id(partition.topic_id)
        if topic is not None:
            partition.topic = topic.name


def _forgotten(topics: Iterable[tuple[Any, ...]], by_ids: bool) -> list[Key]:
    return [
        (topic_id if by_ids else name, number)
        for name, topic_id, numbers in topics
        for number in numbers
    ]


class Limits(NamedTuple):
    """The limits of a fetch; ``committed``: only committed records are read."""

    wait_ms: int
    min_bytes: int
    max_bytes: int
    committed: bool


class _Fetch:
    """A fetch in progress; it reads at once, and again after enough writes or a time-out.

    A session may have thousands of partitions, most of them idle. So no object is allocated for
    each partition: allocations trigger the garbage collector, which walks the whole heap.
    """

    def __init__(
        self,
        call: Call,
        limits: Limits,
        sessions: FetchSessions,
        session: FetchSession | None,
        requested: Sequence[RequestedPartition],
        *,
        new: bool,
    ) -> None:
        self.call, self.sessions, self.session, self.new = call, sessions, session, new
        self.wait_ms, self.committed = limits.wait_ms, limits.committed
        self.max_bytes = min(limits.max_bytes, _MOST_BYTES)
        self.min_bytes = min(limits.min_bytes, self.max_bytes)
        self.requested = requested
        self.refused: list[tuple[Key, PartitionRow]] = []
        self.existing: list[RequestedPartition] = []  # the partitions that exist
        self.logs: list[PartitionLog] = []
        self.timer: Timer | None = None
        self.is_sliced = False
        for partition in requested:
            log = partition.log
            if log is None or log.deleted:
                log = partition.log = self._log(partition)
            if log is not None:
                self.existing.append(partition)
                self.logs.append(log)
            else:
                unknown = partition.topic is None
                error = Error.UNKNOWN_TOPIC_ID if unknown else Error.UNKNOWN_TOPIC_OR_PARTITION
                self.refused.append(
                    (partition.key, _error_row(partition.partition, error, aborted=()))
                )

    def start(self) -> Slices:
        """Answer now or start to wait."""
        answers, size, ready = yield from self._read()
        if ready or self.wait_ms <= 0 or not self.logs or size >= self.min_bytes:
            return self._answer(answers)
        self.timer = self.call.cluster.waits.call_later(self.wait_ms, self._finish)
        self.call.on_close = self._stop
        written = self._written
        for log in self.logs:
            log.waiters[self] = written
        return written() if self.is_sliced else None  # something may have been written meanwhile

    def _log(self, requested: RequestedPartition) -> PartitionLog | None:
        if requested.topic is None:
            return None
        log: PartitionLog | None = self.call.cluster.topics.partition(
            requested.topic, requested.partition
        )
        return log

    def _written(self) -> None:
        """Finish if enough data is available after a write."""
        size = 0
        for partition, log in zip(self.existing, self.logs, strict=True):
            if partition.quiet_at is log.state:
                continue
            end = log.last_stable_offset if self.committed else log.high_watermark
            if log.deleted or end < partition.offset:
                return self._finish()
            size += min(log.readable(partition.offset, end), partition.max_bytes)
            if size >= self.min_bytes:
                return self._finish()
        return None

    def _finish(self) -> None:
        """Read again and answer."""
        if self.timer is not None:
            self._stop()
            self.call.run(self._answer_again())

    def _answer_again(self) -> Slices:
        answers, _, _ = yield from self._read()
        self._answer(answers)

    def _stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
            self.call.on_close = None  # breaks a reference cycle
            for log in self.logs:
                log.waiters.pop(self, None)

    def _read(self) -> Generator[None, None, tuple[list[tuple[Key, PartitionRow]], int, bool]]:
        """Read all partitions; return the rows, their size, and whether to answer at once."""
        room, size, ready = self.max_bytes, 0, False
        whole_first = self.call.api_version >= _WHOLE_FIRST
        answers = []
        in_session, pace = self.session is not None, Pace()
        for partition, log in zip(self.existing, self.logs, strict=True):
            if in_session and (partition.quiet_at is log.state or _is_quiet(partition, log)):
                continue
            if pace.is_over(_ENTRIES):
                self.is_sliced = True
                yield
            first = whole_first and size == 0
            answer = self._read_one(
                partition, log, min(partition.max_bytes, room), whole_first=first
            )
            size += len(answer.records)
            room = max(0, room - len(answer.records))
            ready = ready or answer.error != 0 or answer.diverging_epoch is not None
            answers.append((partition.key, answer))
        return answers, size, ready

    def _read_one(
        self, requested: RequestedPartition, log: PartitionLog, max_bytes: int, *, whole_first: bool
    ) -> PartitionRow:
        if log.deleted:
            return _error_row(requested.partition, Error.UNKNOWN_TOPIC_OR_PARTITION)
        if not _is_its_topic(requested, log):
            return _error_row(requested.partition, Error.INCONSISTENT_TOPIC_ID)
        error = log.epoch_refusal(requested.leader_epoch)
        if error is not Error.NONE:
            return _error_row(requested.partition, error)
        if requested.last_fetched_epoch >= 0:
            epoch, end = log.end_of_epoch(requested.last_fetched_epoch)
            if epoch < 0 or end < 0:
                return _error_row(requested.partition, Error.OFFSET_OUT_OF_RANGE)
            if epoch < requested.last_fetched_epoch or end < requested.offset:
                return _row(requested, log, diverging_epoch=(epoch, end))
        end = log.last_stable_offset if self.committed else log.high_watermark
        if requested.max_bytes < 0:
            return _error_row(requested.partition, Error.UNKNOWN_SERVER_ERROR)
        data = log.read(requested.offset, max_bytes, end, whole_first=whole_first)
        if data is None:
            return _error_row(requested.partition, Error.OFFSET_OUT_OF_RANGE)
        aborted = None
        if self.committed:
            aborted = [
                (txn.producer_id, txn.first_offset)
                for txn in (log.aborted(requested.offset, data.behind) if data.records else ())
            ]
        unfit = data.cut and self.call.api_version >= _WHOLE_FIRST
        return _row(requested, log, aborted=aborted, records=b"" if unfit else data.records)

    def _answer(self, answers: Sequence[tuple[Key, PartitionRow]]) -> None:
        """Send the response; a session gets only the partitions that changed."""
        rows = [*answers, *self.refused]
        session_id = NO_SESSION
        if self.session is not None:
            session_id = self.session.id
            rows = self.session.changed(rows)
        elif self.new:
            requested = {partition.key: partition for partition in self.requested}
            for key, answer in rows:
                requested[key].sent_high_watermark = answer.high_watermark
                requested[key].sent_log_start_offset = answer.log_start_offset
            sent = [requested[key] for key, _ in rows]
            session_id = self.sessions.make(sent, self.call.api_version >= _BY_IDS)
        if self.call.api_version < _MAGIC_2:
            rows = [(key, self._downgrade(key, answer)) for key, answer in rows]
        response = (0, 0, session_id, self._by_topic(rows), None)
        if any(type(answer.records) is RecordRange for _, answer in rows):
            return self.call.answer_parts(
                fetch_frame(self.call.api_version, response, self.call.correlation_id)
            )
        return self.call.answer(response)

    def _downgrade(self, key: Key, answer: PartitionRow) -> PartitionRow:
        """Convert the records of a row to magic 0 or 1."""
        offset = next(partition.offset for partition in self.requested if partition.key == key)
        magic = 0 if self.call.api_version < 2 else 1
        try:
            return answer._replace(records=downgraded(bytes(answer.records), magic, offset))
        except CannotDowngrade:
            return _error_row(answer.partition, Error.UNSUPPORTED_COMPRESSION_TYPE)

    def _by_topic(self, answers: Iterable[tuple[Key, PartitionRow]]) -> list[tuple[Any, ...]]:
        by_ids = self.call.api_version >= _BY_IDS
        topics: list[tuple[Any, ...]] = []
        last: str | None = None
        partitions: list[PartitionRow] = []
        for (topic, _), answer in answers:
            if topic != last:
                last, partitions = topic, []
                topics.append((None, topic, partitions) if by_ids else (topic, None, partitions))
            partitions.append(answer)
        return topics


def _is_its_topic(requested: RequestedPartition, log: PartitionLog) -> bool:
    """Whether a log belongs to the requested topic id, not to a newer topic of that name.

    A session finds logs by the topic name that it keeps. Source: ``readFromLog`` of ReplicaManager.
    """
    return requested.topic_id in (NO_ID, log.topic_id)


def _is_quiet(requested: RequestedPartition, log: PartitionLog) -> bool:
    """Whether a session has nothing to send for a partition, which is the usual case.

    The result is valid until the log's state changes, so later fetches only compare the state.
    """
    epoch = log.leader_epoch
    quiet = (
        requested.offset == log.log_end_offset == requested.sent_high_watermark
        and requested.sent_log_start_offset == log.log_start_offset <= requested.offset
        and not log.deleted
        and _is_its_topic(requested, log)
        and requested.leader_epoch in (-1, epoch)
        and requested.last_fetched_epoch in (-1, epoch)
        and requested.max_bytes >= 0
    )
    requested.quiet_at = log.state if quiet else None
    return quiet


def _row(
    requested: RequestedPartition,
    log: PartitionLog,
    *,
    diverging_epoch: tuple[int, int] | None = None,
    aborted: Sequence[tuple[int, int]] | None = None,
    records: bytes | RecordRange = b"",
) -> PartitionRow:
    return PartitionRow(
        requested.partition, 0, log.high_watermark, log.last_stable_offset, log.log_start_offset,
        diverging_epoch, None, None, aborted, -1, records,
    )  # fmt: skip


def _error_row(
    partition: int, error: Error, *, aborted: Sequence[tuple[int, int]] | None = None
) -> PartitionRow:
    return PartitionRow(partition, error, -1, -1, -1, None, None, None, aborted, -1, b"")
