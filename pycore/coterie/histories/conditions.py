"""The conditions of a history: a group, its topics, and what happens to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from coterie.base.arguments import boolean, integer, sequence, text, within
from coterie.errors import ArgumentError, shown
from coterie.histories.events import Event

MOST_MEMBERS, MOST_MINUTES, MOST_PARTITIONS = 100, 10_000, 10_000
MOST_RATE, MOST_PROCESSING_MS = 60_000, 3_600_000

Application = Callable[[Any, dict[Any, Any]], Any]
"""A class (or function) that is called with a consumer and the store."""


@dataclass(frozen=True, repr=False)
class Conditions:
    """The fields of a :class:`~coterie.histories.History`, printed as one."""

    members: int = 3
    topics: Mapping[str, int] = field(default_factory=lambda: {"records": 6})
    minutes: int = 10
    events: tuple[Event, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    records_per_minute: int | tuple[int, int] = 6
    processing_ms: tuple[int, int] = (0, 1000)
    outputs: Mapping[str, int] = field(default_factory=dict)
    static: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        within(self.members, "members", 1, MOST_MEMBERS)
        within(self.minutes, "minutes", 1, MOST_MINUTES)
        rates = span(self.records_per_minute, "records_per_minute", 0, MOST_RATE)
        boolean(self.static, "static")
        integer(self.seed, "seed", 64)
        events = tuple(sequence(self.events, "events"))
        for event in events:
            if not isinstance(event, Event):
                raise ArgumentError(f"events must contain events, not {shown(event)}")
        checked = {
            "records_per_minute": rates[0] if rates[0] == rates[1] else rates,
            "topics": partition_counts(self.topics, "topics", 1),
            "events": events,
            "settings": mapping(self.settings, "settings"),
            "processing_ms": span(self.processing_ms, "processing_ms", 0, MOST_PROCESSING_MS),
            "outputs": partition_counts(self.outputs, "outputs"),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        shown = []
        for f in fields(self):
            value = getattr(self, f.name)
            if value != (f.default if f.default_factory is MISSING else f.default_factory()):
                shown.append(f"{f.name}={value!r}")
        return f"History({', '.join(shown)})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print as ``repr`` does; Hypothesis would print every field."""
        printer.text(repr(self))


def span(value: Any, name: str, low: int, high: int) -> tuple[int, int]:
    """Return a range: a whole number, or a pair of the least and the most."""
    pair = (value, value) if isinstance(value, int) else tuple(sequence(value, name))
    if len(pair) != 2:
        raise ArgumentError(f"{name} must be a number or a pair of them, not {shown(value)}")
    least = within(pair[0], name, low, high)
    return least, within(pair[1], name, least, high)


def mapping(value: Any, name: str) -> dict[Any, Any]:
    """Return a mapping as a dict; None is empty."""
    if value is not None and not isinstance(value, Mapping):
        raise ArgumentError(f"{name} must be a mapping, not {shown(value)}")
    return dict(value or {})


def partition_counts(value: Any, name: str, least: int = 0) -> dict[str, int]:
    """Return the partition count of each topic; there must be so many topics."""
    counts = {
        text(topic, "a topic"): within(count, f"the partitions of {topic}", 1, MOST_PARTITIONS)
        for topic, count in mapping(value, name).items()
    }
    if len(counts) < least:
        raise ArgumentError(f"{name} must map topics to partition counts, not {shown(value)}")
    return counts
