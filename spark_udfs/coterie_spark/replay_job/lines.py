"""Bytes of files that only Hadoop's file systems reach, read as lines.

Spark's ``binaryFile`` holds a whole file in the JVM, several times: an executor of 1 GiB does not
read a segment of 100 MB. Its text source hands on any bytes between two line ends as they are. So
segments come as lines, which are put together again in the worker; what a text has at its ends is
put right by the size that the listing told. A file that is compressed as a whole would be unpacked
on the way: it comes by ``binaryFile``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from coterie.errors import LogError
from coterie.log.folders import Segment
from coterie_spark.replay_job import scanning
from coterie_spark.replay_job.settings import set_meanwhile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_PER_BATCH = 64
"""Of lines, and of other rows of at most ``CHUNK_BYTES``: see ``driver.bounded_batches``."""

_END = b"\n"
_MARK = b"\xef\xbb\xbf"  # of a text's byte order, which the text source leaves out
_SPLIT_BYTES = "spark.sql.files.maxPartitionBytes"
_OPEN_BYTES = "spark.sql.files.openCostInBytes"


class Run(NamedTuple):
    """Bytes that follow each other in a file, in the split that begins at ``start``."""

    path: str
    start: int
    body: bytes


def lines_of(spark: SparkSession, paths: Iterable[str]) -> DataFrame:
    """Return the lines of files, as rows of ``body``, ``path`` and ``start`` of their split.

    Those of a split are in order. In ``paths`` is escaped what Spark would take for a pattern.
    """
    text = spark.read.option("lineSep", "\n").text(list(paths))
    names = ("_metadata.file_path as path", "_metadata.file_block_start as start")
    return text.selectExpr("cast(value as binary) as body", *names)


@contextmanager
def whole_files(spark: SparkSession, segments: Iterable[Segment]) -> Iterator[None]:
    """Have each file be one split of a query that runs meanwhile."""
    largest = max((segment.size for segment in segments), default=0) + 1
    # A split has as many bytes as opening a file counts, or more.
    with set_meanwhile(spark, dict.fromkeys((_SPLIT_BYTES, _OPEN_BYTES), str(largest))):
        yield


def runs_of(batches: scanning.Batches) -> Iterator[Run]:
    """Yield the bytes of lines that come, each with its end, in runs of ``CHUNK_BYTES`` at most."""
    for (path, start), pieces in groupby(_pieces(batches), key=lambda piece: piece[:2]):
        held = bytearray()
        for _, _, lines in pieces:
            held += _END.join([*lines, b""])
            while len(held) >= scanning.CHUNK_BYTES:
                yield Run(path, start, bytes(held[: scanning.CHUNK_BYTES]))
                del held[: scanning.CHUNK_BYTES]
        if held:
            yield Run(path, start, bytes(held))


def _pieces(batches: scanning.Batches) -> Iterator[tuple[str, int, list[bytes]]]:
    """Yield neighbouring lines of one split of a batch."""
    import numpy as np
    import pyarrow as pa

    for batch in batches:
        body, path, start = (batch.column(number) for number in range(3))
        if not batch.num_rows:
            continue
        names = pa.array(path).dictionary_encode()
        codes = names.indices.to_numpy(zero_copy_only=False)
        starts = start.to_numpy(zero_copy_only=False)
        ends = np.flatnonzero((np.diff(codes) != 0) | (np.diff(starts) != 0)) + 1
        bounds = [0, *ends.tolist(), batch.num_rows]
        for first, last in pairwise(bounds):
            name = unquote(names.dictionary[int(codes[first])].as_py())  # as listed
            yield name, int(starts[first]), body.slice(first, last - first).to_pylist()


def files_in(batches: scanning.Batches) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the lines of files, each of which is one split."""
    for path, runs in groupby(runs_of(batches), key=lambda run: run.path):
        yield path, b"".join(run.body for run in runs)


def put_right(segment: Segment, body: bytes) -> bytes:
    """Return the bytes of a file, of its lines with their ends: the last may have none.

    Raises
    ------
    LogError
        They are fewer than the listing said.
    """
    missing = segment.size - len(body)
    if missing in (len(_MARK), len(_MARK) - 1):
        body = _MARK + body
    elif missing > 0:
        raise LogError(f"{segment.path}: {len(body)} bytes came, where {segment.size} were listed")
    return body if len(body) == segment.size else body[: segment.size]
