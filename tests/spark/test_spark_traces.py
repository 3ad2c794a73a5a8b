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


def test_timestamps_expire_as_their_milliseconds_do_in_columns_and_in_sql(spark):
    """Across the end of summer time, where a wall clock shows an hour twice."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions
    from pyspark.sql.functions import col, expr, lit

    import coterie_spark
    from coterie_spark.udfs import expired, expired_column

    hour_ms, end_ms = 3_600_000, 1_761_440_400_000  # 2025-10-26T01:00:00Z
    rows = [(n, end_ms + n * hour_ms // 2, None) for n in range(-4, 5)]
    rows += [(9, end_ms, end_ms + 4 * hour_ms), (10, end_ms, end_ms - hour_ms)]
    frame = spark.createDataFrame(rows, "n int, c long, e long").select(
        "n", "c", "e", expr("timestamp_millis(c) AS ct"), expr("timestamp_millis(e) AS et")
    )
    now_ms, retention_ms = end_ms + 2 * hour_ms, 2 * hour_ms
    gone = [n for n, c, e in rows if (now_ms - c >= retention_ms if e is None else now_ms >= e)]
    now = f"timestamp_millis({now_ms}L)"
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        coterie_spark.register(spark)
        frame.createOrReplaceTempView("udf_times")
        in_sql = [
            f"expired(ct, et, {now}, {retention_ms}L)",
            f"expired(c, et, {now}, {retention_ms}L)",
        ]
        for condition in (
            *(expr(text) for text in in_sql if hasattr(functions, "arrow_udf")),  # since 4.1
            expired("ct", "et", expr(now), lit(retention_ms)),
            expired("ct", "e", lit(now_ms), lit(retention_ms)),
            expired_column("ct", col("et"), expr(now), retention_ms),
            expired_column("c", "et", now_ms, lit(retention_ms)),
        ):
            assert sorted(row.n for row in frame.where(condition).collect()) == gone
        micros = "timestamp_micros(1001L)"
        for condition in (
            expired(expr(micros), "et", lit(now_ms), lit(retention_ms)),
            expired_column(expr(micros), "et", now_ms, retention_ms),
            expired_column("c", "e", lit(1.5), retention_ms),
            expired_column("c", "e", now_ms, lit(1.5)),
            expired("c", "e", lit(now_ms), lit(1.5)),
            expr(f"expired({micros}, et, timestamp_micros(1L), 1L)"),
        ):
            with pytest.raises(PySparkException, match=r"must be (whole )?milliseconds"):
                frame.where(condition).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_expired_column_takes_names_for_all_and_a_null_commit_never_ages(spark):
    from coterie_spark.udfs import expired_column, select_protocol

    rows = [(0, 90, None, 100, 10), (1, 91, None, 100, 10), (2, None, None, 100, 10)]
    rows += [(3, None, 100, 100, 10), (4, None, 101, 100, 10)]
    frame = spark.createDataFrame(rows, "n int, c long, e long, now long, retention long")
    gone = frame.where(expired_column("c", "e", "now", "retention")).collect()
    assert sorted(row.n for row in gone) == [0, 3]
    flags = frame.select(expired_column("c", "e", "now", "retention").alias("x")).collect()
    assert None not in [row.x for row in flags]
    assert "array<array<string>>" in select_protocol.__doc__


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
    beats += [("same", 70, -5), ("same", 70, -5)]  # in one millisecond: one session
    ddl = "member string, heartbeat_ms long, timeout_ms long"
    expected = [("one", 30), ("one", 40), (None, 47), (None, 54), ("two", 47), ("two", 54)]
    expected.append(("same", 65))
    for rows in (beats[:5], beats):
        frame = spark.createDataFrame(rows, ddl).repartition(3)
        frame.createOrReplaceTempView("udf_beats")
        sql_rows = spark.sql("SELECT * FROM session_expirations(TABLE(udf_beats))").collect()
        here = [row for row in expected if row[0] in {beat[0] for beat in rows}]
        assert sorted(map(repr, map(tuple, sql_rows))) == sorted(map(repr, here))
        assert sorted(map(repr, session_expirations(frame).collect())) == sorted(
            map(repr, sql_rows)
        )
