"""A log's groups as the data of a page: a row each for the overview, and a group's own parts.

Memory holds one partition's facts, and of each group what its page shows, compressed.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coterie.insight.commits import COMMITTED, Array, Commits, is_before
from coterie.insight.epochs import learn_names
from coterie.insight.facts import Life, PartitionFacts
from coterie.insight.keys import by_key
from coterie.insight.metrics import commits_by_key, head_of
from coterie.insight.rebalances import rebalances
from coterie.insight.requests import batches_tell, requests_in
from coterie.ordering import java_order, place_order
from coterie.report import ownership
from coterie.report.sections import SECTIONS, Basis, exact, tables_of
from coterie.report.spans import Counts, line_of, span_of

LINES = 40  # partitions in the chart of offsets: those with most commits
PARTITIONS = 1_000  # in the table of offsets
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
    commits, rebalances : Counts
        Over time, of all groups.
    found : set of str
        Groups that the log has any record of.
    compacted : list of tuple
        Partitions of the topic that were compacted, with the time (ms) since which each is whole.
    """

    overview: list[list[Any]] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    topics: dict[str, int] = field(default_factory=dict)
    commits: Counts = field(default_factory=Counts)
    rebalances: Counts = field(default_factory=Counts)
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


def gather(parts: Iterable[PartitionFacts], basis: Basis) -> Gathered:
    """Return what a page shows of these partitions."""
    whole = Gathered()
    for facts in parts:
        add_partition(whole, facts, basis)
    return whole


def add_partition(whole: Gathered, facts: PartitionFacts, basis: Basis) -> None:
    """Add a partition's groups."""
    records = facts.records
    whole.partitions += 1
    whole.records += len(records)
    whole.faults += len(facts.fold.faults)
    times = records.timestamp[records.timestamp >= 0]
    if len(times):
        whole.from_ms = least(whole.from_ms, int(times.min()))
        whole.until_ms = -least(negated(whole.until_ms), -int(times.max()))
    if facts.trusted_from_ms is not None:
        whole.compacted.append((facts.number, facts.trusted_from_ms))
    whole.found.update(facts.group_ids)
    commits = facts.commits
    counting = ~commits.tombstone & (commits.outcome == COMMITTED)
    whole.commits.add(time_of(commits)[counting])
    tables = tables_of(facts, basis)
    maker = GroupParts(facts, counting, int(times.max()) if len(times) else 0)
    for group in facts.group_ids:
        detail = maker.of(group) | {"tables": tables.get(group, {})}
        counted = maker.rebalances(group)
        when = [row["timestamp"] for row in counted if row["timestamp"] is not None]
        whole.rebalances.add(np.array(when, np.int64))
        head = detail["head"]
        topics = {row[0]: None for row in detail["offsets"]["rows"]}
        numbers = [whole.topics.setdefault(topic, len(whole.topics)) for topic in topics]
        shown = [head.get(name) for name in OVERVIEW[:-1]] + [numbers]
        whole.overview.append(shown + overview_of(detail["tables"]))
        whole.details.append(packed(detail))


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


