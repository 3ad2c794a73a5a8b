"""What was committed between the events of each group's life, counted while the pieces go by.

A group's events are known beforehand: its metadata records, a first reading has found them. So a
commit belongs to a span: between two events, and before or after the times at which compaction
ends and at which what is asked for begins. Kept are the sums of each span.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from coterie.insight.offsets.rewinds import Changes, Requests, Rewinds, is_plain
from coterie.insight.records.commit_deltas import absorbed
from coterie.insight.records.key_index import LOW, Keys, Table
from coterie.insight.records.partition_view import PartitionView
from coterie.insight.records.record_columns import (
    ABORTED,
    COMMIT,
    KIND,
    NO_RECORD,
    PENDING,
    Array,
    RecordColumns,
    is_before,
)
from coterie.insight.records.runs import NEVER, Runs, first_in_batch, runs_of, times_of

CUTS = 4  # spans between two events: before or after each of two times
NOW = CUTS - 1  # after both
Row = dict[str, Any]


@dataclass(frozen=True)
class Span:
    """Neighbouring commits of a group.

    Attributes
    ----------
    rows : int
        Records: commits of any outcome, and tombstones; 0: the other fields say nothing.
    first_ms : int or None
        The time of the first; None: it has none.
    from_ms, until_ms : int or None
        The least time and the greatest.
    log_offset, file, position
        The first record.
    count, requests, partitions : int
        Commits, in how many batches, of how many partitions (tombstones' too).
    aborted, pending, gone : int
        Records of transactions that were aborted or are open; tombstones.
    topics : tuple of str
        Sorted.
    asked : Requests
        What set offsets back.
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
    gone: int
    topics: tuple[str, ...]
    asked: Requests


Between = tuple[Span, "Row | None"]
"""Commits, and the event that follows them; None: none does."""


class CommitSpans:
    """Counts the commits of a partition, piece by piece.

    Parameters
    ----------
    view
        The partition.
    events
        Of each group, in order of the log.
    """

    COLUMNS = frozenset({"previous_offset"})
    SUMS = ("rows", "count", "requests", "aborted", "pending", "gone")
    FIRST = ("first_ms", "log_offset", "file", "position")

    def __init__(self, view: PartitionView, events: Mapping[str, Sequence[Row]]) -> None:
        self.times = view.trusted_from_ms, view.since_ms
        self.events = events
        self.numbers = {group: number for number, group in enumerate(events)}
        self.number_of = np.empty(0, np.int64)  # of the groups that the scan numbers
        counts = [len(theirs) for theirs in events.values()]
        self.first_event = np.cumsum([0, *counts])
        offsets = [row["log_offset"] for theirs in events.values() for row in theirs]
        self.offsets, rank = np.unique(np.array(offsets, np.int64), return_inverse=True)
        of_group = np.repeat(np.arange(len(counts)), counts)
        self.codes = of_group * (len(self.offsets) + 1) + rank  # of group and offset: they rise
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
        self.span_of_key = Table(span=(np.int32, -1))  # the last one
        self.noted: list[Array] = []  # span and key, as one number: each key of a span
        self.rewinds = Rewinds(self._may_be_reset(), self.keys)
        self.in_parts = view.in_parts
        self.waiting: list[Changes] = []
        self.files: list[str] = []

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: it tells nothing of events."""
        return self.__dict__ | {"events": {}}

    def absorb(self, later: CommitSpans) -> None:
        """Go on with what follows; see ``aggregates``."""
        self.files = max(self.files, later.files, key=len)
        self._absorb_sums(later.spans_of)
        for name in later.groups.columns:
            self.groups[name][:] += later.groups[name]
        numbers, entries = absorbed(self.keys, later.keys)
        self.noted += [(one & ~LOW) | numbers[one & LOW] for one in later.noted]
        for changes in later.waiting:
            self.rewinds.take(changes.follow(entries, numbers))
        self.rewinds.absorb(later.rewinds)

    def _absorb_sums(self, later: Table) -> None:
        sums = self.spans_of
        there = np.flatnonzero(later["rows"])
        new = there[sums["rows"][there] == 0]
        for name in self.FIRST:
            sums[name][new] = later[name][new]
        for name in self.SUMS:
            sums[name][there] += later[name][there]
        sums["from_ms"][there] = np.minimum(sums["from_ms"][there], later["from_ms"][there])
        sums["until_ms"][there] = np.maximum(sums["until_ms"][there], later["until_ms"][there])

    def _may_be_reset(self) -> Array:
        """Return the spans that follow an event that leaves a group without members."""
        found = [
            after is not None and not after["member_count"]
            for theirs in self.events.values()
            for after in (None, *theirs)
        ]
        return np.repeat(np.array(found, dtype=np.bool_), CUTS)

    def take(self, records: RecordColumns) -> None:
        """Count the next piece."""
        self.keys.scan, self.files = records.scan, records.files
        cut = self._cuts(records)
        runs = runs_of(records, *cut)
        ms = times_of(runs.first, records.timestamp)
        span, group = self._spans(records, runs, cut)
        there = np.flatnonzero(span >= 0)
        if not len(there):
            return
        self._note_keys(records, np.repeat(span.astype(np.int32), runs.size))
        runs, span, group = runs.select(there), span[there], group[there]
        self._sum(records, runs, span, group)
        np.minimum.at(self.spans_of["from_ms"], span, ms[0][there])
        np.maximum.at(self.spans_of["until_ms"], span, ms[1][there])
        self._look_for_resets(records, runs, span)

    def _cuts(self, records: RecordColumns) -> list[Array]:
        """Return which part of its span each record is in, by the times; [] if by none."""
        if self.times == (None, None):
            return []
        after = [~is_before(records.timestamp, at_ms) for at_ms in self.times]
        return [2 * after[0].astype(np.int8) + after[1]]

    def _spans(
        self, records: RecordColumns, runs: Runs, cut: Sequence[Array]
    ) -> tuple[Array, Array]:
        """Return the number of each run's span, -1 where there are no commits, and its group's.

        No event lies within a run: it is a record of another kind.
        """
        new = records.groups[len(self.number_of) :]
        self.number_of = np.append(self.number_of, [self.numbers.get(name, -1) for name in new])
        group = np.append(self.number_of, -1).astype(np.int64)[runs.group]
        rank = np.searchsorted(self.offsets, records.log_offset[runs.first])
        before = np.searchsorted(self.codes, group * (len(self.offsets) + 1) + rank)
        span = (before + group) * CUTS  # a group has one span more than events
        span += cut[0][runs.first] if cut else NOW
        return np.where((runs.kind <= KIND["offset_tombstone"]) & (group >= 0), span, -1), group

    def _sum(self, records: RecordColumns, runs: Runs, span: Array, group: Array) -> None:
        sums = self.spans_of
        new = np.flatnonzero(sums["rows"][span] == 0)[::-1]  # the first is written last
        for name, column in (
            ("first_ms", records.timestamp),
            ("log_offset", records.log_offset),
        ):
            sums[name][span[new]] = column[runs.first[new]]
        sums["file"][span[new]] = records.file_number
        sums["position"][span[new]] = records.batches["position"][runs.batch[new]]
        gone = runs.kind == KIND["offset_tombstone"]
        for name, those in (
            ("rows", slice(None)),
            ("count", ~gone),
            ("gone", gone),
            ("aborted", runs.outcome == ABORTED),
            ("pending", runs.outcome == PENDING),
        ):
            sums.add(name, span[those], runs.size[those])
        first = first_in_batch(runs.batch[~gone], span[~gone])
        sums.add("requests", span[~gone][first])
        told = runs.counting() & (span % CUTS == NOW)
        self.groups.add("count", group[told], runs.size[told])
        first = first_in_batch(runs.batch[told], group[told])
        self.groups.add("requests", group[told][first])

    def _note_keys(self, records: RecordColumns, span: Array) -> None:
        """Note which keys have a record in which span, whenever a key's span is another."""
        self.span_of_key.fit(max(len(self.keys), 1))
        held = self.span_of_key["span"]
        keys = records.key.astype(np.intp)
        new = np.flatnonzero(held[keys] != span)
        new = new[span[new] >= 0]
        if len(new):
            keys, span = keys[new], span[new]
            self.noted.append(np.unique((span.astype(np.int64) << 32) | keys))
            held[keys] = span

    def _look_for_resets(self, records: RecordColumns, runs: Runs, span: Array) -> None:
        """Look at the requests that may be told of, each whole."""
        counting = runs.counting()
        plain = is_plain(records.batches)[runs.batch]
        wanted = counting & plain & self.rewinds.every[span]
        went = np.flatnonzero(records.offset - records.previous_offset < 0)
        went = went[(records.previous[went] == COMMIT) & ~records.tombstone[went]]
        wanted[np.searchsorted(runs.first, went, "right") - 1] = True
        unseen = self._unseen(records, runs) if self.in_parts else np.zeros_like(wanted)
        if not wanted.any() and not unseen.any():
            return
        request = (span << 32) | runs.batch
        held = np.isin(request, request[unseen])
        taken = np.isin(request, request[wanted]) & ~held
        for those, take in ((held, self.waiting.append), (taken, self.rewinds.take)):
            chosen = runs.select(those & counting)
            if len(chosen):
                of_rows = np.repeat(span[those & counting], chosen.size)
                take(Changes.of(records, chosen.rows(), of_rows))

    def _unseen(self, records: RecordColumns, runs: Runs) -> Array:
        """Return the runs with a key's first commit: what was before it is another part's."""
        rows = np.flatnonzero(records.counting & (records.previous == NO_RECORD))
        rows = rows[~records.tombstone[rows]]
        found = np.zeros(len(runs), dtype=np.bool_)
        found[np.searchsorted(runs.first, rows, "right") - 1] = True
        return found

    def counted(self, group: str) -> tuple[int, int]:
        """Return how many commits of a group count that are asked for, and in how many batches."""
        number = self.numbers[group]
        return int(self.groups["count"][number]), int(self.groups["requests"][number])

    @cached_property
    def places(self) -> Places:
        """Which partitions each span has records of."""
        return Places.of(self.keys, self.noted)

    def spans(self, group: str) -> list[Between]:
        """Return what was committed before each event of a group, and after the last.

        Where a time cuts what lies between two events, the first part has no event.
        """
        found: list[Between] = []
        number = self.numbers[group]
        first = (int(self.first_event[number]) + number) * CUTS
        events = (*self.events[group], None)
        stop = first + len(events) * CUTS
        names = list(self.spans_of.columns)
        columns = [self.spans_of[name][first:stop].tolist() for name in names]
        theirs = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        for place, event in enumerate(events):
            numbers = range(place * CUTS, (place + 1) * CUTS)
            there = [at for at in numbers if theirs[at]["rows"]] or [numbers[0]]
            found += [(self._span(first + at, theirs[at]), None) for at in there[:-1]]
            found.append((self._span(first + there[-1], theirs[there[-1]]), event))
        return found

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
            asked=self.rewinds.of(number),
        )


