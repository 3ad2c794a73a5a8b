"""What ZooKeeper holds for the 0.9 design: topics, groups, and which broker coordinates a group.

A group's generation and members are written in one step. Only coordinators watch topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from coterie._core.codec.checksum import partition_for

NOBODY = -1  # coordinates a group whose coordinator has died, until one is elected


@dataclass(frozen=True, slots=True)
class StoredMember:
    """A member, as a new coordinator finds it."""

    topics: tuple[str, ...]
    session_timeout_ms: int
    partitions: tuple[tuple[str, int], ...]
    host: str  # of its connection: what a new id is made from


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A group's metadata: written whole."""

    generation_id: int = 0
    strategy: str = ""
    members: Mapping[str, StoredMember] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)  # of each topic, when assigned


@dataclass
class Store:
    """The nodes, with counts of operations and of watch events."""

    brokers: tuple[int, ...]
    live: set[int] = field(default_factory=set)
    topics: dict[str, int] = field(default_factory=dict)
    groups: dict[str, StoredGroup] = field(default_factory=dict)
    coordinators: dict[str, int] = field(default_factory=dict)
    operations: int = 0
    watch_events: int = 0

    def read_group(self, group_id: str) -> StoredGroup:
        """Return a group's metadata, of a new group none."""
        self.operations += 1
        return self.groups.get(group_id, StoredGroup())

    def write_group(self, group_id: str, group: StoredGroup) -> None:
        """Write a group's metadata in one step."""
        self.operations += 1
        self.groups[group_id] = group

    def read_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """Return how many partitions these topics have now, 0 for one that is not there."""
        found = {topic: self.topics.get(topic, 0) for topic in sorted({*topics})}
        self.operations += len(found)
        return found

    def release(self, groups: Iterable[str], broker: int) -> None:
        """Leave those of these groups that a broker coordinated without a coordinator."""
        for group_id in groups:
            if self.coordinators[group_id] == broker:
                self.coordinators[group_id] = NOBODY

    def elect(self, group_id: str) -> int | None:
        """Find the coordinator: who it is, or the next live broker where it has died.

        The order of brokers starts at the one that the group's name hashes to.
        """
        now = self.coordinators.get(group_id)
        if now in self.live:
            return now
        start = partition_for(group_id, len(self.brokers))
        order = self.brokers[start:] + self.brokers[:start]
        found = next((one for one in order if one in self.live), None)
        if found is None:
            return None
        self.coordinators[group_id] = found
        return found
