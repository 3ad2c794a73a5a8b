"""Costs of a run, by the same formulas for every design, summed while it runs.

An owner is a consumer that believes that it owns the partition; there may be several.
docs/designs.md has the formulas in words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.designs import ops
from coterie.designs.consumption import Consumption
from coterie.designs.ownership import Ownership, Subscriptions
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
    "settling_seconds": "from a change to the last change of owner that follows it, the longest",
}
QUIET = ops.Produce | ops.Commit | ops.Wait | ops.Settle  # ops that move no partition


class Accounts:
    """Sums of one run; every event is passed to :meth:`note`."""

    def __init__(self, scenario: Scenario) -> None:
        self._ops = scenario.ops
        self._next = 0
        self._changed_ms = 0  # time of the last op that can move partitions
        self._settling_ms = 0
        self._ownership = Ownership()
        self._consumption = Consumption()
        deletes = scenario.config.deletes_topics
        self._subscriptions = Subscriptions(self._ownership.resize, deletes_topics=deletes)

    def note(self, at_ms: int, kind: str, consumer: str, *details: Any) -> None:
        """Add an event; times never go back."""
        self._take_ops(at_ms)
        self._ownership.advance(at_ms)
        if kind in ("closed", "crashed"):
            for place in self._ownership.owned_by(consumer):
                self._give_up(consumer, place)
        elif kind in ("owns", "gives_up", "consumed", "committed"):
            topic, number, *offsets = details
            place = self._subscriptions.groups[consumer], topic, number
            if kind == "owns":
                self._ownership.take(consumer, place)
            elif kind == "gives_up":
                self._give_up(consumer, place)
            elif kind == "consumed":
                self._consumption.consumed(consumer, place, *offsets)
            else:
                self._consumption.committed(place, *offsets)
            if kind in ("owns", "gives_up"):
                self._settling_ms = max(self._settling_ms, at_ms - self._changed_ms)

    def _give_up(self, consumer: str, place: tuple[str, str, int]) -> None:
        self._ownership.give(consumer, place)
        self._consumption.given_up(consumer, place)

    def _take_ops(self, until_ms: int) -> None:
        while self._next < len(self._ops) and self._ops[self._next].at <= until_ms:
            op = self._ops[self._next]
            self._ownership.advance(op.at)
            self._subscriptions.take(op)
            if not isinstance(op, QUIET):
                self._changed_ms = op.at
            self._next += 1

    def costs(self, counted: Mapping[str, int]) -> dict[str, float | None]:
        """Return each cost of a finished run by name; None if the design has no such cost.

        ``counted`` has the counts of the design itself.
        """
        if self._ops:
            self._take_ops(self._ops[-1].at)
        return {
            "rebalances": counted["rebalances"],
            # under ZooKeeper each rebalance is one consumer's
            "took_part": counted.get("took_part", counted["rebalances"]),
            "unowned_seconds": self._ownership.unowned_ms / 1000,
            "shared_seconds": self._ownership.shared_ms / 1000,
            "repeated": self._consumption.repeated,
            "lost": self._consumption.lost,
            "requests": counted.get("requests"),
            "zookeeper_operations": counted.get("zookeeper_operations"),
            "watch_events": counted.get("watch_events"),
            "settling_seconds": self._settling_ms / 1000,
        }
