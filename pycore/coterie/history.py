"""Commits one by one, each with what became of it: the table ``commits``, as the log is read.

A plain commit counts at once; one of a transaction is held back until the producer's next marker
says committed or aborted, or the log ends: pending. So its row stands where it was decided, and
memory holds what is undecided, not the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from coterie._core import partial
from coterie._core.text import decode_utf8
from coterie.schemas import SCHEMAS

if TYPE_CHECKING:
    import pyarrow as pa

COMMIT_FIELDS = (
    *("group_id", "offsets_partition", "log_offset", "timestamp", "topic", "partition"),
    *("offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp"),
    *("tombstone", "producer_id", "outcome"),
)
Row = tuple[Any, ...]


class CommitHistory:
    """Decides the commits of one partition of the topic.

    Parameters
    ----------
    number : int or None
        The partition; it goes into each row.
    """

    def __init__(self, number: int | None) -> None:
        self.number = number
        self.undecided: dict[int, list[Row]] = {}
        self.names: dict[bytes, tuple[str, str, int]] = {}

    def feed(self, events: Iterable[Row]) -> list[Row]:
        """Take what a fold noted (``PartitionFold.history``); return the rows decided by it.

        A row is a tuple in the order of the table's columns, timestamps in epoch ms.
        """
        decided: list[Row] = []
        for event in events:
            if event[0] == "marker":
                _, producer_id, committed = event
                outcome = "committed" if committed else "aborted"
                waited = self.undecided.pop(producer_id, ())
                decided += [self._row(commit, outcome) for commit in waited]
            elif event[4] is None:
                decided.append(self._row(event, "committed"))
            else:
                self.undecided.setdefault(event[4], []).append(event)
        return decided

    def finish(self) -> list[Row]:
        """Return the rows that no marker decided, in order of the log."""
        left = sorted((row for rows in self.undecided.values() for row in rows), key=lambda r: r[2])
        self.undecided = {}
        return [self._row(commit, "pending") for commit in left]

    def _row(self, commit: Row, outcome: str) -> Row:
        _, key, log_offset, timestamp, producer_id, value = commit
        if key not in self.names:
            group, topic, partition = partial.split_key(key)
            self.names[key] = decode_utf8(group), decode_utf8(topic), partition
        group_id, topic_name, partition = self.names[key]
        offset, epoch, metadata, committed, expires = value or (None,) * 5
        return (
            *(group_id, self.number, log_offset, None if timestamp == -1 else timestamp),
            *(topic_name, partition, offset, epoch),
            None if metadata is None else decode_utf8(metadata),
            *(committed, None if expires == -1 else expires),
            *(value is None, producer_id, outcome),
        )


def commits_table(rows: list[Row]) -> pa.Table:
    """Return rows of :class:`CommitHistory` as the table ``commits``."""
    import pyarrow as pa

    schema = SCHEMAS["commits"]()
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
