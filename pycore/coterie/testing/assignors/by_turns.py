"""The assignors ``range`` and ``roundrobin``, which do not look at what members own.

Only ``range`` looks at racks.
"""

from __future__ import annotations

from coterie.base.consumer_protocol import Subscription
from coterie.base.ordering import java_order
from coterie.testing.assignors.base import Assignor, Racks, TopicPartition, members_in_order
from coterie.testing.assignors.racks import member_racks, partition_racks
from coterie.testing.assignors.range_by_racks import TopicShares, assign_by_racks


class RangeAssignor(Assignor):
    """Each topic by itself: a range of its partitions for each subscriber, the first ones longer.

    Source: RangeAssignor.
    """

    name = "range"

    def _assign(
        self, subscriptions: dict[str, Subscription], partitions: dict[str, int], racks: Racks
    ) -> dict[str, list[TopicPartition]]:
        plan: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
        order = members_in_order(subscriptions)
        subscribers_of = {
            topic: [member for member in order if topic in subscriptions[member].topics]
            for topic in partitions
        }
        if racks and (of_members := member_racks(subscriptions)):
            shares = [
                TopicShares(
                    topic,
                    {member: of_members.get(member) for member in subscribers_of[topic]},
                    partition_racks(topic, total, racks),
                )
                for topic, total in partitions.items()
            ]
            if any(each.matter for each in shares):
                assign_by_racks(shares, plan)
                return plan
        for topic, total in partitions.items():
            subscribers = subscribers_of[topic]
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
        self, subscriptions: dict[str, Subscription], partitions: dict[str, int], racks: Racks
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
