"""The roads from a log to its products: each plans, scans and merges.

by_paths   workers read the segments, large ones in pieces
by_urls    Spark reads the segments, each one piece
by_rows    the records are rows of a DataFrame; a shuffle brings all of them into log order
in_driver  the driver does the workers' work for a small log, without a job
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace as with_changes
from typing import TYPE_CHECKING

from coterie.errors import CoterieError
from coterie.log.folders import Listing, is_url
from coterie.state.partial import ScanOptions
from coterie_spark.replay_job import frame, hadoop, merging, plan, scanning
from coterie_spark.replay_job.closures import shipped
from coterie_spark.replay_job.cutting import cut_on_workers
from coterie_spark.replay_job.products import InDriver, OnWorkers, Products, merged
from coterie_spark.replay_job.settings import CHUNK_ROWS
from coterie_spark.replay_job.tasks import cores_of, place_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from coterie.state.several_partitions import Number

Road = Callable[[ScanOptions, str, Collection["Number"] | None], Products]
"""Returns the products in a form (see ``merging``), of all partitions (None) or of some."""

# One core folds this much while a worker starts. For a log of 592 kB on `local[2]`, a replay by
# workers took 50 s of CPU time and one by the driver 22 s, less than a session that counts a range.
DRIVER_BYTES = 32 << 20
SETTING = "spark.coterie.driverBytes"  # the driver folds logs up to this size; -1: none


def from_log(
    spark: SparkSession,
    listing: Listing,
    options: ScanOptions,
    form: str,
    partitions: Collection[Number] | None = None,
) -> Products:
    """Take the road that suits a log, or some of its partitions."""
    if partitions is not None:
        segments = tuple(one for one in listing.segments if one.partition in partitions)
        listing = with_changes(listing, segments=segments)
    if is_url(listing.segments[0].path):
        return by_urls(spark, listing, options, form)
    road = in_driver if is_small(spark, listing) else by_paths
    return road(spark, listing, options, form)


def is_small(spark: SparkSession, listing: Listing) -> bool:
    """Whether the driver folds a log of plain paths: it is small, and workers would be local."""
    try:
        is_local = str(spark.sparkContext.master).partition("[")[0] == "local"
    except AttributeError:  # Spark Connect has no context
        return False
    pieces = plan.pieces_of(listing.segments, {})
    setting = spark.conf.get(SETTING, str(DRIVER_BYTES)) or ""
    try:
        max_bytes = int(setting)
    except ValueError:
        raise CoterieError(f"{SETTING} must be a number of bytes, not {setting!r}") from None
    return is_local and sum(piece.weight for piece in pieces) <= max_bytes


def by_paths(spark: SparkSession, listing: Listing, options: ScanOptions, form: str) -> OnWorkers:
    cores = cores_of(spark)
    cuts = cut_on_workers(spark, listing.segments, cores)
    # A unit's commits stay in memory until all of it is scanned.
    max_bytes = plan.SPARK_PIECE_BYTES if options.history else plan.TASK_BYTES
    tasks = plan.deal(plan.pieces_of(listing.segments, cuts), cores, max_bytes)
    work = scanning.scan_worker(tasks, options, scanning.reader())
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    states = numbers.mapInArrow(shipped(work), scanning.STATE_DDL)
    partitions = list(listing.partitions())
    count = min(len(partitions), len(tasks), plan.TASKS_PER_CORE * cores)
    return merged(states, count, place_in(partitions), form)


def by_urls(spark: SparkSession, listing: Listing, options: ScanOptions, form: str) -> OnWorkers:
    pieces = plan.pieces_of(listing.segments, {})
    full = {piece.segment.path: piece for piece in pieces if piece.segment.size}
    workers = hadoop.scan_workers(full, options)
    states = hadoop.read_by(spark, listing.segments, *workers, scanning.STATE_DDL)
    empty = [[piece] for piece in pieces if not piece.segment.size]
    if empty:  # Spark plans no read of a file without bytes
        work = scanning.scan_worker([empty], options, scanning.no_bytes)
        states.append(spark.range(0, 1, 1, 1).mapInArrow(shipped(work), scanning.STATE_DDL))
    partitions = list(listing.partitions())
    count = min(len(partitions), plan.TASKS_PER_CORE * cores_of(spark))
    with hadoop.whole_files(spark, listing.segments):
        return merged(hadoop.union_of(states), count, place_in(partitions), form, CHUNK_ROWS)


def in_driver(spark: SparkSession, listing: Listing, options: ScanOptions, form: str) -> InDriver:
    import pyarrow as pa

    pieces = plan.pieces_of(listing.segments, {})  # in order: by partition, then by place
    tasks = plan.deal(pieces, 1)
    work = scanning.scan_worker(tasks, options, scanning.reader())
    numbers = pa.RecordBatch.from_pydict({"id": pa.array(range(len(tasks)), pa.int64())})
    return InDriver(spark, merging.merge_worker(form)(work([numbers])))


def by_rows(
    rows: DataFrame,
    options: ScanOptions,
    form: str,
    partitions: Collection[Number] | None = None,
) -> OnWorkers:
    from pyspark.sql import functions as f

    if partitions is not None:
        chosen = [number for number in partitions if number is not None]
        rows = rows.where(rows["partition"].cast("int").isin(chosen))
    tasks = plan.TASKS_PER_CORE * cores_of(rows.sparkSession)
    records = rows.select(
        f.col("key").cast("binary"),
        f.col("value").cast("binary"),
        f.col("partition").cast("int"),
        f.col("offset").cast("bigint"),
        f.unix_millis(f.col("timestamp").cast("timestamp")).alias("timestamp"),
        f.floor(f.col("offset") / frame.RUN_OFFSETS).cast("bigint").alias("run"),
    )
    in_order = records.repartition(tasks, "partition", "run")
    in_order = in_order.sortWithinPartitions("partition", "offset")
    states = in_order.mapInArrow(shipped(frame.rows_worker(options)), scanning.STATE_DDL)
    return merged(states, tasks, f.coalesce("partition", f.lit(0)), form, frame.ROWS_PER_BATCH)
