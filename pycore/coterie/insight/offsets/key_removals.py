"""The removals of offsets: what was committed before each, and what after it.

A removal is a tombstone of a key that had a commit, or of a key whose commit the log has lost. A
tombstone after a tombstone removes nothing. State: an element for each removal, the first commit of
each key, and the transactions of each key (``pending_keys``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from coterie.insight.offsets.commit_findings import (
    PLACE,
    PLACES,
    START,
    places_of,
    select,
    store_firsts,
)
from coterie.insight.offsets.pending_keys import NEVER, PendingKeys
from coterie.insight.records.key_index import Key, Keys, Table
from coterie.insight.records.record_columns import (
    COMMIT,
    Array,
    RecordColumns,
)
from coterie.log.joined import STEP_BITS

VALUE = {"commit_ms": "commit_timestamp", "expire_ms": "expire_timestamp"}
BEFORE = tuple(f"before_{name}" for name in (*START, *VALUE))


class Place(NamedTuple):
    """A commit or a tombstone: what it committed (a tombstone: -1), and where it is in the log."""

    offset: int
    timestamp: int
    log_offset: int
    file: str
    position: int


class KeyRemoval(NamedTuple):
    """An offset that was removed.

    Attributes
    ----------
    key : tuple
        Group, topic, partition.
    tombstone : Place
        The record that removed it.
    offset, commit_log_offset, commit_ms : int or None
        The commit before, and the commit time in its value; None: it is not in the log.
    expire_ms : int or None
        The expire time in its value; None: it has none.
    committed_ms : int
        The time of the record of that commit; -1: not known.
    resumed : Place or None
        The next commit of the key; None: there is none.
    pending : bool
        Whether an undecided transaction had committed it, too.
    anew : bool
        Whether the next commit is to a topic that was created again: its id is another one.
    """

    key: Key
    tombstone: Place
    offset: int | None
    commit_log_offset: int | None
    commit_ms: int | None
    expire_ms: int | None
    committed_ms: int
    resumed: Place | None
    pending: bool = False
    anew: bool = False

    @property
    def removed_ms(self) -> int | None:
        """The time of the tombstone; None: it has none."""
        return None if self.tombstone.timestamp < 0 else self.tombstone.timestamp


@dataclass
class KeyRemovals:
    COLUMNS: ClassVar = frozenset(
        {*VALUE.values(), "previous_row", *(f"previous_{name}" for name in START)}
        | PendingKeys.COLUMNS
    )

    keys: Keys = field(default_factory=Keys)
    events: list[dict[str, Array]] = field(default_factory=list)  # removals and commits after them
    first: Table = field(default_factory=lambda: Table(gone=(np.bool_, True), **PLACES))
    last: Table = field(
        default_factory=lambda: Table(
            **dict.fromkeys(VALUE, (np.int64, -1)), has_expire_time=(np.bool_, False)
        )
    )
    pending: PendingKeys = field(default_factory=PendingKeys)
    files: list[str] = field(default_factory=list)

    def take(self, commits: RecordColumns) -> None:
        self.keys.scan = commits.scan
        self.files = commits.files
        self.first.fit(len(self.keys))
        self.last.fit(len(self.keys))
        if not len(self.keys):
            return
        effective, gone = commits.effective, commits.tombstone
        store_firsts(self.first, commits)
        pending = self.pending.take(commits)
        rows = np.flatnonzero(effective & (commits.after_tombstone != gone))
        if len(rows):
            self._put(commits, rows, pending)
        rows = np.flatnonzero(effective)
        for name, column in VALUE.items():
            self.last[name][commits.key[rows]] = commits.columns[column][rows]
        own = rows[~commits.tombstone[rows] & (commits.columns["expire_timestamp"][rows] != -1)]
        self.last["has_expire_time"][commits.key[own]] = True

    def _put(self, commits: RecordColumns, rows: Array, pending: Array) -> None:
        known, gone = commits.previous[rows] == COMMIT, commits.tombstone
        at = commits.previous_row[rows]
        columns = {name: commits.columns[f"previous_{name}"][rows] for name in START}
        for name, column in VALUE.items():
            earlier = self.last[name][commits.key[rows]]
            columns[name] = np.where(at >= 0, commits.columns[column][at], earlier)
        before = {f"before_{name}": np.where(known, columns[name], -1) for name in columns}
        self.events.append(
            {
                "key": commits.key[rows].astype(np.int64),
                "gone": gone[rows],
                "anew": commits.anew[rows],
                "known": known,
                "pending": pending[rows],
                **before,
                **places_of(commits, rows),
            }
        )

    def in_order(self) -> dict[str, Array]:
        """Return the removals as columns, by key and in log order.

        ``key`` numbers keys; ``PLACE`` is of the tombstone, ``before_*`` of the commit before it if
        ``known``, ``after_*`` of the commit after it if ``resumed``, which is ``anew`` if it is to
        another topic; ``pending``: an undecided transaction had committed the offset, too.
        """
        if not self.events:
            return {}
        names = ("key", "gone", "anew", "known", "pending", *BEFORE, *PLACE)
        events = {name: np.concatenate([one[name] for one in self.events]) for name in names}
        events = select(events, np.argsort(events["key"], kind="stable"))
        rows = np.flatnonzero(events["gone"])
        after = np.minimum(rows + 1, len(events["key"]) - 1)
        resumed = (events["key"][after] == events["key"][rows]) & ~events["gone"][after]
        columns = {
            **select(events, rows),
            "resumed": resumed,
            "anew": resumed & events["anew"][after],
            **{f"after_{name}": events[name][after] for name in PLACE},
        }
        return select(columns, ~(resumed & is_stale(columns)))

    def rows(self, columns: Mapping[str, Array] | None = None) -> Iterator[KeyRemoval]:
        """Yield removals, given as some of the elements of :meth:`in_order`; None: all."""
        columns = self.in_order() if columns is None else columns
        if not columns or not len(columns["key"]):
            return
        names = dict(self.keys.items(np.unique(columns["key"]).tolist()))
        count = len(columns["key"])
        places = [self._places(columns, prefix, count) for prefix in ("", "after_")]
        before = zip(*(columns[name].tolist() for name in BEFORE), strict=True)
        flags = (columns[name].tolist() for name in ("key", "known", "resumed", "pending", "anew"))
        rows = zip(*flags, before, *places, strict=True)
        for key, known, resumed, pending, anew, was, tombstone, after in rows:
            offset, committed_ms, log_offset, commit_ms, expire_ms = (
                was if known else (None, -1, None, None, -1)
            )
            yield KeyRemoval(
                names[key],
                tombstone,
                offset,
                log_offset,
                commit_ms,
                None if expire_ms == -1 else expire_ms,
                committed_ms,
                after if resumed else None,
                pending,
                anew,
            )

    def first_commits(self) -> Iterator[tuple[Key, int]]:
        """Yield the keys whose first record is a commit, with its log offset."""
        rows = np.flatnonzero(~self.first["gone"])
        for number, key in self.keys.items(rows.tolist()):
            yield key, int(self.first["log_offset"][number])

    def keys_with_expire_times(self) -> set[Key]:
        """Return the keys with a commit that had its own expire time."""
        rows = np.flatnonzero(self.last["has_expire_time"])
        return {key for _, key in self.keys.items(rows.tolist())}

    def groups_with_transactions(self) -> set[str]:
        rows = np.flatnonzero(self.pending.keys["until"] != NEVER)
        return {group for _, (group, _, _) in self.keys.items(rows.tolist())}

    def _places(self, columns: Mapping[str, Array], prefix: str, count: int) -> Iterator[Place]:
        fields = (columns[prefix + name].tolist() for name in PLACE)
        for offset, timestamp, log_offset, file, position in zip(*fields, strict=True):
            yield Place(offset, timestamp, log_offset, self.files[file], position)


def is_stale(columns: Mapping[str, Array]) -> Array:
    """Return which removals are of a partition that the group had left before; bool.

    There the coordinator expires what it still has, after the first commits in the newer partition.
    """
    left: Array = columns["after_log_offset"] >> STEP_BITS > columns["log_offset"] >> STEP_BITS
    return left & (columns["after_timestamp"] < columns["timestamp"])
