"""What a command does around Spark: the session, its output, signals, errors. No JVM is started."""

import errno
import os
import signal
import sys
import threading
from types import SimpleNamespace

import pytest

from coterie import CoterieError
from coterie.state.replay_engine import Silent

pytest.importorskip("pyspark")
from pyspark.errors import PySparkException

from coterie_spark.replay_job import engine


class Stages(Silent):
    """A progress that records stages."""

    def __init__(self):
        self.stages = []

    def stage(self, name):
        self.stages.append(name)


@pytest.fixture
def sessions(monkeypatch):
    """What each session is started with, and what is stopped."""
    made = SimpleNamespace(starts=[], stops=[])

    def local_session(master, conf, *, java_options):
        made.starts.append((master, conf, java_options))

        def stop():
            made.stops.append(master)
            raise RuntimeError("the JVM is gone")

        return SimpleNamespace(stop=stop)

    monkeypatch.setattr(engine, "local_session", local_session)
    return made


@pytest.mark.parametrize("is_running", [False, True])
def test_a_command_stops_the_session_that_it_started_and_no_other(
    monkeypatch, sessions, is_running
):
    active = SimpleNamespace() if is_running else None
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: active)
    progress = Stages()
    with engine.session_of_command(None, progress) as session:
        assert progress.stages == ["starting Spark"]
        assert sessions.stops == []
        assert session.stop
    with (
        pytest.raises(ZeroDivisionError),
        engine.session_of_command("yarn", progress, (("a", "b"),)),
    ):
        1 / 0  # noqa: B018
    assert sessions.starts == [
        ("local[*]", {}, engine.JVM_OPTIONS),
        ("yarn", {"a": "b"}, engine.JVM_OPTIONS),
    ]
    assert sessions.stops == ([] if is_running else ["local[*]", "yarn"])


def test_a_listing_is_made_in_a_session_that_stays_open(monkeypatch, sessions, tmp_path):
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    (tmp_path / f"{0:020}.log").touch()
    where = SimpleNamespace(master="yarn", conf=(("a", "b"),))
    with engine.listed([str(tmp_path / f"{0:020}.log")], where, Silent()) as listing:
        assert len(listing.segments) == 1
        assert sessions.stops == []
    assert sessions.stops == ["yarn"]
    assert sessions.starts[0][:2] == ("yarn", {"a": "b"})


# ---- the output of a JVM


def java_error(*causes):
    """An exception that Py4J passes on, with the texts of the exception and its causes."""
    cause = None
    for text in reversed(causes):
        cause = SimpleNamespace(toString=lambda text=text: text, getCause=lambda cause=cause: cause)
    error = PySparkException("what Python shows")
    error.java_exception = cause
    return error


def start_that(output, error):
    with engine.jvm_output_captured():
        os.write(2, output)
        raise error


@pytest.mark.parametrize(
    ("output", "error", "why"),
    [
        (b"WARN first\nError: other\n last \n", RuntimeError("no JVM"), "last"),
        (b"WARN first\n", java_error("java.io.IOException: first", "second"), "second"),
        (b"\xff\n", RuntimeError("no JVM"), "\N{REPLACEMENT CHARACTER}"),
        (b"", RuntimeError("no JVM"), "no JVM"),
    ],
)
def test_a_jvm_that_does_not_start_is_shown_by_its_last_line_or_its_cause(output, error, why):
    before, count = os.fstat(2), len(os.listdir("/dev/fd"))
    with pytest.raises(CoterieError) as failed:
        start_that(output, error)
    assert str(failed.value) == f"Spark did not start: {why}"
    assert os.fstat(2) == before
    assert len(os.listdir("/dev/fd")) == count


def test_an_own_error_of_a_start_passes_and_what_a_good_one_prints_is_dropped(capfd):
    with pytest.raises(CoterieError, match=r"^no Java$"):
        start_that(b"WARN", CoterieError("no Java"))
    os.write(2, b"before\n")
    with engine.jvm_output_captured():
        os.write(2, b"WARN")
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "before\nafter\n"


def test_what_was_written_before_a_start_is_shown_though_it_waits_in_a_buffer(capfd, monkeypatch):
    with open(2, "w", closefd=False) as buffered:
        monkeypatch.setattr(sys, "stderr", buffered)
        buffered.write("before ")
        with engine.jvm_output_captured():
            buffered.flush()
            os.write(2, b"WARN")
        buffered.write("after")
        monkeypatch.undo()
    assert capfd.readouterr().err == "before after"


