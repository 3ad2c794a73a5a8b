"""The data source ``consumer_offsets``: a log's decoded records as a DataFrame.

    coterie_spark.register(spark)
    spark.read.format("consumer_offsets").load("/copy/of/the/log")
    spark.sql("CREATE TABLE records USING consumer_offsets OPTIONS (path '/copy/of/the/log')")
    spark.readStream.format("consumer_offsets").option("maxBytesPerTrigger", 1 << 28).load(...)

One partition of the DataFrame is one segment, or a piece of a large one; workers read the bytes
themselves. A stream reads the same rows, as far as the log has whole batches.
A schema given to the reader prunes columns: Spark's Python API offers no other way.
The options ``partitions`` ("1,2") and ``group`` (a group id) select records before they reach
Spark. Spark's filters are not pushed down: as of 4.3 it keeps a reader with its filters for the
next query on the same DataFrame, which then lacks rows.
"""

from __future__ import annotations

import itertools
import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from coterie.errors import CoterieError
from coterie.log.folders import Segment, cut_points, find_segments, local_path, read_segment
from coterie.log.mapped import intact
from coterie.state.decoded import NAMES, arrow_schema, record_batches
from coterie_spark.replay_job.closures import on_worker
from coterie_spark.replay_job.plan import SPARK_PIECE_BYTES
from coterie_spark.source.positions import bytes_of_piece
from coterie_spark.source.stream_reader import (
    MAX_BYTES,
    StreamPositions,
    max_bytes_of,
    stream_reader,
)

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "consumer_offsets"
OPTIONS = "path", "paths", "partitions", "partition", "group", MAX_BYTES


@dataclass
class SegmentRange(InputPartition):
    """Whole batches of one segment; ``end`` None: to its end."""

    segment: Segment
    start: int = 0
    end: int | None = None


class ConsumerOffsetsSource(DataSource):
    """The data source as Spark sees it; an option ``paths`` is JSON, as Spark passes it."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Return every column; a schema given to the reader may name fewer.

        As of 4.3, Spark passes the options of ``CREATE TABLE ... OPTIONS (...)`` to a Python
        source only here, and stores the schema. So the first column's metadata has the options.
        """
        first, *others = from_arrow_schema(arrow_schema()).fields
        options = {name: self.options[name] for name in OPTIONS if self.options.get(name)}
        first = StructField(first.name, first.dataType, True, {FORMAT: options})
        return StructType([first, *others])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the columns that the schema names."""
        options = self.options_of(schema)
        reader = ConsumerOffsetsReader(
            paths_of(options), tuple(schema.names), partitions_of(options), options.get("group")
        )
        return portable(reader)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the streaming reader of the columns that the schema names."""
        options = self.options_of(schema)
        paths = paths_of(options)
        read = partial(rows_of_stream, paths, tuple(schema.names), options.get("group"))
        return stream_reader(
            StreamPositions(paths, partitions_of(options), max_bytes_of(options)), read
        )

    def options_of(self, schema: StructType) -> dict[str, str]:
        """Return the options, those in a table's schema too; its columns must be ours."""
        unknown = [name for name in schema.names if name not in NAMES]
        if unknown:
            raise CoterieError(
                f"consumer_offsets has no column {unknown[0]}; it has {', '.join(NAMES)}"
            )
        options = {name: self.options[name] for name in OPTIONS if self.options.get(name)}
        for field in schema.fields:
            options = field.metadata.get(FORMAT, {}) | options
        return options


def paths_of(options: Mapping[str, str]) -> list[str]:
    """Return the paths of a ``load``, or the path of a table."""
    if "paths" in options:
        paths: list[str] = json.loads(options["paths"])
        return paths
    if "path" in options:
        return [local_path(options["path"])]  # Spark makes a URL of a table's path
    raise CoterieError(
        "consumer_offsets needs a path: give it to load(...), or to a table without columns of"
        " its own as OPTIONS (path '...')"
    )


def partitions_of(options: Mapping[str, str]) -> frozenset[int] | None:
    """Return the option ``partitions``, or ``partition``."""
    text = options.get("partitions", options.get("partition"))
    try:
        return None if text is None else frozenset(int(part) for part in text.split(","))
    except ValueError as error:
        raise CoterieError(f"partitions must be numbers like 0,7, not {text!r}") from error


class ConsumerOffsetsReader(DataSourceReader):
    """Plans pieces on the driver, reads them on the workers."""

    def __init__(
        self,
        paths: Sequence[str],
        names: tuple[str, ...],
        offsets_partitions: frozenset[int] | None,
        group: str | None,
    ) -> None:
        self.paths = list(paths)
        self.names = names
        self.offsets_partitions = offsets_partitions
        self.group = group

    def partitions(self) -> Sequence[InputPartition]:
        """Return a piece for each segment, and several for a large one that is not compressed."""
        pieces: list[InputPartition] = []
        for segment in find_segments(self.paths).segments:
            chosen = self.offsets_partitions
            if chosen is None or segment.partition in chosen:
                pieces.extend(ranges_of(segment))
        return pieces

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one piece, as Arrow."""
        assert isinstance(partition, SegmentRange)
        segment = partition.segment
        data = memoryview(read_segment(segment))[partition.start : partition.end]
        return rows_of(data, segment, partition.start, self.names, self.group)


def rows_of(
    data: memoryview, segment: Segment, start: int, names: tuple[str, ...], group: str | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of whole batches of a segment, those of one group if it is named."""
    import pyarrow.compute as pc

    needed = names if group is None else (*names, "group_id")
    for batch in record_batches(
        data,
        partition=segment.partition,
        segment=segment.log_name,
        position=start,
        names=list(dict.fromkeys(needed)),
    ):
        if group is not None:
            batch = batch.filter(pc.equal(batch.column("group_id"), group))
        yield batch.select(list(names))


def rows_of_stream(
    paths: list[str], names: tuple[str, ...], group: str | None, piece: bytes
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a pickled piece of a stream."""
    for segment, start, data in bytes_of_piece(paths, pickle.loads(piece)):
        yield from rows_of(data, segment, start, names, group)


def portable(reader: DataSourceReader) -> DataSourceReader:
    """Return a reader that can be sent to any worker.

    Spark unpickles the reader and its pieces on the worker before it calls them, so neither may
    name a class of coterie: a worker without coterie could not report what is missing.
    """
    body, read_on_worker = pickle.dumps(reader), on_worker(read_piece)

    class Portable(DataSourceReader):
        def partitions(self) -> Sequence[InputPartition]:
            import pickle

            return [InputPartition(pickle.dumps(p)) for p in pickle.loads(body).partitions()]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            return read_on_worker(body, partition.value)

    return Portable()


def read_piece(reader: bytes, piece: bytes) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one piece; reader and piece are pickled."""
    rows: Iterator[pa.RecordBatch] = pickle.loads(reader).read(pickle.loads(piece))
    return rows


def ranges_of(segment: Segment) -> list[SegmentRange]:
    """Cut a large segment at batch boundaries."""
    if segment.compression is not None or segment.size <= SPARK_PIECE_BYTES:
        return [SegmentRange(segment)]
    data = read_segment(segment)
    with intact(data):
        points = cut_points(data, SPARK_PIECE_BYTES)
    return [SegmentRange(segment, start, end) for start, end in itertools.pairwise(points)]


def register(spark: Any) -> None:
    """Register ``spark.read.format("consumer_offsets")`` with a session."""
    spark.dataSource.register(ConsumerOffsetsSource)
