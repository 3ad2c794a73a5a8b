"""Requests that set offsets back or came from outside of the group, and who could send them.

While a group has members, a coordinator accepts commits only from its members (and from producers
of transactions). While it has none, it accepts them from tools and from consumers that are not
members (GroupCoordinator.validateOffsetCommit). So a commit to a group without members is a reset,
or comes from a consumer that assigns partitions to itself: the log cannot tell these two apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from coterie.insight.groups.causes import counted
from coterie.insight.records.key_index import Keys
from coterie.insight.records.record_columns import (
    COMMIT,
    COMMIT_TO_OTHER_TOPIC,
    Array,
    RecordColumns,
)
from coterie.insight.tables import shortened

REWIND, RESET, TOPIC_RECREATED = "rewind", "reset", "topic_recreated"
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

    ``anew``: for the first time in a topic that has another id than the one of that name before.
    ``shown`` offsets are reported, with ``places`` as text: those set back or anew, or else all.
    """

    back: int
    anew: int
    forward: int
    first: int
    shown: int
    places: str
    by_producer: bool
    time: int
    log_offset: int
    file: str
    position: int

    def row(self, who: str) -> Row:
        """Return the row; ``who`` could commit then: ``MEMBERS``, ``OUTSIDE`` or ``UNKNOWN``."""
        outside = who == OUTSIDE and not self.by_producer
        counts = [
            (self.back, "set back"),
            (self.anew, "set for the first time since the topic was created again"),
            (self.forward, "set forward"),
            (self.first, "set for the first time"),
        ]
        shown_counts = counts if outside else counts[:2]
        parts = [f"{counted(number, 'offset')} {how}" for number, how in shown_counts if number]
        time = None if self.time < 0 else self.time
        event = TOPIC_RECREATED if self.anew and not self.back else RESET if outside else REWIND
        return {
            "event": event,
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
        The first requests that set offsets back or anew.
    count : int
        The number of all requests that do.
    until : int
        The time of the last one.
    every : list of CommitRequest
        The first requests that set offsets back or anew, or belong to no transaction: the
        reported ones, and at most one more.
    """

    back: list[CommitRequest] = field(default_factory=list)
    count: int = 0
    until: int = -1
    every: list[CommitRequest] = field(default_factory=list)

    def rows(self, who: str, every: bool) -> list[Row]:
        """Return a row for each request that set offsets back or anew.

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
    key : int32
        The rows' key numbers.
    fresh : bool
        Whether there is no offset before: the first commit of its key, a tombstone, or the commit
        after one, or the first commit to another topic of the same name.
    anew : bool
        Whether it is the last of these.
    before : int64
        The offset before; undefined where ``fresh``.
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

    key: Array
    fresh: Array
    anew: Array
    before: Array
    span: Array
    batch: Array
    offset: Array
    timestamp: Array
    log_offset: Array
    batches: Array
    file: str

    @classmethod
    def of(cls, commits: RecordColumns, rows: Array, span: Array) -> OffsetChanges:
        used, batch = np.unique(commits.batch[rows], return_inverse=True)
        return cls(
            commits.key[rows],
            commits.tombstone[rows] | (commits.previous[rows] != COMMIT),
            commits.previous[rows] == COMMIT_TO_OTHER_TOPIC,
            commits.previous_offset[rows],
            span,
            batch,
            commits.offset[rows],
            commits.timestamp[rows],
            commits.log_offset[rows],
            commits.batches[used],
            commits.files[commits.file_number],
        )


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
        self.known = keys.entries  # a cache
        self.requests_of_span: dict[int, CommitRequests] = {}

    def take(self, changes: OffsetChanges) -> None:
        """Take the requests of the next piece; those that may be reported must be among them."""
        code = (changes.span << 32) | changes.batch
        rows = np.argsort(code, kind="stable")  # rows of one request in log order
        code = code[rows]
        back = (changes.anew | (~changes.fresh & (changes.offset < changes.before)))[rows]
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
        fresh = changes.fresh[rows]
        change = np.where(fresh, 0, changes.offset[rows] - changes.before[rows])
        back, anew = change < 0, changes.anew[rows]
        shown = back | anew if (back | anew).any() else np.ones(len(rows), dtype=np.bool_)
        batch = changes.batches[changes.batch[rows[0]]]
        return CommitRequest(
            int(back.sum()),
            int(anew.sum()),
            int((change > 0).sum()),
            int((fresh & ~anew).sum()),
            int(shown.sum()),
            self._places(changes, rows[shown]),
            not is_plain(batch),
            int(changes.timestamp[rows[0]]),
            int(changes.log_offset[rows[0]]),
            changes.file,
            int(batch["position"]),
        )

    def _places(self, changes: OffsetChanges, rows: Array) -> str:
        """Return some changes as text, the first with their partitions."""
        names = []
        for row in rows[:NAMED].tolist():
            was = "" if changes.fresh[row] else f"{changes.before[row]} to "
            topic, partition = self._place(int(changes.key[row]))
            names.append(f"{shortened(topic)}-{partition} {was}{changes.offset[row]}")
        more = [f"{len(rows) - NAMED} more"] if len(rows) > NAMED else []
        return ", ".join([*names, *more])

    def _place(self, key: int) -> tuple[str, int]:
        if len(self.known) <= key:
            self.known = self.keys.entries
        at = self.known[key]
        return self.keys.topic_names[at["topic"]], int(at["partition"])

    def of(self, span: int) -> CommitRequests:
        return self.requests_of_span.get(span, CommitRequests())


def is_plain(batches: Array) -> Array:
    """Return which batches belong to no transaction; bool."""
    plain: Array = batches["transactional"] == 0
    return plain
