"""Logs on Hadoop's file systems: the driver lists them, Spark reads them.

These are object stores and HDFS (``s3a://``, ``hdfs://``, ``file:``). The bytes of a segment go
through the JVM to the worker as lines (``replay_job.lines``), so each segment is one piece. Spark's
own listing ignores folders that begin with ``_``, so each file is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from coterie.errors import CoterieError, LogError
from coterie.log.folders import (
    ASIDE_FILE,
    ASIDE_FOLDER,
    ASK_FOR,
    OFFSET_NAME,
    PARTITION_FOLDER,
    SEGMENT_FILE,
    TOPIC,
    Listing,
    Segment,
    inflate,
    listing_of,
)
from coterie.state.parallel_scan import resting_collector
from coterie.state.partial import PartialState, ScanOptions
from coterie_spark.replay_job import lines, plan, scanning
from coterie_spark.replay_job.closures import shipped

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Buffer

GLOB = re.compile(r"[\\{}\[\]*?]")  # characters of Spark's path patterns


def find_hadoop_segments(spark: SparkSession, urls: Iterable[str]) -> Listing:
    """Return the segments that URLs lead to, by the rules of ``coterie.log.folders``.

    Raises
    ------
    LogError
        As in ``find_segments``, or the driver's Hadoop cannot open the file system.
    """
    found: dict[str, Segment] = {}
    aside: list[str] = []
    for url in urls:
        for segment in _walk(_Driver(spark), url, aside):
            found.setdefault(segment.path, segment)
    return listing_of(found.values(), aside)


class _Driver:
    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = getattr(spark, "_jvm", None)
        if self._jvm is None:
            raise CoterieError("URLs need a session with its own JVM, not Spark Connect")
        self._conf = spark._jsc.hadoopConfiguration()

    def list(self, url: str) -> tuple[bool, list[tuple[str, str, bool, int]]]:
        """Return whether ``url`` is a folder, and its entries: (path, name, is a folder, bytes)."""
        from py4j.protocol import Py4JJavaError

        try:
            path = self._jvm.org.apache.hadoop.fs.Path(url)
            system = path.getFileSystem(self._conf)
            status = system.getFileStatus(path)
            found = system.listStatus(path) if status.isDirectory() else [status]
            rows = [
                (s.getPath().toString(), s.getPath().getName(), s.isDirectory(), s.getLen())
                for s in found
            ]
            return status.isDirectory(), rows
        except Py4JJavaError as error:
            message = str(error.java_exception.toString()).splitlines()[0]
            if "FileNotFoundException" in message:
                raise LogError(f"{url}: no such file or folder; {ASK_FOR}") from None
            raise LogError(f"{url}: cannot be read through Hadoop: {message}") from None


def _walk(driver: _Driver, url: str, aside: list[str]) -> Iterator[Segment]:
    is_folder, entries = driver.list(url)
    name = url.rstrip("/").rpartition("/")[2]
    if not is_folder:
        ((path, name, _, size),) = entries
        if not SEGMENT_FILE.fullmatch(name):
            raise LogError(f"{url}: not a log segment; {ASK_FOR}")
        yield _segment(path, size)
        return
    if PARTITION_FOLDER.fullmatch(name):
        yield from _folder(entries, aside)
        return
    folders = [path for path, name, folder, _ in entries if folder and _is_partition(name)]
    aside.extend(path for path, name, _, _ in entries if ASIDE_FOLDER.fullmatch(name))
    if not folders:
        raise LogError(f"{url}: no {TOPIC}-N folder in it; {ASK_FOR}")
    for folder in folders:
        yield from _folder(driver.list(folder)[1], aside)


def _is_partition(name: str) -> bool:
    return PARTITION_FOLDER.fullmatch(name) is not None


def _folder(entries: list[tuple[str, str, bool, int]], aside: list[str]) -> Iterator[Segment]:
    for path, name, is_folder, size in entries:
        if name.endswith(ASIDE_FILE):
            aside.append(path)
        elif SEGMENT_FILE.fullmatch(name) and not is_folder:
            yield _segment(path, size)


def _segment(path: str, size: int) -> Segment:
    """Return the segment that a path names, its partition from the folder's name."""
    _, folder, name = path.rsplit("/", 2)
    match, inside = SEGMENT_FILE.fullmatch(name), PARTITION_FOLDER.fullmatch(folder)
    assert match
    base = int(match[1]) if OFFSET_NAME.fullmatch(match[1]) else None
    return Segment(path, int(inside[1]) if inside else None, base, size, match[2])


