"""Replay the rows of a DataFrame: records as Spark's own Kafka source reads them.

The rows are sorted into log order (a shuffle of all rows, which segments do not need), scanned in
runs of ``RUN_OFFSETS`` offsets, and merged like pieces of segments. Rows lack the fields of their
batches. Anything undecided for that reason is reported, never guessed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from coterie._core.fold.fold import take
from coterie._core.fold.fold_state import Scanned
from coterie.base.times import Time
from coterie.errors import CoterieError
from coterie.log.folders import TOPIC
from coterie.state.partial import PartialState, ScanOptions
from coterie_spark.replay_job import plan, scanning
from coterie_spark.replay_job.closures import shipped
from coterie_spark.replay_job.driver import (
    About,
    Replay,
    cores_of,
    each_group_once,
    merge,
    options_of,
    run_merge,
    table_names,
    without_history,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from coterie.state.several_partitions import Number

RUN_OFFSETS = 1 << 17
ROWS_PER_BATCH = 256  # of records, and of states in chunks of 4 MB: see bounded_batches
NEEDED = ("key", "value", "partition", "offset", "timestamp")
NOTES = (
    "rows have no producer ids and no markers: each commit counts as one outside transactions;"
    " read with kafka.isolation.level=read_uncommitted, those of aborted and of open transactions"
    " are among them",
    "a tombstone written between a commit of a transaction and its marker takes the offset away,"
    " which the marker would have put back",
    "appended_batch_offset is the record's own offset, not that of its batch's first record",
    "a gap in the offsets may be compaction or a marker: from when on the state can be trusted is"
    " not known",
)


def replay_frame(
    frame: DataFrame,
    at: Time = None,
    history: bool = False,
    on_fault: str = "skip",
    groups: Iterable[str] | None = None,
) -> Replay:
    """Replay records of ``__consumer_offsets`` that are rows of a DataFrame.

    Parameters
    ----------
    frame : DataFrame
        Columns ``key`` and ``value`` (binary), ``partition`` (int), ``offset`` (bigint) and
        ``timestamp``, as ``spark.read.format("kafka")`` returns them; others are ignored. Rows
        may be in any order; an offset that occurs twice counts once.
    at, history, on_fault, groups
        As for :func:`coterie_spark.replay`. ``recover`` is ``load`` here: there are no segments
        to recover.

    Returns
    -------
    Replay
        Its ``notes`` list what such rows leave undecided. So ``pending_transactional_offsets`` of
        ``groups`` and ``outcome`` of ``commits`` are null, and a fault has an offset instead of a
        position. To leave aborted transactions out, read the topic with
        ``kafka.isolation.level`` ``read_committed``.

    Raises
    ------
    CoterieError
        A column is missing, an offset is null, or there is a fault under ``stop``.
    """
    missing = [name for name in NEEDED if name not in frame.columns]
    if missing:
        raise CoterieError(f"no column {missing[0]!r} to replay; needed: {', '.join(NEEDED)}")
    options = options_of(at, history, on_fault, groups)
    products, about = folded(frame, options, "parquet")

    def states_of(numbers: Collection[Number]) -> DataFrame:
        chosen = [number for number in numbers if number is not None]
        some = frame.where(frame["partition"].cast("int").isin(chosen))
        return folded(some, without_history(options), "json")[0]

    products, summary = each_group_once(products, about, states_of)
    replayed = Replay(products, summary, table_names(options), (*NOTES, *summary.notes))
    replayed.leave_open("groups", "pending_transactional_offsets")
    if history:
        replayed.leave_open("commits", "outcome")
    return replayed


def folded(frame: DataFrame, options: ScanOptions, form: str) -> tuple[DataFrame, About]:
    """Scan and merge rows; return the products, persisted, and those about the partitions."""
    from pyspark.sql import functions as f

    spark = frame.sparkSession
    tasks = plan.TASKS_PER_CORE * cores_of(spark)
    rows = frame.select(
        f.col("key").cast("binary"),
        f.col("value").cast("binary"),
        f.col("partition").cast("int"),
        f.col("offset").cast("bigint"),
        f.unix_millis(f.col("timestamp").cast("timestamp")).alias("timestamp"),
        f.floor(f.col("offset") / RUN_OFFSETS).cast("bigint").alias("run"),
    )
    in_order = rows.repartition(tasks, "partition", "run")
    in_order = in_order.sortWithinPartitions("partition", "offset")
    states = in_order.mapInArrow(shipped(rows_worker(options)), scanning.STATE_DDL)
    products = merge(states, tasks, f.coalesce("partition", f.lit(0)), form)
    return run_merge(spark, products, ROWS_PER_BATCH)


def rows_worker(options: ScanOptions) -> scanning.Worker:
    """Return the worker that scans rows in log order into a state for each run of offsets."""

    def work(batches: scanning.Batches) -> Iterator[pa.RecordBatch]:
        run: OffsetRun | None = None
        for batch in batches:
            columns = (batch.column(index).to_pylist() for index in range(batch.num_columns))
            for key, value, partition, offset, timestamp, number in zip(*columns, strict=True):
                if offset is None:
                    error = CoterieError(
                        f"a row of partition {partition} has a null in the column 'offset'; "
                        "each record has an offset"
                    )
                    yield scanning.error_batch(partition, 0, error)
                    return
                if run is None or run.place != (partition, number):
                    if run is not None:
                        yield from run.finish()
                    run = OffsetRun(partition, number, options)
                run.add(offset, -1 if timestamp is None else timestamp, key, value)
        if run is not None:
            yield from run.finish()

    return work


class OffsetRun:
    """The state of a run of offsets of one partition."""

    def __init__(self, partition: int, number: int, options: ScanOptions) -> None:
        self.place = partition, number
        self.state = PartialState(options)
        self.fold = self.state.fold(partition)
        self.count = self.bytes = 0
        self.first = self.last = self.first_ms = self.max_ms = -1

    def add(self, offset: int, timestamp: int, key: bytes | None, value: bytes | None) -> None:
        """Apply a record as a batch of its own, unless its offset was applied before."""
        if offset == self.last:
            return
        if not self.count:
            self.first, self.first_ms = offset, timestamp
        self.count += 1
        self.bytes += len(key or b"") + len(value or b"")
        self.last, self.max_ms = offset, max(self.max_ms, timestamp)
        take(self.fold, ((offset, timestamp, key, value),))

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the state as rows, with the partition's name in faults and sizes."""
        partition, number = self.place
        name = f"{TOPIC}-{partition}"
        faults = self.fold.faults
        faults[:] = [fault._replace(file=name, position=None) for fault in faults]
        read = Scanned(
            file=name,
            position=self.first,
            bytes=self.bytes,
            batches=0,
            records=self.count,
            first_offset=self.first,
            last_offset=self.last,
            max_timestamp=self.max_ms,
            gap=False,
            first_timestamp=self.first_ms,
        )
        self.fold.segments.append(read)
        yield from scanning.state_batches(partition, number, self.state)
