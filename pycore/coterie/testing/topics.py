"""Topics whose records come at a rate, without an event for each.

Record ``n`` of a partition exists from a time that is computed, so a topic costs nothing until it
is read. Records that a producer appends stand between them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any, NamedTuple

from coterie._core.testing.clients import LogEnds
from coterie.base.arguments import LATEST_MS, text, within
from coterie.errors import ArgumentError, shown


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


def partition_of(value: Any) -> TopicPartition:
    """Return a pair of topic and number as a partition."""
    if not isinstance(value, tuple) or len(value) != 2:
        raise ArgumentError(f"a partition must be a pair of topic and number, not {shown(value)}")
    topic, number = value
    return TopicPartition(text(topic, "a topic"), within(number, "a partition", 0, 2**31 - 1))


class ConsumerRecord(NamedTuple):
    """A record as a consumer gets it; ``timestamp`` in ms."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...] = ()


class _Phase(NamedTuple):
    """A time of steady production: records from number ``first``, every ``interval_ms``."""

    first: int
    first_ms: int
    interval_ms: int


class _Appended(NamedTuple):
    """A record of a producer; ``committed`` None: a marker that ends a transaction."""

    timestamp: int
    key: Any
    value: Any
    producer_id: int | None = None
    headers: Any = ()
    control: bool = False


class PartitionLog(LogEnds):
    """The log of a partition.

    Attributes
    ----------
    log_start_offset : int
        The first offset that has not been deleted.
    """

    def __init__(self, topic: str, partition: int) -> None:
        self._phases: list[_Phase] = []  # past ones, by their first numbers
        self._aborted: list[tuple[int, int, int]] = []  # producer id, first offset, last offset

    # What is produced

    def produce(self, first_ms: int, interval_ms: int | None, now_ms: int) -> None:
        """Produce a record at ``first_ms`` and every ``interval_ms`` after it; None: stop."""
        self._stopped = self.end_offset(now_ms) - len(self._offsets)
        if self._phase is not None:
            self._phases.append(self._phase)
            self._phase = None
        if interval_ms is not None:
            self._phase = _Phase(self._stopped, first_ms, interval_ms)

    def append(
        self, now_ms: int, key: Any, value: Any, producer_id: int | None = None, headers: Any = ()
    ) -> int:
        """Append a record now; return its offset. With a producer id it is transactional."""
        offset = self._append(now_ms, _Appended(now_ms, key, value, producer_id, headers))
        if producer_id is not None:
            self._open.setdefault(producer_id, offset)
        return offset

    def end_transaction(self, now_ms: int, producer_id: int, *, committed: bool) -> None:
        """Append the marker that ends a producer's transaction, if it has one here."""
        first = self._open.pop(producer_id, None)
        if first is not None:
            marker = _Appended(now_ms, None, None, producer_id, control=True)
            offset = self._append(now_ms, marker)
            if not committed:
                self._aborted.append((producer_id, first, offset))

    def _append(self, now_ms: int, record: _Appended) -> int:
        offset = self.end_offset(now_ms)
        self._offsets.append(offset)
        self._appended.append(record)
        return offset

    # What can be read

    def timestamp(self, offset: int) -> int:
        """Return the timestamp of a record, ms."""
        at = bisect_left(self._offsets, offset)
        if at < len(self._offsets) and self._offsets[at] == offset:
            appended: _Appended = self._appended[at]
            return appended.timestamp
        return self._generated_ms(offset - at)

    def _generated_ms(self, number: int) -> int:
        phase: _Phase | None = self._phase
        if phase is None or number < phase.first:
            phase = self._phases[bisect_right(self._phases, number, key=lambda p: p.first) - 1]
        return phase.first_ms + (number - phase.first) * phase.interval_ms

    def offset_for_time(self, at_ms: int, end: int) -> tuple[int, int] | None:
        """Return offset and timestamp of the first record not before a time; None: there is none.

        Timestamps rise with offsets here.
        """
        low, high = self.log_start_offset, end
        while low < high:
            middle = (low + high) // 2
            if self.timestamp(middle) < at_ms:
                low = middle + 1
            else:
                high = middle
        return (low, self.timestamp(low)) if low < end else None

    def read(
        self, offset: int, end: int, most: int, *, committed: bool
    ) -> tuple[list[ConsumerRecord], int]:
        """Return at most so many records from an offset, and the offset to go on from.

        Markers are left out, and under ``committed`` the records of aborted transactions.
        """
        if not self._offsets:  # as in most topics
            stop = min(end, offset + most)
            return [self._generated_record(n, n) for n in range(offset, stop)], max(stop, offset)
        records: list[ConsumerRecord] = []
        while offset < end and len(records) < most:
            record = self._record(offset, committed)
            if record is not None:
                records.append(record)
            offset += 1
        return records, offset

    def offsets(self, end: int) -> list[int]:
        """Return the offsets of the records that ``read_committed`` reads before an end."""
        offsets = range(self.log_start_offset, end)
        if not self._offsets:
            return [*offsets]
        return [offset for offset in offsets if self._record(offset, committed=True) is not None]

    def _record(self, offset: int, committed: bool) -> ConsumerRecord | None:
        at = bisect_left(self._offsets, offset)
        if at < len(self._offsets) and self._offsets[at] == offset:
            timestamp, key, value, producer_id, headers, control = self._appended[at]
            if control or (committed and self._is_aborted(producer_id, offset)):
                return None
            place = self.topic, self.partition, offset
            return ConsumerRecord(*place, timestamp, key, value, headers)
        return self._generated_record(offset, offset - at)

    def _generated_record(self, offset: int, number: int) -> ConsumerRecord:
        topic, partition, at_ms = self.topic, self.partition, self._generated_ms(number)
        key, value = f"{topic}-{partition}-{number % 3}", f"{topic}-{partition}-{number}"
        return ConsumerRecord(topic, partition, offset, at_ms, key, value)

    def _is_aborted(self, producer_id: int | None, offset: int) -> bool:
        return any(
            producer_id == aborted and first <= offset <= last
            for aborted, first, last in self._aborted
        )


