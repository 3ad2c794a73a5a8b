"""Requests that set offsets back or came from outside of the group, and who could send them.

While a group has members, a coordinator accepts commits only from its members (and from producers
of transactions). While it has none, it accepts them from tools and from consumers that are not
members (GroupCoordinator.validateOffsetCommit). So a commit to a group without members is a reset,
or comes from a consumer that assigns partitions to itself: the log cannot tell these two apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from coterie.insight.groups.causes import counted
from coterie.insight.records.commit_deltas import CommitDeltas, deltas_of
from coterie.insight.records.key_index import Keys
from coterie.insight.records.record_columns import Array, RecordColumns
from coterie.insight.tables import shortened

REWIND, RESET = "rewind", "reset"
MAX_ROWS = 10  # requests between two records of a group that get a row of their own
NAMED = 3  # partitions
MEMBERS, OUTSIDE, UNKNOWN = "members", "outside", "unknown"
WHO = {
    MEMBERS: "by a member: only they can commit while the group has any",
    OUTSIDE: "by a tool or a consumer outside of the group: it had no members",
    UNKNOWN: "the log does not tell whether the group had members",
}
PRODUCER = "by a producer's transaction"
Row = dict[str, Any]


class CommitRequest(NamedTuple):
    """A commit request: the number of offsets that it set back, forward, and for the first time.

    ``shown`` offsets are reported, with ``places`` as text: those set back, or else all.
    """

    back: int
    forward: int
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
        """Return the row; ``who`` could commit then: ``MEMBERS``, ``OUTSIDE`` or ``UNKNOWN``."""
        outside = who == OUTSIDE and not self.by_producer
        counts = [
            (self.back, "set back"),
            (self.forward, "set forward"),
            (self.first, "set for the first time"),
        ]
        shown_counts = counts if outside else counts[:1]
        parts = [f"{counted(number, 'offset')} {how}" for number, how in shown_counts if number]
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
class CommitRequests:
    """The commit requests between two records of a group, as far as they may be reported.

    Attributes
    ----------
    back : list of CommitRequest
        The first requests that set offsets back.
    count : int
        The number of all requests that set offsets back.
    until, last : int
        The time of the last one, and the number of its batch's first record.
    every : list of CommitRequest
        The first requests that set offsets back or belong to no transaction: the reported ones, and
        at most one more.
    """

    back: list[CommitRequest] = field(default_factory=list)
    count: int = 0
    until: int = -1
    last: int = -1
    every: list[CommitRequest] = field(default_factory=list)

    def absorb(self, other: CommitRequests) -> None:
        """Merge the requests of another part, which may precede some of these."""
        if other.last > self.last:
            self.until, self.last = other.until, other.last
        self.count += other.count
        self.back = sorted(self.back + other.back, key=lambda request: request.number)[:MAX_ROWS]
        self.every = sorted(self.every + other.every, key=lambda request: request.number)[
            : MAX_ROWS + 1
        ]

    def rows(self, who: str, every: bool) -> list[Row]:
        """Return a row for each request that set offsets back.

        ``who`` could commit then. ``every``: rows also for requests that set offsets forward,
        unless there are many, as from a consumer outside of the group.
        """
        if every and len(self.every) <= MAX_ROWS:
            return [request.row(who) for request in self.every]
        rows = [request.row(who) for request in self.back]
        if self.count > MAX_ROWS:
            more = counted(self.count - MAX_ROWS, "more request")
            rows[-1]["cause"] += f"; {more} set offsets back"
            rows[-1]["until"] = self.until
        return rows


@dataclass(frozen=True, eq=False)
class OffsetChanges:
    """The effective commits of some requests, in log order.

    Attributes
    ----------
    deltas : CommitDeltas
        The rows' deltas.
    span : int64
        The span number of each row.
    batch : int64
        The index of each row's batch in ``batches``.
    offset, timestamp, log_offset : int64
        As in ``RecordColumns``.
    batches : structured array
        The rows' batches.
    file : str
        The name of their file.
    """

    deltas: CommitDeltas
    span: Array
    batch: Array
    offset: Array
    timestamp: Array
    log_offset: Array
    batches: Array
    file: str

    @classmethod
    def of(cls, commits: RecordColumns, rows: Array, span: Array) -> OffsetChanges:
        columns = {name: column[rows] for name, column in commits.columns.items()}
        chosen = replace(commits, columns=columns)
        used, batch = np.unique(chosen.batch, return_inverse=True)
        return cls(
            deltas_of(chosen),
            span,
            batch,
            chosen.offset,
            chosen.timestamp,
            chosen.log_offset,
            commits.batches[used],
            commits.files[commits.file_number],
        )

    def follow(self, entries: Array, numbers: Array) -> OffsetChanges:
        """Return the changes, continuing an earlier part; see ``CommitDeltas.follow``."""
        return replace(self, deltas=self.deltas.follow(entries, numbers))


class Rewinds:
    """Finds the requests that set offsets back, or came from outside, in each span of a group.

    Parameters
    ----------
    every
        For each span: whether requests that set nothing back may be reported, too; bool.
    keys
        The keys of the requests' commits.
    """

    def __init__(self, every: Array, keys: Keys) -> None:
        self.every = every.copy()
        self.keys = keys
        self.known = keys.known  # a cache of the scan's entries
        self.requests_of_span: dict[int, CommitRequests] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"known": self.known[:0]}

    def take(self, changes: OffsetChanges) -> None:
        """Take the requests of the next piece; those that may be reported must be among them."""
        deltas = changes.deltas
        code = (changes.span << 32) | changes.batch
        rows = np.argsort(code, kind="stable")  # rows of one request in log order
        code = code[rows]
        back = ~deltas.fresh[rows] & (deltas.change[rows] < 0)
        plain = is_plain(changes.batches)[changes.batch[rows]]
        # Only requests that may be reported are examined one by one.
        chosen = np.unique(code[back | (plain & self.every[changes.span[rows]])])
        starts, ends = (np.searchsorted(code, chosen, side) for side in ("left", "right"))
        set_back = np.logical_or.reduceat(back, starts) if len(starts) else starts
        for number, start, end, is_back in zip(
            *(column.tolist() for column in (chosen, starts, ends, set_back)), strict=True
        ):
            span, request_rows = number >> 32, rows[start:end]
            requests = self.requests_of_span.setdefault(span, CommitRequests())
            requests.count += is_back
            if is_back:
                requests.until = int(changes.timestamp[request_rows[-1]])
                requests.last = int(
                    changes.batches["first_number"][changes.batch[request_rows[-1]]]
                )
            stores_any = self.every[span] and len(requests.every) <= MAX_ROWS
            stores_back = is_back and len(requests.back) < MAX_ROWS
            if not stores_any and not stores_back:
                continue
            request = self._request(changes, request_rows)
            if stores_back:
                requests.back.append(request)
            if stores_any:
                requests.every.append(request)
                self.every[span] = len(requests.every) <= MAX_ROWS

    def _request(self, changes: OffsetChanges, rows: Array) -> CommitRequest:
        deltas = changes.deltas.select(rows)
        change = np.where(deltas.fresh, 0, deltas.change)
        back = change < 0
        shown = back if back.any() else np.ones(len(rows), dtype=np.bool_)
        batch = changes.batches[changes.batch[rows[0]]]
        return CommitRequest(
            int(back.sum()),
            int((change > 0).sum()),
            int(deltas.fresh.sum()),
            int(shown.sum()),
            self._places(deltas.select(shown), changes.offset[rows[shown]]),
            not is_plain(batch),
            int(changes.timestamp[rows[0]]),
            int(changes.log_offset[rows[0]]),
            changes.file,
            int(batch["position"]),
            int(batch["first_number"]),
        )

    def _places(self, deltas: CommitDeltas, offset: Array) -> str:
        """Return some commits' changes as text, the first with their partitions."""
        names = []
        for at, key in enumerate(deltas.keys[:NAMED].tolist()):
            was = "" if deltas.fresh[at] else f"{deltas.before['offset'][at]} to "
            topic, partition = self._place(key)
            names.append(f"{shortened(topic)}-{partition} {was}{offset[at]}")
        more = [f"{len(offset) - NAMED} more"] if len(offset) > NAMED else []
        return ", ".join([*names, *more])

    def _place(self, key: int) -> tuple[str, int]:
        scan = self.keys.scan
        if scan is not None and len(self.known) <= key:
            self.known = np.append(self.known, scan.keys(len(self.known)))
        entries, names = (self.keys.known, self.keys) if scan is None else (self.known, scan)
        return names.topics[entries["topic"][key]], int(entries["partition"][key])

    def absorb(self, later: Rewinds) -> None:
        """Absorb the next part's requests; see ``CommitRequests.absorb``."""
        for span, requests in later.requests_of_span.items():
            self.requests_of_span.setdefault(span, CommitRequests()).absorb(requests)

    def of(self, span: int) -> CommitRequests:
        return self.requests_of_span.get(span, CommitRequests())


def is_plain(batches: Array) -> Array:
    """Return which batches belong to no transaction; bool."""
    plain: Array = batches["transactional"] == 0
    return plain
