"""Find rewinds, runs without progress and large metadata in the commits of each partition.

State for each key: its first commit, and the run of commits of one offset that its last commit
belongs to, if the run has more than one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from coterie.insight.records.commit_deltas import absorb_keys
from coterie.insight.records.key_index import Key, Keys, RowsByKey, Table, rows_by_key
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
START = PLACE[:3]  # fields of a run's first commit
PLACES = dict.fromkeys(PLACE, (np.int64, 0))


class Finding(NamedTuple):
    """A finding: its kind, ``PLACE`` of the commit that shows it, and further fields."""

    kind: str
    place: tuple[int, ...]
    fields: Row


@dataclass
class LargeMetadata:
    """The commits of one key that have much metadata, and the largest of them."""

    count: int
    first_log_offset: int
    size: int = 0
    place: tuple[int, ...] = ()


def offset_runs() -> Table:
    """Return a table of runs of commits of one offset, by key.

    A run of one commit is not stored (``count`` is 0) until a second one extends it. ``open``: a
    run is stored and may be extended; ``first``: it is the key's first run.
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
class CommitFindings:
    """Finds what is wrong in the commits of a partition, piece by piece.

    Attributes
    ----------
    rewind_by, no_progress, metadata_bytes : int or None
        As in ``audit.Parameters``; None: this kind is not looked for.
    trusted_from_ms : int or None
        From when on the log is complete; None: from the start.
    """

    COLUMNS: ClassVar = frozenset({"metadata_size", *(f"previous_{name}" for name in START)})

    rewind_by: int | None
    no_progress: int | None
    metadata_bytes: int | None
    trusted_from_ms: int | None
    keys: Keys = field(default_factory=Keys)
    findings_by_key: dict[int, list[Finding]] = field(default_factory=dict)
    large: dict[tuple[bool, int], LargeMetadata] = field(default_factory=dict)
    run: Table = field(default_factory=offset_runs)  # the open run of each key
    first_run: Table = field(default_factory=offset_runs)  # of each key, once it has ended
    first: Table = field(default_factory=lambda: Table(gone=(np.bool_, True), **PLACES))
    files: list[str] = field(default_factory=list)

    def take(self, commits: RecordColumns) -> None:
        """Take the next piece."""
        self.keys.scan = commits.scan
        self.files = commits.files
        if not len(self.keys):
            return
        self._fit()
        self._store_firsts(commits)
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
            # A run starts at the earliest where the log is complete.
            stays = follows & (change == 0) & (early | ~was_early)
            self._standstills(commits, stays, self.no_progress)
        if self.metadata_bytes is not None:
            self._large_metadata(commits, self.metadata_bytes)

    def _fit(self) -> None:
        for table in (self.first, self.run, self.first_run):
            table.fit(len(self.keys))

    def absorb(self, later: CommitFindings) -> None:
        """Absorb the next part; see ``aggregates``. Its first runs may extend open runs here."""
        last = later.keys.entries
        keys, entries = absorb_keys(self.keys, later.keys)
        self._fit()
        self.files = max(self.files, later.files, key=len)
        occurring = np.flatnonzero(last["before"] != NO_RECORD)
        before = {name: entries[name][occurring] for name in START}
        first = select(later.first.columns, occurring)
        follows = (entries["before"][occurring] == COMMIT) & ~first["gone"]
        if self.rewind_by is not None:
            back = follows & (first["offset"] - before["offset"] <= -self.rewind_by)
            places = tuples_of(select(first, back))
            self._put_rewinds(keys[occurring[back]], places, select(before, back))
        if self.no_progress is not None:
            early, was_early = (
                is_before(columns["timestamp"], self.trusted_from_ms) for columns in (first, before)
            )
            continues = follows & (first["offset"] == before["offset"]) & (early | ~was_early)
            later._store_single_firsts(occurring, last)
            single = continues & (self.run["count"][keys[occurring]] == 0)
            store_single(
                self.run, keys[occurring[single]], select(before, single), first=False, gone=False
            )
            self._join_runs(later, keys, occurring, continues)
        for key, findings in later.findings_by_key.items():
            self.findings_by_key.setdefault(int(keys[key]), []).extend(findings)
        for (complete, key), large in later.large.items():
            self._add_large((complete, int(keys[key])), large)

    def _store_single_firsts(self, occurring: Array, last: Array) -> None:
        """Store first runs that have only one commit; ``last``: ``Keys.entries``."""
        single = occurring[
            (self.first_run["count"][occurring] == 0) & ~self.run["first"][occurring]
        ]
        is_open = last["log_offset"][single] == self.first["log_offset"][single]
        for table, keys in ((self.run, single[is_open]), (self.first_run, single[~is_open])):
            place = {name: self.first[name][keys] for name in PLACE}
            store_single(table, keys, place, first=True, gone=self.first["gone"][keys])

    def _join_runs(
        self, later: CommitFindings, keys: Array, occurring: Array, continues: Array
    ) -> None:
        """Join the open runs here with the next part's first runs that extend them."""
        own_keys = keys[occurring]
        self._put_long(own_keys[~continues], self.run)
        ended = later.first_run["count"][occurring] > 0
        joined = offset_runs()
        joined.fit(len(self.keys))
        for chosen, table in ((ended, later.first_run), (~ended, later.run)):
            joined.put_rows(table, occurring[chosen], own_keys[chosen])
        continued = own_keys[continues]
        joined["count"][continued] += self.run["count"][continued]
        for name in ("gone", *(f"first_{name}" for name in START)):
            joined[name][continued] = self.run[name][continued]
        self._put_long(own_keys[ended], joined)
        self.run.put_rows(joined, own_keys[~ended], own_keys[~ended])
        self.run.put_rows(later.run, occurring[ended], own_keys[ended])

    def _put_long(self, keys: Array, table: Table) -> None:
        """Add findings for the runs of these keys that are long enough."""
        assert self.no_progress is not None  # otherwise runs are not tracked
        long = keys[(table["count"][keys] >= self.no_progress) & ~table["gone"][keys]]
        self._put_runs(long, select(table.columns, long))

    def _store_firsts(self, commits: RecordColumns) -> None:
        """Store the first commit of each key, to compare with the commits of an earlier part."""
        rows = np.flatnonzero((commits.previous == NO_RECORD) & commits.effective)
        keys = commits.key[rows]
        for name, column in places_of(commits, rows).items():
            self.first[name][keys] = column
        self.first["gone"][keys] = commits.tombstone[rows]

    def rows(self) -> Iterator[Row]:
        """Yield the findings; call it after the last piece."""
        if self.no_progress is not None:
            for table in (self.first_run, self.run):
                self._put_long(np.arange(table.count), table)
        for (_, number), large in self.large.items():
            self._put(number, large_metadata_finding(large))
        for number, key in self.keys.items(self.findings_by_key):
            for finding in self.findings_by_key[number]:
                yield self._row(key, finding)

    def _put(self, key: int, finding: Finding) -> None:
        self.findings_by_key.setdefault(key, []).append(finding)

    def _row(self, key: Key, finding: Finding) -> Row:
        offset, time, log_offset, file, position = finding.place
        return {
            **dict(zip(("group_id", "topic", "partition"), key, strict=True)),
            "offset": offset,
            "timestamp": None if time < 0 else time,
            "log_offset": log_offset,
            "file": self.files[file],
            "position": position,
            "kind": finding.kind,
            **finding.fields,
        }

    def _put_rewinds(
        self, keys: Array, places: Iterable[tuple[int, ...]], before: Mapping[str, Array]
    ) -> None:
        """Add findings for commits that go back; ``before``: the commits before them."""
        names = (before[name].tolist() for name in ("offset", "log_offset"))
        for key, place, old, old_log_offset in zip(keys.tolist(), places, *names, strict=True):
            new = place[0]
            fields = {
                "detail": f"from {old} back to {new}, by {old - new}",
                "previous_offset": old,
                "previous_log_offset": old_log_offset,
            }
            self._put(key, Finding(REWIND, place, fields))

    def _standstills(self, commits: RecordColumns, stays: Array, min_count: int) -> None:
        """Find the ended runs of commits of one offset that are long enough.

        ``stays``: whether a row extends the run of its key's row before.
        """
        run = self.run
        chosen = commits.effective
        if min_count > 1:
            # Keys without a run of several commits need no further work.
            run["open"][commits.key[stays]] = True
            chosen = chosen & run["open"].take(commits.key)
        grouped = self.keys.grouped(commits, np.flatnonzero(chosen))
        begins = ~stays[grouped.order]
        single = grouped.first & ~begins & (run["count"][grouped.keys] == 0)
        before, keys = before_of(commits, grouped.order[single]), grouped.keys[single]
        first = before["log_offset"] == self.first["log_offset"][keys]
        store_single(run, keys, before, first=first, gone=False)
        ended = grouped.keys[begins & grouped.first]
        first = run["first"][ended]
        self.first_run.put_rows(run, ended[first], ended[first])
        self._put_long(ended[~first], run)
        starts = np.flatnonzero(begins | grouped.first)
        lasts = np.append(starts[1:], len(begins))[: len(starts)] - 1
        keys = grouped.keys[starts]
        piece_runs = self._runs_of(commits, grouped, starts, lasts, begins)
        still_open = grouped.last[lasts]
        first = np.flatnonzero(~still_open & piece_runs["first"])
        for name, column in piece_runs.items():
            self.first_run[name][keys[first]] = column[first]
        long = (piece_runs["count"] >= min_count) & ~piece_runs["gone"]
        ended_long = np.flatnonzero(~still_open & ~piece_runs["first"] & long)
        self._put_runs(keys[ended_long], select(piece_runs, ended_long))
        open_keys = keys[still_open]
        for name, column in piece_runs.items():
            run[name][open_keys] = column[still_open]
        single = open_keys[run["count"][open_keys] < min(min_count, 2)]
        run["count"][single], run["open"][single], run["first"][single] = 0, False, False

    def _runs_of(
        self, commits: RecordColumns, grouped: RowsByKey, starts: Array, lasts: Array, begins: Array
    ) -> dict[str, Array]:
        """Return the runs (as in ``offset_runs``) between these elements of ``grouped``."""
        run = self.run
        keys, rows = grouped.keys[starts], grouped.order[starts]
        continues = ~begins[starts]
        piece_runs = {
            "count": lasts - starts + 1 + np.where(continues, run["count"][keys], 0),
            "gone": np.where(continues, run["gone"][keys], commits.tombstone[rows]),
            "first": np.where(continues, run["first"][keys], commits.previous[rows] == NO_RECORD),
        }
        for name in START:
            first = getattr(commits, name)[rows]
            piece_runs[f"first_{name}"] = np.where(continues, run[f"first_{name}"][keys], first)
        return piece_runs | places_of(commits, grouped.order[lasts])

    def _put_runs(self, keys: Array, runs: dict[str, Array]) -> None:
        names = ("count", *(f"first_{name}" for name in START), *PLACE)
        columns = (runs[name].tolist() for name in names)
        for key, count, old, began_ms, first_log_offset, *place in zip(
            keys.tolist(), *columns, strict=True
        ):
            fields = {
                "detail": f"{count} commits of offset {place[0]} in {place[1] - began_ms} ms",
                "count": count,
                "previous_offset": old,
                "previous_log_offset": first_log_offset,
            }
            self._put(key, Finding(NO_PROGRESS, tuple(place), fields))

    def _large_metadata(self, commits: RecordColumns, limit: int) -> None:
        """Count the commits of each key with metadata above the limit, and keep the largest."""
        sizes = commits.metadata_size
        rows = np.flatnonzero(sizes > limit)
        rows = rows[commits.kind[rows] <= KIND["offset_tombstone"]]
        complete = ~is_before(commits.timestamp[rows], self.trusted_from_ms)
        keys = self.keys.of(commits, rows)
        for run in rows_by_key(keys * 2 + complete, np.arange(len(rows))).runs():
            of_key = rows[run]
            key = bool(complete[run[0]]), int(keys[run[0]])
            largest = int(of_key[np.argmax(sizes[of_key])])
            (place,) = tuples_of(places_of(commits, np.array([largest])))
            first = int(commits.log_offset[of_key[0]])
            self._add_large(key, LargeMetadata(len(of_key), first, int(sizes[largest]), place))

    def _add_large(self, key: tuple[bool, int], more: LargeMetadata) -> None:
        known = self.large.setdefault(key, LargeMetadata(0, more.first_log_offset))
        known.count += more.count
        if more.size > known.size:
            known.size, known.place = more.size, more.place


