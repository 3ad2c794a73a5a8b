"""When a partition of the topic had no coordinator, as far as its log and a server log show it.

Three kinds of evidence count:

- A server log has a line about the loading of the partition.
- A batch has a higher leader epoch than the one before: a leader took the partition over.
- Silence: several groups wrote steadily, then there was no record of any group, then members of
  several groups left at the same time. When a coordinator is back, it evicts all members that have
  not come back. Silence may have other reasons, so it is reported as silence.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from coterie.base.times import format_time
from coterie.insight.groups.causes import counted, who
from coterie.insight.groups.rebalances import is_rebalance
from coterie.insight.records.partition_view import PartitionView
from coterie.insight.records.record_columns import Array, RecordColumns
from coterie.insight.tables import duration

CHANGE, SILENCE = "coordinator_change", "silence"
STEADY = 20  # batches before a silence that decide how steady the writing was
TIMES_LONGER = 10  # a silence is longer than the longest pause between those batches
LEAST_MS = 5_000
BACK_MS = 60_000  # after a silence: longer than usual sessions, so absent members were evicted
AT_ONCE_MS = 1_000
NAMED = 5  # members
SESSION_MS = 45_000  # a newer group's, group.consumer.session.timeout.ms: the broker's alone
REJOIN_MS = 3_000  # a heartbeat interval: remaining members learn of the rebalance within it
GONE = ("left_or_evicted", "evicted", "restarted", "restarted_evicted")
BACK = "a broker restarted or the partition moved, and the groups were loaded"
Row = dict[str, Any]


@dataclass(frozen=True)
class Outage:
    """A period in which a partition may have had no coordinator.

    Attributes
    ----------
    event : str
        ``CHANGE`` or ``SILENCE``.
    shown_by : str
        The evidence, as text.
    from_ms, until_ms : int
        The times of the records before and after it.
    usual_ms : int or None
        The longest pause between the batches before it; None: too few batches.
    whole : bool
        Whether the log has all records since then; False: it was compacted.
    log_offset, file, position
        The first record after it.
    back_ms : int
        The time of the last record of the batch after it.
    """

    event: str
    shown_by: str
    from_ms: int
    until_ms: int
    usual_ms: int | None
    whole: bool
    log_offset: int
    file: str
    position: int
    back_ms: int

    def as_row(self) -> Row:
        """Return the outage as a row of ``explain``."""
        pause_ms = max(self.until_ms - self.from_ms, 0)
        pause = f"no record of any group for {duration(pause_ms)}"
        if not self.whole:
            pause = "the records of that time are compacted"
        elif self.usual_ms is not None:
            pause += f" (before, {duration(self.usual_ms)} at most)"
        return {
            "event": self.event,
            "timestamp": self.from_ms,
            "until": self.until_ms,
            "log_offset": self.log_offset,
            "duration_ms": pause_ms if self.whole else None,
            "cause": f"{self.shown_by}; {pause}",
            "file": self.file,
            "position": self.position,
        }


class OutageDetector:
    """Finds outages in the pieces of a partition's log, from the batches of all groups.

    Parameters
    ----------
    since_ms
        From when on the log has all records; None: from its start.
    loads
        When (epoch ms) a broker finished loading the partition.
    """

    COLUMNS = frozenset[str]()

    def __init__(self, since_ms: int | None, loads: Iterable[int]) -> None:
        self.since_ms = since_ms
        self.loads = sorted(loads)
        self.count = 0  # batches that have records
        self.latest = -1  # the greatest time so far
        self.last = RecentBatches(*(np.empty(0, np.int64) for _ in RecentBatches._fields))
        self.changed: dict[int, Outage | None] = {}
        self.loaded: dict[int, tuple[int, Outage | None]] = {}  # load -> the batch after it
        self.silent: list[tuple[int, Outage | None]] = []

    def take(self, records: RecordColumns) -> None:
        rows = records.batches[records.batches["records"] > 0]
        if not len(rows):
            return
        new = Batches(
            rows["until_ms"],
            rows["leader_epoch"],
            rows["group"],
            rows["from_ms"],
            rows["log_offset"],
            np.full(len(rows), records.file_number),
            rows["position"],
        )
        begin = len(self.last.time)
        time = np.append(self.last.time, new.time)
        batches = RecentBatches(
            time,
            np.append(self.last.epoch, new.epoch),
            np.append(self.last.group, new.group),
            np.append(self.last.pause, np.diff(time, prepend=time[:1])[begin:]),
        )
        window = BatchWindow(batches, self.count - begin, new, records.files, begin, self.since_ms)
        for at, at_ms in self._loaded(new.time):
            evidence = f"a broker had loaded the groups at {format_time(at_ms)} [server log]"
            self.loaded[at_ms] = at, window.outage(at, CHANGE, evidence)
        for at, old_epoch, new_epoch in window.changes():
            evidence = f"the partition's leader epoch went from {old_epoch} to {new_epoch}: {BACK}"
            self.changed[at] = window.outage(at, CHANGE, evidence)
        self.silent += [(at, window.outage(at, SILENCE, "")) for at in window.silences()]
        self.count += len(new.time)
        self.last = RecentBatches(*(column[-STEADY - 1 :] for column in batches))

    def _loaded(self, times: Array) -> Iterator[tuple[int, int]]:
        """Yield the first batch after each load during these batches, and the time of the load."""
        reached = np.maximum.accumulate(np.append(self.latest, times))[1:]
        self.latest = int(reached[-1])
        while self.loads and self.loads[0] <= self.latest:
            at_ms = self.loads.pop(0)
            yield self.count + int(np.searchsorted(reached, at_ms)), at_ms

    def outages(self, view: PartitionView) -> list[Outage]:
        """Return all outages in log order; call it after the last piece."""
        outages_at = self.changed | dict(self.loaded.values())
        silences = [
            (at, silence)
            for at, silence in self.silent
            if at not in outages_at and silence is not None
        ]
        all_departures = departures(view.whole()) if silences else []
        for at, silence in silences:
            group_count = groups_that_lost_members(all_departures, silence.back_ms)
            if group_count > 1:
                evidence = f"members of {group_count} groups went at once after a silence: perhaps "
                evidence += "there was no coordinator, and it ended their sessions when it was back"
                outages_at[at] = replace(silence, shown_by=evidence)
        return [outage for _, outage in sorted(outages_at.items()) if outage is not None]


class RecentBatches(NamedTuple):
    """Columns of batches: last record's time, leader epoch, first group, pause before."""

    time: Array
    epoch: Array
    group: Array
    pause: Array


