"""Numbers for the keys of commits (group, topic, partition), and tables with a row for each key.

The scan of a log numbers the keys, so no Python object is made for a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie._core.fold.record_scan import KEY_DTYPE, RecordScan
from coterie.insight.records.record_columns import NO_RECORD, Array, RecordColumns

Key = tuple[str, str, int]
LOW = 0xFFFFFFFF


@dataclass(frozen=True, eq=False)
class RowsByKey:
    """Rows sorted by key; the rows of one key are in log order.

    Attributes
    ----------
    order : int64
        The row numbers in this order.
    keys : int64
        The key number of each element of ``order``.
    first, last : bool
        Whether an element of ``order`` is the first or the last of its key.
    """

    order: Array
    keys: Array
    first: Array
    last: Array

    def runs(self) -> list[Array]:
        return np.split(self.order, np.flatnonzero(self.first)[1:]) if len(self.order) else []


def rows_by_key(keys: Array, rows: Array) -> RowsByKey:
    """Sort rows by their key numbers (int64)."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.ones(len(ordered), dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return RowsByKey(rows[order], ordered, first, np.append(first[1:], True)[: len(ordered)])


class Keys:
    """The keys of a partition's commits, numbered from 0 up, the same in all pieces.

    The numbers are those of the scan that made the pieces, until another part's keys are absorbed.
    """

    def __init__(self) -> None:
        self.scan: RecordScan | None = None
        self.known = np.empty(0, KEY_DTYPE)
        self.groups: list[str] = []
        self.topics: list[str] = []

    @property
    def entries(self) -> Array:
        """Each key with its last effective record; see ``RecordScan.keys``."""
        return self.known if self.scan is None else self.scan.keys()

    def __len__(self) -> int:
        return len(self.known) if self.scan is None else self.scan.key_count

    @property
    def topic_names(self) -> list[str]:
        """The topic names, indexed by an entry's ``topic``."""
        return self.topics if self.scan is None else self.scan.topics

    def follow(self, commits: RecordColumns) -> None:
        """Use the keys of the scan that made a piece."""
        self.scan = commits.scan

    def of(self, commits: RecordColumns, rows: Array) -> Array:
        """Return the key number of each row; the rows must be commits or their tombstones."""
        self.scan = commits.scan
        numbers: Array = commits.key[rows].astype(np.int64)
        return numbers

    def absorb(self, later: Keys) -> Array:
        """Add the keys of the next part; return their numbers in this object.

        The last record of a key comes from the next part, if it has one there.
        """
        own = self.__getstate__()
        entries, other = own["known"], later.__getstate__()
        self.groups = NameNumbers(own["groups"]).absorb(other["groups"])
        self.topics = NameNumbers(own["topics"]).absorb(other["topics"])
        moved = other["known"].copy()
        moved["group"] = NameNumbers(self.groups).numbers(other["groups"])[moved["group"]]
        moved["topic"] = NameNumbers(self.topics).numbers(other["topics"])[moved["topic"]]
        _, first, codes = np.unique(
            codes_of(np.append(entries, moved)), return_index=True, return_inverse=True
        )
        # The first occurrence of a code gives its number: that of a known key, or the next new one.
        new = np.sort(first[first >= len(entries)])
        number = np.where(first < len(entries), first, len(entries) + np.searchsorted(new, first))
        numbers: Array = number[codes[len(entries) :]]
        self.scan, self.known = None, np.append(entries, moved[new - len(entries)])
        has_record = moved["before"] != NO_RECORD
        self.known[numbers[has_record]] = moved[has_record]
        return numbers

    def grouped(self, commits: RecordColumns, rows: Array) -> RowsByKey:
        """Sort rows, given in log order, by their key."""
        return rows_by_key(self.of(commits, rows), rows)

    def items(self, among: Iterable[int] | None = None) -> Iterator[tuple[int, Key]]:
        """Yield each key's number and the key, ordered by the first occurrence of its names.

        ``among``: only the keys with these numbers.
        """
        state = self.__getstate__()
        entries, groups, topics = state["known"], state["groups"], state["topics"]
        order = np.lexsort((entries["partition"].astype(np.uint32), pair_ranks(entries)))
        if among is not None:
            order = order[np.isin(order, list(among))]
        columns = (entries[name][order].tolist() for name in ("group", "topic", "partition"))
        for number, group, topic, partition in zip(order.tolist(), *columns, strict=True):
            yield number, (groups[group], topics[topic], partition)

    def __getstate__(self) -> dict[str, Any]:
        names = self if self.scan is None else self.scan
        state = {"groups": names.groups, "topics": names.topics}
        return state | {"scan": None, "known": self.entries}


def pair_ranks(entries: Array) -> Array:
    """Return a number for the group and topic of each key, in order of first occurrence."""
    pairs = entries["group"].astype(np.int64) << 32 | entries["topic"]
    _, first, pair = np.unique(pairs, return_index=True, return_inverse=True)
    ranks: Array = first[pair]
    return ranks


def codes_of(entries: Array) -> Array:
    """Return a number (int64) for each key; equal keys have equal numbers."""
    codes: Array = pair_ranks(entries) << 32 | entries["partition"].astype(np.uint32)
    return codes


class NameNumbers(dict[str, int]):
    """Names with numbers from 0 up."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__((name, number) for number, name in enumerate(names))

    def absorb(self, later: Iterable[str]) -> list[str]:
        for name in later:
            self.setdefault(name, len(self))
        return list(self)

    def numbers(self, names: Iterable[str]) -> Array:
        return np.array([self[name] for name in names], np.int32)


class KeyNumbers(dict[Any, int]):
    """Numbers from 0 up for hashable values."""

    def of(self, values: Iterable[Any]) -> Array:
        """Return the number of each value; a new value gets the next number."""
        return np.array([self.setdefault(value, len(self)) for value in values], np.int64)


class Table:
    """Columns with a row for each number from 0 up, such as key numbers; they grow on demand.

    Parameters
    ----------
    fields
        Name -> dtype and the initial value of a row.
    """

    def __init__(self, **fields: tuple[Any, Any]) -> None:
        self.fields = {name: (np.dtype(dtype), fill) for name, (dtype, fill) in fields.items()}
        self.columns = {name: np.empty(0, dtype) for name, (dtype, _) in self.fields.items()}
        self.count = 0

    def fit(self, count: int) -> None:
        """Grow to at least ``count`` rows."""
        capacity = len(next(iter(self.columns.values())))
        if count > capacity:
            size = max(count, 2 * capacity)
            for name, (dtype, fill) in self.fields.items():
                grown = np.full(size, fill, dtype)
                grown[:capacity] = self.columns[name]
                self.columns[name] = grown
        self.count = max(self.count, count)

    def add(self, name: str, at: Array, weight: Array | None = None) -> None:
        """Add 1, or an integer weight, to rows; a row that is named twice gets both."""
        column = self[name]
        if len(at) * 8 < len(column):
            np.add.at(column, at, 1 if weight is None else weight)
        else:
            column += np.bincount(at, weight, len(column)).astype(column.dtype)

    def put_rows(self, other: Table, rows: Array, at: Array) -> None:
        """Copy rows of another table over rows of this one."""
        for name in self.columns:
            self[name][at] = other[name][rows]

    def __getitem__(self, name: str) -> Array:
        column: Array = self.columns[name]
        return column[: self.count]

    def __getstate__(self) -> dict[str, Any]:
        columns = {name: self[name].copy() for name in self.columns}
        return {"fields": self.fields, "columns": columns, "count": self.count}
