"""Count the transactions whose commits did not take effect, piece by piece: aborted or open.

A producer has one transaction at a time, and its marker ends it. So the number of its markers
before a batch identifies the batch's transaction. Memory grows with the counted transactions.
"""

from __future__ import annotations

import numpy as np

from coterie.insight.records.record_columns import ABORTED, PENDING, Array, RecordColumns
from coterie.insight.records.runs import Runs


class UndoneTransactions:
    """Counts the aborted and the open transactions of each span of a group."""

    def __init__(self) -> None:
        self.ended: dict[int, int] = {}  # markers so far, by producer id
        self.transactions: dict[tuple[int, int], set[tuple[int, int]]] = {}

    def take(self, records: RecordColumns, runs: Runs, span: Array) -> None:
        """Take the runs of the next piece, each with the number of its span."""
        batches = records.batches
        markers = np.flatnonzero(batches["marker"] >= 0)
        undone = np.flatnonzero(runs.outcome != 0)
        ended_by = batches["producer_id"][markers]
        if len(undone):
            producers = batches["producer_id"][runs.batch[undone]]
            for producer in np.unique(producers).tolist():
                chosen = undone[producers == producer]
                before = np.searchsorted(markers[ended_by == producer], runs.batch[chosen])
                columns = span[chosen], runs.outcome[chosen], before + self.ended.get(producer, 0)
                for number, outcome, ordinal in zip(
                    *(column.tolist() for column in columns), strict=True
                ):
                    self.transactions.setdefault((number, outcome), set()).add((producer, ordinal))
        for producer, count in zip(
            *(column.tolist() for column in np.unique(ended_by, return_counts=True)), strict=True
        ):
            self.ended[producer] = self.ended.get(producer, 0) + count

    def aborted(self, span: int) -> int:
        """Return the number of aborted transactions with a commit in a span."""
        return len(self.transactions.get((span, ABORTED), ()))

    def pending(self, span: int) -> int:
        """Return the number of open transactions with a commit in a span."""
        return len(self.transactions.get((span, PENDING), ()))
