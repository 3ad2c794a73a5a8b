"""Find rewinds, runs without progress and large metadata in the commits of each partition.

State for each key: the run of commits of one offset that its last commit belongs to, if the run has
more than one. What happens to a key again and again is one finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from coterie.insight.groups.causes import counted
from coterie.insight.offsets.occurrences import KeyOccurrences, Occurrences
from coterie.insight.offsets.outside_spans import TakenBack
from coterie.insight.records.key_index import Key, Keys, RowsByKey, Table, rows_by_key
from coterie.insight.records.record_columns import (
    COMMIT,
    KIND,
    NO_RECORD,
    Array,
    RecordColumns,
    is_before,
)
from coterie.insight.tables import duration

REWIND, NO_PROGRESS, LARGE_METADATA = "rewind", "no_progress", "large_metadata"
Row = dict[str, Any]
PLACE = ("offset", "timestamp", "log_offset", "file", "position")
START = PLACE[:3]  # fields of a run's first commit
PLACES = dict.fromkeys(PLACE, (np.int64, 0))
LOOP = 3  # rewinds of a key, or requests of a group, that are one finding
AGAIN = "again"  # the loop of what happens to a group again and again


@dataclass
class LargeMetadata:
    """The commits of one key that have much metadata, and the largest of them."""

    count: int
    first_log_offset: int
    first_ms: int
    last_ms: int
    size: int = 0
    place: tuple[int, ...] = ()


def offset_runs() -> Table:
    """Return a table of runs of commits of one offset, by key.

    A run of one commit is not stored (``count`` is 0) until a second one extends it. ``open``: a
    run is stored and may be extended.
    """
    return Table(
        count=(np.int64, 0),
        open=(np.bool_, False),
        gone=(np.bool_, True),
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
    taken_back : TakenBack
        Finds the commits that go back and are no rewinds.
    """

    COLUMNS: ClassVar = frozenset({"metadata_size", *(f"previous_{name}" for name in START)})

    rewind_by: int | None
    no_progress: int | None
    metadata_bytes: int | None
    trusted_from_ms: int | None
    taken_back: TakenBack
    keys: Keys = field(default_factory=Keys)
    rewinds: Occurrences = field(default_factory=Occurrences)
    standstills: Occurrences = field(default_factory=Occurrences)
    large: dict[tuple[bool, int], LargeMetadata] = field(default_factory=dict)
    run: Table = field(default_factory=offset_runs)  # the open run of each key
    files: list[str] = field(default_factory=list)

    def take(self, commits: RecordColumns) -> None:
        self.keys.scan = commits.scan
        self.files = commits.files
        if not len(self.keys):
            return
        for table in (self.run, self.rewinds, self.standstills):
            table.fit(len(self.keys))
        follows = (commits.previous == COMMIT) & ~commits.tombstone
        change = commits.offset - commits.previous_offset
        if self.rewind_by is not None:
            taken_back = self.taken_back.take(commits, len(self.keys))
            back = np.flatnonzero(follows & (change <= -self.rewind_by) & ~taken_back)
            self._put_rewinds(commits.key[back], places_of(commits, back), before_of(commits, back))
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

    def _long(self, keys: Array) -> Array:
        """Return those of these keys whose open run is long enough for a finding."""
        table = self.run
        assert self.no_progress is not None  # otherwise runs are not tracked
        long: Array = keys[(table["count"][keys] >= self.no_progress) & ~table["gone"][keys]]
        return long

    def _all_standstills(self) -> Occurrences:
        """Return the ended runs, and the open ones beside them: these may go on."""
        long = self._long(np.arange(self.run.count))
        if not len(long):
            return self.standstills
        standstills = deepcopy(self.standstills)
        put_runs(standstills, long, select(self.run.columns, long))
        return standstills

    def rows(self) -> Iterator[Row]:
        """Yield the findings of each key so far.

        ``loop`` in a row names those of a group that are one finding.
        """
        findings: dict[int, list[Row]] = {}
        for rewinds in self.rewinds:
            findings.setdefault(rewinds.key, []).extend(rewind_rows(rewinds))
        for runs in () if self.no_progress is None else self._all_standstills():
            findings.setdefault(runs.key, []).append(no_progress_row(runs))
        for (_, number), large in self.large.items():
            findings.setdefault(number, []).append(large_metadata_row(large))
        for number, key in self.keys.items(findings):
            for row in findings[number]:
                yield self._row(key, row)

    def _row(self, key: Key, row: Row) -> Row:
        times = {
            name: None if row[name] < 0 else row[name] for name in ("timestamp", "first", "last")
        }
        names = dict(zip(("group_id", "topic", "partition"), key, strict=True))
        return {**row, **names, **times, "file": self.files[row["file"]]}

    def _put_rewinds(
        self, keys: Array, places: Mapping[str, Array], before: Mapping[str, Array]
    ) -> None:
        """Add commits that go back; ``before``: the commits before them."""
        occurrences = {
            **{name: places[name] for name in PLACE},
            "previous_offset": before["offset"],
            "previous_log_offset": before["log_offset"],
            "began_ms": places["timestamp"],
            "count": np.ones(len(keys), np.int64),
        }
        self.rewinds.put(keys, occurrences)

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
        store_single(run, keys, before)
        long = self._long(grouped.keys[begins & grouped.first])
        put_runs(self.standstills, long, select(run.columns, long))
        starts = np.flatnonzero(begins | grouped.first)
        lasts = np.append(starts[1:], len(begins))[: len(starts)] - 1
        keys = grouped.keys[starts]
        piece_runs = self._runs_of(commits, grouped, starts, lasts, begins)
        still_open = grouped.last[lasts]
        long = (piece_runs["count"] >= min_count) & ~piece_runs["gone"]
        ended_long = np.flatnonzero(~still_open & long)
        put_runs(self.standstills, keys[ended_long], select(piece_runs, ended_long))
        open_keys = keys[still_open]
        for name, column in piece_runs.items():
            run[name][open_keys] = column[still_open]
        single = open_keys[run["count"][open_keys] < min(min_count, 2)]
        run["count"][single], run["open"][single] = 0, False

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
        }
        for name in START:
            first = getattr(commits, name)[rows]
            piece_runs[f"first_{name}"] = np.where(continues, run[f"first_{name}"][keys], first)
        return piece_runs | places_of(commits, grouped.order[lasts])

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
            first_ms, last_ms = (int(commits.timestamp[of_key[at]]) for at in (0, -1))
            size = int(sizes[largest])
            self._add_large(key, LargeMetadata(len(of_key), first, first_ms, last_ms, size, place))

    def _add_large(self, key: tuple[bool, int], more: LargeMetadata) -> None:
        known = self.large.setdefault(
            key, LargeMetadata(0, more.first_log_offset, more.first_ms, more.last_ms)
        )
        known.count += more.count
        known.last_ms = more.last_ms
        if more.size > known.size:
            known.size, known.place = more.size, more.place


