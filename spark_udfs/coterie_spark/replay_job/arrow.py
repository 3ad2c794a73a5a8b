"""Arrow rows and tables as Spark takes them: timestamps in microseconds. Imports no Spark.

Times beyond the microseconds of an int64 (from about the year 294247, in damaged or invented
records only) become the nearest valid time.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer

MAX_MS = (1 << 63) // 1000


def rows_of(schema: pa.Schema, *rows: tuple[Any, ...]) -> pa.RecordBatch:
    import pyarrow as pa

    columns = zip(*rows, strict=True)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def row_with_body(schema: pa.Schema, row: tuple[Any, ...], body: Buffer) -> pa.RecordBatch:
    """Return a row whose last column is ``body``, which is not copied."""
    import pyarrow as pa

    bytes_of_body = pa.py_buffer(body)
    ends = pa.py_buffer(array("i", [0, bytes_of_body.size]))
    last = pa.Array.from_buffers(schema[-1].type, 1, [None, ends, bytes_of_body])
    columns = [pa.array([value], field.type) for value, field in zip(row, schema, strict=False)]
    return pa.RecordBatch.from_arrays([*columns, last], schema=schema)


def spark_schema(schema: pa.Schema) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([pa.field(f.name, _spark_type(f.type)) for f in schema])


def _spark_type(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_list(kind):
        return pa.list_(_spark_type(kind.value_type))
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return pa.struct([pa.field(f.name, _spark_type(f.type)) for f in fields])
    return kind


def to_spark(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table cast to its ``spark_schema``."""
    import pyarrow as pa

    try:
        return table.cast(schema)
    except pa.ArrowInvalid:  # a time is out of range
        columns = [_clamped(column.combine_chunks()) for column in table.columns]
        return pa.Table.from_arrays(columns, schema=table.schema).cast(schema)


def _clamped(array: Any) -> Any:
    """Return an array with its times, nested ones too, clamped to Spark's range."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if pa.types.is_timestamp(kind):
        ms = array.cast(pa.int64())
        skip_nothing = {"skip_nulls": False}
        ms = pc.max_element_wise(
            pc.min_element_wise(ms, MAX_MS, **skip_nothing), -MAX_MS, **skip_nothing
        )
        return ms.cast(kind)
    if pa.types.is_list(kind):
        values = _clamped(array.flatten())
        return pa.ListArray.from_arrays(_offsets(array), values, type=kind, mask=array.is_null())
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        parts = [_clamped(part) for part in array.flatten()]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null())
    return array


def _offsets(array: Any) -> Any:
    """Return the list offsets into ``array.flatten()``, which lacks the values under nulls."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
