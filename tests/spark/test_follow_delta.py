"""``follow`` into tables of Delta Lake, in a session that has it."""

import json
import subprocess
import sys

import pytest

from coterie import CoterieError, ScanOptions, scan
from coterie_spark import follow
from support import log_writer as write
from support.growing_log import GrowingLog

pytest.importorskip("pyspark")

# A driver that dies after Delta's transactions of the second batch, and another that goes on.
PROGRAM = """
import json, sys
from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession
from coterie_spark import follow
from coterie_spark.replay_job import following

home, dies = sys.argv[1], sys.argv[2] == "dies"
builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
builder = builder.config("spark.sql.catalog.spark_catalog", catalog)
spark = configure_spark_with_delta_pip(builder).getOrCreate()

def write(self, batch, real=following.Follower.write):
    if dies and batch["batch"] == 1:
        raise OSError("disk full")
    real(self, batch)

following.Follower.write = write
folders = home + "/log", home + "/out"
query = follow(spark, *folders, checkpoint=home + "/check", trigger={"availableNow": True},
               format="delta")
try:
    query.awaitTermination()
except Exception as error:
    assert "disk full" in str(error), error
tables = {}
for name in ("commits", "generations", "faults", "groups", "members", "offsets"):
    rows = spark.read.format("delta").load(f"{home}/out/{name}").collect()
    tables[name] = [row.asDict() for row in rows]
print(json.dumps(tables, default=str))
"""


def commits(first, count):
    return [
        write.batch(offset, [write.commit(offset, offset, partition=offset % 3)])
        for offset in range(first, first + count)
    ]


def run(home, how):
    command = [sys.executable, "-c", PROGRAM, str(home), how]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout.splitlines()[-1])


def test_a_batch_that_is_repeated_after_its_transactions_is_in_the_tables_once(tmp_path):
    pytest.importorskip("delta")
    broker = GrowingLog(tmp_path / "log")
    for one in commits(0, 4):
        broker.append(one)
    assert len(run(tmp_path, "lives")["commits"]) == 4
    for one in commits(4, 3):
        broker.append(one)
    assert len(run(tmp_path, "dies")["commits"]) == 7
    tables = run(tmp_path, "lives")
    state = scan(broker.whole, partition=0, options=ScanOptions(history=True))
    expected = {name: table.to_pylist() for name, table in state.to_arrow().items()}
    assert {name: len(rows) for name, rows in tables.items()} == {
        name: len(expected[name]) for name in tables
    }
    for name, column in (("commits", "log_offset"), ("offsets", "offset")):
        assert sorted(row[column] for row in tables[name]) == sorted(
            row[column] for row in expected[name]
        )


def test_a_session_without_delta_is_refused_before_anything_is_written(spark, tmp_path):
    GrowingLog(tmp_path / "log").append(commits(0, 1)[0])
    folders = tmp_path / "log", tmp_path / "out"
    with pytest.raises(CoterieError, match=r"the Spark session has no Delta Lake; make it with"):
        follow(spark, *folders, checkpoint=tmp_path / "check", format="delta")
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "check").exists()