def put_runs(standstills: Occurrences, keys: Array, runs: Mapping[str, Array]) -> None:
    """Add runs of commits of one offset."""
    occurrences = {
        **{name: runs[name] for name in (*PLACE, "count")},
        "previous_offset": runs["first_offset"],
        "previous_log_offset": runs["first_log_offset"],
        "began_ms": runs["first_timestamp"],
    }
    standstills.put(keys, occurrences)


def rewind_rows(rewinds: KeyOccurrences) -> Iterator[Row]:
    """Yield a row for each rewind of a key, or one for all of them if there are many."""
    if rewinds.times < LOOP:
        for rewind in (rewinds.first, rewinds.last)[: rewinds.times]:
            old, new = rewind["previous_offset"], rewind["offset"]
            yield {
                **row_of(REWIND, rewind, rewind),
                "detail": f"from {old} back to {new}, by {old - new}",
                "lowest_offset": new,
                "highest_offset": old,
                "moved": old - new,
                # The offsets that one request sets back are one finding.
                "loop": (rewind["file"], rewind["position"]),
            }
    else:
        row = row_of(REWIND, rewinds.first, rewinds.last)
        row |= {
            **{"count": rewinds.times, "moved": rewinds.moved, "loop": AGAIN},
            **{"lowest_offset": rewinds.lowest, "highest_offset": rewinds.highest},
        }
        yield row | {"detail": again_and_again(row)}


