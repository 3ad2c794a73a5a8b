"""Counts of a partition, and totals that survive compaction.

A count is a function of the log up to some record. When the log loses records (compaction,
retention), the difference between the total before and the new count of the same records is carried
on, so that a total never falls. The same holds after a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.insight.offsets.commit_findings import REWIND, CommitFindings
from coterie.insight.offsets.loss_counts import loss_counts
from coterie.insight.offsets.loss_findings import SKIP, Losses, across_removals
from coterie.insight.questions import audit, metrics
from coterie.insight.records.partition_view import PartitionView
from coterie.live.live_partition import AUDIT, METRICS, LivePartition

COMMITS, SKIPPED, REWINDS = "commits", "skipped", "rewinds"
REBALANCES, DEPARTURES = "rebalances", "departures"
REVOCATION_TIMEOUTS = "revocation_timeouts"
KINDS = {  # total -> the number of names in its labels
    COMMITS: 3,  # group, topic, partition
    SKIPPED: 3,
    REWINDS: 2,  # group, topic
    REBALANCES: 2,  # group, cause
    DEPARTURES: 2,
    REVOCATION_TIMEOUTS: 1,  # group
}
Labels = tuple[Any, ...]
Totals = dict[str, Counter[Labels]]
Row = dict[str, Any]


@dataclass(frozen=True)
class Mark:
    """The totals of a partition as of the record before ``next_offset``.

    ``topic_id``: of the topic that has this record; None: not known. ``gone``: since when groups
    are gone, by the time of records.
    """

    next_offset: int
    totals: Totals
    topic_id: str | None = None
    gone: dict[str, int] = field(default_factory=dict)

    def of(self, topic_id: str | None) -> Mark:
        """Return the mark for a topic: of one that was made again, no record was counted."""
        if None in (topic_id, self.topic_id) or topic_id == self.topic_id:
            return self
        return Mark(0, self.totals, topic_id, self.gone)


@dataclass(frozen=True)
class Answer:
    """What is shown of a partition.

    Attributes
    ----------
    rows : list of dict
        The rows of ``coterie metrics``; their counts are totals.
    totals : dict
        By kind and labels.
    findings : Counter
        The findings of ``coterie audit``, by group and kind.
    newest_ms : int
        The time of the newest record; -1: none.
    lost_rows : list of dict
        As ``rows``, of groups and keys that only the totals have, with nothing but counts.
    """

    rows: list[Row]
    totals: Totals
    findings: Counter[Labels]
    newest_ms: int
    lost_rows: Sequence[Row] = ()

    @property
    def counted_rows(self) -> list[Row]:
        return [*self.rows, *self.lost_rows]

    @property
    def gone_groups(self) -> set[str]:
        """The groups that only the totals have."""
        return {row["group_id"] for row in self.lost_rows if row["topic"] is None}

    def without(self, groups: set[str]) -> Answer:
        """Return the answer without some groups."""
        return self._where(lambda group: group not in groups)

    def only(self, groups: set[str]) -> Answer:
        return self._where(groups.__contains__)

    def _where(self, has: Callable[[str], bool]) -> Answer:
        def kept(counts: Counter[Labels]) -> Counter[Labels]:
            return Counter({labels: n for labels, n in counts.items() if has(labels[0])})

        return Answer(
            [row for row in self.rows if has(row["group_id"])],
            {kind: kept(counts) for kind, counts in self.totals.items()},
            kept(self.findings),
            self.newest_ms,
            [row for row in self.lost_rows if has(row["group_id"])],
        )


def nothing() -> Totals:
    """Return totals of 0."""
    return {kind: Counter() for kind in KINDS}


def counted(partition: LivePartition, view: PartitionView) -> Totals:
    """Return the counts of the log so far; ``view``: of ``partition``."""
    aggregates = view.shared_aggregates or {}
    counts = metrics.commit_counts(view, partition.filter)
    return {
        COMMITS: Counter({key: count for key, (count, _) in counts.items() if count}),
        SKIPPED: Counter(loss_counts(view, aggregates[metrics.LOSSES]).skipped),
        REWINDS: rewinds_of(*(aggregates[f"{audit.NAME}.{kind}"] for kind in (REWIND, SKIP))),
        REBALANCES: partition.counts.rebalances,
        DEPARTURES: Counter(partition.counts.departures),
        REVOCATION_TIMEOUTS: Counter(partition.counts.revocation_timeouts),
    }


def rewinds_of(findings: CommitFindings, losses: Losses) -> Counter[Labels]:
    """Return the number of rewinds that ``audit`` finds, by group and topic."""
    times = {rewinds.key: rewinds.times for rewinds in findings.rewinds}
    counts: Counter[Labels] = Counter()
    for number, (group, topic, _) in findings.keys.items(times):
        counts[group, topic] += times[number]
    for row in across_removals(losses.parts["removals"], None, None, AUDIT.rewind_by):
        counts[row["group_id"], row["topic"]] += 1
    return counts


def plus(totals: Totals, others: Totals, sign: int = 1) -> Totals:
    """Return sums, or differences, without those of 0."""
    sums: Totals = {}
    for kind in KINDS:
        of_kind = Counter(totals[kind])
        for labels, count in others[kind].items():
            of_kind[labels] += sign * count
        sums[kind] = Counter({labels: count for labels, count in of_kind.items() if count})
    return sums


def answer_of(partition: LivePartition, carried: Totals) -> Answer:
    """Return what is shown of a partition, with the totals that are carried on."""
    view = partition.view()
    totals = plus(counted(partition, view), carried)
    rows = list(metrics.rows(view, METRICS))
    lost = lost_rows(rows, totals)
    put_totals([*rows, *lost], totals)
    findings: Counter[Labels] = Counter()
    for row in audit.rows(view, AUDIT):
        findings[row["group_id"], row["kind"]] += 1
    return Answer(rows, totals, findings, view.newest_ms, lost)


def lost_rows(rows: Sequence[Row], totals: Totals) -> list[Row]:
    """Return rows, without counts yet, of the groups and keys that are in no row."""
    shown = {(row["group_id"], row["topic"], row["partition"]) for row in rows}
    keys = {*totals[COMMITS], *totals[SKIPPED]} - shown
    groups = {labels[0] for counts in totals.values() for labels in counts}
    keys |= {(group, None, None) for group in groups} - shown
    timed_out = totals[REVOCATION_TIMEOUTS]
    return [
        {
            **dict.fromkeys(metrics.FIELDS),
            **{"group_id": group, "topic": topic, "partition": partition},
            REVOCATION_TIMEOUTS: 0 if topic is None and (group,) in timed_out else None,
        }
        for group, topic, partition in sorted(keys, key=str)
    ]


def put_totals(rows: list[Row], totals: Totals) -> None:
    """Set the counts of rows, which are of what the log still has, to totals."""
    by_group: dict[str, Counter[str]] = {}
    for kind in (COMMITS, SKIPPED, REBALANCES, REVOCATION_TIMEOUTS):
        for labels, count in totals[kind].items():
            by_group.setdefault(labels[0], Counter())[kind] += count
    for row in rows:
        if row["topic"] is None:
            of_group = by_group.get(row["group_id"], Counter())
            row |= {kind: of_group[kind] for kind in (COMMITS, SKIPPED, REBALANCES)}
            if row[REVOCATION_TIMEOUTS] is not None:  # a consumer group
                row[REVOCATION_TIMEOUTS] = of_group[REVOCATION_TIMEOUTS]
        else:
            key = row["group_id"], row["topic"], row["partition"]
            row |= {kind: totals[kind][key] for kind in (COMMITS, SKIPPED)}
