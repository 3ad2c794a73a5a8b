"""The highest offset that each key had committed before a place in the log, the lowest after it.

Offsets only rise between two falls, so the last one before each fall is enough, and the first one
after it. State: an element for each fall (a lower commit, or a removal) from a new highest offset,
and for each that leads lower than those since.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from coterie.insight.offsets.commit_findings import select
from coterie.insight.records.key_index import Keys, Table
from coterie.insight.records.record_columns import (
    COMMIT,
    TOMBSTONE,
    Array,
    RecordColumns,
)

NONE = -1  # the offset before a fall, after a removal
REMOVED = (1 << 63) - 1  # the offset after a fall: no commit
FALL = ("key", "log_offset", "offset", "to")  # of the record that is lower; before and after it


class Peaks:
    COLUMNS: ClassVar = frozenset({"previous_offset"})

    def __init__(self) -> None:
        self.keys = Keys()
        # Before the falls so far; after those that followed the last highest one.
        self.known = Table(highest=(np.int64, NONE), lowest=(np.int64, REMOVED))
        self.falls = {name: [np.empty(0, np.int64)] for name in FALL}

    def take(self, commits: RecordColumns) -> None:
        self.keys.scan = commits.scan
        if not len(self.keys):
            return
        fell = commits.effective & fallen(
            commits.previous, commits.previous_offset, commits.tombstone, commits.offset
        )
        rows = np.flatnonzero(fell)
        self._put(
            commits.key[rows],
            commits.log_offset[rows],
            np.where(commits.previous[rows] == COMMIT, commits.previous_offset[rows], NONE),
            np.where(commits.tombstone[rows], REMOVED, commits.offset[rows]),
        )

    def _put(self, keys: Array, log_offset: Array, offset: Array, to: Array) -> None:
        """Add falls; those from no higher an offset, and to no lower one, show nothing new."""
        if not len(keys):
            return
        self.known.fit(len(self.keys))
        highest, lowest = self.known["highest"], self.known["lowest"]
        higher = offset > highest[keys]
        risen = np.zeros(len(self.keys), np.bool_)  # those of one piece are not told apart
        risen[keys[higher]] = True
        lower = to < np.where(risen, REMOVED, lowest)[keys]
        for name, column in zip(FALL, (keys, log_offset, offset, to), strict=True):
            self.falls[name].append(column[higher | lower].astype(np.int64))
        np.maximum.at(highest, keys[higher], offset[higher])
        lowest[keys[higher]] = REMOVED
        lower &= ~risen[keys]
        np.minimum.at(lowest, keys[lower], to[lower])

    def before(self, keys: Array, log_offset: Array, offset: Array) -> Array:
        """Return the highest offset of some keys before some records.

        ``offset``: that of the commit before each record.
        """
        highest = np.array(offset, np.int64)
        for at, (falls, place) in enumerate(self._falls_of(keys, log_offset)):
            highest[at] = falls["offset"][:place].max(initial=highest[at])
        return highest

    def after(self, keys: Array, log_offset: Array, offset: Array) -> Array:
        """Return the lowest offset of some keys in some records, and after them.

        ``offset``: that of each record, which is higher than all before.
        """
        lowest = np.array(offset, np.int64)
        for at, (falls, place) in enumerate(self._falls_of(keys, log_offset)):
            lowest[at] = falls["to"][place:].min(initial=lowest[at])
        return lowest

    def _falls_of(self, keys: Array, log_offset: Array) -> Iterator[tuple[dict[str, Array], int]]:
        """Yield the falls of each key in log order, and how many of them are before a record."""
        falls = {name: np.concatenate(parts) for name, parts in self.falls.items()}
        falls = select(falls, np.isin(falls["key"], keys))
        falls = select(falls, np.lexsort((falls["log_offset"], falls["key"])))
        begins = np.searchsorted(falls["key"], keys).tolist()
        ends = np.searchsorted(falls["key"], keys, side="right").tolist()
        for begin, end, place in zip(begins, ends, log_offset.tolist(), strict=True):
            of_key = {name: column[begin:end] for name, column in falls.items()}
            yield of_key, int(np.searchsorted(of_key["log_offset"], place))


def fallen(before: Array, before_offset: Array, gone: Array, offset: Array) -> Array:
    """Return which records lead lower than the one before, or do not follow a commit."""
    lower = (before == COMMIT) & (gone | (offset < before_offset))
    fell: Array = lower | ((before == TOMBSTONE) & ~gone)
    return fell
