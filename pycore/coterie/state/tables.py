"""The tables of ``coterie replay`` as Arrow tables, from partial states.

Rows are ordered by the topic's partition, then group id (by UTF-8 bytes), then topic and partition,
member, or place in the log. Offsets do not become Python objects: Arrow cuts keys and metadata out
of the fold's buffers. pyarrow is imported when a table is made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie._core.codec.layout import decode_utf8
from coterie._core.fold import fold as partial
from coterie._core.fold.history import Generation
from coterie.base.arrow_text import slices, to_text
from coterie.state.consumer_protocol_groups import name_topics
from coterie.state.faults import known_faults
from coterie.state.history import commits_table
from coterie.state.rows import head_rows, pending_by_group, topic_id_texts
from coterie.state.schemas import SCHEMAS

if TYPE_CHECKING:
    import pyarrow as pa

    from coterie._core.fold.fold import PartitionFold
    from coterie._core.fold.fold_state import Fault

_REPLACED = ("group_instance_id", "old_member_id", "new_member_id")
ROWS_PER_CHUNK = 1 << 18  # keeps the text of a chunk far below the 2 GiB of an Arrow string
Tables = dict[str, "pa.Table"]


def state_tables(
    folds: Mapping[int | None, PartitionFold],
    joined: Mapping[int | None, PartitionFold],
    *,
    history: bool,
) -> Tables:
    """Return the tables of all partitions by name; ``commits`` only with ``history``.

    ``joined``: those that Kafka's loader accepts, as in :func:`fold_tables`.
    """
    import pyarrow as pa

    parts: dict[str, list[pa.Table]] = {name: [] for name in SCHEMAS}
    for number, fold in folds.items():
        if number in joined:
            for name, table in fold_tables(number, fold, joined=joined[number]).items():
                parts[name].append(table)
        parts["faults"].append(faults_table(number, known_faults(fold)))
        if fold.history is not None:
            for rows in (fold.history, fold.history.pending()):
                parts["commits"].append(commits_table(number, rows).cast(SCHEMAS["commits"]()))
    if not history:
        del parts["commits"]
    return {
        name: pa.concat_tables([SCHEMAS[name]().empty_table(), *tables])
        for name, tables in parts.items()
    }


def fold_tables(
    number: int | None,
    fold: PartitionFold,
    begun: Collection[bytes] = (),
    joined: PartitionFold | None = None,
) -> Tables:
    """Return ``groups``, ``members``, ``offsets`` and ``generations`` of one partition.

    ``begun``: see :func:`generations_table`. ``joined``: the partition as ``PartialState.joined``
    has it, if a group may be in several; its generations stay where their records are.
    """
    tables = group_tables(number, fold if joined is None else joined)
    return {**tables, "generations": generations_table(number, fold, begun)}


def group_tables(number: int | None, fold: PartitionFold) -> Tables:
    """Return ``groups``, ``members`` and ``offsets`` of one partition."""
    offsets = offsets_table(fold)
    pending = pending_by_group(fold)
    named = offsets["group_id"].unique().to_pylist()
    heads = sorted(head_rows(fold, (*named, *pending)).items(), key=lambda head: _utf8(head[0]))
    name_topics(head for _, head in heads)
    groups = [
        {
            **head,
            "group_id": group,
            "offsets_partition": number,
            "pending_transactional_offsets": pending.get(group, []),
        }
        for group, head in heads
    ]
    members = [member_of_table(group, m) for group, head in heads for m in head["members"]]
    return {
        "groups": _from_rows("groups", groups),
        "members": _from_rows("members", members),
        "offsets": offsets,
    }


def member_of_table(group_id: str, member: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a member in the table."""
    epochs = [topic.get("assignment_epochs") for topic in member.get("current_assignment", ())]
    return {
        **member,
        "group_id": group_id,
        "assignment_epochs": epochs if any(epochs) else None,
    }


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _from_rows(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    return from_rows(SCHEMAS[name](), rows)


def from_rows(schema: pa.Schema, rows: list[dict[str, Any]]) -> pa.Table:
    """Return rows as a table; fields outside the schema are omitted."""
    import pyarrow as pa

    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def offsets_table(fold: PartitionFold) -> pa.Table:
    import pyarrow as pa

    columns = partial.offset_columns(fold)
    count = len(columns["partition"])
    topic_ids = pa.array([None, *topic_id_texts(columns.pop("topic_ids").tobytes())], pa.string())
    chunks = [
        _offsets_chunk(columns, topic_ids, start, min(start + ROWS_PER_CHUNK, count))
        for start in range(0, count, ROWS_PER_CHUNK)
    ]
    table = pa.concat_tables([SCHEMAS["offsets"]().empty_table(), *chunks])
    return table.sort_by([(name, "ascending") for name in ("group_id", "topic", "partition")])


def _offsets_chunk(columns: dict[str, Any], topic_ids: pa.Array, start: int, end: int) -> pa.Table:
    import pyarrow as pa

    schema = SCHEMAS["offsets"]()
    part = {name: array[start:end] for name, array in columns.items()}
    # A row of bounds is (group, its end, topic, its end). Flattened, they cut the keys into group,
    # two bytes of length, topic, and the bytes up to the next group.
    pieces = slices(columns["keys"], part["bounds"].ravel())
    before = columns["metadata_end"][start - 1] if start else 0
    metadata = slices(columns["metadata"], np.concatenate([[before], part["metadata_end"]]))
    group_places = np.arange(end - start, dtype=np.int64) * 4
    expires = part["expire_timestamp"]
    arrays = {
        "group_id": to_text(pieces.take(pa.array(group_places))),
        "topic": to_text(pieces.take(pa.array(group_places + 2))),
        "metadata": to_text(metadata),
        "expire_timestamp": pa.array(expires, mask=expires == -1),
        "appended_batch_offset": pa.array(part["batch_offset"]),
        "topic_id": topic_ids.take(pa.array(part["topic_id"])),
    }
    for name in ("partition", "offset", "leader_epoch", "commit_timestamp"):
        arrays[name] = pa.array(part[name])
    return pa.Table.from_arrays([arrays[f.name].cast(f.type) for f in schema], schema=schema)


def generations_table(
    number: int | None, fold: PartitionFold, begun: Collection[bytes] = ()
) -> pa.Table:
    """Return one row per group metadata record: the changes since the record before.

    ``begun`` are the groups whose first row was already written.
    """
    import pyarrow as pa

    names: list[str] = []
    changes: list[Generation] = []
    for group in sorted(fold.groups):
        log = fold.groups[group]
        of_group = log.changes if group in begun else log.generations()
        names += [decode_utf8(group)] * len(of_group)
        changes += of_group
    schema = SCHEMAS["generations"]()
    if not changes:
        return schema.empty_table()
    columns: dict[str, Sequence[Any]] = dict(
        zip(Generation._fields, zip(*changes, strict=True), strict=True)
    )
    columns |= {"group_id": names, "offsets_partition": [number] * len(names)}
    columns["replaced"] = [
        [dict(zip(_REPLACED, member, strict=True)) for member in members]
        for members in columns["replaced"]
    ]
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def faults_table(number: int | None, faults: Iterable[Fault]) -> pa.Table:
    rows = [{**fault._asdict(), "offsets_partition": number} for fault in faults]
    return _from_rows("faults", rows)


__all__ = [
    "SCHEMAS",
    "Tables",
    "commits_table",
    "faults_table",
    "fold_tables",
    "from_rows",
    "group_tables",
    "offsets_table",
    "state_tables",
]
