"""The state of share groups' partitions, from the log of ``__share_group_state`` beside a log.

A record is a snapshot of a partition's state, or an update of the state before. The state of a
record in flight is only known from then on when its delivery ended, or failed: who has acquired it
is in the memory of the partition's leader. Cost: each record is decoded once.
Sources: ShareCoordinatorShard.replay, ShareGroupOffset.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from coterie._core.codec.batch import LogReader
from coterie._core.codec.schema import decode_share_key, decode_share_value
from coterie.errors import CorruptData
from coterie.log.folders import Listing, read_segment

_SNAPSHOT = 0  # version of its key; an update has 1
_UNKNOWN = -1  # of a start offset: the partition is not initialized; of a count: as before 4.2
Place = tuple[str, str, int]  # group id, topic id, partition


class SharePartition(NamedTuple):
    """The state of a share group's partition.

    Attributes
    ----------
    leader_epoch : int or None
    start_offset : int or None
        The first offset whose delivery has not ended; None: not set yet, nor is the rest.
    delivery_complete_count : int or None
        The offsets from there on whose delivery has ended; None: not known, as before Kafka 4.2.
    end_offset : int
        The offset after the last one with a state; 0: there is none.
    """

    leader_epoch: int | None
    start_offset: int | None
    delivery_complete_count: int | None
    end_offset: int

    @property
    def in_flight_records(self) -> int | None:
        """The number of offsets from the start offset to the last one with a state."""
        if self.start_offset is None:
            return None
        return max(self.end_offset - self.start_offset, 0)


UNSET = SharePartition(None, None, None, 0)


class ShareStates:
    """The states that a log leaves, as of a time.

    Attributes
    ----------
    partitions : dict
        (group id, topic id, partition) -> SharePartition.
    faults : list of str
        The places that cannot be read.
    """

    def __init__(self, listing: Listing, at_ms: int | None = None) -> None:
        self.partitions: dict[Place, SharePartition] = {}
        self.faults: list[str] = []
        for name, offset, timestamp_ms, key, value in self._records(listing):
            if at_ms is None or timestamp_ms <= at_ms:
                try:
                    self._take(key, value)
                except CorruptData as error:
                    self.faults.append(f"{name}: offset {offset}: {error}")

    def _records(self, listing: Listing) -> Iterator[tuple[str, int, int, bytes, bytes | None]]:
        for segment in listing.segments:
            reader = LogReader(read_segment(segment, in_memory=True))
            for batch in reader:
                for record in () if batch.is_control else batch.records:
                    row = record.offset, record.timestamp, record.key or b"", record.value
                    yield segment.name, *row
            self.faults += [
                f"{segment.name}: position {fault.position}: {fault}" for fault in reader.faults
            ]

    def _take(self, raw_key: bytes, raw_value: bytes | None) -> None:
        key = decode_share_key(raw_key)
        if "error" in key:
            raise CorruptData(f"{key['error']} {key['version']} of a key", kind="key", position=0)
        place = key["data"]["groupId"], key["data"]["topicId"], key["data"]["partition"]
        value: dict[str, Any] | None = decode_share_value(key["version"], raw_value)
        before = self.partitions.pop(place, None)
        if value is None:
            return
        fields = value["data"]
        if key["version"] == _SNAPSHOT:
            before = None
        start: int | None = fields["startOffset"]
        if start == _UNKNOWN:
            start = None if before is None else before.start_offset
        epoch, count = fields["leaderEpoch"], fields.get("deliveryCompleteCount", _UNKNOWN)
        ends = [batch["lastOffset"] + 1 for batch in fields["stateBatches"]]
        self.partitions[place] = SharePartition(
            before.leader_epoch if before is not None and epoch == _UNKNOWN else epoch,
            start,
            None if count == _UNKNOWN else count,
            max(ends, default=0) if before is None else max(before.end_offset, *ends, 0),
        )
