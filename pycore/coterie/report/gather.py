"""A log's groups as the data of a page: a row each for the overview, and a group's own parts.

The log of a partition goes by once for all that is asked of it, and again for the charts. Memory
holds what questions keep, and of each group what its page shows, compressed.

For 2 GB and 100,000 keys, a page takes 19 s of CPU time: 6.8 s to read the log for the questions,
3.8 s to read it for the charts, 4.5 s for JSON and its compression, and 5 s for tables and lines.
The last two run on one thread.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from coterie.insight.groups.epochs import learn_names
from coterie.insight.groups.rebalances import rebalances
from coterie.insight.questions.explain import REQUESTS
from coterie.insight.questions.metrics import commit_counts, counted_state, head_of
from coterie.insight.records.aggregates import run_aggregates
from coterie.insight.records.key_index import Key
from coterie.insight.records.log_reader import PieceConsumer, feed
from coterie.insight.records.partition_view import Life, PartitionView, RecordFilter
from coterie.ordering import java_order, place_order
from coterie.pages.shell import compact_json
from coterie.report import ownership
from coterie.report.charts import Census, ChartPlan, Charts, some_at_once
from coterie.report.sections import SECTIONS, Basis, aggregates_of_sections, exact, tables_of
from coterie.report.spans import SpanCounts, span_of

LINES = 40  # partitions in the chart of offsets: those with most commits
PARTITIONS = 1_000  # in the table of offsets
CENSUS = "report.census"
UNDRAWN = 1  # zlib's level for what waits for its charts
NOTHING_DRAWN = b'"rate":null,"lines":null'  # in no text, where quotes are escaped
GONE = "Gone"
OVERVIEW = (
    *("group", "state", "type", "protocol", "members", "partitions", "commits", "requests"),
    *("rebalances", "last_commit", "topics"),
)
Row = dict[str, Any]


@dataclass
class Gathered:
    """What of a log goes into a page.

    Attributes
    ----------
    overview : list of list
        A row a group: the columns of ``OVERVIEW``, of which ``topics`` are numbers of ``topics``,
        then those of the sections.
    details : list of str
        Of each group, in that order: JSON, deflated, in base64.
    topics : dict
        Topic -> number.
    commits, rebalances : SpanCounts
        Over time, of all groups.
    found : set of str
        Groups that the log has any record of.
    compacted : list of tuple
        Partitions of the topic that were compacted, with the time (ms) since which each is whole.
    """

    overview: list[list[Any]] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    topics: dict[str, int] = field(default_factory=dict)
    commits: SpanCounts = field(default_factory=SpanCounts)
    rebalances: SpanCounts = field(default_factory=SpanCounts)
    found: set[str] = field(default_factory=set)
    records: int = 0
    faults: int = 0
    partitions: int = 0
    from_ms: int | None = None
    until_ms: int | None = None
    compacted: list[tuple[int | None, int]] = field(default_factory=list)

    @property
    def trusted_from_ms(self) -> int | None:
        """From when on all partitions are whole; None: from their start."""
        return max((since_ms for _, since_ms in self.compacted), default=None)

    def in_order(self) -> Iterator[tuple[list[Any], str]]:
        """Yield the groups' rows with their details, in Java's order of their ids."""
        pairs = zip(self.overview, self.details, strict=True)
        yield from sorted(pairs, key=lambda pair: java_order(pair[0][0]))


def gather(parts: Iterable[PartitionView], basis: Basis) -> Gathered:
    """Return what a page shows of these partitions, which :func:`look` may have looked at."""
    whole = Gathered()
    for view in parts:
        add_partition(whole, view, basis)
    return whole


def add_partition(whole: Gathered, view: PartitionView, basis: Basis) -> None:
    """Add a partition's groups."""
    if view.seen is None:
        look(view, basis)
    tables, maker = read(view, basis)
    census = maker.census
    whole.partitions += 1
    whole.records += census.records
    whole.faults += len(view.fold.faults)
    if census.until_ms >= 0:
        whole.from_ms = least(whole.from_ms, census.from_ms)
        whole.until_ms = -least(negated(whole.until_ms), -census.until_ms)
    if view.trusted_from_ms is not None:
        whole.compacted.append((view.number, view.trusted_from_ms))
    whole.found.update(view.group_ids)
    whole.commits.merge(census.commits)
    plans: dict[str, ChartPlan] = {}
    undrawn: dict[str, bytes] = {}
    for group in view.group_ids:
        detail = maker.of(group) | {"tables": tables.pop(group, {})}
        counted = maker.rebalances(group)
        when = [row["timestamp"] for row in counted if row["timestamp"] is not None]
        whole.rebalances.add(np.array(when, np.int64))
        head = detail["head"]
        topics = {row[0]: None for row in detail["offsets"]["rows"]}
        numbers = [whole.topics.setdefault(topic, len(whole.topics)) for topic in topics]
        shown = [head.get(name) for name in OVERVIEW[:-1]] + [numbers]
        whole.overview.append(shown + overview_of(detail["tables"]))
        plans[group] = maker.plan(group, detail["extent"])
        undrawn[group] = zlib.compress(compact_json(detail).encode(), UNDRAWN)
    copies = 1 if view.cut is None else view.cut.copies
    for some in some_at_once(plans, copies):
        charts = draw(view, census, some)
        for group in some:
            drawn = {"rate": charts.rate(group), "lines": maker.lines(group, charts)}
            whole.details.append(packed(zlib.decompress(undrawn.pop(group)), drawn))


