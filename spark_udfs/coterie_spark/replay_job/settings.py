"""Settings of a session that change for some queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BYTES_PER_BATCH = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS_PER_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
CHUNK_ROWS = 64
"""Rows of a batch where each has a line, or at most ``scanning.CHUNK_BYTES``."""


@contextmanager
def set_meanwhile(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Change settings for a block, then restore them; each setting must have a default."""
    before = {name: spark.conf.get(name) for name in values}
    try:
        for name, value in values.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, earlier in before.items():
            spark.conf.set(name, str(earlier))


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
