"""The weight of records, and how much of it is superseded: sums by bucket, last records by key.

A *bucket* is the number of whatever is summed separately. All methods take columns of rows in log
order. If several rows write to one key's entry, numpy keeps the last value, so no sort is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coterie.insight.records.key_index import LOW, Table
from coterie.insight.records.record_columns import Array


class LogSection:
    """Sums over the records of a section of the log, and each key's last decided record in it.

    ``kept_*`` count records that nothing supersedes: they have no key, or are undecided. ``last``
    has a table for each kind: a record's bucket in the upper 32 bits, its bytes in the lower.
    """

    def __init__(self, kinds: int) -> None:
        names = ("records", "bytes", "kept_records", "kept_bytes")
        self.sums = Table(**dict.fromkeys(names, (np.int64, 0)))
        self.last = [Table(record=(np.int64, -1)) for _ in range(kinds)]

    def fit(self, buckets: int, keys: Sequence[int]) -> None:
        """Make room for buckets, and for keys of each kind."""
        self.sums.fit(buckets)
        for last, count in zip(self.last, keys, strict=True):
            last.fit(count)

    def add_kept(self, bucket: Array, size: Array) -> None:
        self.sums.add("kept_records", bucket)
        self.sums.add("kept_bytes", bucket, size)

    def set_last(self, kind: int, key: Array, bucket: Array, size: Array) -> None:
        """Take decided records in log order; the last one of each key remains."""
        record = bucket.astype(np.int64)
        record <<= 32
        record |= size
        self.last[kind]["record"][key] = record


def superseded(sections: Sequence[LogSection]) -> list[tuple[Array, Array]]:
    """Return the records and bytes of each bucket that the records of each section supersede.

    All sections must have room for the same buckets and keys.
    """
    result = []
    last = [np.full(len(table["record"]), -1) for table in sections[0].last]
    for section in sections:
        records = section.sums["records"] - section.sums["kept_records"]
        size = section.sums["bytes"] - section.sums["kept_bytes"]
        for before, table in zip(last, section.last, strict=True):
            used = np.flatnonzero(table["record"] >= 0)
            own_last, earlier_last = table["record"][used], before[used]
            for packed, sign in ((own_last, -1), (earlier_last[earlier_last >= 0], 1)):
                np.add.at(records, packed >> 32, sign)
                np.add.at(size, packed >> 32, sign * (packed & LOW))
            before[used] = own_last
        result.append((records, size))
    return result


class CommitIntervals:
    """The time between neighbouring commits of a partition in the same bucket.

    A *run* is a sequence of such commits. ``passed_ms`` is the sum over all runs of the last time
    less the first: the first is subtracted when a run begins, the last added when it ends.
    """

    def __init__(self) -> None:
        self.sums = Table(passed_ms=(np.int64, 0), begun=(np.int64, 0))
        self.last = Table(bucket=(np.int32, -1), ms=(np.int64, -1))

    def fit(self, buckets: int, keys: int) -> None:
        self.last.fit(keys)
        self.sums.fit(buckets)

    def take(self, key: Array, bucket: Array, ms: Array) -> tuple[Array, Array]:
        """Take commits in log order; return the bucket and key of each run that begins."""
        moves = self.last["bucket"][key] != bucket
        begun = self._begin(key, bucket, ms, moves) if moves.any() else (bucket[:0], key[:0])
        self.last["ms"][key] = ms
        return begun

    def _begin(self, key: Array, bucket: Array, ms: Array, moves: Array) -> tuple[Array, Array]:
        """Begin the runs of partitions with a commit in another bucket than the last one."""
        moving = np.zeros(self.last.count, np.bool_)
        moving[key[moves]] = True
        rows = np.flatnonzero(moving[key])
        rows = np.sort(key[rows] << 32 | rows) & LOW  # by key, then in log order
        key, bucket, ms = key[rows], bucket[rows], ms[rows]
        starts = run_starts(key)
        before, before_ms = np.roll(bucket, 1), np.roll(ms, 1)
        before[starts] = self.last["bucket"][key[starts]]
        before_ms[starts] = self.last["ms"][key[starts]]
        begins = before != bucket
        self._end(before[begins], before_ms[begins])
        np.subtract.at(self.sums["passed_ms"], bucket[begins], ms[begins])
        self.sums.add("begun", bucket[begins])
        self.last["bucket"][key] = bucket
        return bucket[begins], key[begins]

    def _end(self, bucket: Array, ms: Array) -> None:
        """End runs; bucket -1: there was none."""
        existing = bucket >= 0
        np.add.at(self.sums["passed_ms"], bucket[existing], ms[existing])

    def passed_ms(self) -> Array:
        """Return the time between the commits of each bucket, with all runs ended."""
        passed_ms = self.sums["passed_ms"].copy()
        used = self.last["bucket"] >= 0
        np.add.at(passed_ms, self.last["bucket"][used], self.last["ms"][used])
        return passed_ms


class Codes:
    """Numbers for int64 codes, in order of first occurrence; the first is 0."""

    def __init__(self, first: int) -> None:
        self.codes = np.array([first], np.int64)  # ascending
        self.numbers = np.zeros(1, np.int64)

    def __len__(self) -> int:
        return len(self.codes)

    def of(self, codes: Array) -> Array:
        """Return the number of each code; a new code gets the next number."""
        at = np.searchsorted(self.codes, codes)
        is_new = self.codes.take(at, mode="clip") != codes
        if is_new.any():
            new = distinct(codes[is_new])
            places = np.searchsorted(self.codes, new)
            numbers = np.arange(len(self), len(self) + len(new))
            self.numbers = np.insert(self.numbers, places, numbers)
            self.codes = np.insert(self.codes, places, new)
            at = np.searchsorted(self.codes, codes)
        numbers_of: Array = self.numbers[at]
        return numbers_of

    def all(self) -> Array:
        """Return all codes in order of their numbers."""
        ordered = np.empty_like(self.codes)
        ordered[self.numbers] = self.codes
        return ordered


def run_starts(*columns: Array) -> Array:
    """Return the rows at which the value of any column changes, the first row included."""
    changes = np.empty(len(columns[0]), np.bool_)
    changes[:1] = True
    np.not_equal(columns[0][1:], columns[0][:-1], out=changes[1:])
    for column in columns[1:]:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)


def distinct(numbers: Array) -> Array:
    """Return the distinct numbers, sorted; faster than ``np.unique``, which hashes integers."""
    numbers = np.sort(numbers)
    result: Array = numbers[run_starts(numbers)]
    return result


def rows_where(chosen: Array) -> Array | slice:
    """Return an index for the chosen rows; for all rows a slice, which copies nothing."""
    return slice(None) if chosen.all() else np.flatnonzero(chosen)
