"""Who owns which partitions that are wanted, and for how long one had no owner, or several.

A partition counts while it is there and a consumer of the group wants its topic. Each change is
counted by itself: what a run of a thousand consumers costs does not depend on how many partitions
there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from coterie.designs import scenario as ops
from coterie.designs.consumer08 import registration

Place = tuple[str, str, int]
"""A group, a topic and a partition."""


@dataclass(slots=True)
class _Topic:
    """A topic as a group has it: how many of its partitions count, who owns each."""

    size: int = 0
    owners: dict[int, set[str]] = field(default_factory=dict)

    def counts(self) -> tuple[int, int]:
        """Return how many partitions have no owner, and how many several."""
        held = [len(who) for number, who in self.owners.items() if number < self.size]
        return self.size - len(held) + held.count(0), sum(one > 1 for one in held)


class Ownership:
    """Owners of each partition now, and partition-milliseconds without one, and with several."""

    def __init__(self) -> None:
        self.now_ms = self.unowned_ms = self.shared_ms = 0
        self._unowned = self._shared = 0  # partitions now
        self._topics: dict[tuple[str, str], _Topic] = {}
        self._places: dict[str, set[Place]] = {}  # of each consumer

    def advance(self, at_ms: int) -> None:
        """Count up to a moment."""
        passed = at_ms - self.now_ms
        if passed > 0:
            self.unowned_ms += passed * self._unowned
            self.shared_ms += passed * self._shared
            self.now_ms = at_ms

    def resize(self, group: str, topic: str, size: int) -> None:
        """Let so many partitions of a topic count from now on."""
        held = self._topics.setdefault((group, topic), _Topic())
        before = held.counts()
        held.size = size
        after = held.counts()
        self._unowned += after[0] - before[0]
        self._shared += after[1] - before[1]

    def take(self, consumer: str, place: Place) -> None:
        """Let a consumer own a partition, whoever else does."""
        held, owners = self._owners(place)
        if consumer not in owners:
            owners.add(consumer)
            self._places.setdefault(consumer, set()).add(place)
            if place[2] < held.size:
                self._unowned -= len(owners) == 1
                self._shared += len(owners) == 2

    def give(self, consumer: str, place: Place) -> None:
        """Let a consumer own a partition no longer."""
        held, owners = self._owners(place)
        if consumer in owners:
            owners.discard(consumer)
            self._places[consumer].discard(place)
            if place[2] < held.size:
                self._unowned += len(owners) == 0
                self._shared -= len(owners) == 1

    def owned_by(self, consumer: str) -> set[Place]:
        """Return what a consumer owns."""
        return set(self._places.get(consumer, ()))

    def _owners(self, place: Place) -> tuple[_Topic, set[str]]:
        group, topic, number = place
        held = self._topics.setdefault((group, topic), _Topic())
        return held, held.owners.setdefault(number, set())


class Sized(Protocol):
    """What is told how many partitions of a topic a group wants."""

    def resize(self, group: str, topic: str, size: int) -> None:
        """Let so many partitions of a topic be wanted from now on."""


class Wanted:
    """Which topics there are, and which consumers of each group want them; ``told`` of it.

    A crashed consumer goes on wanting: nobody has said that it is gone. A closed one does not.
    A topic that brokers do not delete (``deletes_topics``) stays.
    """

    def __init__(self, told: Sized, *, deletes_topics: bool) -> None:
        self._told, self._deletes_topics = told, deletes_topics
        self.groups: dict[str, str] = {}  # by consumer
        self.counts: dict[str, int] = {}  # partitions
        self._subscriptions: dict[str, registration.Subscription] = {}  # by consumer
        self._wanting: dict[tuple[str, str], set[str]] = {}  # group and topic -> consumers

    def take(self, op: ops.Op) -> None:
        """Take an op of the scenario."""
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
                self._want(op.name, topic)

    def _resize(self, topic: str, partitions: int) -> None:
        self.counts[topic] = partitions
        for consumer, one in self._subscriptions.items():
            if topic in one.topics((topic,), exclude_internal=True):
                self._want(consumer, topic)
        for group, wanted in self._wanting:
            if wanted == topic:
                self._count(group, topic)

    def _want(self, consumer: str, topic: str) -> None:
        key = self.groups[consumer], topic
        wanting = self._wanting.setdefault(key, set())
        wanting.add(consumer)
        if len(wanting) == 1:
            self._count(*key)

    def _forget(self, consumer: str) -> None:
        if self._subscriptions.pop(consumer, None) is not None:
            for key, wanting in self._wanting.items():
                if consumer in wanting:
                    wanting.discard(consumer)
                    self._count(*key)

    def _count(self, group: str, topic: str) -> None:
        wanted = bool(self._wanting[group, topic])
        self._told.resize(group, topic, self.counts.get(topic, 0) if wanted else 0)


def subscription_of(op: ops.Start) -> registration.Subscription:
    """Return what a consumer subscribes to."""
    if op.whitelist is not None:
        return registration.by_filter(registration.WHITE, op.whitelist, op.streams)
    if op.blacklist is not None:
        return registration.by_filter(registration.BLACK, op.blacklist, op.streams)
    return registration.static(op.subscription or {})
