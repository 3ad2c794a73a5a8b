"""Spark shows a group once that has records in several partitions: questions and tables."""

import pytest

from support.commandline import coterie
from support.grown_topic import COUNT, story, write
from support.replayed_tables import local_rows, rows_of
from support.spark_questions import OF_GROWN_TOPIC, arguments_of, rows_here

pytest.importorskip("pyspark")
import coterie_spark
from coterie_spark import replay
from coterie_spark.replay_job import roads
from coterie_spark.replay_job.settings import set_meanwhile

NUMBERS = pytest.mark.parametrize("numbers", [range(COUNT), ()], ids=["copy of all", "copy of two"])


@NUMBERS
def test_a_question_has_the_rows_and_the_line_of_the_local_engine(spark, tmp_path, numbers):
    log = write(tmp_path / "log", story(older_only=True), numbers)
    command = ("metrics", log, "--format", "json")
    local, on_spark = (coterie(*command, "--engine", engine) for engine in ("local", "spark"))
    assert (on_spark.returncode, on_spark.stdout) == (0, local.stdout)
    assert on_spark.stderr == local.stderr


def test_frames_of_all_questions_have_the_rows_of_the_local_engine(spark, tmp_path):
    log = write(tmp_path / "log", story(older_only=True), ())
    for name, parameters in OF_GROWN_TOPIC:
        frame = getattr(coterie_spark, name)(spark, log, **arguments_of(parameters))
        rows = sorted(map(repr, frame.toArrow().to_pylist()))
        assert rows == rows_here(log, name, parameters), name


@NUMBERS
@pytest.mark.parametrize("driver_bytes", [-1, 1 << 20])
def test_tables_have_the_rows_of_the_local_engine(spark, tmp_path, numbers, driver_bytes):
    log = write(tmp_path / "log", story(older_only=True), numbers)
    expected = local_rows([log], history=True)
    with set_meanwhile(spark, {roads.SETTING: str(driver_bytes)}):
        tables = replay(spark, log, history=True)
        found = {name: rows_of(table.toArrow()) for name, table in tables.items()}
    tables.unpersist()
    assert found == expected
    assert tables.summary.groups == 1
    (note,) = tables.notes
    assert note.startswith("group 'payments' has records in partitions 13 and 53 (the newest)")
