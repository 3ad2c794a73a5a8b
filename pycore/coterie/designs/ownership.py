"""The owners of a group's partitions over time, and the time with no owner or with several.

A partition counts while it exists and a consumer of the group subscribes to its topic. The cost of
a change of one owner does not depend on the number of partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from coterie.designs import consumer08_registration as registration
from coterie.designs import ops

GroupPartition = tuple[str, str, int]
"""A group, a topic and a partition."""


@dataclass(slots=True)
class _Topic:
    """A topic of a group: how many of its partitions count, and the owners of each."""

    size: int = 0
    owners: dict[int, set[str]] = field(default_factory=dict)

    def counts(self) -> tuple[int, int]:
        """Return how many partitions have no owner, and how many have several."""
        sizes = [len(owners) for number, owners in self.owners.items() if number < self.size]
        return self.size - len(sizes) + sizes.count(0), sum(size > 1 for size in sizes)


class Ownership:
    """The owners of each partition, and partition-milliseconds without one and with several."""

    def __init__(self) -> None:
        self.now_ms = self.unowned_ms = self.shared_ms = 0
        self._unowned = self._shared = 0  # partitions now
        self._topics: dict[tuple[str, str], _Topic] = {}
        self._places: dict[str, set[GroupPartition]] = {}  # by consumer

    def advance(self, at_ms: int) -> None:
        """Add up the time until ``at_ms``; times never go back."""
        passed_ms = at_ms - self.now_ms
        self.unowned_ms += passed_ms * self._unowned
        self.shared_ms += passed_ms * self._shared
        self.now_ms = at_ms

    def resize(self, group: str, topic: str, size: int) -> None:
        """Set how many partitions of a topic count from now on."""
        entry = self._topics.setdefault((group, topic), _Topic())
        before = entry.counts()
        entry.size = size
        after = entry.counts()
        self._unowned += after[0] - before[0]
        self._shared += after[1] - before[1]

    def take(self, consumer: str, place: GroupPartition) -> None:
        entry, owners = self._owners(place)
        if consumer not in owners:
            owners.add(consumer)
            self._places.setdefault(consumer, set()).add(place)
            if place[2] < entry.size:
                self._unowned -= len(owners) == 1
                self._shared += len(owners) == 2

    def give(self, consumer: str, place: GroupPartition) -> None:
        entry, owners = self._owners(place)
        if consumer in owners:
            owners.discard(consumer)
            self._places[consumer].discard(place)
            if place[2] < entry.size:
                self._unowned += len(owners) == 0
                self._shared -= len(owners) == 1

    def owned_by(self, consumer: str) -> set[GroupPartition]:
        return set(self._places.get(consumer, ()))

    def _owners(self, place: GroupPartition) -> tuple[_Topic, set[str]]:
        group, topic, number = place
        entry = self._topics.setdefault((group, topic), _Topic())
        return entry, entry.owners.setdefault(number, set())


class Subscriptions:
    """The topics of a scenario and their subscribers, by group; follows the ops.

    ``resize`` gets how many partitions of a topic count for a group from now on.
    A consumer subscribes from its start until it is closed, even if it has crashed. Where brokers
    do not delete topics (``deletes_topics``), a deleted topic stays.
    """

    def __init__(self, resize: Callable[[str, str, int], None], *, deletes_topics: bool) -> None:
        self._tell, self._deletes_topics = resize, deletes_topics
        self.groups: dict[str, str] = {}  # by consumer
        self.counts: dict[str, int] = {}  # partitions
        self._subscriptions: dict[str, registration.Subscription] = {}  # by consumer
        self._subscribers: dict[tuple[str, str], set[str]] = {}  # group and topic -> consumers

    def take(self, op: ops.Op) -> None:
        if isinstance(op, ops.CreateTopic):
            self._resize(op.topic, len(op.replicas))
        elif isinstance(op, ops.AddPartitions):
            self._resize(op.topic, self.counts.get(op.topic, 0) + len(op.replicas))
        elif isinstance(op, ops.DeleteTopic):
            if self._deletes_topics:
                self._resize(op.topic, 0)
        elif isinstance(op, ops.Close):
            self._forget(op.consumer)
        elif isinstance(op, ops.Start):
            self._forget(op.name)
            self.groups[op.name] = op.group
            self._subscriptions[op.name] = subscription_of(op)
            for topic in self._subscriptions[op.name].topics(self.counts, exclude_internal=True):
                self._subscribe(op.name, topic)

    def _resize(self, topic: str, partitions: int) -> None:
        self.counts[topic] = partitions
        for consumer, subscription in self._subscriptions.items():
            if topic in subscription.topics((topic,), exclude_internal=True):
                self._subscribe(consumer, topic)
        for group, subscribed in self._subscribers:
            if subscribed == topic:
                self._count(group, topic)

    def _subscribe(self, consumer: str, topic: str) -> None:
        key = self.groups[consumer], topic
        subscribers = self._subscribers.setdefault(key, set())
        subscribers.add(consumer)
        if len(subscribers) == 1:
            self._count(*key)

    def _forget(self, consumer: str) -> None:
        if self._subscriptions.pop(consumer, None) is not None:
            for key, subscribers in self._subscribers.items():
                if consumer in subscribers:
                    subscribers.discard(consumer)
                    self._count(*key)

    def _count(self, group: str, topic: str) -> None:
        counts = bool(self._subscribers[group, topic])
        self._tell(group, topic, self.counts.get(topic, 0) if counts else 0)


def subscription_of(op: ops.Start) -> registration.Subscription:
    if op.whitelist is not None:
        return registration.by_filter(registration.WHITE, op.whitelist, op.streams)
    if op.blacklist is not None:
        return registration.by_filter(registration.BLACK, op.blacklist, op.streams)
    return registration.static(op.subscription or {})
