"""The algorithm of the sticky assignors if members subscribe to different topics.

Source: AbstractStickyAssignor.GeneralAssignmentBuilder.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator

from coterie.base.ordering import java_order
from coterie.errors import CoterieError
from coterie.testing.assignors.base import TopicPartition
from coterie.testing.assignors.movements import Movements
from coterie.testing.assignors.racks import RackMatch
from coterie.testing.assignors.steps import discard, unassigned

_Plan = dict[str, list[TopicPartition]]


class GeneralAssignment:
    """The plan is as balanced as the subscriptions allow: from what members own, step by step."""

    def __init__(
        self,
        partitions: dict[str, int],
        topics: dict[str, tuple[str, ...]],
        owned: _Plan,
        former: dict[TopicPartition, str],
        racks: RackMatch,
    ) -> None:
        self.partitions, self.former, self.plan = partitions, former, owned
        self.racks = racks
        self.topics = {m: [t for t in each if t in partitions] for m, each in topics.items()}
        self.subscribers = {
            topic: [member for member, each in self.topics.items() if topic in each]
            for topic in partitions
        }
        self.owner = {p: member for member, each in owned.items() for p in each}
        self.movements = Movements()
        self.order: list[tuple[int, bytes, str]] = []  # members that may change, least loaded first

    def build(self) -> _Plan:
        """Return the partitions of each member."""
        every = [
            (topic, number)
            for topic in sorted(self.partitions, key=self._topic_order)
            for number in range(self.partitions[topic])
        ]
        retained, gave_up = self._keep()
        retained.sort(key=lambda partition: (*self._topic_order(partition[0]), partition[1]))
        left = unassigned(every, retained)
        for member in self.plan:
            self._enter(member)
        self._balance(every, left, gave_up=gave_up)
        return self.plan

    def _topic_order(self, topic: str) -> tuple[int, bytes]:
        return len(self.subscribers[topic]), java_order(topic)

    def _keep(self) -> tuple[list[TopicPartition], bool]:
        """Let members keep what they own and subscribe to; return it, and if something is left."""
        retained, gave_up = [], False
        for member, owned in self.plan.items():
            mine = [
                partition
                for partition in owned
                if partition[0] in self.topics[member]
                and not self.racks.mismatch(member, partition)
            ]
            gave_up |= len(mine) < len(owned)
            owned[:] = mine
            retained += mine
        return retained, gave_up

    # The order of the members

    def _key(self, member: str) -> tuple[int, bytes, str]:
        return len(self.plan[member]), java_order(member), member

    def _enter(self, member: str) -> None:
        insort(self.order, self._key(member))

    def _exit(self, member: str) -> None:
        key = self._key(member)
        if key in self.order:
            self.order.remove(key)

    def _lightest(self, partition: TopicPartition, *, by_rack: bool = False) -> str | None:
        """Return the subscriber that has the fewest partitions; ``by_rack``: whose rack matches."""
        topic, mismatch = partition[0], self.racks.mismatch
        return next(
            (
                member
                for _, _, member in self.order
                if topic in self.topics[member] and not (by_rack and mismatch(member, partition))
            ),
            None,
        )

    def _give(self, partition: TopicPartition, member: str | None) -> bool:
        """Give a partition to a member, if there is one; return whether there is."""
        if member is None:
            return False
        self._exit(member)
        self.plan[member].append(partition)
        self.owner[partition] = member
        self._enter(member)
        return True

    # The balance

    def _balance(
        self, every: list[TopicPartition], left: list[TopicPartition], *, gave_up: bool
    ) -> None:
        was_empty = self.order[-1][0] == 0
        to_give = left
        if self.racks:
            to_give = [p for p in left if not self._give(p, self._lightest(p, by_rack=True))]
        for partition in to_give:
            self._give(partition, self._lightest(partition))
        every = [p for p in every if len(self.subscribers[p[0]]) >= 2]
        left = [p for p in left if len(self.subscribers[p[0]]) >= 2]
        fixed = self._set_aside()
        before = {member: list(each) for member, each in self.plan.items()}
        if not gave_up:  # first try to move only what is new
            self._reassign(left)
        moved = self._reassign(every)
        if not was_empty and moved and _unbalance(self.plan) >= _unbalance(before):
            self.plan = before
        self.plan |= fixed

    def _set_aside(self) -> _Plan:
        """Take members away that can neither get nor give partitions."""
        fixed = {}
        for member in self.topics:
            if len(self.plan[member]) < self._most(member):
                continue
            if all(len(self.subscribers[topic]) < 2 for topic, _ in self.plan[member]):
                self._exit(member)
                fixed[member] = self.plan.pop(member)
        return fixed

    def _most(self, member: str) -> int:
        return sum(self.partitions[topic] for topic in self.topics[member])

    def _reassign(self, partitions: list[TopicPartition]) -> bool:
        """Move partitions until nothing improves the balance; return whether one has moved."""
        ever = False
        while True:
            moved = False
            for partition in partitions:
                if self._balanced():
                    break
                target = self._target(partition)
                if target is not None:
                    self._move(partition, target)
                    moved = ever = True
            if not moved:
                return ever

    def _target(self, partition: TopicPartition) -> str | None:
        """Return the member that a partition should move to, if any."""
        size = self._size(self.owner.get(partition))
        former = self.former.get(partition)
        if former is not None and size > self._size(former) + 1:
            return former
        if any(size > self._size(other) + 1 for other in self.subscribers[partition[0]]):
            return self._lightest(partition)
        return None

    def _size(self, member: str | None) -> int:
        if member is None or member not in self.plan:
            raise CoterieError("the sticky assignor fails: claims contradict the subscriptions")
        return len(self.plan[member])

    def _move(self, partition: TopicPartition, target: str) -> None:
        partition = self.movements.actual(partition, self.owner[partition], target)
        source = self.owner[partition]
        self._exit(source)
        self._exit(target)
        self.movements.add(partition, source, target)
        discard(self.plan[source], partition)
        self.plan[target].append(partition)
        self.owner[partition] = target
        self._enter(target)
        self._enter(source)

    def _balanced(self) -> bool:
        """Whether no member could get a partition from one that has at least two more."""
        if self.order[0][0] >= self.order[-1][0] - 1:
            return True
        owner = {partition: member for member, each in self.plan.items() for partition in each}
        for size, _, member in self.order:
            if size != self._most(member):
                for partition in self._could_get(member):
                    if size + 1 < self._size(owner.get(partition)):
                        return False
        return True

    def _could_get(self, member: str) -> Iterator[TopicPartition]:
        mine = set(self.plan[member])
        for topic in self.topics[member]:
            for number in range(self.partitions[topic]):
                if (topic, number) not in mine:
                    yield topic, number


def _unbalance(plan: _Plan) -> int:
    """Return the sum of the differences between the counts of all pairs of members."""
    sizes = [len(each) for each in plan.values()]
    return sum(abs(a - b) for place, a in enumerate(sizes) for b in sizes[place + 1 :])
