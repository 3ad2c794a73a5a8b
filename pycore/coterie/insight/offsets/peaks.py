"""The highest offset that each key had committed before a place in the log, the lowest after it.

Offsets only rise between two falls, so the last one before each fall is enough, and the first one
after it. A topic that was created again has other records, so its keys begin anew. State: an
element for each fall (a lower commit, or a removal) from a new highest offset, for each that leads
lower than those since, and for each beginning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from coterie.insight.offsets.commit_findings import select
from coterie.insight.records.key_index import Keys, Table
from coterie.insight.records.record_columns import (
    COMMIT,
    Array,
    RecordColumns,
)

NONE = -1  # the offset before a fall, after a removal
REMOVED = (1 << 63) - 1  # the offset after a fall: no commit
FALL = ("key", "log_offset", "offset", "to", "anew")  # of the lower record; before and after it


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
        rows = np.flatnonzero(commits.effective & fallen(commits))
        self._put(
            commits.key[rows],
            commits.log_offset[rows],
            np.where(commits.previous[rows] == COMMIT, commits.previous_offset[rows], NONE),
            np.where(commits.tombstone[rows], REMOVED, commits.offset[rows]),
            commits.anew[rows],
        )

    def _put(self, keys: Array, log_offset: Array, offset: Array, to: Array, anew: Array) -> None:
        """Add falls; those from no higher an offset, and to no lower one, show nothing new."""
        if not len(keys):
            return
        self.known.fit(len(self.keys))
        highest, lowest = self.known["highest"], self.known["lowest"]
        higher = offset > highest[keys]
        # Those of a piece are not distinguished.
        risen, begun = np.zeros((2, len(self.keys)), np.bool_)
        risen[keys[higher]], begun[keys[anew]] = True, True
        lower = to < np.where(risen, REMOVED, lowest)[keys]
        shown = higher | lower | begun[keys]
        for name, column in zip(FALL, (keys, log_offset, offset, to, anew), strict=True):
            self.falls[name].append(column[shown].astype(np.int64))
        np.maximum.at(highest, keys[higher], offset[higher])
        lowest[keys[higher]] = REMOVED
        lower &= ~risen[keys]
        np.minimum.at(lowest, keys[lower], to[lower])
        highest[begun], lowest[begun] = NONE, REMOVED

    def before(self, keys: Array, log_offset: Array, offset: Array) -> Array:
        """Return the highest offset of some keys before some records, in the same topic.

        ``offset``: that of the commit before each record.
        """
        highest = np.array(offset, np.int64)
        for at, (falls, place) in enumerate(self._falls_of(keys, log_offset)):
            highest[at] = falls["offset"][:place].max(initial=highest[at])
        return highest

    def after(self, keys: Array, log_offset: Array, offset: Array) -> Array:
        """Return the lowest offset of some keys in some records, and after them in the same topic.

        ``offset``: that of each record, which is higher than all before.
        """
        lowest = np.array(offset, np.int64)
        for at, (falls, place) in enumerate(self._falls_of(keys, log_offset)):
            lowest[at] = falls["to"][place:].min(initial=lowest[at])
        return lowest

    def _falls_of(self, keys: Array, log_offset: Array) -> Iterator[tuple[dict[str, Array], int]]:
        """Yield the falls of each key in log order, and how many of them are before a record.

        Only those in the same topic as the record.
        """
        falls = {name: np.concatenate(parts) for name, parts in self.falls.items()}
        falls = select(falls, np.isin(falls["key"], keys))
        falls = select(falls, np.lexsort((falls["log_offset"], falls["key"])))
        begins = np.searchsorted(falls["key"], keys).tolist()
        ends = np.searchsorted(falls["key"], keys, side="right").tolist()
        for begin, end, place in zip(begins, ends, log_offset.tolist(), strict=True):
            at = begin + int(np.searchsorted(falls["log_offset"][begin:end], place))
            begins_anew = (np.flatnonzero(falls["anew"][begin:end]) + begin).tolist()
            first = max((row for row in begins_anew if row < at), default=begin)
            last = min((row for row in begins_anew if row >= at), default=end)
            yield {name: column[first:last] for name, column in falls.items()}, at - first


def fallen(commits: RecordColumns) -> Array:
    """Return which records lead lower than the one before, or do not follow a commit."""
    gone = commits.tombstone
    lower = (commits.previous == COMMIT) & (gone | (commits.offset < commits.previous_offset))
    fell: Array = lower | (commits.after_tombstone & ~gone) | commits.anew
    return fell
