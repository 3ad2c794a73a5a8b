"""Rows a second of the streaming source beside a bare Python source: python stream_on_spark.py LOG.

The bare source yields as many rows of the same columns, made once a task; it decodes nothing.
Both write to Spark's sink ``noop``, in turn. Then ``follow`` of the same log, and its lag: the time
from the append of a batch to the tables that have it. LOG has one partition.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from coterie_spark import follow, register
from coterie_spark.session import local_session

COLUMNS = "group_id string, topic string, partition int, offset long, log_offset long"
BATCH_ROWS = 65_536
LAGS = 10


class BareReader(DataSourceStreamReader):
    """Yields rows that are there already."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def initialOffset(self) -> dict:
        return {"row": 0}

    def latestOffset(self, *_: object) -> dict:
        return {"row": self.rows}

    def partitions(self, start: dict, end: dict) -> list[InputPartition]:
        return [InputPartition(end["row"] - start["row"])]

    def read(self, partition: InputPartition):
        numbers = pa.array(range(BATCH_ROWS), pa.int64())
        names = pa.array([f"group-{number % 100}" for number in range(BATCH_ROWS)])
        columns = [names, names, numbers.cast(pa.int32()), numbers, numbers]
        batch = pa.RecordBatch.from_arrays(columns, [c.split()[0] for c in COLUMNS.split(", ")])
        for start in range(0, partition.value, BATCH_ROWS):
            yield batch.slice(0, min(BATCH_ROWS, partition.value - start))


class BareSource(DataSource):
    """The source of :class:`BareReader`."""

    @classmethod
    def name(cls) -> str:
        return "bare"

    def schema(self) -> str:
        return COLUMNS

    def streamReader(self, schema: object) -> BareReader:
        return BareReader(int(self.options["rows"]))


def seconds(frame) -> float:
    """Run a stream to its end, and return the time of its batches."""
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        begin = time.perf_counter()
        writer.trigger(availableNow=True).start().awaitTermination()
        return time.perf_counter() - begin


def follow_lags(spark, log: str, home: Path) -> list[float]:
    """Follow a log of a segment to which batches are appended; return the lag of each."""
    source, *others = sorted(Path(log).glob("*/*.log"))
    folder = home / "log" / source.parent.name
    folder.mkdir(parents=True)
    segment = Path(shutil.copy(source, folder))
    data = others[0].read_bytes()
    options = {"checkpoint": home / "check-lag", "trigger": "0 seconds"}
    query = follow(spark, home / "log", home / "lag", **options)
    table, lags, at = home / "lag/offsets.parquet", [], 0
    while not table.exists():
        time.sleep(0.01)
    query.processAllAvailable()
    for _ in range(LAGS):
        before, size = table.readlink(), 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        begin = time.perf_counter()
        with segment.open("ab") as file:
            file.write(data[at : at + size])
        while table.readlink() == before:
            time.sleep(0.005)
        lags.append(time.perf_counter() - begin)
        at += size
    query.stop()
    return lags


def main(log: str) -> None:
    """Print the best of three runs each."""
    spark = local_session("local[1]")
    register(spark)
    spark.dataSource.register(BareSource)
    rows = spark.read.format("consumer_offsets").schema("log_offset long").load(log).count()
    ours = spark.readStream.format("consumer_offsets").schema(COLUMNS).load(log)
    bare = spark.readStream.format("bare").option("rows", rows).load()
    best = {"bare": float("inf"), "source": float("inf")}
    for _ in range(3):
        for name, frame in (("bare", bare), ("source", ours)):
            best[name] = min(best[name], seconds(frame))
    for name, spent in best.items():
        print(f"{name}: {rows} rows in {spent:.2f} s, {rows / spent:,.0f} rows/s")
    print(f"source by bare: {best['bare'] / best['source']:.0%}")
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        begin = time.perf_counter()
        options = {"checkpoint": home / "check", "trigger": {"availableNow": True}}
        follow(spark, log, home / "out", **options).awaitTermination()
        spent = time.perf_counter() - begin
        print(f"follow: {rows} rows in {spent:.2f} s, {rows / spent:,.0f} rows/s", flush=True)
        lags = follow_lags(spark, log, home)
        print(f"lag: median {statistics.median(lags):.2f} s, most {max(lags):.2f} s")


if __name__ == "__main__":
    main(sys.argv[1])