class Batches(NamedTuple):
    """As ``RecentBatches``, with the time and position of each batch's first record."""

    time: Array
    epoch: Array
    group: Array
    first_ms: Array
    log_offset: Array
    file: Array
    position: Array


@dataclass(frozen=True, eq=False)
class BatchWindow:
    """The batches of a piece, after some of the batches before it.

    Attributes
    ----------
    batches : RecentBatches
        All of these batches.
    base : int
        The number of the first one; batches are numbered over all pieces.
    new, files
        The piece's batches, and the file names.
    begin : int
        The index in ``batches`` of the piece's first batch.
    since_ms
        As for :class:`OutageDetector`.
    """

    batches: RecentBatches
    base: int
    new: Batches
    files: list[str]
    begin: int
    since_ms: int | None

    def changes(self) -> Iterator[tuple[int, int, int]]:
        """Yield the batches with a higher leader epoch than the one before, with both epochs."""
        epoch = self.batches.epoch
        rose = (np.diff(epoch) > 0) & (epoch[:-1] >= 0)
        for at in (np.flatnonzero(rose) + 1).tolist():
            if at >= self.begin:
                yield self.base + at, int(epoch[at - 1]), int(epoch[at])

    def silences(self) -> Iterator[int]:
        """Yield the batches after a long pause, if several groups wrote steadily before it."""
        pause = self.batches.pause
        for local in (np.flatnonzero(pause[self.begin :] >= LEAST_MS) + self.begin).tolist():
            at = self.base + local
            usual = self.usual_ms(at)
            before = self.batches.group[max(at - STEADY, 0) - self.base : local]
            steady = usual is not None and pause[local] > TIMES_LONGER * usual
            if steady and len(set(before.tolist()) - {-1}) > 1:
                yield at

    def is_whole(self, at: int) -> bool:
        """Whether the log has all records since the batch before ``at``."""
        before = self.batches.time[at - 1 - self.base]
        return self.since_ms is None or bool(before >= self.since_ms)

    def usual_ms(self, at: int) -> int | None:
        """Return the longest pause between the batches before ``at``; None: too few batches."""
        before = self.batches.pause[max(at - STEADY, 1) - self.base : at - self.base]
        known = len(before) >= STEADY // 2 and self.is_whole(at)
        return int(before.max()) if known else None

    def outage(self, at: int, event: str, shown_by: str) -> Outage | None:
        """Return the outage that ended with a batch; None: its times are not known."""
        if at == 0:
            return None
        row = at - self.base - self.begin
        times = int(self.batches.time[at - 1 - self.base]), int(self.new.first_ms[row])
        if min(times) < 0:
            return None
        return Outage(
            event,
            shown_by,
            *times,
            self.usual_ms(at),
            self.is_whole(at),
            int(self.new.log_offset[row]),
            self.files[int(self.new.file[row])],
            int(self.new.position[row]),
            int(self.batches.time[at - self.base]),
        )


