"""The times in which a group that had members has none, and what only takes back a reset.

While a group has members, a coordinator accepts commits only from them, and from producers of
transactions. So a plain commit to a group without members is from outside: from a tool that resets
offsets, or from a consumer that assigns partitions to itself. The log cannot tell the two apart,
but a consumer keeps coming: a partition that moves forward more than ``FEW`` times in such a time
is one's.
"""

from __future__ import annotations

import numpy as np

from coterie.insight.groups import protocol_switches
from coterie.insight.records.key_index import Table
from coterie.insight.records.partition_view import PartitionView
from coterie.insight.records.record_columns import COMMIT, Array, RecordColumns

FEW = 2  # steps forward of a partition from outside, between two records of the group


class OutsideSpans:
    """The times in which a group that had members has none, as spans of the log.

    The number of a span is the log offset of the record that begins it, so it stays the same while
    the log grows.
    """

    def __init__(self, view: PartitionView) -> None:
        newer = view.newer_by_group
        self.numbers: dict[str, int] = {}  # of groups that have such a time
        self.number_of = np.empty(0, np.int64)  # by the scan's group numbers
        offsets: list[int] = []
        outside: list[bool] = []
        groups: list[int] = []
        for group in dict.fromkeys([*view.histories, *newer]):
            history = view.histories.get(group)
            events = (
                protocol_switches.joined_rows(history, *protocol_switches.epochs_in(view, group))
                if group in newer or history is None
                else history.generations
            )
            had_members, without = False, []
            for event in events:
                # Only members begin a generation, also those that left before the log begins.
                had_members = had_members or bool(event["member_count"] or event["generation"])
                known = view.is_complete_at(event["timestamp"])
                without.append(had_members and known and not event["member_count"])
            if any(without):
                groups += [len(self.numbers)] * len(events)
                self.numbers[group] = len(self.numbers)
                offsets += [int(event["log_offset"]) for event in events]
                outside += without
        self.offsets, rank = np.unique(np.array(offsets, np.int64), return_inverse=True)
        self.codes = np.array(groups, np.int64) * (len(self.offsets) + 1) + rank
        self.outside = np.array(outside, np.bool_)

    def of(self, records: RecordColumns, rows: Array) -> Array:
        """Return the number of the span that each row is in; -1: the group may have members."""
        new = records.groups[len(self.number_of) :]
        if new:
            numbers = np.array([self.numbers.get(name, -1) for name in new], np.int64)
            self.number_of = np.append(self.number_of, numbers)
        spans = np.full(len(rows), -1, np.int64)
        if not self.numbers:
            return spans
        group = self.number_of[records.group[rows]]
        chosen = np.flatnonzero(group >= 0)
        if len(chosen):
            rank = np.searchsorted(self.offsets, records.log_offset[rows[chosen]])
            base = group[chosen] * (len(self.offsets) + 1)
            at = np.searchsorted(self.codes, base + rank) - 1
            is_outside = (at >= 0) & (self.codes[at] >= base) & self.outside[at]
            begins = self.offsets[self.codes[at] % (len(self.offsets) + 1)]
            spans[chosen] = np.where(is_outside, begins, -1)
        return spans


class TakenBack:
    """Finds the commits that only take back what was set forward while nobody read, piece by piece.

    A group without members reads nothing, so what goes back in such a time is read again only below
    the lowest offset since it lost its members. What a consumer outside of the group sets back, it
    may read again. A transaction, a removal and a topic that is created again begin anew.
    """

    def __init__(self, spans: OutsideSpans) -> None:
        self.spans = spans
        # Of the last time without members with a commit: its number, the lowest offset, the steps.
        self.of_key = Table(span=(np.int64, -1), lowest=(np.int64, 0), forward=(np.int64, 0))

    def take(self, commits: RecordColumns, key_count: int) -> Array:
        """Return which rows are such commits; bool."""
        taken_back = np.zeros(len(commits), np.bool_)
        rows = np.flatnonzero(commits.effective)
        spans = self.spans.of(commits, rows)
        rows, spans = rows[spans >= 0], spans[spans >= 0]
        if not len(rows):
            return taken_back
        self.of_key.fit(key_count)
        order = np.argsort(commits.key[rows], kind="stable")
        rows, spans = rows[order], spans[order]
        keys, offset, before = (
            getattr(commits, name)[rows] for name in ("key", "offset", "previous_offset")
        )
        known = {name: column[keys] for name, column in self.of_key.columns.items()}
        is_first = np.append(True, keys[1:] != keys[:-1])
        span_before = np.where(is_first, known["span"], np.append(-1, spans[:-1]))
        begins = span_before != spans
        plain = (commits.previous == COMMIT) & ~commits.tombstone & ~commits.in_transaction
        plain = plain[rows]

        steps = plain & (offset > before)
        earlier = np.where(is_first & ~begins, known["forward"], 0)
        forward = sums_since(begins | is_first, steps + earlier)

        start = np.where(plain, before, offset)  # the lowest before the first commit of a run
        start = np.where(is_first & plain & ~begins, known["lowest"], start)
        anew = begins | is_first | ~plain
        lowest = lowest_since(anew, np.where(anew, np.minimum(start, offset), offset))
        lowest_before = np.where(anew, start, np.append(0, lowest[:-1]))
        chosen = plain & (offset < before) & (offset >= lowest_before) & (forward <= FEW)
        taken_back[rows[chosen]] = True

        lasts = np.append(is_first[1:], True)
        for name, column in (("span", spans), ("lowest", lowest), ("forward", forward)):
            self.of_key[name][keys[lasts]] = column[lasts]
        return taken_back


def sums_since(begins: Array, numbers: Array) -> Array:
    """Return the sum of numbers since the last element that begins, itself included."""
    sums = np.cumsum(numbers)
    first = np.maximum.accumulate(np.where(begins, np.arange(len(sums)), 0))
    since: Array = sums - sums[first] + numbers[first]
    return since


def lowest_since(begins: Array, numbers: Array) -> Array:
    """Return the lowest number since the last element that begins, itself included."""
    ordered, rank = np.unique(numbers, return_inverse=True)
    base = np.cumsum(begins) * len(ordered)
    lowest: Array = ordered[np.minimum.accumulate(rank - base) + base]
    return lowest
