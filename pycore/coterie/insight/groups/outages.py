"""When a partition of the topic had no coordinator, as far as its log and a server log show it.

Three things show it. A server log says when a broker had loaded the partition. A batch of a higher
leader epoch than the one before says that another leader, or the same one anew, took it over. And
a silence: no record of any group where several had written steadily, and then members of several
groups gone at once, as a coordinator that is back ends the sessions of all who are not. The last
may have other reasons, and is told as what it is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from coterie.insight.groups.causes import counted, who
from coterie.insight.groups.rebalances import is_rebalance
from coterie.insight.records.partition_view import PartitionView
from coterie.insight.records.record_columns import Array, RecordColumns
from coterie.times import format_time

CHANGE, SILENCE = "coordinator_change", "silence"
STEADY = 20  # batches before a silence that say how steady the writing was
HEADS = STEADY + 1  # of a part, that must be looked at with the part before
TIMES_LONGER = 10  # than the longest pause between those
LEAST_MS = 5_000
BACK_MS = 60_000  # after a silence, members that are not back have gone: their session is shorter
AT_ONCE_MS = 1_000
NAMED = 5  # members
SESSION_MS = 45_000  # a newer group's, group.consumer.session.timeout.ms: the broker's alone
REJOIN_MS = 3_000  # a heartbeat interval: then those who stay know, and the rebalance can end
GONE = ("left_or_evicted", "evicted", "restarted", "restarted_evicted")
BACK = "a broker restarted or the partition moved, and the groups were loaded"
Row = dict[str, Any]


@dataclass(frozen=True)
class Outage:
    """A time in which a partition may have had no coordinator.

    Attributes
    ----------
    event : str
        ``CHANGE`` or ``SILENCE``.
    shown_by : str
        What shows it, in words.
    from_ms, until_ms : int
        The records around it.
    usual_ms : int or None
        The longest pause between the batches before it; None: too few of them.
    whole : bool
        Whether the log has all records since then; else it was compacted.
    log_offset, file, position
        The first record after it.
    back_ms : int
        The time of the batch after it: of its last record.
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
        """Return it as a row of ``explain``."""
        pause_ms = max(self.until_ms - self.from_ms, 0)
        pause = f"no record of any group for {pause_ms / 1000:.1f} s"
        if not self.whole:
            pause = "the records of that time are compacted"
        elif self.usual_ms is not None:
            pause += f" (before, {self.usual_ms / 1000:.1f} s at most)"
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


