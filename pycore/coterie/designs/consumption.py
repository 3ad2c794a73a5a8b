"""What consumers of a group consumed and committed: how much of it twice, how much for nothing."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from coterie.designs.ownership import Place


class Offsets:
    """A set of offsets as ranges that neither touch nor overlap."""

    __slots__ = ("_ends", "_firsts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []  # behind the last of each range

    def add(self, first: int, end: int) -> int:
        """Add ``first`` to ``end - 1``; return how many of them were not there."""
        low = bisect_left(self._ends, first)
        high = low
        new, start, stop = end - first, first, end
        while high < len(self._firsts) and self._firsts[high] <= end:
            shared = min(end, self._ends[high]) - max(first, self._firsts[high])
            new -= max(0, shared)
            start, stop = min(start, self._firsts[high]), max(stop, self._ends[high])
            high += 1
        self._firsts[low:high], self._ends[low:high] = [start], [stop]
        return new


@dataclass(slots=True)
class _Progress:
    """A group's progress in a partition."""

    first: int  # where the group began
    consumed: Offsets = field(default_factory=Offsets)
    committed: int | None = None
    reached: dict[str, int] = field(default_factory=dict)  # consumer -> next offset


class Consumption:
    """Messages consumed again, and consumed without a commit when the partition was given up."""

    def __init__(self) -> None:
        self.repeated = self.lost = 0
        self._places: dict[Place, _Progress] = {}

    def consumed(self, consumer: str, place: Place, first: int, last: int) -> None:
        """Count messages that a consumer consumed."""
        held = self._places.get(place)
        if held is None:
            held = self._places[place] = _Progress(first)
        count = last + 1 - first
        self.repeated += count - held.consumed.add(first, last + 1)
        held.reached[consumer] = last + 1

    def committed(self, place: Place, offset: int) -> None:
        """Note a commit: the offset of the next message."""
        held = self._places.get(place)
        if held is None:
            held = self._places[place] = _Progress(offset)
        held.committed = offset

    def given_up(self, consumer: str, place: Place) -> None:
        """Count what a consumer loses as it owns a partition no longer."""
        held = self._places.get(place)
        if held is not None and (reached := held.reached.pop(consumer, None)) is not None:
            kept = held.first if held.committed is None else held.committed
            self.lost += max(0, reached - kept)
