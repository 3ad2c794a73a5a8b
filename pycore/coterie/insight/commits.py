"""Records of a partition of the topic as numpy columns, each commit with its outcome.

Rows are a piece of the log at a time (``coterie.insight.reading``): no question holds more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from coterie._core.fold.columns import BATCH_DTYPE, KIND_NAMES
from coterie._core.fold.history import OUTCOMES

KIND = {name: number for number, name in enumerate(KIND_NAMES)}
COMMITTED, ABORTED, PENDING = range(len(OUTCOMES))
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Commits:
    """Rows of records in log order; row i of every array is one record.

    Attributes
    ----------
    groups, topics, files : list of str
        The names that ``group``, ``topic`` and ``file`` count: of all pieces so far.
    kind : int8
        Of ``coterie._core.fold.columns.KIND_NAMES``; see ``KIND``. Commits are ``offset`` and
        ``offset_tombstone``.
    group, topic, partition : int32
        Name numbers, -1: none.
    offset, leader_epoch : int64, int32
        What was committed; -1 where there is none.
    log_offset : int64
        The record's place in the partition of the topic.
    timestamp, commit_timestamp, expire_timestamp : int64
        ms, -1: none. The first is the record's own, the others stand in a commit's value.
    producer_id : int64
        Of a transaction; -1: a record outside of any.
    outcome : int8
        Of ``coterie._core.fold.history.OUTCOMES``: the producer's next marker decides; what is
        outside of any transaction counts at once.
    number : int64
        The record's number in the partition, over all pieces; it rises, with gaps.
    decided_by, decided_ms : int64
        The number of the record that made a row count (the marker; else its own) and the time at
        which it did (ms; -1: it has none). Of what is pending, the row's own.
    key_size, value_size : int32
        Bytes; -1: null.
    metadata, metadata_end : uint8, int64
        Metadata end to end, and where each row's ends.
    batch : int32
        Row of ``batches`` (``BATCH_DTYPE``, ``position`` the byte in the segment, decompressed),
        ``batch_file`` (int32) and ``batch_first`` (int64: offset of the first record present, as
        ``appended_batch_offset``, -1: none). All batches are there, whatever rows are left out.
    newer_keys : list of bytes
        Of the records of the newer protocols, in order: of the whole piece, as read.
    """

    groups: list[str]
    topics: list[str]
    files: list[str]
    kind: Array
    group: Array
    topic: Array
    partition: Array
    offset: Array
    leader_epoch: Array
    log_offset: Array
    timestamp: Array
    commit_timestamp: Array
    expire_timestamp: Array
    producer_id: Array
    outcome: Array
    number: Array
    decided_by: Array
    decided_ms: Array
    key_size: Array
    value_size: Array
    metadata: Array
    metadata_end: Array
    batch: Array
    batches: Array
    batch_file: Array
    batch_first: Array
    newer_keys: list[bytes]

    def __len__(self) -> int:
        return len(self.kind)

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
    def position(self) -> Array:
        """Byte of a row's batch in its segment, int64: with ``file``, the evidence."""
        places: Array = self.batches["position"][self.batch]
        return places

    @cached_property
    def file(self) -> Array:
        """Number of a row's file in ``files``, int32."""
        numbers: Array = self.batch_file[self.batch]
        return numbers

    @cached_property
    def metadata_size(self) -> Array:
        """Bytes of a row's metadata, int64."""
        sizes: Array = np.diff(self.metadata_end, prepend=0)
        return sizes

    def metadata_of(self, row: int) -> bytes:
        """Return the metadata of a row."""
        start = int(self.metadata_end[row - 1]) if row else 0
        return self.metadata[start : int(self.metadata_end[row])].tobytes()

    def select(self, keep: Array) -> Commits:
        """Return the rows where ``keep`` (bool) is true, still in log order."""
        sizes = self.metadata_size
        changed: dict[str, Any] = {name: getattr(self, name)[keep] for name in ROW_COLUMNS}
        changed["metadata"] = self.metadata[np.repeat(keep, sizes)]
        changed["metadata_end"] = np.cumsum(sizes[keep])
        same = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in changed}
        return Commits(**same, **changed)

    def alone(self) -> Commits:
        """Return the same rows without the batches that have none of them."""
        used, batch = np.unique(self.batch, return_inverse=True)
        batches = {name: getattr(self, name)[used] for name in BATCH_COLUMNS}
        return replace(self, batch=batch.astype(np.int32), **batches)

    def only_commits(self) -> Commits:
        """Return the commits and their tombstones alone."""
        return self.select(self.kind <= KIND["offset_tombstone"])


ROW_COLUMNS = (
    *("kind", "group", "topic", "partition", "offset", "leader_epoch", "log_offset"),
    *("timestamp", "commit_timestamp", "expire_timestamp", "producer_id", "outcome"),
    *("number", "decided_by", "decided_ms", "key_size", "value_size", "batch"),
)
METADATA = ("metadata", "metadata_end")
BATCH_COLUMNS = ("batches", "batch_file", "batch_first")


def in_time(timestamps: Array, at_ms: int) -> Array:
    """Return which records count as of a time, as a fold has it: always those without one (-1)."""
    counting: Array = (timestamps <= at_ms) | (timestamps == -1)
    return counting


def is_before(timestamps: Array, since_ms: int | None) -> Array:
    """Return which records are known to be of before a time (ms; None: none is); bool."""
    if since_ms is None:
        return np.zeros(len(timestamps), dtype=np.bool_)
    early: Array = (timestamps >= 0) & (timestamps < since_ms)
    return early


def joined(parts: Sequence[Commits]) -> Commits:
    """Return neighbouring pieces of a partition as one."""
    names: dict[str, Any] = {
        name: getattr(parts[-1], name) if parts else [] for name in ("groups", "topics", "files")
    }
    dtypes: dict[str, Any] = dict.fromkeys(ROW_COLUMNS, np.int64)
    dtypes |= {"metadata": np.uint8, "batches": BATCH_DTYPE, "batch_file": np.int32}
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        if parts
        else np.empty(0, dtypes.get(name, np.int64))
        for name in (*ROW_COLUMNS, *METADATA, *BATCH_COLUMNS)
    }
    for name, of_one in (("batch", "batches"), ("metadata_end", "metadata")):
        sizes = [len(getattr(part, of_one)) for part in parts]
        counts = [len(part) for part in parts]
        columns[name] = columns[name] + np.repeat(np.cumsum([0, *sizes])[:-1], counts)
    newer_keys = [key for part in parts for key in part.newer_keys]
    return Commits(**names, **columns, newer_keys=newer_keys)