class Watch:
    """Looks for outages while the pieces of a partition's log go by: in the batches of all groups.

    Parameters
    ----------
    since_ms
        From when on the log has all records; None: from its start.
    loads
        When (epoch ms) a broker had loaded the partition.
    in_parts
        Whether another part of the log may lie before: its first batches are kept, to be looked
        at again behind the last ones of that.
    """

    COLUMNS = frozenset[str]()

    def __init__(
        self, since_ms: int | None, loads: Iterable[int] = (), *, in_parts: bool = False
    ) -> None:
        self.since_ms = since_ms
        self.loads = sorted(loads)
        self.in_parts = in_parts
        self.heads: list[Batches] = []
        self.count = 0  # batches that have records
        self.latest = -1  # the greatest time so far
        # Of the last batches: its last row's time, leader epoch, first row's group, pause before.
        self.last = Last(*(np.empty(0, np.int64) for _ in Last._fields))
        self.changed: dict[int, Outage | None] = {}
        self.loaded: dict[int, tuple[int, Outage | None]] = {}  # of each load
        self.silent: list[tuple[int, Outage | None]] = []
        self.files: list[str] = []

    def take(self, records: RecordColumns) -> None:
        """Look through the next piece."""
        batches = records.batches[records.batches["records"] > 0]
        if not len(batches):
            return
        now = Batches(
            batches["until_ms"],
            batches["leader_epoch"],
            batches["group"],
            batches["from_ms"],
            batches["log_offset"],
            np.full(len(batches), records.file_number),
            batches["position"],
        )
        if self.in_parts and self.count < HEADS:
            self.heads.append(Batches(*(column[: HEADS - self.count] for column in now)))
        self._take(now, records.files)

    def _take(self, now: Batches, files: list[str]) -> None:
        """Look through the next batches."""
        begin = len(self.last.time)
        time = np.append(self.last.time, now.time)
        batches = Last(
            time,
            np.append(self.last.epoch, now.epoch),
            np.append(self.last.group, now.group),
            np.append(self.last.pause, np.diff(time, prepend=time[:1])[begin:]),
        )
        piece = Neighbours(batches, self.count - begin, now, files, begin, self.since_ms)
        for at, at_ms in self._loaded(now.time):
            told = f"a broker had loaded the groups at {format_time(at_ms)} [server log]"
            self.loaded[at_ms] = at, piece.outage(at, CHANGE, told)
        for at, was, is_now in piece.changes():
            told = f"the partition's leader epoch went from {was} to {is_now}: {BACK}"
            self.changed[at] = piece.outage(at, CHANGE, told)
        self.silent += [(at, piece.outage(at, SILENCE, "")) for at in piece.silences()]
        self.count += len(now.time)
        self.last = Last(*(column[-STEADY - 1 :] for column in batches))
        self.files = files

    def absorb(self, later: Watch) -> None:
        """Go on with what follows; see ``aggregates``.

        What its first batches show hangs on those here; the others have enough before them.
        """
        base, files = self.count, later.files
        for heads in later.heads:
            self._take(heads, files)
        if later.count <= HEADS:
            return
        whole = [(at, outage) for at, outage in later.changed.items() if at >= HEADS]
        self.changed |= {base + at: outage for at, outage in whole}
        self.silent += [(base + at, outage) for at, outage in later.silent if at >= HEADS]
        reached = [at_ms for at_ms in self.loads if at_ms in later.loaded]
        for at_ms in reached:  # the others had been reached before, or are not yet
            at, outage = later.loaded[at_ms]
            self.loaded[at_ms] = base + at, outage
        self.loads = [at_ms for at_ms in self.loads if at_ms not in later.loaded]
        self.count, self.last = base + later.count, later.last
        self.latest = max(self.latest, later.latest)

    def _loaded(self, times: Array) -> Iterator[tuple[int, int]]:
        """Yield the batch after each load that the piece reaches, and the time of the load."""
        reached = np.maximum.accumulate(np.append(self.latest, times))[1:]
        self.latest = int(reached[-1])
        while self.loads and self.loads[0] <= self.latest:
            at_ms = self.loads.pop(0)
            yield self.count + int(np.searchsorted(reached, at_ms)), at_ms

    def outages(self, view: PartitionView) -> list[Outage]:
        """Return the outages of the log, in its order, once all pieces are through."""
        found = self.changed | dict(self.loaded.values())
        silent = [
            (at, silence) for at, silence in self.silent if at not in found and silence is not None
        ]
        went = departures(view.whole()) if silent else []
        for at, silence in silent:
            groups = went_at_once(went, silence.back_ms)
            if groups > 1:
                told = f"members of {groups} groups went at once after a silence: perhaps there "
                told += "was no coordinator, and it ended their sessions when it was back"
                found[at] = replace(silence, shown_by=told)
        return [outage for _, outage in sorted(found.items()) if outage is not None]


class Last(NamedTuple):
    """Neighbouring batches: a last row's time, leader epoch, first row's group, pause before."""

    time: Array
    epoch: Array
    group: Array
    pause: Array


