"""The fold on Spark beside Spark doing nothing: an identity ``mapInArrow`` over as many rows.

The rows of key and value are made and cached before, the session and its workers are started and
warm: what is timed is a whole replay from files to merged state, and a pass over cached rows. How
long the start took, to the first answer of a worker, is noted beside it.
"""

import time
from pathlib import Path
from typing import NamedTuple

import pytest

import golden_data
import make_big_log
from coterie.log.folders import find_segments

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")


class Session(NamedTuple):
    """A session of so many cores, seconds to start it, and what it works on."""

    cores: int
    start_s: float
    log: Path
    rows: object
    count: int


FULL_BYTES = 1_000_000_000  # about 12.7 million records
CONF = {"spark.driver.memory": "6g", "spark.sql.shuffle.partitions": "4"}


@pytest.fixture(scope="module")
def big(request, tmp_path_factory):
    """Give a log: small where the run only checks, large where it measures."""
    if request.config.getoption("benchmark_disable"):
        return golden_data.log("default50")
    home = tmp_path_factory.mktemp("big")
    partitions = find_segments([golden_data.wide()]).partitions()
    for number, segments in partitions.items():
        folder = home / f"__consumer_offsets-{number}"
        make_big_log.write_partition(segments, folder, FULL_BYTES // len(partitions))
    return home


@pytest.fixture(scope="module", params=[1, 2], ids=["1 core", "2 cores"])
def on_spark(request, big):
    """Give the session, its cores and start, the log, and its rows of key and value, cached."""
    import coterie_spark
    from coterie_spark.session import local_session

    began = time.perf_counter()
    spark = local_session(f"local[{request.param}]", conf=CONF)
    coterie_spark.register(spark)
    assert identity(spark.range(1000)) == 1000
    start_s = time.perf_counter() - began
    source = spark.read.format("consumer_offsets").schema("key binary, value binary")
    rows = source.load(str(big)).cache()
    yield Session(request.param, start_s, big, rows, rows.count())
    rows.unpersist()
    spark.stop()


def fold(spark, log):
    """Replay a log up to its merged state; return how many records that read."""
    import coterie_spark

    replayed = coterie_spark.replay(spark, log)
    replayed.unpersist()
    return replayed.summary.records


def identity(rows):
    """Hand every row to a worker and take it back; return how many came."""
    return rows.mapInArrow(lambda batches: batches, rows.schema).count()


@pytest.mark.benchmark(group="spark: records")
@pytest.mark.parametrize("peer", ["coterie", "identity mapInArrow"])
def test_records_on_spark(benchmark, note, on_spark, peer):
    cores, start_s, log, rows, count = on_spark
    spark = rows.sparkSession
    work = (lambda: fold(spark, log)) if peer == "coterie" else (lambda: identity(rows))
    found = benchmark.pedantic(work, rounds=3, iterations=1, warmup_rounds=1)
    assert found == count
    name = f"fold on Spark, {cores} core{'s' if cores > 1 else ''}"
    note(name, peer, count, package="pyspark", unit="record")
    benchmark.extra_info["start_s"] = start_s