def again_and_again(row: Row) -> str:
    return (
        f"set back {row['count']} times{in_seconds(row['first'], row['last'])}, between "
        f"{row['lowest_offset']} and {row['highest_offset']}, "
        f"by {counted(row['moved'], 'offset')} together"
    )


def in_seconds(first_ms: int | None, last_ms: int | None) -> str:
    """Return the time between two records as text; empty if a record has none."""
    if first_ms is None or last_ms is None or min(first_ms, last_ms) < 0:
        return ""
    return f" in {duration(last_ms - first_ms)}"


def no_progress_row(runs: KeyOccurrences) -> Row:
    """Return the row for all runs of one offset of a key."""
    first, last = runs.first, runs.last
    detail = f"{runs.commits} commits of offset {last['offset']}"
    if runs.times > 1:
        in_a_row = f"{runs.fewest} to {runs.most}" if runs.fewest < runs.most else f"{runs.most}"
        detail = f"{runs.times} times {in_a_row} commits of one offset in a row"
    detail += in_seconds(first["began_ms"], last["timestamp"])
    return {
        **row_of(NO_PROGRESS, first, last),
        **{"count": runs.commits, "detail": detail, "fewest": runs.fewest, "most": runs.most},
        **{"lowest_offset": runs.lowest, "highest_offset": runs.highest, "loop": AGAIN},
    }


def row_of(kind: str, first: Row, last: Row) -> Row:
    """Return the fields of a finding from its first and last occurrence."""
    names = (*PLACE, "previous_offset")
    return {
        "kind": kind,
        **{name: last[name] for name in names},
        **{"first": first["began_ms"], "last": last["timestamp"]},
        "previous_log_offset": first["previous_log_offset"],
        "count": last["count"],
    }


def large_metadata_row(large: LargeMetadata) -> Row:
    """Return the row for a key's commits with much metadata."""
    place = dict(zip(PLACE, large.place, strict=True))
    return {
        "kind": LARGE_METADATA,
        **place,
        **{"first": large.first_ms, "last": large.last_ms},
        "detail": f"{large.size} bytes of metadata in the largest of {large.count}",
        "count": large.count,
        "previous_log_offset": large.first_log_offset,
        **{"size": large.size, "loop": AGAIN},
    }


def store_firsts(first: Table, commits: RecordColumns) -> None:
    """Store the first commit of each key."""
    rows = np.flatnonzero((commits.previous == NO_RECORD) & commits.effective)
    keys = commits.key[rows]
    for name, column in places_of(commits, rows).items():
        first[name][keys] = column
    first["gone"][keys] = commits.tombstone[rows]


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
    yield from zip(*(places[name].tolist() for name in PLACE), strict=True)


def before_of(commits: RecordColumns, rows: Array) -> dict[str, Array]:
    """Return the fields of ``START`` of the commits before some rows."""
    return {name: getattr(commits, f"previous_{name}")[rows] for name in START}


def store_single(table: Table, keys: Array, place: Mapping[str, Array]) -> None:
    """Store runs that have only one commit, at ``place``."""
    columns: dict[str, Any] = {"count": 1, "gone": False, **place}
    for name in START:
        columns[f"first_{name}"] = place[name]
    for name, values in columns.items():
        table[name][keys] = values
