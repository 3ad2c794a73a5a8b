"""Records of a partition of the topic as numpy columns, each commit with its outcome.

The columns hold one piece of the log at a time (``coterie.insight.records.log_reader``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie._core.fold.columns import KIND_NAMES
from coterie._core.fold.history import OUTCOMES
from coterie._core.fold.record_scan import RecordScan
from coterie.base.caching import cached_property
from coterie.log.clock import Begin

KIND = {name: number for number, name in enumerate(KIND_NAMES)}
COMMITTED, ABORTED, PENDING = range(len(OUTCOMES))
# The values of ``previous``. Of another topic: the id of a topic that was created again.
NO_RECORD, TOMBSTONE, TOMBSTONE_OF_OTHER_TOPIC, COMMIT, COMMIT_TO_OTHER_TOPIC = range(5)
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class RecordColumns:
    """Rows of records in log order; row i of every column is one record.

    The requested columns of ``RecordScan.scan`` are attributes.

    Attributes
    ----------
    scan : RecordScan
        Numbers the keys of commits, and the names, the same in all pieces.
    columns : dict of str to array
        The columns by name.
    files : list of str
        The names of all files so far; ``file_number`` is the index of the piece's file.
    batches : structured array
        All batches of the piece, also those whose rows are left out; ``batch`` indexes it.
    newer_keys : list of bytes
        The keys of the records of the newer protocols, in order.
    """

    scan: RecordScan
    columns: dict[str, Array]
    files: list[str]
    file_number: int
    batches: Array
    newer_keys: list[bytes]

    def __getattr__(self, name: str) -> Array:
        try:
            return self.columns[name]
        except KeyError:
            raise AttributeError(f"the column {name} was not requested") from None

    def __len__(self) -> int:
        return len(self.columns["kind"])

    @property
    def groups(self) -> list[str]:
        """The group names, indexed by ``group``."""
        return self.scan.groups

    @property
    def topics(self) -> list[str]:
        """The topic names, indexed by ``topic``."""
        return self.scan.topics

    @cached_property
    def tombstone(self) -> Array:
        """Whether a row is an offset's tombstone; bool."""
        tombstones: Array = self.kind == KIND["offset_tombstone"]
        return tombstones

    @cached_property
    def effective(self) -> Array:
        """Whether a row is a commit or a commit's tombstone that took effect; bool."""
        effective: Array = (self.kind <= KIND["offset_tombstone"]) & (self.outcome == COMMITTED)
        return effective

    @cached_property
    def after_tombstone(self) -> Array:
        """Whether the record before of the same key is a tombstone; bool."""
        tombstones: Array = (self.previous > NO_RECORD) & (self.previous < COMMIT)
        return tombstones

    @cached_property
    def anew(self) -> Array:
        """Whether a row is the first commit of its key to a topic that was created again; bool."""
        others: Array = self.previous == TOMBSTONE_OF_OTHER_TOPIC
        others |= self.previous == COMMIT_TO_OTHER_TOPIC
        return others

    @cached_property
    def topic(self) -> Array:
        """The topic number of a commit, -1: none; int32."""
        return self._of_key("topic")

    @cached_property
    def partition(self) -> Array:
        """The partition of a commit's topic, -1: none; int32."""
        return self._of_key("partition")

    def _of_key(self, name: str) -> Array:
        entries = self.scan.keys()[name]
        column: Array = np.append(entries, np.int32(-1))[self.key]
        return column

    @cached_property
    def in_transaction(self) -> Array:
        """Whether a record belongs to a transaction; bool."""
        transactional: Array = (self.batches["transactional"] != 0)[self.batch]
        return transactional

    @cached_property
    def producer_id(self) -> Array:
        """The producer id of a transaction's record; -1: no transaction; int64."""
        batches = self.batches
        ids = np.where(batches["transactional"] != 0, batches["producer_id"], -1)
        of_rows: Array = ids[self.batch]
        return of_rows

    @cached_property
    def position(self) -> Array:
        """The byte position of a row's batch in its file, int64."""
        positions: Array = self.batches["position"][self.batch]
        return positions


def is_early(records: RecordColumns, since_ms: int | None, begin: Begin | None) -> Array:
    """Return which records precede the requested time; bool.

    ``begin``: see ``PartitionView.since_begin``.
    """
    by_time = is_before(records.timestamp, since_ms)
    if begin is None:
        return by_time
    offset = records.log_offset
    early: Array = (offset < begin.log_offset) | ((offset < begin.next_offset) & by_time)
    return early


def is_before(timestamps: Array, since_ms: int | None) -> Array:
    """Return which records are known to be older than a time (ms; None: no record); bool."""
    if since_ms is None:
        return np.zeros(len(timestamps), dtype=np.bool_)
    early: Array = (timestamps >= 0) & (timestamps < since_ms)
    return early
