"""A question on Spark shows a group once that has records in several partitions."""

import pytest

from support.commandline import coterie
from support.grown_topic import COUNT, story, write


@pytest.mark.parametrize("numbers", [range(COUNT), ()], ids=["copy of all", "copy of two"])
def test_a_question_has_the_rows_and_the_line_of_the_local_engine(spark, tmp_path, numbers):
    log = write(tmp_path / "log", story(older_only=True), numbers)
    command = ("metrics", log, "--format", "json")
    local, on_spark = (coterie(*command, "--engine", engine) for engine in ("local", "spark"))
    assert (on_spark.returncode, on_spark.stdout) == (0, local.stdout)
    assert on_spark.stderr == local.stderr
