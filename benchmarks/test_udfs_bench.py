"""Pandas UDFs beside ones that do nothing over the same columns, and beside Spark's expressions.

The columns are made and cached before, the session and its worker are warm; one core. The
results are counted, and must be equal where they mean the same. Two of the expressions are
the benchmark's own and say what these rows need: votes without a tie, no two heartbeats at once.
"""

import time

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

NOW_MS = 1_800_000_000_000
RETENTION_MS = 604_800_000
OFFSETS, GROUPS = 10_000_000, 1_000_000
HEARTBEATS, MEMBERS = 10_000_000, 1_000_000
IDENTITY, EXPRESSION = "identity UDF", "column expression"
PEERS = ["coterie", IDENTITY, EXPRESSION]
# Candidates stand in each list, a member votes for the first of its own, most votes win.
CANDIDATES = "aggregate(protocols, protocols[0], (those, own) -> array_intersect(those, own))"
VOTES = f"transform(protocols, own -> array_intersect(own, {CANDIDATES})[0])"
COUNTED = "v -> struct(size(filter(votes, w -> w = v)) as n, v as name)"
WINNER = f"array_max(transform(array_distinct(votes), {COUNTED})).name"
# A session ends where the next heartbeat comes too late, or none comes.
NEXT = "lead(heartbeat_ms) over (partition by member order by heartbeat_ms)"


@pytest.fixture(scope="module")
def spark():
    from coterie_spark.session import local_session

    session = local_session("local[1]", conf={"spark.driver.memory": "6g"})
    yield session
    session.stop()


@pytest.fixture(scope="module")
def scale(request):
    """Give what to divide sizes by: a run that only checks takes few rows."""
    return 10_000 if request.config.coterie_sizes == "smoke" else 1


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


def measure(benchmark, frame):
    rounds = 3 if benchmark.enabled else 1
    benchmark.pedantic(done, (frame,), rounds=rounds, warmup_rounds=int(benchmark.enabled))


@pytest.mark.benchmark(group="UDFs: expired", timer=time.perf_counter)  # workers do it, and the JVM
@pytest.mark.parametrize("peer", PEERS)
def test_expired(benchmark, note, offsets, peer):
    from pyspark.sql.functions import pandas_udf
    from pyspark.sql.types import LongType

    from coterie_spark.udfs import expired, expired_column

    same = pandas_udf(lambda commit, expire, now, retention: commit, LongType())
    expressions = {
        "coterie": expired("commit_ms", "expire_ms", "now_ms", "retention_ms"),
        IDENTITY: same("commit_ms", "expire_ms", "now_ms", "retention_ms"),
        EXPRESSION: expired_column(
            "commit_ms", "expire_ms", offsets["now_ms"], offsets["retention_ms"]
        ),
    }
    frame = offsets.select(expressions[peer].alias("gone"))
    measure(benchmark, frame)
    if peer != IDENTITY:
        expected = offsets.where(
            "coalesce(now_ms >= expire_ms, now_ms - commit_ms >= retention_ms)"
        ).count()
        assert frame.where("gone").count() == expected
    note("UDF expired", peer, offsets.count(), package="pyspark", unit="row")


@pytest.mark.benchmark(group="UDFs: select_protocol", timer=time.perf_counter)
@pytest.mark.parametrize("peer", PEERS)
def test_select_protocol(benchmark, note, groups, peer):
    from pyspark.sql.functions import pandas_udf

    from coterie_spark.udfs import select_protocol

    if peer == EXPRESSION:
        frame = groups.selectExpr(f"{VOTES} as votes").selectExpr(f"{WINNER} as protocol")
    else:
        same = pandas_udf(lambda protocols: protocols, groups.schema["protocols"].dataType)
        udf = select_protocol if peer == "coterie" else same
        frame = groups.select(udf("protocols").alias("protocol"))
    measure(benchmark, frame)
    count = groups.count()
    if peer != IDENTITY:
        found = {row.protocol: row["count"] for row in frame.groupBy("protocol").count().collect()}
        assert found == {"sticky": count // 2, "range": count // 2}
    note("UDF select_protocol", peer, count, package="pyspark", unit="row")


@pytest.fixture(scope="module")
def beats(spark, scale):
    """Heartbeats each 3 s: every member of one session."""
    members = MEMBERS // scale
    rows = spark.range(0, HEARTBEATS // scale, 1, 4).selectExpr(
        f"concat('member-', id % {members}) as member",
        f"id div {members} * 3000 as heartbeat_ms",
        "bigint(10000) as timeout_ms",
    )
    frame = cached(rows)
    yield frame
    frame.unpersist()


@pytest.mark.benchmark(group="UDFs: session_expirations", timer=time.perf_counter)
@pytest.mark.parametrize("peer", PEERS)
def test_session_expirations(benchmark, note, beats, scale, peer):
    from coterie_spark.udfs import session_expirations

    if peer == "coterie":
        frame = session_expirations(beats)
    elif peer == IDENTITY:
        in_order = beats.repartition("member").sortWithinPartitions("member", "heartbeat_ms")
        frame = in_order.mapInArrow(lambda batches: batches, beats.schema)
    else:
        late = "next is null or next > heartbeat_ms and next >= heartbeat_ms + timeout_ms"
        frame = beats.selectExpr("*", f"{NEXT} as next").where(late)
        frame = frame.selectExpr("member", "heartbeat_ms + timeout_ms as ended_ms")
    rounds = 1  # of ten seconds and more
    benchmark.pedantic(done, (frame,), rounds=rounds, warmup_rounds=int(benchmark.enabled))
    members = MEMBERS // scale
    if peer != IDENTITY:
        last_ms = (HEARTBEATS // MEMBERS - 1) * 3000 + 10_000
        sums = frame.selectExpr("count(*)", "count(distinct member)", "sum(ended_ms)").first()
        assert tuple(sums) == (members, members, members * last_ms)
    note("UDF session_expirations", peer, beats.count(), package="pyspark", unit="row")
