"""Commits and offsets over time as a page draws them, taken from a log a piece at a time.

The log goes by twice. :class:`Census` counts, and finds from when to when each group committed: so
the spans are known. :class:`Charts` then fills a cell for each point that is drawn. Where the cells
of all groups are more than ``CELLS_AT_ONCE``, the groups are taken some at a time, and the log goes
by once more for each. So memory grows with keys, never with commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from coterie.insight.records.key_index import LOW, Keys, Names, Table
from coterie.insight.records.record_columns import Array, RecordColumns, is_before
from coterie.insight.records.runs import NEVER, Runs, first_in_batch, runs_of, times_of
from coterie.report.sections import EXACT, exact
from coterie.report.spans import POINTS, SpanCounts

CELLS_AT_ONCE = 44 << 20  # of 16 bytes each, in all copies of the charts
Line = tuple[int, str, int, int]  # number of the key, topic, partition, commits with a time


def time_of(commits: RecordColumns) -> Array:
    """Return each commit's time, ms: the record's, where it has none the one in its value."""
    known = commits.timestamp >= 0
    return commits.timestamp if known.all() else np.where(known, *times_in(commits))


def times_in(commits: RecordColumns) -> tuple[Array, Array]:
    """Return the times of records, and those in their values, ms."""
    return commits.timestamp, commits.commit_timestamp


def timed_rows(runs: Runs, times: Array) -> tuple[Array, Array]:
    """Return the rows of some runs that have a time, and it."""
    rows = runs.rows()
    found = times[rows]
    known = found >= 0
    return (rows, found) if known.all() else (rows[known], found[known])


class Numbers(NamedTuple):
    """The numbers that keys and groups of a part of the log have in the whole."""

    keys: Array
    groups: Array


class Census:
    """What charts have to know of a partition beforehand.

    Parameters
    ----------
    begins_ms
        Requests are counted from then on; None: all.

    Attributes
    ----------
    records : int
        Of all kinds.
    from_ms, until_ms : int
        Of the records that have a time; where none has, from is after until.
    commits : SpanCounts
        Of all groups, over time.
    """

    COLUMNS = frozenset({"commit_timestamp"})

    def __init__(self, begins_ms: int | None) -> None:
        self.begins_ms = begins_ms
        self.records = 0
        self.from_ms, self.until_ms = int(NEVER), -1
        self.commits = SpanCounts()
        self.names: list[str] = []
        self.groups = Table(
            first_ms=(np.int64, NEVER), last_ms=(np.int64, -1), requests=(np.int64, 0)
        )
        self.keys = Keys()
        self.points = Table(count=(np.int64, 0))
        self.parts: list[Numbers] = []  # of each part absorbed

    def take(self, records: RecordColumns) -> None:
        """Count the next piece."""
        self.records += len(records)
        self.names = records.groups
        self.groups.fit(len(self.names))
        self.keys.scan = records.scan
        self.points.fit(len(self.keys))
        early = is_before(records.timestamp, self.begins_ms)
        runs = runs_of(records, early)
        if not len(runs):
            return
        least, greatest = times_of(runs.first, records.timestamp)
        self.from_ms = min(self.from_ms, int(least.min()))
        self.until_ms = max(self.until_ms, int(greatest.max()))
        counting = runs.counting()
        told = runs.select(counting & ~early[runs.first])
        self.groups.add("requests", told.group[first_in_batch(told.batch, told.group)])
        times = time_of(records)
        least, greatest = times_of(runs.first, times)
        group = runs.group[counting]
        np.minimum.at(self.groups["first_ms"], group, least[counting])
        np.maximum.at(self.groups["last_ms"], group, greatest[counting])
        rows, times = timed_rows(runs.select(counting), times)
        self.commits.add(times)
        self.points.add("count", records.key[rows])

    def absorb(self, later: Census) -> None:
        """Go on with what follows; see ``coterie.insight.records.aggregates``."""
        self.records += later.records
        self.from_ms = min(self.from_ms, later.from_ms)
        self.until_ms = max(self.until_ms, later.until_ms)
        self.commits.merge(later.commits)
        names = Names(self.names)
        self.names = names.absorb(later.names)
        numbers = Numbers(self.keys.absorb(later.keys), names.numbers(later.names))
        self.parts.append(numbers)
        self.groups.fit(len(self.names))
        at = numbers.groups[: later.groups.count]
        for name, join in (("first_ms", np.minimum), ("last_ms", np.maximum), ("requests", np.add)):
            self.groups[name][at] = join(self.groups[name][at], later.groups[name])
        self.points.fit(len(self.keys))
        self.points["count"][numbers.keys[: later.points.count]] += later.points["count"]

    def numbers(self) -> dict[str, int]:
        """Return the number of each group."""
        return {name: number for number, name in enumerate(self.names)}

    def lines(self) -> dict[str, list[Line]]:
        """Return what can be drawn of each group, in the order of its topics' first sight."""
        self.points.fit(len(self.keys))
        counts = self.points["count"].tolist()
        found: dict[str, list[Line]] = {}
        for at, (group, topic, partition) in self.keys.items():
            if counts[at]:
                found.setdefault(group, []).append((at, topic, partition, counts[at]))
        return found


