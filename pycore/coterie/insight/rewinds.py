"""Offsets that were set back or set from outside: which request did it, and who may have.

While a group has members, a coordinator takes commits from its members alone (and from producers
of transactions); while it has none, from tools and from consumers that are no members
(GroupCoordinator.validateOffsetCommit). So a commit to a group without members is a reset, or the
work of a consumer that assigns itself its partitions: the log does not tell these two apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from coterie.insight.causes import counted
from coterie.insight.commits import Array, Commits
from coterie.insight.shapes import shortened
from coterie.insight.steps import Steps

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


class Asked(NamedTuple):
    """A request, by what it did to offsets: how many it set back, forward, for the first time.

    ``shown`` of them are told of, in words by ``places``: those set back, else all.
    """

    back: int
    on: int
    first: int
    shown: int
    places: str
    by_producer: bool
    time: int
    log_offset: int
    file: str
    position: int
    number: int

    def row(self, who: str) -> Row:
        """Return its row; ``who`` could commit then: ``MEMBERS``, ``NOBODY`` or ``UNKNOWN``."""
        outside = who == NOBODY and not self.by_producer
        counts = [
            (self.back, "set back"),
            (self.on, "set forward"),
            (self.first, "set for the first time"),
        ]
        told = counts if outside else counts[:1]
        parts = [f"{counted(number, 'offset')} {how}" for number, how in told if number]
        time = None if self.time < 0 else self.time
        return {
            "event": RESET if outside else REWIND,
            "timestamp": time,
            "until": time,
            "log_offset": self.log_offset,
            "cause": f"{', '.join(parts) or 'offsets set to what they were'}: "
            f"{self.places}; {PRODUCER if self.by_producer else WHO[who]}",
            "count": self.shown,
            "file": self.file,
            "position": self.position,
        }


@dataclass
class Requests:
    """The requests of a time between two records of a group that may be told of.

    Attributes
    ----------
    back : list of Asked
        The first of those that set offsets back.
    count : int
        How many those are.
    until, last : int
        The time of the last of them, and the number of its last record.
    every : list of Asked
        The first of those, and of all that are of no transaction; one more than are told of.
    """

    back: list[Asked] = field(default_factory=list)
    count: int = 0
    until: int = -1
    last: int = -1
    every: list[Asked] = field(default_factory=list)

    def absorb(self, other: Requests) -> None:
        """Add those of another part of the log, which may lie before some of these."""
        if other.last > self.last:
            self.until, self.last = other.until, other.last
        self.count += other.count
        self.back = sorted(self.back + other.back, key=lambda one: one.number)[:EACH]
        self.every = sorted(self.every + other.every, key=lambda one: one.number)[: EACH + 1]

    def rows(self, who: str, every: bool) -> list[Row]:
        """Return a row for each request that sets offsets back.

        ``who`` could commit then. ``every``: also for those that set them forward, unless there
        are many, as of a consumer outside of the group.
        """
        if every and len(self.every) <= EACH:
            return [one.row(who) for one in self.every]
        told = [one.row(who) for one in self.back]
        if self.count > EACH:
            more = counted(self.count - EACH, "more request")
            told[-1]["cause"] += f"; {more} set offsets back"
            told[-1]["until"] = self.until
        return told


class Rewinds:
    """Finds what was set back or from outside in each span of a group's life.

    Parameters
    ----------
    every
        Of each span, by number: whether requests that set nothing back may be told of too; bool.
    """

    def __init__(self, every: Array) -> None:
        self.every = every.copy()
        self.found: dict[int, Requests] = {}

    def take(self, commits: Commits, steps: Steps, span: Array) -> None:
        """Look through the next piece; ``span`` is the number of each row's."""
        there = ~steps.gone
        rows = steps.order[there]
        # By span and batch, rows of one request in log order.
        code = (span[rows].astype(np.int64) << 32) | commits.batch[rows]
        order = np.lexsort((rows, code))
        rows, code = rows[order], code[order]
        fresh, change = steps.fresh[there][order], steps.change[there][order]
        change = np.where(fresh, 0, change)
        before = np.where(fresh, -1, steps.before["offset"][there][order])
        plain = (commits.producer_id[rows] == -1) & self.every[span[rows]]
        # Only requests that may be told of are looked at one by one.
        chosen = np.unique(code[(change < 0) | plain])
        starts, ends = (np.searchsorted(code, chosen, side) for side in ("left", "right"))
        set_back = np.add.reduceat(change < 0, starts) > 0 if len(starts) else starts
        for number, start, end, back in zip(
            *(column.tolist() for column in (chosen, starts, ends, set_back)), strict=True
        ):
            at, theirs = number >> 32, slice(start, end)
            requests = self.found.setdefault(at, Requests())
            requests.count += back
            if back:
                requests.until = int(commits.timestamp[rows[end - 1]])
                requests.last = int(commits.number[rows[end - 1]])
            wanted = self.every[at] and len(requests.every) <= EACH
            told = back and len(requests.back) < EACH
            if not wanted and not told:
                continue
            one = asked(commits, rows[theirs], change[theirs], before[theirs], fresh[theirs])
            if told:
                requests.back.append(one)
            if wanted:
                requests.every.append(one)
                self.every[at] = len(requests.every) <= EACH

    def absorb(self, later: Rewinds) -> None:
        """Add what another found; see ``Requests.absorb``."""
        for span, requests in later.found.items():
            self.found.setdefault(span, Requests()).absorb(requests)

    def of(self, span: int) -> Requests:
        """Return the requests of a span."""
        return self.found.get(span, Requests())


def asked(commits: Commits, rows: Array, change: Array, before: Array, fresh: Array) -> Asked:
    """Return a request; ``rows`` are its commits, the others what each of them changed."""
    back = change < 0
    shown = back if back.any() else np.ones(len(rows), dtype=np.bool_)
    return Asked(
        int(back.sum()),
        int((change > 0).sum()),
        int(fresh.sum()),
        int(shown.sum()),
        places(commits, rows[shown], before[shown], fresh[shown]),
        bool(commits.producer_id[rows[0]] != -1),
        int(commits.timestamp[rows[0]]),
        int(commits.log_offset[rows[0]]),
        commits.files[int(commits.file[rows[0]])],
        int(commits.position[rows[0]]),
        int(commits.number[rows[0]]),
    )


def places(commits: Commits, rows: Array, before: Array, fresh: Array) -> str:
    """Return what some commits changed, the first by name."""
    names = []
    for at, row in enumerate(rows[:NAMED].tolist()):
        was = "" if fresh[at] else f"{before[at]} to "
        topic = shortened(commits.topics[commits.topic[row]])
        names.append(f"{topic}-{commits.partition[row]} {was}{commits.offset[row]}")
    more = [f"{len(rows) - NAMED} more"] if len(rows) > NAMED else []
    return ", ".join([*names, *more])
