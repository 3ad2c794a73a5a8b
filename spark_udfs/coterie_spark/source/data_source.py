"""The data source ``consumer_offsets``: a log's decoded records as a DataFrame.

    coterie_spark.register(spark)
    spark.read.format("consumer_offsets").load("/copy/of/the/log")
    spark.sql("CREATE TABLE records USING consumer_offsets OPTIONS (path '/copy/of/the/log')")

One partition of the DataFrame is one segment, or a piece of a large one; workers read the bytes
themselves. A schema given to the reader prunes columns: Spark's Python API offers no other way.
The options ``partitions`` ("1,2") and ``group`` (a group id) leave out what is not wanted before
it reaches Spark. Filters are not taken from Spark: as of 4.3 it keeps a reader, with what was
pushed into it, for the next query on the same DataFrame, which then lacks rows.
"""

from __future__ import annotations

import itertools
import json
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from coterie.errors import CoterieError
from coterie.log.folders import Segment, cut_points, find_segments, read_segment
from coterie_spark.replay_job.closures import on_worker
from coterie_spark.replay_job.plan import SPARK_PIECE_BYTES
from coterie_spark.source.decoded import NAMES, arrow_schema, record_batches

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "consumer_offsets"
LOCAL_URL = re.compile("^file:/+")
OPTIONS = "path", "paths", "partitions", "group"


@dataclass
class SegmentRange(InputPartition):
    """Whole batches of one segment; ``end`` None: to its end."""

    segment: Segment
    start: int = 0
    end: int | None = None


class ConsumerOffsetsSource(DataSource):
    """Spark's face of the source; its options are ``path`` or ``paths`` (JSON, as Spark gives)."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Return every column; a schema given to the reader may name fewer.

        Of ``CREATE TABLE ... OPTIONS (...)`` Spark hands a source of Python's the options only
        here (as of 4.3), and keeps the schema. So they go along with the first column.
        """
        first, *others = from_arrow_schema(arrow_schema()).fields
        kept = {name: self.options[name] for name in OPTIONS if self.options.get(name)}
        return StructType([StructField(first.name, first.dataType, True, {FORMAT: kept}), *others])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the columns that the schema names."""
        unknown = [name for name in schema.names if name not in NAMES]
        if unknown:
            raise CoterieError(
                f"consumer_offsets has no column {unknown[0]}; it has {', '.join(NAMES)}"
            )
        options = {name: self.options[name] for name in OPTIONS if self.options.get(name)}
        for field in schema.fields:
            options = field.metadata.get(FORMAT, {}) | options
        reader = ConsumerOffsetsReader(
            paths_of(options), tuple(schema.names), partitions_of(options), options.get("group")
        )
        return sent(reader)


def paths_of(options: Mapping[str, str]) -> list[str]:
    """Return the paths given to ``load``, or the path of a table."""
    if "paths" in options:
        found: list[str] = json.loads(options["paths"])
        return found
    if "path" in options:
        return [LOCAL_URL.sub("/", options["path"])]  # of a table's path Spark makes a URL
    raise CoterieError(
        "consumer_offsets needs a path: give it to load(...), or to a table without columns of"
        " its own as OPTIONS (path '...')"
    )


def partitions_of(options: Mapping[str, str]) -> frozenset[int] | None:
    """Return the option ``partitions``."""
    text = options.get("partitions")
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
        wanted: frozenset[int] | None,
        group: str | None,
    ) -> None:
        self.paths = list(paths)
        self.names = names
        self.wanted = wanted
        self.group = group

    def partitions(self) -> Sequence[InputPartition]:
        """Return one piece a segment, more for a large one that is not compressed as a file."""
        pieces: list[InputPartition] = []
        for segment in find_segments(self.paths).segments:
            if self.wanted is None or segment.partition in self.wanted:
                pieces.extend(ranges_of(segment))
        return pieces

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one piece, as Arrow."""
        import pyarrow.compute as pc

        assert isinstance(partition, SegmentRange)
        segment = partition.segment
        data = memoryview(read_segment(segment))[partition.start : partition.end]
        names = self.names if self.group is None else (*self.names, "group_id")
        for batch in record_batches(
            data,
            partition=segment.partition,
            segment=segment.log_name,
            position=partition.start,
            names=list(dict.fromkeys(names)),
        ):
            if self.group is not None:
                batch = batch.filter(pc.equal(batch.column("group_id"), self.group))
            yield batch.select(list(self.names))


def sent(reader: DataSourceReader) -> DataSourceReader:
    """Return a reader that can be sent to a worker, whatever is installed there.

    Spark reads the reader and its pieces on the worker before it calls them, so neither may name
    a class of coterie's.
    """
    body, read_there = pickle.dumps(reader), on_worker(read_piece)

    class Sent(DataSourceReader):
        def partitions(self) -> Sequence[InputPartition]:
            import pickle

            return [InputPartition(pickle.dumps(p)) for p in pickle.loads(body).partitions()]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            return read_there(body, partition.value)

    return Sent()


def read_piece(reader: bytes, piece: bytes) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one piece, of a reader and a piece as bytes."""
    found: Iterator[pa.RecordBatch] = pickle.loads(reader).read(pickle.loads(piece))
    return found


def ranges_of(segment: Segment) -> list[SegmentRange]:
    """Cut a large segment at batch boundaries."""
    if segment.compression is not None or segment.size <= SPARK_PIECE_BYTES:
        return [SegmentRange(segment)]
    points = cut_points(memoryview(read_segment(segment)), SPARK_PIECE_BYTES)
    return [SegmentRange(segment, start, end) for start, end in itertools.pairwise(points)]


def register(spark: Any) -> None:
    """Make ``spark.read.format("consumer_offsets")`` known to a session."""
    spark.dataSource.register(ConsumerOffsetsSource)
