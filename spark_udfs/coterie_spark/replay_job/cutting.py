"""Cut large segments on the workers, so that several tasks scan one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from coterie.errors import CoterieError
from coterie.log.folders import Segment
from coterie.log.mapped import intact
from coterie_spark.replay_job import plan
from coterie_spark.replay_job.arrow import rows_of
from coterie_spark.replay_job.closures import shipped, unfit_workers_reported
from coterie_spark.replay_job.scanning import Batches, Reader, Worker, reader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

CUT_DDL = "segment int, start long, stop long, expected long, error string"


def cut_on_workers(
    spark: SparkSession, segments: tuple[Segment, ...], cores: int
) -> dict[int, list[plan.Cut]]:
    """Cut segments that are too big for one piece, on the workers, which read only headers."""
    max_bytes = plan.piece_bytes(segments, cores)
    big = [i for i, s in enumerate(segments) if s.size > max_bytes and s.compression is None]
    if not big:
        return {}
    chosen = [segments[index] for index in big]
    numbers = spark.range(0, len(big), 1, min(len(big), plan.TASKS_PER_CORE * cores))
    work = cut_worker(chosen, max_bytes, reader())
    cuts: dict[int, list[plan.Cut]] = {}
    with unfit_workers_reported():
        rows = numbers.mapInArrow(shipped(work), CUT_DDL).collect()
    for row in rows:
        if row.error is not None:
            raise CoterieError(row.error)
        cuts.setdefault(big[row.segment], []).append((row.start, row.stop, row.expected))
    return cuts


def cut_worker(segments: list[Segment], max_bytes: int, read: Reader) -> Worker:
    """Return the worker that cuts the segments whose indices are in column ``id``."""

    def work(batches: Batches) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        kinds = [pa.int32(), pa.int64(), pa.int64(), pa.int64(), pa.string()]
        names = ["segment", "start", "stop", "expected", "error"]
        schema = pa.schema(list(zip(names, kinds, strict=True)))
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield rows_of(schema, *cut_rows(index, read, segments[index], max_bytes))

    return work


def cut_rows(index: int, read: Reader, segment: Segment, max_bytes: int) -> list[tuple[Any, ...]]:
    """Return a row for each piece of a segment, or one row with the error."""
    try:
        data = read(segment)
        with intact(data):
            return [(index, *cut, None) for cut in plan.cut_segment(data, max_bytes)]
    except CoterieError as error:
        return [(index, None, None, None, str(error))]