@dataclass(frozen=True, eq=False)
class Places:
    """The topics and partitions of each span, by name: two raw names may read alike.

    Attributes
    ----------
    spans : int64
        Of each topic of a span; they rise.
    topics : int64
        Its number in ``names``.
    partitions : int64
        How many of it there are in the span.
    names : list of str
        Topics.
    """

    spans: Array
    topics: Array
    partitions: Array
    names: list[str]

    @classmethod
    def of(cls, keys: Keys, noted: Sequence[Array]) -> Places:
        """Return those of spans and keys, noted as one number each."""
        names = keys.__getstate__()["topics"]
        number: dict[str, int] = {}
        by_name = np.array([number.setdefault(name, at) for at, name in enumerate(names)], np.int64)
        codes = np.concatenate(noted or [np.empty(0, np.int64)])
        of_keys = keys.entries[codes & LOW]
        span, topic, partition = codes >> 32, by_name[of_keys["topic"]], of_keys["partition"]
        order = np.lexsort((partition, topic, span))
        span, topic, partition = span[order], topic[order], partition[order]
        another = np.ones(len(order), dtype=np.bool_)  # topic, then partition
        another[1:] = (span[1:] != span[:-1]) | (topic[1:] != topic[:-1])
        first = np.flatnonzero(another)
        another[1:] |= partition[1:] != partition[:-1]
        counts = np.add.reduceat(another, first, dtype=np.int64) if len(first) else first
        return cls(span[first], topic[first], counts, names)

    def of_span(self, number: int) -> tuple[int, tuple[str, ...]]:
        """Return how many partitions a span has, and its topics, sorted."""
        first, stop = np.searchsorted(self.spans, (number, number + 1)).tolist()
        names = sorted(self.names[topic] for topic in self.topics[first:stop].tolist())
        return int(self.partitions[first:stop].sum()), tuple(names)
