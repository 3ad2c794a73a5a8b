"""The committed offset of each partition over time, in bounded memory.

Of so many commits that they take more room, only the last of each partition in each span of time is
stored; the span doubles until they fit. So what lies between two points is never more exact than
the log, and a bound that is drawn from two points stays a bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from coterie.insight.records.key_index import Keys
from coterie.insight.records.record_columns import Array, RecordColumns

MOST_POINTS = 1 << 19
LONGEST_MS = 1 << 50  # of a span


class Curve(NamedTuple):
    """The commits of a partition in log order: times (epoch ms) and offsets."""

    group: str
    topic: str
    partition: int
    times_ms: list[int]
    offsets: list[int]


class CommitCurves:
    """Takes the pieces of a log; :meth:`curves` has what was committed when."""

    COLUMNS: frozenset[str] = frozenset()  # what there always is

    def __init__(self, most_points: int = MOST_POINTS) -> None:
        self._most_points = most_points
        self._keys = Keys()
        self._span_ms = 1
        self._count = 0
        self._parts: list[tuple[Array, Array, Array]] = []  # key, time, offset

    def take(self, records: RecordColumns) -> None:
        """Take the next piece."""
        is_commit = records.effective & ~records.tombstone & (records.timestamp >= 0)
        rows = np.flatnonzero(is_commit)
        if not len(rows):
            return
        keys = self._keys.of(records, rows)
        self._add(keys, records.timestamp[rows].copy(), records.offset[rows].copy())
        if self._count > self._most_points:
            self._thin()

    def _thin(self) -> None:
        """Halve the points, or leave one of each key."""
        self._add(*self._joined())
        while self._count > self._most_points // 2 and self._span_ms < LONGEST_MS:
            self._span_ms *= 2
            self._add(*self._joined())

    def _joined(self) -> tuple[Array, Array, Array]:
        """Take out all points."""
        parts, self._parts, self._count = self._parts, [], 0
        keys, times_ms, offsets = map(np.concatenate, zip(*parts, strict=True))
        return keys, times_ms, offsets

    def _add(self, keys: Array, times_ms: Array, offsets: Array) -> None:
        """Store the last point of each key in each span."""
        order = np.argsort(keys, kind="stable")
        keys, times_ms, offsets = keys[order], times_ms[order], offsets[order]
        spans = times_ms // self._span_ms
        is_last = np.ones(len(keys), np.bool_)
        is_last[:-1] = (keys[1:] != keys[:-1]) | (spans[1:] != spans[:-1])
        self._parts.append((keys[is_last], times_ms[is_last], offsets[is_last]))
        self._count += int(is_last.sum())

    def curves(self) -> Iterator[Curve]:
        """Yield the curve of each partition."""
        if not self._parts:
            return
        self._add(*self._joined())
        ((keys, times_ms, offsets),) = self._parts
        numbers, begins = np.unique(keys, return_index=True)
        ends = [*begins[1:].tolist(), len(keys)]
        places = dict(zip(numbers.tolist(), zip(begins.tolist(), ends, strict=True), strict=True))
        for number, key in self._keys.items(places):
            part = slice(*places[number])
            yield Curve(*key, times_ms[part].tolist(), offsets[part].tolist())
