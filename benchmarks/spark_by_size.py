"""The fold on Spark beside the local engine and an identity ``mapInArrow``, by the log's size.

    python benchmarks/spark_by_size.py DIR [--gb 0.001 0.01 0.1 1 5 10] [--cores 1 2]

Logs of ``make_big_log.py`` are made in DIR unless they are there, and read once so that the page
cache holds them. The session is started and has folded a small log before; its start is a line of
its own. What a job costs whatever its size, its start and end, is the time of that small log once
more; the last column is the local engine's time beside Spark's without it. Both ways end with the
tables of each partition in memory, and every way must read as many records. Prints a table as it
goes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import make_big_log
from coterie import PartialState, ScanOptions
from coterie.log.folders import find_segments
from coterie.replay.crew import fold_log, resting_collector
from coterie.state.tables import fold_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOLDEN = Path(__file__).parents[2] / "shared/golden/logs"
SMALL = GOLDEN / "basic"
ROUNDS = 3
WORKERS_DO_IT = {"spark.coterie.driverBytes": "-1", "spark.driver.memory": "6g"}


def best(work: Callable[[], int], rounds: int = ROUNDS) -> tuple[float, int]:
    """Return the shortest wall time of some rounds, and what the work counted."""
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        counted = work()
        seconds.append(time.perf_counter() - began)
    return min(seconds), counted


def made(home: Path, size_gb: float) -> Path:
    """Return the log of that size."""
    log = home / f"wide-{size_gb:g}"
    if not log.exists():
        partitions = find_segments([GOLDEN / "wide"]).partitions()
        for number, segments in partitions.items():
            folder = log / f"__consumer_offsets-{number}"
            make_big_log.write_partition(segments, folder, int(size_gb * 1e9 / len(partitions)))
    return log


def local(log: Path, threads: int) -> int:
    """Fold in this process up to the tables, as Spark's workers do; return the records."""
    state = PartialState(ScanOptions())
    with closing(fold_log(state, find_segments([log]), threads)) as steps:
        for _ in steps:
            pass
    with resting_collector():
        for number, fold in state.live():
            assert fold_tables(number, fold)["groups"].num_rows
    return sum(piece.records for fold in state.partitions.values() for piece in fold.segments)


def on_spark(spark: SparkSession, log: Path) -> int:
    """Replay up to the tables, in Spark's cache; return the records."""
    import coterie_spark

    replayed = coterie_spark.replay(spark, log)
    records = replayed.summary.records
    replayed.unpersist()
    return records


def identity(spark: SparkSession, rows: int) -> int:
    """Hand rows of a key and a value, as long as those of commits, to workers and take them back.

    Spark makes them as it goes: ten gigabytes of them would not stay in its cache.
    """
    columns = ["cast(repeat('k', 36) as binary) key", "cast(repeat('v', 24) as binary) value"]
    made = spark.range(rows).selectExpr(*columns)
    return made.mapInArrow(lambda batches: batches, made.schema).count()


def session(cores: int) -> SparkSession:
    """Return a session whose workers have folded once."""
    from coterie_spark.session import local_session

    spark = local_session(f"local[{cores}]", conf=WORKERS_DO_IT)
    for _ in range(3):
        on_spark(spark, SMALL)
    return spark


def row_of(spark: SparkSession, log: Path, cores: int, ends_s: float) -> str:
    """Fold a log in every way; ``ends_s``: seconds of a job's start and end."""
    local(log, cores)  # the page cache holds it now
    here, records = best(lambda: local(log, cores))
    there, counted = best(lambda: on_spark(spark, log))
    assert counted == records
    same, counted = best(lambda: identity(spark, records), rounds=1)
    assert counted == records
    apart = f"{here / (there - ends_s):.0%}" if there > 2 * ends_s else "-"
    told = f"{records:,} | {here:.2f} s | {there:.2f} s | {same:.2f} s"
    return f"{told} | {here / there:.0%} | {apart}"


def main() -> None:
    """Make the logs, fold each in every way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", type=Path)
    parser.add_argument("--gb", type=float, nargs="+", default=[0.001, 0.01, 0.1, 1, 5, 10])
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    given = parser.parse_args()
    logs = {size: made(given.dir, size) for size in given.gb}
    print("| cores | log | records | local | Spark | identity | of local | start and end apart |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for cores in given.cores:
        began = time.perf_counter()
        spark = session(cores)
        start_s = time.perf_counter() - began
        ends_s, _ = best(partial(on_spark, spark, SMALL))
        for size, log in logs.items():
            print(f"| {cores} | {size:g} GB | {row_of(spark, log, cores, ends_s)} |", flush=True)
        for what, seconds in (
            ("the session's start and three small replays", start_s),
            ("a small replay: a job's start and end", ends_s),
        ):
            print(f"| {cores} | {what} | | | {seconds:.2f} s | | | |")
        spark.stop()


if __name__ == "__main__":
    main()
