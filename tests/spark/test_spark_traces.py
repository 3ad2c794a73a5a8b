"""Traces and UDFs on Spark give what they give in one process."""

import json
import shutil

import pytest

from coterie import run_trace
from support.trace_data import TRACES, scenario

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
        for condition in (
            expired("c", "e", lit(now), lit(10)),
            expired("c", col("e"), now_ms=lit(now), retention_ms=lit(10)),
            expired_column("c", "e", now, 10),
        ):
            assert sorted(row.c for row in frame.where(condition).collect()) == gone
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
    sql_rows = spark.sql("SELECT * FROM session_expirations(TABLE(udf_events)) ORDER BY ended_ms")
    assert sql_rows.collect() == ended


def test_the_table_function_loses_no_session_however_rows_lie(spark):
    """Heartbeats of few members, mixed, back in time and in several tasks; one for each session."""
    import coterie_spark
    from coterie_spark.udfs import session_expirations

    coterie_spark.register(spark)
    beats = [("one", at, 10) for at in (20, 0, 5, 30, 12)]
    beats += [(member, at, 4) for at in (50, 40, 43) for member in ("two", None)]
    ddl = "member string, heartbeat_ms long, timeout_ms long"
    expected = [("one", 30), ("one", 40), (None, 47), (None, 54), ("two", 47), ("two", 54)]
    for rows in (beats[:5], beats):
        frame = spark.createDataFrame(rows, ddl).repartition(3)
        frame.createOrReplaceTempView("udf_beats")
        sql_rows = spark.sql("SELECT * FROM session_expirations(TABLE(udf_beats))").collect()
        here = [row for row in expected if row[0] in {beat[0] for beat in rows}]
        assert sorted(map(repr, map(tuple, sql_rows))) == sorted(map(repr, here))
        assert sorted(map(repr, session_expirations(frame).collect())) == sorted(
            map(repr, sql_rows)
        )
