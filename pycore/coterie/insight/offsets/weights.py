"""What records weigh, and what is superseded of it: sums of parts, and of each key its last record.

A *part* is whatever is counted by itself, a number. Every method works on columns of rows in log
order. Where several rows write to one key's place, numpy leaves the last: no row is sorted for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from coterie.insight.records.key_index import LOW, Table
from coterie.insight.records.record_columns import Array


class Stretch:
    """Sums of the records of a stretch of the log, and the last settled one of each key there.

    ``kept`` are those that nothing supersedes: they have no key, or are undecided. ``last`` is of
    each kind, and has the part of a record above 32 bits with its bytes.
    """

    def __init__(self, kinds: int) -> None:
        names = ("records", "bytes", "kept_records", "kept_bytes")
        self.sums = Table(**dict.fromkeys(names, (np.int64, 0)))
        self.last = [Table(record=(np.int64, -1)) for _ in range(kinds)]

    def fit(self, parts: int, keys: Sequence[int]) -> None:
        """Have room for so many parts, and keys of each kind."""
        self.sums.fit(parts)
        for last, count in zip(self.last, keys, strict=True):
            last.fit(count)

    def keep(self, part: Array, size: Array) -> None:
        """Count records that nothing supersedes."""
        self.sums.add("kept_records", part)
        self.sums.add("kept_bytes", part, size)

    def hold(self, kind: int, key: Array, part: Array, size: Array) -> None:
        """Take settled records in log order: the last of each key stays."""
        record = part.astype(np.int64)
        record <<= 32
        record |= size
        self.last[kind]["record"][key] = record

    def absorb(self, later: Stretch, keys: Mapping[int, Array], part: Array) -> None:
        """Go on with what follows; ``keys`` and ``part`` number its keys and parts here."""
        for name in self.sums.fields:
            self.sums[name][part[: later.sums.count]] += later.sums[name]
        for kind, last in enumerate(later.last):
            told = np.flatnonzero(last["record"] >= 0)
            record = last["record"][told]
            self.hold(kind, keys[kind][told], part[record >> 32], record & LOW)


def superseded(stretches: Sequence[Stretch]) -> list[tuple[Array, Array]]:
    """Return what the records of each stretch supersede: how many of each part, and bytes.

    They have room for the same parts and keys.
    """
    found = []
    last = [np.full(len(one["record"]), -1) for one in stretches[0].last]
    for stretch in stretches:
        records = stretch.sums["records"] - stretch.sums["kept_records"]
        size = stretch.sums["bytes"] - stretch.sums["kept_bytes"]
        for before, one in zip(last, stretch.last, strict=True):
            told = np.flatnonzero(one["record"] >= 0)
            now, then = one["record"][told], before[told]
            for held, sign in ((now, -1), (then[then >= 0], 1)):
                np.add.at(records, held >> 32, sign)
                np.add.at(size, held >> 32, sign * (held & LOW))
            before[told] = now
        found.append((records, size))
    return found


class Stays:
    """The time between a partition's commits that follow one another in one part.

    A *stay* is a run of them. Of ``passed_ms`` the time of its first is taken when it begins, and
    that of its last added when it ends.
    """

    def __init__(self) -> None:
        self.sums = Table(passed_ms=(np.int64, 0), begun=(np.int64, 0))
        parts = dict.fromkeys(("part", "first_part"), (np.int32, -1))
        self.last = Table(**parts, ms=(np.int64, -1), first_ms=(np.int64, -1))

    def fit(self, parts: int, keys: int) -> None:
        """Have room for so many."""
        self.last.fit(keys)
        self.sums.fit(parts)

    def take(self, key: Array, part: Array, ms: Array) -> tuple[Array, Array]:
        """Take commits in log order; return the part and key of each stay that begins."""
        moves = self.last["part"][key] != part
        begun = self._begin(key, part, ms, moves) if moves.any() else (part[:0], key[:0])
        self.last["ms"][key] = ms
        return begun

    def _begin(self, key: Array, part: Array, ms: Array, moves: Array) -> tuple[Array, Array]:
        """Begin the stays of partitions of which a commit is in another part than the last."""
        moving = np.zeros(self.last.count, np.bool_)
        moving[key[moves]] = True
        rows = np.flatnonzero(moving[key])
        rows = np.sort(key[rows] << 32 | rows) & LOW  # by key, and as in the log
        key, part, ms = key[rows], part[rows], ms[rows]
        starts = run_starts(key)
        before, before_ms = np.roll(part, 1), np.roll(ms, 1)
        before[starts] = self.last["part"][key[starts]]
        before_ms[starts] = self.last["ms"][key[starts]]
        begins = before != part
        self._end(before[begins], before_ms[begins])
        np.subtract.at(self.sums["passed_ms"], part[begins], ms[begins])
        self.sums.add("begun", part[begins])
        new = starts[before[starts] < 0]
        self.last["first_part"][key[new]] = part[new]
        self.last["first_ms"][key[new]] = ms[new]
        self.last["part"][key] = part
        return part[begins], key[begins]

    def _end(self, part: Array, ms: Array) -> None:
        """End stays; part -1: there was none."""
        there = part >= 0
        np.add.at(self.sums["passed_ms"], part[there], ms[there])

    def absorb(self, later: Stays, keys: Array, part: Array) -> None:
        """Go on with what follows; ``keys`` and ``part`` number its keys and parts here."""
        for name in self.sums.fields:
            self.sums[name][part[: later.sums.count]] += later.sums[name]
        told = np.flatnonzero(later.last["part"] >= 0)
        key = keys[told]
        first, first_ms = part[later.last["first_part"][told]], later.last["first_ms"][told]
        before, before_ms = self.last["part"][key], self.last["ms"][key]
        same = before == first  # the stay goes on: it neither ended nor began
        self._end(before[~same], before_ms[~same])
        np.add.at(self.sums["passed_ms"], first[same], first_ms[same])
        np.subtract.at(self.sums["begun"], first[same], 1)
        new = before < 0
        self.last["first_part"][key[new]] = first[new]
        self.last["first_ms"][key[new]] = first_ms[new]
        self.last["part"][key] = part[later.last["part"][told]]
        self.last["ms"][key] = later.last["ms"][told]

    def passed_ms(self) -> Array:
        """Return the time between the commits of each part, all stays ended."""
        passed_ms = self.sums["passed_ms"].copy()
        told = self.last["part"] >= 0
        np.add.at(passed_ms, self.last["part"][told], self.last["ms"][told])
        return passed_ms


class Codes:
    """Numbers what an int64 stands for: the first is 0."""

    def __init__(self, first: int) -> None:
        self.codes = np.array([first], np.int64)  # they rise
        self.numbers = np.zeros(1, np.int64)

    def __len__(self) -> int:
        return len(self.codes)

    def of(self, codes: Array) -> Array:
        """Return the number of each of these, a new one at its first sight."""
        at = np.searchsorted(self.codes, codes)
        is_new = self.codes.take(at, mode="clip") != codes
        if is_new.any():
            new = distinct(codes[is_new])
            places = np.searchsorted(self.codes, new)
            numbers = np.arange(len(self), len(self) + len(new))
            self.numbers = np.insert(self.numbers, places, numbers)
            self.codes = np.insert(self.codes, places, new)
            at = np.searchsorted(self.codes, codes)
        numbers_of: Array = self.numbers[at]
        return numbers_of

    def all(self) -> Array:
        """Return all codes in order of their numbers."""
        found = np.empty_like(self.codes)
        found[self.numbers] = self.codes
        return found


def run_starts(*columns: Array) -> Array:
    """Return the rows at which any of the columns goes on with another value."""
    changes = np.empty(len(columns[0]), np.bool_)
    changes[:1] = True
    np.not_equal(columns[0][1:], columns[0][:-1], out=changes[1:])
    for column in columns[1:]:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)


def distinct(numbers: Array) -> Array:
    """Return numbers once each, sorted: faster than ``np.unique``, which hashes integers."""
    numbers = np.sort(numbers)
    ones: Array = numbers[run_starts(numbers)]
    return ones


def rows_where(is_so: Array) -> Array | slice:
    """Return which rows are meant, as an index: nothing is copied where all are."""
    return slice(None) if is_so.all() else np.flatnonzero(is_so)
