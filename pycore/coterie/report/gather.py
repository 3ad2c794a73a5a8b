"""Collect the data of a page: a row of the overview for each group, and its details.

A partition's log is read once for all questions, and again for the charts. Memory holds the
aggregates of the questions, and the compressed details of each group.

For 2 GB and 100,000 keys, a page takes 19 s of CPU time: 6.8 s to read the log for the questions,
3.8 s to read it for the charts, 4.5 s for JSON and its compression, and 5 s for tables and lines.
The last two run on one thread.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from coterie.base.ordering import java_order, place_order
from coterie.insight.answering import orders_in
from coterie.insight.groups.rebalances import rebalances
from coterie.insight.groups.topic_names import topic_names
from coterie.insight.question_engine import answer_each
from coterie.insight.questions.explain import REQUESTS
from coterie.insight.questions.metrics import commit_counts, counted_state, head_of
from coterie.insight.records.aggregates import Aggregate, feed, run_aggregates
from coterie.insight.records.key_index import Key
from coterie.insight.records.partition_view import GroupHistory, PartitionView, RecordFilter
from coterie.insight.records.threads import each_partition
from coterie.log.clock_notes import ClockNotes
from coterie.log.folders import Listing, Log, find_segments
from coterie.report import ownership
from coterie.report.charts import Census, ChartPlan, Charts, batches_of
from coterie.report.findings import Findings
from coterie.report.sections import (
    Basis,
    aggregates_of_sections,
    exact,
    sections_of,
    tables_of,
)
from coterie.report.shell import compact_json
from coterie.report.spans import SpanCounts, span_of
from coterie.state.replay_engine import Progress, Silent
from coterie.state.several_partitions import lines_of, together

LINES = 40  # partitions in the chart of offsets, those with most commits
PARTITIONS = 1_000  # in the table of offsets
CENSUS = "report.census"
HEAD_METRICS = (
    *("state", "protocol_type", "protocol", "generation"),
    *("members", "empty_members", "rebalances"),
)
UNDRAWN = 1  # zlib's level for details that wait for their charts
NOTHING_DRAWN = b'"rate":null,"lines":null'  # no text contains this, as quotes are escaped
GONE = "Gone"
OVERVIEW = (
    *("group", "state", "type", "protocol", "members", "partitions", "commits", "requests"),
    *("rebalances", "last_commit", "topics"),
)
Row = dict[str, Any]


@dataclass
class Gathered:
    """The data of a page.

    Attributes
    ----------
    overview : list of list
        A row for each group: the columns of ``OVERVIEW`` (its topics as numbers of ``topics``),
        then those of the sections.
    details : list of str
        The details of each group, in the same order: JSON, deflated, in base64.
    topics : dict
        The number of each topic.
    commits, rebalances : SpanCounts
        Counts over time, of all groups.
    group_ids : set of str
        All groups that have a record in the log.
    compacted : list of tuple
        Compacted partitions of the topic, each with the time (ms) since which it is complete.
    clocks : ClockNotes
        Where the times of the log go back.
    findings : Findings
        The most severe findings of each group.
    """

    overview: list[list[Any]] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    topics: dict[str, int] = field(default_factory=dict)
    commits: SpanCounts = field(default_factory=SpanCounts)
    rebalances: SpanCounts = field(default_factory=SpanCounts)
    group_ids: set[str] = field(default_factory=set)
    records: int = 0
    faults: int = 0
    partitions: int = 0
    from_ms: int | None = None
    until_ms: int | None = None
    compacted: list[tuple[int | None, int]] = field(default_factory=list)
    clocks: ClockNotes = field(default_factory=ClockNotes)
    findings: Findings = field(default_factory=Findings)

    @property
    def trusted_from_ms(self) -> int | None:
        """The time since which all partitions are complete, ms; None: since their start."""
        return max((since_ms for _, since_ms in self.compacted), default=None)

    def drop(self, groups: Collection[str]) -> None:
        kept = [pair for pair in self.in_order() if pair[0][0] not in groups] if groups else None
        if kept is not None:
            self.findings.drop(groups)
            self.overview, self.details = [row for row, _ in kept], [text for _, text in kept]

    def in_order(self) -> Iterator[tuple[list[Any], str]]:
        """Yield rows of the overview with their details, in Java's order of the group ids."""
        pairs = zip(self.overview, self.details, strict=True)
        yield from sorted(pairs, key=lambda pair: java_order(pair[0][0]))


