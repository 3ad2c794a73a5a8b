"""Decode rows of Spark's own Kafka source into the rows of ``consumer_offsets``.

Such rows are records without their batches. So the columns about the batch and its producer are
null, and markers of transactions are not among the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from coterie._core.codec.batch import encode_batch
from coterie.errors import ArgumentError, CoterieError, shown
from coterie.state.decoded import arrow_schema, record_batches
from coterie_spark.replay_job.closures import shipped
from coterie_spark.replay_job.frame import NEEDED
from coterie_spark.replay_job.scanning import Batches, Worker

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

UNKNOWN = (
    *("segment", "batch_position", "producer_id", "producer_epoch", "is_transactional", "marker"),
)
TYPES = {0: "CreateTime", 1: "LogAppendTime", -1: "NoTimestampType"}


def decode(frame: DataFrame) -> DataFrame:
    """Decode records of ``__consumer_offsets`` that Spark's own Kafka source reads.

    Parameters
    ----------
    frame : DataFrame
        Columns ``key``, ``value``, ``partition``, ``offset`` and ``timestamp``, as
        ``spark.read.format("kafka")`` and ``spark.readStream.format("kafka")`` return them;
        ``timestampType`` if it is there; others are ignored. For internal topics, Spark's source
        needs ``spark.sql.streaming.kafka.useDeprecatedOffsetFetching``.

    Returns
    -------
    DataFrame
        The columns of the data source ``consumer_offsets``, batch or streaming as ``frame`` is. The
        rows cannot show ``segment``, ``batch_position``, ``producer_id``, ``producer_epoch``,
        ``is_transactional`` and ``marker``: these are null. Markers have no rows, so a commit of an
        open or aborted transaction looks like any other; ``kafka.isolation.level``
        ``read_committed`` leaves those out.

    Raises
    ------
    CoterieError
        A column is missing.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_schema

    if not isinstance(frame, DataFrame):
        raise ArgumentError(f"frame must be a DataFrame, not {shown(frame)}")
    missing = [name for name in NEEDED if name not in frame.columns]
    if missing:
        raise CoterieError(f"no column {missing[0]!r} to decode; needed: {', '.join(NEEDED)}")
    kinds = dict(zip(NEEDED, ("binary", "binary", "int", "bigint", "timestamp"), strict=True))
    columns = [f.col(name).cast(kind).alias(name) for name, kind in kinds.items()]
    has_type = "timestampType" in frame.columns
    columns.append((f.col("timestampType") if has_type else f.lit(None)).cast("int").alias("type"))
    schema = from_arrow_schema(arrow_schema())
    return frame.select(*columns).mapInArrow(shipped(decode_worker()), schema)


def decode_worker() -> Worker:
    """Return the worker that decodes rows of ``NEEDED`` and a type of timestamps."""

    def work(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield from decoded_rows(batch)

    return work


def decoded_rows(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield decoded rows; the keys and values are decoded as one batch of a log."""
    import pyarrow as pa

    keys, values, *known = rows.columns
    pairs = zip(keys.to_pylist(), values.to_pylist(), strict=True)
    data = encode_batch([(at, 0, key, value) for at, (key, value) in enumerate(pairs)])
    schema, start = arrow_schema(), 0
    types = pa.array([TYPES.get(number) for number in known[3].to_pylist()], pa.string())
    names = ("offsets_partition", "log_offset", "timestamp", "timestamp_type")
    columns = dict(zip(names, (*known[:3], types), strict=True))
    for batch in record_batches(data, partition=None, segment=""):
        size = batch.num_rows
        own = {name: column.slice(start, size) for name, column in columns.items()}
        own |= {name: pa.nulls(size, schema.field(name).type) for name in UNKNOWN}
        arrays = [own.get(f.name, batch.column(f.name)).cast(f.type) for f in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        start += size
