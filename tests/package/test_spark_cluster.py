"""A replay on a cluster: Spark's own master and two workers, which have the wheel alone.

Executors, workers and drivers are killed while it scans, merges and writes: each at a moment that
is seen from outside, or the test fails. Wants the wheel and starts many JVMs, so it runs in CI
(``CI`` set) or with ``--slow``.
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
from functools import partial
from pathlib import Path

import pytest

from support import golden_data, spark_home
from support.packages import environment_with

pyspark = pytest.importorskip("pyspark")
pq = pytest.importorskip("pyarrow.parquet")

TABLES = ("groups", "members", "offsets", "generations", "faults", "commits")
STARTED = []  # the replays of these tests
DEPLOY = "org.apache.spark.deploy"
# Cut as small as no log of a command is: else one task would scan all of this one, and one merge.
IN_SIX_TASKS = """
from coterie.cli import main
from coterie_spark.replay_job import plan
plan.TASK_BYTES_MIN = 1 << 10
main()
"""
TRIES = 5  # a replay may be over the moment before it is seen


@pytest.fixture(scope="module")
def installed(tree_wheel, tmp_path_factory):
    """Give an environment with the wheel, and of this one what Spark needs: no editable install."""
    return environment_with(tree_wheel, tmp_path_factory.mktemp("cluster") / "env")


class Daemon:
    """A process of Spark, whose output goes into a file."""

    def __init__(self, home, name, *command):
        self.home, self.name, self.command = home, name, [str(word) for word in command]
        self.log = home / f"{name}.log"
        self.start()

    def start(self):
        with open(self.log, "wb") as output:
            self.process = subprocess.Popen(
                [Path(pyspark.__file__).parent / "bin/spark-class", *self.command],
                stdout=output,
                stderr=output,
                env=os.environ
                | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
                | {"SPARK_DAEMON_JAVA_OPTS": spark_home.java_options()}
                | {"SPARK_LOCAL_DIRS": str(self.home)},
            )

    def wait_for(self, pattern):
        """Return the match of what the process says sooner or later."""
        while not (match := re.search(pattern, self.log.read_text(errors="replace"))):
            assert self.process.poll() is None, self.log.read_text(errors="replace")[-2000:]
            time.sleep(0.1)
        return match

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Worker(Daemon):
    """A worker of one core; its applications have their folders in ``place``."""

    def __init__(self, home, name, where, url):
        self.place = home / name
        share = ("--cores", "1", "--memory", "1g", "--work-dir", self.place)
        super().__init__(home, name, f"{DEPLOY}.worker.Worker", *where, *share, url)

    def applications(self):
        return set(os.listdir(self.place)) if self.place.exists() else set()

    def executor(self, applications):
        """Return the process of this worker that runs tasks of such an application, if any."""
        for pid, text in descendants(self.process.pid):
            words = text.split("\0")
            if "--app-id" in words and words[words.index("--app-id") + 1] in applications:
                return pid
        return None

    def log_of(self, applications):
        """Return the output of an application's executors so far."""
        found = [log for name in applications for log in self.place.glob(f"{name}/*/stderr")]
        return "".join(log.read_text(errors="replace") for log in found)


class Cluster:
    """A master and two workers of one core each."""

    def __init__(self, home):
        where = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self.daemons = [Daemon(home, "master", f"{DEPLOY}.master.Master", *where)]
        try:
            self.url = self.daemons[0].wait_for(r"spark://127\.0\.0\.1:\d+")[0]
            self.daemons += [Worker(home, name, where, self.url) for name in ("one", "two")]
            self.make_whole()
        except BaseException:
            self.stop()
            raise

    @property
    def workers(self):
        return self.daemons[1:]

    def make_whole(self):
        """Start the workers again that were killed."""
        for worker in self.workers:
            if worker.process.poll() is not None:
                worker.start()
        for worker in self.workers:
            worker.wait_for("Successfully registered with master")

    def applications(self):
        return {name for worker in self.workers for name in worker.applications()}

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.stop()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("daemons"))
    yield cluster
    for process in STARTED:  # one that a failed test left
        process.kill()
        process.communicate()
    cluster.stop()


