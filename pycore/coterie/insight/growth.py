"""Who fills the topic: bytes, records, what is superseded, and what compaction would free.

Columns only: numpy over the records of a partition, a Python object a group and topic. A batch's
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

from coterie.insight.commits import ABORTED, KIND, PENDING, Array, is_before
from coterie.insight.facts import PartitionFacts
from coterie.insight.keys import by_key, sorted_by

NAME = "growth"
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
Sums = dict[str, Array]
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


def rows(facts: PartitionFacts, ask: Ask) -> Iterator[dict[str, Any]]:
    """Yield one row a group, topic and kind (and span of time), the most bytes first."""
    # Batches and keys are shared: all of the partition is weighed, whatever groups are asked for.
    whole = facts.whole()
    found = list(counted(whole, ask))
    if facts.groups is not None:
        found = [row for row in found if row["group_id"] in facts.groups]
    elif (size := empty_batches(whole)) > 0:
        nothing = dict.fromkeys(FIELDS, 0) | dict.fromkeys(UNKNOWN_OF_EMPTY)
        found.append(
            nothing
            | {"offsets_partition": facts.number, "kind": "empty_batch", "bytes": size}
            | {"too_often": False, "open_transactions": []}
        )
    yield from sorted(found, key=lambda row: (row["time"] or 0, -row["bytes"]))


def empty_batches(facts: PartitionFacts) -> int:
    """Return the bytes of batches that compaction has left without records."""
    records = facts.records
    there = np.bincount(records.batch, minlength=len(records.batches)) > 0
    return int(records.batches["size"][~there].sum())


def bytes_of_rows(facts: PartitionFacts) -> Array:
    """Return each record's share of its batch on disk, int64; a batch's add up to its size."""
    records = facts.records
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


def keys_of_rows(facts: PartitionFacts, kind: Array) -> Array:
    """Return a number for each record's key, int64; -1: of no key that is known."""
    records = facts.records
    keys = np.full(len(records), -1, dtype=np.int64)
    commits = by_key(records, np.flatnonzero(kind == COMMITS))
    keys[commits.order] = np.cumsum(commits.first) - 1
    classic = np.flatnonzero(kind == GROUP)
    base = len(records)  # there are no more keys of commits
    keys[classic] = base + records.group[classic]
    newer = np.flatnonzero(kind == NEWER)
    if len(newer):
        base += len(records.groups)
        numbers: dict[bytes, int] = {}
        of = [numbers.setdefault(record.key, len(numbers)) for record in facts.newer_records]
        keys[newer] = base + np.array(of, dtype=np.int64)
    return keys


def next_of_key(facts: PartitionFacts, keys: Array) -> Array:
    """Return the row that supersedes each row, int64; ``NEVER``: none does.

    What was aborted supersedes nothing, nor does what is undecided; what was aborted is gone at
    once: its next is row 0.
    """
    outcome = facts.records.outcome
    settled = np.flatnonzero((keys >= 0) & (outcome != ABORTED) & (outcome != PENDING))
    held = sorted_by(keys[settled], settled)
    found = np.full(len(keys), NEVER, dtype=np.int64)
    inner = np.flatnonzero(~held.last)
    found[held.order[inner]] = held.order[inner + 1]
    found[(outcome == ABORTED) & (keys >= 0)] = 0
    return found


def bounds(facts: PartitionFacts) -> tuple[int, int]:
    """Return the row at which the active segment begins, and the first that is undecided."""
    records = facts.records
    active = facts.segments[-1].name if facts.segments else None
    inside = np.zeros(len(records), dtype=np.bool_)
    if active in records.files:
        inside = records.file == records.files.index(active)
    undecided = np.flatnonzero(records.outcome == PENDING)
    at = np.flatnonzero(inside)
    return int(at[0]) if len(at) else len(records), int(undecided[0]) if len(undecided) else NEVER


def counted(facts: PartitionFacts, ask: Ask) -> Iterator[dict[str, Any]]:
    """Yield the rows of all that has a record."""
    records = facts.records
    if not len(records):
        return
    kind = KIND_OF[records.kind]
    keys = keys_of_rows(facts, kind)
    part, places = parts_of(facts, kind, ask.every_ms)
    parts = len(places)
    if facts.since_ms is not None:  # what was before is a part of its own, which is not told
        early = is_before(records.timestamp, facts.since_ms)
        part, parts = np.where(early, parts, part), parts + 1
    sums = sums_of(facts, keys, part, parts)
    total, count = intervals(facts, keys, part, parts)
    first, last = times_of(facts, part, parts)
    pending = open_by_part(facts, part)
    for number, (group, topic, what, time) in enumerate(places):
        if not sums["records"][number]:
            continue
        often = count[number] and total[number] / count[number]
        yield {
            "group_id": None if group < 0 else records.groups[group],
            "offsets_partition": facts.number,
            "topic": None if topic < 0 else records.topics[topic],
            "kind": KINDS[what],
            "time": None if time < 0 else time,
            **{name: int(column[number]) for name, column in sums.items()},
            "first_timestamp": int(first[number]) if last[number] >= 0 else None,
            "last_timestamp": int(last[number]) if last[number] >= 0 else None,
            "interval_ms": float(often) if count[number] else None,
            "too_often": bool(count[number] >= FEWEST and often < ask.interval_ms),
            "open_transactions": pending.get(number, []),
        }


