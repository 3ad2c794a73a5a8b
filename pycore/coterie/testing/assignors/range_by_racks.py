"""The range assignor where racks matter: first what matches racks, within the same shares.

Topics with the same subscribers and as many partitions stay partitioned alike.
Source: RangeAssignor.assignWithRackMatching, TopicAssignmentState.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from coterie.base.ordering import place_order
from coterie.testing.assignors.base import TopicPartition
from coterie.testing.assignors.racks import racks_matter

_Plan = dict[str, list[TopicPartition]]


class TopicShares:
    """What the subscribers of a topic still get."""

    def __init__(
        self, topic: str, members: Mapping[str, str | None], racks: list[frozenset[str]]
    ) -> None:
        self.topic, self.members, self._racks = topic, members, racks
        self.left = list(range(len(racks)))
        self._count, self._extra = divmod(len(racks), len(members))
        self._given = dict.fromkeys(members, 0)
        of_members = {rack for rack in members.values() if rack is not None}
        self.matter = racks_matter(of_members, racks)

    @property
    def key(self) -> tuple[frozenset[tuple[str, str | None]], int]:
        """What topics that are partitioned alike have in common."""
        return frozenset(self.members.items()), len(self._racks)

    def match(self, member: str, number: int) -> bool:
        """Whether a member has no rack, or a partition has a replica there."""
        rack = self.members[member]
        return rack is None or rack in self._racks[number]

    def most(self, member: str) -> int:
        """Return how many partitions a member may still get."""
        return max(0, self._count + (self._extra > 0) - self._given[member])

    def give(self, member: str, numbers: list[int], plan: _Plan) -> None:
        plan[member] += [(self.topic, number) for number in numbers]
        self._given[member] += len(numbers)
        self._extra -= self._given[member] > self._count
        self.left = [number for number in self.left if number not in numbers]

    def give_ranges(self, may_have: Callable[[str, int], bool], plan: _Plan) -> None:
        """Give each member as many of the partitions that are left as it may get."""
        for member in self.members:
            numbers = [number for number in self.left if may_have(member, number)]
            numbers = numbers[: self.most(member)]
            if numbers:
                self.give(member, numbers, plan)


def assign_by_racks(shares: Iterable[TopicShares], plan: _Plan) -> None:
    """Add all partitions to a plan; racks matter for one of the topics at least."""
    alike: dict[object, list[TopicShares]] = {}
    for each in shares:
        alike.setdefault(each.key, []).append(each)
    for topics in alike.values():
        if len(topics) > 1:
            _give_alike(topics, plan)
        elif topics[0].matter:
            topics[0].give_ranges(topics[0].match, plan)
        for each in topics:
            each.give_ranges(lambda member, number: True, plan)
    for partitions in plan.values():
        partitions.sort(key=place_order)


def _give_alike(topics: list[TopicShares], plan: _Plan) -> None:
    """Give a number in all topics to the first member that matches the racks of all of them."""
    first = topics[0]
    if not any(first.members.values()):
        return
    members = list(first.members)
    for number in list(first.left):
        for member in members:
            if all(each.match(member, number) and each.most(member) > 0 for each in topics):
                for each in topics:
                    each.give(member, [number], plan)
                if not any(each.most(member) > 0 for each in topics):
                    members.remove(member)
                break