def gather(parts: Iterable[PartitionView], basis: Basis) -> Gathered:
    """Collect the data of a page from partitions; :func:`look` may have read them."""
    whole = Gathered()
    for view in parts:
        add_partition(whole, view, basis)
    return whole


def gather_log(
    log: Log,
    basis: Basis,
    *,
    groups: frozenset[str] | None = None,
    at_ms: int | None = None,
    since_ms: int | None = None,
    progress: Progress,
) -> Gathered:
    """Collect the data of a page from a log, each group once; see ``each_partition``."""
    listing = find_segments(log)

    def views(
        listing: Listing, groups: frozenset[str] | None, progress: Progress
    ) -> Iterator[PartitionView]:
        with each_partition(
            listing,
            partial(look, basis=basis),
            groups=groups,
            at_ms=at_ms,
            since_ms=since_ms,
            progress=progress,
        ) as read:
            yield from read

    present: dict[int | None, list[str]] = {}
    whole = Gathered()
    for view in views(listing, groups, progress):
        add_partition(whole, view, basis)
        present[view.number] = view.group_ids
    orders = orders_in(present, listing, answer_each, at_ms)
    for line in lines_of(orders, listing.partition_count()):
        progress.notice(line)
    whole.drop(orders)
    for order, names in together(orders).items():
        for view in views(listing.joined(order), frozenset(names), Silent()):
            add_groups(whole, view, basis)
    return whole


def add_partition(whole: Gathered, view: PartitionView, basis: Basis) -> None:
    details = add_groups(whole, view, basis)
    census = details.census
    whole.partitions += 1
    whole.records += census.records
    whole.faults += view.fold.fault_count
    if census.until_ms >= 0:
        whole.from_ms = least(whole.from_ms, census.from_ms)
        whole.until_ms = -least(negated(whole.until_ms), -census.until_ms)
    if view.trusted_from_ms is not None:
        whole.compacted.append((view.number, view.trusted_from_ms))
    if view.groups is None or view.group_ids:
        whole.clocks.take(view.number, view.clock_steps, view.end_cut, view.since_begin)
    whole.group_ids.update(view.group_ids)
    whole.commits.merge(census.commits)
    for group in view.group_ids:
        times = [row["timestamp"] for row in details.rebalances(group)]
        whole.rebalances.add(np.array([ms for ms in times if ms is not None], np.int64))


def add_groups(whole: Gathered, view: PartitionView, basis: Basis) -> GroupDetails:
    """Add the groups of a partition to the overview and the details; return their maker."""
    if view.shared_aggregates is None:
        look(view, basis)
    tables, details = read(view, basis)
    plans: dict[str, ChartPlan] = {}
    undrawn: dict[str, bytes] = {}
    for group in view.group_ids:
        detail = details.of(group) | {"tables": tables.pop(group, {})}
        whole.findings.add(group, detail["tables"])
        head = detail["head"]
        topics = {line[0]: None for line in detail["offsets"]["rows"]}
        numbers = [whole.topics.setdefault(topic, len(whole.topics)) for topic in topics]
        row = [head.get(name) for name in OVERVIEW[:-1]] + [numbers]
        whole.overview.append(row + overview_of(detail["tables"], basis))
        plans[group] = details.plan(group, detail["extent"])
        undrawn[group] = zlib.compress(compact_json(detail).encode(), UNDRAWN)
    for batch in batches_of(plans):
        charts = draw(view, details.census, batch)
        for group in batch:
            drawn = {"rate": charts.rate(group), "lines": details.lines(group, charts)}
            whole.details.append(packed(zlib.decompress(undrawn.pop(group)), drawn))
    return details


