"""When a partition of the topic had no coordinator, as far as its log and a server log show it.

Three things show it. A server log says when a broker had loaded the partition. A batch of a higher
leader epoch than the one before says that another leader, or the same one anew, took it over. And
a silence: no record of any group where several had written steadily, and then members of several
groups gone at once, as a coordinator that is back ends the sessions of all who are not. The last
may have other reasons, and is told as what it is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.insight.causes import counted, who
from coterie.insight.commits import Array
from coterie.insight.facts import PartitionFacts
from coterie.insight.rebalances import is_rebalance
from coterie.times import format_time

CHANGE, SILENCE = "coordinator_change", "silence"
STEADY = 20  # batches before a silence that say how steady the writing was
TIMES_LONGER = 10  # than the longest pause between those
LEAST_MS = 5_000
BACK_MS = 60_000  # after a silence, members that are not back have gone: their session is shorter
AT_ONCE_MS = 1_000
NAMED = 5  # members
SESSION_MS = 45_000  # a newer group's, group.consumer.session.timeout.ms: the broker's alone
REJOIN_MS = 3_000  # a heartbeat interval: then those who stay know, and the rebalance can end
GONE = ("left_or_evicted", "evicted", "restarted", "restarted_evicted")
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


class Batches:
    """The batches of a partition that have records: when each came, of which leader epoch."""

    def __init__(self, facts: PartitionFacts) -> None:
        records = self.records = facts.records
        # Of each: its first row, its last one's time.
        self.first = np.flatnonzero(np.diff(records.batch, prepend=-1))
        last = np.append(self.first[1:], len(records))[: len(self.first)] - 1
        self.time: Array = records.timestamp[last]
        self.epoch: Array = records.batches["leader_epoch"][records.batch[self.first]]
        self.pause: Array = np.diff(self.time, prepend=self.time[:1])
        self.since_ms = facts.trusted_from_ms

    def changes(self) -> Iterable[int]:
        """Return the batches of a higher leader epoch than the one before."""
        rose = np.diff(self.epoch, prepend=self.epoch[:1]) > 0
        return np.flatnonzero(rose & (np.roll(self.epoch, 1) >= 0)).tolist()

    def silences(self) -> Iterable[int]:
        """Yield the batches after a long pause, where several groups had written steadily."""
        for at in np.flatnonzero(self.pause >= LEAST_MS).tolist():
            usual = self.usual_ms(at)
            before = self.records.group[self.first[max(at - STEADY, 0) : at]]
            steady = usual is not None and self.pause[at] > TIMES_LONGER * usual
            if steady and len(set(before.tolist()) - {-1}) > 1:
                yield at

    def is_whole(self, at: int) -> bool:
        """Whether the log has all records since the batch before one."""
        return self.since_ms is None or bool(self.time[at - 1] >= self.since_ms)

    def usual_ms(self, at: int) -> int | None:
        """Return the longest pause between the batches before one; None: they are too few."""
        before = self.pause[max(at - STEADY, 1) : at]
        known = len(before) >= STEADY // 2 and self.is_whole(at)
        return int(before.max()) if known else None

    def outage(self, at: int, event: str, shown_by: str) -> Outage | None:
        """Return the outage that ended with a batch; None: times are not known."""
        row = int(self.first[at])
        times = int(self.time[at - 1]), int(self.records.timestamp[row])
        if at == 0 or min(times) < 0:
            return None
        return Outage(
            event,
            shown_by,
            *times,
            self.usual_ms(at),
            self.is_whole(at),
            int(self.records.log_offset[row]),
            self.records.files[int(self.records.file[row])],
            int(self.records.position[row]),
        )


def outages(facts: PartitionFacts, loads: Iterable[int] = ()) -> list[Outage]:
    """Return the outages that a partition's log shows, in its order.

    ``facts`` are of all groups; ``loads``: when (epoch ms) a broker had loaded the partition.
    """
    batches = Batches(facts)
    if not len(batches.time):
        return []
    found: dict[int, Outage | None] = {}
    back = "a broker restarted or the partition moved, and the groups were loaded"
    for at_ms in loads:
        at = int(np.searchsorted(np.maximum.accumulate(batches.time), at_ms))
        if at < len(batches.time):
            told = f"a broker had loaded the groups at {format_time(at_ms)} [server log]"
            found[at] = batches.outage(at, CHANGE, told)
    for at in batches.changes():
        was, now = batches.epoch[at - 1], batches.epoch[at]
        told = f"the partition's leader epoch went from {was} to {now}: {back}"
        found.setdefault(at, batches.outage(at, CHANGE, told))
    went = departures(facts)
    for at in batches.silences():
        groups = went_at_once(went, int(batches.time[at]))
        if at not in found and groups > 1:
            told = f"members of {groups} groups went at once after a silence: perhaps there was no "
            told += "coordinator, and it ended their sessions when it was back"
            found[at] = batches.outage(at, SILENCE, told)
    return [outage for _, outage in sorted(found.items()) if outage is not None]


def departures(facts: PartitionFacts) -> list[tuple[int, str]]:
    """Return when members went, and of which group, by time."""
    return sorted(
        (row["timestamp"], life.group)
        for life in facts.lives.values()
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
