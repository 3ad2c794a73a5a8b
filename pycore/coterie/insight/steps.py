"""How the offset of each partition goes on, from one commit that counts to the next."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from coterie.insight.commits import COMMIT, NO_RECORD, Array, Commits, in_time
from coterie.insight.keys import Keys, Table, sorted_by

NOTHING = -1  # no commit before
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


def steps_of(commits: Commits) -> Steps:
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


@dataclass(frozen=True, eq=False)
class WalkSteps:
    """Commits of a piece that count, and tombstones, of each key in log order.

    Attributes
    ----------
    order : int64
        Their rows, those of a key together.
    keys : int64
        The number of each one's key.
    first, last : bool
        Whether an element is the first of its key in the piece, the last.
    fresh : bool
        Whether it follows on nothing: the first of its key at all, a tombstone, or after one.
    unseen : bool
        Whether it is the first of its key in all that was taken.
    gone : bool
        Whether it is a tombstone.
    before : dict of str to array
        Of the element before it, of whichever piece: ``offset``, ``log_offset``, ``timestamp``;
        meaningless where ``fresh``.
    change : int64
        Its offset less that of the one before; meaningless where ``fresh``.
    """

    order: Array
    keys: Array
    first: Array
    last: Array
    fresh: Array
    unseen: Array
    gone: Array
    before: dict[str, Array]
    change: Array

    def select(self, keep: Array) -> WalkSteps:
        """Return some of the elements; ``keep``: bool."""
        columns = {one.name: getattr(self, one.name) for one in fields(self)}
        before = {name: column[keep] for name, column in columns.pop("before").items()}
        return WalkSteps(before=before, **{name: column[keep] for name, column in columns.items()})


class Walk:
    """The last commit or tombstone that counts of each key, as the pieces of a log come.

    Parameters
    ----------
    at_ms
        Leave out records whose own timestamp is after this; None: none.
    """

    def __init__(self, at_ms: int | None = None) -> None:
        self.at_ms = at_ms
        self.keys = Keys()
        names = dict.fromkeys(BEFORE, (np.int64, NOTHING))
        self.held = Table(**names, gone=(np.bool_, True), seen=(np.bool_, False))

    def take(self, commits: Commits, numbers: Array | None = None) -> WalkSteps:
        """Return the steps of the next piece; ``numbers``: of its rows' keys, where they are known.

        They come from ``keys``, and are those of all rows.
        """
        counts = commits.counting
        if self.at_ms is not None:
            counts = counts & in_time(commits.timestamp, self.at_ms)
        rows = np.flatnonzero(counts)
        keys = self.keys.of(commits, rows) if numbers is None else numbers[rows]
        held = sorted_by(keys, rows)
        self.held.fit(len(self.keys))
        order, keys = held.order, held.keys
        gone = commits.tombstone[order]
        before = {
            name: self.held.before(name, held, getattr(commits, name)[order])
            for name in BEFORE
        }
        # A tombstone ends what was before it: the next commit follows on nothing.
        fresh = gone | self.held.before("gone", held, gone)
        unseen = ~self.held.before("seen", held, np.ones(len(order), dtype=np.bool_))
        change = commits.offset[order] - before["offset"]
        return WalkSteps(order, keys, held.first, held.last, fresh, unseen, gone, before, change)

    def follow(self, steps: WalkSteps, numbers: Array, commits: Commits) -> WalkSteps:
        """Return steps of a later part as they follow on what was taken here.

        ``numbers``: of that part's keys; what is not ``unseen`` follows on its own part.
        """
        keys = numbers[steps.keys]
        before = {
            name: np.where(steps.unseen, self.held[name][keys], column)
            for name, column in steps.before.items()
        }
        gone = np.where(steps.unseen, self.held["gone"][keys], steps.fresh)
        change = commits.offset[steps.order] - before["offset"]
        return replace(steps, keys=keys, before=before, fresh=steps.gone | gone, change=change)

    def absorb(self, later: Walk) -> Array:
        """Go on behind what another walk took; return the numbers of its keys."""
        numbers = self.keys.absorb(later.keys)
        self.held.fit(len(self.keys))
        seen = np.flatnonzero(later.held["seen"])
        for name, column in later.held.columns.items():
            self.held[name][numbers[seen]] = column[seen]
        return numbers
