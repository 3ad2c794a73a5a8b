"""The records that were written while a clock was set back, and when they count as written.

What follows a step back counts as written when the first batch was that has caught up with the time
before the step; if there is none, at the time before the step. See ``coterie.log.clock``.
Rules: docs/log.md#times-that-go-back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.log.clock import BatchTimes, batch_times
from coterie.log.folders import Segment, read_segment

if TYPE_CHECKING:
    from typing_extensions import Buffer

Array = np.ndarray[Any, Any]
NO_END = np.iinfo(np.int64).max


class SetBack:
    """Stretches of records, by their numbers in the partition's log from 0 on.

    Attributes
    ----------
    first, end, written_ms : array of int64
        Of each stretch: its first record, the one behind its last, and when they count as written.
    """

    def __init__(self) -> None:
        self.first = self.end = self.written_ms = np.empty(0, np.int64)
        self.latest_ms = -1
        self.count = 0
        self.is_open = False

    @classmethod
    def of(
        cls, segments: Iterable[Segment], read: Callable[[Segment], Buffer] = read_segment
    ) -> SetBack:
        """Return the stretches of a partition; the times of all its batches are read."""
        stretches = cls()
        for batches in batch_times(segments, read):
            stretches.take(batches)
        stretches.finish()
        return stretches

    def take(self, batches: BatchTimes) -> None:
        numbers = self.count + np.cumsum(batches.records) - batches.records
        self.count += int(batches.records.sum())
        known = np.flatnonzero(batches.times >= 0)
        times, numbers = batches.times[known], numbers[known]
        reached = np.maximum.accumulate(np.append(self.latest_ms, times))
        behind = np.append(self.is_open, times < reached[:-1])
        ends = behind[:-1] & ~behind[1:]
        self.first = np.append(self.first, numbers[behind[1:] & ~behind[:-1]])
        self.end = np.append(self.end, numbers[ends])
        self.written_ms = np.append(self.written_ms, times[ends])
        self.latest_ms, self.is_open = int(reached[-1]), bool(behind[-1])

    def finish(self) -> None:
        """End the last stretch with the log."""
        if self.is_open:
            self.end = np.append(self.end, NO_END)
            self.written_ms = np.append(self.written_ms, self.latest_ms)

    def written(self, numbers: Array, times: Array) -> Array:
        """Return when records count as written, given their numbers and own times (-1: none)."""
        if not len(self.first):
            return times
        at = np.searchsorted(self.first, numbers, "right") - 1
        inside = (at >= 0) & (numbers < self.end[at]) & (times >= 0)
        return np.where(inside, self.written_ms[at], times)
