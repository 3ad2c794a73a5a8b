"""Records of a partition of the topic as numpy columns, each commit with its outcome.

Rows are a piece of the log at a time (``coterie.insight.records.log_reader``): no question holds
more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from coterie._core.fold.columns import KIND_NAMES
from coterie._core.fold.history import OUTCOMES
from coterie._core.fold.record_scan import RecordScan

KIND = {name: number for number, name in enumerate(KIND_NAMES)}
COMMITTED, ABORTED, PENDING = range(len(OUTCOMES))
NO_RECORD, TOMBSTONE, COMMIT = range(3)  # of ``previous``
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class RecordColumns:
    """Rows of records in log order; row i of every column is one record.

    The columns are attributes: those that ``RecordScan.scan`` gives and were asked for.

    Attributes
    ----------
    scan : RecordScan
        Numbers the keys of commits, and the names: the same over all pieces.
    columns : dict of str to array
        By name.
    files : list of str
        The names of all files so far; ``file_number`` is the place of the piece's own.
    batches : structured array
        All batches of the piece, whatever rows are left out; ``batch`` numbers its rows.
    newer_keys : list of bytes
        Of the records of the newer protocols, in order.
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
            raise AttributeError(f"the column {name} was not asked for") from None

    def __len__(self) -> int:
        return len(self.columns["kind"])

    @property
    def groups(self) -> list[str]:
        """The names that ``group`` numbers."""
        return self.scan.groups

    @property
    def topics(self) -> list[str]:
        """The names that ``topic`` numbers."""
        return self.scan.topics

    @cached_property
    def tombstone(self) -> Array:
        """Whether a row is the tombstone of an offset; bool."""
        tombstones: Array = self.kind == KIND["offset_tombstone"]
        return tombstones

    @cached_property
    def counting(self) -> Array:
        """Whether a row is a commit or the tombstone of one, and counts; bool."""
        counts: Array = (self.kind <= KIND["offset_tombstone"]) & (self.outcome == COMMITTED)
        return counts

    @cached_property
    def topic(self) -> Array:
        """Number of a commit's topic, -1: none; int32."""
        return self._of_key("topic")

    @cached_property
    def partition(self) -> Array:
        """A commit's partition of its topic, -1: none; int32."""
        return self._of_key("partition")

    def _of_key(self, name: str) -> Array:
        entries = self.scan.keys()[name]
        found: Array = np.append(entries, np.int32(-1))[self.key]
        return found

    @cached_property
    def inside(self) -> Array:
        """Whether a record is one of a transaction; bool."""
        found: Array = (self.batches["transactional"] != 0)[self.batch]
        return found

    @cached_property
    def producer_id(self) -> Array:
        """Of a transaction; -1: a record outside of any; int64."""
        batches = self.batches
        inside = np.where(batches["transactional"] != 0, batches["producer_id"], -1)
        found: Array = inside[self.batch]
        return found

    @cached_property
    def position(self) -> Array:
        """Byte of a row's batch in its segment, int64: with the file, the evidence."""
        places: Array = self.batches["position"][self.batch]
        return places


def is_before(timestamps: Array, since_ms: int | None) -> Array:
    """Return which records are known to be of before a time (ms; None: none is); bool."""
    if since_ms is None:
        return np.zeros(len(timestamps), dtype=np.bool_)
    early: Array = (timestamps >= 0) & (timestamps < since_ms)
    return early
