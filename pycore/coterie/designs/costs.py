"""What a run cost, by the same formulas for every design: from its timeline, and its counts.

A partition counts from the moment when it is there and a consumer that named its topic has started.
An owner is a consumer that takes itself for one, whoever else does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.designs import scenario as ops
from coterie.designs.consumer08 import registration
from coterie.designs.run import Entry
from coterie.designs.scenario import Scenario

COSTS = {
    "rebalances": "rebalances that began",
    "took_part": "consumers that took part in them, summed",
    "unowned_seconds": "partition-seconds without a consumer",
    "shared_seconds": "partition-seconds with more than one consumer",
    "repeated": "messages consumed, less the distinct ones",
    "lost": "messages a consumer had consumed and not committed when it gave a partition up",
    "requests": "requests of consumers to brokers",
    "zookeeper_operations": "reads and writes of nodes",
    "watch_events": "events of watches delivered",
    "slowest_seconds": "from an op to the last change of owner before the next, the longest",
}
Place = tuple[str, str, int]
"""A group, a topic and a partition."""


class Owners:
    """Who owns what as a timeline goes by, and sums of it."""

    def __init__(self, groups: Mapping[str, str]) -> None:
        self.groups = groups  # consumer -> group
        self.now_ms = 0
        self.unowned_ms = self.shared_ms = self.repeated = self.lost = 0
        self.owners: dict[Place, set[str]] = {}
        self.counted: set[Place] = set()
        self._reached: dict[tuple[str, Place], int] = {}  # next offset of a consumer
        self._first: dict[Place, int] = {}
        self._end: dict[Place, int] = {}
        self._committed: dict[Place, int] = {}

    def advance(self, at_ms: int) -> None:
        """Count up to a moment."""
        passed = at_ms - self.now_ms
        if passed > 0:
            held = [len(self.owners.get(place, ())) for place in self.counted]
            self.unowned_ms += passed * held.count(0)
            self.shared_ms += passed * sum(one > 1 for one in held)
            self.now_ms = at_ms

    def take(self, entry: Entry) -> None:
        """Take one entry of the timeline."""
        self.advance(entry.at_ms)
        group = self.groups.get(entry.consumer)
        if group is None:
            return
        if entry.kind in ("closed", "crashed"):
            for place in [one for one, held in self.owners.items() if entry.consumer in held]:
                self._gone(entry.consumer, place)
        elif entry.kind in ("owns", "gives_up", "consumed", "committed"):
            topic, number, *offsets = entry.details
            self._of_place(entry.kind, entry.consumer, (group, topic, number), offsets)

    def _of_place(self, kind: str, consumer: str, place: Place, offsets: list[int]) -> None:
        if kind == "owns":
            self.owners.setdefault(place, set()).add(consumer)
        elif kind == "gives_up":
            self._gone(consumer, place)
        elif kind == "consumed":
            first, last = offsets
            self.repeated += max(0, min(self._end.get(place, first), last + 1) - first)
            self._end[place] = max(self._end.get(place, 0), last + 1)
            self._first.setdefault(place, first)
            self._reached[consumer, place] = last + 1
        else:
            self._committed[place] = offsets[0]

    def _gone(self, consumer: str, place: Place) -> None:
        self.owners.get(place, set()).discard(consumer)
        reached = self._reached.pop((consumer, place), None)
        if reached is not None:
            kept = self._committed.get(place, self._first[place])
            self.lost += max(0, reached - kept)


def costs(
    scenario: Scenario, timeline: Iterable[Entry], counted: Mapping[str, Any]
) -> dict[str, float | None]:
    """Return each cost by name; None for one that the design does not have."""
    entries = sorted(timeline, key=lambda entry: entry.at_ms)
    groups = {op.name: op.group for op in scenario.ops if isinstance(op, ops.Start)}
    owners = Owners(groups)
    at, slowest, topics = 0, 0, _Topics()
    for i, op in enumerate(scenario.ops):
        until = scenario.ops[i + 1].at if i + 1 < len(scenario.ops) else op.at
        owners.advance(op.at)
        topics.take(op)
        owners.counted = topics.places()
        while at < len(entries) and entries[at].at_ms < until:
            owners.take(entries[at])
            if entries[at].kind in ("owns", "gives_up"):
                slowest = max(slowest, entries[at].at_ms - op.at)
            at += 1
    if scenario.ops:
        owners.advance(scenario.ops[-1].at)
    return {
        "rebalances": counted["rebalances"],
        # under ZooKeeper each rebalance is one consumer's
        "took_part": counted.get("took_part", counted["rebalances"]),
        "unowned_seconds": owners.unowned_ms / 1000,
        "shared_seconds": owners.shared_ms / 1000,
        "repeated": owners.repeated,
        "lost": owners.lost,
        "requests": counted.get("requests"),
        "zookeeper_operations": counted.get("zookeeper_operations"),
        "watch_events": counted.get("watch_events"),
        "slowest_seconds": slowest / 1000,
    }


class _Topics:
    """Which partitions there are, and who subscribes to them."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.wanted: dict[str, tuple[str, registration.Subscription]] = {}  # by consumer

    def take(self, op: ops.Op) -> None:
        if isinstance(op, ops.CreateTopic):
            self.counts[op.topic] = len(op.replicas)
        elif isinstance(op, ops.AddPartitions):
            self.counts[op.topic] += len(op.replicas)
        elif isinstance(op, ops.DeleteTopic):
            self.counts[op.topic] = 0
        elif isinstance(op, ops.Close):
            self.wanted.pop(op.consumer, None)
        elif isinstance(op, ops.Start):
            self.wanted[op.name] = op.group, subscription_of(op)

    def places(self) -> set[Place]:
        """Partitions that some consumer wants; a crashed one goes on wanting."""
        return {
            (group, topic, number)
            for group, wanted in self.wanted.values()
            for topic in wanted.topics(self.counts, exclude_internal=True)
            for number in range(self.counts.get(topic, 0))
        }


def subscription_of(op: ops.Start) -> registration.Subscription:
    """Return what a consumer subscribes to."""
    if op.subscription is not None:
        return registration.static(op.subscription)
    if op.whitelist is not None:
        return registration.by_filter("white_list", op.whitelist, op.streams)
    return registration.by_filter("black_list", op.blacklist or "", op.streams)
