"""Replay a log on Spark: the driver plans, workers read and scan, only partial states move.

    plan pieces -> scan (one row a chunk of a state) -> shuffle by partition, sort by place
    -> merge in log order -> products as bytes, persisted -> one DataFrame a table

Memory of a worker grows with the keys of one partition, not with its records. The shuffle moves
one state for each task and partition. Scan and merge run once, when ``replay`` is called; the
tables are then decoded from the persisted products.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace as with_changes
from typing import TYPE_CHECKING

from coterie.base.arguments import path_names
from coterie.base.ordering import partition_order
from coterie.base.times import Time, time_ms
from coterie.errors import CoterieError, FaultFound
from coterie.log.folders import Listing, Segment, find_segments, is_url
from coterie.state.faults import fault_line
from coterie.state.partial import ScanOptions
from coterie.state.pickling import unpack
from coterie.state.replay_engine import Read, Summary, summarize
from coterie.state.schemas import SCHEMAS
from coterie.state.several_partitions import count_of
from coterie_spark.replay_job import joining, lines, merging, on_the_driver, plan, scanning
from coterie_spark.replay_job.arrow import spark_schema
from coterie_spark.replay_job.closures import shipped, unfit_workers_reported
from coterie_spark.replay_job.hadoop import find_hadoop_segments, scan_by_hadoop
from coterie_spark.replay_job.settings import set_meanwhile

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from coterie.state.several_partitions import Number

BYTES_PER_BATCH = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS_PER_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
ABOUT = (merging.ABOUT, merging.ERROR, merging.GROUPS)  # the products that the driver reads
About = list[tuple[str, bytes]]
StatesOf = Callable[[Collection["Number"]], "DataFrame"]


class Replay(Mapping[str, "DataFrame"]):
    """The tables of a replay, by name or as attributes, backed by persisted products.

    Attributes
    ----------
    groups, members, offsets, generations, faults, commits : DataFrame
        As ``coterie replay`` writes them; ``commits`` only with history.
    summary : Summary
        The numbers of what was read, and of faults.
    notes : tuple of str
        Notes on facts that the source leaves undecided (none for segments), and on groups in
        several partitions of the topic.
    """

    def __init__(
        self,
        products: DataFrame,
        summary: Summary,
        names: Iterable[str],
        notes: tuple[str, ...] = (),
    ) -> None:
        self.products = products
        self.summary = summary
        self.notes = notes
        self._tables = {name: table_of(products, name) for name in names}

    def __getitem__(self, name: str) -> DataFrame:
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def __repr__(self) -> str:
        read = self.summary
        return (
            f"<Replay of {read.records} records, {read.groups} groups, {read.fault_count} faults:"
            f" tables {', '.join(self._tables)}>"
        )

    @property
    def groups(self) -> DataFrame:
        """The table ``groups``: one row a group."""
        return self["groups"]

    @property
    def members(self) -> DataFrame:
        """The table ``members``: one row a member of the last generation."""
        return self["members"]

    @property
    def offsets(self) -> DataFrame:
        """The table ``offsets``: one row a committed offset."""
        return self["offsets"]

    @property
    def generations(self) -> DataFrame:
        """The table ``generations``: one row a generation."""
        return self["generations"]

    @property
    def faults(self) -> DataFrame:
        """The table ``faults``: one row a fault."""
        return self["faults"]

    @property
    def commits(self) -> DataFrame:
        """The table ``commits``: one row a commit.

        Raises
        ------
        AttributeError
            It was replayed without ``history``.
        """
        if "commits" not in self._tables:
            raise AttributeError("no table of commits: replay with history=True")
        return self["commits"]

    def leave_open(self, table: str, column: str) -> None:
        """Make a column null, because the source does not have its values."""
        from pyspark.sql import functions as f

        frame = self._tables[table]
        kind = frame.schema[column].dataType
        self._tables[table] = frame.withColumn(column, f.lit(None).cast(kind))

    def unpersist(self) -> None:
        """Drop the persisted data; a table used afterwards is replayed from the log."""
        self.products.unpersist()


def table_of(products: DataFrame, name: str) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = spark_schema(SCHEMAS[name]())
    bodies = products.where(products["name"] == name).select("body")
    return bodies.mapInArrow(shipped(merging.table_worker(schema)), from_arrow_schema(schema))


def replay(
    spark: SparkSession,
    paths: scanning.Paths,
    at: Time = None,
    history: bool = False,
    on_fault: str = "skip",
    groups: Iterable[str] | None = None,
) -> Replay:
    """Replay a log and return its tables as DataFrames, with the rows of ``coterie replay``.

    Parameters
    ----------
    spark : SparkSession
        Its workers need coterie installed, and reach plain paths by the same absolute names.
    paths
        Folders that hold ``__consumer_offsets-N`` folders, such folders, or segment files. Plain
        paths are read by the workers themselves. URLs (``s3a://``, ``hdfs://``, ``file:``) are
        listed by the driver's Hadoop file system and read by Spark: each segment is then
        one piece.
    at
        State as of this time: epoch ms, ISO 8601 with zone, or a datetime with zone.
    history : bool
        Return ``commits`` too: every commit. A task then has the commits of its pieces in memory.
    on_fault : str
        ``skip``, ``recover``, ``load`` or ``stop``, as for ``coterie replay``.
    groups
        Keep only these groups.

    Raises
    ------
    CoterieError
        ``paths`` are not paths, a path has no log, a worker cannot read a segment, or there is a
        fault under ``stop``.
    """
    options = options_of(at, history, on_fault, groups)
    products, summary = run(spark, paths, options)
    return Replay(products, summary, table_names(options), summary.notes)


def table_names(options: ScanOptions) -> list[str]:
    """Return the names of the tables that a replay gives."""
    return [name for name in SCHEMAS if options.history or name != "commits"]


def options_of(at: Time, history: bool, on_fault: str, groups: Iterable[str] | None) -> ScanOptions:
    if isinstance(groups, str):
        groups = [groups]
    options = ScanOptions(
        on_fault=on_fault,
        at_ms=time_ms(at),
        groups=None if groups is None else frozenset(groups),
        history=history,
    )
    try:
        options.new_fold()
    except ValueError as error:
        raise CoterieError(str(error)) from None
    return options


def run(
    spark: SparkSession,
    paths: Listing | scanning.Paths,
    options: ScanOptions,
    form: str = "parquet",
) -> tuple[DataFrame, Summary]:
    """Scan and merge a log; return its products (see ``merging``), persisted."""
    listing = listing_of_paths(spark, paths)
    if on_the_driver.is_small(spark, listing):
        table, summary = on_driver(listing, options, form)
        return spark.createDataFrame(table), summary
    products, about = folded(spark, listing, options, form)

    def states_of(numbers: Collection[Number]) -> DataFrame:
        return run(spark, part_of(listing, numbers), without_history(options), "json")[0]

    return each_group_once(products, about, states_of, listing.passed_over)


def part_of(listing: Listing, numbers: Collection[Number]) -> Listing:
    segments = tuple(one for one in listing.segments if one.partition in numbers)
    return with_changes(listing, segments=segments)


def without_history(options: ScanOptions) -> ScanOptions:
    return with_changes(options, history=False)


def folded(
    spark: SparkSession, listing: Listing, options: ScanOptions, form: str
) -> tuple[DataFrame, About]:
    """Scan and merge a log on the workers; return its products, persisted, and those about it."""
    cores = cores_of(spark)
    partitions = list(listing.partitions())
    count = min(len(partitions), plan.TASKS_PER_CORE * cores)
    if is_url(listing.segments[0].path):
        states = scan_by_hadoop(spark, listing.segments, options)
        products = merge(states, count, place_in(partitions), form)
        with lines.whole_files(spark, listing.segments):
            return run_merge(spark, products, lines.ROWS_PER_BATCH)
    cuts = cut_on_workers(spark, listing.segments, cores)
    # A unit's commits stay in memory until all of it is scanned.
    max_bytes = plan.SPARK_PIECE_BYTES if options.history else plan.TASK_BYTES
    tasks = plan.deal(plan.pieces_of(listing.segments, cuts), cores, max_bytes)
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    work = scanning.scan_worker(tasks, options, scanning.reader())
    states = numbers.mapInArrow(shipped(work), scanning.STATE_DDL)
    count = min(count, len(tasks))
    return run_merge(spark, merge(states, count, place_in(partitions), form))


def on_driver(listing: Listing, options: ScanOptions, form: str) -> tuple[pa.Table, Summary]:
    """Return a small log's products without a job."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = pa.Table.from_batches(on_the_driver.products_of(listing, options, form))
    chosen = table.filter(pc.is_in(table["name"], pa.array(ABOUT)))
    about = list(zip(chosen["name"].to_pylist(), chosen["body"].to_pylist(), strict=True))
    summary = summary_of(about, listing.passed_over)
    shared = joining.sharing(about)
    if not shared:
        return table, summary
    states = on_the_driver.products_of(part_of(listing, shared), without_history(options), "json")
    rows = (tuple(row.values()) for batch in states for row in batch.to_pylist())
    joined = joining.joined_tables(joining.state_of(rows), count_of(summary.pieces))
    is_of_them = pc.is_in(table["partition"], pa.array(joined.numbers, pa.int32()))
    is_old = pc.and_(is_of_them, pc.is_in(table["name"], pa.array(joining.TABLES)))
    fresh = pa.Table.from_batches(joined.products(), table.schema)
    tables = pa.concat_tables([table.filter(pc.invert(is_old)), fresh])
    return tables, joined.counted_in(summary, shared)


def each_group_once(
    products: DataFrame,
    about: About,
    states_of: StatesOf,
    passed_over: tuple[str, ...] = (),
) -> tuple[DataFrame, Summary]:
    """Return products with each group once, and their summary.

    Parameters
    ----------
    products, about
        What workers made, and what of it is about the partitions.
    states_of
        Returns the states of some partitions, as products of format json.
    passed_over
        As in the summary.

    Raises
    ------
    CoterieError
        A worker could not read something, or the first fault under ``on_fault="stop"``.
    """
    from pyspark import StorageLevel

    try:
        summary = summary_of(about, passed_over)
        shared = joining.sharing(about)
        if not shared:
            return products, summary
        states = states_of(shared)
        try:
            rows = states.orderBy("partition", "part").toLocalIterator()
            joined = joining.joined_tables(joining.state_of(rows), count_of(summary.pieces))
        finally:
            states.unpersist()
        whole = joining.replaced(products, joined).persist(StorageLevel.MEMORY_AND_DISK)
        whole.count()  # before the products that it has in part are dropped
        products.unpersist()
        return whole, joined.counted_in(summary, shared)
    except BaseException:
        products.unpersist()
        raise


def cores_of(spark: SparkSession) -> int:
    """Return how many tasks run at once: Spark's default parallelism."""
    from pyspark.sql import functions as f

    try:
        return max(spark.sparkContext.defaultParallelism, 1)
    except AttributeError:  # Spark Connect has no context; a range has as many partitions
        last = spark.range(1).select(f.spark_partition_id().alias("last")).agg(f.max("last"))
        return int(last.collect()[0][0]) + 1


def listing_of_paths(spark: SparkSession, paths: Listing | scanning.Paths) -> Listing:
    """Return the segments of paths or URLs; a listing is returned unchanged."""
    if isinstance(paths, Listing):
        return paths
    names = path_names(paths, "paths")
    if not names:
        raise CoterieError("no path to replay")
    urls = [is_url(name) for name in names]
    if all(urls):
        return find_hadoop_segments(spark, names)
    if any(urls):
        raise CoterieError("give either plain paths or URLs: put file: before the plain ones")
    return find_segments(names)


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
    work = scanning.cut_worker(chosen, max_bytes, scanning.reader())
    cuts: dict[int, list[plan.Cut]] = {}
    with unfit_workers_reported():
        rows = numbers.mapInArrow(shipped(work), scanning.CUT_DDL).collect()
    for row in rows:
        if row.error is not None:
            raise CoterieError(row.error)
        cuts.setdefault(big[row.segment], []).append((row.start, row.stop, row.expected))
    return cuts


def merge(states: DataFrame, tasks: int, task: Column, form: str) -> DataFrame:
    """Merge the states of each partition, in order of their place, into persisted products.

    ``task`` is the number of the task that merges the partition of a row.
    """
    from pyspark import StorageLevel

    rows = states.repartition(tasks, in_task(task, tasks))
    by_place = rows.sortWithinPartitions("partition", "number", "chunk")
    merged = by_place.mapInArrow(shipped(merging.merge_worker(form)), merging.PRODUCT_DDL)
    return merged.persist(StorageLevel.MEMORY_AND_DISK)


def in_task(task: Column, tasks: int) -> Column:
    """Return the partitioning column that sends each row to its task, modulo the tasks."""
    from pyspark.sql import functions as f

    return f.element_at(f.lit(plan.salts(tasks)), f.pmod(task, f.lit(tasks)).cast("int") + 1)


def place_in(partitions: Iterable[int | None]) -> Column:
    """Return the index of a row's partition among these; 0 for the unknown partition."""
    from pyspark.sql import functions as f

    numbers = [number for number in partitions if number is not None]
    if not numbers:
        return f.lit(0)
    return f.coalesce(f.array_position(f.lit(numbers), f.col("partition")), f.lit(0))


def run_merge(
    spark: SparkSession, products: DataFrame, rows_per_batch: int = 1
) -> tuple[DataFrame, About]:
    """Run scan and merge, and return the products with those about the partitions."""
    try:
        with bounded_batches(spark, rows_per_batch), unfit_workers_reported():
            about = products.where(products["name"].isin(*ABOUT)).select("name", "body")
            return products, [(row.name, bytes(row.body)) for row in about.collect()]
    except BaseException:
        products.unpersist()
        raise


def summary_of(about: Iterable[tuple[str, bytes]], passed_over: tuple[str, ...]) -> Summary:
    """Return a summary from the products about the partitions.

    Raises
    ------
    CoterieError
        Something could not be read, or the first fault under ``on_fault="stop"``.
    """
    rows = list(about)
    errors = sorted(body.decode() for name, body in rows if name == merging.ERROR)
    if errors:
        raise CoterieError(errors[0])
    reports = [unpack(merging.ABOUT, body) for name, body in rows if name == merging.ABOUT]
    reports.sort(key=lambda report: partition_order(report[0]))
    for _, read, _, stopped in reports:
        if stopped:
            place = fault_line(read.faults[0])
            raise FaultFound(f"{place}; stopped (--on-fault skip goes on)")
    partitions: dict[int | None, Read] = {number: read for number, read, _, _ in reports}
    groups = sum(count for _, _, count, _ in reports)
    return summarize(partitions, groups, passed_over)


@contextmanager
def bounded_batches(spark: SparkSession, rows: int) -> Iterator[None]:
    """Limit the rows of Arrow batches where Spark does not limit their bytes (before 4.1)."""
    try:
        spark.conf.get(BYTES_PER_BATCH)
    except Exception:  # an unknown setting; the type of the error depends on Spark's version
        with set_meanwhile(spark, {ROWS_PER_BATCH: str(rows)}):
            yield
    else:
        yield
