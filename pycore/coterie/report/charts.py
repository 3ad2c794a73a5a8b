"""Chart commits and offsets over time, from a log that is read piece by piece.

The log is read twice. :class:`Census` counts, and finds the extent of each group's commits, which
gives the spans. :class:`Charts` then fills a cell for each point that is drawn. If the cells of all
groups exceed ``CELLS_AT_ONCE``, the log is read once more for each batch of groups. So memory grows
with keys, never with commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.insight.records.key_index import LOW, Keys, Table
from coterie.insight.records.record_columns import Array, RecordColumns, is_early
from coterie.insight.records.runs import NEVER, Runs, first_in_batch, runs_of, times_of
from coterie.log.clock import Begin
from coterie.report.sections import EXACT, exact
from coterie.report.spans import POINTS, SpanCounts

CELLS_AT_ONCE = 44 << 20  # of 16 bytes each
Line = tuple[int, str, int, int]  # number of the key, topic, partition, commits with a time


def time_of(commits: RecordColumns) -> Array:
    """Return each commit's time, ms: the record's timestamp, or else the time in its value."""
    known = commits.timestamp >= 0
    return commits.timestamp if known.all() else np.where(known, *times_in(commits))


def times_in(commits: RecordColumns) -> tuple[Array, Array]:
    """Return the times of records and those in their values, ms."""
    return commits.timestamp, commits.commit_timestamp


def timed_rows(runs: Runs, times: Array) -> tuple[Array, Array]:
    """Return the rows of runs that have a time, and these times."""
    rows = runs.rows()
    row_times = times[rows]
    known = row_times >= 0
    return (rows, row_times) if known.all() else (rows[known], row_times[known])


class Census:
    """Counts and extents of a partition's commits, which charts require.

    Parameters
    ----------
    begins_ms, begin
        Only requests since this time, or place in the log, count; None: all.

    Attributes
    ----------
    records : int
        Number of records of all kinds.
    from_ms, until_ms : int
        Extent of the records with a time; without any, ``from_ms`` is the later one.
    commits : SpanCounts
        Commits of all groups over time.
    """

    COLUMNS = frozenset({"commit_timestamp"})

    def __init__(self, begins_ms: int | None, begin: Begin | None = None) -> None:
        self.begins_ms = begins_ms
        self.begin = begin
        self.records = 0
        self.from_ms, self.until_ms = int(NEVER), -1
        self.commits = SpanCounts()
        self.names: list[str] = []
        self.groups = Table(
            first_ms=(np.int64, NEVER), last_ms=(np.int64, -1), requests=(np.int64, 0)
        )
        self.keys = Keys()
        self.points = Table(count=(np.int64, 0))

    def take(self, records: RecordColumns) -> None:
        self.records += len(records)
        self.names = records.groups
        self.groups.fit(len(self.names))
        self.keys.scan = records.scan
        self.points.fit(len(self.keys))
        early = is_early(records, self.begins_ms, self.begin)
        runs = runs_of(records, early)
        if not len(runs):
            return
        least, greatest = times_of(runs.first, records.timestamp)
        self.from_ms = min(self.from_ms, int(least.min()))
        self.until_ms = max(self.until_ms, int(greatest.max()))
        counting = runs.effective_commits()
        trusted = runs.select(counting & ~early[runs.first])
        first = first_in_batch(trusted.batch, trusted.group)
        self.groups.add("requests", trusted.group[first])
        times = time_of(records)
        least, greatest = times_of(runs.first, times)
        group = runs.group[counting]
        np.minimum.at(self.groups["first_ms"], group, least[counting])
        np.maximum.at(self.groups["last_ms"], group, greatest[counting])
        rows, times = timed_rows(runs.select(counting), times)
        self.commits.add(times)
        self.points.add("count", records.key[rows])

    def numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    def lines(self) -> dict[str, list[Line]]:
        """Return the lines of each group, in the order of their keys' first records."""
        self.points.fit(len(self.keys))
        counts = self.points["count"].tolist()
        lines: dict[str, list[Line]] = {}
        for at, (group, topic, partition) in self.keys.items():
            if counts[at]:
                lines.setdefault(group, []).append((at, topic, partition, counts[at]))
        return lines