def scan_by_hadoop(
    spark: SparkSession, segments: tuple[Segment, ...], options: ScanOptions
) -> DataFrame:
    """Scan segments whose bytes Spark reads: one state a segment, as rows of ``STATE_DDL``.

    The query must run within ``lines.whole_files``.
    """
    pieces = plan.pieces_of(segments, {})
    full = {piece.segment.path: piece for piece in pieces if piece.segment.size}
    workers = line_worker(full, options), content_worker(full, options)
    states = read_by(spark, segments, *workers, scanning.STATE_DDL)
    empty = [[piece] for piece in pieces if not piece.segment.size]
    if empty:  # Spark plans no read of a file without bytes
        work = scanning.scan_worker([empty], options, scanning.no_bytes)
        states.append(spark.range(0, 1, 1, 1).mapInArrow(shipped(work), scanning.STATE_DDL))
    return union_of(states)


def read_by(
    spark: SparkSession,
    segments: Iterable[Segment],
    of_lines: scanning.Worker,
    of_contents: scanning.Worker,
    schema: str,
) -> list[DataFrame]:
    """Return the workers' rows for the segments that have bytes.

    ``of_lines`` gets plain segments as ``lines.lines_of``. ``of_contents`` gets compressed files,
    as columns ``path`` and ``content``.
    """
    segments = [segment for segment in segments if segment.size]
    plain = [escaped(segment.path) for segment in segments if segment.compression is None]
    packed = [escaped(segment.path) for segment in segments if segment.compression is not None]
    frames = []
    if plain:
        frames.append(lines.lines_of(spark, plain).mapInArrow(shipped(of_lines), schema))
    if packed:
        files = spark.read.format("binaryFile").load(packed).select("path", "content")
        frames.append(files.mapInArrow(shipped(of_contents), schema))
    return frames


def union_of(frames: Iterable[DataFrame]) -> DataFrame:
    """Return the rows of all frames; there must be at least one frame."""
    return reduce(lambda some, more: some.unionAll(more), frames)


def escaped(path: str) -> str:
    return GLOB.sub(r"\\\g<0>", path)


def line_worker(pieces: dict[str, plan.Piece], options: ScanOptions) -> scanning.Worker:
    def work(batches: scanning.Batches) -> Iterator[pa.RecordBatch]:
        for path, body in lines.files_in(batches):
            piece = pieces[path]
            yield from state_of(piece, options, partial(lines.original_bytes, piece.segment, body))

    return work


def content_worker(pieces: dict[str, plan.Piece], options: ScanOptions) -> scanning.Worker:
    """Return the worker that scans segments from columns ``path`` and ``content``."""

    def work(batches: scanning.Batches) -> Iterator[pa.RecordBatch]:
        for path, content in contents_in(batches):
            piece = pieces[path]
            data = partial(inflate, content.to_pybytes(), piece.segment)
            yield from state_of(piece, options, data)

    return work


def contents_in(batches: scanning.Batches) -> Iterator[tuple[str, pa.Buffer]]:
    """Yield the path and the bytes of files, columns ``path`` and ``content``."""
    for batch in batches:
        for path, content in zip(batch.column(0), batch.column(1), strict=True):
            yield path.as_py(), content.as_buffer()


def state_of(
    piece: plan.Piece, options: ScanOptions, data: Callable[[], Buffer]
) -> Iterator[pa.RecordBatch]:
    """Yield the state of a segment's bytes, or the error if they cannot be read."""
    where = piece.segment.partition, piece.number
    try:
        state = PartialState(options)
        with resting_collector():
            state.fold(where[0]).scan(memoryview(data()), file=piece.segment.path)
        yield from scanning.state_batches(*where, state)
    except CoterieError as error:
        yield scanning.error_batch(*where, error)
