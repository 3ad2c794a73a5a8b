"""Commits one by one, each with what became of it: the table ``commits``, as the log is read.

A plain commit counts at once; one of a transaction is held back until the producer's next marker
says committed or aborted, or the log ends: pending. So its row stands where it was decided, and
memory holds what is undecided, not the log. The work is in ``coterie._core.fold.history``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coterie._core.fold.history import OUTCOMES, History, Undecided
from coterie.state.schemas import SCHEMAS

if TYPE_CHECKING:
    import pyarrow as pa

COMMIT_FIELDS = (
    *("group_id", "offsets_partition", "log_offset", "timestamp", "topic", "partition"),
    *("offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp"),
    *("tombstone", "producer_id", "outcome"),
)
NAMES = ("group_id", "topic", "outcome")  # few that come again and again
ROWS_A_CHUNK = 1 << 18  # so that no chunk's text comes near the 2 GiB that Arrow's string holds
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Decided:
    """Commits and what became of them, for :func:`commits_table` and :func:`commit_rows`.

    ``commits`` may be the fold's own history: good until that is cleared.
    """

    number: int | None
    commits: History

    def __len__(self) -> int:
        return len(self.commits)


class CommitHistory:
    """Decides the commits of one partition of the topic.

    Parameters
    ----------
    number : int or None
        The partition; it goes into each row.
    """

    def __init__(self, number: int | None) -> None:
        self.number = number
        self.undecided = Undecided()

    def feed(self, events: History) -> Decided:
        """Take what a fold noted (``PartitionFold.history``); return what is decided by it."""
        return Decided(self.number, self.undecided.decide(events))

    def finish(self) -> Decided:
        """Return the commits that no marker decided, in order of the log."""
        return Decided(self.number, self.undecided.finish())


def commit_rows(decided: Decided) -> Iterator[Row]:
    """Yield each decided commit in the order of ``COMMIT_FIELDS``, timestamps in epoch ms."""
    number = (decided.number,)
    for row in decided.commits.rows():
        yield row[:1] + number + row[1:]


def stored_schema() -> pa.Schema:
    """Return the schema of ``commits`` with each name once: what :func:`commits_table` has."""
    import pyarrow as pa

    schema = SCHEMAS["commits"]()
    for name in NAMES:
        index = schema.get_field_index(name)
        schema = schema.set(index, pa.field(name, pa.dictionary(pa.int32(), pa.string())))
    return schema


def commits_table(decided: Decided) -> pa.Table:
    """Return decided commits as the table ``commits``, of the type ``stored_schema``."""
    import pyarrow as pa

    starts = range(0, len(decided), ROWS_A_CHUNK)
    chunks = [_chunk(decided, at, min(at + ROWS_A_CHUNK, len(decided))) for at in starts]
    return pa.concat_tables(chunks) if chunks else stored_schema().empty_table()


def _chunk(decided: Decided, start: int, end: int) -> pa.Table:
    import pyarrow as pa

    from coterie.texts import slices, texts_of, to_text

    schema = stored_schema()
    columns = decided.commits.columns(start, end)
    gone = columns["kind"] != 0
    nulls = {
        "timestamp": columns["timestamp"] == -1,
        **dict.fromkeys(("offset", "leader_epoch", "metadata", "commit_timestamp"), gone),
        "expire_timestamp": columns["expire_timestamp"] == -1,
        "producer_id": columns["transactional"] == 0,
    }
    columns["outcome"] = columns["outcome"].astype("int32")
    names = {name: to_text(slices(*columns[f"{name}s"])) for name in ("group", "topic")}
    names = {"group_id": names["group"], "topic": names["topic"], "outcome": pa.array(OUTCOMES)}
    columns["group_id"] = columns.pop("group")

    def column(field: pa.Field) -> pa.Array:
        mask = nulls.get(field.name)
        if mask is not None and mask.all():
            return pa.nulls(end - start, field.type)
        if field.name in names:
            indices = pa.array(columns[field.name])
            return pa.DictionaryArray.from_arrays(indices, names[field.name], safe=False)
        if field.name == "metadata" and mask is not None:
            return texts_of(columns["metadata"], columns["metadata_bounds"], mask)
        if mask is not None and mask.any():
            return pa.array(columns[field.name], mask=mask).view(field.type)
        return pa.array(columns[field.name]).view(field.type)

    columns["tombstone"] = gone
    number = pa.scalar(decided.number, pa.int32())
    arrays = [
        pa.repeat(number, end - start) if field.name == "offsets_partition" else column(field)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
