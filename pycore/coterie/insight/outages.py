"""When a partition of the topic had no coordinator, as far as its own log shows it.

Two things show it. A batch of a higher leader epoch than the one before: another leader, or the
same one anew, took the partition over, and its coordinator loaded the records. And a silence: no
record of any group, where several groups had written steadily. The log says neither which broker
it was nor why; a silence may have other reasons, and is told as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.insight.causes import counted, who
from coterie.insight.commits import Array
from coterie.insight.facts import PartitionFacts

CHANGE, SILENCE = "coordinator_change", "silence"
STEADY = 20  # batches before a silence that say how steady the writing was
TIMES_LONGER = 10  # than the longest pause between those
LEAST_MS = 5_000
NAMED = 5  # members
NEWER_SESSION_MS = 45_000  # group.consumer.session.timeout.ms, which is the broker's alone
GONE = ("left_or_evicted", "evicted", "restarted", "restarted_evicted")
Row = dict[str, Any]


@dataclass(frozen=True)
class Outage:
    """A time in which a partition may have had no coordinator.

    Attributes
    ----------
    event : str
        ``CHANGE`` or ``SILENCE``.
    from_ms, until_ms : int
        The records around it.
    usual_ms : int or None
        The longest pause between the batches before it; None: too few of them.
    whole : bool
        Whether the log has all records since then; else it was compacted.
    epochs : tuple of int
        The leader's before and after.
    log_offset, file, position
        The first record after it.
    """

    event: str
    from_ms: int
    until_ms: int
    usual_ms: int | None
    whole: bool
    epochs: tuple[int, int]
    log_offset: int
    file: str
    position: int

    @property
    def pause_ms(self) -> int:
        """How long no record came."""
        return max(self.until_ms - self.from_ms, 0)

    def as_row(self) -> Row:
        """Return it as a row of ``explain``."""
        pause = f"no record of any group for {self.pause_ms / 1000:.1f} s"
        if not self.whole:
            pause = "the records of that time are compacted"
        elif self.usual_ms is not None:
            pause += f" (before, {self.usual_ms / 1000:.1f} s at most)"
        if self.event == CHANGE:
            was, now = self.epochs
            text = f"the partition's leader epoch went from {was} to {now}, {pause}: a broker "
            text += "restarted or the partition moved, and the coordinator loaded the groups"
        else:
            text = f"{pause}, where several groups had written: perhaps no broker was there"
        return {
            "event": self.event,
            "timestamp": self.from_ms,
            "until": self.until_ms,
            "log_offset": self.log_offset,
            "duration_ms": self.pause_ms if self.whole else None,
            "cause": text,
            "file": self.file,
            "position": self.position,
        }


def outages(facts: PartitionFacts) -> list[Outage]:
    """Return the outages that a partition's log shows, in its order; ``facts``: of all groups."""
    records = facts.records
    if not len(records):
        return []
    # Of each batch with records: its first row, its last one's time.
    first = np.flatnonzero(np.diff(records.batch, prepend=-1))
    last = np.append(first[1:], len(records)) - 1
    time, batch = records.timestamp[last], records.batch[first]
    epoch = records.batches["leader_epoch"][batch]
    pause = np.diff(time, prepend=time[:1])
    changed = np.diff(epoch, prepend=epoch[:1]) > 0
    known = (time >= 0) & (np.roll(time, 1) >= 0) & (np.roll(epoch, 1) >= 0)
    since = facts.trusted_from_ms
    whole = np.ones(len(time), np.bool_) if since is None else np.roll(time, 1) >= since
    found = []
    for at in np.flatnonzero(known & (changed | ((pause >= LEAST_MS) & whole))).tolist():
        if at == 0:
            continue
        usual = usual_pause(pause, at) if whole[at] else None
        groups = set(records.group[first[max(at - STEADY, 0) : at]].tolist()) - {-1}
        steady = usual is not None and pause[at] > TIMES_LONGER * usual and len(groups) > 1
        if not changed[at] and not steady:
            continue
        row = int(first[at])
        found.append(
            Outage(
                CHANGE if changed[at] else SILENCE,
                int(time[at - 1]),
                int(records.timestamp[row]),
                usual,
                bool(whole[at]),
                (int(epoch[at - 1]), int(epoch[at])),
                int(records.log_offset[row]),
                records.files[int(records.file[row])],
                int(records.position[row]),
            )
        )
    return found


def usual_pause(pause: Array, at: int) -> int | None:
    """Return the longest pause between the batches before one; None: they are too few."""
    before = pause[max(at - STEADY, 1) : at]
    return int(before.max()) if len(before) >= STEADY // 2 else None


def tell(outage: Outage, events: Iterable[Row], waits_ms: int) -> Row:
    """Return an outage as a row of a group, with whom it cost its place.

    ``events`` are the group's; ``waits_ms`` is how long after a load a member that does not come
    back may stay: its session and the rebalance that follows.
    """
    gone: dict[str, None] = {}
    for row in events:
        at_ms = row["timestamp"]
        if at_ms is None or not outage.until_ms <= at_ms <= outage.until_ms + waits_ms:
            continue
        for cause in row.get("causes", ()):
            if cause["what"] in GONE:
                gone[who(cause)] = None
    row = outage.as_row()
    if gone:
        names = list(gone)[:NAMED]
        names += [f"{counted(len(gone) - NAMED, 'other')}"] if len(gone) > NAMED else []
        row["cause"] += f"; soon after, {', '.join(names)} left or were evicted"
    return row


def wait_of(state: Mapping[str, Any] | None) -> int:
    """Return how long members that do not come back may stay after a load, ms."""
    members = () if state is None else state["members"]
    sessions = [one["session_timeout_ms"] + one["rebalance_timeout_ms"] for one in members]
    return max(sessions, default=2 * NEWER_SESSION_MS)
