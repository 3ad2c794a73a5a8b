"""The data of the 0.9 design in ZooKeeper: topics, groups, and the coordinator of each group.

A group's generation and members are written in one step. Only coordinators watch topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from coterie._core.codec.compression import partition_for

NO_COORDINATOR = -1  # the coordinator has died, and none is elected yet


@dataclass(frozen=True, slots=True)
class StoredMember:
    """A member, as a new coordinator reads it."""

    topics: tuple[str, ...]
    session_timeout_ms: int
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A group's metadata, always written as a whole."""

    generation_id: int = 0
    strategy: str = ""
    members: Mapping[str, StoredMember] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)  # partitions by topic, when assigned


@dataclass
class Store:
    """The nodes, and counts of operations and watch events."""

    brokers: tuple[int, ...]
    live: set[int] = field(default_factory=set)
    topics: dict[str, int] = field(default_factory=dict)
    groups: dict[str, StoredGroup] = field(default_factory=dict)
    coordinators: dict[str, int] = field(default_factory=dict)
    operations: int = 0
    watch_events: int = 0

    def read_group(self, group_id: str) -> StoredGroup:
        """Return a group's metadata; that of a new group is empty."""
        self.operations += 1
        return self.groups.get(group_id, StoredGroup())

    def write_group(self, group_id: str, group: StoredGroup) -> None:
        """Write a group's metadata in one step."""
        self.operations += 1
        self.groups[group_id] = group

    def read_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of partitions of each topic; 0 if it does not exist."""
        counts = {topic: self.topics.get(topic, 0) for topic in sorted({*topics})}
        self.operations += len(counts)
        return counts

    def release(self, groups: Iterable[str], broker: int) -> None:
        """Remove a broker as the coordinator of its groups among these."""
        for group_id in groups:
            if self.coordinators[group_id] == broker:
                self.coordinators[group_id] = NO_COORDINATOR

    def elect(self, group_id: str) -> int | None:
        """Return a group's coordinator; if it has died, elect the next live broker.

        The order of brokers starts at the one that the group's name hashes to.
        """
        coordinator = self.coordinators.get(group_id)
        if coordinator in self.live:
            return coordinator
        start = partition_for(group_id, len(self.brokers))
        order = self.brokers[start:] + self.brokers[:start]
        elected = next((broker for broker in order if broker in self.live), None)
        if elected is not None:
            self.coordinators[group_id] = elected
        return elected
