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

from coterie.insight.commits import COMMITTED, KIND, PENDING, Array, Commits, is_before
from coterie.insight.facts import PartitionFacts, View
from coterie.insight.keys import LOW, Keys, Numbers, Table
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
BEFORE = np.iinfo(np.int64).min  # a place
HELD = COMMITS, GROUP, NEWER  # the kinds of which a record supersedes another
STRETCHES = "free_bytes", "held_transaction_bytes", "held_active_bytes"
NEVER = np.iinfo(np.int64).max
EXACT = 1 << 53  # below, a quotient of doubles is cut off as that of integers is
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

    A *place* is a group, topic and kind; place 0 is what was before the time that is asked for: it
    supersedes and is superseded, and is not told. A *part* is what gets a row: a place, and a span
    of time.
    """

    COLUMNS = frozenset({"key_size", "value_size"})

    def __init__(self, facts: PartitionFacts, ask: Ask) -> None:
        self.since_ms = facts.since_ms
        self.ask = ask
        self.active = facts.segments[-1].name if facts.segments else None
        self.undecided = NEVER if facts.log.undecided is None else facts.log.undecided
        self.places = Codes(BEFORE)
        self.spans = Codes(-1)
        self.parts = Codes(0)  # a place, and above 32 bits a span: their numbers
        self.place_of_key = Table(place=(np.int32, 0))
        counts = dict.fromkeys(COUNTS, (np.int64, 0))
        self.sums = Table(**counts, first=(np.int64, NEVER), last=(np.int64, -1))
        self.stretches = [Stretch() for _ in STRETCHES]
        self.stays = Stays()
        self.commit_keys = Keys()
        self.newer_keys = Numbers()
        self.pairs = {kind: Pairs() for kind in HELD}
        self.open: dict[int, Row] = {}
        self.empty_bytes = 0
        self.groups: list[str] = []
        self.topics: list[str] = []
        self.seen: dict[int, None] = {}  # groups, by number, in order of first sight

    def take(self, records: Commits) -> None:
        """Weigh the next piece."""
        self.groups, self.topics = records.groups, records.topics
        if len(self.seen) < len(self.groups):
            self._see(records.group)
        first_row = records.batches["first_row"]
        there = np.diff(first_row, append=len(records)) > 0
        self.empty_bytes += int(records.batches["size"][~there].sum())
        if not len(records):
            return
        what, key, place = self._places(records)
        part = self._parts(records, place)
        self.sums.fit(len(self.parts))
        self.sums.add("requests", part[first_row[there]])
        own = {"what": what, "key": key, "part": part, "size": bytes_of_rows(records)}
        columns = records.columns | own
        for stretch, rows in zip(self.stretches, self._cut(records), strict=True):
            if rows.start < rows.stop:
                cut = {name: column[rows] for name, column in columns.items()}
                self._weigh(stretch, replace(records, columns=cut))

    def _see(self, group: Array) -> None:
        """Note groups that are new: in a part of a log, whose names have numbers, in any order."""
        known = np.zeros(len(self.groups) + 1, np.bool_)
        known[[*self.seen, -1]] = True  # -1: rows of no group
        new = group[~known[group]]
        self.seen |= dict.fromkeys(new.tolist())

    def _places(self, records: Commits) -> tuple[Array, Array, Array]:
        """Return each row's kind, the number of its key among those of the kind, and its place."""
        known = max(self.place_of_key.count - 1, 0)
        new = records.scan.keys(known)
        self.place_of_key.fit(known + len(new) + 1)  # the last is found by rows without a key
        codes = code_of(new["group"], new["topic"])
        self.place_of_key["place"][known:-1] = self.places.of(codes)
        what = np.zeros(len(records), np.int8)  # COMMITS
        key = self.commit_keys.of(records, slice(None))
        place = self.place_of_key["place"][key]
        others = np.flatnonzero(records.kind > KIND["offset_tombstone"])
        if len(others):
            group = records.group[others]
            what[others] = KIND_OF[records.kind[others]]
            place[others] = self.places.of(code_of(group, -1 - what[others]))
            key[others] = group
            key[what == NEWER] = self.newer_keys.of(records.newer_keys)
        return what, key, place

    def _parts(self, records: Commits, place: Array) -> Array:
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

    def _cut(self, records: Commits) -> tuple[slice, slice, slice]:
        """Return the rows of a piece that lie in each stretch."""
        end = len(records)
        if records.files[records.file_number] == self.active:
            return slice(0, 0), slice(0, 0), slice(0, end)
        # All of the batch of the first undecided record is undecided, and supersedes nothing.
        batch = np.searchsorted(records.batches["first_number"], self.undecided)
        decided = int(np.append(records.batches["first_row"], end)[batch])
        return slice(0, decided), slice(decided, end), slice(0, 0)

    def _weigh(self, stretch: Stretch, rows: Commits) -> None:
        """Weigh rows of one stretch."""
        starts = run_starts(rows.part)
        part = rows.part[starts]
        first = np.minimum.reduceat(rows.timestamp.view(np.uint64), starts)  # -1 is the greatest
        np.minimum.at(self.sums["first"], part, np.minimum(first, NEVER).astype(np.int64))
        np.maximum.at(self.sums["last"], part, np.maximum.reduceat(rows.timestamp, starts))
        stretch.sums.fit(len(self.parts))
        stretch.sums.add("records", part, np.diff(starts, append=len(rows)))
        stretch.sums.add("bytes", part, np.add.reduceat(rows.size, starts))
        self.sums.add("tombstones", rows.part[rows.value_size < 0])
        timed = (rows.kind == KIND["offset"]) & (rows.timestamp >= 0)
        self.sums.add("untimed", rows.part[~timed])
        keys = len(self.commit_keys), len(self.groups), len(self.newer_keys)
        self.stays.fit(keys[COMMITS], len(self.parts))
        follows = rows_where(timed)
        begun = self.stays.take(rows.key[follows], rows.part[follows], rows.timestamp[follows])
        self.pairs[COMMITS].note(*begun)
        for kind in HELD[: int(rows.what.max()) + 1]:
            of_kind = rows.what == kind
            settled = rows_where(of_kind & (rows.outcome == COMMITTED))
            stretch.last[kind].fit(keys[kind])
            stretch.hold(kind, rows.key[settled], rows.part[settled], rows.size[settled])
            untimed = np.flatnonzero(of_kind & ~timed)
            self.pairs[kind].note(rows.part[untimed], rows.key[untimed])
        undecided = rows.outcome == PENDING
        kept = np.flatnonzero(undecided | (rows.what > NEWER))
        stretch.keep(rows.part[kept], rows.size[kept])
        self._open(rows, np.flatnonzero(undecided))

    def _open(self, rows: Commits, pending: Array) -> None:
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
        """Go on with what follows; see ``tallies``."""
        self.seen |= later.seen
        self.groups = max(self.groups, later.groups, key=len)
        self.topics = max(self.topics, later.topics, key=len)
        self.empty_bytes += later.empty_bytes
        place, span = self.places.of(later.places.all()), self.spans.of(later.spans.all())
        codes = later.parts.all()
        part = self.parts.of((span[codes >> 32] << 32) | place[codes & LOW])
        self.sums.fit(len(self.parts))
        at = part[: later.sums.count]
        for name in COUNTS:
            self.sums[name][at] += later.sums[name]
        self.sums["first"][at] = np.minimum(self.sums["first"][at], later.sums["first"])
        self.sums["last"][at] = np.maximum(self.sums["last"][at], later.sums["last"])
        keys = {
            COMMITS: self.commit_keys.absorb(later.commit_keys),
            GROUP: np.arange(len(later.groups)),  # they are numbered alike
            NEWER: self.newer_keys.of(later.newer_keys),
        }
        for ours, theirs in zip(self.stretches, later.stretches, strict=True):
            for kind, numbers in keys.items():
                ours.last[kind].fit(int(numbers.max(initial=-1)) + 1)
            ours.absorb(theirs, keys, part)
        self.stays.fit(len(self.commit_keys), len(self.parts))
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
        topic = place.astype(np.int32)  # below 0: none, but a kind; see `_places`
        groups, topics = list(self.seen), self._seen_topics()
        columns = (
            *(ranks(groups)[place >> 32], ranks(topics)[np.maximum(topic, -1)]),
            np.maximum(-1 - topic, COMMITS),
            *(np.where(span < 0, -1, span * (self.ask.every_ms or 0)), told),
        )
        for group, at, what, time, number in sorted(
            zip(*(one.tolist() for one in columns), strict=True)
        ):
            names = None if group < 0 else groups[group], None if at < 0 else topics[at]
            of_part = {name: int(column[number]) for name, column in sums.items()}
            yield self._row(partition, *names, what, time, of_part, self.open.get(number, {}))

    def _seen_topics(self) -> list[int]:
        """Return the numbers of topics in order of first sight."""
        topic = self.commit_keys.entries["topic"]
        return topic[np.sort(np.unique(topic, return_index=True)[1])].tolist()

    def _sums(self) -> dict[str, Array]:
        """Return what is known of each part."""
        count = len(self.parts)
        self.sums.fit(count)
        self.stays.fit(len(self.commit_keys), count)
        sums = {name: self.sums[name] for name in self.sums.fields}
        freed = superseded(self.stretches, count)
        sums |= {name: size for name, (_, size) in zip(STRETCHES, freed, strict=True)}
        sums["superseded_records"] = sum(records for records, _ in freed)
        sums["superseded_bytes"] = sum(size for _, size in freed)
        for name in ("records", "bytes"):
            sums[name] = sum(one.sums[name] for one in self.stretches)
        sums["passed_ms"] = self.stays.passed_ms()
        sums["intervals"] = sums["records"] - sums["untimed"] - self.stays.sums["begun"]
        sums["keys"] = sum(pairs.keys_of_parts(count) for pairs in self.pairs.values())
        return sums

    def _row(
        self,
        partition: int | None,
        group: int | None,
        topic: int | None,
        what: int,
        time: int,
        sums: dict[str, int],
        pending: Row,
    ) -> Row:
        count, last = sums["intervals"], sums["last"]
        often = sums["passed_ms"] / count if count else None
        return {
            "group_id": None if group is None else self.groups[group],
            "offsets_partition": partition,
            "topic": None if topic is None else self.topics[topic],
            "kind": KINDS[what],
            "time": None if time < 0 else time,
            **{name: sums[name] for name in SUMS},
            "first_timestamp": sums["first"] if last >= 0 else None,
            "last_timestamp": last if last >= 0 else None,
            "interval_ms": often,
            "too_often": often is not None and count >= FEWEST and often < self.ask.interval_ms,
            "open_transactions": list(pending.values()),
        }


