"""Count the commits between the events of each group, piece by piece.

The first reading of the log has found the events of each group: its metadata records. A span is the
time between two events. It is cut at the time from which the log is complete, and at the time from
which the request asks. Only sums are stored for each span.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.base.caching import cached_property
from coterie.insight.offsets.last_commits import CommitTimes, LastCommits
from coterie.insight.offsets.rewinds import CommitRequests, OffsetChanges, Rewinds, is_plain
from coterie.insight.offsets.undone_transactions import UndoneTransactions
from coterie.insight.records.key_index import LOW, Keys, Table
from coterie.insight.records.partition_view import PartitionView
from coterie.insight.records.record_columns import (
    ABORTED,
    COMMIT,
    COMMIT_TO_OTHER_TOPIC,
    KIND,
    PENDING,
    Array,
    RecordColumns,
    is_before,
    is_early,
)
from coterie.insight.records.runs import NEVER, Runs, first_in_batch, runs_of, times_of

CUTS = 4  # spans between two events: each of two times may cut them
NOW = CUTS - 1  # after both
Row = dict[str, Any]


@dataclass(frozen=True)
class Span:
    """Neighbouring commits of a group.

    Attributes
    ----------
    rows : int
        Commits of any outcome; 0: the other fields are meaningless.
    first_ms : int or None
        The time of the first record; None: it has none.
    from_ms, until_ms : int or None
        The least and the greatest time.
    log_offset, file, position
        The first record.
    count, requests : int
        The number of effective commits, and of their batches.
    partitions : int
        The number of partitions with a commit of any outcome.
    aborted, pending : int
        The number of commits of aborted and of open transactions.
    aborted_transactions, pending_transactions : int
        The number of these transactions.
    topics : tuple of str
        The topics, sorted.
    resets : CommitRequests
        The requests that set offsets back.
    """

    rows: int
    first_ms: int | None
    from_ms: int | None
    until_ms: int | None
    log_offset: int
    file: str
    position: int
    count: int
    requests: int
    partitions: int
    aborted: int
    pending: int
    aborted_transactions: int
    pending_transactions: int
    topics: tuple[str, ...]
    resets: CommitRequests


Between = tuple[Span, "Row | None"]
"""Commits, and the event after them; None: no event follows."""


class CommitSpans:
    """Counts the commits of a partition, piece by piece.

    Parameters
    ----------
    view
        The partition.
    events
        The events of each group, in log order.
    """

    COLUMNS = frozenset({"previous_offset"})
    SUMS = ("rows", "count", "requests", "aborted", "pending")
    FIRST = ("first_ms", "log_offset", "file", "position")

    def __init__(self, view: PartitionView, events: Mapping[str, Sequence[Row]]) -> None:
        self.cut_times_ms = view.trusted_from_ms, view.since_ms
        self.since_begin = view.since_begin
        self.events = events
        self.numbers = {group: number for number, group in enumerate(events)}
        self.number_of = np.empty(0, np.int64)  # by the scan's group numbers
        counts = [len(theirs) for theirs in events.values()]
        self.first_event = np.cumsum([0, *counts])
        offsets = [row["log_offset"] for theirs in events.values() for row in theirs]
        self.offsets, rank = np.unique(np.array(offsets, np.int64), return_inverse=True)
        of_group = np.repeat(np.arange(len(counts)), counts)
        self.codes = of_group * (len(self.offsets) + 1) + rank  # group and offset
        self.spans_of = Table(
            **dict.fromkeys(self.SUMS, (np.int64, 0)),
            **dict.fromkeys(self.FIRST, (np.int64, -1)),
            from_ms=(np.int64, NEVER),
            until_ms=(np.int64, -1),
        )
        self.spans_of.fit((len(offsets) + len(counts)) * CUTS)
        self.groups = Table(count=(np.int64, 0), requests=(np.int64, 0))
        self.groups.fit(len(counts))
        self.keys = Keys()
        self.span_of_key = Table(span=(np.int32, -1))  # the last span of the key
        self.span_keys: list[Array] = []  # span and key as one number, once for each pair
        self.last_commits = LastCommits()
        self.rewinds = Rewinds(self._may_be_reset(), self.keys)
        self.undone = UndoneTransactions()
        self.files: list[str] = []

    def _may_be_reset(self) -> Array:
        """Return which spans follow an event that leaves the group without members; bool."""
        without_members = [
            after is not None and not after["member_count"]
            for of_group in self.events.values()
            for after in (None, *of_group)
        ]
        return np.repeat(np.array(without_members, dtype=np.bool_), CUTS)

    def take(self, records: RecordColumns) -> None:
        self.keys.scan, self.files = records.scan, records.files
        cut = self._cuts(records)
        runs = runs_of(records, *cut)
        ms = times_of(runs.first, records.timestamp)
        span, group = self._spans(records, runs, cut)
        in_spans = np.flatnonzero(span >= 0)
        rows_in_span = np.repeat(span.astype(np.int32), runs.size)
        runs, span, group = runs.select(in_spans), span[in_spans], group[in_spans]
        self.undone.take(records, runs, span)
        if not len(in_spans):
            return
        self._store_span_keys(records, rows_in_span)
        self.last_commits.take(records, rows_in_span, len(self.keys))
        self._sum(records, runs, span, group)
        np.minimum.at(self.spans_of["from_ms"], span, ms[0][in_spans])
        np.maximum.at(self.spans_of["until_ms"], span, ms[1][in_spans])
        self._look_for_resets(records, runs, span)

    def _cuts(self, records: RecordColumns) -> list[Array]:
        """Return the cut of the span that each record is in; [] without cutting times."""
        if self.cut_times_ms == (None, None):
            return []
        trusted_from_ms, since_ms = self.cut_times_ms
        after = (
            ~is_before(records.timestamp, trusted_from_ms),
            ~is_early(records, since_ms, self.since_begin),
        )
        return [2 * after[0].astype(np.int8) + after[1]]

    def _spans(
        self, records: RecordColumns, runs: Runs, cut: Sequence[Array]
    ) -> tuple[Array, Array]:
        """Return the numbers of each run's span (-1: no commits) and group.

        No event lies within a run, since events are records of another kind.
        """
        new = records.groups[len(self.number_of) :]
        self.number_of = np.append(self.number_of, [self.numbers.get(name, -1) for name in new])
        group = np.append(self.number_of, -1).astype(np.int64)[runs.group]
        rank = np.searchsorted(self.offsets, records.log_offset[runs.first])
        before = np.searchsorted(self.codes, group * (len(self.offsets) + 1) + rank)
        span = (before + group) * CUTS  # a group has one span more than events
        span += cut[0][runs.first] if cut else NOW
        return np.where((runs.kind == KIND["offset"]) & (group >= 0), span, -1), group

    def _sum(self, records: RecordColumns, runs: Runs, span: Array, group: Array) -> None:
        sums = self.spans_of
        new = np.flatnonzero(sums["rows"][span] == 0)[::-1]  # the first last
        for name, column in (
            ("first_ms", records.timestamp),
            ("log_offset", records.log_offset),
        ):
            sums[name][span[new]] = column[runs.first[new]]
        sums["file"][span[new]] = records.file_number
        sums["position"][span[new]] = records.batches["position"][runs.batch[new]]
        effective = runs.effective_commits()
        for name, chosen in (
            ("rows", slice(None)),
            ("count", effective),
            ("aborted", runs.outcome == ABORTED),
            ("pending", runs.outcome == PENDING),
        ):
            sums.add(name, span[chosen], runs.size[chosen])
        first = first_in_batch(runs.batch[effective], span[effective])
        sums.add("requests", span[effective][first])
        counted = effective & (span % CUTS == NOW)
        self.groups.add("count", group[counted], runs.size[counted])
        first = first_in_batch(runs.batch[counted], group[counted])
        self.groups.add("requests", group[counted][first])

    def _store_span_keys(self, records: RecordColumns, span: Array) -> None:
        """Store the span and key of each record whose key was last in another span."""
        self.span_of_key.fit(max(len(self.keys), 1))
        last_span = self.span_of_key["span"]
        keys = records.key.astype(np.intp)
        changed = np.flatnonzero(last_span[keys] != span)
        changed = changed[span[changed] >= 0]
        if len(changed):
            keys, span = keys[changed], span[changed]
            self.span_keys.append(np.unique((span.astype(np.int64) << 32) | keys))
            last_span[keys] = span

    def _look_for_resets(self, records: RecordColumns, runs: Runs, span: Array) -> None:
        """Examine the requests that may set offsets back, each one as a whole."""
        effective = runs.effective_commits()
        plain = is_plain(records.batches)[runs.batch]
        candidates = effective & plain & self.rewinds.every[span]
        is_back = (records.previous == COMMIT) & (records.offset < records.previous_offset)
        anew = records.previous == COMMIT_TO_OTHER_TOPIC
        backward = np.flatnonzero((is_back & ~records.tombstone) | anew)
        candidates[np.searchsorted(runs.first, backward, "right") - 1] = True
        if not candidates.any():
            return
        request = (span << 32) | runs.batch
        selected = np.isin(request, request[candidates]) & effective
        runs = runs.select(selected)
        of_rows = np.repeat(span[selected], runs.size)
        self.rewinds.take(OffsetChanges.of(records, runs.rows(), of_rows))

    def counted(self, group: str) -> tuple[int, int]:
        """Return the numbers of a group's effective commits and batches in the requested time."""
        number = self.numbers[group]
        return int(self.groups["count"][number]), int(self.groups["requests"][number])

    @cached_property
    def places(self) -> Places:
        return Places.of(self.keys, self.span_keys)

    @cached_property
    def commit_times(self) -> CommitTimes:
        """The last commit of each partition in each span."""
        return self.last_commits.by_span(self.keys)

    def last_before(self, group: str, place: int) -> dict[tuple[str, int], int]:
        """Return the last commit (ms) of each partition since the event before an event.

        ``place``: the event's index in the group's events.
        """
        number = self.numbers[group]
        first = (int(self.first_event[number]) + number + place) * CUTS
        return self.commit_times.of_spans(first, first + CUTS)

    def spans(self, group: str) -> list[Between]:
        """Return the commits before each event of a group, and those after the last.

        If a span is cut at a time, only its last part has the event.
        """
        spans: list[Between] = []
        number = self.numbers[group]
        first = (int(self.first_event[number]) + number) * CUTS
        events = (*self.events[group], None)
        stop = first + len(events) * CUTS
        names = list(self.spans_of.columns)
        columns = [self.spans_of[name][first:stop].tolist() for name in names]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        for place, event in enumerate(events):
            numbers = range(place * CUTS, (place + 1) * CUTS)
            used = [at for at in numbers if rows[at]["rows"]] or [numbers[0]]
            spans += [(self._span(first + at, rows[at]), None) for at in used[:-1]]
            spans.append((self._span(first + used[-1], rows[used[-1]]), event))
        return spans

    def _span(self, number: int, sums: dict[str, int]) -> Span:
        file, first_ms, from_ms = sums.pop("file"), sums.pop("first_ms"), sums.pop("from_ms")
        until_ms = sums.pop("until_ms")
        partitions, topics = self.places.of_span(number) if sums["rows"] else (0, ())
        return Span(
            **sums,
            first_ms=None if first_ms < 0 else first_ms,
            from_ms=None if until_ms < 0 else from_ms,
            until_ms=None if until_ms < 0 else until_ms,
            file=self.files[file] if file >= 0 else "",
            partitions=partitions,
            topics=topics,
            aborted_transactions=self.undone.aborted(number),
            pending_transactions=self.undone.pending(number),
            resets=self.rewinds.of(number),
        )


