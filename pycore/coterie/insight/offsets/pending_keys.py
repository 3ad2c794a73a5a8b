"""Which offsets an undecided transaction had committed as they were removed.

A commit of a transaction is pending from its record up to the transaction's marker, or up to a
tombstone of the offset, which removes pending commits in Kafka 4.x. So of each key only the last
of these markers since its last tombstone matters. State: two values for each key.
Source: OffsetMetadataManager.hasPendingTransactionalOffsets.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from coterie.insight.records.key_index import Table, rows_by_key
from coterie.insight.records.record_columns import KIND, PENDING, Array, RecordColumns

UNDECIDED = np.iinfo(np.int64).max  # the number of a marker that never comes
NEVER = -1  # of a key that no transaction committed


class PendingKeys:
    """Follows the transactions of each key, piece by piece.

    ``until``: the number of the last marker of a transaction with a commit of the key since its
    last tombstone; 0: of none.
    """

    COLUMNS: ClassVar = frozenset({"number", "decided_by"})

    def __init__(self) -> None:
        self.keys = Table(until=(np.int64, NEVER))

    def take(self, commits: RecordColumns) -> Array:
        """Take the next piece; return which of its rows are tombstones of pending offsets; bool."""
        self.keys.fit(commits.scan.key_count)
        pending = np.zeros(len(commits), np.bool_)
        own, decided = commits.in_transaction, commits.outcome != PENDING
        rows = np.flatnonzero((commits.tombstone & ~own) | (own & (commits.kind == KIND["offset"])))
        if not len(rows):
            return pending
        by_key = rows_by_key(commits.key[rows].astype(np.int64), rows)
        gone = commits.tombstone[by_key.order]
        markers = np.where(decided, commits.decided_by, UNDECIDED)[by_key.order]
        begins = by_key.first.copy()
        begins[1:] |= gone[:-1]
        starts = np.flatnonzero(begins)  # of runs of commits up to a tombstone
        ends = np.append(starts[1:], len(rows)) - 1
        until = np.maximum.reduceat(np.where(gone, NEVER, markers), starts)
        keys, is_first = by_key.keys[starts], by_key.first[starts]
        until = np.maximum(until, np.where(is_first, self.keys["until"][keys], NEVER))
        removed = gone[ends]
        tombstones = by_key.order[ends[removed]]
        pending[tombstones] = until[removed] > commits.number[tombstones]
        last = by_key.last[ends]
        of_key = np.maximum.reduceat(until, np.flatnonzero(is_first))
        since = np.where(removed, np.minimum(until, 0), until)[last]
        self.keys["until"][keys[last]] = np.maximum(since, np.minimum(of_key, 0))
        return pending
