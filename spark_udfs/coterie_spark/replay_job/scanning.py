"""The first step of workers: scan units of pieces into partial states.

Plain functions from Arrow batches to Arrow batches; they import no Spark. A state travels as rows
of at most ``CHUNK_BYTES``, so that neither a row nor a batch exceeds Java's limit of 2 GiB. A
worker has one state and one piece in memory. A read error travels as a row with ``error`` set,
which the driver raises: a failed task would be retried for nothing.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from coterie.errors import CoterieError, LogError
from coterie.log.folders import inflate, read_segment
from coterie.log.mapped import intact
from coterie.state.parallel_scan import resting_collector
from coterie.state.partial import PartialState, ScanOptions
from coterie_spark.replay_job.arrow import row_with_body, rows_of
from coterie_spark.replay_job.plan import Task, Unit

if TYPE_CHECKING:
    import pyarrow as pa

    from coterie.log.folders import Segment

CHUNK_BYTES = 4 << 20
STATE_DDL = "partition int, number long, chunk int, last boolean, error string, body binary"

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
Batches = Iterable["pa.RecordBatch"]
Worker = Callable[[Batches], Iterator["pa.RecordBatch"]]
Reader = Callable[["Segment"], memoryview]


def state_schema() -> pa.Schema:
    """Return the Arrow schema of ``STATE_DDL``."""
    import pyarrow as pa

    return pa.schema(
        [
            ("partition", pa.int32()),
            ("number", pa.int64()),
            ("chunk", pa.int32()),
            ("last", pa.bool_()),
            ("error", pa.string()),
            ("body", pa.binary()),
        ]
    )


def state_batches(
    partition: int | None, number: int, state: PartialState
) -> Iterator[pa.RecordBatch]:
    with resting_collector():  # it would walk the whole state again and again: twice the time
        body = state.to_bytes()
    yield from chunk_batches(partition, number, body)


def chunk_batches(partition: int | None, number: int, whole: bytes) -> Iterator[pa.RecordBatch]:
    """Yield bytes as rows of at most ``CHUNK_BYTES``, one row a batch."""
    body = memoryview(whole)
    for chunk, start in enumerate(range(0, len(body), CHUNK_BYTES)):
        part = body[start : start + CHUNK_BYTES]
        last = start + CHUNK_BYTES >= len(body)
        yield row_with_body(state_schema(), (partition, number, chunk, last, None), part)


def error_batch(partition: int | None, number: int, error: Exception) -> pa.RecordBatch:
    """Return the row in place of a state that could not be made."""
    return rows_of(state_schema(), (partition, number, 0, True, str(error), None))


def bytes_of(folder: str, segment: Segment) -> memoryview:
    """Read a segment by a path relative to ``folder``; a worker may run in another folder."""
    absolute = dataclasses.replace(segment, path=os.path.join(folder, segment.path))
    try:
        return memoryview(read_segment(absolute))
    except LogError as error:
        raise LogError(f"{error} (workers read plain paths by their absolute names)") from None


def reader() -> Reader:
    """Return a reader of segments by paths relative to the folder of this process."""
    return partial(bytes_of, os.getcwd())


def no_bytes(segment: Segment) -> memoryview:
    """Return the bytes of an empty segment, which Spark's ``binaryFile`` omits."""
    return memoryview(inflate(b"", segment))


def scan_unit(unit: Unit, options: ScanOptions, read: Reader) -> PartialState:
    state = PartialState(options)
    fold = state.fold(unit[0].segment.partition)
    before = None
    for piece in unit:
        if before is None or before[0] != piece.segment:
            before = (piece.segment, read(piece.segment))
        end = None if piece.end < 0 else piece.end
        with intact(before[1]):
            fold.scan(
                before[1][piece.start : end],
                file=piece.segment.name,
                position=piece.start,
                expected_offset=piece.expected_offset,
            )
    return state


def unit_rows(unit: Unit, options: ScanOptions, read: Reader) -> Iterator[pa.RecordBatch]:
    """Yield a unit's state, or the error if a segment cannot be read."""
    where = unit[0].segment.partition, unit[0].number
    try:
        with resting_collector():
            state = scan_unit(unit, options, read)
        yield from state_batches(*where, state)
    except CoterieError as error:
        yield error_batch(*where, error)


def scan_worker(tasks: list[Task], options: ScanOptions, read: Reader) -> Worker:
    """Return the worker that scans the tasks whose numbers are in column ``id``."""

    def work(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for unit in tasks[task]:
                    yield from unit_rows(unit, options, read)

    return work
