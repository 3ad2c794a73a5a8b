"""Offsets that wait for the end of a transaction: which producer, since when, of which groups.

A fetch with ``require_stable`` of such an offset is refused until the transaction ends
(UNSTABLE_OFFSET_COMMIT), so consumers of the group do not start. State: the last pending commit of
each producer and key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from coterie.insight.offsets.commit_findings import PLACE, places_of, select
from coterie.insight.records.key_index import Key, Keys
from coterie.insight.records.record_columns import KIND, PENDING, Array, RecordColumns

COLUMNS_STORED = ("producer", "epoch", "key", "count", "first_ms", "last_ms", *PLACE)
Columns = dict[str, Array]


class OpenTransaction(NamedTuple):
    """The offsets of one group in an open transaction.

    Attributes
    ----------
    producer_id, producer_epoch : int
        Of the transaction.
    group : str
        The group id.
    since_ms, until_ms : int
        The times of its first and last pending commit; -1: it has none.
    offsets : list of (Key, int)
        The keys with their last pending offsets, in order of their first commits.
    commits : int
        The number of pending commits.
    log_offset, file, position
        The first of them.
    """

    producer_id: int
    producer_epoch: int
    group: str
    since_ms: int
    until_ms: int
    offsets: list[tuple[Key, int]]
    commits: int
    log_offset: int
    file: str
    position: int


@dataclass
class OpenTransactions:
    """Collects the pending commits of a partition, piece by piece."""

    COLUMNS: ClassVar = frozenset[str]()

    keys: Keys = field(default_factory=Keys)
    rows: Columns = field(
        default_factory=lambda: {name: np.empty(0, np.int64) for name in COLUMNS_STORED}
    )
    files: list[str] = field(default_factory=list)

    def take(self, commits: RecordColumns) -> None:
        self.keys.scan, self.files = commits.scan, commits.files
        rows = np.flatnonzero((commits.outcome == PENDING) & (commits.kind == KIND["offset"]))
        if len(rows):
            times = commits.timestamp[rows]
            self._put(
                {
                    "producer": commits.producer_id[rows],
                    "epoch": commits.batches["producer_epoch"][commits.batch[rows]],
                    "key": commits.key[rows].astype(np.int64),
                    "count": np.ones(len(rows), np.int64),
                    "first_ms": times,
                    "last_ms": times,
                    **places_of(commits, rows),
                }
            )

    def _put(self, rows: Columns) -> None:
        """Add rows, and join those of one producer and key: the first place, the last offset."""
        joined = {name: np.append(self.rows[name], rows[name]) for name in COLUMNS_STORED}
        order = np.lexsort((joined["key"], joined["producer"]))  # stable
        joined = select(joined, order)
        begins = np.ones(len(order), np.bool_)
        for name in ("producer", "key"):
            begins[1:] &= joined[name][1:] == joined[name][:-1]
        begins[1:] = ~begins[1:]
        starts = np.flatnonzero(begins)
        lasts = np.append(starts[1:], len(order)) - 1
        self.rows = select(joined, starts)
        self.rows["count"] = np.add.reduceat(joined["count"], starts)
        for name in ("epoch", "offset", "last_ms"):
            self.rows[name] = joined[name][lasts]

    def transactions(self) -> Iterator[OpenTransaction]:
        """Yield the open transactions of each group; call it after the last piece."""
        if not len(self.rows["key"]):
            return
        names = dict(self.keys.items(np.unique(self.rows["key"]).tolist()))
        by_group: dict[tuple[int, str], list[dict[str, int]]] = {}
        columns = (self.rows[name].tolist() for name in COLUMNS_STORED)
        for values in zip(*columns, strict=True):
            row = dict(zip(COLUMNS_STORED, values, strict=True))
            by_group.setdefault((row["producer"], names[row["key"]][0]), []).append(row)
        for (producer_id, group), rows in by_group.items():
            rows.sort(key=lambda row: row["log_offset"])
            yield OpenTransaction(
                producer_id,
                rows[-1]["epoch"],
                group,
                rows[0]["first_ms"],
                max(row["last_ms"] for row in rows),
                [(names[row["key"]], row["offset"]) for row in rows],
                sum(row["count"] for row in rows),
                rows[0]["log_offset"],
                self.files[rows[0]["file"]],
                rows[0]["position"],
            )
