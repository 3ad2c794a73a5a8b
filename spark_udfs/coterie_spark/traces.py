"""Traces on Spark, each in a task of its own.

The worker is a plain function from Arrow batches to Arrow batches. A wrong trace becomes a row with
``error`` set; the others are not affected.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.base.user_files import open_lines
from coterie.coordinator.trace import run_trace
from coterie.coordinator.trace_files import found_traces
from coterie.errors import CoterieError
from coterie_spark.replay_job.closures import shipped
from coterie_spark.replay_job.tasks import a_row_a_task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["TRACES_DDL", "run_traces"]

TRACES_DDL = (
    "trace string, number long, at long, event string, op string, id long, group_id string,"
    " line string, error string"
)
FIELDS = ("trace", "number", "at", "event", "op", "id", "group_id", "line", "error")
ROWS = 10_000
WRONG = (OSError, EOFError, ValueError, CoterieError, zlib.error)


def trace_rows(name: str, path: str) -> Iterator[dict[str, Any]]:
    """Yield the output of a trace as rows; a wrong trace ends with a row that has the error."""
    number = 0
    try:
        with open_lines(Path(path)) as lines:
            for number, line in enumerate(run_trace(lines), 1):
                row = {field: line.get(field) for field in FIELDS}
                # A response has an error of its own, which stays in its line.
                text = json.dumps(line, ensure_ascii=False)
                yield row | {"trace": name, "number": number, "line": text, "error": None}
    except WRONG as error:
        empty = dict.fromkeys(FIELDS)
        yield empty | {"trace": name, "number": number + 1, "error": f"{path}: {error}"}


def run_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    types = {"number": pa.int64(), "at": pa.int64(), "id": pa.int64()}
    schema = pa.schema([(field, types.get(field, pa.string())) for field in FIELDS])
    for batch in batches:
        for task in batch.to_pylist():
            rows: list[dict[str, Any]] = []
            for row in trace_rows(task["trace"], task["path"]):
                rows.append(row)
                if len(rows) == ROWS:
                    yield pa.RecordBatch.from_pylist(rows, schema)
                    rows = []
            yield pa.RecordBatch.from_pylist(rows, schema)


def run_traces(spark: SparkSession, paths: str | Iterable[str]) -> DataFrame:
    """Run traces on Spark.

    Parameters
    ----------
    paths
        Trace files, or folders with trace files at any depth; every worker must see them.

    Returns
    -------
    DataFrame
        One row for each line of output: ``trace`` (its path without the suffix),
        ``number`` (from 1, in order), ``at``, ``event``, ``op``, ``id``, ``group_id``, ``line``
        (the output's JSON), and ``error``, set only in the row of a wrong trace.
    """
    paths = [paths] if isinstance(paths, str) else list(paths)
    tasks = [(place.as_posix(), str(path.absolute())) for path, place in found_traces(paths)]
    frame = a_row_a_task(spark, tasks, "trace string, path string")
    return frame.mapInArrow(shipped(run_batches), TRACES_DDL)
