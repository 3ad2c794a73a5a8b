"""What was committed between the events of each group's life, counted while the pieces go by.

A group's events are known beforehand: its metadata records, a first reading has found them. So a
commit belongs to a span: between two events, and before or after the times at which compaction
ends and at which what is asked for begins. Kept are the sums of each span.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from coterie.insight.commits import ABORTED, COMMITTED, KIND, PENDING, Array, Commits, is_before
from coterie.insight.facts import PartitionFacts
from coterie.insight.keys import Key, Table, sorted_by
from coterie.insight.rewinds import Requests, Rewinds
from coterie.insight.steps import Steps, Walk

CUTS = 4  # spans between two events: before or after each of two times
NEVER = np.iinfo(np.int64).max
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


class Waiting(NamedTuple):
    """Requests of a part that are looked at once the part before is there."""

    commits: Commits
    steps: Steps
    span: Array


class Committed:
    """Counts the commits of a partition, piece by piece.

    Parameters
    ----------
    facts
        The partition.
    events
        Of each group, in order of the log.
    """

    SUMS = ("rows", "count", "requests", "aborted", "pending", "gone")

    def __init__(self, facts: PartitionFacts, events: Mapping[str, Sequence[Row]]) -> None:
        self.trusted_from_ms, self.since_ms = facts.trusted_from_ms, facts.since_ms
        self.begins_ms = facts.begins_ms
        self.events = events
        self.numbers = {group: number for number, group in enumerate(events)}
        counts = [len(theirs) for theirs in events.values()]
        self.first_event = np.cumsum([0, *counts])
        offsets = [row["log_offset"] for theirs in events.values() for row in theirs]
        self.offsets, rank = np.unique(np.array(offsets, np.int64), return_inverse=True)
        of_group = np.repeat(np.arange(len(counts)), counts)
        self.codes = of_group * (len(self.offsets) + 1) + rank  # of group and offset: they rise
        self.spans_of = Table(
            **dict.fromkeys(self.SUMS, (np.int64, 0)),
            **dict.fromkeys(("first_ms", "log_offset", "file", "position"), (np.int64, -1)),
            from_ms=(np.int64, NEVER),
            until_ms=(np.int64, -1),
        )
        self.spans_of.fit((len(offsets) + len(counts)) * CUTS)
        self.groups = Table(count=(np.int64, 0), requests=(np.int64, 0))
        self.groups.fit(len(counts))
        self.walk = Walk()
        self.keys = self.walk.keys
        self.seen_in = Table(span=(np.int64, -1))
        self.keys_of: dict[int, list[Array]] = {}  # of each span, each key at least once
        self.rewinds = Rewinds(self._may_be_reset())
        self.in_parts = facts.parts is not None
        self.waiting: list[Waiting] = []
        self.files: list[str] = []
        self.names: dict[int, Key] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: it tells nothing of events."""
        return self.__dict__ | {"events": {}}

    def _hold_back(self, commits: Commits, steps: Steps, span: Array) -> Steps:
        """Keep requests with a key's first commit: what was before it is another part's.

        The other steps are returned.
        """
        batch = commits.batch[steps.order]
        held = np.isin(batch, batch[steps.unseen])
        rows = np.zeros(len(commits), dtype=np.bool_)
        rows[steps.order[held]] = True
        theirs = steps.select(held)
        theirs = replace(theirs, order=(np.cumsum(rows) - 1)[theirs.order])
        self.waiting.append(Waiting(commits.select(rows).alone(), theirs, span[rows]))
        return steps.select(~held)

    def absorb(self, later: Committed) -> None:
        """Go on with what follows; see ``tallies``."""
        self.files = max(self.files, later.files, key=len)
        self._absorb_sums(later.spans_of)
        for name in later.groups.columns:
            self.groups[name][:] += later.groups[name]
        numbers = self.keys.absorb(later.keys)
        self.walk.held.fit(len(self.keys))
        for span, found in later.keys_of.items():
            keys = numbers[np.unique(np.concatenate(found))]
            self.keys_of.setdefault(span, []).append(keys)
        for commits, steps, span_of in later.waiting:
            self.rewinds.take(commits, self.walk.follow(steps, numbers, commits), span_of)
        self.rewinds.absorb(later.rewinds)
        self.walk.absorb(later.walk)

    def _absorb_sums(self, later: Table) -> None:
        sums = self.spans_of
        there = np.flatnonzero(later["rows"])
        new = there[sums["rows"][there] == 0]
        for name in ("first_ms", "log_offset", "file", "position"):
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

    def take(self, records: Commits) -> None:
        """Count the next piece."""
        commits = records.only_commits()
        if not len(commits):
            return
        self.files = commits.files
        names = np.array([self.numbers.get(name, -1) for name in commits.groups], np.int64)
        group = names[commits.group]
        span = self._spans(commits, group)
        self._sum(commits, span)
        keys = self.keys.of(commits, np.arange(len(commits)))
        self._note_keys(keys, span)
        steps = self.walk.take(commits, keys)
        if self.in_parts and steps.unseen.any():
            steps = self._hold_back(commits, steps, span)
        self.rewinds.take(commits, steps, span)
        told = ~is_before(commits.timestamp, self.begins_ms)
        told &= (commits.outcome == COMMITTED) & (commits.kind == KIND["offset"])
        self.groups.add("count", group[told])
        self.groups.add("requests", group[told][first_of_batches(commits, told, group)])

    def _spans(self, commits: Commits, group: Array) -> Array:
        """Return the number of each commit's span."""
        rank = np.searchsorted(self.offsets, commits.log_offset)
        before = np.searchsorted(self.codes, group * (len(self.offsets) + 1) + rank)
        span: Array = (before + group) * CUTS  # a group has one span more than events
        for weight, at_ms in ((2, self.trusted_from_ms), (1, self.since_ms)):
            span += weight * ~is_before(commits.timestamp, at_ms)
        return span

    def _sum(self, commits: Commits, span: Array) -> None:
        sums = self.spans_of
        numbers, first = np.unique(span, return_index=True)
        new = sums["rows"][numbers] == 0
        for name, column in (
            ("first_ms", commits.timestamp),
            ("log_offset", commits.log_offset),
            ("file", commits.file),
            ("position", commits.position),
        ):
            sums[name][numbers[new]] = column[first[new]]
        known = commits.timestamp >= 0
        np.minimum.at(sums["from_ms"], span[known], commits.timestamp[known])
        np.maximum.at(sums["until_ms"], span[known], commits.timestamp[known])
        gone = commits.tombstone
        for name, rows in (
            ("rows", slice(None)),
            ("count", ~gone),
            ("gone", gone),
            ("aborted", commits.outcome == ABORTED),
            ("pending", commits.outcome == PENDING),
        ):
            sums.add(name, span[rows])
        sums.add("requests", span[~gone][first_of_batches(commits, ~gone, span)])

    def _note_keys(self, keys: Array, span: Array) -> None:
        """Note which keys have a record in which span, whenever a key's span is another."""
        held = sorted_by(keys, np.arange(len(keys)))
        self.seen_in.fit(len(self.keys))
        now = span[held.order]
        new = np.flatnonzero(now != self.seen_in.before("span", held, now))
        for run in sorted_by(now[new], new).runs():
            self.keys_of.setdefault(int(now[run[0]]), []).append(np.unique(held.keys[run]))

    def counted(self, group: str) -> tuple[int, int]:
        """Return how many commits of a group count that are asked for, and in how many batches."""
        number = self.numbers[group]
        return int(self.groups["count"][number]), int(self.groups["requests"][number])

    def spans(self, group: str) -> list[Between]:
        """Return what was committed before each event of a group, and after the last.

        Where a time cuts what lies between two events, the first part has no event.
        """
        if not self.names:
            self.names = dict(self.keys.items())
        found: list[Between] = []
        number = self.numbers[group]
        first = (int(self.first_event[number]) + number) * CUTS
        for place, event in enumerate((*self.events[group], None)):
            numbers = range(first + place * CUTS, first + (place + 1) * CUTS)
            there = [at for at in numbers if self.spans_of["rows"][at]] or [numbers[0]]
            found += [(self._span(at), None) for at in there[:-1]]
            found.append((self._span(there[-1]), event))
        return found

    def _span(self, number: int) -> Span:
        sums = {name: int(self.spans_of[name][number]) for name in self.spans_of.fields}
        keys = self.keys_of.get(number, [])
        names = [self.names[at] for at in np.unique(np.concatenate(keys)).tolist()] if keys else []
        file, first_ms, from_ms = sums.pop("file"), sums.pop("first_ms"), sums.pop("from_ms")
        until_ms = sums.pop("until_ms")
        return Span(
            **sums,
            first_ms=None if first_ms < 0 else first_ms,
            from_ms=None if until_ms < 0 else from_ms,
            until_ms=None if until_ms < 0 else until_ms,
            file=self.files[file] if file >= 0 else "",
            partitions=len({key[1:] for key in names}),
            topics=tuple(sorted({topic for _, topic, _ in names})),
            asked=self.rewinds.of(number),
        )


def first_of_batches(commits: Commits, among: Array, part: Array) -> Array:
    """Return which of these rows (``among``, bool) are the first of their batch in their part."""
    batch, part = commits.batch[among], part[among]
    order = np.argsort(part, kind="stable")
    found = np.ones(len(order), dtype=np.bool_)
    one, next_ = order[:-1], order[1:]
    found[next_] = (batch[one] != batch[next_]) | (part[one] != part[next_])
    return found
