"""Make the bars of a page: the owners of each partition over time.

A bar covers a time in which a partition has the same owners, or counts and has none (in a run of a
design ``ownership`` says which partitions count). A first pass sums the bars of every partition; a
second one makes those of the partitions that are shown.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from coterie.designs.ownership import GroupPartition, Subscriptions
from coterie.designs.scenario import Scenario
from coterie.designs.timeline import Timeline


class PartitionBar(NamedTuple):
    """A partition's owners, sorted, from ``start_ms`` to ``end_ms``."""

    place: GroupPartition
    start_ms: int
    end_ms: int
    owners: tuple[str, ...]


@dataclass(slots=True)
class _Row:
    """The present state of a partition, and the time of its start."""

    start_ms: int = 0
    counts: bool = False
    owners: set[str] = field(default_factory=set)


@dataclass(slots=True)
class BarTotals:
    """Sums over the bars of a partition."""

    bars: int = 0
    shared_ms: int = 0
    unowned_ms: int = 0


class Bars:
    """Follow a run: ``totals`` sums each partition's bars, ``bars`` has those of ``chosen``.

    ``now_ms`` is the time of what comes next; :meth:`end` ends all bars.
    """

    def __init__(self, chosen: Collection[GroupPartition] = ()) -> None:
        self.chosen = frozenset(chosen)
        self.bars: list[PartitionBar] = []
        self.totals: dict[GroupPartition, BarTotals] = {}
        self.now_ms = 0
        self._rows: dict[GroupPartition, _Row] = {}
        self._sizes: dict[tuple[str, str], int] = {}
        self._owned: dict[str, set[GroupPartition]] = {}

    def follow(self, scenario: Scenario, timeline: Timeline) -> None:
        """Follow a run from its first time to its last."""
        subscriptions = Subscriptions(self.resize, deletes_topics=scenario.config.deletes_topics)
        at = 0
        for entry in timeline:
            while at < len(scenario.ops) and scenario.ops[at].at <= entry.at_ms:
                self.now_ms = scenario.ops[at].at
                subscriptions.take(scenario.ops[at])
                at += 1
            self.now_ms = entry.at_ms
            if entry.kind in ("closed", "crashed"):
                for place in sorted(self._owned.get(entry.consumer, ())):
                    self.own(entry.consumer, place, owns=False)
            elif entry.kind in ("owns", "gives_up"):
                topic, number = entry.details
                place = subscriptions.groups[entry.consumer], topic, number
                self.own(entry.consumer, place, owns=entry.kind == "owns")
        for op in scenario.ops[at:]:
            self.now_ms = op.at
            subscriptions.take(op)
        self.end()

    def end(self) -> None:
        """End the bars of all partitions."""
        for place, row in self._rows.items():
            self._close(place, row)

    def resize(self, group: str, topic: str, size: int) -> None:
        """Set how many partitions of a topic count from now on."""
        before = self._sizes.get((group, topic), 0)
        self._sizes[group, topic] = size
        for number in range(min(before, size), max(before, size)):
            self.count((group, topic, number), counts=number < size)

    def count(self, place: GroupPartition, *, counts: bool) -> None:
        """Let a partition count from now on, or no more."""
        row = self._rows.setdefault(place, _Row())
        self._close(place, row)
        row.counts = counts

    def own(self, consumer: str, place: GroupPartition, *, owns: bool) -> None:
        """Let a consumer own a partition, or no more."""
        row = self._rows.setdefault(place, _Row())
        owned = self._owned.setdefault(consumer, set())
        if owns != (consumer in row.owners):
            self._close(place, row)
            if owns:
                row.owners.add(consumer)
                owned.add(place)
            else:
                row.owners.discard(consumer)
                owned.discard(place)

    def _close(self, place: GroupPartition, row: _Row) -> None:
        lasted_ms = self.now_ms - row.start_ms
        if lasted_ms > 0 and (row.owners or row.counts):
            totals = self.totals.setdefault(place, BarTotals())
            totals.bars += 1
            totals.shared_ms += lasted_ms if len(row.owners) > 1 else 0
            totals.unowned_ms += lasted_ms if not row.owners else 0
            if place in self.chosen:
                owners = tuple(sorted(row.owners))
                self.bars.append(PartitionBar(place, row.start_ms, self.now_ms, owners))
        row.start_ms = self.now_ms