@dataclass(frozen=True)
class ChartPlan:
    """The plan of a group's charts: the extent of its commits (ms), the span, and the lines.

    ``number`` is the group's in its census. Without commits, ``first_ms`` is after ``last_ms``.
    """

    number: int
    first_ms: int
    last_ms: int
    span_ms: int
    lines: Sequence[Line]

    @property
    def spans(self) -> int:
        """The number of spans from the first commit to the last."""
        return max(self.last_ms // self.span_ms - self.first_ms // self.span_ms + 1, 0)

    def cells_of(self, line: Line) -> int:
        return self.spans if is_sampled(line) else line[-1]

    @property
    def cells(self) -> int:
        return self.spans + sum(map(self.cells_of, self.lines))


def is_sampled(line: Line) -> bool:
    """Return whether a line has too many commits to show each."""
    return line[-1] > POINTS


def batches_of(plans: Mapping[str, ChartPlan]) -> Iterator[dict[str, ChartPlan]]:
    """Yield the groups in order, in batches that fit ``CELLS_AT_ONCE``."""
    batch: dict[str, ChartPlan] = {}
    cells = 0
    for group, plan in plans.items():
        if batch and cells + plan.cells > CELLS_AT_ONCE:
            yield batch
            batch, cells = {}, 0
        batch[group] = plan
        cells += plan.cells
    if batch:
        yield batch


class Charts:
    """The commit rates and offsets of a batch of groups, filled from the pieces of a log.

    A line of few commits has a cell for each commit, in log order. A sampled line and a rate have a
    cell for each span.

    Parameters
    ----------
    census
        The census of the whole log.
    plans
        The plan of each group of the batch.
    """

    COLUMNS = frozenset({"commit_timestamp"})

    def __init__(self, census: Census, plans: Mapping[str, ChartPlan]) -> None:
        self.plans = plans
        self.of_groups = Table(
            **dict.fromkeys(("span_ms", "first", "cell", "sampled"), (np.int64, 0)),
            drawn=(np.bool_, False),
        )
        self.of_groups.fit(len(census.names))
        self.of_keys = Table(cell=(np.int64, -1), taken=(np.int64, 0), sampled=(np.bool_, False))
        self.of_keys.fit(len(census.keys))
        cell, sampled = self.of_keys["cell"], self.of_keys["sampled"]
        counts = points = 0
        for plan in plans.values():
            sampled_keys = [line[0] for line in plan.lines if is_sampled(line)]
            first = plan.first_ms // plan.span_ms
            row = (plan.span_ms, first, counts, len(sampled_keys), True)
            for name, value in zip(self.of_groups.columns, row, strict=True):
                self.of_groups[name][plan.number] = value
            counts += plan.spans
            # Cells of a span are adjacent: commits of a request have one group and time.
            sampled[sampled_keys] = True
            cell[sampled_keys] = np.arange(points, points + len(sampled_keys))
            points += plan.spans * len(sampled_keys)
            for line in plan.lines:
                if not is_sampled(line):
                    cell[line[0]] = points
                    points += line[-1]
        self.count = np.zeros(counts, np.int64)
        self.at = np.full(points, -1, np.int64)
        self.value = np.zeros(points, np.int64)

    def take(self, records: RecordColumns) -> None:
        times = time_of(records)
        runs = runs_of(records, times)
        ms, group = times[runs.first], runs.group
        drawn = runs.effective_commits() & (ms >= 0) & self.of_groups["drawn"][group]
        runs, ms, group = runs.select(drawn), ms[drawn], group[drawn]
        columns = {name: column[group] for name, column in self.of_groups.columns.items()}
        span = ms // columns["span_ms"] - columns["first"]
        np.add.at(self.count, columns["cell"] + span, runs.size)
        rows = runs.rows()
        keys = records.key[rows].astype(np.intp)
        cells = self.of_keys["cell"][keys]
        sampled = self.of_keys["sampled"][keys]
        every = ~sampled & (cells >= 0)
        if every.any():
            self._draw_each(records, times, keys[every], rows[every])
        if sampled.any():
            cells = (cells + np.repeat(span * columns["sampled"], runs.size))[sampled]
            self._draw_last(times[rows[sampled]], records.offset[rows[sampled]], cells)

    def _draw_each(self, records: RecordColumns, times: Array, keys: Array, rows: Array) -> None:
        codes = np.sort((keys << 32) | rows)  # much faster than sorting rows by key
        keys, rows = codes >> 32, codes & LOW
        start = np.flatnonzero(np.diff(keys, prepend=-1))
        counts = np.diff(start, append=len(keys))
        nth = np.arange(len(keys)) - np.repeat(start, counts)
        cells = self.of_keys["cell"][keys] + self.of_keys["taken"][keys] + nth
        self.of_keys["taken"][keys[start]] += counts
        self.at[cells] = times[rows]
        self.value[cells] = records.offset[rows]

    def _draw_last(self, times: Array, offsets: Array, cells: Array) -> None:
        """Store the latest commit of each cell; of equal times the last one in the log."""
        order = np.argsort(times, kind="stable")
        times, offsets, cells = times[order], offsets[order], cells[order]
        latest = times >= self.at[cells]
        # Of several writes to one index numpy keeps the last one.
        self.at[cells[latest]] = times[latest]
        self.value[cells[latest]] = offsets[latest]

    def rate(self, group: str) -> dict[str, Any]:
        """Return a group's commits over time, as ``SpanCounts.as_data``."""
        plan = self.plans[group]
        first = int(self.of_groups["cell"][plan.number])
        counts = self.count[first : first + plan.spans]
        there = np.flatnonzero(counts)
        return {
            "span_ms": plan.span_ms,
            "at": ((there + plan.first_ms // plan.span_ms) * plan.span_ms).tolist(),
            "count": counts[there].tolist(),
        }

    def line(self, group: str, line: Line) -> dict[str, Any]:
        """Return offsets by time: all of them, or the last one of each span if ``sampled``.

        ``at`` is the commit's own time (ms), not the span's. Values are ``exact``.
        """
        first, plan = int(self.of_keys["cell"][line[0]]), self.plans[group]
        step = int(self.of_groups["sampled"][plan.number]) if is_sampled(line) else 1
        cells = slice(first, first + plan.cells_of(line) * step, step)
        at, value = self.at[cells], self.value[cells]
        there = np.flatnonzero(at >= 0)
        order = there[np.argsort(at[there], kind="stable")]
        at, value = at[order], value[order]
        return {
            "at": at.tolist(),
            "value": exact_list(value),
            "sampled": is_sampled(line),
        }


def exact_list(values: Array) -> list[Any]:
    """Return integers for the page; those that a double cannot hold become text."""
    numbers: list[Any] = values.tolist()
    beyond = len(numbers) and (values.max() > EXACT or values.min() < -EXACT)
    return list(map(exact, numbers)) if beyond else numbers