def draw(view: PartitionView, census: Census, some: Mapping[str, ChartPlan]) -> Charts:
    """Have a partition's log go by for the charts of some groups."""
    charts = Charts(census, some)
    if view.cut is None:
        feed(view.pieces(Charts.COLUMNS), [charts])
    else:
        # The first part fills the whole itself. Each other part's cells are made when it is read.
        later = ([Charts(census, some, numbers)] for numbers in census.parts[1:])
        view.cut.take_each(view.log, Charts.COLUMNS, chain([[charts]], later), [charts])
    return charts


def look(view: PartitionView, basis: Basis) -> PartitionView:
    """Have a partition's log go by, once for all but the charts; return the same facts."""
    counted_state(view)
    mine: dict[str, tuple[RecordFilter, PieceConsumer]] = {
        CENSUS: (view.record_filter, Census(view.begins_ms))
    }
    view.seen = run_aggregates(view, {**aggregates_of_sections(view, basis), **mine})
    return view


def read(view: PartitionView, basis: Basis) -> tuple[dict[str, dict[str, Row]], GroupDetails]:
    """Return a partition's tables, and what makes the rest; its log went by."""
    assert view.seen is not None  # see `look`
    counts = commit_counts(view, counted_state(view))
    census, requests = (view.seen[name] for name in (CENSUS, REQUESTS))
    tables = tables_of(view, basis)
    view.seen = None
    return tables, GroupDetails(view, census, counts, requests.tell)


def overview_of(tables: Row) -> list[Any]:
    """Return what sections say of a group in the overview, taken out of their tables."""
    return [
        tables.get(section.name, {}).pop("overview", None)
        for section in SECTIONS
        if section.column is not None
    ]


def least(one: int | None, other: int) -> int:
    """Return the lesser, of which the first may not be known."""
    return other if one is None else min(one, other)


def negated(number: int | None) -> int | None:
    """Return a number with the other sign, for `least` to give the greatest."""
    return None if number is None else -number


def packed(detail: bytes, drawn: Row) -> str:
    """Return a group's parts, of which ``NOTHING_DRAWN`` is to come, as the page unpacks them."""
    whole = detail.replace(NOTHING_DRAWN, compact_json(drawn)[1:-1].encode())
    return base64.b64encode(zlib.compress(whole, 6)).decode()