class Batches(NamedTuple):
    """Batches as ``Last`` has them, with the time and place of the first record of each."""

    time: Array
    epoch: Array
    group: Array
    first_ms: Array
    log_offset: Array
    file: Array
    position: Array


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The batches of a piece, behind some of those before it.

    Attributes
    ----------
    batches : Last
        Of both.
    base : int
        The number of the first of them; batches are numbered over all pieces.
    now, files
        The piece's batches, and the names of files.
    begin : int
        Where its batches begin among ``batches``.
    since_ms
        As of :class:`Watch`.
    """

    batches: Last
    base: int
    now: Batches
    files: list[str]
    begin: int
    since_ms: int | None

    def changes(self) -> Iterator[tuple[int, int, int]]:
        """Yield the batches of a higher leader epoch than the one before, with both epochs."""
        epoch = self.batches.epoch
        rose = (np.diff(epoch) > 0) & (epoch[:-1] >= 0)
        for at in (np.flatnonzero(rose) + 1).tolist():
            if at >= self.begin:
                yield self.base + at, int(epoch[at - 1]), int(epoch[at])

    def silences(self) -> Iterator[int]:
        """Yield the batches after a long pause, where several groups had written steadily."""
        pause = self.batches.pause
        for local in (np.flatnonzero(pause[self.begin :] >= LEAST_MS) + self.begin).tolist():
            at = self.base + local
            usual = self.usual_ms(at)
            before = self.batches.group[max(at - STEADY, 0) - self.base : local]
            steady = usual is not None and pause[local] > TIMES_LONGER * usual
            if steady and len(set(before.tolist()) - {-1}) > 1:
                yield at

    def is_whole(self, at: int) -> bool:
        """Whether the log has all records since the batch before one."""
        before = self.batches.time[at - 1 - self.base]
        return self.since_ms is None or bool(before >= self.since_ms)

    def usual_ms(self, at: int) -> int | None:
        """Return the longest pause between the batches before one; None: they are too few."""
        before = self.batches.pause[max(at - STEADY, 1) - self.base : at - self.base]
        known = len(before) >= STEADY // 2 and self.is_whole(at)
        return int(before.max()) if known else None

    def outage(self, at: int, event: str, shown_by: str) -> Outage | None:
        """Return the outage that ended with a batch; None: times are not known."""
        if at == 0:
            return None
        row = at - self.base - self.begin
        times = int(self.batches.time[at - 1 - self.base]), int(self.now.first_ms[row])
        if min(times) < 0:
            return None
        return Outage(
            event,
            shown_by,
            *times,
            self.usual_ms(at),
            self.is_whole(at),
            int(self.now.log_offset[row]),
            self.files[int(self.now.file[row])],
            int(self.now.position[row]),
            int(self.batches.time[at - self.base]),
        )


def departures(view: PartitionView) -> list[tuple[int, str]]:
    """Return when members went, and of which group, by time."""
    return sorted(
        (row["timestamp"], life.group)
        for life in view.lives.values()
        for row in life.generations
        if row["left"] and not row["tombstone"] and row["timestamp"] is not None
    )


def went_at_once(went: list[tuple[int, str]], since_ms: int) -> int:
    """Return how many groups lost members at once soon after a time."""
    first = bisect_left(went, (since_ms, ""))
    soon = [one for one in went[first:] if one[0] <= since_ms + BACK_MS]
    return max(
        (
            len({group for at_ms, group in soon[index:] if at_ms <= began + AT_ONCE_MS})
            for index, (began, _) in enumerate(soon)
        ),
        default=0,
    )


def tell(outage: Outage, events: Iterable[Row], waits_ms: int) -> Row:
    """Return an outage as a row of a group, with whom it cost its place.

    ``events`` are the group's, in order; ``waits_ms`` is how long after a load a member that does
    not come back may stay. Who is in a generation that nobody left has come back.
    """
    gone: dict[str, None] = {}
    for row in events:
        at_ms = row["timestamp"]
        if at_ms is None or not outage.until_ms <= at_ms <= outage.until_ms + waits_ms:
            continue
        left = [cause for cause in row.get("causes", ()) if cause["what"] in GONE]
        if is_rebalance(row) and not left:
            break
        gone |= dict.fromkeys(map(who, left))
    row = outage.as_row()
    if gone:
        names = list(gone)[:NAMED]
        names += [f"{counted(len(gone) - NAMED, 'other')}"] if len(gone) > NAMED else []
        were = "was" if len(gone) == 1 else "were"
        row["cause"] += f"; soon after, {', '.join(names)} left or {were} evicted"
    return row


def wait_of(state: Mapping[str, Any] | None) -> int:
    """Return how long a member that does not come back may stay after a load, ms."""
    members = () if state is None else state["members"]
    sessions = [one["session_timeout_ms"] for one in members]
    return max(sessions, default=SESSION_MS) + REJOIN_MS
