"""A group of a newer protocol, record by record: what it is after each record of its log.

The core replays consumer groups, as a coordinator does; the records of share and streams groups
are collected (``consumer_protocol_groups``). Memory grows with the members of the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from coterie._core.codec.schema import decode_key
from coterie.base.caching import cached_property
from coterie.errors import CorruptData
from coterie.insight.records.group_log import GroupRecord
from coterie.log.joined import STEP_BITS
from coterie.state.consumer_protocol_groups import (
    EPOCH_KEYS,
    PROTOCOLS,
    REPLAYED,
    TYPE_OF,
    GroupRecords,
    consumer_member,
    new_consumer_group,
    other_member,
)

if TYPE_CHECKING:
    from coterie._core.coordinator.consumer.group import ReplayedGroup

Row = dict[str, Any]


class GroupReplay:
    """A group of a newer protocol as the records so far have it."""

    def __init__(self) -> None:
        self.others = GroupRecords()  # of a share or streams group

    @cached_property
    def consumer(self) -> ReplayedGroup:
        return new_consumer_group()

    def take(self, record: GroupRecord) -> str | None:
        """Take the next record; return its member id or regular expression, None: it has neither.

        Raises
        ------
        CorruptData
            The record cannot be read, and changes nothing.
        """
        if record.version in REPLAYED:
            name = self.consumer.take(record.key, record.value)
        else:
            key = decode_key(record.key)["data"]
            self.others.add(record.version, key, record.key, record.value, record.log_offset)
            name = key.get("memberId")
        if record.version in EPOCH_KEYS and record.value is None:  # nothing outlives the group
            self.others = GroupRecords()
            self.__dict__.pop("consumer", None)
        return name

    def epoch(self, version: int) -> tuple[int, int]:
        """Return the epoch and the metadata hash of the group to which a key version belongs.

        The hash is 0 if the group reads no topic, or if a broker before Kafka 4.1 wrote the epoch.
        """
        kind = TYPE_OF[version]
        if kind == "consumer":
            return self.consumer.group_epoch, self.consumer.metadata_hash
        value = self.others.values.get(PROTOCOLS[kind].epoch, {})
        return value.get("epoch", 0), value.get("metadataHash", 0)

    def member(self, version: int, member_id: str) -> Row | None:
        """Return the row of a member of the group to which a key version belongs; None: no such."""
        kind = TYPE_OF[version]
        if kind == "consumer":
            row = self.consumer.member(member_id)
            return None if row is None else consumer_member(row)
        if not self.others.of_member(PROTOCOLS[kind].member, member_id):
            return None
        return other_member(kind, self.others, member_id)


def replay(records: Iterable[GroupRecord]) -> Iterator[tuple[GroupRecord, str | None, GroupReplay]]:
    """Yield each record of a group, its member id or regular expression, and the group after it.

    In a joined log the group begins anew in each partition (``coterie.log.joined``). Records that
    cannot be read are passed over: the fold reports them as faults.
    """
    group, place = GroupReplay(), 0
    for record in records:
        if record.log_offset >> STEP_BITS > place:
            group, place = GroupReplay(), record.log_offset >> STEP_BITS
        try:
            name = group.take(record)
        except CorruptData:
            continue
        yield record, name, group
