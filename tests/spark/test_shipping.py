"""A worker without coterie, or with another version, says so in a line. No JVM is started."""

import socket
import subprocess
import sys

import pytest

from coterie import CoterieError
from coterie.state import pickling
from coterie_spark.replay_job.closures import shipped, unfit_line, unfit_workers_reported
from support import golden_data

pytest.importorskip("pyspark")

WORKER = """
import sys
from pyspark import cloudpickle
for name in sys.argv[1:]:
    sys.modules[name] = None  # as if it were not installed
work = cloudpickle.loads(sys.stdin.buffer.read())
assert not [name for name in sys.modules if name.startswith("coterie.")]
print(*work(["batch"]))
"""


def of_a_worker(work, *missing):
    from pyspark import cloudpickle

    return subprocess.run(
        [sys.executable, "-c", WORKER, *missing], input=cloudpickle.dumps(work), capture_output=True
    )


def doubled(batches):
    yield from batches
    yield pickling.version()


def test_work_runs_on_a_worker_of_the_same_version():
    done = of_a_worker(shipped(lambda batches: [*batches, len("some")]))
    assert (done.stdout, done.stderr) == (b"batch 4\n", b"")


def test_a_worker_without_coterie_says_where_and_what_to_install():
    done = of_a_worker(shipped(doubled), "coterie", "coterie_spark")
    (line,) = [line for line in done.stderr.decode().splitlines() if "cannot run" in line]
    release = pickling.version().partition("/")[0]
    assert f"{socket.gethostname()} ({sys.executable})" in line
    assert f"install coterie[spark]=={release} there" in line
    assert unfit_line(f"long\n{line}\nlonger") == line.partition(": ")[2]


def the_udfs():
    from coterie_spark import udfs

    return {name: getattr(udfs, name).func for name in ("expired", "select_protocol")}


def the_reader():
    from coterie_spark.source.data_source import ConsumerOffsetsSource

    source = ConsumerOffsetsSource({"path": str(golden_data.log(CASE))})
    return source.reader(source.schema())


def called(name):
    """A function that calls a UDF or the data source on a worker, as Spark does."""
    if name == "data source":
        reader = the_reader()
        pieces = reader.partitions()
        return lambda _: [sum(rows.num_rows for rows in reader.read(piece)) for piece in pieces]
    udf, count = the_udfs()[name], {"expired": 4, "select_protocol": 1}[name]
    return lambda _: udf(*[__import__("pandas").Series([], dtype="int64")] * count).tolist()


CASE = "transactions"
OFFERED = ["expired", "select_protocol", "data source"]


@pytest.mark.parametrize("name", OFFERED)
def test_udfs_and_the_data_source_report_what_a_worker_lacks(name, monkeypatch):
    pytest.importorskip("pandas")
    done = of_a_worker(called(name), "coterie", "coterie_spark")
    assert "install coterie[spark]==" in unfit_line(done.stderr.decode())
    done = of_a_worker(called(name))
    assert done.stderr == b""
    rows = sum(map(int, done.stdout.split()))
    assert rows == (len(list(golden_data.records(CASE))) if name == "data source" else 0)
    work = called(name)
    monkeypatch.setattr(pickling, "version", lambda: "9.9/7")
    with pytest.raises(RuntimeError, match=r"it has 9\.9/7, the driver "):
        work([])


def test_two_heartbeats_in_one_millisecond_are_of_one_session():
    from coterie_spark.udfs import table_function

    sessions = table_function()()
    beats = [{"member": "m", "heartbeat_ms": 5, "timeout_ms": timeout_ms} for timeout_ms in (0, 7)]
    assert [ended for beat in beats for ended in sessions.eval(beat)] == []
    assert list(sessions.terminate()) == [("m", 12)]


def test_the_table_function_needs_no_coterie_on_a_worker():
    from coterie_spark.udfs import table_function

    function, beats = table_function(), [("m", 0, 10), ("m", 30, 10)]

    def run(_):
        sessions, names = function(), ("member", "heartbeat_ms", "timeout_ms")
        for beat in beats:
            yield from sessions.eval(dict(zip(names, beat, strict=True)))
        yield from sessions.terminate()

    done = of_a_worker(run, "coterie", "coterie_spark")
    assert (done.stdout, done.stderr) == (b"('m', 10) ('m', 40)\n", b"")


def test_a_worker_of_another_version_is_refused_before_the_work_is_unpickled(monkeypatch):
    monkeypatch.setattr(pickling, "version", lambda: "9.9/7")
    work = shipped(doubled)
    monkeypatch.undo()
    says = r"has .*, the driver 9\.9/7; install"
    with pytest.raises(CoterieError, match=says), unfit_workers_reported():
        list(work([]))


def test_other_failures_on_a_worker_are_unchanged():
    with pytest.raises(ZeroDivisionError), unfit_workers_reported():
        list(shipped(lambda batches: [1 // 0])([]))
    assert unfit_line(ZeroDivisionError("x")) == ""
