"""The tables of ``follow``: those of a history grow, those of a state are replaced as a whole.

Parquet: files of a batch, under names that only they have, are renamed into the tables; state
tables are folders of a batch behind symbolic links. A reader that has listed one can finish until
the next but one batch.

Delta Lake: a batch is a transaction of each table, numbered by the batch. A repeated one that a
table has already is skipped by Delta itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from coterie.errors import CoterieError
from coterie.state.parquet import parquet_writer
from coterie_spark.replay_job import joining, writing
from coterie_spark.replay_job.closures import shipped
from coterie_spark.replay_job.merging import PRODUCT_DDL, REPORT
from coterie_spark.replay_job.products import OnWorkers, table_of
from coterie_spark.replay_job.scanning import Batches, Worker

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

HISTORY = ("commits", "generations", "faults")
STATE = joining.TABLES
Others = list[tuple[str, str]]
"""Names and texts of the products that are no tables."""
Join = Callable[[Others], "joining.Joined | None"]
"""Joins the partitions that share groups; None: there are none."""


class FollowedTables(Protocol):
    def check(self, spark: SparkSession) -> None:
        """Raise CoterieError if the session cannot write them."""

    def remove_leftovers(self, last: int) -> None:
        """Remove what a batch left behind that did not end; ``last`` is the one before."""

    def put(self, states: DataFrame, work: Worker, batch_id: int, join: Join) -> Others:
        """Write the tables of a batch, whose products ``work`` makes of its states.

        Returns the other products. Repeated, it changes nothing.
        """

    def show(self, batch_id: int) -> None:
        """Let the state tables be those of a batch, if they are not yet."""

    def drop_before(self, batch_id: int) -> None:
        """Remove the state tables of the batch before this one."""


def written_by(work: Worker, out: str, names: Sequence[str]) -> Worker:
    """Return a worker that writes the tables' products of another, and yields the others' texts.

    In one worker: products are most of the bytes, and would pass through Spark twice. An error of
    the disk is a row, as of ``write_worker``: it ends the batch, and is not tried again.
    """

    def write(batches: Batches) -> Iterator[pa.RecordBatch]:
        others: list[tuple[str, str]] = []

        def of_tables() -> Iterator[pa.RecordBatch]:
            for product in work(batches):
                name = product["name"][0].as_py()
                if name in names:
                    yield product
                elif name.startswith(REPORT):
                    others.append((name, product["body"][0].as_py().decode()))

        yield from writing.write_worker(out)(of_tables())
        for name, text in others:
            yield writing.written_row(name, text)

    return write


class ParquetTables:
    def __init__(self, out: Path, names: Sequence[str]) -> None:
        self.out, self.names = out, names

    def check(self, spark: SparkSession) -> None:
        """Do nothing: the files are coterie's own."""

    def remove_leftovers(self, last: int) -> None:
        """Remove the files of the batch after the last one."""
        for part in self.out.glob(f"*.parquet/part-{last + 1:08d}-*"):
            part.unlink()
        left = writing.work_folder(self.out), writing.left_folder(self.out), self.version(last + 1)
        for folder in left:
            shutil.rmtree(folder, ignore_errors=True)

    def put(self, states: DataFrame, work: Worker, batch_id: int, join: Join) -> Others:
        """Write Parquet files on the workers, and rename them into the tables."""
        parts = writing.work_folder(self.out)
        parts.mkdir()
        writes = written_by(work, str(self.out), self.names)
        rows = states.mapInArrow(shipped(writes), writing.WRITTEN_DDL)
        written = writing.checked(rows.collect())
        of_tables = [row for row in written if row.name in self.names]
        self.version(batch_id).mkdir()
        counts: dict[str, int] = {}
        for row in of_tables:
            folder = self.parts_of(row.name, batch_id)
            folder.mkdir(exist_ok=True)
            number = counts[row.name] = counts.get(row.name, -1) + 1
            (parts / row.file).replace(folder / f"part-{batch_id:08d}-{number:05d}.parquet")
        for name in self.names:
            folder = self.parts_of(name, batch_id)
            folder.mkdir(exist_ok=True)
            if not any(folder.iterdir()):
                writing.write_missing(parts / name, name)
                (parts / name).replace(folder / f"part-{batch_id:08d}-00000.parquet")
        writing.drop_work_folder(self.out)
        others = [(row.name, row.file) for row in written if row.name not in self.names]
        if joined := join(others):
            self.replace_rows(joined, batch_id)
        return others

    def replace_rows(self, joined: joining.Joined, batch_id: int) -> None:
        """Write joined tables in place of the rows of their groups, which are not shown yet."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        for name in set(self.names) & {*STATE}:
            folder = self.parts_of(name, batch_id)
            for part in folder.iterdir():
                rows = pq.ParquetFile(part).read()
                old = pc.is_in(rows["group_id"], pa.array(joined.group_ids, pa.string()))
                with parquet_writer(part, name) as writer:
                    writer.write_table(rows.filter(pc.invert(old)))
            with parquet_writer(folder / f"part-{batch_id:08d}-joined.parquet", name) as writer:
                for _, of, table in joined.tables:
                    if of == name:
                        writer.write_table(table)

    def parts_of(self, name: str, batch_id: int) -> Path:
        """Return the folder of a table's parts that a batch writes."""
        return writing.table_folder(self.version(batch_id) if name in STATE else self.out, name)

    def show(self, batch_id: int) -> None:
        """Let the links of the state tables lead to those of a batch."""
        for name in set(self.names) & {*STATE}:
            link = writing.table_folder(self.out, name)
            fresh = link.with_name(f".{link.name}.new")
            fresh.unlink(missing_ok=True)
            fresh.symlink_to(self.version(batch_id).name + "/" + link.name)
            fresh.replace(link)

    def drop_before(self, batch_id: int) -> None:
        """Remove the folder of the state tables of the batch before this one."""
        shutil.rmtree(self.version(batch_id - 1), ignore_errors=True)

    def version(self, batch_id: int) -> Path:
        """Return the folder of the state tables of a batch."""
        return self.out / f".batch-{batch_id}"


