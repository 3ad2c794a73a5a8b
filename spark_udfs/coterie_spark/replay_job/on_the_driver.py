"""A small log, scanned and merged by a local driver itself: the same work, without a job.

To start Python workers and to run a job with a shuffle takes seconds, whatever there is to do.
The functions are those of the workers, so the products are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from coterie.errors import CoterieError
from coterie.log.folders import Listing
from coterie.state.partial import ScanOptions
from coterie_spark.replay_job import merging, plan, scanning
from coterie_spark.replay_job.hadoop import is_url

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

# What one core folds while a worker starts. For a log of 592 kB on `local[2]`, a replay by workers
# took 50 s of CPU time, and one by the driver 22 s: less than a session that only counts a range.
HERE_BYTES = 32 << 20
SETTING = "spark.coterie.driverBytes"  # up to so many bytes the driver folds; -1: none


def is_small(spark: SparkSession, listing: Listing) -> bool:
    """Whether a log is folded by the driver: its workers would run on the same machine."""
    if any(is_url(segment.path) for segment in listing.segments):
        return False
    try:
        is_local = str(spark.sparkContext.master).partition("[")[0] == "local"
    except AttributeError:  # Spark Connect has no context
        return False
    pieces = plan.pieces_of(listing.segments, {})
    told = spark.conf.get(SETTING, str(HERE_BYTES)) or ""
    try:
        most = int(told)
    except ValueError:
        raise CoterieError(f"{SETTING} must be a number of bytes, not {told!r}") from None
    return is_local and sum(piece.weight for piece in pieces) <= most


def products_of(listing: Listing, options: ScanOptions, form: str) -> Iterator[pa.RecordBatch]:
    """Yield the products of a log; see ``coterie_spark.replay_job.merging``."""
    import pyarrow as pa

    pieces = plan.pieces_of(listing.segments, {})  # in order: by partition, then by place
    tasks = plan.deal(pieces, 1)
    numbers = pa.RecordBatch.from_pydict({"id": pa.array(range(len(tasks)), pa.int64())})
    states = scanning.scan_worker(tasks, options, scanning.reader())([numbers])
    yield from merging.merge_worker(form)(states)
