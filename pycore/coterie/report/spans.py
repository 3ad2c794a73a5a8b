"""Count events over time, by spans of equal length.

The length is the shortest of ``LADDER`` that gives at most the requested number of points. A span
begins at a multiple of its length since 1970. Each length is a multiple of the one before, so
counts by shorter spans add up to counts by longer ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.insight.records.record_columns import Array

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
LADDER = (
    *(100, 500, SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND),
    *(MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY),
    *(70 * DAY, 700 * DAY, 7_000 * DAY, 70_000 * DAY, 700_000 * DAY, 7_000_000 * DAY),
    *(70_000_000 * DAY, 700_000_000 * DAY),  # of which 240 are more than any int64
)
POINTS = 240


def span_of(start_ms: int, end_ms: int, points: int = POINTS) -> int:
    """Return the shortest span that gives at most ``points`` points from start to end, ms."""
    fitting = (span for span in LADDER if end_ms // span - start_ms // span < points)
    return next(fitting)


class SpanCounts:
    """Counts by span of any number of times, in bounded memory.

    They begin with the shortest span, and change to longer ones as the times spread.
    """

    def __init__(self, points: int = POINTS) -> None:
        self.points = points
        self.span_ms = LADDER[0]
        self.counts: dict[int, int] = {}

    def add(self, times_ms: Array) -> None:
        """Count times (int64, ms); those below 0 are ignored."""
        known = times_ms[times_ms >= 0]
        if not len(known):
            return
        ends = [int(known.min()), int(known.max()), *self._ends()]
        self._widen(span_of(min(ends), max(ends), self.points))
        numbers = known // self.span_ms
        first = int(numbers.min())
        counts = np.bincount(numbers - first)  # few spans are left
        for number in np.flatnonzero(counts).tolist():
            at = first + number
            self.counts[at] = self.counts.get(at, 0) + int(counts[number])

    def merge(self, other: SpanCounts) -> None:
        """Add the counts of another, with the same number of points."""
        if not other.counts:
            return
        ends = self._ends() + other._ends()
        self._widen(max(other.span_ms, span_of(min(ends), max(ends), self.points)))
        other._widen(self.span_ms)
        for number, count in other.counts.items():
            self.counts[number] = self.counts.get(number, 0) + count

    def _ends(self) -> list[int]:
        """Return the starts of the first and of the last span, ms."""
        numbers = [min(self.counts), max(self.counts)] if self.counts else []
        return [number * self.span_ms for number in numbers]

    def _widen(self, span_ms: int) -> None:
        factor, wider = max(span_ms // self.span_ms, 1), dict[int, int]()
        for number, count in self.counts.items():
            wider[number // factor] = wider.get(number // factor, 0) + count
        self.span_ms, self.counts = self.span_ms * factor, wider

    def as_data(self, span_ms: int | None = None) -> dict[str, Any]:
        """Return ``span_ms``, and ``at`` (starts of spans, ms) with ``count``, without empty spans.

        ``span_ms`` widens it, so that two can be drawn over the same spans.
        """
        if span_ms is not None:
            self._widen(span_ms)
        numbers = sorted(self.counts)
        return {
            "span_ms": self.span_ms,
            "at": [number * self.span_ms for number in numbers],
            "count": [self.counts[number] for number in numbers],
        }