def departures(view: PartitionView) -> list[tuple[int, str]]:
    """Return the time and group of each departure, by time."""
    return sorted(
        (row["timestamp"], history.group)
        for history in view.histories.values()
        for row in history.generations
        if row["left"] and not row["tombstone"] and row["timestamp"] is not None
    )


def groups_that_lost_members(departed: list[tuple[int, str]], since_ms: int) -> int:
    """Return the number of groups that lost members at the same time, soon after a given time."""
    first = bisect_left(departed, (since_ms, ""))
    shortly_after = [
        departure for departure in departed[first:] if departure[0] <= since_ms + BACK_MS
    ]
    return max(
        (
            len({group for at_ms, group in shortly_after[index:] if at_ms <= began + AT_ONCE_MS})
            for index, (began, _) in enumerate(shortly_after)
        ),
        default=0,
    )


def outage_row(outage: Outage, events: Iterable[Row], waits_ms: int) -> Row:
    """Return an outage as a row of a group, with the members that were evicted after it.

    ``events`` are the group's, in order. ``waits_ms`` is the longest time after a load until an
    absent member is evicted. If no member left a generation, all its members have come back.
    """
    lost: dict[str, None] = {}
    for row in events:
        at_ms = row["timestamp"]
        if at_ms is None or not outage.until_ms <= at_ms <= outage.until_ms + waits_ms:
            continue
        lost_here = [cause for cause in row.get("causes", ()) if cause["what"] in GONE]
        if is_rebalance(row) and not lost_here:
            break
        lost |= dict.fromkeys(map(who, lost_here))
    row = outage.as_row()
    if lost:
        names = list(lost)[:NAMED]
        names += [f"{counted(len(lost) - NAMED, 'other')}"] if len(lost) > NAMED else []
        verb = "was" if len(lost) == 1 else "were"
        row["cause"] += f"; soon after, {', '.join(names)} left or {verb} evicted"
    return row


def rejoin_bound_ms(state: Mapping[str, Any] | None) -> int:
    """Return the longest time (ms) after a load until an absent member is evicted."""
    members = () if state is None else state["members"]
    sessions = [member["session_timeout_ms"] for member in members]
    return max(sessions, default=SESSION_MS) + REJOIN_MS
