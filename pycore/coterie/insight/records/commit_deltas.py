"""How the offset of each partition goes on, from one commit that counts to the next."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from coterie.insight.records.key_index import Keys
from coterie.insight.records.record_columns import COMMIT, NO_RECORD, Array, RecordColumns

BEFORE = ("offset", "log_offset", "timestamp")  # what is told of the record before


@dataclass(frozen=True, eq=False)
class Steps:
    """Commits of a piece that count, and tombstones, in log order.

    Attributes
    ----------
    rows : int64
        Their rows.
    keys : int32
        The number of each one's key.
    fresh : bool
        Whether it follows on nothing: the first of its key at all, a tombstone, or after one.
    unseen : bool
        Whether it is the first of its key in all pieces so far.
    gone : bool
        Whether it is a tombstone.
    before : dict of str to int64
        Of the one before it, of whichever piece, those of ``BEFORE`` whose ``previous_*`` was
        asked for; -1: there is none.
    change : int64
        Its offset less that of the one before; meaningless where ``fresh``.
    """

    rows: Array
    keys: Array
    fresh: Array
    unseen: Array
    gone: Array
    before: dict[str, Array]
    change: Array

    def select(self, keep: Array) -> Steps:
        """Return some of the elements; ``keep``: bool, or their numbers."""
        columns = {one.name: getattr(self, one.name) for one in fields(self)}
        before = {name: column[keep] for name, column in columns.pop("before").items()}
        return Steps(before=before, **{name: column[keep] for name, column in columns.items()})

    def follow(self, entries: Array, numbers: Array) -> Steps:
        """Return the steps of a later part as they follow on an earlier one: see ``absorbed``."""
        ours = entries[self.keys]
        before = {
            name: np.where(self.unseen, ours[name], column) for name, column in self.before.items()
        }
        return replace(
            self,
            keys=numbers[self.keys],
            fresh=self.gone | np.where(self.unseen, ours["before"] != COMMIT, self.fresh),
            unseen=self.unseen & (ours["before"] == NO_RECORD),
            before=before,
            change=self.change + self.before["offset"] - before["offset"],
        )


def steps_of(commits: RecordColumns) -> Steps:
    """Return the steps of a piece.

    Of its columns it needs ``previous_offset``; of ``before`` there is what was asked for.
    """
    rows = np.flatnonzero(commits.counting)
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
    # A tombstone ends what was before it: the next commit follows on nothing.
    fresh = gone | (previous != COMMIT)
    change = columns["offset"] - before["offset"]
    return Steps(rows, columns["key"], fresh, previous == NO_RECORD, gone, before, change)


def absorbed(keys: Keys, later: Keys) -> tuple[Array, Array]:
    """Add the keys of later pieces, and return two columns by their numbers there.

    The number of each here, and its last record that counts before those pieces
    (``Keys.entries``; ``before`` is ``NO_RECORD`` where there is none).
    """
    ours = keys.entries
    numbers = keys.absorb(later)
    entries = np.zeros(len(numbers), ours.dtype)
    known = numbers < len(ours)
    entries[known] = ours[numbers[known]]
    return numbers, entries