def ranks(numbers: list[int]) -> Array:
    """Return the place of each number in a list, and -1 at the end, for none."""
    found = np.full(max(numbers, default=-1) + 2, -1)
    found[numbers] = np.arange(len(numbers))
    return found


class Stretch:
    """Sums of the records of a stretch of the log, and the last settled one of each key there.

    ``kept`` are those that nothing supersedes: they have no key, or are undecided. ``last`` is of
    each kind, and has the part of a record above 32 bits with its bytes.
    """

    def __init__(self) -> None:
        names = ("records", "bytes", "kept_records", "kept_bytes")
        self.sums = Table(**dict.fromkeys(names, (np.int64, 0)))
        self.last = {kind: Table(record=(np.int64, -1)) for kind in HELD}

    def keep(self, part: Array, size: Array) -> None:
        """Count records that nothing supersedes."""
        self.sums.add("kept_records", part)
        self.sums.add("kept_bytes", part, size)

    def hold(self, kind: int, key: Array, part: Array, size: Array) -> None:
        """Take settled records in log order: the last of each key stays."""
        record = part.astype(np.int64)
        record <<= 32
        record |= size
        self.last[kind]["record"][key] = record

    def absorb(self, later: Stretch, keys: dict[int, Array], part: Array) -> None:
        """Go on with what follows; ``keys`` and ``part`` number its keys and parts here."""
        self.sums.fit(int(part.max()) + 1)
        for name in self.sums.fields:
            self.sums[name][part[: later.sums.count]] += later.sums[name]
        for kind, last in later.last.items():
            told = np.flatnonzero(last["record"] >= 0)
            record = last["record"][told]
            self.hold(kind, keys[kind][told], part[record >> 32], record & LOW)


