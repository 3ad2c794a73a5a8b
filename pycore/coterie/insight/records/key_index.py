"""Numbers for the keys of commits (group, topic, partition), and tables with a row for each key.

The scan of a log numbers the keys, so no Python object is made for a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie._core.fold.record_scan import KEY_DTYPE, RecordScan
from coterie.insight.records.record_columns import Array, RecordColumns

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

    The numbers are those of ``scan``, which made the pieces; None: there was no piece yet.
    """

    def __init__(self) -> None:
        self.scan: RecordScan | None = None

    @property
    def entries(self) -> Array:
        """Each key with its last effective record; see ``RecordScan.keys``."""
        return np.empty(0, KEY_DTYPE) if self.scan is None else self.scan.keys()

    def __len__(self) -> int:
        return 0 if self.scan is None else self.scan.key_count

    @property
    def group_names(self) -> list[str]:
        """The group names, indexed by an entry's ``group``."""
        return [] if self.scan is None else self.scan.groups

    @property
    def topic_names(self) -> list[str]:
        """The topic names, indexed by an entry's ``topic``."""
        return [] if self.scan is None else self.scan.topics

    def of(self, commits: RecordColumns, rows: Array) -> Array:
        """Return the key number of each row; the rows must be commits or their tombstones."""
        self.scan = commits.scan
        numbers: Array = commits.key[rows].astype(np.int64)
        return numbers

    def grouped(self, commits: RecordColumns, rows: Array) -> RowsByKey:
        """Sort rows, given in log order, by their key."""
        return rows_by_key(self.of(commits, rows), rows)

    def items(self, among: Iterable[int] | None = None) -> Iterator[tuple[int, Key]]:
        """Yield each key's number and the key, ordered by the first occurrence of its names.

        ``among``: only the keys with these numbers.
        """
        entries, groups, topics = self.entries, self.group_names, self.topic_names
        order = np.lexsort((entries["partition"].astype(np.uint32), pair_ranks(entries)))
        if among is not None:
            order = order[np.isin(order, list(among))]
        columns = (entries[name][order].tolist() for name in ("group", "topic", "partition"))
        for number, group, topic, partition in zip(order.tolist(), *columns, strict=True):
            yield number, (groups[group], topics[topic], partition)


def pair_ranks(entries: Array) -> Array:
    """Return a number for the group and topic of each key, in order of first occurrence."""
    pairs = entries["group"].astype(np.int64) << 32 | entries["topic"]
    _, first, pair = np.unique(pairs, return_index=True, return_inverse=True)
    ranks: Array = first[pair]
    return ranks


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

    def __getitem__(self, name: str) -> Array:
        column: Array = self.columns[name]
        return column[: self.count]
