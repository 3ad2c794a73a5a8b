"""The algorithm of the sticky assignors if all members subscribe to the same topics.

Source: AbstractStickyAssignor.ConstrainedAssignmentBuilder.
"""

from __future__ import annotations

from coterie.base.ordering import java_order, place_order
from coterie.errors import CoterieError
from coterie.testing.assignors.base import TopicPartition
from coterie.testing.assignors.racks import RackMatch
from coterie.testing.assignors.steps import unassigned


class ConstrainedAssignment:
    """Each member gets the quota (all partitions by all members), or one partition more.

    Attributes
    ----------
    plan : dict
        The partitions of each member.
    transferred : dict
        The new owner of each partition that another member has to give up.
    """

    def __init__(
        self,
        partitions: dict[str, int],
        owned: dict[str, list[TopicPartition]],
        disputed: set[TopicPartition],
        racks: RackMatch,
    ) -> None:
        self.partitions, self.owned, self.disputed = partitions, owned, disputed
        self.racks = racks
        self.quota, self.above_quota = divmod(sum(partitions.values()), len(owned))
        self.max_quota = self.quota + bool(self.above_quota)
        self.full = 0  # members that have one partition more than the quota
        self.below: list[str] = []  # members that have less than the quota
        self.at_quota: list[str] = []  # members that have it, and may get one more
        self.revoked: dict[TopicPartition, str] = {}
        self.plan: dict[str, list[TopicPartition]] = {member: [] for member in owned}
        self.transferred: dict[TopicPartition, str] = {}

    def build(self) -> dict[str, list[TopicPartition]]:
        """Return the partitions of each member."""
        for member in self.owned:
            self._keep(member)
        every = [
            (topic, number)
            for topic in sorted(self.partitions, key=java_order)
            for number in range(self.partitions[topic])
        ]
        retained = sorted((p for plan in self.plan.values() for p in plan), key=place_order)
        self.below.sort(key=java_order)
        self.at_quota.sort(key=java_order)
        left = unassigned(every, retained)
        if self.racks:
            left = self._fill_racks(self.racks.fewest_first(left))
        self._fill(left)
        below = [member for member in self.below if len(self.plan[member]) != self.quota]
        if self.below and (self.full != self.above_quota or below):
            raise CoterieError(f"the sticky assignor has no partitions left for {self.below}")
        return self.plan

    def _keep(self, member: str) -> None:
        """Let a member keep what it owns, up to its quota."""
        dropped = self.disputed
        if self.racks:
            mismatched = {p for p in self.owned[member] if self.racks.mismatch(member, p)}
            self.revoked |= dict.fromkeys(mismatched, member)
            dropped = dropped | mismatched
        owned = [partition for partition in self.owned[member] if partition not in dropped]
        owned.sort(key=lambda partition: (partition[1], java_order(partition[0])))
        if len(owned) < self.quota:
            size = len(owned)
            self.below.append(member)
        elif len(owned) >= self.max_quota and self.full < self.above_quota:
            size = self.max_quota
            self.full += 1
            if self.full == self.above_quota:
                self.at_quota.clear()
        else:
            size = self.quota
            if self.full < self.above_quota:
                self.at_quota.append(member)
        self.plan[member] += owned[:size]
        self.revoked |= dict.fromkeys(owned[size:], member)

    def _fill_racks(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Give partitions to members in their racks; return those that no such member could get."""
        turn, left = 0, []
        for partition in partitions:
            place = self.racks.next_member(partition, self.below, turn)
            if place >= 0:
                member = self.below[place]
                count = len(self.plan[member]) + 1
                if count >= self.quota:
                    del self.below[place]
                    if count < self.max_quota and self.full < self.above_quota:
                        self.at_quota.append(member)
                else:
                    place += 1
                turn = place % len(self.below) if self.below else 0
            else:
                place = self.racks.next_member(partition, self.at_quota, 0)
                if place < 0:
                    left.append(partition)
                    continue
                member = self.at_quota[place]
                if len(self.plan[member]) + 1 == self.max_quota:
                    del self.at_quota[place]
                    self.full += 1
                    if self.full == self.above_quota:
                        self.at_quota.clear()
            self._give(partition, member)
        return left

    def _fill(self, partitions: list[TopicPartition]) -> None:
        """Give the partitions to one member below its quota after the other, then one more each."""
        turn = 0
        for partition in partitions:
            if not self.below and not self.at_quota:
                raise CoterieError(f"the sticky assignor has no member left for {partition}")
            if self.below:
                turn %= len(self.below)
                member = self.below[turn]
                turn += 1
            else:
                member = self.at_quota.pop(0)
            self._give(partition, member)
            count = len(self.plan[member])
            if count == self.quota:
                turn -= 1
                del self.below[turn]
                self.at_quota.append(member)
            elif count == self.max_quota:
                self.full += 1

    def _give(self, partition: TopicPartition, member: str) -> None:
        self.plan[member].append(partition)
        if self.revoked.get(partition, member) != member or partition in self.disputed:
            self.transferred[partition] = member
