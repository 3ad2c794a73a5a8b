"""Offsets that moved forward past records: resets from outside of a group, and seeks.

A commit does not say who sent it. Two kinds of steps forward are jumps:

- A commit to a group that has no members now, but had some before: only a tool can have sent it
  (``kafka-consumer-groups --reset-offsets``), unless it keeps coming. So a partition that is
  committed more than ``FEW`` times between two records of the group is left out.
- A step that the group could not have read: by far larger and faster than any other step in its
  topic, and right after another step forward, so the partition was not idle. The log has no end
  offsets, so a seek over few records looks like a burst of records, and is not reported.

State for each key: its largest steps, and its last step.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from coterie.insight.offsets.commit_findings import (
    PLACE,
    START,
    places_of,
    select,
)
from coterie.insight.offsets.outside_spans import FEW, OutsideSpans
from coterie.insight.records.key_index import Key, Keys, Table, pair_ranks
from coterie.insight.records.partition_view import PartitionView
from coterie.insight.records.record_columns import (
    COMMIT,
    Array,
    RecordColumns,
    is_before,
)

LARGEST = 2  # steps stored for each key: a jump, and one step to compare it with
TIMES_LARGER = 10  # than any ordinary step of the group in the topic
LEAST_STEPS = 20  # of the group in the topic; with fewer there is nothing to compare with
TIMES_FASTER = 100  # than ``skip_rate``, of a step right after a rebalance
LEAST_RECORDS = 1_000  # two polls of max.poll.records
LEAST_MS = 1_000  # records of a shorter time may have been read before
LONG_MS = 1 << 40
STEP = ("key", "step", "ms", "before", "span", *PLACE, *(f"previous_{name}" for name in START))


class Jump(NamedTuple):
    """A commit that moved forward past records.

    ``at``: the values of ``STEP``, by name. ``ordinary``: the largest other step of the group in
    the topic; None: the commit came from outside of the group.
    """

    key: Key
    at: dict[str, int]
    file: str
    ordinary: int | None


class Jumps:
    """Finds steps forward that may be jumps, piece by piece.

    Parameters
    ----------
    view
        The partition.
    skip_by
        The least number of records that a jump passes over.
    skip_rate
        The least speed of a jump that no tool made, in records a second.
    """

    COLUMNS = frozenset({"previous_row", *(f"previous_{name}" for name in START)})

    def __init__(self, view: PartitionView, skip_by: int, skip_rate: int) -> None:
        self.spans = OutsideSpans(view)
        self.trusted_from_ms = view.trusted_from_ms
        self.skip_by, self.skip_rate = skip_by, skip_rate
        self.least = max(skip_by, LEAST_RECORDS)  # of a step that only its speed shows
        self.keys = Keys()
        self.files: list[str] = []
        self.of_key = Table(
            steps=(np.int64, 0),  # forward
            last_step=(np.int64, 0),
            ordinary=(np.int64, 0),  # its largest step below ``self.least``
            smallest=(np.int64, 0),  # of its LARGEST steps, once it has so many
            span=(np.int64, -1),  # of its last commit from outside
            in_span=(np.int64, 0),  # commits from outside in that span
        )
        self.largest: dict[str, Array] = {name: np.empty(0, np.int64) for name in STEP}
        self.outside: list[dict[str, Array]] = []

    def take(self, commits: RecordColumns) -> None:
        self.keys.scan, self.files = commits.scan, commits.files
        if not len(self.keys):
            return
        self.of_key.fit(len(self.keys))
        keys = commits.key
        follows = (commits.previous == COMMIT) & ~commits.tombstone
        follows &= ~is_before(commits.previous_timestamp, self.trusted_from_ms)
        step = steps_forward(follows, commits.previous_offset, commits.offset)
        forward = np.flatnonzero(step > 0)
        if len(forward):
            self.of_key.add("steps", keys[forward])
            self._from_outside(commits, forward, step)
            large = step[forward] >= self.least
            self._put_ordinary(keys[forward[~large]], step[forward[~large]])
            large_rows = forward[large]
            is_larger = step[large_rows] > self.of_key["smallest"][keys[large_rows]]
            if is_larger.any():
                self._put_largest(self._rows(commits, large_rows[is_larger], step))
        rows = np.flatnonzero(commits.effective)
        self.of_key["last_step"][keys[rows]] = step[rows]

    def _steps_before(self, commits: RecordColumns, rows: Array, step: Array) -> Array:
        at = commits.previous_row[rows]
        return np.where(at >= 0, step[at], self.of_key["last_step"][commits.key[rows]])

    def _rows(
        self, commits: RecordColumns, rows: Array, step: Array, spans: Array | None = None
    ) -> dict[str, Array]:
        """Return the columns of ``STEP`` for some rows."""
        columns = {name: commits.columns[name][rows] for name in STEP if name in commits.columns}
        ms = elapsed_ms(columns["timestamp"], columns["previous_timestamp"])
        return {
            **columns,
            **places_of(commits, rows),
            "key": columns["key"].astype(np.int64),
            "step": step[rows],
            "ms": ms,
            "before": self._steps_before(commits, rows, step),
            "span": np.full(len(rows), -1, np.int64) if spans is None else spans,
        }

    def _from_outside(self, commits: RecordColumns, forward: Array, step: Array) -> None:
        """Store the first steps from outside in each span."""
        spans = self.spans.of(commits, forward)
        spans[commits.in_transaction[forward]] = -1
        chosen = spans >= 0
        rows, in_span = forward[chosen], spans[chosen]
        if len(rows):
            order = np.lexsort((in_span, commits.key[rows]))  # stable
            rows, in_span, keys = rows[order], in_span[order], commits.key[rows][order]
            begins = np.ones(len(rows), np.bool_)
            begins[1:] = (keys[1:] != keys[:-1]) | (in_span[1:] != in_span[:-1])
            start = np.maximum.accumulate(np.where(begins, np.arange(len(rows)), 0))
            known = self.of_key
            earlier = np.where(known["span"][keys] == in_span, known["in_span"][keys], 0)
            rank = np.arange(len(rows)) - start + earlier
            known["span"][keys], known["in_span"][keys] = in_span, rank + 1
            few = rank <= FEW  # one more, which shows that there are many
            self.outside.append(self._rows(commits, rows[few], step, in_span[few]))

    def _put_ordinary(self, keys: Array, step: Array) -> None:
        """Add steps that are too small to be a seek."""
        larger = step > self.of_key["ordinary"][keys]
        np.maximum.at(self.of_key["ordinary"], keys[larger], step[larger])

    def _put_largest(self, rows: Mapping[str, Array]) -> None:
        """Add steps, and drop all but the largest of each key."""
        joined = {name: np.append(self.largest[name], rows[name]) for name in STEP}
        order = np.lexsort((joined["log_offset"], -joined["step"], joined["key"]))
        keys = joined["key"][order]
        starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
        rank = np.arange(len(keys)) - np.repeat(starts, np.diff(starts, append=len(keys)))
        self.largest = select(joined, order[rank < LARGEST])
        full = order[rank == LARGEST - 1]
        self.of_key["smallest"][joined["key"][full]] = joined["step"][full]

    def jumps(self, view: PartitionView) -> Iterator[Jump]:
        """Yield the jumps, first those from outside; call it after the last piece."""
        from_outside = self._few_from_outside()
        yield from self._named(from_outside, np.full(len(from_outside["key"]), -1))
        rows, ordinary = self._too_large()
        known = set(
            zip(from_outside["key"].tolist(), from_outside["log_offset"].tolist(), strict=True)
        )
        for jump, key in zip(self._named(rows, ordinary), rows["key"].tolist(), strict=True):
            is_known = (key, jump.at["log_offset"]) in known
            if not is_known and self._is_too_fast(view, jump):
                yield jump

    def _few_from_outside(self) -> dict[str, Array]:
        """Return the steps from outside, except of keys that were committed often."""
        parts = self.outside or [{name: np.empty(0, np.int64) for name in STEP}]
        rows = {name: np.concatenate([one[name] for one in parts]) for name in STEP}
        _, span = np.unique(rows["span"], return_inverse=True)
        codes = rows["key"] << 32 | span
        _, which, counts = np.unique(codes, return_inverse=True, return_counts=True)
        few = counts[which] <= FEW
        return select(rows, few & (rows["step"] >= self.skip_by))

    def _too_large(self) -> tuple[dict[str, Array], Array]:
        """Return the steps that are far larger than all others of the group in the topic.

        Also the largest other step of each.
        """
        rows = self.largest
        if not len(rows["key"]):
            return rows, rows["key"]
        pair = pair_ranks(self.keys.entries)
        _, pair = np.unique(pair, return_inverse=True)
        steps = np.bincount(pair, self.of_key["steps"][: len(pair)])
        starts = np.flatnonzero(np.append(True, rows["key"][1:] != rows["key"][:-1]))
        following = np.append(rows["step"][1:], 0)
        lasts = np.append(starts[1:], len(following)) - 1
        full = np.diff(np.append(starts, len(following))) == LARGEST
        following[lasts] = np.where(full, 0, self.of_key["ordinary"][rows["key"][lasts]])
        # A key's steps down to the last gap, but not all of its LARGEST.
        gap = (rows["step"] >= TIMES_LARGER * np.maximum(following, 1)) & (following > 0)
        from_end = np.cumsum(gap[::-1])[::-1]
        ends = np.repeat(np.append(starts[1:], len(gap)), np.diff(starts, append=len(gap)))
        larger = from_end - np.append(from_end, 0)[ends] > 0
        ordinary = np.zeros(len(steps), np.int64)
        np.maximum.at(ordinary, pair, self.of_key["ordinary"][: len(pair)])
        of_pair = pair[rows["key"]]
        np.maximum.at(ordinary, of_pair[~larger], rows["step"][~larger])
        compared = np.maximum(ordinary[of_pair], 1)
        chosen = larger & (rows["step"] >= TIMES_LARGER * compared)
        chosen &= (steps[of_pair] >= LEAST_STEPS) & (rows["before"] > 0)
        return select(rows, chosen), compared[chosen]

    def _is_too_fast(self, view: PartitionView, jump: Jump) -> bool:
        """Whether the group had too little time since its last commit, or since it rejoined.

        A consumer that comes back reads a backlog far faster than it reads otherwise.
        """
        at, moved = jump.at, jump.at["step"] * 1000  # records, for times in ms
        if moved >= self.skip_rate * max(at["ms"], LEAST_MS):
            return True
        history = view.histories.get(jump.key[0])
        if history is None:
            return False
        place = bisect_right(history.generations, at["log_offset"], key=itemgetter("log_offset"))
        latest = history.generations[place - 1] if place else None
        if latest is None or latest["log_offset"] < at["previous_log_offset"]:
            return False
        rejoined_ms: int = latest["timestamp"]
        if not 0 <= rejoined_ms <= at["timestamp"]:
            return False
        return moved >= TIMES_FASTER * self.skip_rate * max(at["timestamp"] - rejoined_ms, LEAST_MS)

    def _named(self, rows: Mapping[str, Array], ordinary: Array) -> Iterator[Jump]:
        if not len(rows["key"]):
            return
        names = dict(self.keys.items(np.unique(rows["key"]).tolist()))
        columns = (rows[name].tolist() for name in STEP)
        for other, *values in zip(ordinary.tolist(), *columns, strict=True):
            at = dict(zip(STEP, values, strict=True))
            yield Jump(names[at["key"]], at, self.files[at["file"]], None if other < 0 else other)


def steps_forward(follows: Array, before: Array, offset: Array) -> Array:
    """Return how far commits moved on; 0: back, not at all, or no commit that ``follows``."""
    step: Array = np.where(follows, np.maximum(offset - before, 0), 0)
    return step


def elapsed_ms(now: Array, before: Array) -> Array:
    """Return the time between two columns of times (ms), ``LONG_MS`` where one is unknown."""
    passed: Array = np.where((now < 0) | (before < 0), LONG_MS, np.maximum(now - before, 0))
    return passed