class DeltaTables:
    """Tables of Delta Lake; ``writer`` names this follow in their transactions."""

    def __init__(self, out: Path, names: Sequence[str], writer: str) -> None:
        self.out, self.names, self.writer = out, names, writer

    def check(self, spark: SparkSession) -> None:
        """Raise CoterieError if the session has no Delta Lake."""
        try:
            _ = spark.read.format("delta").load(self.url("commits")).schema
        except Exception as error:  # Delta's own: there is no table yet
            if "[DATA_SOURCE_NOT_FOUND]" in str(error):
                raise CoterieError(
                    "format delta: the Spark session has no Delta Lake; make it with the package"
                    " io.delta:delta-spark and Delta's extension"
                ) from None

    def url(self, name: str) -> str:
        """Return where a table is: in a folder of this machine, wherever Spark's default is."""
        return f"file://{self.out / name}"

    def remove_leftovers(self, last: int) -> None:
        """Do nothing: what was not committed is in no table."""

    def put(self, states: DataFrame, work: Worker, batch_id: int, join: Join) -> Others:
        """Append to the history, and replace the state, in one transaction of each table."""
        products = OnWorkers(states.mapInArrow(shipped(work), PRODUCT_DDL))  # for each table
        try:
            others = [(name, body.decode()) for name, body in products.about]
            if joined := join(others):
                products = products.with_joined(joined)
            for name in self.names:
                writer = table_of(products.frame, name).write.format("delta")
                writer = writer.mode("overwrite" if name in STATE else "append")
                writer = writer.option("txnAppId", self.writer).option("txnVersion", batch_id)
                writer.save(self.url(name))
        finally:
            products.drop()
        return others

    def show(self, batch_id: int) -> None:
        """Do nothing: a committed transaction is seen."""

    def drop_before(self, batch_id: int) -> None:
        """Do nothing: VACUUM removes old files."""
