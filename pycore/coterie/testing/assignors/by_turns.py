"""The assignors ``range`` and ``roundrobin``, which do not look at what members own."""

from __future__ import annotations

from coterie.log.consumer_protocol import Subscription
from coterie.ordering import java_order
from coterie.testing.assignors.base import Assignor, TopicPartition, members_in_order

__all__ = ["RangeAssignor", "RoundRobinAssignor"]


class RangeAssignor(Assignor):
    """Each topic by itself: a range of its partitions for each subscriber, the first ones longer.

    Source: RangeAssignor.
    """

    name = "range"

    def _assign(
        self, subscriptions: dict[str, Subscription], partitions: dict[str, int]
    ) -> dict[str, list[TopicPartition]]:
        plan: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
        order = members_in_order(subscriptions)
        for topic, total in partitions.items():
            subscribers = [member for member in order if topic in subscriptions[member].topics]
            count, extra = divmod(total, len(subscribers))
            start = 0
            for place, member in enumerate(subscribers):
                end = start + count + (place < extra)
                plan[member] += [(topic, number) for number in range(start, end)]
                start = end
        return plan


class RoundRobinAssignor(Assignor):
    """All partitions in order, to one member after the other; those not subscribed are skipped.

    Source: RoundRobinAssignor.
    """

    name = "roundrobin"

    def _assign(
        self, subscriptions: dict[str, Subscription], partitions: dict[str, int]
    ) -> dict[str, list[TopicPartition]]:
        plan: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
        order = members_in_order(subscriptions)
        turn = 0
        for topic in sorted(partitions, key=java_order):
            for number in range(partitions[topic]):
                while topic not in subscriptions[order[turn % len(order)]].topics:
                    turn += 1
                plan[order[turn % len(order)]].append((topic, number))
                turn += 1
        return plan
