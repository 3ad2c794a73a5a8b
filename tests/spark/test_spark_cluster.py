"""A replay on a cluster: Spark's own master and worker, and workers that have the wheel alone.

Wants the wheel and starts three JVMs, so it runs in CI (``CI`` set) or with ``--slow``.
"""

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

import golden_data
from packages import environment_with, wheel_in

pyspark = pytest.importorskip("pyspark")
pq = pytest.importorskip("pyarrow.parquet")

TABLES = ("groups", "members", "offsets", "generations", "faults", "commits")


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """Give an environment with the wheel, and of this one what Spark needs: no editable install."""
    return environment_with(wheel_in(built / "tree"), tmp_path_factory.mktemp("cluster") / "env")


class Daemon:
    """A process of Spark's, until it said something; what it says goes into a file."""

    def __init__(self, log, *command):
        self.log = log
        spark_class = Path(pyspark.__file__).parent / "bin/spark-class"
        with open(log, "wb") as said:
            self.process = subprocess.Popen(
                [spark_class, *map(str, command)],
                stdout=said,
                stderr=said,
                env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"},
            )

    def said(self, pattern):
        """Return the match of what the process says sooner or later."""
        while not (match := re.search(pattern, self.log.read_text(errors="replace"))):
            assert self.process.poll() is None, self.log.read_text(errors="replace")[-2000:]
            time.sleep(0.1)
        return match

    def stop(self):
        self.process.terminate()
        self.process.wait()


@pytest.fixture(scope="module")
def master_url(tmp_path_factory):
    home = tmp_path_factory.mktemp("daemons")
    deploy = "org.apache.spark.deploy"
    where = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    daemons = [Daemon(home / "master.log", f"{deploy}.master.Master", *where)]
    try:
        url = daemons[0].said(r"spark://127\.0\.0\.1:\d+")[0]
        share = ("--cores", "2", "--memory", "2g", "--work-dir", home / "work")
        daemons.append(Daemon(home / "worker.log", f"{deploy}.worker.Worker", *where, *share, url))
        daemons[1].said("Successfully registered with master")
        yield url
    finally:
        for daemon in reversed(daemons):
            daemon.stop()


def test_a_cluster_with_the_wheel_alone_gives_the_rows_of_one_process(
    installed, master_url, tmp_path
):
    """Paths are relative here: the workers run in folders of their own."""
    (tmp_path / "log").symlink_to(golden_data.log("default50"))
    environment = {
        **{k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        "PYSPARK_PYTHON": str(installed / "python"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    common = [installed / "coterie", "replay", "log", "--history", "--out"]
    for arguments in (["cluster", "--master", master_url], ["one", "--engine", "local"]):
        told = subprocess.run(
            [*common, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert told.returncode == 0, told.stderr
    for name in TABLES:
        ours = pq.read_table(tmp_path / f"cluster/{name}.parquet").to_pydict()
        theirs = pq.read_table(tmp_path / f"one/{name}.parquet").to_pydict()
        rows = [sorted(map(repr, zip(*t.values(), strict=True))) for t in (ours, theirs)]
        assert rows[0] == rows[1], name
    assert len(list((tmp_path / "cluster/offsets.parquet").iterdir())) >= 1
