"""Every function of ``coterie_spark`` over one Spark Connect session, for its tests.

A program with the arguments FOLDER LOG TRACES, because a process has a session of one kind only.
Writes each answer into FOLDER as an Arrow file, NAME.arrow.
"""

import shutil
import sys
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit

import coterie_spark
from coterie.insight.offsets.end_offsets import read_end_offsets
from support.spark_home import SMALL_LOGS

NOW_MS = 1795237385000
ROWS = ("key", "value", "offsets_partition as partition", "log_offset as offset", "timestamp")


def keep(folder, name, frame):
    """Leave a frame's rows."""
    table = frame.toArrow()
    with pa.ipc.new_file(str(folder / f"{name}.arrow"), table.schema) as file:
        file.write_table(table)


def replayed(spark, folder, log):
    """Replay a copy, and delete it before the tables are read."""
    copy = shutil.copytree(log, folder / "copy")
    tables = coterie_spark.replay(spark, copy, history=True)
    shutil.rmtree(copy)
    for name, frame in tables.items():
        keep(folder, f"replay-{name}", frame)
    tables.unpersist()


def questions(spark, folder, log):
    """Put every question."""
    for name in ("audit", "explain", "growth", "metrics"):
        keep(folder, name, getattr(coterie_spark, name)(spark, log))
    keep(folder, "expire", coterie_spark.expire(spark, log, now_ms=NOW_MS))
    keep(folder, "undo", coterie_spark.undo(spark, log, at=NOW_MS))
    ends = read_end_offsets(folder / "ends")
    keep(folder, "lag", coterie_spark.lag(spark, log, ends=ends, at=NOW_MS, log_until_ms=NOW_MS))
    rows = coterie_spark.run_designs(spark, ["join-and-close"], ["today"])
    keep(folder, "designs", rows.selectExpr("scenario", "design", "to_json(costs) as costs"))


def read(spark, folder, log):
    """Read through the data source, and replay what it gives."""
    coterie_spark.register(spark)
    frame = spark.read.format("consumer_offsets").load(str(log))
    keep(folder, "source", frame.select("offsets_partition", "log_offset", "key", "value"))
    tables = coterie_spark.replay_frame(frame.selectExpr(*ROWS))
    keep(folder, "frame-offsets", tables["offsets"])
    tables.unpersist()
    spark.sql(f"CREATE TABLE records USING consumer_offsets OPTIONS (path '{log}')")
    rows = spark.sql("SELECT offsets_partition, log_offset, key, value FROM records")
    keep(folder, "created", rows)
    spark.sql("DROP TABLE records")


def computed(spark, folder):
    """Run the UDFs."""
    from coterie_spark.udfs import (
        expired,
        expired_column,
        select_protocol,
        session_expirations,
    )

    offsets = spark.createDataFrame([(0, None), (0, 50), (95, None)], "c long, e long")
    keep(folder, "expired", offsets.select("c", expired("c", "e", lit(100), lit(10)).alias("x")))
    gone = expired_column("c", "e", 100, 10).alias("x")
    keep(folder, "expired_column", offsets.select("c", gone))
    groups = spark.createDataFrame([([["b", "a"], ["a", "b"]],)], "p array<array<string>>")
    keep(folder, "select_protocol", groups.select(select_protocol("p").alias("x")))
    ddl = "member string, heartbeat_ms long, timeout_ms long"
    events = spark.createDataFrame([("m", 0, 10), ("m", 30, 10), ("n", 5, 10)], ddl)
    keep(folder, "session_expirations", session_expirations(events))
    for name, frame in (("offsets", offsets), ("protocols", groups), ("events", events)):
        frame.createOrReplaceTempView(name)
    gone = spark.sql("SELECT c, expired(c, e, 100L, 10L) AS x FROM offsets")
    keep(folder, "expired-sql", gone)
    keep(folder, "select_protocol-sql", spark.sql("SELECT select_protocol(p) AS x FROM protocols"))
    sessions = spark.sql("SELECT * FROM session_expirations(TABLE(events))")
    keep(folder, "session_expirations-sql", sessions)


def main(folder, log, traces):
    """Leave all answers."""
    conf = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", **SMALL_LOGS}
    conf["spark.sql.warehouse.dir"] = str(folder / "warehouse")
    spark = SparkSession.builder.remote("local[2]").config(map=conf).getOrCreate()
    replayed(spark, folder, log)
    questions(spark, folder, log)
    read(spark, folder, log)
    computed(spark, folder)
    keep(
        folder, "traces", coterie_spark.run_traces(spark, traces).select("trace", "number", "line")
    )
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
