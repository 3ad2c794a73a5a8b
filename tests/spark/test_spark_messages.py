"""What the driver says of a cluster, and what reaches its session. No JVM is started."""

import contextlib
import threading

import pytest

from coterie import CoterieError
from coterie.replay.engine import Silent
from support import golden_data
from support.commandline import coterie, fails

pytest.importorskip("pyspark")

from coterie_spark.replay_job import closures, engine
from coterie_spark.session.master import check_master

LOG = golden_data.log("corrupt/fine")


@pytest.fixture
def closed_port():
    """A port on which nobody listens."""
    import socket

    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def test_a_master_that_is_not_there_is_said_before_a_jvm_is_started(
    closed_port, tmp_path, monkeypatch
):
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    url = f"spark://127.0.0.1:{closed_port}"
    asked = ("replay", LOG, "--out", tmp_path / "out", "--engine", "spark", "--master", url)
    fails(*asked, says=f"no master of Spark answers at {url} (127.0.0.1:{closed_port}: Connection")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["host", "host:", ":7077", "host:port", "127.0.0.1:99999999"])
def test_a_master_without_a_port_is_said(place):
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
    """A driver's context on which so many processes have registered."""

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


class Heard(Silent):
    """A progress that keeps what is said, and lets the work end when something was."""

    def __init__(self):
        self.lines, self.said = [], threading.Event()

    def notice(self, line):
        self.lines.append(line)
        self.said.set()


def job_progress(monkeypatch, master, registered):
    monkeypatch.setattr(engine, "POLL_S", 0.001)
    session = type("Session", (), {"sparkContext": Context(master, registered)})()
    told = Heard()
    return engine.JobProgress(session, 100, told), told


def test_a_cluster_without_free_executors_is_said_once_while_the_job_waits(monkeypatch):
    progress, told = job_progress(monkeypatch, "spark://host:7077", 1)
    assert progress.run(told.said.wait)
    assert told.lines == [engine.NO_EXECUTOR.format("spark://host:7077")]


@pytest.mark.parametrize(("master", "registered"), [("local[2]", 1), ("spark://host:7077", 2)])
def test_where_there_are_executors_nothing_is_said(monkeypatch, master, registered):
    progress, told = job_progress(monkeypatch, master, registered)
    looked = threading.Event()
    looks = []

    def tell():
        looks.append(1)
        if len(looks) > engine.POLLS_WITHOUT_EXECUTOR + 5:
            looked.set()

    monkeypatch.setattr(progress, "tell", tell)
    assert progress.run(looked.wait)
    assert told.lines == []


@pytest.fixture
def started(monkeypatch):
    """What a session is asked to be started with, which then fails."""
    asked = []

    def local_session(master, conf, *, java_options):
        asked.append((master, conf))
        raise CoterieError("seen")

    monkeypatch.setattr(engine, "local_session", local_session)
    monkeypatch.setattr(engine, "signals_deferred", contextlib.nullcontext)
    return asked


@pytest.mark.parametrize(
    "command", [("replay", LOG, "--out", "out"), ("growth", LOG), ("growth", LOG, "--group", "g*")]
)
def test_settings_and_master_reach_the_session(started, tmp_path, command):
    given = ("--conf", "spark.executor.memory=2g", "--conf", " spark.a.b = x=y ")
    told = coterie(*command, "--engine", "spark", "--master", "yarn", *given, cwd=tmp_path)
    assert told.stderr == "coterie: seen\n"
    assert started == [("yarn", {"spark.executor.memory": "2g", "spark.a.b": "x=y"})]


def test_a_worker_that_does_not_fit_is_the_line_that_a_command_ends_with():
    from pyspark.errors import PySparkException

    line = f"{closures.UNFIT}host (python): no coterie; install it"
    with pytest.raises(CoterieError) as caught, engine.one_line_errors():
        raise PySparkException(f"An exception was thrown:\nRuntimeError: {line}\n\nat java")
    assert str(caught.value) == line


def test_a_session_that_the_cluster_ended_is_said():
    from pyspark.errors import PySparkException

    says = "Spark failed: the cluster has ended the session"
    with pytest.raises(CoterieError, match=says), engine.one_line_errors():
        raise PySparkException("Cannot call methods on a stopped SparkContext.\nThis was created")


def test_a_signal_that_the_jvm_heard_too_is_what_the_command_ends_by():
    import signal

    class Heard(BaseException):
        pass

    def hear(number, frame):
        raise Heard

    def start():
        with engine.signals_deferred():
            signal.raise_signal(signal.SIGTERM)
            raise CoterieError("Spark did not start")

    before = signal.signal(signal.SIGTERM, hear)
    try:
        with pytest.raises(Heard):
            start()
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("--engine", "local"), "URLs are for --engine spark"),
        (("--engine", "spark", "--include-deleted"), "--include-deleted is for plain paths"),
    ],
)
def test_what_is_not_for_urls_is_wrong_usage(given, says):
    fails("growth", LOG.as_uri(), *given, status=2, says=says)