def packed(detail: Row) -> str:
    """Return a group's parts as the page unpacks them."""
    text = json.dumps(detail, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


def time_of(commits: Commits) -> Array:
    """Return each commit's time, ms: the record's, where it has none the one in its value."""
    return np.where(commits.timestamp >= 0, commits.timestamp, commits.commit_timestamp)


def commits_by_group(commits: Commits) -> dict[str, Array]:
    """Return the rows of each group's commits, in log order."""
    order = np.argsort(commits.group, kind="stable")
    numbers, starts = np.unique(commits.group[order], return_index=True)
    parts = np.split(order, starts[1:]) if len(numbers) else []
    return {commits.groups[number]: part for number, part in zip(numbers, parts, strict=True)}


def since(facts: PartitionFacts, rows: Array, at_ms: int | None) -> Array:
    """Return commits (their rows) from a time on, and those without one; None: all."""
    return rows[~is_before(facts.commits.timestamp[rows], at_ms)]


class GroupParts:
    """Makes the parts of each group of a partition.

    Parameters
    ----------
    facts
        The partition.
    counting
        Which of its commits count; bool.
    until_ms
        Its newest record's time.
    """

    def __init__(self, facts: PartitionFacts, counting: Array, until_ms: int) -> None:
        self.facts = facts
        self.until_ms = until_ms
        self.counting = counting
        self.times = time_of(facts.commits)
        self.rows = commits_by_group(facts.commits)
        self.counted: dict[str, dict[tuple[str, int], tuple[int, int | None]]] = {}
        for (group, topic, partition), told in commits_by_key(facts).items():
            self.counted.setdefault(group, {})[topic, partition] = told
        self.newer = facts.newer_records.by_group()
        self.tell_requests = batches_tell(facts.whole())
        self.topic_names = topic_names(facts)

    def of(self, group: str) -> Row:
        """Return a group's ``head``, ``offsets``, ``timeline``, ``rate`` and ``lines``."""
        row, life = self.facts.group_rows.get(group), self.facts.lives.get(group)
        every = self.rows.get(group, np.empty(0, np.int64))
        rows = every[self.counting[every] & (self.times[every] >= 0)]
        offsets = self.offsets(group, row)
        head: Row = {"state": GONE, "members": 0} if row is None else self.head(row)
        latest = [line[4] for line in offsets["rows"] if line[4] is not None]
        head |= {
            "group": group,
            "offsets_partition": self.facts.number,
            "partitions": offsets["count"],
            "commits": sum(count for count, _ in self.counted.get(group, {}).values()),
            "requests": self.requests(every),
            "trusted_from_ms": self.facts.trusted_from_ms,
            "last_commit": max(latest, default=None),
        }
        timeline = self.timeline(group, row, life)
        ends = [ms for bar in timeline["bars"] for ms in bar[1:3]]
        times = self.times[rows]
        ends += [int(times.min()), int(times.max())] if len(rows) else []
        start, end = min(ends, default=0), max(ends, default=0)
        span_ms = span_of(start, end)
        rate = Counts()
        rate.add(times)
        return {
            "head": head,
            "extent": [start, end],
            "offsets": offsets,
            "timeline": timeline,
            "rate": rate.as_data(span_ms),
            "lines": self.lines(rows, span_ms),
        }

    def requests(self, rows: Array) -> int | None:
        """Return how many requests committed what counts; None: the batches do not tell."""
        told = since(self.facts, rows[self.counting[rows]], self.facts.begins_ms)
        return requests_in(self.facts.commits, told) if self.tell_requests else None

    def rebalances(self, group: str) -> list[Row]:
        """Return the records of a group that count as rebalances."""
        return rebalances(self.facts, self.facts.lives.get(group), self.newer.get(group, ()))

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
        bars: list[ownership.Bar] = []
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

    def lines(self, rows: Array, span_ms: int) -> Row:
        """Return committed offsets over time, a line a partition, those with most commits."""
        commits = self.facts.commits
        runs = by_key(commits, rows).runs()
        runs.sort(key=lambda run: -len(run))
        drawn = []
        for run in runs[:LINES]:
            order = run[np.argsort(self.times[run], kind="stable")]
            line = line_of(self.times[order], commits.offset[order], span_ms)
            line["value"] = [exact(offset) for offset in line["value"]]
            topic = commits.topics[commits.topic[run[0]]]
            named = {"topic": topic, "partition": int(commits.partition[run[0]])}
            drawn.append(named | line | {"commits": len(run)})
        drawn.sort(key=lambda line: place_order((line["topic"], line["partition"])))
        return {"span_ms": span_ms, "lines": drawn, "left_out": len(runs) - len(drawn)}


def topic_names(facts: PartitionFacts) -> dict[str, str]:
    """Return the names of topic ids, as far as a partition's newer groups tell them."""
    names = {
        topic["topic_id"]: topic["topic"]
        for row in facts.group_rows.values()
        for member in row["members"]
        for kind in ("current_assignment", "target_assignment")
        for topic in member.get(kind, ())
        if topic["topic"] is not None
    }
    learn_names(facts.newer_records, names)
    return names