def parts_of(
    facts: PartitionFacts, kind: Array, every_ms: int | None
) -> tuple[Array, list[tuple[int, int, int, int]]]:
    """Return the part that each row belongs to, and each part's group, topic, kind and time."""
    records = facts.records
    time = np.full(len(records), -1, dtype=np.int64)
    if every_ms is not None:
        known = records.timestamp >= 0
        time[known] = records.timestamp[known] // every_ms * every_ms
    spans, span = np.unique(time, return_inverse=True)
    names = (records.group.astype(np.int64) + 1) * (len(records.topics) + 1) + records.topic + 1
    names, name = np.unique(names, return_inverse=True)
    code = (name.astype(np.int64) * len(KINDS) + kind) * len(spans) + span
    codes, part = np.unique(code, return_inverse=True)
    code, span = np.divmod(codes, len(spans))
    name, what = np.divmod(code, len(KINDS))
    group, topic = np.divmod(names[name], len(records.topics) + 1)
    columns = (group - 1, topic - 1, what, spans[span])
    return part, list(zip(*(column.tolist() for column in columns), strict=True))


def sums_of(facts: PartitionFacts, keys: Array, part: Array, count: int) -> Sums:
    """Return the counts and bytes of each part."""
    records = facts.records
    size, follower = bytes_of_rows(facts), next_of_key(facts, keys)
    active, undecided = bounds(facts)
    number = np.arange(len(records))
    superseded = follower != NEVER
    before_active = (number < active) & (follower < active)
    free = before_active & (number < undecided) & (follower < undecided)

    def total(rows: Array, weight: Array | None = None) -> Array:
        chosen = None if weight is None else weight[rows]
        return np.bincount(part[rows], chosen, count).astype(np.int64)

    every = np.ones(len(records), dtype=np.bool_)
    return {
        "records": total(every),
        "bytes": total(every, size),
        "tombstones": total(records.value_size < 0),
        "requests": total(np.diff(records.batch, prepend=-1) != 0),
        "keys": distinct(part[keys >= 0], keys[keys >= 0], count),
        "superseded_records": total(superseded),
        "superseded_bytes": total(superseded, size),
        "free_bytes": total(free, size),
        "held_transaction_bytes": total(before_active & ~free, size),
        "held_active_bytes": total(superseded & ~before_active, size),
    }


def times_of(facts: PartitionFacts, part: Array, count: int) -> tuple[Array, Array]:
    """Return each part's first and last timestamp; the last -1: none of its records has one."""
    first = np.full(count, NEVER, dtype=np.int64)
    last = np.full(count, -1, dtype=np.int64)
    known = facts.records.timestamp >= 0
    np.minimum.at(first, part[known], facts.records.timestamp[known])
    np.maximum.at(last, part[known], facts.records.timestamp[known])
    return first, last


def distinct(part: Array, values: Array, count: int) -> Array:
    """Return how many different values each part has."""
    if not len(part):
        return np.zeros(count, dtype=np.int64)
    span = int(values.max()) + 1
    different = np.unique(part.astype(np.int64) * span + values)
    return np.bincount(different // span, minlength=count)


def intervals(facts: PartitionFacts, keys: Array, part: Array, count: int) -> tuple[Array, Array]:
    """Return the time between commits that follow one another for a partition: sum and number."""
    records = facts.records
    rows = np.flatnonzero((records.kind == KIND["offset"]) & (records.timestamp >= 0))
    held = sorted_by(keys[rows], rows)
    one, next_ = held.order[:-1], held.order[1:]
    follows = ~held.last[:-1] & (part[one] == part[next_]) if len(rows) else np.empty(0, np.bool_)
    passed = (records.timestamp[next_] - records.timestamp[one])[follows]
    where = part[one][follows]
    return np.bincount(where, passed, count), np.bincount(where, minlength=count)


def open_by_part(facts: PartitionFacts, part: Array) -> dict[int, list[dict[str, Any]]]:
    """Return the undecided transactions of each part that has any, by their first record."""
    records = facts.records
    found: dict[int, list[dict[str, Any]]] = {}
    seen: set[tuple[int, int]] = set()
    for row in np.flatnonzero(records.outcome == PENDING).tolist():
        place = int(part[row]), int(records.producer_id[row])
        if place not in seen:
            seen.add(place)
            found.setdefault(place[0], []).append(
                {
                    "producer_id": place[1],
                    "log_offset": int(records.log_offset[row]),
                    "timestamp": int(records.timestamp[row]),
                    "file": records.files[records.file[row]],
                    "position": int(records.position[row]),
                }
            )
    return found
