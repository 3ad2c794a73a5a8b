"""Rows of commits brought together by key: group, topic and partition.

Numpy only: one sort of the rows of a piece, no Python object a row. About 10 M rows/s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.insight.commits import Array, Commits

Key = tuple[str, str, int]
LOW = 0xFFFFFFFF


@dataclass(frozen=True, eq=False)
class ByKey:
    """Rows sorted by key, those of one key in log order.

    Attributes
    ----------
    order : int64
        Row numbers in that order.
    keys : int64
        The key of each element of ``order``, as a number.
    first, last : bool
        Whether an element of ``order`` is the first, the last of its key.
    """

    order: Array
    keys: Array
    first: Array
    last: Array

    def last_rows(self) -> Array:
        """Return the last row of each key."""
        rows: Array = self.order[self.last]
        return rows

    def runs(self) -> list[Array]:
        """Return the rows of each key."""
        return np.split(self.order, np.flatnonzero(self.first)[1:]) if len(self.order) else []


def by_key(commits: Commits, rows: Array) -> ByKey:
    """Bring rows (their numbers, in log order) of offset commits together by their key."""
    return Keys().held(commits, rows)


def sorted_by(keys: Array, rows: Array) -> ByKey:
    """Bring rows together by one number each (int64), which stands for their key."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.ones(len(ordered), dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ByKey(rows[order], ordered, first, np.append(first[1:], True)[: len(ordered)])


class Keys:
    """Numbers the keys of commits from 0 up, the same over all pieces of a partition."""

    def __init__(self) -> None:
        self.pairs: dict[int, int] = {}  # group and topic, as one number -> theirs
        self.codes = np.empty(0, np.int64)  # pair and partition, sorted
        self.numbers = np.empty(0, np.int64)  # of each code
        self.groups: list[str] = []  # the names of all pieces so far
        self.topics: list[str] = []

    def __len__(self) -> int:
        return len(self.codes)

    def of(self, commits: Commits, rows: Array) -> Array:
        """Return the number of each row's key; the rows are commits or their tombstones."""
        self._name(commits.groups, commits.topics)
        names = (commits.group[rows].astype(np.int64) << 32) | commits.topic[rows]
        # The commits of a request stand together: only the first of each run is looked up.
        first = np.ones(len(names), dtype=np.bool_)
        first[1:] = names[1:] != names[:-1]
        heads = np.flatnonzero(first)
        different, pair = np.unique(names[heads], return_inverse=True)
        pairs = [self.pairs.setdefault(name, len(self.pairs)) for name in different.tolist()]
        pair = np.repeat(pair, np.diff(heads, append=len(names)))
        # An int32 partition may be negative; its 32 bits tell it as well.
        low = commits.partition[rows].astype(np.uint32)
        codes = (np.array(pairs, np.int64)[pair] << 32) | low
        at = np.searchsorted(self.codes, codes)
        new = np.ones(len(codes), dtype=np.bool_)
        inside = at < len(self.codes)
        new[inside] = self.codes[at[inside]] != codes[inside]
        if new.any():
            self._add(np.unique(codes[new]))
            at = np.searchsorted(self.codes, codes)
        numbers: Array = self.numbers[at]
        return numbers

    def absorb(self, later: Keys) -> Array:
        """Add the keys of later pieces, whose names are numbered as here; return their numbers."""
        self._name(later.groups, later.topics)
        pairs = [self.pairs.setdefault(name, len(self.pairs)) for name in later.pairs]
        codes = np.array(pairs, np.int64)[later.codes >> 32] << 32 | later.codes & LOW
        self._add(np.setdiff1d(codes, self.codes))
        numbers = np.empty(len(codes), np.int64)
        numbers[later.numbers] = self.numbers[np.searchsorted(self.codes, codes)]
        return numbers

    def _name(self, groups: list[str], topics: list[str]) -> None:
        """Take the names of further pieces, which go on from those before."""
        self.groups = max(self.groups, groups, key=len)
        self.topics = max(self.topics, topics, key=len)

    def _add(self, codes: Array) -> None:
        where = np.searchsorted(self.codes, codes)
        count = len(self.codes)
        self.codes = np.insert(self.codes, where, codes)
        numbers = np.arange(count, count + len(codes))
        self.numbers = np.insert(self.numbers, where, numbers)

    def held(self, commits: Commits, rows: Array) -> ByKey:
        """Bring rows (their numbers, in log order) together by their key."""
        return sorted_by(self.of(commits, rows), rows)

    def items(self) -> Iterator[tuple[int, Key]]:
        """Yield each key's number with its names, by names in order of first sight."""
        pairs = list(self.pairs)
        codes, numbers = self.codes.tolist(), self.numbers.tolist()
        order = sorted(range(len(codes)), key=lambda at: (pairs[codes[at] >> 32], codes[at]))
        for at in order:
            name, low = pairs[codes[at] >> 32], codes[at] & LOW
            partition = low - (1 << 32) if low >> 31 else low
            yield numbers[at], (self.groups[name >> 32], self.topics[name & LOW], partition)


class Numbers(dict[Any, int]):
    """Numbers whatever can be a key of a dict from 0 up."""

    def of(self, names: Iterable[Any]) -> Array:
        """Return the number of each of these, a new one at its first sight."""
        return np.array([self.setdefault(name, len(self)) for name in names], np.int64)


class Table:
    """Columns with a row for each key, or whatever is numbered from 0 up, that grow with it.

    Parameters
    ----------
    fields
        Name -> dtype and what a row has before anything was said of it.
    """

    def __init__(self, **fields: tuple[Any, Any]) -> None:
        self.fields = {name: (np.dtype(dtype), fill) for name, (dtype, fill) in fields.items()}
        self.columns = {name: np.empty(0, dtype) for name, (dtype, _) in self.fields.items()}
        self.count = 0

    def fit(self, count: int) -> None:
        """Have at least so many rows."""
        held = len(next(iter(self.columns.values())))
        if count > held:
            size = max(count, 2 * held)
            for name, (dtype, fill) in self.fields.items():
                grown = np.full(size, fill, dtype)
                grown[:held] = self.columns[name]
                self.columns[name] = grown
        self.count = max(self.count, count)

    def before(self, name: str, held: ByKey, column: Array) -> Array:
        """Return what stood before each element of its key, in whichever piece; keep the last.

        ``column`` is in the order of ``held``, whose keys number the rows of the table.
        """
        found = np.roll(column, 1)
        found[held.first] = self[name][held.keys[held.first]]
        self[name][held.keys[held.last]] = column[held.last]
        return found

    def add(self, name: str, at: Array, weight: Array | None = None) -> None:
        """Add to rows, each as often as it is named: 1, or a weight (integers)."""
        column = self[name]
        if len(at) * 8 < len(column):
            np.add.at(column, at, 1 if weight is None else weight)
        else:
            column += np.bincount(at, weight, len(column)).astype(column.dtype)

    def put(self, later: Table, at: Array, names: Iterable[str] | None = None) -> None:
        """Have another's rows take the place of these; ``names``: of some columns alone."""
        for name in self.columns if names is None else names:
            self[name][at] = later[name]

    def put_rows(self, other: Table, rows: Array, at: Array) -> None:
        """Have some rows of another table take the place of rows of this one."""
        for name in self.columns:
            self[name][at] = other[name][rows]

    def __getitem__(self, name: str) -> Array:
        column: Array = self.columns[name]
        return column[: self.count]

    def __getstate__(self) -> dict[str, Any]:
        held = {name: self[name].copy() for name in self.columns}
        return {"fields": self.fields, "columns": held, "count": self.count}
