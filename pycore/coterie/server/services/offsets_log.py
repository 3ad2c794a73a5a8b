"""The log of the group coordinator: record batches in the partitions of ``__consumer_offsets``.

Clients may read it like any other topic. The hash of a group id selects the group's partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from coterie._core.codec.batch import LogReader, encode_sized
from coterie._core.codec.compression import partition_for
from coterie.errors import CoterieError
from coterie.server.context import Context
from coterie.server.services.partition import PartitionLog
from coterie.server.services.topics import OFFSETS_TOPIC, Topics
from coterie.values import Error

# the core's form of a batch: base offset, producer id, epoch, transactional, control, records
Row = tuple[int, int, int, bool, bool, tuple[tuple[Any, "bytes | None"], ...]]
_SHORT = 256


class OffsetsLog:
    """Writes the coordinator's records and reads them back for a load."""

    def __init__(self, context: Context, topics: Topics) -> None:
        self._context, self._topics = context, topics
        self.count: int = context.config["offsets.topic.num.partitions"]
        # The same groups recur; a cache lookup is cheaper than the hash.
        self._known_partition_for = lru_cache(maxsize=65536)(self._partition_for)

    def partition_for(self, group_id: str) -> int:
        """Return the partition of a group; long ids are not cached."""
        known = self._known_partition_for if len(group_id) <= _SHORT else self._partition_for
        return known(group_id)

    def _partition_for(self, group_id: str) -> int:
        return partition_for(group_id, self.count)

    def make(self) -> None:
        """Create the topic if needed, as a broker does for the first FindCoordinator."""
        self._topics.internal(OFFSETS_TOPIC)

    @property
    def max_message_bytes(self) -> int:
        """The size of the largest batch that the topic takes."""
        log = self.partition(0)
        assert log is not None
        return log.settings.max_message_bytes

    def partition(self, number: int) -> PartitionLog | None:
        """Return the log of one partition; None if the topic has fewer partitions."""
        self.make()
        return self._topics.partition(OFFSETS_TOPIC, number)

    def write(
        self,
        group_id: str | None,
        records: bytes,
        count: int,
        producer_id: int,
        epoch: int,
        transactional: bool,
        control: bool,
    ) -> int:
        """Append a batch and return its base offset; markers are ignored, see `write_markers`."""
        if control or group_id is None:
            return 0
        number = self.partition_for(group_id)
        log = self.partition(number)
        if log is None:
            raise CoterieError(f"{OFFSETS_TOPIC} has no partition {number}; the append failed")
        offset: int
        if producer_id < 0 and not transactional:
            offset = log.append_sized(records, count)
            return offset
        batch = encode_sized(
            records,
            count,
            0,
            self._context.now_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            transactional=transactional,
        )
        offset = log.append_own(batch)
        return offset

    def write_markers(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,
        partitions: Iterable[int],
        transaction_version: int,
    ) -> dict[int, Error]:
        """Append the markers that end a transaction; return the error of each partition."""
        now_ms = self._context.now_ms
        logs = {number: self.partition(number) for number in partitions}
        producer = producer_id, producer_epoch
        marker = *producer, coordinator_epoch, committed, now_ms, transaction_version
        return {
            number: Error.UNKNOWN_TOPIC_OR_PARTITION if log is None else log.append_marker(*marker)
            for number, log in logs.items()
        }

    def rows(self) -> Iterator[Row]:
        topic = self._topics.get(OFFSETS_TOPIC)
        for log in () if topic is None else topic.partitions:
            for batch in LogReader(log.data()):
                records = tuple((record.key, record.value) for record in batch.records)
                yield (
                    batch.base_offset,
                    batch.producer_id,
                    batch.producer_epoch,
                    batch.is_transactional,
                    batch.is_control,
                    records,
                )
