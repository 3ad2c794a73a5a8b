"""The bytes of files on Hadoop's file systems, which Spark reads for the workers.

Spark's ``binaryFile`` has several copies of a whole file in the JVM: an executor of 1 GiB cannot
read a segment of 100 MB. The text source passes on all bytes between two line ends unchanged. So
segments are read as lines, which the worker joins again; the listed size decides about a byte order
mark and the last line end. Spark would decompress a compressed file here, so ``binaryFile`` reads
those. Either way a segment is one piece.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial, reduce
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from coterie.errors import LogError
from coterie.log.folders import Segment, inflate
from coterie.state.partial import ScanOptions
from coterie_spark.replay_job import plan, scanning
from coterie_spark.replay_job.closures import shipped
from coterie_spark.replay_job.scanning import Batches, Worker
from coterie_spark.replay_job.settings import set_meanwhile

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_GLOB = re.compile(r"[\\{}\[\]*?]")  # characters of Spark's path patterns
_END = b"\n"
_MARK = b"\xef\xbb\xbf"  # byte order mark of a text, which the text source drops
_SPLIT_BYTES = "spark.sql.files.maxPartitionBytes"
_OPEN_BYTES = "spark.sql.files.openCostInBytes"


def read_by(
    spark: SparkSession,
    segments: Iterable[Segment],
    of_lines: Worker,
    of_contents: Worker,
    schema: str,
) -> list[DataFrame]:
    """Return the workers' rows for the segments that have bytes.

    ``of_lines`` gets plain segments as ``lines_of``. ``of_contents`` gets compressed files, as
    columns ``path`` and ``content``.
    """
    segments = [segment for segment in segments if segment.size]
    plain = [escaped(segment.path) for segment in segments if segment.compression is None]
    packed = [escaped(segment.path) for segment in segments if segment.compression is not None]
    frames = []
    if plain:
        frames.append(lines_of(spark, plain).mapInArrow(shipped(of_lines), schema))
    if packed:
        files = spark.read.format("binaryFile").load(packed).select("path", "content")
        frames.append(files.mapInArrow(shipped(of_contents), schema))
    return frames


def union_of(frames: Iterable[DataFrame]) -> DataFrame:
    """Return the rows of all frames; there must be at least one frame."""
    return reduce(lambda some, more: some.unionAll(more), frames)


def escaped(path: str) -> str:
    return _GLOB.sub(r"\\\g<0>", path)


class Stretch(NamedTuple):
    """Contiguous bytes of a file, in the split that begins at ``start``."""

    path: str
    start: int
    body: bytes


def lines_of(spark: SparkSession, paths: Iterable[str]) -> DataFrame:
    """Return the lines of files, as rows of ``body``, ``path`` and ``start`` of their split.

    The lines of a split are in order. Characters of Spark's patterns are escaped in ``paths``.
    """
    text = spark.read.option("lineSep", "\n").text(list(paths))
    names = ("_metadata.file_path as path", "_metadata.file_block_start as start")
    return text.selectExpr("cast(value as binary) as body", *names)


@contextmanager
def whole_files(spark: SparkSession, segments: Iterable[Segment]) -> Iterator[None]:
    """Make each file one split of the queries that run in the block."""
    largest = max(segment.size for segment in segments) + 1
    # A split has at least as many bytes as the cost of opening a file.
    with set_meanwhile(spark, dict.fromkeys((_SPLIT_BYTES, _OPEN_BYTES), str(largest))):
        yield


def stretches_of(batches: Batches) -> Iterator[Stretch]:
    """Join lines, each with its line end, into stretches of at most ``CHUNK_BYTES``."""
    for (path, start), pieces in groupby(_pieces(batches), key=lambda piece: piece[:2]):
        body = bytearray()
        for _, _, lines in pieces:
            body += _END.join([*lines, b""])
            while len(body) >= scanning.CHUNK_BYTES:
                yield Stretch(path, start, bytes(body[: scanning.CHUNK_BYTES]))
                del body[: scanning.CHUNK_BYTES]
        if body:
            yield Stretch(path, start, bytes(body))


def _pieces(batches: Batches) -> Iterator[tuple[str, int, list[bytes]]]:
    """Yield neighbouring lines of a batch that belong to one split."""
    import numpy as np
    import pyarrow as pa

    for batch in batches:
        body, path, start = (batch.column(number) for number in range(3))
        if not batch.num_rows:
            continue
        names = pa.array(path).dictionary_encode()
        codes = names.indices.to_numpy()
        starts = start.to_numpy()
        ends = np.flatnonzero((np.diff(codes) != 0) | (np.diff(starts) != 0)) + 1
        bounds = [0, *ends.tolist(), batch.num_rows]
        for first, last in pairwise(bounds):
            name = unquote(names.dictionary[int(codes[first])].as_py())  # as listed
            yield name, int(starts[first]), body.slice(first, last - first).to_pylist()


def files_in(batches: Batches) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the bytes of files that are one split each."""
    for path, stretches in groupby(stretches_of(batches), key=lambda stretch: stretch.path):
        yield path, b"".join(stretch.body for stretch in stretches)


def original_bytes(segment: Segment, body: bytes) -> memoryview:
    """Return the bytes of a file from its joined lines: its last line may lack a line end.

    Raises
    ------
    LogError
        They are fewer than were listed.
    """
    missing = segment.size - len(body)
    if missing in (len(_MARK), len(_MARK) - 1):
        body = _MARK + body
    elif missing > 0:
        raise LogError(f"{segment.path}: {len(body)} bytes came, where {segment.size} were listed")
    return memoryview(body)[: segment.size]


def contents_in(batches: Batches) -> Iterator[tuple[str, pa.Buffer]]:
    """Yield the path and the bytes of files, columns ``path`` and ``content``."""
    for batch in batches:
        for path, content in zip(batch.column(0), batch.column(1), strict=True):
            yield path.as_py(), content.as_buffer()


def inflated(segment: Segment, body: pa.Buffer) -> memoryview:
    return memoryview(inflate(body.to_pybytes(), segment))


def scan_workers(pieces: dict[str, plan.Piece], options: ScanOptions) -> tuple[Worker, Worker]:
    """Return the workers for ``read_by`` that scan segments; ``pieces`` by the segments' paths."""
    of_lines = file_worker(files_in, original_bytes, pieces, options)
    return of_lines, file_worker(contents_in, inflated, pieces, options)


def file_worker(
    files: Callable[[Batches], Iterator[tuple[str, Any]]],
    bytes_of: Callable[..., memoryview],
    pieces: dict[str, plan.Piece],
    options: ScanOptions,
) -> Worker:
    def work(batches: Batches) -> Iterator[pa.RecordBatch]:
        for path, body in files(batches):
            yield from scanning.unit_rows([pieces[path]], options, partial(bytes_of, body=body))

    return work
