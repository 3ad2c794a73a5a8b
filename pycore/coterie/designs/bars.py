"""Who owned each partition from when until when: bars for a page, of a timeline.

A bar is drawn while a partition has an owner, or is wanted and has none. Those of a thousand
consumers are counted first, and made for the partitions that are shown.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from coterie.designs.ownership import Place, Wanted
from coterie.designs.scenario import Scenario
from coterie.designs.timeline import Timeline


class Bar(NamedTuple):
    """A partition's owners, sorted, from ``start_ms`` to ``end_ms``."""

    place: Place
    start_ms: int
    end_ms: int
    owners: tuple[str, ...]


@dataclass(slots=True)
class _Row:
    """What a partition is now, and since when."""

    start_ms: int = 0
    wanted: bool = False
    owners: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Seen:
    """What a partition's bars come to.

    Attributes
    ----------
    bars : int
        How many there are.
    shared_ms, unowned_ms : int
        For how long it had several owners, and none.
    """

    bars: int = 0
    shared_ms: int = 0
    unowned_ms: int = 0


class Bars:
    """Goes through a run; ``seen`` sums each partition, ``bars`` are those of ``chosen``."""

    def __init__(self, chosen: Collection[Place] = ()) -> None:
        self.chosen = frozenset(chosen)
        self.bars: list[Bar] = []
        self.seen: dict[Place, Seen] = {}
        self._now_ms = 0
        self._rows: dict[Place, _Row] = {}
        self._sizes: dict[tuple[str, str], int] = {}
        self._held: dict[str, set[Place]] = {}

    def go_through(self, scenario: Scenario, timeline: Timeline) -> None:
        """Take a run from its first moment to its last."""
        wanted = Wanted(self, deletes_topics=scenario.config.deletes_topics)
        at = 0
        for entry in timeline:
            while at < len(scenario.ops) and scenario.ops[at].at <= entry.at_ms:
                self._now_ms = scenario.ops[at].at
                wanted.take(scenario.ops[at])
                at += 1
            self._now_ms = entry.at_ms
            if entry.kind in ("closed", "crashed"):
                for place in sorted(self._held.get(entry.consumer, ())):
                    self._own(entry.consumer, place, owns=False)
            elif entry.kind in ("owns", "gives_up"):
                topic, number = entry.details
                place = wanted.groups[entry.consumer], topic, number
                self._own(entry.consumer, place, owns=entry.kind == "owns")
        for op in scenario.ops[at:]:
            self._now_ms = op.at
            wanted.take(op)
        for place, row in self._rows.items():
            self._close(place, row)

    def resize(self, group: str, topic: str, size: int) -> None:
        """Let so many partitions of a topic be wanted from now on."""
        before = self._sizes.get((group, topic), 0)
        self._sizes[group, topic] = size
        for number in range(min(before, size), max(before, size)):
            place = group, topic, number
            row = self._rows.setdefault(place, _Row())
            self._close(place, row)
            row.wanted = number < size

    def _own(self, consumer: str, place: Place, *, owns: bool) -> None:
        row = self._rows.setdefault(place, _Row())
        held = self._held.setdefault(consumer, set())
        if owns != (consumer in row.owners):
            self._close(place, row)
            if owns:
                row.owners.add(consumer)
                held.add(place)
            else:
                row.owners.discard(consumer)
                held.discard(place)

    def _close(self, place: Place, row: _Row) -> None:
        """End what stood there until now."""
        lasted = self._now_ms - row.start_ms
        if lasted > 0 and (row.owners or row.wanted):
            seen = self.seen.setdefault(place, Seen())
            seen.bars += 1
            seen.shared_ms += lasted if len(row.owners) > 1 else 0
            seen.unowned_ms += lasted if not row.owners else 0
            if place in self.chosen:
                owners = tuple(sorted(row.owners))
                self.bars.append(Bar(place, row.start_ms, self._now_ms, owners))
        row.start_ms = self._now_ms
