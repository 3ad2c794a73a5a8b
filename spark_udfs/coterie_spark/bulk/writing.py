"""What workers do last, for the command line: write tables as Parquet where they are.

Not through Spark's own writer, which counts microseconds: the files have the schema, and to the
millisecond the times, of the engine of one process. A part gets its name when it is whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.state.schemas import SCHEMAS
from coterie_spark.bulk.scanning import Batches, Worker, rows_of

if TYPE_CHECKING:
    import pyarrow as pa

WRITTEN_DDL = "errno int, error string, file string"


def table_folder(out: Path, name: str) -> Path:
    """Return the folder of a table's parts."""
    return out / f"{name}.parquet"


def write_worker(out: str) -> Worker:
    """Return what writes products, (name, body), into the folders of their tables.

    Gives no row, or one for what could not be written.
    """

    def work(batches: Batches) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = pa.schema({"errno": pa.int32(), "error": pa.string(), "file": pa.string()})
        try:
            write_parts(batches, Path(out), f"part-{task_number():05d}.parquet")
        except OSError as error:
            told = (error.errno, error.strerror or str(error), error.filename)
            yield rows_of(schema, told)

    return work


def task_number() -> int:
    """Return the number of Spark's partition that this worker has."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


def write_parts(batches: Batches, out: Path, part: str) -> None:
    """Write the rows of each table into one file of its folder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writers: dict[str, Any] = {}
    # Two attempts at one task must not write one file.
    suffix = f".{os.getpid()}.partial"
    with ExitStack() as open_files:
        for batch in batches:
            for name, body in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                if name not in writers:
                    path = table_folder(out, name) / f".{part}{suffix}"
                    writer = pq.ParquetWriter(path, SCHEMAS[name]())
                    writers[name] = open_files.enter_context(writer)
                writers[name].write_table(pa.ipc.open_stream(body.as_buffer()).read_all())
    for name in writers:
        folder = table_folder(out, name)
        (folder / f".{part}{suffix}").replace(folder / part)


def write_missing(out: Path, name: str) -> None:
    """Give a table without rows a part that says its columns."""
    import pyarrow.parquet as pq

    folder = table_folder(out, name)
    if not any(folder.iterdir()):
        pq.write_table(SCHEMAS[name]().empty_table(), folder / "part-00000.parquet")
