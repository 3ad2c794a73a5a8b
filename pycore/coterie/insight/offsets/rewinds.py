"""Offsets that were set back or set from outside: which request did it, and who may have.

While a group has members, a coordinator takes commits from its members alone (and from producers
of transactions); while it has none, from tools and from consumers that are no members
(GroupCoordinator.validateOffsetCommit). So a commit to a group without members is a reset, or the
work of a consumer that assigns itself its partitions: the log does not tell these two apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from coterie.insight.groups.causes import counted
from coterie.insight.records.commit_deltas import Steps, steps_of
from coterie.insight.records.key_index import Keys
from coterie.insight.records.record_columns import Array, RecordColumns
from coterie.insight.render.tables import shortened

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
        The time of the last of them, and the number of its batch's first record.
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


@dataclass(frozen=True, eq=False)
class Changes:
    """Commits that count, those of some requests, in log order.

    Attributes
    ----------
    steps : Steps
        All of the rows.
    span : int64
        The number of each row's.
    batch : int64
        Of each row, in ``batches``.
    offset, timestamp, log_offset : int64
        As of ``RecordColumns``.
    batches : structured array
        Those of the rows.
    file : str
        Where they lie.
    """

    steps: Steps
    span: Array
    batch: Array
    offset: Array
    timestamp: Array
    log_offset: Array
    batches: Array
    file: str

    @classmethod
    def of(cls, commits: RecordColumns, rows: Array, span: Array) -> Changes:
        """Return some rows of a piece."""
        columns = {name: column[rows] for name, column in commits.columns.items()}
        chosen = replace(commits, columns=columns)
        used, batch = np.unique(chosen.batch, return_inverse=True)
        return cls(
            steps_of(chosen),
            span,
            batch,
            chosen.offset,
            chosen.timestamp,
            chosen.log_offset,
            commits.batches[used],
            commits.files[commits.file_number],
        )

    def follow(self, entries: Array, numbers: Array) -> Changes:
        """Return them as they follow on an earlier part: see ``Steps.follow``."""
        return replace(self, steps=self.steps.follow(entries, numbers))


class Rewinds:
    """Finds what was set back or from outside in each span of a group's life.

    Parameters
    ----------
    every
        Of each span, by number: whether requests that set nothing back may be told of too; bool.
    keys
        Name what the requests set.
    """

    def __init__(self, every: Array, keys: Keys) -> None:
        self.every = every.copy()
        self.keys = keys
        self.known = keys.known  # of them, without asking for all anew
        self.found: dict[int, Requests] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"known": self.known[:0]}

    def take(self, changes: Changes) -> None:
        """Look through requests of the next piece: whichever may be told of are among them."""
        steps = changes.steps
        code = (changes.span << 32) | changes.batch
        rows = np.argsort(code, kind="stable")  # rows of one request in log order
        code = code[rows]
        back = ~steps.fresh[rows] & (steps.change[rows] < 0)
        plain = is_plain(changes.batches)[changes.batch[rows]]
        # Only requests that may be told of are looked at one by one.
        chosen = np.unique(code[back | (plain & self.every[changes.span[rows]])])
        starts, ends = (np.searchsorted(code, chosen, side) for side in ("left", "right"))
        set_back = np.logical_or.reduceat(back, starts) if len(starts) else starts
        for number, start, end, is_back in zip(
            *(column.tolist() for column in (chosen, starts, ends, set_back)), strict=True
        ):
            at, theirs = number >> 32, rows[start:end]
            requests = self.found.setdefault(at, Requests())
            requests.count += is_back
            if is_back:
                requests.until = int(changes.timestamp[theirs[-1]])
                requests.last = int(changes.batches["first_number"][changes.batch[theirs[-1]]])
            wanted = self.every[at] and len(requests.every) <= EACH
            told = is_back and len(requests.back) < EACH
            if not wanted and not told:
                continue
            one = self._asked(changes, theirs)
            if told:
                requests.back.append(one)
            if wanted:
                requests.every.append(one)
                self.every[at] = len(requests.every) <= EACH

    def _asked(self, changes: Changes, rows: Array) -> Asked:
        """Return a request; ``rows`` are its commits."""
        steps = changes.steps.select(rows)
        change = np.where(steps.fresh, 0, steps.change)
        back = change < 0
        shown = back if back.any() else np.ones(len(rows), dtype=np.bool_)
        batch = changes.batches[changes.batch[rows[0]]]
        return Asked(
            int(back.sum()),
            int((change > 0).sum()),
            int(steps.fresh.sum()),
            int(shown.sum()),
            self._places(steps.select(shown), changes.offset[rows[shown]]),
            not is_plain(batch),
            int(changes.timestamp[rows[0]]),
            int(changes.log_offset[rows[0]]),
            changes.file,
            int(batch["position"]),
            int(batch["first_number"]),
        )

    def _places(self, steps: Steps, offset: Array) -> str:
        """Return what some commits changed, the first by name."""
        names = []
        for at, key in enumerate(steps.keys[:NAMED].tolist()):
            was = "" if steps.fresh[at] else f"{steps.before['offset'][at]} to "
            topic, partition = self._place(key)
            names.append(f"{shortened(topic)}-{partition} {was}{offset[at]}")
        more = [f"{len(offset) - NAMED} more"] if len(offset) > NAMED else []
        return ", ".join([*names, *more])

    def _place(self, key: int) -> tuple[str, int]:
        """Return the topic and partition of a key."""
        scan = self.keys.scan
        if scan is not None and len(self.known) <= key:
            self.known = np.append(self.known, scan.keys(len(self.known)))
        entries, names = (self.keys.known, self.keys) if scan is None else (self.known, scan)
        return names.topics[entries["topic"][key]], int(entries["partition"][key])

    def absorb(self, later: Rewinds) -> None:
        """Add what another found; see ``Requests.absorb``."""
        for span, requests in later.found.items():
            self.found.setdefault(span, Requests()).absorb(requests)

    def of(self, span: int) -> Requests:
        """Return the requests of a span."""
        return self.found.get(span, Requests())


def is_plain(batches: Array) -> Array:
    """Return which batches are of no transaction; bool."""
    plain: Array = batches["transactional"] == 0
    return plain
