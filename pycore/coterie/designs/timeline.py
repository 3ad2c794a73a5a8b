"""The timeline of a run: entries in order, stored in columns, as a large run has millions."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a timeline.

    Attributes
    ----------
    at_ms : int
        Its time, ms.
    kind : str
        ``started``, ``closed``, ``crashed``; ``rebalance_began``, ``rebalance_ended`` (whether it
        succeeded); ``owns``, ``gives_up`` (topic, partition: as the consumer believes);
        ``consumed`` (topic, partition, first and last offset); ``committed`` (topic, partition,
        offset); ``event`` (the kind of the watch event).
    consumer : str
        The consumer; empty for a group's rebalance under a coordinator.
    details : tuple
        Further values, by kind.
    """

    at_ms: int
    kind: str
    consumer: str
    details: tuple[Any, ...]


Details = tuple[Any, ...]
Value = TypeVar("Value", str, tuple[Any, ...])


class _Numbered(Generic[Value]):
    """Distinct values, numbered in the order of their first use."""

    __slots__ = ("_numbers", "values")

    def __init__(self) -> None:
        self.values: list[Value] = []
        self._numbers: dict[Value, int] = {}

    def number(self, value: Value) -> int:
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        return number


class Timeline(Sequence[Entry]):
    """Entries in order, at 21 bytes each and 8 for each offset; an object would take about 300.

    Texts, and pairs of a topic and a partition, are stored once.
    """

    def __init__(self) -> None:
        self._at, self._kind, self._consumer = array("q"), array("B"), array("I")
        self._place, self._offset_at = array("I"), array("I")
        self._offsets = array("q")
        self._kinds, self._consumers, self._places = (
            _Numbered[str](),
            _Numbered[str](),
            _Numbered[Details](),
        )

    def add(self, at_ms: int, kind: str, consumer: str, *details: Any) -> None:
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
            *(column.values for column in (self._kinds, self._consumers, self._places)),
        )
