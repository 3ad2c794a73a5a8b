"""What the commits of each partition of a topic show: found while the pieces of a log go by.

Of each key its first commit is kept, and the run of commits of one offset that its last stands in,
if it is not alone in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from coterie.insight.records.commit_deltas import absorbed
from coterie.insight.records.key_index import ByKey, Key, Keys, Table, sorted_by
from coterie.insight.records.record_columns import (
    COMMIT,
    KIND,
    NO_RECORD,
    Array,
    RecordColumns,
    is_before,
)

REWIND, NO_PROGRESS, LARGE_METADATA = "rewind", "no_progress", "large_metadata"
Row = dict[str, Any]
PLACE = ("offset", "timestamp", "log_offset", "file", "position")
START = PLACE[:3]  # what is told of the first of a run
PLACES = dict.fromkeys(PLACE, (np.int64, 0))


class Found(NamedTuple):
    """A finding: the fields of ``PLACE`` of the commit that shows it, and what it says."""

    kind: str
    place: tuple[int, ...]
    said: Row


@dataclass
class Large:
    """Commits of one key with much metadata."""

    count: int
    first_log_offset: int
    size: int = 0
    place: tuple[int, ...] = ()


def runs() -> Table:
    """Return a table of runs of commits of one offset, by key.

    A run of one commit is not noted (``count`` is 0) until it goes on. ``open``: one is, and may
    go on; ``first``: it is the key's first.
    """
    return Table(
        count=(np.int64, 0),
        open=(np.bool_, False),
        gone=(np.bool_, True),
        first=(np.bool_, False),
        **{f"first_{name}": (np.int64, 0) for name in START},
        **PLACES,
    )


@dataclass
class Findings:
    """Looks through the commits of a partition, piece by piece.

    Attributes
    ----------
    rewind_by, no_progress, metadata_bytes : int or None
        As in ``audit.Ask``; None: not looked for.
    trusted_from_ms : int or None
        From when on nothing was taken; None: from the start.
    """

    COLUMNS: ClassVar = frozenset({"metadata_size", *(f"previous_{name}" for name in START)})

    rewind_by: int | None
    no_progress: int | None
    metadata_bytes: int | None
    trusted_from_ms: int | None
    keys: Keys = field(default_factory=Keys)
    found: dict[int, list[Found]] = field(default_factory=dict)
    large: dict[tuple[bool, int], Large] = field(default_factory=dict)
    run: Table = field(default_factory=runs)  # the open one of each key
    first_run: Table = field(default_factory=runs)  # of each key, once it has ended
    first: Table = field(default_factory=lambda: Table(gone=(np.bool_, True), **PLACES))
    files: list[str] = field(default_factory=list)

    def take(self, commits: RecordColumns) -> None:
        """Look through the next piece."""
        self.keys.scan = commits.scan
        self.files = commits.files
        if not len(self.keys):
            return
        self._fit()
        self._note_firsts(commits)
        follows = (commits.previous == COMMIT) & ~commits.tombstone
        change = commits.offset - commits.previous_offset
        if self.rewind_by is not None:
            back = np.flatnonzero(follows & (change <= -self.rewind_by))
            places = tuples_of(places_of(commits, back))
            self._put_rewinds(commits.key[back], places, before_of(commits, back))
        if self.no_progress is not None:
            early, was_early = (
                is_before(times, self.trusted_from_ms)
                for times in (commits.timestamp, commits.previous_timestamp)
            )
            # A run is counted from where all of it is there.
            stays = follows & (change == 0) & (early | ~was_early)
            self._standstills(commits, stays, self.no_progress)
        if self.metadata_bytes is not None:
            self._large_metadata(commits, self.metadata_bytes)

    def _fit(self) -> None:
        for table in (self.first, self.run, self.first_run):
            table.fit(len(self.keys))

    def absorb(self, later: Findings) -> None:
        """Go on with what follows; see ``aggregates``. What a key begins with goes on here."""
        last = later.keys.entries
        keys, entries = absorbed(self.keys, later.keys)
        self._fit()
        self.files = max(self.files, later.files, key=len)
        seen = np.flatnonzero(last["before"] != NO_RECORD)
        before = {name: entries[name][seen] for name in START}
        first = some(later.first.columns, seen)
        follows = (entries["before"][seen] == COMMIT) & ~first["gone"]
        if self.rewind_by is not None:
            back = follows & (first["offset"] - before["offset"] <= -self.rewind_by)
            places = tuples_of(some(first, back))
            self._put_rewinds(keys[seen[back]], places, some(before, back))
        if self.no_progress is not None:
            early, was_early = (
                is_before(one["timestamp"], self.trusted_from_ms) for one in (first, before)
            )
            goes_on = follows & (first["offset"] == before["offset"]) & (early | ~was_early)
            later._note_lone_firsts(seen, last)
            lone = goes_on & (self.run["count"][keys[seen]] == 0)
            note_lone(self.run, keys[seen[lone]], some(before, lone), first=False, gone=False)
            self._join_runs(later, keys, seen, goes_on)
        for key, found in later.found.items():
            self.found.setdefault(int(keys[key]), []).extend(found)
        for (whole, key), large in later.large.items():
            self._add_large((whole, int(keys[key])), large)

    def _note_lone_firsts(self, seen: Array, last: Array) -> None:
        """Note the first runs that are of one commit; ``last``: ``Keys.entries``."""
        lone = seen[(self.first_run["count"][seen] == 0) & ~self.run["first"][seen]]
        no_more = last["log_offset"][lone] == self.first["log_offset"][lone]
        for table, keys in ((self.run, lone[no_more]), (self.first_run, lone[~no_more])):
            place = {name: self.first[name][keys] for name in PLACE}
            note_lone(table, keys, place, first=True, gone=self.first["gone"][keys])

    def _join_runs(self, later: Findings, keys: Array, seen: Array, goes_on: Array) -> None:
        """Join the open runs with the first ones that follow, where they go on."""
        here = keys[seen]
        self._put_long(here[~goes_on], self.run)
        ended = later.first_run["count"][seen] > 0
        joined = runs()
        joined.fit(len(self.keys))
        for which, table in ((ended, later.first_run), (~ended, later.run)):
            joined.put_rows(table, seen[which], here[which])
        on = here[goes_on]
        joined["count"][on] += self.run["count"][on]
        for name in ("gone", *(f"first_{name}" for name in START)):
            joined[name][on] = self.run[name][on]
        self._put_long(here[ended], joined)
        self.run.put_rows(joined, here[~ended], here[~ended])
        self.run.put_rows(later.run, seen[ended], here[ended])

    def _put_long(self, keys: Array, table: Table) -> None:
        """Tell of the runs of these keys that are long enough."""
        assert self.no_progress is not None  # else nobody asks
        long = keys[(table["count"][keys] >= self.no_progress) & ~table["gone"][keys]]
        self._put_runs(long, some(table.columns, long))

    def _note_firsts(self, commits: RecordColumns) -> None:
        """Note the first commit of each key, which those of an earlier part lie before."""
        rows = np.flatnonzero((commits.previous == NO_RECORD) & commits.counting)
        keys = commits.key[rows]
        for name, column in places_of(commits, rows).items():
            self.first[name][keys] = column
        self.first["gone"][keys] = commits.tombstone[rows]

    def rows(self) -> Iterator[Row]:
        """Yield what was found, once all pieces are through."""
        if self.no_progress is not None:
            for table in (self.first_run, self.run):
                self._put_long(np.arange(table.count), table)
        for (_, number), large in self.large.items():
            self._put(number, said_of(large))
        for at, key in self.keys.items(self.found):
            for one in self.found[at]:
                yield self._row(key, one)

    def _put(self, key: int, found: Found) -> None:
        self.found.setdefault(key, []).append(found)

    def _row(self, key: Key, found: Found) -> Row:
        offset, time, log_offset, file, position = found.place
        return {
            **dict(zip(("group_id", "topic", "partition"), key, strict=True)),
            "offset": offset,
            "timestamp": None if time < 0 else time,
            "log_offset": log_offset,
            "file": self.files[file],
            "position": position,
            "kind": found.kind,
            **found.said,
        }

    def _put_rewinds(
        self, keys: Array, places: Iterable[tuple[int, ...]], before: Mapping[str, Array]
    ) -> None:
        """Tell of commits that go back; ``before``: the ones before them."""
        names = (before[name].tolist() for name in ("offset", "log_offset"))
        for key, place, was, was_at in zip(keys.tolist(), places, *names, strict=True):
            now = place[0]
            told = {
                "detail": f"from {was} back to {now}, by {was - now}",
                "previous_offset": was,
                "previous_log_offset": was_at,
            }
            self._put(key, Found(REWIND, place, told))

    def _standstills(self, commits: RecordColumns, stays: Array, fewest: int) -> None:
        """Find each run of commits of one offset that is long enough and has ended.

        ``stays``: a row goes on with the run of the one before.
        """
        run = self.run
        chosen = commits.counting
        if fewest > 1:
            # What keys do that have no run of several commits is of no interest.
            run["open"][commits.key[stays]] = True
            chosen = chosen & run["open"].take(commits.key)
        held = self.keys.held(commits, np.flatnonzero(chosen))
        begins = ~stays[held.order]
        lone = held.first & ~begins & (run["count"][held.keys] == 0)
        before, keys = before_of(commits, held.order[lone]), held.keys[lone]
        first = before["log_offset"] == self.first["log_offset"][keys]
        note_lone(run, keys, before, first=first, gone=False)
        ended = held.keys[begins & held.first]
        first = run["first"][ended]
        self.first_run.put_rows(run, ended[first], ended[first])
        self._put_long(ended[~first], run)
        starts = np.flatnonzero(begins | held.first)
        lasts = np.append(starts[1:], len(begins))[: len(starts)] - 1
        keys, these = held.keys[starts], self._runs_of(commits, held, starts, lasts, begins)
        open_yet = held.last[lasts]
        first = np.flatnonzero(~open_yet & these["first"])
        for name, column in these.items():
            self.first_run[name][keys[first]] = column[first]
        long = (these["count"] >= fewest) & ~these["gone"]
        done = np.flatnonzero(~open_yet & ~these["first"] & long)
        self._put_runs(keys[done], some(these, done))
        now = keys[open_yet]
        for name, column in these.items():
            run[name][now] = column[open_yet]
        lone = now[run["count"][now] < min(fewest, 2)]
        run["count"][lone], run["open"][lone], run["first"][lone] = 0, False, False

    def _runs_of(
        self, commits: RecordColumns, held: ByKey, starts: Array, lasts: Array, begins: Array
    ) -> dict[str, Array]:
        """Return the runs, as ``runs`` has them, from and to these elements of ``held``."""
        run = self.run
        keys, rows = held.keys[starts], held.order[starts]
        goes_on = ~begins[starts]
        these = {
            "count": lasts - starts + 1 + np.where(goes_on, run["count"][keys], 0),
            "gone": np.where(goes_on, run["gone"][keys], commits.tombstone[rows]),
            "first": np.where(goes_on, run["first"][keys], commits.previous[rows] == NO_RECORD),
        }
        for name in START:
            first = getattr(commits, name)[rows]
            these[f"first_{name}"] = np.where(goes_on, run[f"first_{name}"][keys], first)
        return these | places_of(commits, held.order[lasts])

    def _put_runs(self, keys: Array, runs: dict[str, Array]) -> None:
        names = ("count", *(f"first_{name}" for name in START), *PLACE)
        columns = (runs[name].tolist() for name in names)
        for key, count, was, began_ms, first, *place in zip(keys.tolist(), *columns, strict=True):
            told = {
                "detail": f"{count} commits of offset {place[0]} in {place[1] - began_ms} ms",
                "count": count,
                "previous_offset": was,
                "previous_log_offset": first,
            }
            self._put(key, Found(NO_PROGRESS, tuple(place), told))

    def _large_metadata(self, commits: RecordColumns, limit: int) -> None:
        """Note the commits of each key that have more metadata, and the largest."""
        sizes = commits.metadata_size
        rows = np.flatnonzero(sizes > limit)
        rows = rows[commits.kind[rows] <= KIND["offset_tombstone"]]
        whole = ~is_before(commits.timestamp[rows], self.trusted_from_ms)
        keys = self.keys.of(commits, rows)
        for run in sorted_by(keys * 2 + whole, np.arange(len(rows))).runs():
            theirs = rows[run]
            key = bool(whole[run[0]]), int(keys[run[0]])
            largest = int(theirs[np.argmax(sizes[theirs])])
            (place,) = tuples_of(places_of(commits, np.array([largest])))
            first = int(commits.log_offset[theirs[0]])
            self._add_large(key, Large(len(theirs), first, int(sizes[largest]), place))

    def _add_large(self, key: tuple[bool, int], more: Large) -> None:
        one = self.large.setdefault(key, Large(0, more.first_log_offset))
        one.count += more.count
        if more.size > one.size:
            one.size, one.place = more.size, more.place


def said_of(large: Large) -> Found:
    """Return the finding that commits with much metadata are."""
    told = {
        "detail": f"{large.size} bytes of metadata in the largest of {large.count}",
        "count": large.count,
        "previous_log_offset": large.first_log_offset,
    }
    return Found(LARGE_METADATA, large.place, told)


def places_of(commits: RecordColumns, rows: Array) -> dict[str, Array]:
    """Return the fields of ``PLACE`` of some rows."""
    return {
        **{name: getattr(commits, name)[rows] for name in START},
        "file": np.full(len(rows), commits.file_number),
        "position": commits.batches["position"][commits.batch[rows]],
    }


def some(columns: Mapping[str, Array], keep: Array) -> dict[str, Array]:
    """Return some elements of each column; ``keep``: bool, or their numbers."""
    return {name: column[keep] for name, column in columns.items()}


def tuples_of(places: Mapping[str, Array]) -> Iterator[tuple[int, ...]]:
    """Yield these places, one by one."""
    yield from zip(*(places[name].tolist() for name in PLACE), strict=True)


def before_of(commits: RecordColumns, rows: Array) -> dict[str, Array]:
    """Return the fields of ``START`` of the commits that some rows replaced."""
    return {name: getattr(commits, f"previous_{name}")[rows] for name in START}


def note_lone(
    table: Table, keys: Array, place: Mapping[str, Array], *, first: Any, gone: Any
) -> None:
    """Note runs of one commit, which lies at ``place``."""
    noted = {"count": 1, "first": first, "gone": gone, **place}
    for name in START:
        noted[f"first_{name}"] = place[name]
    for name, column in noted.items():
        table[name][keys] = column
