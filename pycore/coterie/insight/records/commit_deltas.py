"""Offset changes of each partition from one effective commit to the next."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from coterie.insight.records.key_index import Keys
from coterie.insight.records.record_columns import COMMIT, NO_RECORD, Array, RecordColumns

BEFORE = ("offset", "log_offset", "timestamp")  # known of the commit before


@dataclass(frozen=True, eq=False)
class CommitDeltas:
    """The effective commits of a piece, tombstones included, in log order.

    Attributes
    ----------
    rows : int64
        Their rows in the piece.
    keys : int32
        Their key numbers.
    fresh : bool
        Whether there is no offset before: the first commit of its key, a tombstone, or the commit
        after one.
    unseen : bool
        Whether it is the first commit of its key in all pieces so far.
    gone : bool
        Whether it is a tombstone.
    before : dict of str to int64
        Fields of the key's previous commit, in any piece: the fields of ``BEFORE`` whose column
        ``previous_*`` was requested; -1: there is none.
    change : int64
        The offset less the offset before; undefined where ``fresh``.
    """

    rows: Array
    keys: Array
    fresh: Array
    unseen: Array
    gone: Array
    before: dict[str, Array]
    change: Array

    def select(self, keep: Array) -> CommitDeltas:
        """Return some of the elements; ``keep``: a bool mask or indices."""
        columns = {item.name: getattr(self, item.name) for item in fields(self)}
        before = {name: column[keep] for name, column in columns.pop("before").items()}
        return CommitDeltas(
            before=before, **{name: column[keep] for name, column in columns.items()}
        )

    def follow(self, entries: Array, numbers: Array) -> CommitDeltas:
        """Return the deltas of a later part, continuing an earlier one; see ``absorb_keys``."""
        last = entries[self.keys]
        before = {
            name: np.where(self.unseen, last[name], column) for name, column in self.before.items()
        }
        return replace(
            self,
            keys=numbers[self.keys],
            fresh=self.gone | np.where(self.unseen, last["before"] != COMMIT, self.fresh),
            unseen=self.unseen & (last["before"] == NO_RECORD),
            before=before,
            change=self.change + self.before["offset"] - before["offset"],
        )


def deltas_of(commits: RecordColumns) -> CommitDeltas:
    """Return the deltas of a piece, which must have the column ``previous_offset``."""
    rows = np.flatnonzero(commits.effective)
    columns = {name: getattr(commits, name) for name in ("key", "previous", "offset", "tombstone")}
    before = {
        name: commits.columns[f"previous_{name}"]
        for name in BEFORE
        if f"previous_{name}" in commits.columns
    }
    if len(rows) < len(commits):
        columns = {name: column[rows] for name, column in columns.items()}
        before = {name: column[rows] for name, column in before.items()}
    previous, gone = columns["previous"], columns["tombstone"]
    # After a tombstone, there is no offset before the next commit.
    fresh = gone | (previous != COMMIT)
    change = columns["offset"] - before["offset"]
    return CommitDeltas(rows, columns["key"], fresh, previous == NO_RECORD, gone, before, change)


def absorb_keys(keys: Keys, later: Keys) -> tuple[Array, Array]:
    """Add the keys of the next part to ``keys``, and return two columns, indexed by its numbers.

    They are the key's number in ``keys``, and its last effective record before the next part
    (``Keys.entries``; ``before`` is ``NO_RECORD`` if there is none).
    """
    earlier = keys.entries
    numbers = keys.absorb(later)
    entries = np.zeros(len(numbers), earlier.dtype)
    known = numbers < len(earlier)
    entries[known] = earlier[numbers[known]]
    return numbers, entries