def test_informative_lines_are_all_if_none_is():
    generic = list(engine.UNINFORMATIVE)
    frames = ["\tat java.base/java.lang.Thread.run(Thread.java:1)", "\t... 5 more", ""]
    assert engine.jvm_lines("\n".join([*generic, *frames])) == generic
    text = "\n".join([generic[0], " Unrecognized option: -x ", *frames, generic[1]])
    assert engine.jvm_lines(text) == ["Unrecognized option: -x"]
    text = "Caused by: java.net.BindException: Address already in use\n\tat sun.nio.ch.Net.bind(X)"
    assert engine.jvm_lines(text) == ["Address already in use"]


# ---- errors in one line


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (PySparkException("  first \n second"), "first"),
        (java_error("outer", "inner: text\n\tat x"), "inner: text"),
        (java_error("\n  \n after empty lines"), "after empty lines"),
        (java_error(""), "PySparkException"),
        (
            java_error(
                'Traceback:\n File "x.py", line 1, Error: x\n KeyError: 1\n ValueError: 2\nx'
            ),
            "ValueError: 2",
        ),
    ],
)
def test_a_failure_of_spark_is_a_line_of_its_innermost_cause_or_of_python(error, why):
    with pytest.raises(CoterieError) as failed, engine.one_line_errors():
        raise error
    assert str(failed.value) == f"Spark failed: {why}"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_shown_with_what_to_do(code):
    with pytest.raises(CoterieError) as failed, engine.one_line_errors():
        raise java_error(f"java.io.IOException: {os.strerror(code)}")
    assert str(failed.value) == (
        f"Spark failed: java.io.IOException: {os.strerror(code)};"
        " free some space, or name another folder for it in SPARK_LOCAL_DIRS"
    )


def test_errors_that_are_not_of_spark_pass_through():
    for error in (CoterieError("own"), OSError(28, "x")):
        with pytest.raises(type(error)) as caught, engine.one_line_errors():
            raise error
        assert caught.value is error


# ---- signals


@pytest.fixture
def handled():
    """The signals that arrive at the handlers of a command."""
    arrived = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda number, frame: arrived.append(number))
    yield arrived
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_first_signal_waits_for_the_end_of_the_block(handled):
    own = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in own:
        with engine.signals_deferred():
            signal.raise_signal(number)
            assert handled == []
        assert handled == [number]
        handled.clear()
        assert {one: signal.getsignal(one) for one in own} == own
    with engine.signals_deferred():
        pass
    assert handled == []


def test_a_second_signal_ends_the_block_and_the_first_is_delivered(handled):

    def start():
        with engine.signals_deferred():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        start()
    assert handled == [signal.SIGTERM]


def test_an_ignored_signal_stays_ignored(handled):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with engine.signals_deferred():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert handled == []


def test_in_another_thread_signals_are_not_deferred(handled):
    ran = []

    def run():
        with engine.signals_deferred():
            ran.append(signal.getsignal(signal.SIGINT))

    handler = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert ran == [handler]


# ---- jobs


def job_of(monkeypatch, report):
    monkeypatch.setattr(engine, "POLL_S", 0.001)
    cancelled = []
    context = SimpleNamespace(master="local", cancelAllJobs=lambda: cancelled.append(1) or 1 / 0)
    job = engine.JobProgress(SimpleNamespace(sparkContext=context), 1000, Silent())
    monkeypatch.setattr(job, "report", report)
    return job, cancelled


def test_an_interruption_cancels_the_jobs_and_waits_for_their_end(monkeypatch):
    ended, may_end = [], threading.Event()

    def interrupted():
        may_end.set()
        raise KeyboardInterrupt

    def work():
        may_end.wait()
        assert threading.current_thread().daemon  # one that hangs does not keep the process
        ended.append(1)

    job, cancelled = job_of(monkeypatch, interrupted)
    with pytest.raises(KeyboardInterrupt):
        job.run(work)
    assert (ended, cancelled) == ([1], [1])


def test_progress_is_reported_while_a_job_runs_and_the_first_notice_waits(monkeypatch):
    reports, many = [], threading.Event()

    def report():
        reports.append(1)
        if len(reports) > engine.POLLS_WITHOUT_EXECUTOR + 5:
            many.set()

    job, cancelled = job_of(monkeypatch, report)
    looks = []
    monkeypatch.setattr(job, "has_no_executor", lambda: looks.append(len(reports)))
    assert job.run(many.wait)
    assert looks == [engine.POLLS_WITHOUT_EXECUTOR]
    assert cancelled == []
