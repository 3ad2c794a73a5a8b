"""Decoded records as Arrow batches: pure functions, for Spark's data source and ``coterie.read``.

The rows are those of ``coterie records``: every record of every batch that can be read, in log
order. Only the requested columns are made; the raw bytes cost most.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie._core.codec.layout import decode_utf8
from coterie._core.codec.schema import decode_value, key_type
from coterie._core.fold.columns import KIND_NAMES, decode_columns
from coterie.log.folders import cut_points
from coterie.log.mapped import intact

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray
    from typing_extensions import Buffer

RECORDS_DDL = (
    "offsets_partition int, segment string, log_offset long, timestamp timestamp,"
    " timestamp_type string, type string, key_version short, group_id string, topic string,"
    " partition int, offset long, leader_epoch int, metadata string, commit_timestamp timestamp,"
    " expire_timestamp timestamp, tombstone boolean, protocol_type string, generation int,"
    " protocol string, leader string, members int, producer_id long, producer_epoch short,"
    " is_transactional boolean, is_control boolean, marker string, batch_position long,"
    " key binary, value binary"
)
NAMES = tuple(field.split()[0] for field in RECORDS_DDL.split(","))
GROUP_FIELDS = {
    "protocol_type": "protocolType",
    "generation": "generation",
    "protocol": "protocol",
    "leader": "leader",
}
RAW = {"key", "value", "tombstone", *GROUP_FIELDS, "members"}
ROWS_AT_ONCE = 65_536
BYTES_AT_ONCE = 4 << 20  # Spark takes the rows of a stretch while the next one is decoded
OFFSET, OFFSET_TOMBSTONE, GROUP, GROUP_TOMBSTONE, NEWER, UNKNOWN, MARKER, FAULTY = range(8)
assert KIND_NAMES[GROUP] == "group"
assert KIND_NAMES[FAULTY] == "fault"
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # what a timestamp can show


def arrow_schema() -> pa.Schema:
    """Return the Arrow schema of ``RECORDS_DDL``."""
    import pyarrow as pa

    kinds = {
        "int": pa.int32(),
        "long": pa.int64(),
        "short": pa.int16(),
        "string": pa.string(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }
    fields = (field.split() for field in RECORDS_DDL.split(","))
    return pa.schema([(name, kinds[kind]) for name, kind in fields])


def record_batches(
    data: Buffer,
    *,
    partition: int | None,
    segment: str,
    position: int = 0,
    names: Sequence[str] = NAMES,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of whole batches, ``ROWS_AT_ONCE`` rows at a time.

    Parameters
    ----------
    data
        Bytes of a segment, from a batch boundary.
    partition, segment, position
        Values of the columns of that name; ``position`` is the first byte's place in the segment.
    names
        The columns to make, in this order.
    """
    import pyarrow as pa

    schema = pa.schema([arrow_schema().field(name) for name in names])
    view = memoryview(data)
    with intact(data):
        cuts = cut_points(view, BYTES_AT_ONCE)
    for begin, end in itertools.pairwise(cuts):
        with intact(data):
            columns = decode_columns(view[begin:end], raw=bool(RAW & set(names)))
        rows = Rows(columns, partition, segment, position + begin)
        for start in range(0, rows.count, ROWS_AT_ONCE):
            rows.window(start, min(start + ROWS_AT_ONCE, rows.count))
            arrays = [rows.column(name, schema.field(name).type) for name in names]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


