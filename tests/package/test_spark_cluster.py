"""A replay on a cluster: Spark's own master and two workers, which have the wheel alone.

Executors, drivers and a worker are killed while it runs. Wants the wheel and starts six JVMs, so it
runs in CI (``CI`` set) or with ``--slow``.
"""

import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
import venv
from contextlib import suppress
from pathlib import Path

import pytest

import golden_data
from packages import environment_with, wheel_in

pyspark = pytest.importorskip("pyspark")
pq = pytest.importorskip("pyarrow.parquet")

TABLES = ("groups", "members", "offsets", "generations", "faults", "commits")
STARTED = []  # the replays of these tests
# Daemons and executors live for seconds, as the drivers do: see conftest.py.
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


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
                env=os.environ
                | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
                | {"SPARK_DAEMON_JAVA_OPTS": JVM},
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
def cluster(tmp_path_factory):
    """A master and two workers of one core each: the master's URL, and the workers."""
    home = tmp_path_factory.mktemp("daemons")
    deploy = "org.apache.spark.deploy"
    where = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    daemons = [Daemon(home / "master.log", f"{deploy}.master.Master", *where)]
    try:
        url = daemons[0].said(r"spark://127\.0\.0\.1:\d+")[0]
        for name in ("one", "two"):
            share = ("--cores", "1", "--memory", "1g", "--work-dir", home / name)
            worker = f"{deploy}.worker.Worker"
            daemons.append(Daemon(home / f"{name}.log", worker, *where, *share, url))
        for daemon in daemons[1:]:
            daemon.said("Successfully registered with master")
        yield url, daemons[1:]
    finally:
        for process in STARTED:  # one that a failed test left
            process.kill()
            process.communicate()
        for daemon in reversed(daemons):
            daemon.stop()


def replaying(installed, folder, *arguments, python="python"):
    """Start a replay in a folder. Paths are relative: the workers run in folders of their own."""
    environment = {
        **{k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        "PYSPARK_PYTHON": str(installed / python),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [installed / "coterie", "replay", "log", "--history", "--out", *arguments]
    if "--master" in arguments:
        command += ["--conf", f"spark.executor.extraJavaOptions={JVM}"]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    STARTED.append(subprocess.Popen(command, cwd=folder, env=environment, **piped))
    return STARTED[-1]


def ended(process, status=0):
    _, said = process.communicate()
    assert process.returncode == status, said
    return said


@pytest.fixture(scope="module")
def folder(installed, tmp_path_factory):
    """A folder with the log, and what one process makes of it."""
    folder = tmp_path_factory.mktemp("replays")
    (folder / "log").symlink_to(golden_data.log("default50"))
    ended(replaying(installed, folder, "one", "--engine", "local"))
    return folder


def assert_whole(folder):
    """The output of the cluster has the rows of one process, and beside it nothing is left."""
    assert sorted(path.name for path in folder.iterdir()) == ["cluster", "log", "one"]
    assert sorted(os.listdir(folder / "cluster")) == sorted(f"{name}.parquet" for name in TABLES)
    for name in TABLES:
        parts = os.listdir(folder / f"cluster/{name}.parquet")
        assert sorted(parts) == [f"part-{number:05d}.parquet" for number in range(len(parts))]
        ours = pq.read_table(folder / f"cluster/{name}.parquet").to_pydict()
        theirs = pq.read_table(folder / f"one/{name}.parquet").to_pydict()
        rows = [sorted(map(repr, zip(*t.values(), strict=True))) for t in (ours, theirs)]
        assert rows[0] == rows[1], name


def descendants(pid):
    """The processes that a process has started, and theirs: (pid, command)."""
    of_parent = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # one that was listed may have ended
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            said = (stat.parent / "cmdline").read_text(errors="replace")
            of_parent.setdefault(parent, []).append((int(stat.parent.name), said))
    waiting = [pid]
    while waiting:
        for child, said in of_parent.get(waiting.pop(), []):
            waiting.append(child)
            yield child, said


def executors(workers):
    """The executors that run, by their worker."""
    found = [(w, one) for w in workers for one in descendants(w.process.pid)]
    return [(w, pid) for w, (pid, said) in found if "CoarseGrainedExecutorBackend" in said]


def tasks_run(folder, workers):
    """Whether Python works on a task somewhere."""
    return any(
        "pyspark" in said and "daemon" in said
        for worker in workers
        for _, said in descendants(worker.process.pid)
    )


def tables_are_written(folder, workers):
    """Whether a table is begun."""
    return any(folder.glob(".cluster.*.partial/.parts/*"))


def until(moment, process, *seen):
    while process.poll() is None and not moment(*seen):
        time.sleep(0.01)


def test_a_cluster_with_the_wheel_alone_gives_the_rows_of_one_process(installed, cluster, folder):
    ended(replaying(installed, folder, "cluster", "--master", cluster[0]))
    assert_whole(folder)


def test_workers_without_coterie_say_what_to_install(installed, cluster, folder):
    """They run a Python that has all the rest."""
    bare = folder.parent / "bare"
    venv.create(bare, with_pip=False)
    (site,) = (bare / "lib").glob("python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    asked = ("other", "--master", cluster[0])
    process = replaying(installed, folder, *asked, python=bare / "bin/python")
    (line,) = ended(process, 1).splitlines()
    assert "coterie cannot run on worker" in line
    assert "install coterie[spark]==" in line
    assert not (folder / "other").exists()


ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@ON_LINUX
@pytest.mark.parametrize("moment", [tasks_run, tables_are_written])
def test_an_executor_that_is_killed_costs_no_row_and_leaves_nothing(
    installed, cluster, folder, moment
):
    url, workers = cluster
    asked = ("cluster", "--overwrite", "--master", url)
    process = replaying(installed, folder, *asked)
    until(moment, process, folder, workers)
    (_, pid), *_ = executors(workers)
    os.kill(pid, signal.SIGKILL)
    ended(process)
    assert_whole(folder)


@ON_LINUX
def test_what_killed_drivers_left_goes_with_the_next_run(installed, cluster, folder):
    url, workers = cluster
    asked = ("cluster", "--overwrite", "--master", url)
    for moment in (tasks_run, tables_are_written):
        process = replaying(installed, folder, *asked)
        until(moment, process, folder, workers)
        process.kill()
        process.communicate()
        assert [path for path in folder.iterdir() if path.name.startswith(".cluster.")]
    ended(replaying(installed, folder, *asked))
    assert_whole(folder)


@ON_LINUX
def test_a_worker_that_is_killed_costs_no_row_and_leaves_nothing(installed, cluster, folder):
    """The last test: one worker is left."""
    url, workers = cluster
    process = replaying(installed, folder, "cluster", "--overwrite", "--master", url)
    until(tasks_run, process, folder, workers)
    ((_, pid),) = executors(workers[:1])
    os.kill(pid, signal.SIGKILL)
    workers[0].process.kill()
    ended(process)
    assert_whole(folder)
