"""Neighbouring records of a batch that are alike: what is counted by groups is counted by these.

A request's commits are a batch, so there are few of them; a sum over rows is one over runs.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from coterie.insight.records.record_columns import COMMITTED, KIND, Array, RecordColumns

NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs of neighbouring rows of one batch, one group and one kind, in log order.

    Attributes
    ----------
    first, size : int64
        The first row of each, and how many there are.
    batch, group, kind, outcome : int
        Of all its rows.
    """

    first: Array
    size: Array
    batch: Array
    group: Array
    kind: Array
    outcome: Array

    def __len__(self) -> int:
        return len(self.first)

    def select(self, keep: Array) -> Runs:
        """Return some of them; ``keep``: bool, or their numbers."""
        return Runs(*(getattr(self, one.name)[keep] for one in fields(self)))

    def counting(self) -> Array:
        """Return which are of commits, no tombstones, that count; bool."""
        counts: Array = (self.kind == KIND["offset"]) & (self.outcome == COMMITTED)
        return counts

    def rows(self) -> Array:
        """Return the rows of all of them, in log order."""
        start = np.cumsum(self.size) - self.size
        rows: Array = np.arange(self.size.sum()) + np.repeat(self.first - start, self.size)
        return rows


def runs_of(commits: RecordColumns, *others: Array) -> Runs:
    """Return the runs of a piece; where one of ``others`` (of each row) changes, a run ends."""
    begins = np.zeros(len(commits), dtype=np.bool_)
    begins[:1] = True
    for column in (commits.batch, commits.group, commits.kind, *others):
        begins[1:] |= column[1:] != column[:-1]
    first = np.flatnonzero(begins)
    columns = (commits.batch, commits.group, commits.kind, commits.outcome)
    return Runs(first, np.diff(first, append=len(commits)), *(column[first] for column in columns))


def times_of(first: Array, times: Array) -> tuple[Array, Array]:
    """Return the least and the greatest known time (0 or more) of the rows of each run.

    ``first``: the first row of every run of a piece, and so where the one before ends. Where none
    is known the least is ``NEVER``, and the greatest below 0.
    """
    if not len(first):
        return times[:0], times[:0]
    least = np.minimum.reduceat(times.view(np.uint64), first)  # what is below 0 is much there
    greatest = np.maximum.reduceat(times, first)
    return np.minimum(least, np.uint64(NEVER)).view(np.int64), greatest


def first_in_batch(batch: Array, part: Array) -> Array:
    """Return which of some runs are the first of their batch in their part; bool."""
    found = np.ones(len(batch), dtype=np.bool_)
    if (np.diff(batch) > 0).all():
        return found
    order = np.lexsort((batch, part))  # stable
    one, next_ = order[:-1], order[1:]
    found[next_] = (batch[one] != batch[next_]) | (part[one] != part[next_])
    return found
