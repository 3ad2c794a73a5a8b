"""What the commits of each partition of a topic show: found while the pieces of a log go by.

Of each key its last commit is kept, and the run of commits of one offset that it stands in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from coterie.insight.commits import KIND, Array, Commits, is_before
from coterie.insight.keys import Key, Table, sorted_by
from coterie.insight.steps import Steps, Walk

REWIND, NO_PROGRESS, LARGE_METADATA = "rewind", "no_progress", "large_metadata"
Row = dict[str, Any]
PLACE = ("offset", "timestamp", "log_offset", "file", "position")
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
    """Return a table of runs of commits of one offset, by key; ``first``: the key's first."""
    return Table(
        count=(np.int64, 0),
        gone=(np.bool_, True),
        first=(np.bool_, False),
        **{f"first_{name}": (np.int64, 0) for name in PLACE[:3]},
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

    rewind_by: int | None
    no_progress: int | None
    metadata_bytes: int | None
    trusted_from_ms: int | None
    walk: Walk = field(default_factory=Walk)
    found: dict[int, list[Found]] = field(default_factory=dict)
    large: dict[tuple[bool, int], Large] = field(default_factory=dict)
    run: Table = field(default_factory=runs)  # the open one of each key
    first_run: Table = field(default_factory=runs)  # of each key, once it has ended
    first: Table = field(default_factory=lambda: Table(gone=(np.bool_, True), **PLACES))
    files: list[str] = field(default_factory=list)

    def take(self, commits: Commits) -> None:
        """Look through the next piece."""
        steps = self.walk.take(commits)
        self.files = commits.files
        self._note_firsts(commits, steps)
        if self.rewind_by is not None:
            self._rewinds(commits, steps, self.rewind_by)
        if self.no_progress is not None:
            self._standstills(commits, steps, self.no_progress)
        if self.metadata_bytes is not None:
            self._large_metadata(commits, self.metadata_bytes)

    def absorb(self, later: Findings) -> None:
        """Go on with what follows; see ``tallies``. What a key begins with goes on here."""
        keys = self.walk.keys.absorb(later.walk.keys)
        for table in (self.walk.held, self.first, self.run):
            table.fit(len(self.walk.keys))
        self.files = max(self.files, later.files, key=len)
        seen = np.flatnonzero(later.walk.held["seen"])
        before = {name: self.walk.held[name][keys[seen]] for name in self.walk.held.columns}
        first = {name: later.first[name][seen] for name in later.first.columns}
        follows = before["seen"] & ~before["gone"] & ~first["gone"]
        if self.rewind_by is not None:
            back = follows & (first["offset"] - before["offset"] <= -self.rewind_by)
            places = zip(*(first[name][back].tolist() for name in PLACE), strict=True)
            self._put_rewinds(keys[seen[back]], places, {n: c[back] for n, c in before.items()})
        if self.no_progress is not None:
            early, was_early = (
                is_before(one["timestamp"], self.trusted_from_ms) for one in (first, before)
            )
            goes_on = follows & (first["offset"] == before["offset"]) & (early | ~was_early)
            self._join_runs(later, keys, seen, goes_on)
        for key, found in later.found.items():
            self.found.setdefault(int(keys[key]), []).extend(found)
        for (whole, key), large in later.large.items():
            self._add_large((whole, int(keys[key])), large)
        self.walk.absorb(later.walk)

    def _join_runs(self, later: Findings, keys: Array, seen: Array, goes_on: Array) -> None:
        """Join the open runs with the first ones that follow, where they go on."""
        assert self.no_progress is not None  # else nobody asks
        here = keys[seen]
        self._put_long(here[~goes_on], self.run)
        ended = np.zeros(len(seen), dtype=np.bool_)
        told = seen < later.first_run.count
        ended[told] = later.first_run["count"][seen[told]] > 0
        joined = runs()
        joined.fit(len(self.walk.keys))
        for which, table in ((ended, later.first_run), (~ended, later.run)):
            joined.put_rows(table, seen[which], here[which])
        on = here[goes_on]
        joined["count"][on] += self.run["count"][on]
        for name in ("gone", *(f"first_{name}" for name in PLACE[:3])):
            joined[name][on] = self.run[name][on]
        self._put_long(here[ended], joined)
        self.run.put_rows(joined, here[~ended], here[~ended])
        self.run.put_rows(later.run, seen[ended], here[ended])

    def _put_long(self, keys: Array, table: Table) -> None:
        """Tell of the runs of these keys that are long enough."""
        assert self.no_progress is not None  # else nobody asks
        long = keys[(table["count"][keys] >= self.no_progress) & ~table["gone"][keys]]
        self._put_runs(long, {name: table[name][long] for name in table.columns})

    def _note_firsts(self, commits: Commits, steps: Steps) -> None:
        """Note the first commit of each key, which those of an earlier part lie before."""
        self.first.fit(len(self.walk.keys))
        new = np.flatnonzero(steps.unseen)
        for name in PLACE:
            self.first[name][steps.keys[new]] = getattr(commits, name)[steps.order[new]]
        self.first["gone"][steps.keys[new]] = steps.gone[new]

    def rows(self) -> Iterator[Row]:
        """Yield what was found, once all pieces are through."""
        if self.no_progress is not None:
            for table in (self.first_run, self.run):
                self._put_long(np.arange(table.count), table)
        for (_, number), large in self.large.items():
            self._put(number, said_of(large))
        for at, key in self.walk.keys.items():
            for one in self.found.get(at, ()):
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

    def _rewinds(self, commits: Commits, steps: Steps, rewind_by: int) -> None:
        """Find each commit that goes back."""
        at = np.flatnonzero(~steps.fresh & (steps.change <= -rewind_by))
        before = {name: column[at] for name, column in steps.before.items()}
        self._put_rewinds(steps.keys[at], places_of(commits, steps.order[at]), before)

    def _put_rewinds(
        self, keys: Array, places: Iterable[tuple[int, ...]], before: dict[str, Array]
    ) -> None:
        names = (before[name].tolist() for name in ("offset", "log_offset"))
        for key, place, was, was_at in zip(keys.tolist(), places, *names, strict=True):
            now = place[0]
            told = {
                "detail": f"from {was} back to {now}, by {was - now}",
                "previous_offset": was,
                "previous_log_offset": was_at,
            }
            self._put(key, Found(REWIND, place, told))

    def _standstills(self, commits: Commits, steps: Steps, fewest: int) -> None:
        """Find each run of commits of one offset that is long enough and has ended."""
        run = self.run
        for table in (run, self.first_run):
            table.fit(len(self.walk.keys))
        early = is_before(commits.timestamp[steps.order], self.trusted_from_ms)
        was_early = is_before(steps.before["timestamp"], self.trusted_from_ms)
        # A run is counted from where all of it is there.
        begins = steps.fresh | (steps.change != 0) | (~early & was_early)
        ended = steps.keys[begins & steps.first]
        first = run["first"][ended]
        self.first_run.put_rows(run, ended[first], ended[first])
        self._put_long(ended[~first], run)
        starts = np.flatnonzero(begins | steps.first)
        lasts = np.append(starts[1:], len(begins))[: len(starts)] - 1
        keys, rows = steps.keys[starts], steps.order[starts]
        goes_on = ~begins[starts]
        these = {
            "count": lasts - starts + 1 + np.where(goes_on, run["count"][keys], 0),
            "gone": np.where(goes_on, run["gone"][keys], steps.gone[starts]),
            "first": np.where(goes_on, run["first"][keys], steps.unseen[starts]),
        }
        for name in PLACE[:3]:
            first = getattr(commits, name)[rows]
            these[f"first_{name}"] = np.where(goes_on, run[f"first_{name}"][keys], first)
        for name in PLACE:
            these[name] = getattr(commits, name)[steps.order[lasts]]
        open_yet = steps.last[lasts]
        first = np.flatnonzero(~open_yet & these["first"])
        for name, column in these.items():
            self.first_run[name][keys[first]] = column[first]
        long = (these["count"] >= fewest) & ~these["gone"]
        done = np.flatnonzero(~open_yet & ~these["first"] & long)
        self._put_runs(keys[done], {name: column[done] for name, column in these.items()})
        for name, column in these.items():
            run[name][keys[open_yet]] = column[open_yet]

    def _put_runs(self, keys: Array, runs: dict[str, Array]) -> None:
        names = ("count", *(f"first_{name}" for name in PLACE[:3]), *PLACE)
        columns = (runs[name].tolist() for name in names)
        for key, count, was, began_ms, first, *place in zip(keys.tolist(), *columns, strict=True):
            told = {
                "detail": f"{count} commits of offset {place[0]} in {place[1] - began_ms} ms",
                "count": count,
                "previous_offset": was,
                "previous_log_offset": first,
            }
            self._put(key, Found(NO_PROGRESS, tuple(place), told))

    def _large_metadata(self, commits: Commits, limit: int) -> None:
        """Note the commits of each key that have more metadata, and the largest."""
        sizes = commits.metadata_size
        is_commit = commits.kind <= KIND["offset_tombstone"]
        rows = np.flatnonzero(is_commit & (sizes > limit))
        whole = ~is_before(commits.timestamp[rows], self.trusted_from_ms)
        keys = self.walk.keys.of(commits, rows)
        for run in sorted_by(keys * 2 + whole, np.arange(len(rows))).runs():
            theirs = rows[run]
            key = bool(whole[run[0]]), int(keys[run[0]])
            largest = int(theirs[np.argmax(sizes[theirs])])
            (place,) = places_of(commits, np.array([largest]))
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


def places_of(commits: Commits, rows: Array) -> Iterator[tuple[int, ...]]:
    """Yield the fields of ``PLACE`` of these commits."""
    columns = (getattr(commits, name)[rows].tolist() for name in PLACE)
    yield from zip(*columns, strict=True)