def draw(view: PartitionView, census: Census, plans: Mapping[str, ChartPlan]) -> Charts:
    """Read a partition's log for the charts of some groups."""
    charts = Charts(census, plans)
    feed(view.pieces(Charts.COLUMNS), [charts])
    return charts


def look(view: PartitionView, basis: Basis) -> PartitionView:
    """Read a partition's log, once for everything but the charts; return the same view."""
    counted_state(view)
    own: dict[str, tuple[RecordFilter, Aggregate]] = {
        CENSUS: (view.record_filter, Census(view.complete_from_ms, view.complete_begin))
    }
    view.shared_aggregates = run_aggregates(view, {**aggregates_of_sections(view, basis), **own})
    return view


def read(view: PartitionView, basis: Basis) -> tuple[dict[str, dict[str, Row]], GroupDetails]:
    """Return a partition's tables, and the maker of its groups' details."""
    assert view.shared_aggregates is not None  # see `look`
    counts = commit_counts(view, counted_state(view))
    census, requests = (view.shared_aggregates[name] for name in (CENSUS, REQUESTS))
    tables = tables_of(view, basis)
    view.shared_aggregates = None
    return tables, GroupDetails(view, census, counts, requests.one_request_each)


def overview_of(tables: Row, basis: Basis) -> list[Any]:
    """Remove the sections' values of the overview from a group's tables, and return them."""
    return [
        tables.get(section.name, {}).pop("overview", None)
        for section in sections_of(basis)
        if section.column is not None
    ]


def least(first: int | None, second: int) -> int:
    """Return the lesser number; the first may be unknown."""
    return second if first is None else min(first, second)


def negated(number: int | None) -> int | None:
    """Return a number with the opposite sign, so that `least` finds the greatest."""
    return None if number is None else -number


def packed(detail: bytes, drawn: Row) -> str:
    """Return a group's details, packed for the page, with charts for ``NOTHING_DRAWN``."""
    whole = detail.replace(NOTHING_DRAWN, compact_json(drawn)[1:-1].encode())
    return base64.b64encode(zlib.compress(whole, 6)).decode()


