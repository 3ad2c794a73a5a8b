"""Racks of members and of partitions: who reads from a replica in its own rack (KIP-881).

Source: AbstractPartitionAssignor.useRackAwareAssignment, AbstractStickyAssignor.RackInfo.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from coterie.base.consumer_protocol import Subscription
from coterie.testing.assignors.base import Racks, TopicPartition


def member_racks(subscriptions: Mapping[str, Subscription]) -> dict[str, str]:
    """Return the rack of each member that has one."""
    return {member: each.rack_id for member, each in subscriptions.items() if each.rack_id}


def partition_racks(topic: str, total: int, racks: Racks) -> list[frozenset[str]]:
    """Return the racks of each partition's replicas; of one that has none, no rack."""
    known = racks.get(topic, ())
    return [known[number] if number < len(known) else frozenset() for number in range(total)]


def racks_matter(of_members: Collection[str], of_partitions: Collection[frozenset[str]]) -> bool:
    """Whether members have racks that some partitions have, and others have not."""
    every = frozenset().union(*of_partitions)
    return not every.isdisjoint(of_members) and any(racks != every for racks in of_partitions)


class RackMatch:
    """The racks that a sticky assignment looks at; none, if they do not matter."""

    def __init__(
        self,
        subscriptions: Mapping[str, Subscription],
        partitions: Mapping[str, int],
        racks: Racks,
    ) -> None:
        self._of_member = member_racks(subscriptions)
        self._of_partition: dict[TopicPartition, frozenset[str]] = {}
        if self._of_member and racks:
            self._of_partition = {
                (topic, number): each
                for topic, total in partitions.items()
                for number, each in enumerate(partition_racks(topic, total, racks))
            }
        if not racks_matter(set(self._of_member.values()), self._of_partition.values()):
            self._of_member, self._of_partition = {}, {}
        self._members = Counter(self._of_member.values())

    def __bool__(self) -> bool:
        return bool(self._of_member)

    def mismatch(self, member: str, partition: TopicPartition) -> bool:
        """Whether a member has a rack, and a partition has no replica there."""
        rack = self._of_member.get(member)
        return rack is not None and rack not in self._of_partition.get(partition, ())

    def fewest_first(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Sort partitions by the number of members in their racks."""
        return sorted(
            partitions, key=lambda p: sum(self._members[r] for r in self._of_partition.get(p, ()))
        )

    def next_member(self, partition: TopicPartition, members: Sequence[str], first: int) -> int:
        """Return the place of the next member in a rack of a partition, in a circle; -1: none."""
        racks = self._of_partition.get(partition, ())
        for step in range(len(members)):
            place = (first + step) % len(members)
            if self._of_member.get(members[place]) in racks:
                return place
        return -1