@dataclass(frozen=True)
class ChartPlan:
    """What is drawn of a group: from when to when it committed (ms), spans, the lines.

    ``number``: of the group in its census; ``first_ms`` is after ``last_ms`` without commits.
    """

    number: int
    first_ms: int
    last_ms: int
    span_ms: int
    lines: Sequence[Line]

    @property
    def spans(self) -> int:
        """How many spans there are from the first commit to the last."""
        return max(self.last_ms // self.span_ms - self.first_ms // self.span_ms + 1, 0)

    def cells_of(self, line: Line) -> int:
        """Return how many points a line can have."""
        return self.spans if is_sampled(line) else line[-1]

    @property
    def cells(self) -> int:
        """How many points there can be in all."""
        return self.spans + sum(map(self.cells_of, self.lines))


def is_sampled(line: Line) -> bool:
    """Whether a line has too many commits to show each."""
    return line[-1] > POINTS


def some_at_once(plans: Mapping[str, ChartPlan], copies: int) -> Iterator[dict[str, ChartPlan]]:
    """Yield the groups in order, so many at once as ``copies`` have room for, at least one."""
    some: dict[str, ChartPlan] = {}
    cells = 0
    for group, plan in plans.items():
        more = plan.cells * copies
        if some and cells + more > CELLS_AT_ONCE:
            yield some
            some, cells = {}, 0
        some[group] = plan
        cells += more
    if some:
        yield some


class Charts:
    """The commit rate and the offsets of some groups, filled as the pieces of a log come.

    A line of few commits has a cell for each, in order of the log; a sampled one, and a rate, a
    cell for each span.

    Parameters
    ----------
    census
        Of the whole log.
    plans
        Of each group that is drawn.
    numbers
        Those that keys and groups of these pieces have in the census; None: they are the same.
    """

    COLUMNS = frozenset({"commit_timestamp"})

    def __init__(
        self, census: Census, plans: Mapping[str, ChartPlan], numbers: Numbers | None = None
    ) -> None:
        self.plans = plans
        self.numbers = numbers
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
            some = [line[0] for line in plan.lines if is_sampled(line)]
            told = (plan.span_ms, plan.first_ms // plan.span_ms, counts, len(some), True)
            for name, value in zip(self.of_groups.columns, told, strict=True):
                self.of_groups[name][plan.number] = value
            counts += plan.spans
            # Those of one span lie together: commits of a request are of one group and time.
            sampled[some] = True
            cell[some] = np.arange(points, points + len(some))
            points += plan.spans * len(some)
            for line in plan.lines:
                if not is_sampled(line):
                    cell[line[0]] = points
                    points += line[-1]
        self.count = np.zeros(counts, np.int64)
        self.at = np.full(points, -1, np.int64)
        self.value = np.zeros(points, np.int64)

    def take(self, records: RecordColumns) -> None:
        """Draw the next piece."""
        times = time_of(records)
        runs = runs_of(records, times)
        ms, group = times[runs.first], runs.group
        if self.numbers is not None:
            group = np.append(self.numbers.groups, -1)[group]
        drawn = runs.counting() & (ms >= 0) & self.of_groups["drawn"][group]
        runs, ms, group = runs.select(drawn), ms[drawn], group[drawn]
        held = {name: column[group] for name, column in self.of_groups.columns.items()}
        span = ms // held["span_ms"] - held["first"]
        np.add.at(self.count, held["cell"] + span, runs.size)
        rows = runs.rows()
        keys = records.key[rows].astype(np.intp)
        keys = keys if self.numbers is None else self.numbers.keys[keys]
        cells = self.of_keys["cell"][keys]
        every, some = ~self.of_keys["sampled"][keys] & (cells >= 0), self.of_keys["sampled"][keys]
        if every.any():
            self._draw_each(records, times, keys[every], rows[every])
        if some.any():
            cells = (cells + np.repeat(span * held["sampled"], runs.size))[some]
            self._draw_last(times[rows[some]], records.offset[rows[some]], cells)

    def _draw_each(self, records: RecordColumns, times: Array, keys: Array, rows: Array) -> None:
        """Give each commit the next cell of its key."""
        codes = np.sort((keys << 32) | rows)  # much faster than to sort rows by key
        keys, rows = codes >> 32, codes & LOW
        start = np.flatnonzero(np.diff(keys, prepend=-1))
        counts = np.diff(start, append=len(keys))
        nth = np.arange(len(keys)) - np.repeat(start, counts)
        cells = self.of_keys["cell"][keys] + self.of_keys["taken"][keys] + nth
        self.of_keys["taken"][keys[start]] += counts
        self.at[cells] = times[rows]
        self.value[cells] = records.offset[rows]

    def _draw_last(self, times: Array, offsets: Array, cells: Array) -> None:
        """Leave in each cell its latest commit; of those of one time the last in the log."""
        if (times[1:] < times[:-1]).any():
            order = np.argsort(times, kind="stable")
            times, offsets, cells = times[order], offsets[order], cells[order]
        latest = times >= self.at[cells]
        # Of several writes to one place numpy keeps the last one.
        self.at[cells[latest]] = times[latest]
        self.value[cells[latest]] = offsets[latest]

    def absorb(self, later: Charts) -> None:
        """Go on with what follows; see ``coterie.insight.records.aggregates``."""
        self.count += later.count
        ours, theirs = self.of_keys["taken"], later.of_keys["taken"]
        keys = np.flatnonzero(theirs)
        start = np.cumsum(theirs[keys]) - theirs[keys]
        cells = np.arange(theirs.sum()) + np.repeat(
            self.of_keys["cell"][keys] - start, theirs[keys]
        )
        here = cells + np.repeat(ours[keys], theirs[keys])
        self.at[here], self.value[here] = later.at[cells], later.value[cells]
        later.at[cells] = -1
        ours += theirs
        latest = (later.at >= 0) & (later.at >= self.at)
        np.copyto(self.at, later.at, where=latest)
        np.copyto(self.value, later.value, where=latest)

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
        """Return offsets by time: all of them, or the last of each span if they are too many.

        ``sampled`` says which; ``at`` is the commit's own time (ms), not the span's. Values are
        ``exact``.
        """
        first, plan = int(self.of_keys["cell"][line[0]]), self.plans[group]
        step = int(self.of_groups["sampled"][plan.number]) if is_sampled(line) else 1
        cells = slice(first, first + plan.cells_of(line) * step, step)
        at, value = self.at[cells], self.value[cells]
        there = at >= 0
        if not there.all():
            at, value = at[there], value[there]
        if (at[1:] < at[:-1]).any():
            order = np.argsort(at, kind="stable")
            at, value = at[order], value[order]
        return {
            "at": at.tolist(),
            "value": exact_list(value),
            "sampled": is_sampled(line),
        }


def exact_list(values: Array) -> list[Any]:
    """Return integers as the page gets them: few lines have any that a double cannot hold."""
    held: list[Any] = values.tolist()
    beyond = len(held) and (values.max() > EXACT or values.min() < -EXACT)
    return list(map(exact, held)) if beyond else held