def large_metadata_finding(large: LargeMetadata) -> Finding:
    """Return the finding for a key's commits with much metadata."""
    fields = {
        "detail": f"{large.size} bytes of metadata in the largest of {large.count}",
        "count": large.count,
        "previous_log_offset": large.first_log_offset,
    }
    return Finding(LARGE_METADATA, large.place, fields)


def places_of(commits: RecordColumns, rows: Array) -> dict[str, Array]:
    """Return the fields of ``PLACE`` for some rows."""
    return {
        **{name: getattr(commits, name)[rows] for name in START},
        "file": np.full(len(rows), commits.file_number),
        "position": commits.batches["position"][commits.batch[rows]],
    }


def select(columns: Mapping[str, Array], keep: Array) -> dict[str, Array]:
    """Return some elements of each column; ``keep``: a bool mask or indices."""
    return {name: column[keep] for name, column in columns.items()}


def tuples_of(places: Mapping[str, Array]) -> Iterator[tuple[int, ...]]:
    """Yield the places one by one, as tuples."""
    yield from zip(*(places[name].tolist() for name in PLACE), strict=True)


def before_of(commits: RecordColumns, rows: Array) -> dict[str, Array]:
    """Return the fields of ``START`` of the commits before some rows."""
    return {name: getattr(commits, f"previous_{name}")[rows] for name in START}


def store_single(
    table: Table, keys: Array, place: Mapping[str, Array], *, first: Any, gone: Any
) -> None:
    """Store runs that have only one commit, at ``place``."""
    columns = {"count": 1, "first": first, "gone": gone, **place}
    for name in START:
        columns[f"first_{name}"] = place[name]
    for name, values in columns.items():
        table[name][keys] = values