class GroupDetails:
    """Make the details of each group of a partition.

    Parameters
    ----------
    view
        The partition.
    census
        The census of its commits.
    counted
        ``metrics.commit_counts``, by key.
    counts_requests
        Whether the number of requests can be seen from the batches.
    """

    def __init__(
        self,
        view: PartitionView,
        census: Census,
        counted: Mapping[Key, tuple[int, int | None]],
        counts_requests: bool,
    ) -> None:
        self.view = view
        self.until_ms = max(census.until_ms, 0)
        self.census = census
        self.numbers = census.numbers()
        self.drawable = census.lines()
        self.counted: dict[str, dict[tuple[str, int], tuple[int, int | None]]] = {}
        for (group, topic, partition), count in counted.items():
            self.counted.setdefault(group, {})[topic, partition] = count
        self.newer = view.newer_by_group
        self.counts_requests = counts_requests
        self.topic_names = topic_names(view)

    def of(self, group: str) -> Row:
        """Return a group's details; ``rate`` and ``lines`` are filled in later."""
        row, life = self.view.group_rows.get(group), self.view.histories.get(group)
        offsets = self.offsets(group, row)
        head: Row = {"state": GONE, "members": 0} if row is None else self.head(row)
        latest = [line[4] for line in offsets["rows"] if line[4] is not None]
        head |= {
            "group": group,
            "offsets_partition": self.view.number,
            "partitions": offsets["count"],
            "commits": sum(count for count, _ in self.counted.get(group, {}).values()),
            "requests": self.requests(group),
            "trusted_from_ms": self.view.trusted_from_ms,
            "last_commit": max(latest, default=None),
        }
        timeline = self.timeline(group, row, life)
        ends = [ms for bar in timeline["bars"] for ms in bar[1:3]]
        first_ms, last_ms = self.extent(group)
        ends += [first_ms, last_ms] if first_ms <= last_ms else []
        return {
            "head": head,
            "extent": [min(ends, default=0), max(ends, default=0)],
            "offsets": offsets,
            "timeline": timeline,
            "rate": None,
            "lines": None,
        }

    def extent(self, group: str) -> tuple[int, int]:
        """Return the times of a group's first and last commit, ms; the first is later if none."""
        columns, number = self.census.groups, self.numbers[group]
        return int(columns["first_ms"][number]), int(columns["last_ms"][number])

    def plan(self, group: str, extent: Sequence[int]) -> ChartPlan:
        """Return the plan of a group's charts, with spans that fit the extent of its details."""
        lines = sorted(self.drawable.get(group, ()), key=lambda line: -line[-1])[:LINES]
        return ChartPlan(self.numbers[group], *self.extent(group), span_of(*extent), lines)

    def requests(self, group: str) -> int | None:
        """Return the number of effective commit requests; None if unknown."""
        requests = int(self.census.groups["requests"][self.numbers[group]])
        return requests if self.counts_requests else None

    def rebalances(self, group: str) -> list[Row]:
        """Return the records of a group that count as rebalances."""
        return rebalances(self.view, self.view.histories.get(group), self.newer.get(group, ()))

    def head(self, row: Row) -> Row:
        metrics = head_of(row, self.rebalances(row["group_id"]))
        return {
            "type": row["type"],
            **{name: metrics[name] for name in HEAD_METRICS},
            "leader": row["leader"],
            "since": row["current_state_timestamp"],
        }

    def offsets(self, group: str, row: Row | None) -> Row:
        """Return topic, partition, offset, metadata, commit time, commits of each partition."""
        counted = self.counted.get(group, {})
        present = {
            (offset["topic"], offset["partition"]): offset
            for offset in (row or {}).get("offsets", ())
        }
        keys = sorted({*counted, *present}, key=place_order)
        rows = []
        for key in keys[:PARTITIONS]:
            count, last = counted.get(key, (0, None))
            offset = present.get(key, {})
            time = offset.get("commit_timestamp", last)
            rows.append([*key, exact(offset.get("offset")), offset.get("metadata"), time, count])
        return {"rows": rows, "count": len(keys), "present": len(present)}

    def timeline(self, group: str, row: Row | None, life: GroupHistory | None) -> Row:
        bars: list[ownership.MemberBar] = []
        clients: dict[str, Any] = {}
        left_out = 0
        if life is not None:
            bars += ownership.classic_bars(life, self.until_ms)
            clients |= ownership.classic_clients(life)
            left_out = max(len(life.records) - ownership.GENERATIONS, 0)
        if group in self.newer:
            bars += ownership.newer_bars(self.newer[group], self.topic_names, self.until_ms)
            clients |= ownership.newer_clients(self.newer[group])
        return ownership.timeline(bars, clients, left_out)

    def lines(self, group: str, charts: Charts) -> Row:
        """Return committed offsets over time, a line for each of the planned partitions."""
        plan = charts.plans[group]
        drawn: list[Row] = []
        for line in plan.lines:
            _, topic, partition, commits = line
            named = {"topic": topic, "partition": partition}
            drawn.append(named | charts.line(group, line) | {"commits": commits})
        drawn.sort(key=lambda line: place_order((line["topic"], line["partition"])))
        left_out = len(self.drawable.get(group, ())) - len(drawn)
        return {"span_ms": plan.span_ms, "lines": drawn, "left_out": left_out}
