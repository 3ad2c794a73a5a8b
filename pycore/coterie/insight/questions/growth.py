"""Who fills the topic: bytes, records, what is superseded, and what compaction would free.

Numpy over a piece of the log at a time; kept are sums of each group and topic, and of each key its
last record. A batch's
bytes on disk, its header too, are shared out to its records by the bytes of their keys and values
(decompressed); so a compressed batch costs its groups what it costs the disk, and the sum over all
rows is the sum of all batches.

The cleaner keeps the last record of each key among those it may read: segments before the active
one, up to the first record of a transaction that is undecided; what was aborted goes, and never
supersedes. Source: LogCleanerManager.cleanableOffsets, Cleaner.buildOffsetMap. What supersedes a
record says whether the cleaner may free it. So the log has three *stretches*, and no record has to
be found again: what the records of a stretch supersede are all of them, and the last ones of their
keys in the stretches before, less their own last ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coterie.insight.offsets.weights import (
    Codes,
    Stays,
    Stretch,
    distinct,
    rows_where,
    run_starts,
    superseded,
)
from coterie.insight.records.aggregates import Aggregate, aggregates_of
from coterie.insight.records.key_index import LOW, Keys, Names, Numbers, Table
from coterie.insight.records.partition_view import PartitionView, RecordFilter
from coterie.insight.records.record_columns import (
    COMMITTED,
    KIND,
    PENDING,
    Array,
    RecordColumns,
    is_before,
)

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
BEFORE = np.iinfo(np.int64).min  # a place
HELD = COMMITS, GROUP, NEWER  # the kinds of which a record supersedes another
STRETCHES = "free_bytes", "held_transaction_bytes", "held_active_bytes"
NEVER = np.iinfo(np.int64).max
FEWEST = 10  # intervals: below, nothing is said to be too often
PAIRS_AT_ONCE = 1 << 20
SUMS = (
    *("records", "bytes", "tombstones", "requests", "keys", "superseded_records"),
    *("superseded_bytes", "free_bytes", "held_transaction_bytes", "held_active_bytes"),
)
Row = dict[str, Any]
COUNTS = "tombstones", "requests", "untimed"
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


def aggregates(view: PartitionView, ask: Ask) -> dict[str, tuple[RecordFilter, Aggregate]]:
    """Return what weighs records while the log goes by.

    A batch's bytes are shared out to all of its records, whatever groups are asked for.
    """
    return {SCALES: (view.record_filter, Scales(view, ask))}


def rows(view: PartitionView, ask: Ask) -> Iterator[dict[str, Any]]:
    """Yield one row a group, topic and kind (and span of time), the most bytes first."""
    scales: Scales = aggregates_of(view, aggregates, ask)[SCALES]
    found = list(scales.rows(view.number))
    if view.groups is None and scales.empty_bytes > 0:
        nothing = dict.fromkeys(FIELDS, 0) | dict.fromkeys(UNKNOWN_OF_EMPTY)
        found.append(
            nothing
            | {"offsets_partition": view.number, "kind": "empty_batch"}
            | {"bytes": scales.empty_bytes, "too_often": False, "open_transactions": []}
        )
    yield from sorted(found, key=lambda row: (row["time"] or 0, -row["bytes"]))


class Scales:
    """Weighs the records of a partition, piece by piece.

    A *place* is a group, topic and kind; place 0 is what was before the time that is asked for: it
    supersedes and is superseded, and is not told. A *part* is what gets a row: a place, and a span
    of time.
    """

    COLUMNS = frozenset({"disk_bytes", "value_size"})

    def __init__(self, view: PartitionView, ask: Ask) -> None:
        self.since_ms = view.since_ms
        self.ask = ask
        self.active = view.segments[-1].name if view.segments else None
        self.undecided = NEVER if view.log.undecided is None else view.log.undecided
        self.places = Codes(BEFORE)
        self.spans = Codes(-1)
        self.parts = Codes(0)  # a place, and above 32 bits a span: their numbers
        self.place_of_key = Table(place=(np.int32, 0))
        counts = dict.fromkeys(COUNTS, (np.int64, 0))
        self.sums = Table(**counts, first=(np.int64, NEVER), last=(np.int64, -1))
        self.stretches = [Stretch(len(HELD)) for _ in STRETCHES]
        self.stays = Stays()
        self.commit_keys = Keys()
        self.newer_keys = Numbers()
        self.pairs = {kind: Pairs() for kind in HELD}
        self.open: dict[int, Row] = {}
        self.empty_bytes = 0
        self.groups: list[str] = []
        self.topics: list[str] = []

    def take(self, records: RecordColumns) -> None:
        """Weigh the next piece."""
        self.groups, self.topics = records.groups, records.topics
        batches = records.batches
        self.empty_bytes += int(batches["size"][batches["records"] == 0].sum())
        if not len(records):
            return
        what, key, place = self._places(records)
        part = self._parts(records, place)
        self._fit()
        first = run_starts(records.batch)  # a row of another group may lie before it
        begins = records.log_offset[first] == batches["log_offset"][records.batch[first]]
        self.sums.add("requests", part[first[begins]])
        own = {"what": what, "key": key, "part": part, "size": records.disk_bytes}
        columns = records.columns | own
        for stretch, rows in zip(self.stretches, self._cut(records), strict=True):
            if rows.start < rows.stop:
                cut = {name: column[rows] for name, column in columns.items()}
                self._weigh(stretch, replace(records, columns=cut))

    def _places(self, records: RecordColumns) -> tuple[Array, Array, Array]:
        """Return each row's kind, the number of its key among those of the kind, and its place."""
        known = max(self.place_of_key.count - 1, 0)
        new = records.scan.keys(known)
        self.place_of_key.fit(known + len(new) + 1)  # the last is found by rows without a key
        codes = code_of(new["group"], new["topic"])
        self.place_of_key["place"][known:-1] = self.places.of(codes)
        what = np.zeros(len(records), np.int8)  # COMMITS
        self.commit_keys.scan = records.scan
        key = records.key.astype(np.int64)
        place = self.place_of_key["place"][key]
        others = np.flatnonzero(records.kind > KIND["offset_tombstone"])
        if len(others):
            group = records.group[others]
            what[others] = KIND_OF[records.kind[others]]
            place[others] = self.places.of(code_of(group, -1 - what[others]))
            key[others] = group
            key[what == NEWER] = self.newer_keys.of(records.newer_keys)
        return what, key, place

    def _parts(self, records: RecordColumns, place: Array) -> Array:
        """Return the part that each row belongs to."""
        if self.since_ms is not None:
            place[is_before(records.timestamp, self.since_ms)] = 0
        if self.ask.every_ms is None:
            starts = run_starts(place)
            span = np.full(len(starts), -1)
        else:
            spans = np.where(records.timestamp < 0, -1, records.timestamp // self.ask.every_ms)
            starts = run_starts(place, spans)
            span = spans[starts]
        part = self.parts.of((self.spans.of(span) << 32) | place[starts])
        parts: Array = np.repeat(part.astype(np.int32), np.diff(starts, append=len(place)))
        return parts

    def _fit(self) -> None:
        """Have room for all parts and keys."""
        parts = len(self.parts)
        keys = len(self.commit_keys), len(self.groups), len(self.newer_keys)  # of each kind held
        self.sums.fit(parts)
        self.stays.fit(parts, keys[COMMITS])
        for stretch in self.stretches:
            stretch.fit(parts, keys)

    def _cut(self, records: RecordColumns) -> tuple[slice, slice, slice]:
        """Return the rows of a piece that lie in each stretch."""
        end = len(records)
        if records.files[records.file_number] == self.active:
            return slice(0, 0), slice(0, 0), slice(0, end)
        # All of the batch of the first undecided record is undecided, and supersedes nothing.
        batch = np.searchsorted(records.batches["first_number"], self.undecided)
        decided = int(np.append(records.batches["first_row"], end)[batch])
        return slice(0, decided), slice(decided, end), slice(0, 0)

    def _weigh(self, stretch: Stretch, rows: RecordColumns) -> None:
        """Weigh rows of one stretch."""
        starts = run_starts(rows.part)
        part = rows.part[starts]
        first = np.minimum.reduceat(rows.timestamp.view(np.uint64), starts)  # -1 is the greatest
        np.minimum.at(self.sums["first"], part, np.minimum(first, NEVER).astype(np.int64))
        np.maximum.at(self.sums["last"], part, np.maximum.reduceat(rows.timestamp, starts))
        stretch.sums.add("records", part, np.diff(starts, append=len(rows)))
        stretch.sums.add("bytes", part, np.add.reduceat(rows.size, starts))
        self.sums.add("tombstones", rows.part[rows.value_size < 0])
        timed = (rows.kind == KIND["offset"]) & (rows.timestamp >= 0)
        self.sums.add("untimed", rows.part[~timed])
        follows = rows_where(timed)
        begun = self.stays.take(rows.key[follows], rows.part[follows], rows.timestamp[follows])
        self.pairs[COMMITS].note(*begun)
        for kind in HELD[: int(rows.what.max()) + 1]:
            of_kind = rows.what == kind
            settled = rows_where(of_kind & (rows.outcome == COMMITTED))
            stretch.hold(kind, rows.key[settled], rows.part[settled], rows.size[settled])
            untimed = np.flatnonzero(of_kind & ~timed)
            self.pairs[kind].note(rows.part[untimed], rows.key[untimed])
        undecided = rows.outcome == PENDING
        held_rows = np.flatnonzero(undecided | (rows.what > NEWER))
        stretch.keep(rows.part[held_rows], rows.size[held_rows])
        self._open(rows, np.flatnonzero(undecided))

    def _open(self, rows: RecordColumns, pending: Array) -> None:
        """Note the first record of each undecided transaction in each part."""
        part = rows.part[pending]
        for at in run_starts(part, rows.batch[pending]).tolist():
            row = int(pending[at])
            self.open.setdefault(int(part[at]), {}).setdefault(
                str(rows.producer_id[row]),
                {
                    "producer_id": int(rows.producer_id[row]),
                    "log_offset": int(rows.log_offset[row]),
                    "timestamp": int(rows.timestamp[row]),
                    "file": rows.files[rows.file_number],
                    "position": int(rows.position[row]),
                },
            )

    def absorb(self, later: Scales) -> None:
        """Go on with what follows; see ``aggregates``."""
        groups, topics = Names(self.groups), Names(self.topics)
        self.groups, self.topics = groups.absorb(later.groups), topics.absorb(later.topics)
        group, topic = groups.numbers(later.groups), topics.numbers(later.topics)
        self.empty_bytes += later.empty_bytes
        place = self.places.of(renumbered(later.places.all(), group, topic))
        span = self.spans.of(later.spans.all())
        codes = later.parts.all()
        part = self.parts.of((span[codes >> 32] << 32) | place[codes & LOW])
        keys = {
            COMMITS: self.commit_keys.absorb(later.commit_keys),
            GROUP: group,
            NEWER: self.newer_keys.of(later.newer_keys),
        }
        self._fit()
        at = part[: later.sums.count]
        for name in COUNTS:
            self.sums[name][at] += later.sums[name]
        self.sums["first"][at] = np.minimum(self.sums["first"][at], later.sums["first"])
        self.sums["last"][at] = np.maximum(self.sums["last"][at], later.sums["last"])
        for ours, theirs in zip(self.stretches, later.stretches, strict=True):
            ours.absorb(theirs, keys, part)
        self.stays.absorb(later.stays, keys[COMMITS], part)
        for kind, pairs in self.pairs.items():
            pairs.absorb(later.pairs[kind], keys[kind], part)
        for number, pending in later.open.items():
            opened = self.open.setdefault(int(part[number]), {})
            for producer_id, first in pending.items():
                opened.setdefault(producer_id, first)  # in the order of the log

    def rows(self, partition: int | None) -> Iterator[Row]:
        """Yield the rows of all that has a record, by names in order of first sight."""
        sums = self._sums()
        codes = self.parts.all()
        told = np.flatnonzero((codes & LOW > 0) & (sums["records"] > 0))
        place = self.places.all()[codes[told] & LOW]
        span = self.spans.all()[codes[told] >> 32]
        topic = place.astype(np.int32)  # below 0: none, but a kind; see `code_of`
        what = np.maximum(-1 - topic, COMMITS)
        time = np.where(span < 0, -1, span * (self.ask.every_ms or 0))
        found = np.stack([place >> 32, np.maximum(topic, -1), what, time, told], axis=1)
        for *names, number in sorted(found.tolist()):
            of_part = {name: int(column[number]) for name, column in sums.items()}
            yield self._row(partition, names, of_part, self.open.get(number, {}))

    def _sums(self) -> dict[str, Array]:
        """Return what is known of each part."""
        self._fit()
        sums = {name: self.sums[name] for name in self.sums.fields}
        freed = superseded(self.stretches)
        sums |= {name: size for name, (_, size) in zip(STRETCHES, freed, strict=True)}
        sums["superseded_records"], sums["superseded_bytes"] = np.sum(freed, axis=0)
        for name in ("records", "bytes"):
            sums[name] = np.sum([one.sums[name] for one in self.stretches], axis=0)
        sums["passed_ms"] = self.stays.passed_ms()
        sums["intervals"] = sums["records"] - sums["untimed"] - self.stays.sums["begun"]
        keys = [pairs.keys_of_parts(len(self.parts)) for pairs in self.pairs.values()]
        sums["keys"] = np.sum(keys, axis=0)
        return sums

    def _row(
        self,
        partition: int | None,
        names: list[int],
        sums: dict[str, int],
        pending: Row,
    ) -> Row:
        group, topic, what, time = names
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


class Pairs:
    """Which keys of a kind have a record in which part."""

    def __init__(self) -> None:
        self.pairs: list[Array] = []  # part and key, as one number: each at least once

    def note(self, part: Array, key: Array) -> None:
        """Note pairs, noted already or not."""
        if len(part):
            self.pairs.append(distinct(part.astype(np.int64) << 32 | key))
            if sum(map(len, self.pairs)) > 2 * max(len(self.pairs[0]), PAIRS_AT_ONCE):
                self.pairs = [distinct(np.concatenate(self.pairs))]

    def absorb(self, later: Pairs, keys: Array, part: Array) -> None:
        """Go on with what follows; ``keys`` and ``part`` number its keys and parts here."""
        for pairs in later.pairs:
            self.note(part[pairs >> 32], keys[pairs & LOW])

    def keys_of_parts(self, count: int) -> Array:
        """Return how many keys each of so many parts has."""
        pairs = distinct(np.concatenate([np.empty(0, np.int64), *self.pairs]))
        return np.bincount(pairs >> 32, minlength=count)


def renumbered(codes: Array, groups: Array, topics: Array) -> Array:
    """Return the codes of places whose groups and topics have other numbers now."""
    group, topic = codes >> 32, codes.astype(np.int32)
    group = np.where(group >= 0, np.append(groups, 0)[np.maximum(group, -1)], group)
    topic = np.where(topic >= 0, np.append(topics, 0)[np.maximum(topic, -1)], topic)
    moved: Array = np.where(codes == BEFORE, BEFORE, code_of(group, topic))
    return moved


def code_of(group: Array, topic: Array) -> Array:
    """Return the code of a place; the topic is below 0 where there is none: -1 less the kind."""
    code: Array = (group.astype(np.int64) << 32) | (topic.astype(np.int64) & LOW)
    return code
