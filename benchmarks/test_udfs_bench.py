"""Pandas UDFs beside ones that do nothing over the same columns, and beside Spark's expressions.

The columns are made and cached before, the session and its worker are warm; one core. What comes
out of each is counted, and must be the same where it says the same.
"""

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

NOW_MS = 1_800_000_000_000
RETENTION_MS = 604_800_000
OFFSETS, GROUPS = 10_000_000, 1_000_000
HEARTBEATS, MEMBERS = 10_000_000, 1_000_000


@pytest.fixture(scope="module")
def spark():
    from coterie_spark.session import local_session

    session = local_session("local[1]", conf={"spark.driver.memory": "6g"})
    yield session
    session.stop()


@pytest.fixture(scope="module")
def scale(request):
    """Give what to divide sizes by: a run that only checks takes few rows."""
    return 10_000 if request.config.getoption("benchmark_disable") else 1


def cached(frame):
    frame = frame.cache()
    frame.count()
    return frame


@pytest.fixture(scope="module")
def offsets(spark, scale):
    """Commits of two weeks, every tenth with an expiry of its own."""
    rows = spark.range(0, OFFSETS // scale, 1, 4).selectExpr(
        f"{NOW_MS} - id * 7919 % 1209600000 as commit_ms",
        f"if(id % 10 = 0, {NOW_MS} - id % 2000 + 1000, null) as expire_ms",
        f"{NOW_MS} as now_ms",
        f"bigint({RETENTION_MS}) as retention_ms",
    )
    frame = cached(rows)
    yield frame
    frame.unpersist()


@pytest.fixture(scope="module")
def groups(spark, scale):
    """Three members a group, of three candidates each."""
    rows = spark.range(0, GROUPS // scale, 1, 4).selectExpr(
        "array(array('range', 'sticky', 'roundrobin'), array('sticky', 'range', 'roundrobin'),"
        " if(id % 2 = 0, array('sticky', 'roundrobin'), array('roundrobin', 'range'))) as protocols"
    )
    frame = cached(rows)
    yield frame
    frame.unpersist()


def done(frame):
    """Have every row made, and thrown away."""
    frame.write.format("noop").mode("overwrite").save()


@pytest.mark.benchmark(group="UDFs: expired")
@pytest.mark.parametrize("peer", ["coterie", "identity pandas UDF", "column expression"])
def test_expired(benchmark, note, offsets, peer):
    from pyspark.sql.functions import pandas_udf
    from pyspark.sql.types import LongType

    from coterie_spark.udfs import expired, expired_column

    same = pandas_udf(lambda commit, expire, now, retention: commit, LongType())
    told = {
        "coterie": expired("commit_ms", "expire_ms", "now_ms", "retention_ms"),
        "identity pandas UDF": same("commit_ms", "expire_ms", "now_ms", "retention_ms"),
        "column expression": expired_column(
            "commit_ms", "expire_ms", offsets["now_ms"], offsets["retention_ms"]
        ),
    }
    frame = offsets.select(told[peer].alias("told"))
    benchmark.pedantic(done, (frame,), rounds=3, warmup_rounds=1)
    if peer != "identity pandas UDF":
        expected = offsets.where(
            "coalesce(now_ms >= expire_ms, now_ms - commit_ms >= retention_ms)"
        ).count()
        assert frame.where("told").count() == expected
    note("expired on Spark", peer, offsets.count(), package="pyspark", unit="row")


@pytest.mark.benchmark(group="UDFs: select_protocol")
@pytest.mark.parametrize("peer", ["coterie", "identity pandas UDF"])
def test_select_protocol(benchmark, note, groups, peer):
    from pyspark.sql.functions import pandas_udf

    from coterie_spark.udfs import select_protocol

    same = pandas_udf(lambda protocols: protocols, groups.schema["protocols"].dataType)
    udf = select_protocol if peer == "coterie" else same
    frame = groups.select(udf("protocols").alias("told"))
    benchmark.pedantic(done, (frame,), rounds=3, warmup_rounds=1)
    if peer == "coterie":
        assert {row.told for row in frame.distinct().collect()} <= {"sticky", "roundrobin", "range"}
    note("select_protocol on Spark", peer, groups.count(), package="pyspark", unit="row")


@pytest.mark.benchmark(group="UDFs: session_expirations")
def test_session_expirations(benchmark, note, spark, scale):
    from coterie_spark.udfs import session_expirations

    members = MEMBERS // scale
    beats = cached(
        spark.range(0, HEARTBEATS // scale, 1, 4).selectExpr(
            f"concat('member-', id % {members}) as member",
            f"id div {members} * 3000 as heartbeat_ms",
            "bigint(10000) as timeout_ms",
        )
    )
    benchmark.pedantic(done, (session_expirations(beats),), rounds=1, warmup_rounds=1)
    assert session_expirations(beats).count() == members
    note("session_expirations on Spark", "coterie", beats.count(), package="pyspark", unit="row")
    beats.unpersist()
