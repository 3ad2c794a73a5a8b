"""Partitions whose offset stands still while other partitions of the topic move.

A partition without records stands still, too, and the log has no end offsets. So a pause is a
stall only if the partition moved before and never paused nearly as long (``TIMES_LONGER``), and if
the group's other partitions of the topic moved during at least half of the pause.

State for each key: when it moved last, and its longest pause. For each group and topic: runs of
slices of time in which it moved; a group that moves all the time has one. A pause is stored if it
is far longer than those before: few for each key.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import NamedTuple

import numpy as np

from coterie.insight.offsets.commit_findings import (
    PLACE,
    places_of,
    select,
)
from coterie.insight.offsets.weights import distinct
from coterie.insight.records.key_index import LOW, Key, Keys, Table, rows_by_key
from coterie.insight.records.record_columns import (
    COMMIT,
    COMMIT_TO_OTHER_TOPIC,
    Array,
    RecordColumns,
    is_before,
)

TIMES_LONGER = 5  # than any pause before
LEAST_MOVES = 10  # of the partition, before its pauses are judged
SLICES = 6  # of time, in the shortest stall
LEAST_SLICES = 2  # in a pause, to judge it
RUNS_STORED = 1 << 20  # of slices, of all groups and topics; beyond, slices become twice as long
NEW_SLICES = 1 << 16  # that wait until they are merged into the runs
SLICE_BITS = 40
SLICE = (1 << SLICE_BITS) - 1
LEAST_SLICE_MS = 8  # of which SLICE_BITS bits count those up to the year 2248
NEVER = -1
UNKNOWN_MS = 1 << 40  # longer than any pause
MOVE = ("ms", *PLACE)
SINCE = ("ms", "log_offset")  # of the move before
PAUSE = ("key", "pause", "since", "stood", "longest", "moves", "since_log_offset", *PLACE)
Columns = dict[str, Array]


class Stall(NamedTuple):
    """A partition that stood still.

    Attributes
    ----------
    key : tuple
        Group, topic, partition.
    since_ms, until_ms : int or None
        When it moved last, and when it moved again; None: not before the end of the log.
    ms : int
        The time between, or up to the end of the log.
    offset : int
        Where it stood.
    since_log_offset : int
        The commit that moved it last.
    log_offset, file, position
        The commit that moved it again, or else the one that moved it last.
    longest_ms : int
        Its longest pause before.
    """

    key: Key
    since_ms: int
    until_ms: int | None
    ms: int
    offset: int
    since_log_offset: int
    log_offset: int
    file: str
    position: int
    longest_ms: int


class Stalls:
    """Finds stalls in the commits of a partition, piece by piece.

    Parameters
    ----------
    stall_ms
        The shortest stall.
    trusted_from_ms
        From when on the log is complete: pauses that began earlier are left out. None: its start.
    """

    COLUMNS = frozenset({"previous_offset"})

    def __init__(self, stall_ms: int, trusted_from_ms: int | None = None) -> None:
        self.stall_ms, self.trusted_from_ms = stall_ms, trusted_from_ms
        self.active = ActiveSlices(max(stall_ms // SLICES, LEAST_SLICE_MS))
        self.keys = Keys()
        self.files: list[str] = []
        self.moved = Table(
            **dict.fromkeys(MOVE, (np.int64, NEVER)),
            moves=(np.int64, 0),
            longest=(np.int64, 0),
        )
        self.pauses: list[Columns] = []

    def take(self, commits: RecordColumns) -> None:
        self.keys.scan, self.files = commits.scan, commits.files
        if not len(self.keys):
            return
        self.moved.fit(len(self.keys))
        moves = (commits.previous >= COMMIT) & (commits.offset != commits.previous_offset)
        moves |= commits.previous == COMMIT_TO_OTHER_TOPIC
        moves &= commits.timestamp >= 0
        rows = np.flatnonzero(np.where(commits.tombstone, commits.effective, moves))
        if not len(rows):
            return
        events = rows_by_key(small(commits.key[rows], len(self.keys)), rows)
        rows, gone = events.order, commits.tombstone[events.order]
        places = places_of(commits, rows)
        ms = np.where(gone, NEVER, places["timestamp"])
        keys = events.keys.astype(np.int64)
        self.active.add(self.keys, keys[~gone], ms[~gone])
        self._put({"key": keys, "ms": ms, "stood": commits.previous_offset[rows], **places})

    def _put(self, events: Columns) -> None:
        """Add moves and removals (``ms`` NEVER), sorted by key, each key's in log order."""
        keys, moved = events["key"], self.moved
        starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        of_start, sizes = keys[starts], np.diff(starts, append=len(keys))
        lasts = starts + sizes - 1
        since, since_log_offset = (np.append(NEVER, events[name][:-1]) for name in SINCE)
        since[starts] = moved["ms"][of_start]
        since_log_offset[starts] = moved["log_offset"][of_start]
        pause = pauses(events["ms"], since)
        longest = longest_before(pause, starts, moved["longest"][of_start])
        is_move = events["ms"] >= 0
        count: Array = np.cumsum(is_move) - is_move
        count += np.repeat(moved["moves"][of_start] - count[starts], sizes)
        measured = {"pause": pause, "since": since, "longest": longest, "moves": count}
        self._put_pauses({**events, **measured, "since_log_offset": since_log_offset})
        for name in MOVE:
            moved[name][of_start] = events[name][lasts]
        moved["longest"][of_start] = np.maximum(longest, pause)[lasts]
        moved["moves"][of_start] = (count + is_move)[lasts]

    def _put_pauses(self, rows: Columns) -> None:
        """Store the pauses that are long enough, beside those before them."""
        long = rows["pause"] >= np.maximum(self.stall_ms, TIMES_LONGER * rows["longest"])
        if long.any():
            self.pauses.append({name: rows[name][long] for name in PAUSE})

    def stalls(self, end_ms: int) -> Iterator[Stall]:
        """Yield the stalls; call it after the last piece. ``end_ms``: the end of the log."""
        parts = [*self.pauses, self._open_pauses(end_ms)]
        rows = {name: np.concatenate([one[name] for one in parts]) for name in PAUSE}
        rows = select(rows, rows["moves"] >= LEAST_MOVES)
        rows = select(rows, ~is_before(rows["since"], self.trusted_from_ms))
        rows = select(rows, self.active.during(self.keys, rows))
        if not len(rows["key"]):
            return
        names = dict(self.keys.items(np.unique(rows["key"]).tolist()))
        for values in zip(*(rows[name].tolist() for name in PAUSE), strict=True):
            row = dict(zip(PAUSE, values, strict=True))
            is_open = row["log_offset"] == row["since_log_offset"]
            yield Stall(
                names[row["key"]],
                row["since"],
                None if is_open else row["timestamp"],
                row["pause"],
                row["stood"],
                row["since_log_offset"],
                row["log_offset"],
                self.files[row["file"]],
                row["position"],
                row["longest"],
            )

    def _open_pauses(self, end_ms: int) -> Columns:
        """Return the pauses at the end of the log that are long enough."""
        moved = self.moved
        keys = np.arange(self.moved.count)
        ends = np.where(moved["ms"] >= 0, end_ms, NEVER)
        pause = pauses(ends, moved["ms"])
        rows = {"key": keys, "pause": pause, "since": moved["ms"], "stood": moved["offset"]}
        rows |= {"since_log_offset": moved["log_offset"]}
        rows |= {name: moved[name] for name in ("longest", "moves", *PLACE)}
        long = pause >= np.maximum(self.stall_ms, TIMES_LONGER * moved["longest"])
        return select(rows, long)


