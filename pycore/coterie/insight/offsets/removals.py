"""The tombstones of offsets, and the first commits after them: removals and what followed.

A removal is the tombstones that a group got at one moment. The coordinator writes those of a
clean-up or of a deletion at once, in one batch or in a few neighbouring ones.
Memory grows with the number of tombstones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from coterie.insight.records.commit_deltas import absorb_keys
from coterie.insight.records.key_index import Keys
from coterie.insight.records.record_columns import (
    COMMIT,
    NO_RECORD,
    TOMBSTONE,
    Array,
    RecordColumns,
)

MOMENT_MS = 1_000  # the most time between two tombstones of one removal
ROW = np.dtype(
    [
        ("key", np.int64),
        ("log_offset", np.int64),
        ("timestamp", np.int64),
        ("offset", np.int64),  # of a tombstone: the removed offset; -1: not known
        ("committed_ms", np.int64),  # when the removed offset was committed; -1: not known
        ("file", np.int64),
        ("position", np.int64),
        ("unseen", np.bool_),  # the key has no earlier record in this part of the log
    ]
)


@dataclass(frozen=True)
class Resumption:
    """The first commit of a partition after its offset was removed."""

    topic: str
    partition: int
    offset: int
    at_ms: int
    log_offset: int
    file: str
    position: int


@dataclass(frozen=True)
class Removal:
    """The offsets that a group lost at one moment.

    Attributes
    ----------
    group : str
        The group.
    from_ms, until_ms : int
        The least and the greatest time of the tombstones; -1: not known.
    log_offset, last_offset : int
        The first and the last tombstone.
    file, position
        The first tombstone's batch.
    partitions : dict of str to dict of int to int
        Topic -> partition -> the removed offset; -1: not known.
    committed_ms : int
        When the last of these offsets was committed; -1: not known.
    resumed : tuple of Resumption
        The first commit of each of these partitions after the removal, in log order.
    """

    group: str
    from_ms: int
    until_ms: int
    log_offset: int
    last_offset: int
    file: str
    position: int
    partitions: dict[str, dict[int, int]]
    committed_ms: int
    resumed: tuple[Resumption, ...] = ()

    @property
    def count(self) -> int:
        """The number of offsets."""
        return sum(map(len, self.partitions.values()))

    def offset_of(self, commit: Resumption) -> int:
        """Return the removed offset of a commit's partition; -1: not known."""
        return self.partitions[commit.topic].get(commit.partition, -1)


class RemovedOffsets:
    """Collects tombstones and the commits after them, piece by piece."""

    COLUMNS = frozenset({"previous_offset", "previous_timestamp"})

    def __init__(self, *, in_parts: bool) -> None:
        self.in_parts = in_parts
        self.keys = Keys()
        self.files: list[str] = []
        self.gone: list[Array] = []
        self.resumed: list[Array] = []
        self.first: list[Array] = []  # each key's first commit in a part, without a record before

    def take(self, records: RecordColumns) -> None:
        """Take the next piece."""
        self.keys.scan, self.files = records.scan, records.files
        effective, gone = records.effective, records.tombstone
        rows = np.flatnonzero(effective & gone)
        if len(rows):
            self.gone.append(_rows(records, rows, records.previous_offset[rows]))
        after = effective & ~gone & (records.previous == TOMBSTONE)
        for chosen, store in ((after, self.resumed), (self._first(records), self.first)):
            rows = np.flatnonzero(chosen)
            if len(rows):
                store.append(_rows(records, rows, records.offset[rows]))

    def _first(self, records: RecordColumns) -> Array:
        if not self.in_parts:
            return np.zeros(len(records), np.bool_)
        first: Array = records.effective & ~records.tombstone & (records.previous == NO_RECORD)
        return first

    def absorb(self, later: RemovedOffsets) -> None:
        """Absorb the aggregate of the next part; see ``aggregates``."""
        self.files = max(self.files, later.files, key=len)
        numbers, before = absorb_keys(self.keys, later.keys)
        for rows in later.gone:
            last = before[rows["key"]]
            known = rows["unseen"] & (last["before"] == COMMIT)
            rows["offset"][known] = last["offset"][known]
            rows["committed_ms"][known] = last["timestamp"][known]
            rows["unseen"] &= last["before"] == NO_RECORD
        self.gone += _renumbered(later.gone, numbers)
        self.resumed += _renumbered(later.resumed, numbers)
        for rows in later.first:
            last = before[rows["key"]]["before"]
            self.resumed += _renumbered([rows[last == TOMBSTONE]], numbers)
            self.first += _renumbered([rows[last == NO_RECORD]], numbers)

    def removals(self) -> dict[str, list[Removal]]:
        """Return the removals of each group, in log order; call it after the last piece."""
        names, entries = self.keys.__getstate__(), self.keys.entries
        rows, resumed = _joined(self.gone), _joined(self.resumed)
        groups = entries["group"][rows["key"]]
        order = np.lexsort((rows["log_offset"], groups))
        rows, groups = rows[order], groups[order]
        begins = np.ones(len(rows), np.bool_)
        times = rows["timestamp"]
        begins[1:] = (groups[1:] != groups[:-1]) | (np.abs(times[1:] - times[:-1]) > MOMENT_MS)
        resumed = resumed[np.lexsort((resumed["log_offset"], resumed["key"]))]
        follower = _next_of_key(rows, resumed)
        by_group: dict[str, list[Removal]] = {}
        bounds = [*np.flatnonzero(begins).tolist(), len(rows)]
        for start, stop in pairwise(bounds):
            after = follower[start:stop]
            after = np.sort(after[after >= 0])
            commits = resumed[after[np.argsort(resumed["log_offset"][after], kind="stable")]]
            removal = self._removal(rows[start:stop], commits, names, entries)
            by_group.setdefault(removal.group, []).append(removal)
        return by_group

    def _removal(
        self, rows: Array, commits: Array, names: dict[str, Any], entries: Array
    ) -> Removal:
        partitions: dict[str, dict[int, int]] = {}
        for topic, partition, row in _places(rows, names, entries):
            partitions.setdefault(topic, {})[partition] = int(row["offset"])
        first = rows[0]
        return Removal(
            names["groups"][int(entries["group"][first["key"]])],
            int(rows["timestamp"].min()),
            int(rows["timestamp"].max()),
            int(first["log_offset"]),
            int(rows["log_offset"][-1]),
            self.files[int(first["file"])],
            int(first["position"]),
            partitions,
            int(rows["committed_ms"].max()),
            tuple(
                Resumption(
                    topic,
                    partition,
                    int(row["offset"]),
                    int(row["timestamp"]),
                    int(row["log_offset"]),
                    self.files[int(row["file"])],
                    int(row["position"]),
                )
                for topic, partition, row in _places(commits, names, entries)
            ),
        )