def superseded(stretches: list[Stretch], count: int) -> list[tuple[Array, Array]]:
    """Return what the records of each stretch supersede: how many of each part, and bytes."""
    found = []
    last = {
        kind: np.full(max(len(one.last[kind]["record"]) for one in stretches), -1) for kind in HELD
    }
    for one in stretches:
        one.sums.fit(count)
        records = one.sums["records"] - one.sums["kept_records"]
        size = one.sums["bytes"] - one.sums["kept_bytes"]
        for kind, before in last.items():
            now = one.last[kind]["record"]
            told = np.flatnonzero(now >= 0)
            for held, sign in ((now[told], -1), (before[told][before[told] >= 0], 1)):
                np.add.at(records, held >> 32, sign)
                np.add.at(size, held >> 32, sign * (held & LOW))
            before[told] = now[told]
        found.append((records, size))
    return found


class Stays:
    """The time between a partition's commits that follow one another in one part.

    A *stay* is a run of them. Of ``passed_ms`` the time of its first is taken when it begins, and
    that of its last added when it ends.
    """

    def __init__(self) -> None:
        self.sums = Table(passed_ms=(np.int64, 0), begun=(np.int64, 0))
        parts = dict.fromkeys(("part", "first_part"), (np.int32, -1))
        self.last = Table(**parts, ms=(np.int64, -1), first_ms=(np.int64, -1))

    def fit(self, keys: int, parts: int) -> None:
        """Have room for so many."""
        self.last.fit(keys)
        self.sums.fit(parts)

    def take(self, key: Array, part: Array, ms: Array) -> tuple[Array, Array]:
        """Take commits in log order; return the part and key of each stay that begins."""
        moves = self.last["part"][key] != part
        begun = self._begin(key, part, ms, moves) if moves.any() else (part[:0], key[:0])
        self.last["ms"][key] = ms
        return begun

    def _begin(self, key: Array, part: Array, ms: Array, moves: Array) -> tuple[Array, Array]:
        """Begin the stays of partitions of which a commit is in another part than the last."""
        moving = np.zeros(self.last.count, np.bool_)
        moving[key[moves]] = True
        rows = np.flatnonzero(moving[key])
        rows = np.sort(key[rows] << 32 | rows) & LOW  # by key, and as in the log
        key, part, ms = key[rows], part[rows], ms[rows]
        starts = run_starts(key)
        before, before_ms = np.roll(part, 1), np.roll(ms, 1)
        before[starts] = self.last["part"][key[starts]]
        before_ms[starts] = self.last["ms"][key[starts]]
        begins = before != part
        self._end(before[begins], before_ms[begins])
        np.subtract.at(self.sums["passed_ms"], part[begins], ms[begins])
        self.sums.add("begun", part[begins])
        new = starts[before[starts] < 0]
        self.last["first_part"][key[new]], self.last["first_ms"][key[new]] = part[new], ms[new]
        self.last["part"][key] = part
        return part[begins], key[begins]

    def _end(self, part: Array, ms: Array) -> None:
        """End stays; part -1: there was none."""
        there = part >= 0
        np.add.at(self.sums["passed_ms"], part[there], ms[there])

    def absorb(self, later: Stays, keys: Array, part: Array) -> None:
        """Go on with what follows; ``keys`` and ``part`` number its keys and parts here."""
        for name in self.sums.fields:
            self.sums[name][part[: later.sums.count]] += later.sums[name]
        told = np.flatnonzero(later.last["part"] >= 0)
        key = keys[told]
        first, first_ms = part[later.last["first_part"][told]], later.last["first_ms"][told]
        before, before_ms = self.last["part"][key], self.last["ms"][key]
        same = before == first  # the stay goes on: it neither ended nor began
        self._end(before[~same], before_ms[~same])
        np.add.at(self.sums["passed_ms"], first[same], first_ms[same])
        np.subtract.at(self.sums["begun"], first[same], 1)
        new = before < 0
        self.last["first_part"][key[new]] = first[new]
        self.last["first_ms"][key[new]] = first_ms[new]
        self.last["part"][key] = part[later.last["part"][told]]
        self.last["ms"][key] = later.last["ms"][told]

    def passed_ms(self) -> Array:
        """Return the time between the commits of each part, all stays ended."""
        passed_ms = self.sums["passed_ms"].copy()
        told = self.last["part"] >= 0
        np.add.at(passed_ms, self.last["part"][told], self.last["ms"][told])
        return passed_ms


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


