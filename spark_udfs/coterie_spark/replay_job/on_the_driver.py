"""Scan and merge a small log in a local driver, without a job.

Starting Python workers and running a job with a shuffle takes seconds, however small the log. The
driver calls the functions of the workers, so the products are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from coterie.errors import CoterieError
from coterie.log.folders import Listing, is_url
from coterie.state.partial import ScanOptions
from coterie_spark.replay_job import merging, plan, scanning

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

# One core folds this much while a worker starts. For a log of 592 kB on `local[2]`, a replay by
# workers took 50 s of CPU time and one by the driver 22 s, less than a session that counts a range.
DRIVER_BYTES = 32 << 20
SETTING = "spark.coterie.driverBytes"  # the driver folds logs up to this size; -1: none


def is_small(spark: SparkSession, listing: Listing) -> bool:
    """Whether the driver folds a log itself: it is small, and the workers would be local."""
    if any(is_url(segment.path) for segment in listing.segments):
        return False
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


def products_of(listing: Listing, options: ScanOptions, form: str) -> Iterator[pa.RecordBatch]:
    """Yield the products of a log; see ``coterie_spark.replay_job.merging``."""
    import pyarrow as pa

    pieces = plan.pieces_of(listing.segments, {})  # in order: by partition, then by place
    tasks = plan.deal(pieces, 1)
    numbers = pa.RecordBatch.from_pydict({"id": pa.array(range(len(tasks)), pa.int64())})
    states = scanning.scan_worker(tasks, options, scanning.reader())([numbers])
    yield from merging.merge_worker(form)(states)
