"""Count messages that a group consumed twice, or consumed without a commit."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from coterie.designs.ownership import GroupPartition


class OffsetSet:
    """A set of offsets, as ranges that neither touch nor overlap."""

    __slots__ = ("_ends", "_firsts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []  # exclusive

    def add(self, first: int, end: int) -> int:
        """Add ``first`` to ``end - 1``; return how many of them are new."""
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
    first: int  # first offset of the group
    consumed: OffsetSet = field(default_factory=OffsetSet)
    committed: int | None = None
    reached: dict[str, int] = field(default_factory=dict)  # consumer -> next offset


class Consumption:
    """Messages consumed again, and messages not committed when their partition was given up."""

    def __init__(self) -> None:
        self.repeated = self.lost = 0
        self._places: dict[GroupPartition, _Progress] = {}

    def consumed(self, consumer: str, place: GroupPartition, first: int, last: int) -> None:
        progress = self._places.get(place)
        if progress is None:
            progress = self._places[place] = _Progress(first)
        count = last + 1 - first
        self.repeated += count - progress.consumed.add(first, last + 1)
        progress.reached[consumer] = last + 1

    def committed(self, place: GroupPartition, offset: int) -> None:
        """Record a commit: the offset of the next message."""
        progress = self._places.get(place)
        if progress is None:
            progress = self._places[place] = _Progress(offset)
        progress.committed = offset

    def given_up(self, consumer: str, place: GroupPartition) -> None:
        """Count what a consumer loses when it stops owning a partition."""
        progress = self._places.get(place)
        if progress is not None and (reached := progress.reached.pop(consumer, None)) is not None:
            committed = progress.first if progress.committed is None else progress.committed
            self.lost += max(0, reached - committed)
