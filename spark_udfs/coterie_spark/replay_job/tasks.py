"""How many tasks run at once, and which task gets a row.

Spark's own partitioning by hashes gives two rows to some tasks and none to others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TASKS = 10_000  # the most tasks for rows that get one each
_WORD = 0xFFFFFFFF


def cores_of(spark: SparkSession) -> int:
    """Return how many tasks run at once: Spark's default parallelism."""
    from pyspark.sql import functions as f

    try:
        return max(spark.sparkContext.defaultParallelism, 1)
    except AttributeError:  # Spark Connect has no context; a range has as many partitions
        last = spark.range(1).select(f.spark_partition_id().alias("last")).agg(f.max("last"))
        return int(last.collect()[0][0]) + 1


def a_row_a_task(spark: SparkSession, rows: Sequence[tuple[Any, ...]], columns: str) -> DataFrame:
    """Return a DataFrame in which each row is a task of its own, up to ``TASKS``."""
    tasks = max(1, min(len(rows), TASKS))
    values = salts(tasks)
    salted = [(values[number % tasks], *row) for number, row in enumerate(rows)]
    frame = spark.createDataFrame(salted, f"task int, {columns}")
    return frame.repartition(tasks, "task").drop("task")


def by_place(states: DataFrame, tasks: int, task: Column) -> DataFrame:
    """Return the states of each partition in one task, in order of their place in the log.

    ``task`` is the number of the task of a row, modulo the tasks.
    """
    rows = states.repartition(tasks, in_task(task, tasks))
    return rows.sortWithinPartitions("partition", "number", "chunk")


def in_task(task: Column, tasks: int) -> Column:
    """Return the partitioning column that sends each row to its task, modulo the tasks."""
    from pyspark.sql import functions as f

    return f.element_at(f.lit(salts(tasks)), f.pmod(task, f.lit(tasks)).cast("int") + 1)


def place_in(partitions: Iterable[int | None]) -> Column:
    """Return the index of a row's partition among these; 0 for the unknown partition."""
    from pyspark.sql import functions as f

    numbers = [number for number in partitions if number is not None]
    if not numbers:
        return f.lit(0)
    return f.coalesce(f.array_position(f.lit(numbers), f.col("partition")), f.lit(0))


def salts(tasks: int) -> list[int]:
    """Return, for each task, an integer that Spark's hash partitioning sends to that task."""
    salts: dict[int, int] = {}
    for value in itertools.count():
        salts.setdefault(spark_hash(value) % tasks, value)
        if len(salts) == tasks:
            return [salts[task] for task in range(tasks)]
    raise AssertionError


def spark_hash(value: int) -> int:
    """Return Spark's hash of an int, as its hash partitioning computes it.

    Source: Murmur3_x86_32.hashInt with the seed 42 of HashPartitioning.
    """
    mixed = _rotated(value * 0xCC9E2D51, 15) * 0x1B873593
    mixed = _rotated(42 ^ mixed, 13) * 5 + 0xE6546B64
    mixed = (mixed & _WORD) ^ 4  # bytes of an int
    mixed = ((mixed ^ mixed >> 16) * 0x85EBCA6B) & _WORD
    mixed = ((mixed ^ mixed >> 13) * 0xC2B2AE35) & _WORD
    mixed ^= mixed >> 16
    return mixed - (1 << 32) if mixed >> 31 else mixed


def _rotated(value: int, bits: int) -> int:
    value &= _WORD
    return (value << bits | value >> (32 - bits)) & _WORD
