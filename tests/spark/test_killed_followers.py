"""Drivers of ``follow`` are killed by SIGKILL, with their JVM and workers, over a log that grows.

Each life ends when so many new files have been seen, drawn by a seed: of offsets, states, tables or
what Spark writes for itself. The tables are then those of a replay.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from coterie import ScanOptions, scan
from coterie_spark import follow
from support.growing_log import GrowingLog
from support.log_writer import batch, commit

pytest.importorskip("pyspark")
pq = pytest.importorskip("pyarrow.parquet")

KILLS = 20  # 13 minutes: a start takes 5 to 10 s
FILES_MAX = 60  # of a life: those of two or three triggers
TABLES = ("commits", "generations", "faults", "groups", "members", "offsets")
DRIVER = """
import sys
from coterie_spark import follow
from coterie_spark.session import local_session
from support import spark_home

home = sys.argv[1]
conf = {"spark.sql.shuffle.partitions": "2", **spark_home.SMALL_LOGS}
spark = local_session("local[2]", conf=conf)
query = follow(spark, home + "/log", home + "/out", checkpoint=home + "/check", trigger="0 seconds")
query.awaitTermination()
"""


def files_in(home):
    return {os.path.join(at, name) for at, _, names in os.walk(home) for name in names}


def killed(home, log, draw):
    """Live until so many new files are there, while the log grows; return what it has written."""
    before, count = files_in(home), draw.randint(1, FILES_MAX)
    tests = str(Path(__file__).parents[1])
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, home], start_new_session=True, text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=os.environ | {"PYTHONPATH": tests},
    )  # fmt: skip
    seen = set()
    try:
        while len(seen) < count and driver.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                driver.wait(0.01)  # the cores are the driver's
            grown = len(seen)
            seen |= files_in(home) - before
            if len(seen) > grown:
                log.append(batch(log.next, [commit(log.next, log.next, partition=log.next % 3)]))
                log.next += 1
        assert driver.poll() is None, driver.stderr.read()
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.communicate()


def rows_of(table):
    return sorted(map(repr, table.to_pylist()))


@pytest.mark.slow
def test_tables_after_drivers_were_killed_are_those_of_a_replay(spark, tmp_path):
    log, draw = GrowingLog(tmp_path / "log"), random.Random(60)
    log.append(batch(0, [commit(0)]))
    log.next = 1
    for _ in range(KILLS):
        killed(tmp_path, log, draw)
    arguments = {"checkpoint": tmp_path / "check", "trigger": {"availableNow": True}}
    follow(spark, tmp_path / "log", tmp_path / "out", **arguments).awaitTermination()
    state = scan(log.whole, partition=0, file=str(log.active), options=ScanOptions(history=True))
    expected = state.to_arrow()
    assert len(expected["commits"]) == log.next > KILLS
    for name in TABLES:
        table = pq.read_table(tmp_path / "out" / f"{name}.parquet")
        assert rows_of(table) == rows_of(expected[name]), name
