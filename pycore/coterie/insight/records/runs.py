"""Runs of like records in a batch, to count per group without looking at each record.

A request's commits form one batch, so there are far fewer runs than records.
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
        The first row and the number of rows.
    batch, group, kind, outcome : int
        The values that all rows of the run share.
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
        """Return some of the runs; ``keep``: a bool mask or indices."""
        return Runs(*(getattr(self, column.name)[keep] for column in fields(self)))

    def effective_commits(self) -> Array:
        """Return which runs are effective commits, tombstones excluded; bool."""
        effective: Array = (self.kind == KIND["offset"]) & (self.outcome == COMMITTED)
        return effective

    def rows(self) -> Array:
        """Return the rows of all runs, in log order."""
        start = np.cumsum(self.size) - self.size
        rows: Array = np.arange(self.size.sum()) + np.repeat(self.first - start, self.size)
        return rows


def runs_of(commits: RecordColumns, *others: Array) -> Runs:
    """Return the runs of a piece; a change in one of the columns ``others`` also ends a run."""
    begins = np.zeros(len(commits), dtype=np.bool_)
    begins[:1] = True
    for column in (commits.batch, commits.group, commits.kind, *others):
        begins[1:] |= column[1:] != column[:-1]
    first = np.flatnonzero(begins)
    columns = (commits.batch, commits.group, commits.kind, commits.outcome)
    return Runs(first, np.diff(first, append=len(commits)), *(column[first] for column in columns))


def times_of(first: Array, times: Array) -> tuple[Array, Array]:
    """Return the least and the greatest known time (0 or more) of each run.

    ``first``: the first row of every run of a piece. Without any known time, the least is ``NEVER``
    and the greatest is below 0.
    """
    if not len(first):
        return times[:0], times[:0]
    least = np.minimum.reduceat(times.view(np.uint64), first)  # values below 0 become the largest
    greatest = np.maximum.reduceat(times, first)
    return np.minimum(least, np.uint64(NEVER)).view(np.int64), greatest


def first_in_batch(batch: Array, part: Array) -> Array:
    """Return which runs are the first of their batch in their part; bool.

    ``part``: the number of whatever the batches are counted by.
    """
    is_first = np.ones(len(batch), dtype=np.bool_)
    if (np.diff(batch) > 0).all():
        return is_first
    order = np.lexsort((batch, part))  # stable
    current, following = order[:-1], order[1:]
    is_first[following] = (batch[current] != batch[following]) | (part[current] != part[following])
    return is_first