Interval = int | Callable[[str, int], int | None] | None


def whole_interval(interval_ms: Any) -> int | None:
    """Return an interval of records that was checked; None: there are none."""
    return None if interval_ms is None else within(interval_ms, "interval_ms", 1, LATEST_MS)


class Topic:
    """A topic.

    Parameters
    ----------
    name : str
        Its name.
    partitions : int
        How many partitions it has.
    now_ms : int
        The time, ms.
    interval_ms : int, function or None
        Each partition gets a record this often; the partitions take turns. A function of topic and
        partition gives each one its own interval. None: only producers give it records.

    Attributes
    ----------
    logs : list of PartitionLog
        Its partitions.
    """

    def __init__(
        self, name: str, partitions: int, now_ms: int, interval_ms: Interval = None
    ) -> None:
        self.name, self.interval_ms = name, interval_ms
        self.logs: list[PartitionLog] = []
        self.add_partitions(partitions, now_ms)

    def add_partitions(self, total: int, now_ms: int) -> None:
        """Give it more partitions; ``total`` is their number then."""
        for partition in range(len(self.logs), total):
            log = PartitionLog(self.name, partition)
            self.logs.append(log)
            self._produce(log, total, now_ms)

    def produce(self, interval_ms: Interval, now_ms: int) -> None:
        """Produce records this often from now on; None: stop."""
        self.interval_ms = interval_ms
        for log in self.logs:
            self._produce(log, len(self.logs), now_ms)

    def _produce(self, log: PartitionLog, total: int, now_ms: int) -> None:
        interval_ms = self.interval_ms
        if callable(interval_ms):
            try:
                interval_ms = whole_interval(interval_ms(self.name, log.partition))
            except (TypeError, ValueError) as error:
                raise ArgumentError(
                    f"interval_ms, of {self.name}-{log.partition}: {error}"
                ) from error
        turn_ms = 0 if interval_ms is None else (log.partition + 1) * interval_ms // total
        log.produce(now_ms + max(turn_ms, 1), interval_ms, now_ms)
