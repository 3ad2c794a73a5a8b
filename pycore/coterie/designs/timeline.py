"""What happened in a run, in order: entries kept in columns, since a large run has millions."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a timeline.

    Attributes
    ----------
    at_ms : int
        When.
    kind : str
        ``started``, ``closed``, ``crashed``; ``rebalance_began``, ``rebalance_ended`` (whether it
        succeeded); ``owns``, ``gives_up`` (topic, partition: as the consumer believes);
        ``consumed`` (topic, partition, first, last offset); ``committed`` (topic, partition,
        offset); ``event`` (what kind of watch fired).
    consumer : str
        Whose; of a group's rebalance under a coordinator nobody's.
    details : tuple
        The rest, by kind.
    """

    at_ms: int
    kind: str
    consumer: str
    details: tuple[Any, ...]


Details = tuple[Any, ...]
Value = TypeVar("Value", str, tuple[Any, ...])


class _Once(Generic[Value]):
    """Values by their numbers, each kept once."""

    __slots__ = ("_numbers", "values")

    def __init__(self) -> None:
        self.values: list[Value] = []
        self._numbers: dict[Value, int] = {}

    def number(self, value: Value) -> int:
        """Return the number of a value."""
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.values)
            self.values.append(value)
        return found


class Timeline(Sequence[Entry]):
    """Entries in order: 21 bytes each, and 8 for each offset, where an object takes some 300.

    Texts, and a topic with its partition, are kept once.
    """

    def __init__(self) -> None:
        self._at, self._kind, self._consumer = array("q"), array("B"), array("I")
        self._place, self._offset_at = array("I"), array("I")
        self._offsets = array("q")
        self._kinds, self._consumers, self._places = _Once[str](), _Once[str](), _Once[Details]()

    def add(self, at_ms: int, kind: str, consumer: str, *details: Any) -> None:
        """Add what happened."""
        self._at.append(at_ms)
        self._kind.append(self._kinds.number(kind))
        self._consumer.append(self._consumers.number(consumer))
        self._place.append(self._places.number(details[:2]))
        self._offset_at.append(len(self._offsets))
        self._offsets.extend(details[2:])

    def __len__(self) -> int:
        return len(self._at)

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> list[Entry]: ...
    def __getitem__(self, index: int | slice) -> Entry | list[Entry]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        last = self._offset_at[index + 1] if index + 1 < len(self) else len(self._offsets)
        offsets = self._offsets[self._offset_at[index] : last]
        return Entry(
            self._at[index],
            self._kinds.values[self._kind[index]],
            self._consumers.values[self._consumer[index]],
            (*self._places.values[self._place[index]], *offsets),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Timeline):
            return NotImplemented
        return self._columns() == other._columns()

    __hash__ = None  # type: ignore[assignment]  # it grows

    def _columns(self) -> tuple[Any, ...]:
        return (
            *(self._at, self._kind, self._consumer, self._place, self._offset_at, self._offsets),
            *(one.values for one in (self._kinds, self._consumers, self._places)),
        )
