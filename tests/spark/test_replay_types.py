"""A type checker knows the tables of a replay. No session is started."""

import subprocess
import sys

import pytest

pytest.importorskip("mypy")
pytest.importorskip("pyspark")

USE = """\
import coterie_spark
from pyspark.sql import SparkSession

def rows(spark: SparkSession) -> int:
    tables = coterie_spark.replay(spark, ["log"])
    return tables.offsets.count() + tables.nonsense.count()
"""
# Only the package's own types are read: pyspark's take five times as long.
CONFIG = """\
[mypy]
follow_imports = skip
follow_untyped_imports = True
[mypy-coterie_spark.*]
follow_imports = silent
"""


def test_a_table_that_is_none_is_an_error_to_mypy(tmp_path):
    source = tmp_path / "use.py"
    source.write_text(USE)
    config = tmp_path / "mypy.ini"
    config.write_text(CONFIG)
    options = ("--config-file", config, "--cache-dir", tmp_path / "cache")
    command = [sys.executable, "-m", "mypy", *options, source]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    wrong = [line for line in result.stdout.splitlines() if line.startswith("use.py:")]
    says = 'use.py:6: error: "Replay" has no attribute "nonsense"  [attr-defined]'
    assert wrong == [says], result
