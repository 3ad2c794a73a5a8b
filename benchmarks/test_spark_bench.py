"""The fold on Spark by size, beside the local engine and Spark doing nothing: 1 MB to 10 GB.

Spark doing nothing is an identity ``mapInArrow`` over as many rows of key and value. The session
is started and has folded a small log before; what its start took, to the first answer of a worker,
and what that small log took once more, a job's start and end, are noted beside the figures. Each
way reads files in the page cache and ends with the tables of each partition in memory, and all
must find the same records, groups and offsets. Workers fold every log, also those that the driver
would fold as Spark comes; such a log is measured that way, too.
"""

import statistics
import time
from contextlib import closing
from typing import NamedTuple

import pytest

from coterie import PartialState, ScanOptions
from coterie.log.folders import find_segments
from coterie.state.parallel_scan import fold_log, resting_collector
from coterie.state.tables import fold_tables
from support import golden_data

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

MEGABYTES = {"smoke": [1], "short": [1, 10, 100, 1000], "full": [1, 10, 100, 1000, 5000, 10_000]}
MANY_MEGABYTES = 5000  # from here on one round of the identity, which takes half a minute
BY_DRIVER, DRIVER_MEGABYTES = "coterie, by the driver", 32
PEERS = ["local engine", "coterie", BY_DRIVER, "identity mapInArrow"]
SETTING = "spark.coterie.driverBytes"
CONF = {SETTING: "-1", "spark.driver.memory": "6g"}
WARM = 3  # folds of the small log, until the JVM has compiled what a job runs


class Session(NamedTuple):
    """A session of so many cores; seconds of its start, and of a job's start and end."""

    spark: object
    cores: int
    start_s: float
    ends_s: float


class Answer(NamedTuple):
    """What a log holds, however it is folded."""

    records: int
    groups: int
    offsets: int
    sum_of_offsets: int


def pytest_generate_tests(metafunc):
    sizes = MEGABYTES[metafunc.config.coterie_sizes]
    parameters = [
        (m, peer) for m in sizes for peer in PEERS if peer != BY_DRIVER or m < DRIVER_MEGABYTES
    ]
    metafunc.parametrize(("megabytes", "peer"), parameters)


def seconds_of(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


@pytest.fixture(scope="module", params=[1, 2], ids=["1 core", "2 cores"])
def session(request):
    """Give a session whose workers have folded."""
    from coterie_spark.session import local_session

    smoke = request.config.coterie_sizes == "smoke"
    began = time.perf_counter()
    spark = local_session(f"local[{request.param}]", conf=CONF)
    assert identity(spark, 1000) == 1000
    start_s = time.perf_counter() - began
    small = golden_data.log("basic")
    rounds = [seconds_of(lambda: on_spark(spark, small)) for _ in range(1 if smoke else 2 * WARM)]
    yield Session(spark, request.param, start_s, statistics.median(rounds[-WARM:]))
    spark.stop()


@pytest.fixture(scope="module")
def log_of(request, wide_of):
    """Give a function from megabytes to a log in the page cache and what it holds."""
    answers = {}

    def give(megabytes):
        smoke = request.config.coterie_sizes == "smoke"
        log = golden_data.log("default50") if smoke else wide_of(megabytes * 1_000_000)
        if megabytes not in answers:
            answers[megabytes] = local(log, 1)
        return log, answers[megabytes]

    return give


def local(log, threads):
    """Fold in this process up to the tables, as Spark's workers do."""
    import pyarrow.compute as pc

    state, groups, offsets, total = PartialState(ScanOptions()), 0, 0, 0
    with closing(fold_log(state, find_segments([log]), threads)) as steps:
        for _ in steps:
            pass
    with resting_collector():
        for number, fold in state.live():
            tables = fold_tables(number, fold)
            groups += tables["groups"].num_rows
            offsets += tables["offsets"].num_rows
            total += pc.sum(tables["offsets"]["offset"]).as_py() or 0
    records = sum(piece.records for fold in state.partitions.values() for piece in fold.segments)
    return Answer(records, groups, offsets, total)


def on_spark(spark, log):
    """Replay up to the tables, in Spark's cache; return the records."""
    import coterie_spark

    replayed = coterie_spark.replay(spark, log)
    replayed.unpersist()
    return replayed.summary.records


def answer_on_spark(spark, log):
    import coterie_spark

    replayed = coterie_spark.replay(spark, log)
    groups = replayed.groups.count()
    offsets, total = replayed.offsets.selectExpr("count(*)", "coalesce(sum(offset), 0)").first()
    replayed.unpersist()
    return Answer(replayed.summary.records, groups, offsets, total)


def identity(spark, rows):
    """Hand rows of a key and a value, as long as those of commits, to workers and take them back.

    Spark makes them as it goes: ten gigabytes of them would not stay in its cache.
    """
    columns = ["cast(repeat('k', 36) as binary) key", "cast(repeat('v', 24) as binary) value"]
    made = spark.range(rows).selectExpr(*columns)
    return made.mapInArrow(lambda batches: batches, made.schema).count()


# By the clock: most is in other processes.
@pytest.mark.benchmark(group="spark: records", timer=time.perf_counter)
def test_records_on_spark(benchmark, note, sizes, session, log_of, megabytes, peer):
    spark, cores, start_s, ends_s = session
    log, expected = log_of(megabytes)
    many = megabytes >= MANY_MEGABYTES and peer == "identity mapInArrow"
    rounds = 1 if sizes == "smoke" or many else 3
    measure = benchmark.pedantic
    if peer == "local engine":
        assert measure(local, (log, cores), rounds=rounds, warmup_rounds=1) == expected
    elif peer == "identity mapInArrow":
        warm = int(rounds > 1)
        rows = measure(identity, (spark, expected.records), rounds=rounds, warmup_rounds=warm)
        assert rows == expected.records
    else:
        spark.conf.set(SETTING, str(DRIVER_MEGABYTES << 20) if peer == BY_DRIVER else "-1")
        assert answer_on_spark(spark, log) == expected  # and warm
        assert measure(on_spark, (spark, log), rounds=rounds) == expected.records
        spark.conf.set(SETTING, "-1")
        if peer == "coterie":
            benchmark.extra_info.update(start_s=start_s, ends_s=ends_s)
    benchmark.extra_info["megabytes"] = megabytes
    package = "coterie" if peer == "local engine" else "pyspark"
    name = f"fold on Spark, {cores} core{'s' if cores > 1 else ''}"
    note(name, peer, expected.records, package=package, unit="record")
