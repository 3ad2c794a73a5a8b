"""Questions about logs that only Hadoop's file systems reach.

The segments of a partition, or of a part of a large one, come to one worker. A question goes over
them in order, and may do so more than once: so the worker puts them into files of its own first,
which are mapped, not held in memory, and removed at the end. The bytes travel in chunks, each
behind the one before it in its file.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from coterie.log.folders import Segment, inflate, read_segment
from coterie_spark.replay_job import lines, scanning
from coterie_spark.replay_job.closures import shipped
from coterie_spark.replay_job.driver import in_task
from coterie_spark.replay_job.hadoop import contents_in, is_url, read_by, union_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Buffer

CHUNKS_DDL = "task int, segment int, start long, chunk int, body binary"
ORDER = ("task", "segment", "start", "chunk")

Partitions = list[tuple[int | None, list[Segment]]]
Places = dict[str, tuple[int, int]]
"""Task and place in it of each segment, by its path."""

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
        "int(id) as task", "-1 as segment", "0L as start", "0 as chunk", "binary(null) as body"
    )
    dealt = union_of([rows, *chunks_of(spark, log)])
    there = dealt.repartition(len(log), in_task(f.col("task"), len(log)))
    return there.sortWithinPartitions(*ORDER).mapInArrow(
        shipped(partial(spooled, log, work)), schema
    )


def lies_at_urls(log: Partitions) -> bool:
    """Whether only Hadoop's file systems reach a log."""
    return any(is_url(segment.path) for _, segments in log for segment in segments)


def chunks_of(spark: SparkSession, log: Partitions) -> list[DataFrame]:
    """Return the bytes of segments as rows of ``CHUNKS_DDL``, wherever they were read."""
    places = {
        segment.path: (task, number)
        for task, (_, segments) in enumerate(log)
        for number, segment in enumerate(segments)
    }
    segments = [segment for _, theirs in log for segment in theirs]
    workers = line_worker(places), content_worker(places)
    return read_by(spark, segments, *workers, CHUNKS_DDL)


def line_worker(places: Places) -> scanning.Worker:
    """Return what makes chunks of segments that come as lines."""

    def work(batches: scanning.Batches) -> Iterator[pa.RecordBatch]:
        for (path, start), runs in groupby(lines.runs_of(batches), key=lambda run: run[:2]):
            for chunk, run in enumerate(runs):
                yield scanning.rows_of(chunk_schema(), (*places[path], start, chunk, run.body))

    return work


def content_worker(places: Places) -> scanning.Worker:
    """Return what cuts segments, columns ``path`` and ``content``, into chunks."""

    def work(batches: scanning.Batches) -> Iterator[pa.RecordBatch]:
        for path, content in contents_in(batches):
            body = memoryview(content)
            for chunk, start in enumerate(range(0, len(body), scanning.CHUNK_BYTES)):
                part = body[start : start + scanning.CHUNK_BYTES]
                yield scanning.rows_of(chunk_schema(), (*places[path], 0, chunk, part))

    return work


def chunk_schema() -> pa.Schema:
    """Return the Arrow schema of ``CHUNKS_DDL``."""
    import pyarrow as pa

    kinds = (pa.int32(), pa.int32(), pa.int64(), pa.int32(), pa.binary())
    return pa.schema(list(zip((*ORDER, "body"), kinds, strict=True)))


class Spool:
    """Files of a worker with the segments of some partitions of ``log``, in a folder."""

    def __init__(self, log: Partitions, folder: str) -> None:
        self.folder = folder
        self._log = log
        self._files: dict[str, str] = {}  # by the path of the segment

    def put(self, task: int, segment: int, body: Buffer) -> None:
        """Write the next chunk of a segment."""
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
            put_right(segment, file)
            return memoryview(read_segment(Segment(file, None, None, segment.size, None)))
        with open(file, "rb") as packed:
            return memoryview(inflate(packed.read(), segment))


def put_right(segment: Segment, file: str) -> None:
    """Have a file the bytes of its segment: they came as lines."""
    size = os.stat(file).st_size
    if size > segment.size:
        os.truncate(file, segment.size)
    elif size < segment.size:
        with open(file, "r+b") as out:
            body = lines.put_right(segment, out.read())
            out.seek(0)
            out.write(body)


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
            for task, segment, _, _, body in zip(
                *(column.to_pylist() for column in places), bodies, strict=True
            ):
                tasks.add(task)
                if body.is_valid:
                    spool.put(task, segment, body.as_buffer())
        numbers = pa.RecordBatch.from_pydict({"id": sorted(tasks)})
        yield from work(spool.read, [numbers])


def home() -> str | None:
    """Return the folder that Spark gave this worker, and removes; None where there is no Spark."""
    from pyspark import SparkFiles, TaskContext

    return None if TaskContext.get() is None else SparkFiles.getRootDirectory()
