"""The log of a partition, in memory.

There are no followers, so each write is below the high watermark at once. Source: UnifiedLog,
LocalLog and Partition of Kafka 3.9.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from coterie._core.codec.batch import LogReader, encode_batch, encode_marker, encode_sized
from coterie.server.services.adjacent_batches import RecordRange, records_of
from coterie.server.services.batch_checks import Refused, checked
from coterie.server.services.batches import header, stamped
from coterie.server.services.producer_states import AbortedTxn, Producers
from coterie.server.services.segment import Segment, StoredBatch
from coterie.server.topic_settings import LogSettings
from coterie.values import Error

_CONTROL_VERSION = 2  # size of the version in a marker's key and value


class Appended(NamedTuple):
    """The result of an append; ``append_time_ms`` is -1 if the batch keeps its timestamps."""

    base_offset: int
    append_time_ms: int
    log_start_offset: int


class Fetched(NamedTuple):
    """The result of a read: complete batches, except that the last one may be cut.

    ``behind``: an upper bound of the read offsets, for the lookup of aborted transactions.
    ``cut``: even the first batch is incomplete.
    """

    records: bytes | RecordRange
    behind: int
    cut: bool


class PartitionLog:
    """The data of one partition.

    Attributes
    ----------
    log_start_offset : int
        The first offset that was not deleted.
    leader_epochs : list of (epoch, start offset)
        The start of each leader epoch; the last one is current.
    producers
        Idempotent and transactional producers.
    waiters : dict
        Called after each write; the keys are the fetches that wait.
    state : object
        Replaced when the start or end offset changes or the log is deleted. Callers compare it to
        detect changes.
    """

    __slots__ = (
        "_now_ms", "_segments", "deleted", "internal", "leader_epochs", "log_end_offset",
        "log_start_offset", "number", "producers", "settings", "state", "topic", "topic_id",
        "waiters",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        number: int,
        settings: LogSettings | None = None,
        now_ms: Callable[[], int] = lambda: 0,
        *,
        internal: bool = False,
        topic_id: str = "",
    ) -> None:
        self.topic, self.number, self.internal = topic, number, internal
        self.topic_id = topic_id
        self.settings = LogSettings() if settings is None else settings
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.leader_epochs: list[tuple[int, int]] = [(0, 0)]
        self.producers = Producers()
        self.waiters: dict[object, Callable[[], None]] = {}
        self.deleted = False
        self.state = object()
        self._now_ms = now_ms
        self._segments = [self._new_segment(0, now_ms())]

    @property
    def leader_epoch(self) -> int:
        return self.leader_epochs[-1][0]

    @property
    def high_watermark(self) -> int:
        return self.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """The first offset of the earliest open transaction, else the high watermark."""
        first = self.producers.first_open_offset()
        return self.log_end_offset if first is None else max(first, self.log_start_offset)

    @property
    def size(self) -> int:
        """The size of all batches in bytes."""
        return sum(segment.size for segment in self._segments)

    def data(self) -> bytes:
        return b"".join(batch.data for segment in self._segments for batch in segment.batches)

    def produce(self, data: bytes) -> Appended:
        """Validate and append the records of a producer.

        Raises
        ------
        Refused
            The records are invalid, or the producer is fenced or out of sequence.
        """
        now_ms, settings = self._now_ms(), self.settings
        good = checked(data, settings, f"{self.topic}-{self.number}", now_ms)
        if good is None:
            return Appended(-1, -1, self.log_start_offset)
        head = good.head
        if head.producer_id >= 0:
            before = self.producers.duplicate(head)
            if before is not None:
                return Appended(before.first_offset, before.timestamp, self.log_start_offset)
            error = self.producers.refusal(head)
            if error is not Error.NONE:
                raise Refused(error)
        append_time_ms = now_ms if settings.append_time else -1
        right = good.max_timestamp == head.max_timestamp and not head.append_time
        max_timestamp = None if right else good.max_timestamp
        base_offset = self._append(
            stamped(
                good.batch,
                self.log_end_offset,
                self.leader_epoch,
                append_time_ms=now_ms if settings.append_time else None,
                max_timestamp=max_timestamp,
            )
        )
        return Appended(base_offset, append_time_ms, self.log_start_offset)

    def append_own(self, batch: bytes) -> int:
        """Append a batch of the server itself; return its base offset."""
        return self._append(stamped(batch, self.log_end_offset, self.leader_epoch))

    def append_sized(self, records: bytes, count: int) -> int:
        """Append the server's records, in the form of ``encode_sized``, at the current time."""
        base_offset, now_ms = self.log_end_offset, self._now_ms()
        epoch = self.leader_epoch
        batch = encode_sized(records, count, base_offset, now_ms, leader_epoch=epoch)
        self._store(batch, base_offset, base_offset + count - 1, now_ms, epoch, now_ms)
        self._wake()
        return base_offset

    def append_records(self, records: Iterable[tuple[int, bytes | None, bytes | None]]) -> int:
        """Append records of the server itself: (timestamp in ms, key, value)."""
        numbered = [(n, *record) for n, record in enumerate(records)]
        return self.append_own(encode_batch(numbered))

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,
        timestamp_ms: int,
        transaction_version: int = 0,
    ) -> Error:
        """Append a marker that ends a transaction, unless its producer or coordinator is fenced."""
        error = self.producers.marker_refusal(
            producer_id, producer_epoch, coordinator_epoch, transaction_version
        )
        if error is Error.NONE:
            self.append_own(
                encode_marker(
                    committed,
                    producer_id,
                    producer_epoch,
                    timestamp_ms=timestamp_ms,
                    coordinator_epoch=coordinator_epoch,
                )
            )
        return error

    def has_ongoing_transaction(self, producer_id: int, epoch: int | None = None) -> bool:
        """Whether a producer has an open transaction, of an epoch or, for None, of any."""
        return self.producers.in_transaction(producer_id, epoch)

    def read(self, offset: int, max_bytes: int, end: int, *, whole_first: bool) -> Fetched | None:
        """Read from the batch that contains an offset up to ``end``, at most ``max_bytes``.

        A read does not cross the end of a segment. ``whole_first``: the first batch is returned
        whole, even if it is larger. None if the offset is out of range.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            return None
        nothing = Fetched(b"", offset, False)
        if offset >= end:
            return nothing
        number = 0
        if len(self._segments) > 1:
            number = bisect_right(self._segments, offset, key=lambda s: s.base_offset) - 1
        segment = self._segments[number]
        at = segment.index_of(offset)
        while at == len(segment.batches):
            number, at = number + 1, 0
            segment = self._segments[number]
        first = segment.batches[at]
        cut = max_bytes < len(first.data)
        room = max(max_bytes, len(first.data)) if whole_first else max_bytes
        if room <= 0:
            return nothing
        batches = segment.batches[at : segment.behind(at, end, room)]
        last = batches[-1]
        size = min(room, last.position + len(last.data) - first.position)
        behind = self._reached(number, first.position + size) if self.producers.aborted else offset
        return Fetched(records_of(batches, size), behind, cut and not whole_first)

    def _reached(self, number: int, position: int) -> int:
        """Return an upper bound of the offset at a position of a segment, by the offset index."""
        behind = self._segments[number].bound_behind(position)
        if behind is not None:
            return behind
        last = number + 1 == len(self._segments)
        return self.log_end_offset if last else self._segments[number + 1].base_offset

    def readable(self, offset: int, end: int) -> int:
        """Return the size of the batches from the one that contains an offset up to ``end``."""
        return sum(segment.size_between(offset, end) for segment in self._segments)

    def aborted(self, offset: int, behind: int) -> list[AbortedTxn]:
        return [
            each
            for each in self.producers.aborted
            if each.last_offset >= offset and each.first_offset < behind
        ]

    def offset_at(self, timestamp: int) -> tuple[int, int, int] | None:
        """Return (timestamp, offset, leader epoch) of the first record at or after a time."""
        for segment in self._segments:
            if segment.largest_timestamp < timestamp:
                continue
            for batch in segment.batches:
                if batch.max_timestamp >= timestamp and batch.last_offset >= self.log_start_offset:
                    for record in _records(batch):
                        if record[0] >= timestamp and record[1] >= self.log_start_offset:
                            return record[0], record[1], batch.leader_epoch
            return None
        return None

    def latest(self) -> tuple[int, int, int] | None:
        """Return (timestamp, offset, leader epoch) of the first record with the latest time."""
        segment = max(self._segments, key=lambda each: each.max_timestamp)
        for batch in segment.batches:
            if batch.max_timestamp == segment.max_timestamp:
                offsets = [o for time, o in _records(batch) if time == batch.max_timestamp]
                if offsets:
                    return batch.max_timestamp, offsets[0], batch.leader_epoch
        return None

    def segment_starts(self) -> list[tuple[int, int]]:
        """Return the base offset and last write time of each segment, for ListOffsets 0."""
        starts = [
            (max(segment.base_offset, self.log_start_offset), segment.modified_ms)
            for segment in self._segments
        ]
        if self.size:
            starts.append((self.log_end_offset, self._now_ms()))
        return starts

    def epoch_refusal(self, leader_epoch: int) -> Error:
        """Compare a client's leader epoch with the current one; below 0 it is unknown."""
        if leader_epoch < 0 or leader_epoch == self.leader_epoch:
            return Error.NONE
        late = leader_epoch < self.leader_epoch
        return Error.FENCED_LEADER_EPOCH if late else Error.UNKNOWN_LEADER_EPOCH

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the last epoch up to this one and its end offset; (-1, -1) if unknown."""
        if epoch == self.leader_epoch:
            return epoch, self.log_end_offset
        later = [start for known, start in self.leader_epochs if known > epoch]
        if epoch < 0 or not later:
            return -1, -1
        before = [known for known, _ in self.leader_epochs if known <= epoch]
        return (before[-1] if before else epoch), later[0]

    def delete_below(self, offset: int) -> int:
        """Delete the records below an offset (-1: all); return the new log start offset.

        The next retention check removes their segments.

        Raises
        ------
        Refused
            The offset is out of range, or the topic is only compacted.
        """
        if not self.settings.deleted:
            raise Refused(Error.POLICY_VIOLATION)
        below = self.high_watermark if offset == -1 else offset
        if not 0 <= below <= self.high_watermark:
            raise Refused(Error.OFFSET_OUT_OF_RANGE)
        self._start_at(below)
        return self.log_start_offset

    def retain(self) -> None:
        """Delete the segments beyond the limits of time and size."""
        settings, now_ms = self.settings, self._now_ms()
        self._begin_at(self.log_start_offset)
        if not settings.deleted:
            return
        if settings.retention_ms >= 0:
            while self._delete_first(
                lambda s: now_ms - s.largest_timestamp > settings.retention_ms
            ):
                pass
        if settings.retention_bytes >= 0:
            while self._delete_first(lambda s: self.size - s.size >= settings.retention_bytes):
                pass

    def _delete_first(self, gone: Callable[[Segment], bool]) -> bool:
        """Delete the first segment if it has expired; the log keeps one segment."""
        segment = self._segments[0]
        if not segment.size or not gone(segment):
            return False
        if len(self._segments) == 1:
            self._segments.append(self._new_segment(self.log_end_offset, self._now_ms()))
        self._begin_at(self._segments[1].base_offset)
        return True

    def _new_segment(self, base_offset: int, now_ms: int) -> Segment:
        """Return an empty segment, which keeps the size of its indexes."""
        return Segment(base_offset, now_ms, self.settings.segment_index_bytes)

    def delete(self) -> None:
        """Delete all data and wake the waiting fetches; a fetch session may still have the log."""
        self._segments = [self._new_segment(self.log_end_offset, self._now_ms())]
        self.producers = Producers()
        self.deleted = True
        self.state = object()
        self._wake()

    def _start_at(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.state = object()

    def _begin_at(self, offset: int) -> None:
        self._start_at(offset)
        while len(self._segments) > 1 and self._segments[1].base_offset <= self.log_start_offset:
            del self._segments[0]

    def _append(self, data: bytes) -> int:
        head, now_ms = header(data), self._now_ms()
        last_offset = head.base_offset + head.last_offset_delta
        self._store(
            data, head.base_offset, last_offset, head.max_timestamp, head.leader_epoch, now_ms
        )
        if head.control:
            kind, coordinator_epoch = _marker(data)
            self.producers.ended(head, coordinator_epoch, committed=kind == 1)
        elif head.producer_id >= 0:
            self.producers.appended(head)
        self._wake()
        return head.base_offset

    def _store(
        self, data: bytes, base_offset: int, last_offset: int, timestamp: int, epoch: int,
        now_ms: int,
    ) -> None:  # fmt: skip
        """Append a batch to the last segment, or to a new one."""
        segment = self._segments[-1]
        if segment.is_full_for(len(data), last_offset, timestamp, self.settings, now_ms):
            segment = self._new_segment(base_offset, now_ms)
            self._segments.append(segment)
        interval = self.settings.index_interval_bytes
        segment.append(data, base_offset, last_offset, timestamp, epoch, interval, now_ms)
        self.log_end_offset = last_offset + 1
        self.state = object()

    def _wake(self) -> None:
        for waiter in list(self.waiters.values()):
            waiter()


def _records(stored: StoredBatch) -> Iterator[tuple[int, int]]:
    for batch in LogReader(stored.data, check_crc=False):
        for record in batch.records:
            yield record.timestamp, record.offset


def _marker(data: bytes) -> tuple[int, int]:
    """Return the type (1 commit, 0 abort) and the coordinator epoch of a marker."""
    ((record,),) = (batch.records for batch in LogReader(data, check_crc=False))
    key, value = record.key or b"", record.value or b""
    kind = int.from_bytes(key[_CONTROL_VERSION : _CONTROL_VERSION + 2], "big")
    epoch = value[_CONTROL_VERSION : _CONTROL_VERSION + 4]
    return kind, int.from_bytes(epoch, "big", signed=True)
