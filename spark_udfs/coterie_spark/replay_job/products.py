"""What scan and merge made of a log (``merging``), on the workers or in the driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from coterie.base.ordering import partition_order
from coterie.errors import CoterieError, FaultFound
from coterie.state.faults import fault_line
from coterie.state.partial import PartialState, ScanOptions, merge
from coterie.state.pickling import unpack
from coterie.state.replay_engine import Read, Summary, summarize
from coterie.state.schemas import SCHEMAS
from coterie_spark.replay_job import joining, merging
from coterie_spark.replay_job.arrow import spark_schema
from coterie_spark.replay_job.closures import shipped, unfit_workers_reported
from coterie_spark.replay_job.settings import CHUNK_ROWS, bounded_batches
from coterie_spark.replay_job.tasks import by_place

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from coterie_spark.replay_job.scanning import Batches, Worker

About = list[tuple[str, bytes]]


class OnWorkers:
    """A persisted DataFrame of products; the workers make them at once.

    ``about`` has the names and bodies of the reports.
    """

    def __init__(self, frame: DataFrame, rows_per_batch: int = 1) -> None:
        from pyspark import StorageLevel

        self.frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            with bounded_batches(frame.sparkSession, rows_per_batch), unfit_workers_reported():
                about = self.frame.where(self.frame["name"].startswith(merging.REPORT)).collect()
        except BaseException:
            self.drop()
            raise
        self.about: About = [(row.name, bytes(row.body)) for row in about]

    def named(self, names: Sequence[str]) -> DataFrame:
        return self.frame.where(self.frame["name"].isin(*names))

    def in_order(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """Return the rows of some names, in order of partition and part."""
        return self.named(names).orderBy("partition", "part").toLocalIterator()

    def given_to(self, work: Worker, names: Sequence[str], schema: str) -> list[Any]:
        """Give names and bodies to a worker, and return the rows that it yields."""
        rows = self.named(names).select("name", "body")
        with bounded_batches(self.frame.sparkSession, CHUNK_ROWS):
            return rows.mapInArrow(shipped(work), schema).collect()

    def with_joined(self, joined: joining.Joined) -> OnWorkers:
        """Return products with the joined tables in place of those of their partitions."""
        import pyarrow as pa
        from pyspark.sql import functions as f

        numbers = [-1 if number is None else number for number in joined.numbers]
        partition = f.coalesce(self.frame["partition"], f.lit(-1))
        is_old = partition.isin(numbers) & self.frame["name"].isin(*joining.TABLES)
        rows = self.frame.where(~is_old)
        if batches := list(joined.products()):
            fresh = rows.sparkSession.createDataFrame(pa.Table.from_batches(batches))
            rows = rows.unionAll(fresh)
        whole = OnWorkers(rows)
        self.drop()  # not before: the others have some of these
        return whole

    def drop(self) -> None:
        """Drop the persisted rows; where the session has ended, that is the failure to report."""
        with suppress(Exception):
            self.frame.unpersist()


class InDriver:
    """The same as a table in the driver, without a job."""

    def __init__(self, spark: SparkSession, batches: Batches) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        self.spark, self.table = spark, pa.Table.from_batches(batches)
        about = self.table.filter(pc.starts_with(self.table["name"], merging.REPORT))
        self.about: About = [*tuples(about.select(["name", "body"]))]

    @property
    def frame(self) -> DataFrame:
        return self.spark.createDataFrame(self.table)

    def among(self, column: str, values: Sequence[Any]) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        own = self.table[column]
        return pc.is_in(own, pa.array(values, own.type))

    def in_order(self, *names: str) -> Iterator[tuple[Any, ...]]:
        return tuples(self.table.filter(self.among("name", names)))  # they were made in order

    def given_to(self, work: Worker, names: Sequence[str], schema: str) -> list[Any]:
        rows = self.table.filter(self.among("name", names)).select(["name", "body"])
        return [row for batch in work(rows.to_batches()) for row in tuples(batch)]

    def with_joined(self, joined: joining.Joined) -> InDriver:
        import pyarrow.compute as pc

        is_of_them = self.among("partition", joined.numbers)
        is_old = pc.and_(is_of_them, self.among("name", joining.TABLES))
        rest = self.table.filter(pc.invert(is_old)).to_batches()
        return InDriver(self.spark, [*rest, *joined.products()])

    def drop(self) -> None:
        """Do nothing: the table ends with its last reference."""


Products = OnWorkers | InDriver


def tuples(rows: pa.Table | pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*rows.to_pydict().values(), strict=True)


def merged(
    states: DataFrame, tasks: int, task: Column, form: str, rows_per_batch: int = 1
) -> OnWorkers:
    """Merge the states of each partition on the workers; ``task`` is as for ``by_place``."""
    work = shipped(merging.merge_worker(form))
    rows = by_place(states, tasks, task).mapInArrow(work, merging.PRODUCT_DDL)
    return OnWorkers(rows, rows_per_batch)


def state_of(products: Products) -> PartialState:
    """Return the whole state, from products of format json."""
    by_partition = groupby(products.in_order(merging.STATE), key=itemgetter(0))
    states = (b"".join(body for *_, body in rows) for _, rows in by_partition)
    return merge(map(PartialState.from_bytes, states))


def table_names(options: ScanOptions) -> list[str]:
    """Return the names of the tables that a replay gives."""
    return [name for name in SCHEMAS if options.history or name != "commits"]


def table_of(products: DataFrame, name: str) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = spark_schema(SCHEMAS[name]())
    bodies = products.where(products["name"] == name).select("body")
    return bodies.mapInArrow(shipped(merging.table_worker(schema)), from_arrow_schema(schema))


def summary_of(about: About, passed_over: tuple[str, ...] = ()) -> Summary:
    """Return a summary from the products about the partitions.

    Raises
    ------
    CoterieError
        Something could not be read, or the first fault under ``on_fault="stop"``.
    """
    errors = sorted(body.decode() for name, body in about if name == merging.ERROR)
    if errors:
        raise CoterieError(errors[0])
    reports = [unpack(merging.ABOUT, body) for name, body in about if name == merging.ABOUT]
    reports.sort(key=lambda report: partition_order(report[0]))
    for _, read, _, stopped in reports:
        if stopped:
            place = fault_line(read.faults[0])
            raise FaultFound(f"{place}; stopped (--on-fault skip goes on)")
    partitions: dict[int | None, Read] = {number: read for number, read, _, _ in reports}
    groups = sum(count for _, _, count, _ in reports)
    return summarize(partitions, groups, passed_over)
