"""What workers do last, for the command line: write tables as Parquet where they are.

Not through Spark's own writer, which counts microseconds: the files have the schema, and to the
millisecond the times, of the engine of one process. Workers write beside the tables, and the
driver names a part once it has heard that it is whole. So what is left by a worker that dies, or
that goes on though its task was given to another, gets into no table.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.state.parquet import parquet_writer
from coterie.state.schemas import SCHEMAS
from coterie_spark.replay_job.scanning import Batches, Worker, rows_of

if TYPE_CHECKING:
    import pyarrow as pa

WRITTEN_DDL = "name string, file string, errno int, error string"


def table_folder(out: Path, name: str) -> Path:
    """Return the folder of a table's parts."""
    return out / f"{name}.parquet"


def work_folder(out: Path) -> Path:
    """Return the folder that workers write into; it has gone when the output is whole."""
    return out / ".parts"


def write_worker(out: str) -> Worker:
    """Return what writes products, (name, body), into a file a table.

    Gives a row for each file that is whole, or one for what could not be written.
    """

    def work(batches: Batches) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        kinds = [pa.string(), pa.string(), pa.int32(), pa.string()]
        names = ["name", "file", "errno", "error"]
        schema = pa.schema(list(zip(names, kinds, strict=True)))
        try:
            for name, file in write_files(batches, work_folder(Path(out)), attempt()).items():
                yield rows_of(schema, (name, file, None, None))
        except OSError as error:
            told = (None, error.filename, error.errno, error.strerror or str(error))
            yield rows_of(schema, told)

    return work


def attempt() -> str:
    """Return the number of this attempt at a task, which no other of the session has."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return "0" if context is None else str(context.taskAttemptId())


def write_files(batches: Batches, folder: Path, suffix: str) -> dict[str, str]:
    """Write the rows of each table into one file, and return the files' names by table."""
    import pyarrow as pa

    writers: dict[str, Any] = {}
    files: dict[str, str] = {}
    with ExitStack() as open_files:
        for batch in batches:
            for name, body in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                if name not in writers:
                    files[name] = f"{name}-{suffix}"
                    writer = parquet_writer(folder / files[name], name)
                    writers[name] = open_files.enter_context(writer)
                writers[name].write_table(pa.ipc.open_stream(body.as_buffer()).read_all())
    return files


def name_parts(out: Path, names: Iterable[str], files: Iterable[tuple[str, str]]) -> None:
    """Make the tables' folders out of (table, file) in order; leave nothing else.

    The folder of the workers is moved before it is emptied: from then on none of them finds it.
    """
    parts: dict[str, list[str]] = {name: [] for name in names}
    for name, file in files:
        parts[name].append(file)
    for name, found in parts.items():
        folder = table_folder(out, name)
        folder.mkdir()
        for number, file in enumerate(found):
            (work_folder(out) / file).replace(folder / f"part-{number:05d}.parquet")
        if not found:
            write_missing(folder, name)
    shutil.rmtree(work_folder(out).replace(out / ".left"))


def write_missing(folder: Path, name: str) -> None:
    """Give a table without rows a part that says its columns."""
    import pyarrow.parquet as pq

    pq.write_table(SCHEMAS[name]().empty_table(), folder / "part-00000.parquet")
