"""Drivers of ``follow`` are killed by SIGKILL, with their JVM and workers, over a log that grows.

Each life ends when so many new files have been seen, drawn by a seed: of offsets, states, tables or
what Spark writes for itself. The topic gets partitions while drivers live, and between two of them.
The tables are then those of a replay.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from coterie import ScanOptions
from coterie.state.local_replay import scan_state
from coterie.state.replay_engine import Silent
from coterie_spark import follow
from support.growing_log import GrowingLog
from support.log_writer import batch, commit

pytest.importorskip("pyspark")
pq = pytest.importorskip("pyarrow.parquet")

KILLS = 20  # 13 minutes: a start takes 5 to 10 s
PARTITIONS_MAX = 6
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


def partition(home, number):
    """Add a partition that has a commit."""
    log = GrowingLog(home / "log", number)
    log.append(batch(0, [commit(0)]))
    log.next = 1
    return log


def killed(home, logs, draw):
    """Live until so many new files are there, while the log grows."""
    before, count = files_in(home), draw.randint(1, FILES_MAX)
    growth = draw.choice((0, count // 2, None))  # after how many files a partition comes
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
            if growth is not None and len(seen) >= growth and len(logs) < PARTITIONS_MAX:
                logs.append(partition(home, len(logs)))
                growth = None
            if len(seen) > grown:
                log = draw.choice(logs)
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
    logs, draw = [partition(tmp_path, 0)], random.Random(60)
    for _ in range(KILLS):
        killed(tmp_path, logs, draw)
    arguments = {"checkpoint": tmp_path / "check", "trigger": {"availableNow": True}}
    follow(spark, tmp_path / "log", tmp_path / "out", **arguments).awaitTermination()
    log = (str(tmp_path / "log"),)
    expected = scan_state(log, ScanOptions(history=True), Silent()).to_arrow()
    assert len(expected["commits"]) == sum(log.next for log in logs) > KILLS
    assert len(logs) == PARTITIONS_MAX
    for name in TABLES:
        table = pq.read_table(tmp_path / "out" / f"{name}.parquet")
        assert rows_of(table) == rows_of(expected[name]), name
