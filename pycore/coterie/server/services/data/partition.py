"""A partition's log, in memory: what was written, as bytes, and what follows from it.

Source: UnifiedLog, LocalLog and Partition of Kafka 3.9, for a leader without followers: all that
is written is at once below the high watermark.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from coterie._core.codec.reader import LogReader
from coterie._core.codec.writer import encode_batch, encode_marker, encode_sized
from coterie.server.services.data.batches import header, stamped
from coterie.server.services.data.checks import Refused, checked
from coterie.server.services.data.producers import Aborted, Producers
from coterie.server.services.data.segment import Kept, Segment
from coterie.server.services.data.settings import LogSettings
from coterie.values import Error

__all__ = ["Appended", "Fetched", "PartitionLog"]

_CONTROL_VERSION = 2  # bytes in front of a marker's type, and of its coordinator epoch


class Appended(NamedTuple):
    """What became of a client's write; ``append_time_ms`` -1: the batch has its own times."""

    base_offset: int
    append_time_ms: int
    log_start_offset: int


class Fetched(NamedTuple):
    """What a read gave: whole batches but for the last.

    ``behind``: aborted transactions that begin below it belong to what was read; the offset of the
    read itself where there are none. ``cut``: not even the first batch is whole.
    """

    records: bytes
    behind: int
    cut: bool


