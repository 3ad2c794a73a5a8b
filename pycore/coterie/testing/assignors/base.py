"""What the assignors share: their methods, and Java's orders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import ClassVar

from coterie._core.codec.compression import java_hash
from coterie.base.consumer_protocol import Subscription
from coterie.base.ordering import java_order

Partitions = dict[str, list[int]]
TopicPartition = tuple[str, int]
Racks = Mapping[str, Sequence[frozenset[str]]]
"""The racks of the replicas of each partition, by topic."""


class Assignor:
    """An assignor as one client has it; the sticky ones remember what the client was assigned.

    Source: ConsumerPartitionAssignor, AbstractPartitionAssignor.

    Attributes
    ----------
    name : str
        As in ``partition.assignment.strategy``.
    cooperative : bool
        Whether it supports the cooperative protocol; all of them support the eager one.
    """

    name: ClassVar[str]
    cooperative: ClassVar[bool] = False
    assignment_user_data: bytes | None = None  # in what a leader assigns: none of Kafka's has any

    def subscription_user_data(self) -> bytes | None:
        """Return the user data for the client's next subscription."""
        return None

    def on_assignment(self, partitions: Partitions, generation_id: int) -> None:
        """Take what the client has been assigned in a generation."""

    def assign(
        self,
        subscriptions: Mapping[str, Subscription],
        partitions: Mapping[str, int],
        racks: Racks = MappingProxyType({}),
    ) -> dict[str, Partitions]:
        """Assign all partitions of the subscribed topics, as the leader of a group.

        Parameters
        ----------
        subscriptions
            The subscription of each member, in the order of the response to JoinGroup.
        partitions
            The partition count of each topic; others are ignored.
        racks
            The racks of the replicas of each partition; where there are none, those of the members
            do not matter.

        Returns
        -------
        dict
            The partitions of each member; topics in the order in which Kafka's leader writes them.

        Raises
        ------
        CoterieError
            Kafka's assignor fails, which ends a poll of the leader. It does so if members claim
            partitions that do not exist.
        """
        ordered = {member: subscriptions[member] for member in hash_order(subscriptions)}
        topics = dict.fromkeys(topic for each in ordered.values() for topic in each.topics)
        known = [topic for topic in hash_order(topics) if partitions.get(topic)]
        counts = {topic: partitions[topic] for topic in hash_order(known)}
        plan = self._assign(ordered, counts, racks)
        return {member: _by_topic(assigned) for member, assigned in plan.items()}

    def _assign(
        self, subscriptions: dict[str, Subscription], partitions: dict[str, int], racks: Racks
    ) -> dict[str, list[TopicPartition]]:
        raise NotImplementedError


def flat(partitions: Mapping[str, Iterable[int]]) -> list[TopicPartition]:
    """Return partitions as pairs of topic and number."""
    return [(topic, number) for topic, numbers in partitions.items() for number in numbers]


def _by_topic(partitions: Iterable[TopicPartition]) -> Partitions:
    by_topic: Partitions = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return by_topic


def members_in_order(subscriptions: Mapping[str, Subscription]) -> list[str]:
    """Return static members by instance id, then the others by member id.

    Source: AbstractPartitionAssignor.MemberInfo.
    """

    def order(member: str) -> tuple[bool, bytes]:
        instance = subscriptions[member].group_instance_id
        return instance is None, java_order(member if instance is None else instance)

    return sorted(subscriptions, key=order)


@lru_cache(4096)
def _spread(text: str) -> int:
    return spread(java_hash(text))


def spread(hash_code: int) -> int:
    """Return a hash as java.util.HashMap uses it: its upper half changes the lower one."""
    hash_code &= 0xFFFFFFFF
    return hash_code ^ hash_code >> 16


def hash_order(keys: Iterable[str], *, computed: bool = False) -> list[str]:
    """Return keys in the order of a java.util.HashMap that they were put into in this order.

    A HashMap starts with 16 bins and doubles them when it is three quarters full. (A bin with more
    than eight keys becomes a tree in Java, and may change its order; here it does not.)

    Parameters
    ----------
    computed
        The keys were put by ``computeIfAbsent``: each before the others of its bin, and the bins
        double one key later.
    """
    ordered = list(keys)[:: -1 if computed else 1]
    bins = 16
    while len(ordered) - computed > bins * 3 // 4:
        bins *= 2
    return sorted(ordered, key=lambda key: _spread(key) & bins - 1)