def replaying(installed, folder, *arguments, python="python", command=("coterie",)):
    """Start a replay in a folder. Paths are relative: the workers run in folders of their own."""
    environment = {
        **{k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        "PYSPARK_PYTHON": str(installed / python),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [installed / command[0], *command[1:], "replay", "log", "--history", "--out"]
    command += arguments
    if "--master" in arguments:
        java = {"spark.executor.extraJavaOptions": spark_home.java_options()}
        for name, value in (spark_home.WITHOUT_CODEGEN | java).items():
            command += ["--conf", f"{name}={value}"]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    STARTED.append(subprocess.Popen(command, cwd=folder, env=environment, **piped))
    return STARTED[-1]


def ended(process, status=0):
    _, stderr = process.communicate()
    assert process.returncode == status, stderr
    return stderr


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
            text = (stat.parent / "cmdline").read_text(errors="replace")
            of_parent.setdefault(parent, []).append((int(stat.parent.name), text))
    waiting = [pid]
    while waiting:
        for child, text in of_parent.get(waiting.pop(), []):
            waiting.append(child)
            yield child, text


class Replaying:
    """A replay on the cluster, and what can be seen of it from outside."""

    def __init__(self, installed, cluster, folder):
        cluster.make_whole()
        self.cluster, self.folder = cluster, folder
        self.before = cluster.applications() | set(os.listdir(folder))
        options = ("cluster", "--overwrite", "--master", cluster.url)
        command = ("python", "-c", IN_SIX_TASKS)
        self.process = replaying(installed, folder, *options, command=command)

    def applications(self):
        return self.cluster.applications() - self.before

    def logs(self):
        """Return the workers, each with the output of its executor."""
        names = self.applications()
        return [(worker, worker.log_of(names)) for worker in self.cluster.workers]

    def parts(self):
        """Return the folder that tables are written into, while it is there."""
        found = self.folder.glob(".cluster.*.partial/.parts")
        return next((path for path in found if path.parent.name not in self.before), None)

    def reaches(self, moment):
        """Return (worker, its executor's process) of a moment, or None if the replay ended."""
        while self.process.poll() is None:
            if (worker := moment(self)) and (pid := worker.executor(self.applications())):
                return worker, pid
            time.sleep(0.01)
        return None


def scan(run):
    """Return a worker whose Python is there, or is being started, for the first task."""
    for worker in run.cluster.workers:
        pid = worker.executor(run.applications())
        if pid and any("pyspark" in text and "daemon" in text for _, text in descendants(pid)):
            return worker
    return None


def merge(run):
    """Return a worker that fetches what was scanned: every scan has ended then."""
    fetched = re.compile(r"ShuffleBlockFetcherIterator: Getting .* non-empty blocks")
    return next((worker for worker, text in run.logs() if fetched.search(text)), None)


def write(run):
    """Return a worker that has begun a table: its files are named after the task's attempt."""
    for path in run.parts().glob("*") if run.parts() else ():
        task = f"(TID {path.name.rpartition('-')[2]})"
        for worker, text in run.logs():
            if task in text:
                return worker
    return None


MOMENTS = {  # and whether they still last
    scan: lambda run: not merge(run),
    merge: lambda run: not run.parts(),
    write: lambda run: run.parts() is not None,
}


def struck(start, *strikes):
    """Return a replay that was struck as (moment, strike) say, one after another, once one was.

    What is seen after the blow to last still, lasted when the blow fell.
    """
    for _ in range(TRIES):
        run = start()
        for number, (moment, strike) in enumerate(strikes, 1):
            found = run.reaches(moment)
            if not found:
                break
            strike(run, *found)
            if not MOMENTS[moment](run):
                break
            if number < len(strikes):  # else the third blow would find no worker
                run.cluster.make_whole()
        else:
            return run
        run.process.communicate()
    pytest.fail(f"{TRIES} replays were over the {moment.__name__} before they were struck")


def kill_executor(run, worker, pid):
    os.kill(pid, signal.SIGKILL)


def kill_worker(run, worker, pid):
    """As if its machine went: a worker that lives would start an executor in place of a dead."""
    worker.process.kill()
    worker.process.wait()
    with suppress(ProcessLookupError):  # an executor ends without its worker
        os.kill(pid, signal.SIGKILL)


BLOWS = (kill_executor, kill_worker)


def kill_driver(run, worker, pid):
    run.process.kill()
    run.process.communicate()


def test_a_cluster_with_the_wheel_alone_gives_the_rows_of_one_process(installed, cluster, folder):
    ended(replaying(installed, folder, "cluster", "--master", cluster.url))
    assert_whole(folder)


def test_workers_without_coterie_say_what_to_install(installed, cluster, folder):
    """They run a Python that has all the rest."""
    bare = folder.parent / "bare"
    venv.create(bare, with_pip=False)
    (site,) = (bare / "lib").glob("python*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    options = ("other", "--master", cluster.url)
    process = replaying(installed, folder, *options, python=bare / "bin/python")
    (line,) = ended(process, 1).splitlines()
    assert "coterie cannot run on worker" in line
    assert "install coterie[spark]==" in line
    assert not (folder / "other").exists()


ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


# One replay is struck at all moments: each costs a minute of many JVMs.
IN_ONE = ((scan, kill_executor), (merge, kill_worker), (write, kill_executor))
STRIKES = [IN_ONE, *(((moment, strike),) for moment in MOMENTS for strike in BLOWS)]


def slow_but(first, cases, name):
    """Give the cases as parameters; ``--slow`` runs those after the first."""
    marks = {"marks": pytest.mark.slow}
    return [pytest.param(each, id=name(each), **(marks if each != first else {})) for each in cases]


@ON_LINUX
@pytest.mark.parametrize(
    "strikes",
    slow_but(
        IN_ONE,
        STRIKES,
        lambda strikes: "-".join(f"{at.__name__}_{by.__name__}" for at, by in strikes),
    ),
)
def test_executors_and_workers_that_are_killed_cost_no_row_and_leave_nothing(
    installed, cluster, folder, strikes
):
    run = struck(partial(Replaying, installed, cluster, folder), *strikes)
    ended(run.process)
    assert_whole(folder)


@ON_LINUX
@pytest.mark.parametrize("moment", slow_but(write, MOMENTS, lambda moment: moment.__name__))
def test_what_a_killed_driver_left_goes_with_the_next_run(installed, cluster, folder, moment):
    """It leaves most while it writes."""
    start = partial(Replaying, installed, cluster, folder)
    run = struck(start, (moment, kill_driver))
    assert run.process.returncode == -signal.SIGKILL
    assert [path for path in folder.iterdir() if path.name.startswith(".cluster.")]
    ended(start().process)
    assert_whole(folder)


def test_a_cluster_that_gives_no_executor_is_said_and_a_signal_ends_the_waiting(
    installed, cluster, folder
):
    """No worker has the requested memory; Spark itself would wait without a message."""
    before = sorted(os.listdir(folder))
    options = ("none", "--master", cluster.url, "--conf", "spark.executor.memory=64g")
    process = replaying(installed, folder, *options)
    text = process.stderr.readline()
    assert text.startswith(f"coterie: waiting for executors: {cluster.url} has given none so far")
    assert "the memory that --conf spark.executor.memory asks for" in text
    process.terminate()
    assert ended(process, 143) == "coterie: told to end; nothing half-done was left\n"
    assert sorted(os.listdir(folder)) == before
