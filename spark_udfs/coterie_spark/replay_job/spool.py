"""Questions about logs on Hadoop's file systems.

One worker gets the segments of a partition, or of a part of a large one. A question reads them in
order and may read them again, so the worker first writes them into files of its own. The files are
mapped rather than read into memory, and removed at the end. The bytes of a segment travel in
chunks, in their order.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from coterie.log.folders import Segment, inflate, is_url, read_segment
from coterie_spark.replay_job import hadoop, scanning
from coterie_spark.replay_job.arrow import rows_of
from coterie_spark.replay_job.closures import shipped
from coterie_spark.replay_job.tasks import in_task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Buffer

CHUNKS_DDL = "task int, segment int, start long, chunk int, body binary"
ORDER = ("task", "segment", "start", "chunk")

Partitions = list[tuple[int | None, list[Segment]]]
Places = dict[str, list[tuple[int, int]]]
"""The tasks that read a segment, each with its place there, by the segment's path."""

Work = Callable[[scanning.Reader, scanning.Batches], Iterator["pa.RecordBatch"]]


def each_partition(spark: SparkSession, log: Partitions, work: Work, schema: Any) -> DataFrame:
    """Run ``work`` in a task for each partition, or part of one, and return its rows.

    ``work`` gets a function that reads a segment, wherever the log is, and rows with a column
    ``id``.
    """
    from pyspark.sql import functions as f

    if not lies_at_urls(log):
        numbers = spark.range(0, len(log), 1, len(log))
        return numbers.mapInArrow(shipped(partial(work, scanning.reader())), schema)
    # A row for each partition, because one without a byte has an answer too.
    rows = spark.range(0, len(log), 1, 1).selectExpr(
        "int(id) as task", "-1 as segment", "0L as start", "0 as chunk", "binary(null) as body"
    )
    chunks = hadoop.union_of([rows, *chunks_of(spark, log)])
    by_task = chunks.repartition(len(log), in_task(f.col("task"), len(log)))
    return by_task.sortWithinPartitions(*ORDER).mapInArrow(
        shipped(partial(spooled, log, work)), schema
    )


def lies_at_urls(log: Partitions) -> bool:
    """Whether a log is on one of Hadoop's file systems."""
    return any(is_url(segment.path) for _, segments in log for segment in segments)


def chunks_of(spark: SparkSession, log: Partitions) -> list[DataFrame]:
    """Return the bytes of segments as rows of ``CHUNKS_DDL``."""
    places: Places = {}
    segments: dict[str, Segment] = {}
    for task, (_, own) in enumerate(log):
        for number, segment in enumerate(own):
            places.setdefault(segment.path, []).append((task, number))
            segments[segment.path] = segment
    workers = line_worker(places), content_worker(places)
    return hadoop.read_by(spark, list(segments.values()), *workers, CHUNKS_DDL)


def line_worker(places: Places) -> scanning.Worker:
    """Return the worker that makes chunks of segments from lines."""

    def work(batches: scanning.Batches) -> Iterator[pa.RecordBatch]:
        in_splits = groupby(hadoop.stretches_of(batches), key=lambda stretch: stretch[:2])
        for (path, start), stretches in in_splits:
            for chunk, stretch in enumerate(stretches):
                for place in places[path]:
                    row = (*place, start, chunk, stretch.body)
                    yield rows_of(chunk_schema(), row)

    return work


def content_worker(places: Places) -> scanning.Worker:
    """Return the worker that cuts segments, columns ``path`` and ``content``, into chunks."""

    def work(batches: scanning.Batches) -> Iterator[pa.RecordBatch]:
        for path, content in hadoop.contents_in(batches):
            body = memoryview(content)
            for chunk, start in enumerate(range(0, len(body), scanning.CHUNK_BYTES)):
                part = body[start : start + scanning.CHUNK_BYTES]
                for place in places[path]:
                    yield rows_of(chunk_schema(), (*place, 0, chunk, part))

    return work


def chunk_schema() -> pa.Schema:
    """Return the Arrow schema of ``CHUNKS_DDL``."""
    import pyarrow as pa

    kinds = (pa.int32(), pa.int32(), pa.int64(), pa.int32(), pa.binary())
    return pa.schema(list(zip((*ORDER, "body"), kinds, strict=True)))


class Spool:
    """Files of a worker with the segments of some partitions of ``log``."""

    def __init__(self, log: Partitions, folder: str) -> None:
        self.folder = folder
        self._log = log
        self._files: dict[str, str] = {}  # by the path of the segment

    def put(self, task: int, segment: int, body: Buffer) -> None:
        path = self._log[task][1][segment].path
        file = self._files.setdefault(path, os.path.join(self.folder, f"{task}-{segment}"))
        flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND
        with open(os.open(file, flags, 0o600), "ab") as out:
            out.write(body)

    def read(self, segment: Segment) -> memoryview:
        """Return a segment's bytes, decompressed; a big one is mapped."""
        if not segment.size:
            return scanning.no_bytes(segment)
        file = self._files[segment.path]
        if segment.compression is None:
            restore_bytes(segment, file)
            return memoryview(read_segment(Segment(file, None, None, segment.size, None)))
        with open(file, "rb") as packed:
            return memoryview(inflate(packed.read(), segment))


def restore_bytes(segment: Segment, file: str) -> None:
    """Make a file of joined lines equal to its segment."""
    size = os.stat(file).st_size
    if size > segment.size:
        os.truncate(file, segment.size)
    elif size < segment.size:
        with open(file, "r+b") as out:
            body = hadoop.original_bytes(segment, out.read())
            out.seek(0)
            out.write(body)


@contextmanager
def spooling(log: Partitions) -> Iterator[Spool]:
    """Yield files for a worker's segments; they are removed after the block."""
    with tempfile.TemporaryDirectory(prefix="coterie-", dir=home()) as folder:
        yield Spool(log, folder)


def spooled(log: Partitions, work: Work, batches: scanning.Batches) -> Iterator[pa.RecordBatch]:
    """Write the incoming chunks into files, and run ``work`` on these."""
    import pyarrow as pa

    tasks: set[int] = set()
    with spooling(log) as spool:
        for batch in batches:
            *places, bodies = batch.columns
            for task, segment, _, _, body in zip(
                *(column.to_pylist() for column in places), bodies, strict=True
            ):
                tasks.add(task)
                if body.is_valid:
                    spool.put(task, segment, body.as_buffer())
        numbers = pa.RecordBatch.from_pydict({"id": sorted(tasks)})
        yield from work(spool.read, [numbers])


def home() -> str | None:
    """Return the folder that Spark removes after this worker; None outside Spark."""
    from pyspark import SparkFiles, TaskContext

    return None if TaskContext.get() is None else SparkFiles.getRootDirectory()
