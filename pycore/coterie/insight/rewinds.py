"""Offsets that were set back or set from outside: which request did it, and who may have.

While a group has members, a coordinator takes commits from its members alone (and from producers
of transactions); while it has none, from tools and from consumers that are no members
(GroupCoordinator.validateOffsetCommit). So a commit to a group without members is a reset, or the
work of a consumer that assigns itself its partitions: the log does not tell these two apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.insight.causes import counted
from coterie.insight.commits import COMMITTED, Array, Commits, in_time
from coterie.insight.keys import by_key
from coterie.insight.shapes import shortened

REWIND, RESET = "rewind", "reset"
EACH = 10  # requests of a time between two records of a group that get a row each
NAMED = 3  # partitions
MEMBERS, NOBODY, UNKNOWN = "members", "nobody", "unknown"
WHO = {
    MEMBERS: "by a member: only they can commit while the group has any",
    NOBODY: "by a tool or a consumer outside of the group: it had no members",
    UNKNOWN: "the log does not tell whether the group had members",
}
PRODUCER = "by a producer's transaction"
Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Steps:
    """Commits that count, and tombstones, of each key in log order.

    Attributes
    ----------
    order : int64
        Their rows, those of a key together.
    fresh : bool
        Whether an element follows on nothing: the first of its key, a tombstone, or after one.
    gone : bool
        Whether it is a tombstone.
    change : int64
        Its offset less that of the one before; meaningless where ``fresh``.
    last : bool
        Whether it is the last of its key.
    """

    order: Array
    fresh: Array
    gone: Array
    change: Array
    last: Array


def steps_of(commits: Commits, at_ms: int | None = None) -> Steps:
    """Return how each partition's offset went on, up to a time (ms; None: to the end)."""
    counts = commits.outcome == COMMITTED
    if at_ms is not None:
        counts &= in_time(commits.timestamp, at_ms)
    held = by_key(commits, np.flatnonzero(counts))
    gone = commits.tombstone[held.order]
    # A tombstone ends what was before it: the next commit follows on nothing.
    fresh = held.first | gone | np.append(True, gone[:-1])[: len(gone)]
    offset = commits.offset[held.order]
    return Steps(held.order, fresh, gone, np.diff(offset, prepend=offset[:1]), held.last)


class Rewinds:
    """Finds what was set back or from outside in any time between two records of a group."""

    def __init__(self, commits: Commits) -> None:
        self.commits = commits
        steps = steps_of(commits)
        follows = np.flatnonzero(~steps.fresh)
        self.before = np.full(len(commits), -1, dtype=np.int64)
        self.before[steps.order[follows]] = steps.order[follows - 1]

    def rows(self, part: Array, who: str, every: bool = False) -> list[Row]:
        """Return a row for each request of these commits (their numbers) that sets offsets back.

        ``who`` could commit then: ``MEMBERS``, ``NOBODY`` or ``UNKNOWN``. ``every``: also for those
        that set them forward, unless there are many, as of a consumer outside of the group.
        """
        commits = self.commits
        part = part[(commits.outcome[part] == COMMITTED) & ~commits.tombstone[part]]
        back = (self.before[part] >= 0) & (commits.offset[part] < commits.offset[self.before[part]])
        batches = commits.batch[part]
        plain = commits.producer_id[part] == -1
        chosen = np.unique(batches[back | (plain & every)])
        if len(chosen) > EACH:
            chosen = np.unique(batches[back])
        told = [self.row(part[batches == number], who) for number in chosen[:EACH].tolist()]
        if len(chosen) > EACH:
            rest = part[np.isin(batches, chosen[EACH:])]
            more = counted(len(chosen) - EACH, "more request")
            told[-1]["cause"] += f"; {more} set offsets back"
            told[-1]["until"] = int(commits.timestamp[rest[-1]])
        return told

    def row(self, rows: Array, who: str) -> Row:
        """Return the row of a request; ``rows`` are its commits."""
        commits, before = self.commits, self.before[rows]
        change = np.where(before >= 0, commits.offset[rows] - commits.offset[before], 0)
        back, on, first = change < 0, change > 0, before < 0
        by_producer = commits.producer_id[rows[0]] != -1
        outside = who == NOBODY and not by_producer
        counts = [(back, "set back"), (on, "set forward"), (first, "set for the first time")]
        told = counts if outside else counts[:1]
        parts = [f"{counted(int(of.sum()), 'offset')} {how}" for of, how in told if of.any()]
        shown = rows[back] if back.any() else rows
        time = int(commits.timestamp[rows[0]])
        return {
            "event": RESET if outside else REWIND,
            "timestamp": None if time < 0 else time,
            "until": None if time < 0 else time,
            "log_offset": int(commits.log_offset[rows[0]]),
            "cause": f"{', '.join(parts) or 'offsets set to what they were'}: "
            f"{self.places(shown)}; {PRODUCER if by_producer else WHO[who]}",
            "count": len(shown),
            "file": commits.files[int(commits.file[rows[0]])],
            "position": int(commits.position[rows[0]]),
        }

    def places(self, rows: Array) -> str:
        """Return what some commits changed, the first by name."""
        commits = self.commits
        names = []
        for row in rows[:NAMED].tolist():
            before = int(self.before[row])
            was = f"{commits.offset[before]} to " if before >= 0 else ""
            topic = shortened(commits.topics[commits.topic[row]])
            names.append(f"{topic}-{commits.partition[row]} {was}{commits.offset[row]}")
        more = [f"{len(rows) - NAMED} more"] if len(rows) > NAMED else []
        return ", ".join([*names, *more])
