"""Who fills the topic: bytes, records, what is superseded, and what compaction would free.

Numpy over a piece of the log at a time; kept are sums of each group and topic, and of each key the
record that nothing has superseded yet. A batch's
bytes on disk, its header too, are shared out to its records by the bytes of their keys and values
(decompressed); so a compressed batch costs its groups what it costs the disk, and the sum over all
rows is the sum of all batches.

The cleaner keeps the last record of each key among those it may read: segments before the active
one, up to the first record of a transaction that is undecided; what was aborted goes, and never
supersedes. Source: LogCleanerManager.cleanableOffsets, Cleaner.buildOffsetMap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.insight.commits import (
    ABORTED,
    COMMITTED,
    KIND,
    PENDING,
    Array,
    Commits,
    is_before,
)
from coterie.insight.facts import PartitionFacts, View
from coterie.insight.keys import LOW, Keys, Numbers, Table, sorted_by
from coterie.insight.tallies import Tally, kept

NAME = "growth"
SCALES = "scales"
FIELDS = {
    "group_id": "string",  # null: of no group (markers, unknown keys, batches without records)
    "offsets_partition": "int32",
    "topic": "string",  # null: no commits
    "kind": "string",  # of KINDS
    "time": "timestamp",  # with `every_ms`: the beginning of the span; else null
    "records": "int64",
    "bytes": "int64",
    "tombstones": "int64",
    "requests": "int64",  # batches that begin here: a commit is one, whatever it has
    "keys": "int64",  # partitions of the topic; other keys
    "superseded_records": "int64",  # or aborted
    "superseded_bytes": "int64",  # the sum of the three that follow
    "free_bytes": "int64",  # the cleaner would free them now
    "held_transaction_bytes": "int64",  # an open transaction keeps the cleaner from them
    "held_active_bytes": "int64",  # they, or what superseded them, lie in the active segment
    "first_timestamp": "timestamp",
    "last_timestamp": "timestamp",
    "interval_ms": "double",  # between two commits of a partition, on average; null: no two
    "too_often": "bool",  # that is less than `interval_ms` of the question
    "open_transactions": [
        {
            "producer_id": "int64",
            "log_offset": "int64",  # its first record here
            "timestamp": "timestamp",
            "file": "string",
            "position": "int64",
        }
    ],
}
KINDS = ("commits", "group", "newer", "unknown", "marker", "empty_batch")
COMMITS, GROUP, NEWER, UNKNOWN, MARKER, EMPTY_BATCH = range(len(KINDS))
KIND_OF = np.zeros(len(KIND), dtype=np.int8)
for _name, _kind in {
    **{"offset": COMMITS, "offset_tombstone": COMMITS, "group": GROUP, "group_tombstone": GROUP},
    **{"newer": NEWER, "unknown": UNKNOWN, "marker": MARKER},
}.items():
    KIND_OF[KIND[_name]] = _kind
NEVER = np.iinfo(np.int64).max
FEWEST = 10  # intervals: below, nothing is said to be too often
PAIRS_AT_ONCE = 1 << 20
SUMS = (
    *("records", "bytes", "tombstones", "requests", "keys", "superseded_records"),
    *("superseded_bytes", "free_bytes", "held_transaction_bytes", "held_active_bytes"),
)
Row = dict[str, Any]
UNKNOWN_OF_EMPTY = ("group_id", "topic", "time", "first_timestamp", "last_timestamp", "interval_ms")


@dataclass(frozen=True)
class Ask:
    """What counts as too often, and whether to tell it over time.

    Attributes
    ----------
    interval_ms : int
        A group commits a topic too often if its commits of a partition lie closer on average.
    every_ms : int or None
        Count in spans of so many ms, by the records' own timestamps: a row for each; None: one
        row over all of the log.
    """

    interval_ms: int = 1000
    every_ms: int | None = None


def tallies(facts: PartitionFacts, ask: Ask) -> dict[str, tuple[View, Tally]]:
    """Return what weighs records while the log goes by.

    Batches and keys are shared: all of the partition is weighed, whatever groups are asked for.
    """
    whole = facts.whole()
    return {SCALES: (whole.view, Scales(whole, ask))}


def rows(facts: PartitionFacts, ask: Ask) -> Iterator[dict[str, Any]]:
    """Yield one row a group, topic and kind (and span of time), the most bytes first."""
    scales: Scales = kept(facts, tallies, ask)[SCALES]
    found = list(scales.rows(facts.number))
    if facts.groups is not None:
        found = [row for row in found if row["group_id"] in facts.groups]
    elif scales.empty_bytes > 0:
        nothing = dict.fromkeys(FIELDS, 0) | dict.fromkeys(UNKNOWN_OF_EMPTY)
        found.append(
            nothing
            | {"offsets_partition": facts.number, "kind": "empty_batch"}
            | {"bytes": scales.empty_bytes, "too_often": False, "open_transactions": []}
        )
    yield from sorted(found, key=lambda row: (row["time"] or 0, -row["bytes"]))


class Scales:
    """Weighs the records of a partition, piece by piece.

    A *part* is what gets a row: a group, topic and kind, and span of time. Part 0 is what was
    before the time that is asked for: it supersedes and is superseded, and is not told.
    """

    def __init__(self, facts: PartitionFacts, ask: Ask) -> None:
        self.since_ms = facts.since_ms
        self.ask = ask
        self.active = facts.segments[-1].name if facts.segments else None
        self.undecided = NEVER if facts.log.undecided is None else facts.log.undecided
        self.parts: dict[tuple[int, int, int, int] | None, int] = {None: 0}
        self.sums = Table(
            **dict.fromkeys(SUMS, (np.int64, 0)),
            first=(np.int64, NEVER),
            last=(np.int64, -1),
            passed_ms=(np.int64, 0),
            intervals=(np.int64, 0),
        )
        self.commit_keys = Keys()
        self.group_keys = Numbers()
        self.newer_keys = Numbers()
        self.held = {kind: Held(self) for kind in (COMMITS, GROUP, NEWER)}
        intervals = dict.fromkeys(("ms", "part", "first_ms", "first_part"), (np.int64, -1))
        self.committed = Table(**intervals)
        self.open: dict[int, Row] = {}
        self.empty_bytes = 0
        self.groups: list[str] = []
        self.topics: list[str] = []

    def take(self, records: Commits) -> None:
        """Weigh the next piece."""
        self.groups, self.topics = records.groups, records.topics
        there = np.bincount(records.batch, minlength=len(records.batches)) > 0
        self.empty_bytes += int(records.batches["size"][~there].sum())
        kind = KIND_OF[records.kind]
        part, size = self._parts(records, kind), bytes_of_rows(records)
        self.sums.fit(len(self.parts))
        self.sums.add("records", part)
        self.sums.add("bytes", part, size)
        self.sums.add("tombstones", part[records.value_size < 0])
        self.sums.add("requests", part[np.diff(records.batch, prepend=-1) != 0])
        known = records.timestamp >= 0
        np.minimum.at(self.sums["first"], part[known], records.timestamp[known])
        np.maximum.at(self.sums["last"], part[known], records.timestamp[known])
        for which, held in self.held.items():
            rows = np.flatnonzero(kind == which)
            if len(rows):
                keys = self._keys(records, which, rows)
                held.take(records, rows, keys, part[rows], size[rows])
                if which == COMMITS:
                    self._intervals(records, rows, keys, part[rows])
        self._open(records, part)

    def _parts(self, records: Commits, kind: Array) -> Array:
        """Return the part that each row belongs to."""
        time = np.full(len(records), -1, dtype=np.int64)
        if self.ask.every_ms is not None:
            known = records.timestamp >= 0
            time[known] = records.timestamp[known] // self.ask.every_ms * self.ask.every_ms
        spans, span = np.unique(time, return_inverse=True)
        names = ((records.group.astype(np.int64) + 1) << 32) | (records.topic + 1)
        names, name = np.unique(names, return_inverse=True)
        code = (name.astype(np.int64) * len(KINDS) + kind) * len(spans) + span
        codes, which = np.unique(code, return_inverse=True)
        code, span = np.divmod(codes, max(len(spans), 1))
        name, what = np.divmod(code, len(KINDS))
        columns = ((names[name] >> 32) - 1, (names[name] & 0xFFFFFFFF) - 1, what, spans[span])
        places = zip(*(column.tolist() for column in columns), strict=True)
        numbers = [self.parts.setdefault(place, len(self.parts)) for place in places]
        part: Array = np.array(numbers, np.int64)[which]
        part[is_before(records.timestamp, self.since_ms)] = 0
        return part

    def _keys(self, records: Commits, kind: int, rows: Array) -> Array:
        """Return a number for the key of each of these rows, which are of one kind."""
        if kind == COMMITS:
            return self.commit_keys.of(records, rows)
        if kind == GROUP:
            groups, at = np.unique(records.group[rows], return_inverse=True)
            numbers: Array = self.group_keys.of(groups.tolist())[at]
            return numbers
        return self.newer_keys.of(records.newer_keys)

    def _intervals(self, records: Commits, rows: Array, keys: Array, part: Array) -> None:
        """Note the time between commits that follow one another for a partition."""
        is_commit = records.kind[rows] == KIND["offset"]
        timed = np.flatnonzero(is_commit & (records.timestamp[rows] >= 0))
        held = sorted_by(keys[timed], timed)
        self.committed.fit(len(self.commit_keys))
        ms, where = records.timestamp[rows[held.order]], part[held.order]
        last_ms = self.committed.before("ms", held, ms)
        last_part = self.committed.before("part", held, where)
        follows = last_part == where
        new = held.first & (last_part < 0)
        self.committed["first_ms"][held.keys[new]] = ms[new]
        self.committed["first_part"][held.keys[new]] = where[new]
        self.sums.add("passed_ms", where[follows], (ms - last_ms)[follows])
        self.sums.add("intervals", where[follows])

    def _open(self, records: Commits, part: Array) -> None:
        """Note the first record of each undecided transaction in each part."""
        for row in np.flatnonzero(records.outcome == PENDING).tolist():
            self.open.setdefault(int(part[row]), {}).setdefault(
                str(records.producer_id[row]),
                {
                    "producer_id": int(records.producer_id[row]),
                    "log_offset": int(records.log_offset[row]),
                    "timestamp": int(records.timestamp[row]),
                    "file": records.files[records.file[row]],
                    "position": int(records.position[row]),
                },
            )

    def absorb(self, later: Scales) -> None:
        """Go on with what follows; see ``tallies``."""
        self.groups = max(self.groups, later.groups, key=len)
        self.topics = max(self.topics, later.topics, key=len)
        self.empty_bytes += later.empty_bytes
        places = [self.parts.setdefault(place, len(self.parts)) for place in later.parts]
        part = np.array(places, np.int64)
        self.sums.fit(len(self.parts))
        theirs = {name: later.sums[name] for name in later.sums.columns}
        at = part[: later.sums.count]
        for name in (*SUMS, "passed_ms", "intervals"):
            self.sums[name][at] += theirs[name]
        self.sums["first"][at] = np.minimum(self.sums["first"][at], theirs["first"])
        self.sums["last"][at] = np.maximum(self.sums["last"][at], theirs["last"])
        keys = {
            COMMITS: self.commit_keys.absorb(later.commit_keys),
            GROUP: self.group_keys.of(later.group_keys),
            NEWER: self.newer_keys.of(later.newer_keys),
        }
        for which, held in self.held.items():
            held.absorb(later.held[which], keys[which], part)
        self._absorb_intervals(later.committed, keys[COMMITS], part)
        for number, pending in later.open.items():
            ours = self.open.setdefault(int(part[number]), {})
            for producer_id, first in pending.items():
                ours.setdefault(producer_id, first)  # in the order of the log

    def _absorb_intervals(self, later: Table, keys: Array, part: Array) -> None:
        """Note the time between the last commits of keys here and the first ones that follow."""
        self.committed.fit(len(self.commit_keys))
        told = np.flatnonzero(later["part"] >= 0)
        keys = keys[told]
        last, first = self.committed["part"][keys], part[later["first_part"][told]]
        passed = later["first_ms"][told] - self.committed["ms"][keys]
        follows = last == first
        np.add.at(self.sums["passed_ms"], first[follows], passed[follows])
        np.add.at(self.sums["intervals"], first[follows], 1)
        new = last < 0
        self.committed["first_ms"][keys[new]] = later["first_ms"][told][new]
        self.committed["first_part"][keys[new]] = first[new]
        self.committed["ms"][keys] = later["ms"][told]
        self.committed["part"][keys] = part[later["part"][told]]

    def rows(self, partition: int | None) -> Iterator[Row]:
        """Yield the rows of all that has a record, by names in order of first sight."""
        for held in self.held.values():
            for part, count in held.keys_of_parts():
                self.sums["keys"][part] += count
        told = {place: number for place, number in self.parts.items() if place is not None}
        for place in sorted(told):
            number = told[place]
            if self.sums["records"][number]:
                sums = {name: int(self.sums[name][number]) for name in self.sums.fields}
                yield self._row(partition, place, sums, self.open.get(number, {}))

    def _row(
        self,
        partition: int | None,
        place: tuple[int, int, int, int],
        sums: dict[str, int],
        pending: Row,
    ) -> Row:
        group, topic, what, time = place
        count, last = sums["intervals"], sums["last"]
        often = sums["passed_ms"] / count if count else None
        return {
            "group_id": None if group < 0 else self.groups[group],
            "offsets_partition": partition,
            "topic": None if topic < 0 else self.topics[topic],
            "kind": KINDS[what],
            "time": None if time < 0 else time,
            **{name: sums[name] for name in SUMS},
            "first_timestamp": sums["first"] if last >= 0 else None,
            "last_timestamp": last if last >= 0 else None,
            "interval_ms": often,
            "too_often": often is not None and count >= FEWEST and often < self.ask.interval_ms,
            "open_transactions": list(pending.values()),
        }


class Held:
    """The last record of each key of a kind that is settled: what may be superseded yet."""

    def __init__(self, scales: Scales) -> None:
        self.scales = scales
        columns = dict.fromkeys(("size", "number", "seen_in"), (np.int64, -1))
        firsts = {"first_number": (np.int64, -1), "first_active": (np.bool_, False)}
        self.last = Table(**columns, **firsts, part=(np.int64, -1), active=(np.bool_, False))
        self.pairs: list[Array] = []  # part and key, as one number: each at least once

    def take(self, records: Commits, rows: Array, keys: Array, part: Array, size: Array) -> None:
        """Take the rows of a piece; ``keys``, ``part`` and ``size`` are theirs."""
        self.last.fit(int(keys.max()) + 1)
        active = np.array([name == self.scales.active for name in records.files])
        columns = {
            "size": size,
            "number": records.number[rows],
            "part": part,
            "active": active[records.file[rows]],
        }
        self._note_keys(keys, part)
        outcome = records.outcome[rows]
        aborted = np.flatnonzero(outcome == ABORTED)  # gone at once, and supersedes nothing
        self._supersede({name: column[aborted] for name, column in columns.items()}, None)
        settled = np.flatnonzero(outcome == COMMITTED)
        held = sorted_by(keys[settled], settled)
        before = {
            name: self.last.before(name, held, column[held.order])
            for name, column in columns.items()
        }
        there = before["part"] >= 0
        new = held.first & ~there
        for name in ("number", "active"):
            self.last[f"first_{name}"][held.keys[new]] = columns[name][held.order][new]
        by = {name: columns[name][held.order][there] for name in ("number", "active")}
        self._supersede({name: column[there] for name, column in before.items()}, by)

    def absorb(self, later: Held, keys: Array, part: Array) -> None:
        """Go on with what follows; ``keys`` and ``part`` number its keys and parts here."""
        self.last.fit(int(keys.max(initial=-1)) + 1)
        last = later.last
        told = np.flatnonzero(last["part"] >= 0)
        ours = keys[told]
        there = self.last["part"][ours] >= 0
        by = {name: last[f"first_{name}"][told][there] for name in ("number", "active")}
        columns = ("size", "number", "part", "active")
        self._supersede({name: self.last[name][ours[there]] for name in columns}, by)
        for name in ("first_number", "first_active"):
            self.last[name][ours[~there]] = last[name][told][~there]
        for name in columns:
            column = last[name][told]
            self.last[name][ours] = part[column] if name == "part" else column
        for pairs in later.pairs:
            self.pairs.append((part[pairs >> 32] << 32) | keys[pairs & LOW])
            self._join_pairs()

    def _note_keys(self, keys: Array, part: Array) -> None:
        held = sorted_by(keys, np.arange(len(keys)))
        now = part[held.order]
        new = now != self.last.before("seen_in", held, now)
        self.pairs.append(np.unique((now[new] << 32) | held.keys[new]))
        self._join_pairs()

    def _join_pairs(self) -> None:
        if sum(map(len, self.pairs)) > 2 * max(len(self.pairs[0]), PAIRS_AT_ONCE):
            self.pairs = [np.unique(np.concatenate(self.pairs))]

    def keys_of_parts(self) -> Iterator[tuple[int, int]]:
        """Yield how many keys each part has."""
        if self.pairs:
            pairs = np.unique(np.concatenate(self.pairs))
            parts, counts = np.unique(pairs >> 32, return_counts=True)
            yield from zip(parts.tolist(), counts.tolist(), strict=True)

    def _supersede(self, one: dict[str, Array], by: dict[str, Array] | None) -> None:
        """Count what was superseded, and why the cleaner may not free it; None: it was aborted."""
        part, size, undecided = one["part"], one["size"], self.scales.undecided
        before_active = ~one["active"]
        decided = one["number"] < undecided
        if by is not None:
            before_active &= ~by["active"]
            decided &= by["number"] < undecided
        self.scales.sums.add("superseded_records", part)
        self.scales.sums.add("superseded_bytes", part, size)
        for name, rows in (
            ("free_bytes", before_active & decided),
            ("held_transaction_bytes", before_active & ~decided),
            ("held_active_bytes", ~before_active),
        ):
            self.scales.sums.add(name, part[rows], size[rows])


def bytes_of_rows(records: Commits) -> Array:
    """Return each record's share of its batch on disk, int64; a batch's add up to its size."""
    batch = records.batch
    sizes = np.maximum(records.key_size, 0) + np.maximum(records.value_size, 0)
    weight = np.maximum(sizes, 1).astype(np.int64)
    upto = np.cumsum(weight)
    first = np.searchsorted(batch, np.arange(len(records.batches)))
    before = np.append(0, upto)[first][batch]
    total = np.bincount(batch, weight, len(records.batches)).astype(np.int64)[batch]
    whole = records.batches["size"].astype(np.int64)[batch]
    shares: Array = (upto - before) * whole // total - (upto - weight - before) * whole // total
    return shares