class ActiveSlices:
    """The slices of time in which a group moved in a topic, as runs of them.

    A slice is a code: the number of group and topic in the upper bits, then that of the slice.

    Parameters
    ----------
    slice_ms
        The length of a slice; it doubles while there are more than ``RUNS_STORED`` runs.
    """

    def __init__(self, slice_ms: int) -> None:
        self.slice_ms = slice_ms
        self.numbers: dict[tuple[str, str], int] = {}  # of group and topic
        self.number_of_key = np.empty(0, np.int64)
        self.begins = np.empty(0, np.int64)  # of each run, ascending
        self.ends = np.empty(0, np.int64)  # behind its last slice
        self.recent: list[Array] = []  # slices that are in no run yet

    def _numbers(self, keys: Keys, of: Array) -> Array:
        """Return the number of the group and topic of some keys."""
        known = len(self.number_of_key)
        if len(keys) > known:
            entries = keys.entries[known:]
            codes = entries["group"].astype(np.int64) << 32 | entries["topic"]
            pairs, which = np.unique(codes, return_inverse=True)
            new = [
                self.numbers.setdefault(
                    (keys.group_names[pair >> 32], keys.topic_names[pair & LOW]), len(self.numbers)
                )
                for pair in pairs.tolist()
            ]
            self.number_of_key = np.append(self.number_of_key, np.array(new, np.int64)[which])
        numbers: Array = self.number_of_key[of]
        return numbers

    def add(self, keys: Keys, of: Array, ms: Array) -> None:
        if len(of):
            codes = self._numbers(keys, of) << SLICE_BITS | self._slice_of(ms)
            self.recent.append(distinct(codes))
            if sum(map(len, self.recent)) > NEW_SLICES:
                self._settle()

    def _slice_of(self, ms: Array) -> Array:
        """Return the slice that each time is in; later ones than there are bits for are in one."""
        slices: Array = np.minimum(ms // self.slice_ms, SLICE - 1)
        return slices

    def _settle(self) -> None:
        if self.recent:
            codes = np.concatenate(self.recent)
            self.recent = []
            self._merge(codes, codes + 1)

    def _merge(self, begins: Array, ends: Array) -> None:
        """Merge more runs, which may overlap, into those that are known."""
        begins, ends = np.append(self.begins, begins), np.append(self.ends, ends)
        order = np.argsort(begins, kind="stable")  # merges what is sorted already
        begins, ends = begins[order], np.maximum.accumulate(ends[order])
        starts = np.flatnonzero(np.append(True, begins[1:] > ends[:-1])[: len(begins)])
        self.begins = begins[starts]
        self.ends = ends[np.append(starts[1:], len(begins))[: len(starts)] - 1]
        while len(self.begins) > max(RUNS_STORED, len(self.numbers)):
            self._double()

    def _double(self) -> None:
        self.slice_ms *= 2
        numbers = self.begins & ~SLICE
        begins = numbers | (self.begins & SLICE) >> 1
        ends = numbers + (self.ends - numbers + 1 >> 1)
        self.begins = self.ends = self.begins[:0]
        self._merge(begins, ends)

    def during(self, keys: Keys, rows: Columns) -> Array:
        """Return in which pauses the topic moved in half of the slices; bool."""
        all_runs = copy(self)
        all_runs._settle()  # a copy: when runs become longer is no matter of who asks
        base = self._numbers(keys, rows["key"]) << SLICE_BITS
        first = all_runs._slice_of(rows["since"]) + 1
        last = all_runs._slice_of(rows["since"] + rows["pause"])  # not included
        count = np.maximum(last - first, 0)
        moved = all_runs._before(base + first + count) - all_runs._before(base + first)
        active: Array = (count >= LEAST_SLICES) & (moved * 2 >= count)
        return active

    def _before(self, codes: Array) -> Array:
        sums = np.append(0, np.cumsum(self.ends - self.begins))
        runs = np.searchsorted(self.begins, codes)  # that begin before it
        behind = np.append(0, self.ends)[runs] - codes  # slices of the last one that do not
        before: Array = sums[runs] - np.maximum(behind, 0)
        return before


def small(keys: Array, count: int) -> Array:
    """Return key numbers in the smallest type: numpy sorts 16 bits by radix, far faster."""
    return keys.astype(np.uint16) if count <= 1 << 16 else keys.astype(np.int64)


def pauses(ms: Array, since: Array) -> Array:
    """Return the time between moves, 0 where one is ``NEVER``, or if time went back."""
    passed = np.where(since < 0, 0, ms - since)
    clipped: Array = np.clip(passed, 0, UNKNOWN_MS - 1)
    return clipped


def longest_before(pause: Array, starts: Array, known: Array) -> Array:
    """Return the longest pause before each, of the same key.

    ``starts``: the first element of each key; ``known``: the longest before that.
    """
    ranks = np.zeros(len(pause), np.int64)
    ranks[starts[1:]] = 1
    base = np.cumsum(ranks) * UNKNOWN_MS
    shifted = np.append(0, pause[:-1])
    shifted[starts] = known
    return np.maximum.accumulate(shifted + base) - base