@dataclass(frozen=True, eq=False)
class Places:
    """The topics and partitions of each span, by name: two raw names may decode to the same text.

    Attributes
    ----------
    spans : int64
        The span of each pair of span and topic, ascending.
    topics : int64
        The topic's index in ``names``.
    partitions : int64
        The number of the topic's partitions in the span.
    names : list of str
        The topic names.
    """

    spans: Array
    topics: Array
    partitions: Array
    names: list[str]

    @classmethod
    def of(cls, keys: Keys, span_keys: Sequence[Array]) -> Places:
        """Make it from pairs of span and key, at least one, each stored as one number."""
        names = keys.topic_names
        number: dict[str, int] = {}
        by_name = np.array([number.setdefault(name, at) for at, name in enumerate(names)], np.int64)
        codes = np.concatenate(span_keys)
        of_keys = keys.entries[codes & LOW]
        span, topic, partition = codes >> 32, by_name[of_keys["topic"]], of_keys["partition"]
        order = np.lexsort((partition, topic, span))
        span, topic, partition = span[order], topic[order], partition[order]
        starts = np.ones(len(order), dtype=np.bool_)  # topic, then partition
        starts[1:] = (span[1:] != span[:-1]) | (topic[1:] != topic[:-1])
        first = np.flatnonzero(starts)
        starts[1:] |= partition[1:] != partition[:-1]
        counts = np.add.reduceat(starts, first, dtype=np.int64) if len(first) else first
        return cls(span[first], topic[first], counts, names)

    def of_span(self, number: int) -> tuple[int, tuple[str, ...]]:
        """Return the number of a span's partitions, and its topics, sorted."""
        first, stop = np.searchsorted(self.spans, (number, number + 1)).tolist()
        names = sorted(self.names[topic] for topic in self.topics[first:stop].tolist())
        return int(self.partitions[first:stop].sum()), tuple(names)
