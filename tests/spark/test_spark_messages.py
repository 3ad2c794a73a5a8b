"""The driver's messages about a cluster, and the settings of its session. No JVM is started."""

import contextlib
import threading

import pytest

from coterie import CoterieError
from coterie.state.replay_engine import Silent
from support import golden_data
from support.commandline import coterie, fails

pytest.importorskip("pyspark")

from coterie_spark.replay_job import closures, engine
from coterie_spark.session.master import check_master

LOG = golden_data.log("corrupt/fine")


@pytest.fixture
def closed_port():
    """A port without a listener."""
    import socket

    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def test_a_master_that_is_not_there_is_reported_before_a_jvm_is_started(
    closed_port, tmp_path, monkeypatch
):
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    url = f"spark://127.0.0.1:{closed_port}"
    command = ("replay", LOG, "--out", tmp_path / "out", "--engine", "spark", "--master", url)
    fails(
        *command, says=f"no master of Spark answers at {url} (127.0.0.1:{closed_port}: Connection"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["host", "host:", ":7077", "host:port", "127.0.0.1:99999999"])
def test_a_master_without_a_port_is_refused(place):
    with pytest.raises(CoterieError, match=r"no master of Spark answers.*spark://HOST:PORT"):
        check_master(f"spark://{place}")


def test_one_of_several_masters_is_enough(closed_port):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        open_port = server.getsockname()[1]
        check_master(f"spark://127.0.0.1:{closed_port},127.0.0.1:{open_port}")
    for other in ("local[2]", "yarn", "k8s://https://127.0.0.1:1"):
        check_master(other)  # Spark's own to find


class Context:
    """A driver's context with a number of registered processes."""

    def __init__(self, master, registered):
        self.master, self.registered = master, registered
        self._jsc = self

    def sc(self):
        return self

    def getExecutorMemoryStatus(self):
        return self

    def size(self):
        return self.registered

    def statusTracker(self):
        return self

    def getActiveStageIds(self):
        return []


class RecordedProgress(Silent):
    """A progress that records notices, and sets an event at the first."""

    def __init__(self):
        self.lines, self.noticed = [], threading.Event()

    def notice(self, line):
        self.lines.append(line)
        self.noticed.set()


def job_progress(monkeypatch, master, registered):
    monkeypatch.setattr(engine, "POLL_S", 0.001)
    session = type("Session", (), {"sparkContext": Context(master, registered)})()
    recorded = RecordedProgress()
    return engine.JobProgress(session, 100, recorded), recorded


def test_a_cluster_without_free_executors_is_reported_once_while_the_job_waits(monkeypatch):
    job, recorded = job_progress(monkeypatch, "spark://host:7077", 1)
    assert job.run(recorded.noticed.wait)
    assert recorded.lines == [engine.NO_EXECUTOR.format("spark://host:7077")]


@pytest.mark.parametrize(("master", "registered"), [("local[2]", 1), ("spark://host:7077", 2)])
def test_with_executors_nothing_is_reported(monkeypatch, master, registered):
    job, recorded = job_progress(monkeypatch, master, registered)
    polled_enough = threading.Event()
    polls = []

    def report():
        polls.append(1)
        if len(polls) > engine.POLLS_WITHOUT_EXECUTOR + 5:
            polled_enough.set()

    monkeypatch.setattr(job, "report", report)
    assert job.run(polled_enough.wait)
    assert recorded.lines == []


@pytest.fixture
def started(monkeypatch):
    """The master and settings of each session that is started; the start fails."""
    starts = []

    def local_session(master, conf, *, java_options):
        starts.append((master, conf))
        raise CoterieError("seen")

    monkeypatch.setattr(engine, "local_session", local_session)
    monkeypatch.setattr(engine, "signals_deferred", contextlib.nullcontext)
    return starts


@pytest.mark.parametrize(
    "command", [("replay", LOG, "--out", "out"), ("growth", LOG), ("growth", LOG, "--group", "g*")]
)
def test_settings_and_master_reach_the_session(started, tmp_path, command):
    settings = ("--conf", "spark.executor.memory=2g", "--conf", " spark.a.b = x=y ")
    result = coterie(*command, "--engine", "spark", "--master", "yarn", *settings, cwd=tmp_path)
    assert result.stderr == "coterie: seen\n"
    assert started == [("yarn", {"spark.executor.memory": "2g", "spark.a.b": "x=y"})]


def test_an_unfit_worker_is_the_line_that_a_command_ends_with():
    from pyspark.errors import PySparkException

    line = f"{closures.UNFIT}host (python): no coterie; install it"
    with pytest.raises(CoterieError) as caught, engine.one_line_errors():
        raise PySparkException(f"An exception was thrown:\nRuntimeError: {line}\n\nat java")
    assert str(caught.value) == line


def test_a_session_that_the_cluster_ended_is_reported():
    from pyspark.errors import PySparkException

    says = "Spark failed: the cluster has ended the session"
    with pytest.raises(CoterieError, match=says), engine.one_line_errors():
        raise PySparkException("Cannot call methods on a stopped SparkContext.\nThis was created")


def test_a_signal_that_the_jvm_received_too_ends_the_command():
    import signal

    class Received(BaseException):
        pass

    def receive(number, frame):
        raise Received

    def start():
        with engine.signals_deferred():
            signal.raise_signal(signal.SIGTERM)
            raise CoterieError("Spark did not start")

    before = signal.signal(signal.SIGTERM, receive)
    try:
        with pytest.raises(Received):
            start()
    finally:
        signal.signal(signal.SIGTERM, before)