class GroupDetails:
    """Makes the parts of each group of a partition.

    Parameters
    ----------
    view
        The partition.
    census
        Of its commits.
    counted
        By key, of ``metrics.commit_counts``.
    tell_requests
        Whether batches tell how many requests there were.
    """

    def __init__(
        self,
        view: PartitionView,
        census: Census,
        counted: Mapping[Key, tuple[int, int | None]],
        tell_requests: bool,
    ) -> None:
        self.view = view
        self.until_ms = max(census.until_ms, 0)
        self.census = census
        self.numbers = census.numbers()
        self.drawable = census.lines()
        self.counted: dict[str, dict[tuple[str, int], tuple[int, int | None]]] = {}
        for (group, topic, partition), told in counted.items():
            self.counted.setdefault(group, {})[topic, partition] = told
        self.newer = view.newer_records.by_group()
        self.tell_requests = tell_requests
        self.topic_names = topic_names(view)

    def of(self, group: str) -> Row:
        """Return a group's parts; ``rate`` and ``lines``, which ``lines`` makes, are to come."""
        row, life = self.view.group_rows.get(group), self.view.lives.get(group)
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
        """Return when a group committed first and last, ms; it never did where first is later."""
        held, number = self.census.groups, self.numbers[group]
        return int(held["first_ms"][number]), int(held["last_ms"][number])

    def plan(self, group: str, extent: Sequence[int]) -> ChartPlan:
        """Return what to draw of a group, over spans that fit all that is shown of it."""
        lines = sorted(self.drawable.get(group, ()), key=lambda line: -line[-1])[:LINES]
        return ChartPlan(self.numbers[group], *self.extent(group), span_of(*extent), lines)

    def requests(self, group: str) -> int | None:
        """Return how many requests committed what counts; None: the batches do not tell."""
        told = int(self.census.groups["requests"][self.numbers[group]])
        return told if self.tell_requests else None

    def rebalances(self, group: str) -> list[Row]:
        """Return the records of a group that count as rebalances."""
        return rebalances(self.view, self.view.lives.get(group), self.newer.get(group, ()))

    def head(self, row: Row) -> Row:
        """Return what is said of a group in a line."""
        told = head_of(row, self.rebalances(row["group_id"]))
        return {
            "type": row["type"],
            **{name: told[name] for name in ("state", "protocol_type", "protocol", "generation")},
            **{name: told[name] for name in ("members", "empty_members", "rebalances")},
            "leader": row["leader"],
            "since": row["current_state_timestamp"],
        }

    def offsets(self, group: str, row: Row | None) -> Row:
        """Return topic, partition, offset, metadata, commit time, commits of each partition."""
        counted = self.counted.get(group, {})
        now = {(one["topic"], one["partition"]): one for one in (row or {}).get("offsets", ())}
        keys = sorted({*counted, *now}, key=place_order)
        rows = []
        for key in keys[:PARTITIONS]:
            count, last = counted.get(key, (0, None))
            one = now.get(key, {})
            time = one.get("commit_timestamp", last)
            rows.append([*key, exact(one.get("offset")), one.get("metadata"), time, count])
        return {"rows": rows, "count": len(keys), "present": len(now)}

    def timeline(self, group: str, row: Row | None, life: Life | None) -> Row:
        """Return who owned which partitions when."""
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
        """Return committed offsets over time, a line a partition, those with most commits."""
        plan = charts.plans[group]
        drawn: list[Row] = []
        for line in plan.lines:
            _, topic, partition, commits = line
            named = {"topic": topic, "partition": partition}
            drawn.append(named | charts.line(group, line) | {"commits": commits})
        drawn.sort(key=lambda line: place_order((line["topic"], line["partition"])))
        left_out = len(self.drawable.get(group, ())) - len(drawn)
        return {"span_ms": plan.span_ms, "lines": drawn, "left_out": left_out}


def topic_names(view: PartitionView) -> dict[str, str]:
    """Return the names of topic ids, as far as a partition's newer groups tell them."""
    names = {
        topic["topic_id"]: topic["topic"]
        for row in view.group_rows.values()
        for member in row["members"]
        for kind in ("current_assignment", "target_assignment")
        for topic in member.get(kind, ())
        if topic["topic"] is not None
    }
    learn_names(view.newer_records, names)
    return names
