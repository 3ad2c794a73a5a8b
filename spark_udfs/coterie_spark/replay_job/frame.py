"""Scan the rows of a DataFrame: records as Spark's own Kafka source reads them.

They come in log order, and runs of ``RUN_OFFSETS`` offsets are merged like pieces of segments. Rows
lack the fields of their batches. Anything undecided for that reason is reported, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from coterie._core.fold.fold import take
from coterie._core.fold.fold_state import Scanned
from coterie.errors import CoterieError
from coterie.log.folders import TOPIC
from coterie.state.partial import PartialState, ScanOptions
from coterie_spark.replay_job import scanning

if TYPE_CHECKING:
    import pyarrow as pa

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