class PartitionLog:
    """The data of one partition.

    Attributes
    ----------
    log_start_offset : int
        What lies below was deleted.
    leader_epochs : list of (epoch, start offset)
        When each leader began; the last is the leader's now.
    producers
        Idempotent and transactional producers.
    waiters : dict
        Functions that are called after each write, by whoever waits for one.
    state : object
        Another one after each change of where the data begin and end, or whether they are there:
        who has seen this one need not look again.
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
        self._segments = [Segment(0, now_ms())]

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader."""
        return self.leader_epochs[-1][0]

    @property
    def high_watermark(self) -> int:
        """Where the next record will lie."""
        return self.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """Up to where no transaction is open."""
        first = self.producers.first_open_offset()
        return self.log_end_offset if first is None else max(first, self.log_start_offset)

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return sum(segment.size for segment in self._segments)

    def data(self) -> bytes:
        """Return all batches."""
        return b"".join(kept.data for kept in self._kept())

    def produce(self, data: bytes) -> Appended:
        """Write what a client sent, after checks.

        Raises
        ------
        Refused
            What Kafka refuses.
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
        """Write a batch of the server's own; returns the offset of its first record."""
        return self._append(stamped(batch, self.log_end_offset, self.leader_epoch))

    def append_sized(self, records: bytes, count: int) -> int:
        """Write records of the server's own at the present time, as ``encode_sized`` takes them."""
        base_offset, now_ms = self.log_end_offset, self._now_ms()
        epoch = self.leader_epoch
        batch = encode_sized(records, count, base_offset, now_ms, leader_epoch=epoch)
        self._keep(batch, base_offset, base_offset + count - 1, now_ms, epoch, now_ms)
        self._wake()
        return base_offset

    def append_records(self, records: Iterable[tuple[int, bytes | None, bytes | None]]) -> int:
        """Write records of the server's own: (timestamp in ms, key, value)."""
        numbered = [(n, *record) for n, record in enumerate(records)]
        return self.append_own(encode_batch(numbered))

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,
        timestamp_ms: int,
    ) -> Error:
        """End a producer's transaction; INVALID_PRODUCER_EPOCH or 52 if it comes too late."""
        error = self.producers.marker_refusal(producer_id, producer_epoch, coordinator_epoch)
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

    def has_ongoing_transaction(self, producer_id: int) -> bool:
        """Whether a producer has a transaction open here: Kafka 3.9 does not ask its epoch."""
        return self.producers.in_transaction(producer_id)

    def read(self, offset: int, max_bytes: int, end: int, *, whole_first: bool) -> Fetched | None:
        """Read from the batch that holds an offset, up to ``end``, cut at ``max_bytes``.

        A read ends with the segment in which it begins. ``whole_first``: the first batch comes
        whole, however large. None: there is no such offset.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            return None
        nothing = Fetched(b"", offset, False)
        if offset >= end:
            return nothing
        number = 0
        if len(self._segments) > 1:
            number = bisect_right(self._segments, offset, key=lambda s: s.base_offset) - 1
            number = max(number, 0)
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
        taken: list[bytes] = []
        size = 0
        for kept in segment.since(at):
            if size >= room or kept.base_offset >= end:
                break
            taken.append(kept.data[: room - size])
            size += len(taken[-1])
        behind = self._reached(number, first.position + size) if self.producers.aborted else offset
        return Fetched(b"".join(taken), behind, cut and not whole_first)

    def _reached(self, number: int, position: int) -> int:
        """Return the offset that a read up to this position of a segment reaches, by its index."""
        behind = self._segments[number].bound_behind(position)
        if behind is not None:
            return behind
        last = number + 1 == len(self._segments)
        return self.log_end_offset if last else self._segments[number + 1].base_offset

    def readable(self, offset: int, end: int) -> int:
        """Count the bytes from an offset up to another, from the batch that holds the first on."""
        return sum(len(kept.data) for kept in self._kept(offset) if kept.base_offset < end)

    def aborted(self, offset: int, behind: int) -> list[Aborted]:
        """Return the aborted transactions with records between two offsets."""
        return [
            each
            for each in self.producers.aborted
            if each.last_offset >= offset and each.first_offset < behind
        ]

    def offset_at(self, timestamp: int) -> tuple[int, int, int] | None:
        """Find the first record of a time or later: its time, offset and leader epoch."""
        for segment in self._segments:
            if segment.largest_timestamp < timestamp:
                continue
            for kept in segment.batches:
                if kept.max_timestamp >= timestamp and kept.last_offset >= self.log_start_offset:
                    for record in _records(kept):
                        if record[0] >= timestamp and record[1] >= self.log_start_offset:
                            return record[0], record[1], kept.leader_epoch
            return None
        return None

    def latest(self) -> tuple[int, int, int] | None:
        """Find the first record with the greatest time: that time, its offset, leader epoch."""
        segment = max(self._segments, key=lambda each: each.max_timestamp)
        for kept in segment.batches:
            if kept.max_timestamp == segment.max_timestamp:
                offsets = [o for time, o in _records(kept) if time == kept.max_timestamp]
                if offsets:
                    return kept.max_timestamp, offsets[0], kept.leader_epoch
        return None

    def segment_starts(self) -> list[tuple[int, int]]:
        """Return where each segment begins, and when it was last written; old ListOffsets' way."""
        found = [
            (max(each.base_offset, self.log_start_offset), each.modified_ms)
            for each in self._segments
        ]
        if self._segments[-1].size:
            found.append((self.log_end_offset, self._now_ms()))
        return found

    def epoch_refusal(self, leader_epoch: int) -> Error:
        """Say what is wrong with the leader's epoch as a client knows it; below 0: it does not."""
        if leader_epoch < 0 or leader_epoch == self.leader_epoch:
            return Error.NONE
        late = leader_epoch < self.leader_epoch
        return Error.FENCED_LEADER_EPOCH if late else Error.UNKNOWN_LEADER_EPOCH

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the last epoch up to this one, and where it ended; (-1, -1): not known."""
        if epoch == self.leader_epoch:
            return epoch, self.log_end_offset
        later = [start for known, start in self.leader_epochs if known > epoch]
        if epoch < 0 or not later:
            return -1, -1
        before = [known for known, _ in self.leader_epochs if known <= epoch]
        return (before[-1] if before else epoch), later[0]

    def delete_below(self, offset: int) -> int:
        """Delete records below an offset, -1: all; returns where the log begins now.

        They cannot be read any more; their segments go when retention looks next.

        Raises
        ------
        Refused
            The offset does not exist, or the topic's data are only compacted.
        """
        if not self.settings.deleted:
            raise Refused(Error.POLICY_VIOLATION)
        below = self.high_watermark if offset == -1 else offset
        if not 0 <= below <= self.high_watermark:
            raise Refused(Error.OFFSET_OUT_OF_RANGE)
        self._start_at(below)
        return self.log_start_offset

    def retain(self) -> None:
        """Delete the segments that are too old or too many."""
        settings, now_ms = self.settings, self._now_ms()
        self._begin_at(self.log_start_offset)
        if not settings.deleted:
            return
        if settings.retention_ms >= 0:
            while self._goes(lambda s: now_ms - s.largest_timestamp > settings.retention_ms):
                pass
        if settings.retention_bytes >= 0:
            while self._goes(lambda s: self.size - s.size >= settings.retention_bytes):
                pass

    def _goes(self, gone: Callable[[Segment], bool]) -> bool:
        """Delete the first segment if it is to go; the last one leaves an empty one behind."""
        segment = self._segments[0]
        if not segment.size or not gone(segment):
            return False
        if len(self._segments) == 1:
            self._segments.append(Segment(self.log_end_offset, self._now_ms()))
        self._begin_at(self._segments[1].base_offset)
        return True

    def delete(self) -> None:
        """Drop the data, and wake who waits for a write: a fetch session may know the log yet."""
        self._segments, self.producers = [Segment(self.log_end_offset, self._now_ms())], Producers()
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
        self._keep(
            data, head.base_offset, last_offset, head.max_timestamp, head.leader_epoch, now_ms
        )
        if head.control:
            kind, coordinator_epoch = _marker(data)
            self.producers.ended(head, coordinator_epoch, committed=kind == 1)
        elif head.producer_id >= 0:
            self.producers.appended(head)
        self._wake()
        return head.base_offset

    def _keep(
        self, data: bytes, base_offset: int, last_offset: int, timestamp: int, epoch: int,
        now_ms: int,
    ) -> None:  # fmt: skip
        """Put a batch at the end of the last segment, or of a new one."""
        segment = self._segments[-1]
        if segment.is_full_for(len(data), last_offset, timestamp, self.settings, now_ms):
            segment = Segment(base_offset, now_ms)
            self._segments.append(segment)
        interval = self.settings.index_interval_bytes
        segment.append(data, base_offset, last_offset, timestamp, epoch, interval, now_ms)
        self.log_end_offset = last_offset + 1
        self.state = object()

    def _wake(self) -> None:
        """Call who waits for a write."""
        for waiter in list(self.waiters.values()):
            waiter()

    def _kept(self, offset: int = 0) -> Iterator[Kept]:
        """Yield the batches from the one that holds an offset on."""
        for segment in self._segments:
            yield from segment.since(segment.index_of(offset))


def _records(kept: Kept) -> Iterator[tuple[int, int]]:
    """Yield each record's time and offset."""
    for batch in LogReader(kept.data, check_crc=False):
        for record in batch.records:
            yield record.timestamp, record.offset


def _marker(data: bytes) -> tuple[int, int]:
    """Read a marker: 1 commit, 0 abort; and the epoch of its coordinator."""
    record = next(iter(LogReader(data, check_crc=False))).records[0]
    key, value = record.key or b"", record.value or b""
    kind = int.from_bytes(key[_CONTROL_VERSION : _CONTROL_VERSION + 2], "big")
    epoch = value[_CONTROL_VERSION : _CONTROL_VERSION + 4]
    return kind, int.from_bytes(epoch, "big", signed=True)
