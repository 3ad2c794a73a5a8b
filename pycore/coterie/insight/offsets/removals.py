"""What each group lost at one moment, and the first commits after it.

The coordinator writes the tombstones of a clean-up or of a deletion at once, in one batch or in a
few neighbouring ones. ``key_removals`` finds them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter, itemgetter

from coterie.base.caching import cached_property
from coterie.insight.offsets.key_removals import KeyRemoval, KeyRemovals
from coterie.insight.records.key_index import Key

MOMENT_MS = 1_000  # the most time between two tombstones of one removal


@dataclass(frozen=True)
class Resumption:
    """The first commit of a partition after its offset was removed.

    ``anew``: by its topic id, the topic was created again.
    """

    topic: str
    partition: int
    offset: int
    at_ms: int
    log_offset: int
    file: str
    position: int
    anew: bool = False


@dataclass(frozen=True)
class Removal:
    """The offsets that a group lost at one moment.

    Attributes
    ----------
    group : str
        The group.
    from_ms, until_ms : int
        The least and the greatest time of the tombstones; -1: not known.
    log_offset, last_offset : int
        The first and the last tombstone.
    file, position
        The first tombstone's batch.
    partitions : dict of str to dict of int to int
        Topic -> partition -> the removed offset; -1: not known.
    resumed : tuple of Resumption
        The first commit of each of these partitions after the removal, in log order.
    rows : tuple of KeyRemoval
        The removed offsets, one by one.
    left : int
        How many offsets the group had after it, as far as the log shows.
    left_without_time : int
        How many of these never had an own expire time.
    has_transactions : bool
        Whether transactions commit offsets of the group, at any time.
    """

    group: str
    from_ms: int
    until_ms: int
    log_offset: int
    last_offset: int
    file: str
    position: int
    partitions: dict[str, dict[int, int]]
    resumed: tuple[Resumption, ...] = ()
    rows: tuple[KeyRemoval, ...] = ()
    left: int = 0
    left_without_time: int = 0
    has_transactions: bool = False

    @property
    def count(self) -> int:
        return sum(map(len, self.partitions.values()))

    @property
    def committed_ms(self) -> int:
        """When the last of these offsets was committed; -1: not known."""
        return max(-1 if row.commit_ms is None else row.commit_ms for row in self.rows)

    def part(self, rows: Sequence[KeyRemoval]) -> Removal:
        """Return the removal of some of these offsets."""
        return _removal(rows, self.left, self.left_without_time, self.has_transactions)

    def offset_of(self, commit: Resumption) -> int:
        """Return the removed offset of a commit's partition; -1: not known."""
        return self.partitions[commit.topic].get(commit.partition, -1)


def removals_of(removed: KeyRemovals) -> dict[str, list[Removal]]:
    """Return the removals of each group, in log order."""
    by_group: dict[str, list[KeyRemoval]] = {}
    for row in sorted(removed.rows(), key=lambda row: row.tombstone.log_offset):
        by_group.setdefault(row.key[0], []).append(row)
    if not by_group:
        return {}
    counts = offset_counts(removed), offset_counts(removed, removed.keys_with_expire_times())
    in_transactions = removed.groups_with_transactions()
    return {
        group: list(_by_moment(rows, [of[group] for of in counts], group in in_transactions))
        for group, rows in by_group.items()
    }


class OffsetCount:
    """How many offsets a group has after each record that adds or removes one."""

    def __init__(self) -> None:
        self.changes: list[tuple[int, int]] = []

    @cached_property
    def totals(self) -> list[tuple[int, int]]:
        """The log offset of each record, in order, with the number of offsets after it."""
        places, changes = zip(*sorted(self.changes), strict=True)
        return list(zip(places, accumulate(changes), strict=True))

    def after(self, log_offset: int) -> int:
        """Return the number of offsets after a record, as far as the log shows."""
        if not self.changes:
            return 0
        at = bisect_right(self.totals, log_offset, key=itemgetter(0))
        return self.totals[at - 1][1] if at else 0


def offset_counts(
    removed: KeyRemovals, without: Container[Key] = ()
) -> defaultdict[str, OffsetCount]:
    """Return the number of offsets of each group of the log, but those of some keys."""
    counts: defaultdict[str, OffsetCount] = defaultdict(OffsetCount)
    for key, log_offset in removed.first_commits():
        if key not in without:
            counts[key[0]].changes.append((log_offset, 1))
    for row in removed.rows():
        if row.key in without:
            continue
        changes = counts[row.key[0]].changes
        if row.offset is not None:
            changes.append((row.tombstone.log_offset, -1))
        if row.resumed is not None:
            changes.append((row.resumed.log_offset, 1))
    return counts


def _by_moment(
    rows: list[KeyRemoval], counts: list[OffsetCount], has_transactions: bool
) -> Iterator[Removal]:
    times = [row.tombstone.timestamp for row in rows]
    begin = 0
    for end in range(1, len(rows) + 1):
        if end == len(rows) or abs(times[end] - times[end - 1]) > MOMENT_MS:
            left, without_time = (
                count.after(rows[end - 1].tombstone.log_offset) for count in counts
            )
            yield _removal(rows[begin:end], left, without_time, has_transactions)
            begin = end


def _removal(
    rows: Sequence[KeyRemoval], left: int, left_without_time: int, has_transactions: bool
) -> Removal:
    partitions: dict[str, dict[int, int]] = {}
    resumed: list[Resumption] = []
    for row in rows:
        group, topic, partition = row.key
        partitions.setdefault(topic, {})[partition] = -1 if row.offset is None else row.offset
        if row.resumed is not None:
            resumed.append(Resumption(topic, partition, *row.resumed, row.anew))
    times = [row.tombstone.timestamp for row in rows]
    first = rows[0].tombstone
    return Removal(
        group,
        min(times),
        max(times),
        first.log_offset,
        rows[-1].tombstone.log_offset,
        first.file,
        first.position,
        partitions,
        tuple(sorted(resumed, key=attrgetter("log_offset"))),
        tuple(rows),
        left,
        left_without_time,
        has_transactions,
    )