class Codes:
    """Numbers what an int64 stands for: the first is 0."""

    def __init__(self, first: int) -> None:
        self.codes = np.array([first], np.int64)  # they rise
        self.numbers = np.zeros(1, np.int64)

    def __len__(self) -> int:
        return len(self.codes)

    def of(self, codes: Array) -> Array:
        """Return the number of each of these, a new one at its first sight."""
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
        found = np.empty_like(self.codes)
        found[self.numbers] = self.codes
        return found


def code_of(group: Array, topic: Array) -> Array:
    """Return the code of a place; the topic is below 0 where there is none: -1 less the kind."""
    code: Array = (group.astype(np.int64) << 32) | (topic.astype(np.int64) & LOW)
    return code


def run_starts(*columns: Array) -> Array:
    """Return the rows at which any of the columns goes on with another value."""
    changes = np.empty(len(columns[0]), np.bool_)
    changes[:1] = True
    np.not_equal(columns[0][1:], columns[0][:-1], out=changes[1:])
    for column in columns[1:]:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)


def distinct(numbers: Array) -> Array:
    """Return numbers once each, sorted: faster than ``np.unique``, which hashes integers."""
    numbers = np.sort(numbers)
    ones: Array = numbers[run_starts(numbers)]
    return ones


def rows_where(is_so: Array) -> Array | slice:
    """Return which rows are meant, as an index: nothing is copied where all are."""
    return slice(None) if is_so.all() else np.flatnonzero(is_so)


def bytes_of_rows(records: Commits) -> Array:
    """Return each record's share of its batch on disk, int64; a batch's add up to its size."""
    first, size = records.batches["first_row"], records.batches["size"].astype(np.int64)
    count = np.diff(first, append=len(records))
    first, size, count = (column[count > 0] for column in (first, size, count))
    weight = np.maximum(records.key_size, 0)
    weight += np.maximum(records.value_size, 0)
    upto = np.cumsum(np.maximum(weight, 1, out=weight), dtype=np.int64)
    before = np.append(0, upto)[first]
    total = np.diff(before, append=upto[-1])
    upto -= np.repeat(before, count)
    if (total * size).max() < EXACT:
        share = upto.astype(np.float64)
        share *= np.repeat(size.astype(np.float64), count)
        share /= np.repeat(total.astype(np.float64), count)
        upto = share.astype(np.int64)
    else:
        upto = upto * np.repeat(size, count) // np.repeat(total, count)
    shares = upto.copy()
    shares[1:] -= upto[:-1]
    shares[first] = upto[first]
    return shares
