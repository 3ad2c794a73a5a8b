"""Questions about logs that only Hadoop's file systems reach.

The segments of a partition, or of a part of a large one, come to one worker. A question goes over
them in order, and may do so more than once: so the worker puts them into files of its own first,
which are mapped, not held in memory, and removed at the end. The bytes travel in chunks; the JVM
alone holds a whole segment, of less than 2 GiB.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from coterie.log.folders import Segment, inflate, read_segment
from coterie_spark.bulk import scanning
from coterie_spark.bulk.driver import in_task
from coterie_spark.bulk.hadoop import files_of, is_url
from coterie_spark.bulk.shipping import shipped

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Buffer

CHUNKS_DDL = "task int, segment int, chunk int, body binary"

Partitions = list[tuple[int | None, list[Segment]]]
Work = Callable[[scanning.Reader, scanning.Batches], Iterator["pa.RecordBatch"]]


def each_partition(spark: SparkSession, log: Partitions, work: Work, schema: Any) -> DataFrame:
    """Return what ``work`` gives of rows with a column ``id``: a row a partition, a task each.

    It is handed what reads a segment, wherever the log lies. A part of a partition is as good.
    """
    from pyspark.sql import functions as f

    if not lies_at_urls(log):
        numbers = spark.range(0, len(log), 1, len(log))
        return numbers.mapInArrow(shipped(partial(work, scanning.reader())), schema)
    # A row for each partition: one without a byte is asked, too.
    rows = spark.range(0, len(log), 1, 1).selectExpr(
        "int(id) as task", "-1 as segment", "0 as chunk", "cast(null as binary) as body"
    )
    dealt = rows.unionAll(chunks_of(spark, log))
    there = dealt.repartition(len(log), in_task(f.col("task"), len(log)))
    return there.mapInArrow(shipped(partial(spooled, log, work)), schema)


def lies_at_urls(log: Partitions) -> bool:
    """Whether only Hadoop's file systems reach a log."""
    return any(is_url(segment.path) for _, segments in log for segment in segments)


def chunks_of(spark: SparkSession, log: Partitions) -> DataFrame:
    """Return the bytes of segments as rows of ``CHUNKS_DDL``, wherever they were read."""
    places = {
        segment.path: (task, number)
        for task, (_, segments) in enumerate(log)
        for number, segment in enumerate(segments)
        if segment.size
    }
    if not places:
        return spark.createDataFrame([], CHUNKS_DDL)
    return files_of(spark, places).mapInArrow(shipped(chunk_worker(places)), CHUNKS_DDL)


def chunk_worker(places: dict[str, tuple[int, int]]) -> scanning.Worker:
    """Return what cuts segments, columns ``path`` and ``content``, into chunks."""

    def work(batches: scanning.Batches) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        kinds = {"task": pa.int32(), "segment": pa.int32(), "chunk": pa.int32()}
        schema = pa.schema({**kinds, "body": pa.binary()})
        for batch in batches:
            for path, content in zip(batch.column(0), batch.column(1), strict=True):
                body = memoryview(content.as_buffer())
                for chunk, start in enumerate(range(0, len(body), scanning.CHUNK_BYTES)):
                    part = body[start : start + scanning.CHUNK_BYTES]
                    yield scanning.rows_of(schema, (*places[path.as_py()], chunk, part))

    return work


class Spool:
    """Files of a worker with the segments of some partitions of ``log``, in a folder."""

    def __init__(self, log: Partitions, folder: str) -> None:
        self.folder = folder
        self._log = log
        self._files: dict[str, str] = {}  # by the path of the segment

    def put(self, task: int, segment: int, chunk: int, body: Buffer) -> None:
        """Write a chunk at its place: they come in any order."""
        file = os.path.join(self.folder, f"{task}-{segment}")
        self._files[self._log[task][1][segment].path] = file
        with open(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as out:
            out.seek(chunk * scanning.CHUNK_BYTES)
            out.write(body)

    def read(self, segment: Segment) -> memoryview:
        """Return a segment's bytes, decompressed; a big one is mapped."""
        if not segment.size:
            return scanning.no_bytes(segment)
        file = self._files[segment.path]
        if segment.compression is None:
            size = os.stat(file).st_size
            return memoryview(read_segment(Segment(file, None, None, size, None)))
        with open(file, "rb") as packed:
            return memoryview(inflate(packed.read(), segment))


@contextmanager
def spooling(log: Partitions) -> Iterator[Spool]:
    """Give a worker files for segments, as long as it works."""
    with tempfile.TemporaryDirectory(prefix="coterie-", dir=home()) as folder:
        yield Spool(log, folder)


def spooled(log: Partitions, work: Work, batches: scanning.Batches) -> Iterator[pa.RecordBatch]:
    """Put the chunks that come into files, and do the work with what reads those."""
    import pyarrow as pa

    tasks: set[int] = set()
    with spooling(log) as spool:
        for batch in batches:
            *places, bodies = batch.columns
            for task, segment, chunk, body in zip(
                *(column.to_pylist() for column in places), bodies, strict=True
            ):
                tasks.add(task)
                if body.is_valid:
                    spool.put(task, segment, chunk, body.as_buffer())
        yield from work(spool.read, [pa.record_batch({"id": sorted(tasks)})])


def home() -> str | None:
    """Return the folder that Spark gave this worker, and removes; None where there is no Spark."""
    from pyspark import SparkFiles, TaskContext

    return None if TaskContext.get() is None else SparkFiles.getRootDirectory()
