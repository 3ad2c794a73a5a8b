"""The history of a fold as rows, and as the table ``commits``: each commit with its outcome.

A transaction's commits become rows at its marker; those without a marker come last. So a history
can be written and cleared while the log is read, and memory grows only with open transactions. The
rows are in ``coterie._core.fold.history``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from coterie._core.fold.history import OUTCOMES, History
from coterie.state.rows import topic_id_text, topic_id_texts
from coterie.state.schemas import SCHEMAS

if TYPE_CHECKING:
    import pyarrow as pa

COMMIT_FIELDS = (
    *("group_id", "offsets_partition", "log_offset", "timestamp", "topic", "partition"),
    *("offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp"),
    *("tombstone", "producer_id", "outcome", "topic_id"),
)
NAMES = ("group_id", "topic", "outcome", "topic_id")  # columns with few distinct values
ROWS_PER_CHUNK = 1 << 18  # keeps the text of a chunk far below the 2 GiB of an Arrow string
Row = tuple[Any, ...]


def commit_rows(number: int | None, history: History) -> Iterator[Row]:
    """Yield each commit in the order of ``COMMIT_FIELDS``, timestamps in epoch ms.

    ``number`` is the partition of the topic; it goes into each row.
    """
    for group_id, *row, topic_id in history.rows():
        yield (group_id, number, *row, None if topic_id is None else topic_id_text(topic_id))


def stored_schema() -> pa.Schema:
    """Return the schema of :func:`commits_table`: ``commits`` with dictionary-encoded names."""
    import pyarrow as pa

    schema = SCHEMAS["commits"]()
    for name in NAMES:
        index = schema.get_field_index(name)
        schema = schema.set(index, pa.field(name, pa.dictionary(pa.int32(), pa.string())))
    return schema


def commits_table(number: int | None, history: History) -> pa.Table:
    """Return the table ``commits`` of a history, with ``stored_schema``."""
    import pyarrow as pa

    count = len(history)
    chunks = [
        _chunk(number, history, start, min(start + ROWS_PER_CHUNK, count))
        for start in range(0, count, ROWS_PER_CHUNK)
    ]
    return pa.concat_tables(chunks) if chunks else stored_schema().empty_table()


def _chunk(number: int | None, history: History, start: int, end: int) -> pa.Table:
    import pyarrow as pa

    from coterie.base.arrow_text import slices, texts_of, to_text

    schema = stored_schema()
    columns = history.columns(start, end)
    is_tombstone = columns["kind"] != 0
    nulls = {
        "timestamp": columns["timestamp"] == -1,
        **dict.fromkeys(("offset", "leader_epoch", "metadata", "commit_timestamp"), is_tombstone),
        "expire_timestamp": columns["expire_timestamp"] == -1,
        "producer_id": columns["transactional"] == 0,
        "topic_id": columns["topic_id"] == 0,
    }
    columns["topic_id"] = columns["topic_id"] - 1  # numbers begin at 1
    columns["outcome"] = columns["outcome"].astype("int32")
    names = {name: to_text(slices(*columns[f"{name}s"])) for name in ("group", "topic")}
    names = {"group_id": names["group"], "topic": names["topic"], "outcome": pa.array(OUTCOMES)}
    names["topic_id"] = pa.array(topic_id_texts(columns["topic_ids"].tobytes()), pa.string())
    columns["group_id"] = columns.pop("group")

    def column(field: pa.Field) -> pa.Array:
        mask = nulls.get(field.name)
        if mask is not None and mask.all():
            return pa.nulls(end - start, field.type)
        if field.name in names:
            indices = pa.array(columns[field.name], mask=mask)
            return pa.DictionaryArray.from_arrays(indices, names[field.name], safe=False)
        if field.name == "metadata":
            assert mask is not None  # see above
            return texts_of(columns["metadata"], columns["metadata_bounds"], mask)
        if mask is not None and mask.any():
            return pa.array(columns[field.name], mask=mask).view(field.type)
        return pa.array(columns[field.name]).view(field.type)

    columns["tombstone"] = is_tombstone
    repeated = pa.repeat(pa.scalar(number, pa.int32()), end - start)
    arrays = [repeated if field.name == "offsets_partition" else column(field) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)
