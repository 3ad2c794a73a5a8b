"""Who fills the topic: bytes, records, what is superseded, and what compaction would free.

State: sums for each group and topic, and each key's last record. A batch's bytes on disk, header
included, are divided among its records in proportion to the bytes of their keys and values
(decompressed). So a compressed batch costs its groups what it takes on disk, and the sum over all
rows is the sum over all batches.

The cleaner keeps the last record of each key among those that it may read: segments before the
active one, up to the first record of an undecided transaction. Aborted records are removed and
supersede nothing. Source: LogCleanerManager.cleanableOffsets, Cleaner.buildOffsetMap. Whether the
cleaner may free a record depends on the record that supersedes it. So the log has three *sections*.
In a section, every record is superseded except the last one of each key. That one also supersedes
the key's last record in an earlier section, so no record is looked up again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coterie.base.ordering import key_order
from coterie.insight.offsets.weights import (
    Codes,
    CommitIntervals,
    LogSection,
    distinct,
    rows_where,
    run_starts,
    superseded,
)
from coterie.insight.parameters import check_bounds, parameter
from coterie.insight.records.aggregates import Aggregate, aggregates_of
from coterie.insight.records.key_index import LOW, KeyNumbers, Table
from coterie.insight.records.partition_view import PartitionView, RecordFilter
from coterie.insight.records.record_columns import (
    COMMITTED,
    KIND,
    PENDING,
    Array,
    RecordColumns,
    is_early,
)

NAME = "growth"
WEIGHTS = "weights"
FIELDS = {
    "group_id": "string",  # null: of no group (markers, unknown keys, batches without records)
    "offsets_partition": "int32",
    "topic": "string",  # null: no commits
    "kind": "string",  # of KINDS
    "time": "timestamp",  # with `every_ms`: the beginning of the span; else null
    "records": "int64",
    "bytes": "int64",
    "tombstones": "int64",
    "requests": "int64",  # batches that begin here; a commit is one batch
    "keys": "int64",  # partitions of the topic; other keys
    "superseded_records": "int64",  # or aborted
    "superseded_bytes": "int64",  # the sum of the three that follow
    "free_bytes": "int64",  # bytes that the cleaner would free now
    "held_transaction_bytes": "int64",  # bytes that an open transaction blocks
    "held_active_bytes": "int64",  # bytes that are, or whose successors are, in the active segment
    "first_timestamp": "timestamp",
    "last_timestamp": "timestamp",
    "interval_ms": "double",  # between two commits of a partition, on average; null: no two
    "too_often": "bool",  # whether that is less than the parameter `interval_ms`
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
BEFORE = np.iinfo(np.int64).min  # the category of records before the requested time
KEYED_KINDS = COMMITS, GROUP, NEWER  # kinds whose records supersede earlier ones
SECTIONS = "free_bytes", "held_transaction_bytes", "held_active_bytes"
NEVER = np.iinfo(np.int64).max
MIN_INTERVALS = 10  # with fewer, no topic is reported as too often
PAIRS_AT_ONCE = 1 << 20
SUMS = (
    *("records", "bytes", "tombstones", "requests", "keys", "superseded_records"),
    *("superseded_bytes", "free_bytes", "held_transaction_bytes", "held_active_bytes"),
)
Row = dict[str, Any]
COUNTS = "tombstones", "requests", "untimed"
UNKNOWN_OF_EMPTY = ("group_id", "topic", "time", "first_timestamp", "last_timestamp", "interval_ms")


@dataclass(frozen=True)
class Parameters:
    """The threshold for frequent commits, and the length of time spans.

    With ``every_ms`` there is a row for each span, by the records' own timestamps.
    """

    interval_ms: int = parameter(
        1000,
        "Commits of a partition are too often if the average time between two is below this.",
        option="--interval",
    )
    every_ms: int | None = parameter(
        None,
        "Count over time: a line of the table is a span of this length, whatever --by and --top.",
        option="--every",
        least=1,
    )

    def __post_init__(self) -> None:
        check_bounds(self)


def aggregates(
    view: PartitionView, parameters: Parameters
) -> dict[str, tuple[RecordFilter, Aggregate]]:
    """Return the aggregate that weighs records.

    A batch's bytes are divided among all of its records, regardless of the requested groups.
    """
    return {WEIGHTS: (view.record_filter, TopicWeights(view, parameters))}


def rows(view: PartitionView, parameters: Parameters) -> Iterator[dict[str, Any]]:
    """Yield one row a group, topic and kind (and span of time), the most bytes first.

    Rows of as many bytes are in the order of their names.
    """
    weights: TopicWeights = aggregates_of(view, aggregates, parameters)[WEIGHTS]
    all_rows = list(weights.rows(view.number))
    if view.groups is None and weights.empty_bytes > 0:
        blank = dict.fromkeys(FIELDS, 0) | dict.fromkeys(UNKNOWN_OF_EMPTY)
        all_rows.append(
            blank
            | {"offsets_partition": view.number, "kind": "empty_batch"}
            | {"bytes": weights.empty_bytes, "too_often": False, "open_transactions": []}
        )
    order = key_order()
    all_rows.sort(key=lambda row: order((row["group_id"] or "", row["topic"] or "", 0)))
    yield from sorted(all_rows, key=lambda row: (row["time"] or 0, -row["bytes"]))


class TopicWeights:
    """Weighs the records of a partition, piece by piece.

    A *category* is a group, topic and kind. Category 0 has the records before the requested time:
    they supersede and are superseded, but are not reported. A *bucket* is a category and a time
    span; each bucket gets a row.
    """

    COLUMNS = frozenset({"disk_bytes", "value_size"})

    def __init__(self, view: PartitionView, parameters: Parameters) -> None:
        self.since_ms, self.since_begin = view.since_ms, view.since_begin
        self.parameters = parameters
        self.active = view.segments[-1].name if view.segments else None
        self.undecided = NEVER if view.log.undecided is None else view.log.undecided
        self.categories = Codes(BEFORE)
        self.spans = Codes(-1)
        self.buckets = Codes(0)  # category number, and span number above 32 bits
        self.category_of_key = Table(category=(np.int32, 0))
        counts = dict.fromkeys(COUNTS, (np.int64, 0))
        self.sums = Table(**counts, first=(np.int64, NEVER), last=(np.int64, -1))
        self.sections = [LogSection(len(KEYED_KINDS)) for _ in SECTIONS]
        self.intervals = CommitIntervals()
        self.newer_keys = KeyNumbers()
        self.pairs = {kind: DistinctKeys() for kind in KEYED_KINDS}
        self.open: dict[int, Row] = {}
        self.empty_bytes = 0
        self.groups: list[str] = []
        self.topics: list[str] = []

    def take(self, records: RecordColumns) -> None:
        self.groups, self.topics = records.groups, records.topics
        batches = records.batches
        self.empty_bytes += int(batches["size"][batches["records"] == 0].sum())
        if not len(records):
            return
        what, key, category = self._categories(records)
        bucket = self._buckets(records, category)
        self._fit()
        first = run_starts(records.batch)  # earlier rows of the batch may belong to another group
        begins = records.log_offset[first] == batches["log_offset"][records.batch[first]]
        self.sums.add("requests", bucket[first[begins]])
        own = {"what": what, "key": key, "bucket": bucket, "size": records.disk_bytes}
        columns = records.columns | own
        for section, rows in zip(self.sections, self._cut(records), strict=True):
            if rows.start < rows.stop:
                cut = {name: column[rows] for name, column in columns.items()}
                self._weigh(section, replace(records, columns=cut))

    def _categories(self, records: RecordColumns) -> tuple[Array, Array, Array]:
        """Return each row's kind, the number of its key within the kind, and its category."""
        known = max(self.category_of_key.count - 1, 0)
        new = records.scan.keys(known)
        self.category_of_key.fit(known + len(new) + 1)  # the last entry is for rows without a key
        codes = code_of(new["group"], new["topic"])
        self.category_of_key["category"][known:-1] = self.categories.of(codes)
        what = np.zeros(len(records), np.int8)  # COMMITS
        key = records.key.astype(np.int64)
        category = self.category_of_key["category"][key]
        others = np.flatnonzero(records.kind > KIND["offset_tombstone"])
        if len(others):
            group = records.group[others]
            what[others] = KIND_OF[records.kind[others]]
            category[others] = self.categories.of(code_of(group, -1 - what[others]))
            key[others] = group
            key[what == NEWER] = self.newer_keys.of(records.newer_keys)
        return what, key, category

    def _buckets(self, records: RecordColumns, category: Array) -> Array:
        if self.since_ms is not None:
            category[is_early(records, self.since_ms, self.since_begin)] = 0
        if self.parameters.every_ms is None:
            starts = run_starts(category)
            span = np.full(len(starts), -1)
        else:
            spans = np.where(
                records.timestamp < 0, -1, records.timestamp // self.parameters.every_ms
            )
            starts = run_starts(category, spans)
            span = spans[starts]
        bucket = self.buckets.of((self.spans.of(span) << 32) | category[starts])
        buckets: Array = np.repeat(bucket.astype(np.int32), np.diff(starts, append=len(category)))
        return buckets

    def _fit(self) -> None:
        buckets = len(self.buckets)
        commits = max(self.category_of_key.count - 1, 0)
        keys = commits, len(self.groups), len(self.newer_keys)  # of each keyed kind
        self.sums.fit(buckets)
        self.intervals.fit(buckets, keys[COMMITS])
        for section in self.sections:
            section.fit(buckets, keys)

    def _cut(self, records: RecordColumns) -> tuple[slice, slice, slice]:
        end = len(records)
        if records.files[records.file_number] == self.active:
            return slice(0, 0), slice(0, 0), slice(0, end)
        # The whole batch of the first undecided record is undecided and supersedes nothing.
        batch = np.searchsorted(records.batches["first_number"], self.undecided)
        decided = int(np.append(records.batches["first_row"], end)[batch])
        return slice(0, decided), slice(decided, end), slice(0, 0)

    def _weigh(self, section: LogSection, rows: RecordColumns) -> None:
        starts = run_starts(rows.bucket)
        bucket = rows.bucket[starts]
        first = np.minimum.reduceat(rows.timestamp.view(np.uint64), starts)  # -1 is the greatest
        np.minimum.at(self.sums["first"], bucket, np.minimum(first, NEVER).astype(np.int64))
        np.maximum.at(self.sums["last"], bucket, np.maximum.reduceat(rows.timestamp, starts))
        section.sums.add("records", bucket, np.diff(starts, append=len(rows)))
        section.sums.add("bytes", bucket, np.add.reduceat(rows.size, starts))
        self.sums.add("tombstones", rows.bucket[rows.value_size < 0])
        timed = (rows.kind == KIND["offset"]) & (rows.timestamp >= 0)
        self.sums.add("untimed", rows.bucket[~timed])
        follows = rows_where(timed)
        begun = self.intervals.take(
            rows.key[follows], rows.bucket[follows], rows.timestamp[follows]
        )
        self.pairs[COMMITS].add(*begun)
        for kind in KEYED_KINDS[: int(rows.what.max()) + 1]:
            of_kind = rows.what == kind
            settled = rows_where(of_kind & (rows.outcome == COMMITTED))
            section.set_last(kind, rows.key[settled], rows.bucket[settled], rows.size[settled])
            untimed = np.flatnonzero(of_kind & ~timed)
            self.pairs[kind].add(rows.bucket[untimed], rows.key[untimed])
        undecided = rows.outcome == PENDING
        kept_rows = np.flatnonzero(undecided | (rows.what > NEWER))
        section.add_kept(rows.bucket[kept_rows], rows.size[kept_rows])
        self._open(rows, np.flatnonzero(undecided))

    def _open(self, rows: RecordColumns, pending: Array) -> None:
        """Store the first record of each undecided transaction in each bucket."""
        bucket = rows.bucket[pending]
        for at in run_starts(bucket, rows.batch[pending]).tolist():
            row = int(pending[at])
            self.open.setdefault(int(bucket[at]), {}).setdefault(
                str(rows.producer_id[row]),
                {
                    "producer_id": int(rows.producer_id[row]),
                    "log_offset": int(rows.log_offset[row]),
                    "timestamp": int(rows.timestamp[row]),
                    "file": rows.files[rows.file_number],
                    "position": int(rows.position[row]),
                },
            )

    def rows(self, partition: int | None) -> Iterator[Row]:
        """Yield a row for each bucket with a record, in order of first occurrence."""
        sums = self._sums()
        codes = self.buckets.all()
        used = np.flatnonzero((codes & LOW > 0) & (sums["records"] > 0))
        category = self.categories.all()[codes[used] & LOW]
        span = self.spans.all()[codes[used] >> 32]
        topic = category.astype(np.int32)  # below 0: none, but a kind; see `code_of`
        kind = np.maximum(-1 - topic, COMMITS)
        time = np.where(span < 0, -1, span * (self.parameters.every_ms or 0))
        columns = np.stack([category >> 32, np.maximum(topic, -1), kind, time, used], axis=1)
        for *names, number in sorted(columns.tolist()):
            of_bucket = {name: int(column[number]) for name, column in sums.items()}
            yield self._row(partition, names, of_bucket, self.open.get(number, {}))

    def _sums(self) -> dict[str, Array]:
        self._fit()
        sums = {name: self.sums[name] for name in self.sums.fields}
        freed = superseded(self.sections)
        sums |= {name: size for name, (_, size) in zip(SECTIONS, freed, strict=True)}
        sums["superseded_records"], sums["superseded_bytes"] = np.sum(freed, axis=0)
        for name in ("records", "bytes"):
            sums[name] = np.sum([section.sums[name] for section in self.sections], axis=0)
        sums["passed_ms"] = self.intervals.passed_ms()
        sums["intervals"] = sums["records"] - sums["untimed"] - self.intervals.sums["begun"]
        keys = [pairs.keys_per_bucket(len(self.buckets)) for pairs in self.pairs.values()]
        sums["keys"] = np.sum(keys, axis=0)
        return sums

    def _row(
        self,
        partition: int | None,
        names: list[int],
        sums: dict[str, int],
        pending: Row,
    ) -> Row:
        group, topic, kind, time = names
        count, last = sums["intervals"], sums["last"]
        interval_ms = sums["passed_ms"] / count if count else None
        return {
            "group_id": None if group < 0 else self.groups[group],
            "offsets_partition": partition,
            "topic": None if topic < 0 else self.topics[topic],
            "kind": KINDS[kind],
            "time": None if time < 0 else time,
            **{name: sums[name] for name in SUMS},
            "first_timestamp": sums["first"] if last >= 0 else None,
            "last_timestamp": last if last >= 0 else None,
            "interval_ms": interval_ms,
            "too_often": interval_ms is not None
            and count >= MIN_INTERVALS
            and interval_ms < self.parameters.interval_ms,
            "open_transactions": list(pending.values()),
        }


class DistinctKeys:
    """Counts the distinct keys of a kind in each bucket."""

    def __init__(self) -> None:
        self.pairs: list[Array] = []  # bucket and key as one number; may repeat

    def add(self, bucket: Array, key: Array) -> None:
        """Add pairs, new or known."""
        if len(bucket):
            self.pairs.append(distinct(bucket.astype(np.int64) << 32 | key))
            if sum(map(len, self.pairs)) > 2 * max(len(self.pairs[0]), PAIRS_AT_ONCE):
                self.pairs = [distinct(np.concatenate(self.pairs))]

    def keys_per_bucket(self, count: int) -> Array:
        """Return the number of distinct keys in each of ``count`` buckets."""
        pairs = distinct(np.concatenate([np.empty(0, np.int64), *self.pairs]))
        return np.bincount(pairs >> 32, minlength=count)


def code_of(group: Array, topic: Array) -> Array:
    """Return a category's code; without a topic, ``topic`` is -1 less the kind."""
    code: Array = (group.astype(np.int64) << 32) | (topic.astype(np.int64) & LOW)
    return code
