"""The conditions of a history: a group, its topics, and what happens to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from coterie.histories.events import Event

__all__ = ["Application", "Conditions"]

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
    records_per_minute: int = 6
    processing_ms: tuple[int, int] = (0, 1000)
    outputs: Mapping[str, int] = field(default_factory=dict)
    static: bool = False
    seed: int = 0

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
