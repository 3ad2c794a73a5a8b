"""The highest offset that each key had committed before a place in the log.

Offsets only rise between two falls, so the last one before each fall is enough. State: an element
for each fall (a lower commit, or a removal) from a new highest offset.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from coterie.insight.offsets.commit_findings import PLACES, select, store_firsts
from coterie.insight.records.commit_deltas import absorb_keys
from coterie.insight.records.key_index import Keys, Table
from coterie.insight.records.record_columns import COMMIT, NO_RECORD, Array, RecordColumns

NONE = -1
FALL = ("key", "log_offset", "offset")  # of the record that is lower; the offset before it


class Peaks:
    """Collects the falls of offsets, piece by piece."""

    COLUMNS: ClassVar = frozenset({"previous_offset"})

    def __init__(self) -> None:
        self.keys = Keys()
        self.first = Table(gone=(np.bool_, True), **PLACES)  # record of each key in this part
        self.highest = Table(offset=(np.int64, NONE))  # before the falls so far
        self.falls = {name: [np.empty(0, np.int64)] for name in FALL}

    def take(self, commits: RecordColumns) -> None:
        """Take the next piece."""
        self.keys.scan = commits.scan
        if not len(self.keys):
            return
        self.first.fit(len(self.keys))
        store_firsts(self.first, commits)
        fell = commits.effective & (commits.previous == COMMIT)
        fell &= commits.tombstone | (commits.offset < commits.previous_offset)
        rows = np.flatnonzero(fell)
        self._put(commits.key[rows], commits.log_offset[rows], commits.previous_offset[rows])

    def _put(self, keys: Array, log_offset: Array, offset: Array) -> None:
        """Add falls; those from no higher an offset than others before show nothing new."""
        self.highest.fit(len(self.keys))
        highest = self.highest["offset"]
        higher = offset > highest[keys]
        for name, column in zip(FALL, (keys, log_offset, offset), strict=True):
            if higher.any():
                self.falls[name].append(column[higher].astype(np.int64))
        np.maximum.at(highest, keys[higher], offset[higher])

    def absorb(self, later: Peaks) -> None:
        """Absorb the next part; see ``aggregates``. Its first records may follow records here."""
        last = later.keys.entries
        keys, entries = absorb_keys(self.keys, later.keys)
        occurring = np.flatnonzero(last["before"] != NO_RECORD)
        first, before = select(later.first.columns, occurring), entries[occurring]
        fell = (before["before"] == COMMIT) & (first["gone"] | (first["offset"] < before["offset"]))
        self._put(keys[occurring[fell]], first["log_offset"][fell], before["offset"][fell])
        rows = {name: np.concatenate(parts) for name, parts in later.falls.items()}
        self._put(keys[rows["key"]], rows["log_offset"], rows["offset"])

    def before(self, keys: Array, log_offset: Array, offset: Array) -> Array:
        """Return the highest offset of some keys before some records.

        ``offset``: that of the commit before each record.
        """
        falls = {name: np.concatenate(parts) for name, parts in self.falls.items()}
        falls = select(falls, np.isin(falls["key"], keys))
        falls = select(falls, np.lexsort((falls["log_offset"], falls["key"])))
        highest = np.array(offset, np.int64)
        begins = np.searchsorted(falls["key"], keys)
        ends = np.searchsorted(falls["key"], keys, side="right")
        for at, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
            stop = begin + int(np.searchsorted(falls["log_offset"][begin:end], log_offset[at]))
            if stop > begin:
                highest[at] = max(highest[at], falls["offset"][begin:stop].max())
        return highest
