"""What each group lost at one moment, and the first commits after it.

The coordinator writes the tombstones of a clean-up or of a deletion at once, in one batch or in a
few neighbouring ones. ``key_removals`` finds them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter

from coterie.insight.offsets.key_removals import KeyRemoval, KeyRemovals

MOMENT_MS = 1_000  # the most time between two tombstones of one removal


@dataclass(frozen=True)
class Resumption:
    """The first commit of a partition after its offset was removed."""

    topic: str
    partition: int
    offset: int
    at_ms: int
    log_offset: int
    file: str
    position: int


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
    committed_ms : int
        When the last of these offsets was committed; -1: not known.
    resumed : tuple of Resumption
        The first commit of each of these partitions after the removal, in log order.
    """

    group: str
    from_ms: int
    until_ms: int
    log_offset: int
    last_offset: int
    file: str
    position: int
    partitions: dict[str, dict[int, int]]
    committed_ms: int
    resumed: tuple[Resumption, ...] = ()

    @property
    def count(self) -> int:
        """The number of offsets."""
        return sum(map(len, self.partitions.values()))

    def offset_of(self, commit: Resumption) -> int:
        """Return the removed offset of a commit's partition; -1: not known."""
        return self.partitions[commit.topic].get(commit.partition, -1)


def removals_of(removed: KeyRemovals) -> dict[str, list[Removal]]:
    """Return the removals of each group, in log order."""
    by_group: dict[str, list[KeyRemoval]] = {}
    for row in sorted(removed.rows(), key=lambda row: row.tombstone.log_offset):
        by_group.setdefault(row.key[0], []).append(row)
    return {group: list(_by_moment(group, rows)) for group, rows in by_group.items()}


def _by_moment(group: str, rows: list[KeyRemoval]) -> Iterator[Removal]:
    """Join the neighbours of a moment."""
    times = [row.tombstone.timestamp for row in rows]
    begin = 0
    for end in range(1, len(rows) + 1):
        if end == len(rows) or abs(times[end] - times[end - 1]) > MOMENT_MS:
            yield _removal(group, rows[begin:end])
            begin = end


def _removal(group: str, rows: list[KeyRemoval]) -> Removal:
    partitions: dict[str, dict[int, int]] = {}
    resumed: list[Resumption] = []
    for row in rows:
        _, topic, partition = row.key
        partitions.setdefault(topic, {})[partition] = -1 if row.offset is None else row.offset
        if row.resumed is not None:
            resumed.append(Resumption(topic, partition, *row.resumed))
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
        max(row.committed_ms for row in rows),
        tuple(sorted(resumed, key=attrgetter("log_offset"))),
    )
