"""What is counted of a partition, and totals that survive the loss of what was counted.

A count is a function of the log up to some record. When the log loses records (compaction,
retention), the difference between the total before and the new count of the same records is carried
on, so that a total never falls. The same holds after a restart.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from coterie.insight.offsets.commit_findings import REWIND, CommitFindings
from coterie.insight.offsets.loss_counts import loss_counts
from coterie.insight.questions import audit, metrics
from coterie.insight.records.partition_view import PartitionView
from coterie.watch.live_partition import AUDIT, METRICS, LivePartition

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

    ``topic_id``: of the topic that has this record; None: not known.
    """

    next_offset: int
    totals: Totals
    topic_id: str | None = None

    def of(self, topic_id: str | None) -> Mark:
        """Return the mark for a topic: of one that was made again, no record was counted."""
        if None in (topic_id, self.topic_id) or topic_id == self.topic_id:
            return self
        return Mark(0, self.totals, topic_id)


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
    """

    rows: list[Row]
    totals: Totals
    findings: Counter[Labels]
    newest_ms: int


def nothing() -> Totals:
    """Return totals of 0."""
    return {kind: Counter() for kind in KINDS}


def counted(partition: LivePartition, view: PartitionView) -> Totals:
    """Return the counts of the log so far; ``view``: of ``partition``."""
    aggregates = view.parts.aggregates if view.parts is not None else {}
    counts = metrics.commit_counts(view, partition.filter)
    return {
        COMMITS: Counter({key: count for key, (count, _) in counts.items() if count}),
        SKIPPED: Counter(loss_counts(view, aggregates[metrics.LOSSES]).skipped),
        REWINDS: rewinds_of(aggregates[f"{audit.NAME}.{REWIND}"]),
        REBALANCES: partition.counts.rebalances,
        DEPARTURES: Counter(partition.counts.departures),
        REVOCATION_TIMEOUTS: Counter(partition.counts.revocation_timeouts),
    }


def rewinds_of(findings: CommitFindings) -> Counter[Labels]:
    """Return the number of commits that go back, by group and topic."""
    times = {rewinds.key: rewinds.times for rewinds in findings.rewinds}
    counts: Counter[Labels] = Counter()
    for number, (group, topic, _) in findings.keys.items(times):
        counts[group, topic] += times[number]
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
    if partition.counts_all:
        put_totals(rows, totals)
    findings: Counter[Labels] = Counter()
    for row in audit.rows(view, AUDIT):  # last: it changes the aggregates of the view
        findings[row["group_id"], row["kind"]] += 1
    return Answer(rows, totals, findings, view.newest_ms)


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