def _places(rows: Array, names: dict[str, Any], entries: Array) -> Iterator[tuple[str, int, Array]]:
    """Yield each row with its topic and partition."""
    for row, entry in zip(rows, entries[rows["key"]], strict=True):
        yield names["topics"][int(entry["topic"])], int(entry["partition"]), row


def _next_of_key(rows: Array, resumed: Array) -> Array:
    """Return for each tombstone the index in ``resumed`` of the commit after it; -1: none.

    ``resumed`` is sorted by key and log offset. A commit belongs to the last tombstone before it.
    """
    out = np.full(len(rows), -1, np.int64)
    if not len(resumed):
        return out
    order = np.lexsort((rows["log_offset"], rows["key"]))
    keys = rows["key"][order]
    both = np.concatenate([_pairs(rows[order]), _pairs(resumed)])
    rank = np.lexsort((both[:, 1], both[:, 0]))
    place = np.empty(len(rank), np.int64)
    place[rank] = np.arange(len(rank))
    after = place[: len(rows)] + 1
    is_last = after < len(rank)
    following = rank[np.minimum(after, len(rank) - 1)]
    is_last &= (following >= len(rows)) & (both[following, 0] == keys)
    out[order[is_last]] = following[is_last] - len(rows)
    return out


def _pairs(rows: Array) -> Array:
    pairs: Array = np.stack([rows["key"], rows["log_offset"]], 1)
    return pairs


def _rows(records: RecordColumns, rows: Array, offset: Array) -> Array:
    """Return rows of a piece in the form of ``ROW``."""
    out = np.empty(len(rows), ROW)
    previous = records.previous[rows]
    has_commit = previous == COMMIT
    out["key"] = records.key[rows]
    out["log_offset"] = records.log_offset[rows]
    out["timestamp"] = records.timestamp[rows]
    is_commit = ~records.tombstone[rows]
    out["offset"] = np.where(is_commit | has_commit, offset, -1)
    out["committed_ms"] = np.where(has_commit, records.previous_timestamp[rows], -1)
    out["file"] = records.file_number
    out["position"] = records.batches["position"][records.batch[rows]]
    out["unseen"] = previous == NO_RECORD
    return out


def _renumbered(parts: list[Array], numbers: Array) -> list[Array]:
    """Give the rows of a later part their key numbers in this one."""
    for rows in parts:
        rows["key"] = numbers[rows["key"]]
    return [rows for rows in parts if len(rows)]


def _joined(parts: list[Array]) -> Array:
    return np.concatenate(parts) if parts else np.empty(0, ROW)
