"""Traces and UDFs on Spark give what they give in one process."""

import json
import shutil

import pytest

from coterie import run_trace
from trace_data import TRACES, scenario

pytest.importorskip("pyspark")
NAMES = ["vote-tie", "commit-nothing", "demo1"]


def test_traces_run_on_spark_as_in_one_process(spark, tmp_path):
    from coterie_spark import run_traces

    for name in NAMES:
        shutil.copy(TRACES / "scenarios" / f"{name}.trace.jsonl", tmp_path)
    (tmp_path / "bad.trace.jsonl").write_text("{}\n")
    rows = run_traces(spark, str(tmp_path)).orderBy("trace", "number").collect()
    for name in NAMES:
        lines = [json.loads(row.line) for row in rows if row.trace == name]
        assert lines == list(run_trace(scenario(name)[0]))
    (bad,) = [row for row in rows if row.trace == "bad"]
    assert "bad.trace.jsonl: line 1" in bad.error
    assert bad.line is None


def test_an_expiry_beside_a_null_is_exact(spark):
    """The greatest int64 is "never", and no float64."""
    from pyspark.sql.functions import col, lit

    import coterie_spark
    from coterie_spark.udfs import expired, expired_column

    never = 2**63 - 1
    offsets = [(0, None), (1, never), (2, never - 1), (3, 2**53 + 1), (4, 2**53)]
    frame = spark.createDataFrame(offsets, "c long, e long").coalesce(1)
    for now, gone in [(2**53, [0, 4]), (never - 1, [0, 2, 3, 4]), (never, [0, 1, 2, 3, 4])]:
        for told in (
            expired("c", "e", lit(now), lit(10)),
            expired("c", col("e"), now_ms=lit(now), retention_ms=lit(10)),
            expired_column("c", "e", now, 10),
        ):
            assert sorted(row.c for row in frame.where(told).collect()) == gone
    coterie_spark.register(spark)
    frame.createOrReplaceTempView("udf_never")
    rows = spark.sql("SELECT c FROM udf_never WHERE expired(c, e, 100L, 10L)").collect()
    assert [row.c for row in rows] == [0]


def test_udfs_compute_what_the_library_computes(spark):
    from pyspark.sql.functions import lit

    import coterie_spark
    from coterie_spark.udfs import (
        expired,
        expired_column,
        select_protocol,
        session_expirations,
    )

    offsets = spark.createDataFrame([(0, None), (0, 50), (95, None)], "c long, e long")
    gone = offsets.select(expired("c", "e", lit(100), lit(10)).alias("x")).collect()
    assert [row.x for row in gone] == [True, True, False]
    gone = offsets.select(expired_column("c", "e", 100, 10).alias("x")).collect()
    assert [row.x for row in gone] == [True, True, False]
    groups = spark.createDataFrame([([["b", "a"], ["a", "b"]],), ([],)], "p array<array<string>>")
    assert [row.x for row in groups.select(select_protocol("p").alias("x")).collect()] == [
        "b",
        None,
    ]
    events = spark.createDataFrame([("m", 0, 10), ("m", 30, 10), ("n", 5, 10)],
                                   "member string, heartbeat_ms long, timeout_ms long")  # fmt: skip
    ended = session_expirations(events).orderBy("ended_ms").collect()
    assert [tuple(row) for row in ended] == [("m", 10), ("n", 15), ("m", 40)]
    coterie_spark.register(spark)
    offsets.createOrReplaceTempView("udf_offsets")
    events.createOrReplaceTempView("udf_events")
    gone = spark.sql("SELECT expired(c, e, 100L, 10L) AS x FROM udf_offsets").collect()
    assert [row.x for row in gone] == [True, True, False]
    asked = "TABLE(udf_events) PARTITION BY member ORDER BY heartbeat_ms"
    told = spark.sql(f"SELECT * FROM session_expirations({asked}) ORDER BY ended_ms").collect()
    assert told == ended
