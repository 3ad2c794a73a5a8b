"""Keys of commits (group, topic, partition) as numbers, and columns with a row for each key.

The scan of a log numbers the keys; no Python object a row.
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

    def runs(self) -> list[Array]:
        """Return the rows of each key."""
        return np.split(self.order, np.flatnonzero(self.first)[1:]) if len(self.order) else []


def sorted_by(keys: Array, rows: Array) -> ByKey:
    """Bring rows together by one number each (int64), which stands for their key."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.ones(len(ordered), dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ByKey(rows[order], ordered, first, np.append(first[1:], True)[: len(ordered)])


class Keys:
    """The keys of a partition's commits, numbered from 0 up: the same over all pieces.

    They are those of the scan that made the pieces, until those of a later part are absorbed.
    """

    def __init__(self) -> None:
        self.scan: RecordScan | None = None
        self.known = np.empty(0, KEY_DTYPE)
        self.groups: list[str] = []
        self.topics: list[str] = []

    @property
    def entries(self) -> Array:
        """Each key, and its last record that counts: see ``RecordScan.keys``."""
        return self.known if self.scan is None else self.scan.keys()

    def __len__(self) -> int:
        return len(self.known) if self.scan is None else self.scan.key_count

    @property
    def topic_names(self) -> list[str]:
        """The names that ``topic`` of an entry numbers."""
        return self.topics if self.scan is None else self.scan.topics

    def follow(self, commits: RecordColumns) -> None:
        """Go on with the keys of the scan that made a piece."""
        self.scan = commits.scan

    def of(self, commits: RecordColumns, rows: Array) -> Array:
        """Return the number of each row's key; the rows are commits or their tombstones."""
        self.scan = commits.scan
        numbers: Array = commits.key[rows].astype(np.int64)
        return numbers

    def absorb(self, later: Keys) -> Array:
        """Add the keys of later pieces; return their numbers here.

        The last records are those of the later pieces, where these have any.
        """
        here = self.__getstate__()
        ours, theirs = here["known"], later.__getstate__()
        self.groups = Names(here["groups"]).absorb(theirs["groups"])
        self.topics = Names(here["topics"]).absorb(theirs["topics"])
        moved = theirs["known"].copy()
        moved["group"] = Names(self.groups).numbers(theirs["groups"])[moved["group"]]
        moved["topic"] = Names(self.topics).numbers(theirs["topics"])[moved["topic"]]
        _, first, code = np.unique(
            codes_of(np.append(ours, moved)), return_index=True, return_inverse=True
        )
        # A code's first place says its number: that of a key here, or the next behind them.
        new = np.sort(first[first >= len(ours)])
        number = np.where(first < len(ours), first, len(ours) + np.searchsorted(new, first))
        numbers: Array = number[code[len(ours) :]]
        self.scan, self.known = None, np.append(ours, moved[new - len(ours)])
        told = moved["before"] != NO_RECORD
        self.known[numbers[told]] = moved[told]
        return numbers

    def held(self, commits: RecordColumns, rows: Array) -> ByKey:
        """Bring rows (their numbers, in log order) together by their key."""
        return sorted_by(self.of(commits, rows), rows)

    def items(self, among: Iterable[int] | None = None) -> Iterator[tuple[int, Key]]:
        """Yield each key's number with its names, by names in order of first sight.

        ``among``: those of some numbers alone.
        """
        held = self.__getstate__()
        entries, groups, topics = held["known"], held["groups"], held["topics"]
        order = np.lexsort((entries["partition"].astype(np.uint32), pair_ranks(entries)))
        if among is not None:
            order = order[np.isin(order, list(among))]
        columns = (entries[name][order].tolist() for name in ("group", "topic", "partition"))
        for at, group, topic, partition in zip(order.tolist(), *columns, strict=True):
            yield at, (groups[group], topics[topic], partition)

    def __getstate__(self) -> dict[str, Any]:
        names = self if self.scan is None else self.scan
        held = {"groups": names.groups, "topics": names.topics}
        return held | {"scan": None, "known": self.entries}


def pair_ranks(entries: Array) -> Array:
    """Return a number for the group and topic of each key, in order of first sight."""
    pairs = entries["group"].astype(np.int64) << 32 | entries["topic"]
    _, first, pair = np.unique(pairs, return_index=True, return_inverse=True)
    ranks: Array = first[pair]
    return ranks


def codes_of(entries: Array) -> Array:
    """Return one number (int64) for each key, the same for the same key."""
    codes: Array = pair_ranks(entries) << 32 | entries["partition"].astype(np.uint32)
    return codes


class Names(dict[str, int]):
    """Names, numbered from 0 up."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__((name, number) for number, name in enumerate(names))

    def absorb(self, later: Iterable[str]) -> list[str]:
        """Add further names, and return all."""
        for name in later:
            self.setdefault(name, len(self))
        return list(self)

    def numbers(self, names: Iterable[str]) -> Array:
        """Return the number of each of these."""
        return np.array([self[name] for name in names], np.int32)


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

    def add(self, name: str, at: Array, weight: Array | None = None) -> None:
        """Add to rows, each as often as it is named: 1, or a weight (integers)."""
        column = self[name]
        if len(at) * 8 < len(column):
            np.add.at(column, at, 1 if weight is None else weight)
        else:
            column += np.bincount(at, weight, len(column)).astype(column.dtype)

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
