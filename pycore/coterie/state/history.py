"""Commits one by one, each with what became of it: the table ``commits``, as the log is read.

A plain commit counts at once; one of a transaction is held back until the producer's next marker
says committed or aborted, or the log ends: pending. So its row stands where it was decided, and
memory holds what is undecided, not the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie._core.codec.text import decode_utf8
from coterie._core.fold import partial
from coterie._core.fold.fold import CommitEvent, MarkerEvent
from coterie.state.schemas import SCHEMAS
from coterie.texts import key_columns, to_text

if TYPE_CHECKING:
    import pyarrow as pa

COMMIT_FIELDS = (
    *("group_id", "offsets_partition", "log_offset", "timestamp", "topic", "partition"),
    *("offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp"),
    *("tombstone", "producer_id", "outcome"),
)
TOMBSTONE = (None,) * 5
Row = tuple[Any, ...]


class Decided(NamedTuple):
    """A commit and what became of it, for :func:`commits_table` and :func:`commit_rows`."""

    number: int | None
    commit: CommitEvent
    outcome: str


class CommitHistory:
    """Decides the commits of one partition of the topic.

    Parameters
    ----------
    number : int or None
        The partition; it goes into each row.
    """

    def __init__(self, number: int | None) -> None:
        self.number = number
        self.undecided: dict[int, list[CommitEvent]] = {}

    def feed(self, events: Iterable[CommitEvent | MarkerEvent]) -> list[Decided]:
        """Take what a fold noted (``PartitionFold.history``); return what is decided by it."""
        number = self.number
        decided: list[Decided] = []
        for event in events:
            if isinstance(event, MarkerEvent):
                outcome = "committed" if event.committed else "aborted"
                waited = self.undecided.pop(event.producer_id, ())
                decided += [Decided(number, commit, outcome) for commit in waited]
            elif event.producer_id is None:
                decided.append(Decided(number, event, "committed"))
            else:
                self.undecided.setdefault(event.producer_id, []).append(event)
        return decided

    def finish(self) -> list[Decided]:
        """Return the commits that no marker decided, in order of the log."""
        left = [commit for waited in self.undecided.values() for commit in waited]
        left.sort(key=lambda commit: commit.log_offset)
        self.undecided = {}
        return [Decided(self.number, commit, "pending") for commit in left]


def commit_rows(decided: Iterable[Decided]) -> Iterator[Row]:
    """Yield each decided commit in the order of ``COMMIT_FIELDS``, timestamps in epoch ms."""
    for number, (_, key, log_offset, timestamp, producer_id, value), outcome in decided:
        group, topic, partition = partial.split_key(key)
        offset, epoch, metadata, committed, expires = value or TOMBSTONE
        yield (
            *(decode_utf8(group), number, log_offset, None if timestamp == -1 else timestamp),
            *(decode_utf8(topic), partition, offset, epoch),
            None if metadata is None else decode_utf8(metadata),
            *(committed, None if expires == -1 else expires),
            *(value is None, producer_id, outcome),
        )


def commits_table(decided: Sequence[Decided]) -> pa.Table:
    """Return decided commits as the table ``commits``, column by column."""
    import pyarrow as pa

    schema = SCHEMAS["commits"]()
    if not decided:
        return schema.empty_table()
    numbers, commits, outcomes = zip(*decided, strict=True)
    _, keys, log_offsets, timestamps, producer_ids, values = zip(*commits, strict=True)
    full = [value or TOMBSTONE for value in values]
    offsets, epochs, metadata, committed, expires = zip(*full, strict=True)
    group_ids, topics, partitions = key_columns(keys)
    columns = {
        "group_id": group_ids,
        "offsets_partition": numbers,
        "log_offset": log_offsets,
        "timestamp": [None if ms == -1 else ms for ms in timestamps],
        "topic": topics,
        "partition": partitions,
        "offset": offsets,
        "leader_epoch": epochs,
        "metadata": to_text(pa.array(metadata, pa.large_binary())),
        "commit_timestamp": committed,
        "expire_timestamp": [None if ms == -1 else ms for ms in expires],
        "tombstone": [value is None for value in values],
        "producer_id": producer_ids,
        "outcome": outcomes,
    }
    return pa.Table.from_arrays(
        [pa.array(columns[field.name], field.type) for field in schema], schema=schema
    )
