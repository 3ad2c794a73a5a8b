"""A worker without coterie, or with another version, says so in a line. No JVM is started."""

import socket
import subprocess
import sys

import pytest

from coterie import CoterieError
from coterie.state import portable
from coterie_spark.bulk.shipping import shipped, unfit_line, unfit_workers_told

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
    yield portable.version()


def test_work_runs_on_a_worker_of_the_same_version():
    done = of_a_worker(shipped(lambda batches: [*batches, len("some")]))
    assert (done.stdout, done.stderr) == (b"batch 4\n", b"")


def test_a_worker_without_coterie_says_where_and_what_to_install():
    done = of_a_worker(shipped(doubled), "coterie", "coterie_spark")
    (line,) = [line for line in done.stderr.decode().splitlines() if "cannot run" in line]
    release = portable.version().partition("/")[0]
    assert f"{socket.gethostname()} ({sys.executable})" in line
    assert f"install coterie[spark]=={release} there" in line
    assert unfit_line(f"long\n{line}\nlonger") == line.partition(": ")[2]


def test_a_worker_of_another_version_is_noticed_before_anything_is_read(monkeypatch):
    monkeypatch.setattr(portable, "version", lambda: "9.9/7")
    work = shipped(doubled)
    monkeypatch.undo()
    says = r"has .*, the driver 9\.9/7; install"
    with pytest.raises(CoterieError, match=says), unfit_workers_told():
        list(work([]))


def test_what_else_fails_on_a_worker_stays_as_it_is():
    with pytest.raises(ZeroDivisionError), unfit_workers_told():
        list(shipped(lambda batches: [1 // 0])([]))
    assert unfit_line(ZeroDivisionError("x")) == ""
