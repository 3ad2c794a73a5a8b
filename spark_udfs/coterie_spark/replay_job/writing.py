"""The last step, for the command line and for ``follow``: write tables as Parquet, on workers.

Spark's own writer counts microseconds. These files have the schema of the local engine, with times
in milliseconds. Workers write into a folder beside the tables, and the driver renames a part once
it is complete. So files of a worker that dies, or that continues although its task was reassigned,
do not get into a table.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace as with_changes
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.state.document import write_document
from coterie.state.parquet import parquet_writer
from coterie.state.schemas import SCHEMAS
from coterie.state.several_partitions import lines_of
from coterie_spark.replay_job.arrow import rows_of
from coterie_spark.replay_job.merging import LINES
from coterie_spark.replay_job.products import Products, state_of
from coterie_spark.replay_job.scanning import Batches, Worker

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Row

    from coterie.state.replay_engine import ReplayRequest, Summary

# A file of a table, or an error: then there is no name. Of `follow` also a product of no table, and
# its text in place of the file.
WRITTEN_DDL = "name string, file string, errno int, error string"


def table_folder(out: Path, name: str) -> Path:
    return out / f"{name}.parquet"


def work_folder(out: Path) -> Path:
    """Return the folder that workers write into; it is not part of the complete output."""
    return out / ".parts"


def left_folder(out: Path) -> Path:
    """Return the folder of the workers while it is removed."""
    return out / ".left"


def write_worker(out: str) -> Worker:
    """Return the worker that writes products, (name, body), into a file for each table.

    It yields a row for each complete file, or one row with the error.
    """

    def work(batches: Batches) -> Iterator[pa.RecordBatch]:
        try:
            for name, file in write_files(batches, work_folder(Path(out)), attempt()).items():
                yield written_row(name, file)
        except OSError as error:
            number = error.errno or errno.EIO  # Arrow's own have none
            yield written_row(None, error.filename, number, error.strerror or str(error))

    return work


def written_row(
    name: str | None, file: str | None, errno: int | None = None, error: str | None = None
) -> pa.RecordBatch:
    """Return one row of ``WRITTEN_DDL``."""
    import pyarrow as pa

    kinds = {"name": pa.string(), "file": pa.string(), "errno": pa.int32(), "error": pa.string()}
    return rows_of(pa.schema(kinds), (name, file, errno, error))


def checked(written: list[Row]) -> list[Row]:
    """Return the rows of what workers wrote; raise the OSError that one of them met."""
    for name, file, number, error in written:
        if name is None:
            raise OSError(number, error, file)
    return written


def write_tables(products: Products, names: list[str], out: Path) -> None:
    """Write each table as a folder of Parquet parts."""
    work_folder(out).mkdir()
    work = write_worker(str(out.absolute()))
    written = checked(products.given_to(work, names, WRITTEN_DDL))  # in task order
    name_parts(out, names, [row[:2] for row in written])


def write_json(products: Products, request: ReplayRequest, summary: Summary) -> Summary:
    """Write ``groups.json``, and commits as lines.

    The whole state comes into this process. Returns the summary with the groups.
    """
    if request.options.history:
        with (request.out / "commits.jsonl").open("wb") as lines:
            lines.writelines(body for *_, body in products.in_order(LINES))
    state = state_of(products)
    notes = tuple(lines_of(state.in_several_partitions(), state.partition_count))
    groups = write_document(state, request.out / "groups.json")
    return with_changes(summary, groups=groups, notes=notes)


def attempt() -> str:
    """Return the number of this attempt at a task, unique in the session."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return "0" if context is None else str(context.taskAttemptId())


def write_files(batches: Batches, folder: Path, suffix: str) -> dict[str, str]:
    """Write the rows of each table into one file, and return the files by table."""
    import pyarrow as pa

    writers: dict[str, Any] = {}
    files: dict[str, str] = {}
    with ExitStack() as open_files:
        for batch in batches:
            for name, body in zip(batch["name"].to_pylist(), batch["body"], strict=True):
                if name not in writers:
                    files[name] = f"{name}-{suffix}"
                    writer = parquet_writer(folder / files[name], name)
                    writers[name] = open_files.enter_context(writer)
                writers[name].write_table(pa.ipc.open_stream(body.as_buffer()).read_all())
    return files


def name_parts(out: Path, names: Iterable[str], files: Iterable[tuple[str, str]]) -> None:
    """Make the tables' folders from (table, file) pairs in order, and remove all other files."""
    parts: dict[str, list[str]] = {name: [] for name in names}
    for name, file in files:
        parts[name].append(file)
    for name, part_files in parts.items():
        folder = table_folder(out, name)
        folder.mkdir()
        for number, file in enumerate(part_files):
            (work_folder(out) / file).replace(folder / f"part-{number:05d}.parquet")
        if not part_files:
            write_missing(folder / "part-00000.parquet", name)
    drop_work_folder(out)


def drop_work_folder(out: Path) -> None:
    """Remove the folder of the workers; one that is late finds none."""
    shutil.rmtree(work_folder(out).replace(left_folder(out)))


def write_missing(part: Path, name: str) -> None:
    """Write a part without rows, which shows the columns of an empty table."""
    import pyarrow.parquet as pq

    pq.write_table(SCHEMAS[name]().empty_table(), part)