class Rows:
    """A window over decoded columns, which makes each column of the data source."""

    def __init__(
        self, columns: dict[str, Any], partition: int | None, segment: str, position: int
    ) -> None:
        import pyarrow

        self.pa = pyarrow
        self.columns = columns
        self.partition, self.segment, self.position = partition, segment, position
        self.count = len(columns["kind"])
        self.start = self.end = 0

    def window(self, start: int, end: int) -> None:
        """Select the rows from ``start`` up to ``end``."""
        self.start, self.end = start, end
        self.kind: NDArray[np.int8] = self.rows("kind")
        self.values: list[dict[str, Any] | None] | None = None

    def of_batch(self, field: str) -> Any:
        """Return a field of each row's batch."""
        return self.columns["batches"][field][self.rows("batch")]

    def rows(self, name: str) -> Any:
        """Return one decoded column's rows."""
        return self.columns[name][self.start : self.end]

    def column(self, name: str, kind: pa.DataType) -> pa.Array:
        """Return one column of the data source."""
        if name in GROUP_FIELDS or name == "members":
            return self.pa.array(self.group_field(name), kind)
        make = MADE.get(name)
        return self.plain(name, kind) if make is None else make(self, kind)

    def plain(self, name: str, kind: pa.DataType) -> pa.Array:
        """Return a number of an offset commit, or of the batch, as it is."""
        if name in ("log_offset", "key_version"):
            return self.pa.array(self.rows(name), kind)
        if name.startswith("is_"):
            return self.pa.array(self.of_batch(name[3:]).astype(bool), kind)
        if name in ("producer_id", "producer_epoch"):
            return self.pa.array(self.of_batch(name), kind)
        missing = self.kind != OFFSET
        if name == "partition":
            missing = self.kind > OFFSET_TOMBSTONE
        return self.pa.array(self.rows(name), kind, mask=missing)

    def _of_offsets_partition(self, kind: pa.DataType) -> pa.Array:
        return self.pa.array([self.partition] * (self.end - self.start), kind)

    def _of_segment(self, kind: pa.DataType) -> pa.Array:
        return self.pa.array([self.segment] * (self.end - self.start), kind)

    def _of_batch_position(self, kind: pa.DataType) -> pa.Array:
        return self.pa.array(self.of_batch("position") + self.position, kind)

    def times(self, name: str, missing: NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
        """Milliseconds as Spark's microseconds; null for a time outside the years 1 to 9999."""
        values = self.rows(name)
        missing = missing | (values > LAST_MS) | (values < FIRST_MS)
        return self.pa.array(
            np.where(missing, 0, values) * 1000, self.pa.int64(), mask=missing
        ).cast(kind)

    def _of_timestamp(self, kind: pa.DataType) -> pa.Array:
        return self.times("timestamp", self.rows("timestamp") < 0, kind)

    def _of_commit_timestamp(self, kind: pa.DataType) -> pa.Array:
        return self.times("commit_timestamp", self.kind != OFFSET, kind)

    def _of_expire_timestamp(self, kind: pa.DataType) -> pa.Array:
        missing = (self.kind != OFFSET) | (self.rows("expire_timestamp") == -1)
        return self.times("expire_timestamp", missing, kind)

    def _of_timestamp_type(self, kind: pa.DataType) -> pa.Array:
        numbers = np.where(self.of_batch("magic") == 0, 0, 1 + (self.of_batch("append_time") != 0))
        return dictionary(numbers, ("NoTimestampType", "CreateTime", "LogAppendTime"), self.pa)

    def _of_type(self, kind: pa.DataType) -> pa.Array:
        versions = self.rows("key_version")
        known = {int(v): key_type(int(v)) for v in np.unique(versions)}
        numbers = np.searchsorted(list(known), versions)
        names = [*known.values(), "control"]
        return dictionary(np.where(self.kind == MARKER, len(names) - 1, numbers), names, self.pa)

    def _of_marker(self, kind: pa.DataType) -> pa.Array:
        return dictionary(self.of_batch("marker"), ("ABORT", "COMMIT"), self.pa)

    def _of_group_id(self, kind: pa.DataType) -> pa.Array:
        return dictionary(self.rows("group"), self.columns["groups"], self.pa)

    def _of_topic(self, kind: pa.DataType) -> pa.Array:
        return dictionary(self.rows("topic"), self.columns["topics"], self.pa)

    def _of_metadata(self, kind: pa.DataType) -> pa.Array:
        ends = self.rows("metadata_end")
        first = int(self.columns["metadata_end"][self.start - 1]) if self.start else 0
        heap = self.columns["metadata"][first : int(ends[-1])] if len(ends) else b""
        offsets = np.concatenate([[0], ends - first]).astype(np.int32)
        present = np.packbits(self.kind == OFFSET, bitorder="little").tobytes()
        buffers = [
            self.pa.py_buffer(present),
            self.pa.py_buffer(offsets),
            self.pa.py_buffer(bytes(heap)),
        ]
        raw = self.pa.BinaryArray.from_buffers(self.pa.binary(), len(ends), buffers)
        try:
            return raw.cast(self.pa.string())
        except self.pa.ArrowInvalid:  # bytes that are not UTF-8 read as Java reads them
            texts = [None if m is None else decode_utf8(m) for m in raw.to_pylist()]
            return self.pa.array(texts, kind)

    def raw(self, name: str) -> list[bytes | None]:
        """Return the bytes of keys or values, None for null."""
        heap = self.columns["bytes"]
        places = zip(self.rows(f"{name}_at"), self.rows(f"{name}_size"), strict=True)
        return [None if size < 0 else heap[at : at + size].tobytes() for at, size in places]

    def _of_key(self, kind: pa.DataType) -> pa.Array:
        return self.pa.array(self.raw("key"), kind)

    def _of_value(self, kind: pa.DataType) -> pa.Array:
        return self.pa.array(self.raw("value"), kind)

    def _of_tombstone(self, kind: pa.DataType) -> pa.Array:
        gone = (self.rows("value_size") < 0) & (self.kind != MARKER)
        return self.pa.array(gone, kind)

    def group_field(self, name: str) -> list[Any]:
        """Return a field of group metadata values, None for other records."""
        if self.values is None:
            is_group = (self.kind == GROUP).tolist()
            self.values = [
                group_value(value) if of_group else None
                for value, of_group in zip(self.raw("value"), is_group, strict=True)
            ]
        if name == "members":
            return [None if v is None else len(v["members"]) for v in self.values]
        return [None if v is None else v[GROUP_FIELDS[name]] for v in self.values]


MADE: dict[str, Callable[[Rows, pa.DataType], pa.Array]] = {
    "offsets_partition": Rows._of_offsets_partition,
    "segment": Rows._of_segment,
    "batch_position": Rows._of_batch_position,
    "timestamp": Rows._of_timestamp,
    "commit_timestamp": Rows._of_commit_timestamp,
    "expire_timestamp": Rows._of_expire_timestamp,
    "timestamp_type": Rows._of_timestamp_type,
    "type": Rows._of_type,
    "marker": Rows._of_marker,
    "group_id": Rows._of_group_id,
    "topic": Rows._of_topic,
    "metadata": Rows._of_metadata,
    "key": Rows._of_key,
    "value": Rows._of_value,
    "tombstone": Rows._of_tombstone,
}
"""What makes each column that is not a decoded column as it is."""


def group_value(value: bytes | None) -> dict[str, Any] | None:
    """Return a group metadata value's fields."""
    if value is None:
        return None
    fields: dict[str, Any] = decode_value(2, value)["data"]
    return fields


def dictionary(numbers: NDArray[Any], names: Collection[str | None], pa: Any) -> pa.Array:
    """Return names by number; null for a number that names none."""
    missing = (numbers < 0) | (numbers >= len(names))
    indices = pa.array(np.where(missing, 0, numbers).astype(np.int32), mask=missing)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(names), pa.string())).cast(
        pa.string()
    )
