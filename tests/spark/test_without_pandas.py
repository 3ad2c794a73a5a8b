"""The commands that keep pandas from being imported, for as long as they work and no longer."""

import subprocess
import sys
from importlib import import_module

import pytest
from click.testing import CliRunner

from coterie.cli import question_command
from coterie.cli.nopandas import WithoutPandas
from coterie.insight.questions import undo
from support.golden_data import log

QUESTIONS = ("audit", "expire", "explain", "growth", "lag", "metrics", "undo")
LOG = str(log("basic"))
ENDINGS = {  # how a command ends -> its arguments, its exit status
    "an answer": ([LOG], 0),
    "no log": (["no-such-folder"], 1),
    "no such group": (["--group", "nobody", LOG], 1),
    "wrong usage": (["--overwrite", LOG], 2),
}
NEEDED = {
    "undo": ["--at", "1796133900000", "--group", "grp-mix-range"],
    "lag": ["--end-offsets", "{ends}"],
}
OWN = {("audit", "an answer"): 1}  # it finds something


def ended(command, *args):
    """Run a command in this process; its exit status, or that of the error it raised."""
    result = CliRunner().invoke(import_module(f"coterie.cli.{command}").command, list(args))
    return 1 if isinstance(result.exception, Exception) else result.exit_code


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("command", QUESTIONS)
def test_however_a_question_ends_imports_are_as_they_were(command, ending, tmp_path):
    ends = tmp_path / "ends"
    ends.write_text("t:0:9\n")
    args, status = ENDINGS[ending]
    before = list(sys.meta_path)
    found = ended(command, *(part.format(ends=ends) for part in NEEDED.get(command, [])), *args)
    assert sys.meta_path == before
    assert found == OWN.get((command, ending), status)


@pytest.mark.parametrize(
    ("args", "status"),
    [([LOG], 0), (["no-such-folder"], 1), ([LOG, "--master", "local[1]"], 2)],
    ids=["done", "no log", "wrong usage"],
)
def test_however_a_replay_ends_imports_are_as_they_were(args, status, tmp_path):
    before = list(sys.meta_path)
    assert ended("replay", "--engine", "local", "--out", tmp_path / "out", *args) == status
    assert sys.meta_path == before


@pytest.mark.parametrize(
    ("args", "status"),
    [([LOG], 0), (["no-such-folder"], 1), ([LOG, "--format", "x"], 2)],
    ids=["done", "no log", "wrong usage"],
)
def test_however_a_report_ends_imports_are_as_they_were(args, status, tmp_path):
    pytest.importorskip("jinja2")
    before = list(sys.meta_path)
    assert ended("report", "-o", tmp_path / "page.html", *args) == status
    assert sys.meta_path == before


def test_an_answer_that_is_never_read_to_its_end_leaves_nothing():
    """Rows are produced on demand, and the caller may stop."""
    options = question_command.Options(
        question_command.Logs((LOG,)),
        (),
        form="table",
        out=None,
        overwrite=False,
        engine="local",
        master=None,
    )
    before = list(sys.meta_path)
    parts = question_command.parts_of("undo", undo.Parameters(1796133900000), options)
    next(parts)
    assert sys.meta_path == before


def test_pandas_is_not_imported_by_a_question_and_can_be_afterwards(tmp_path):
    code = f"""
import sys
from click.testing import CliRunner
from coterie.cli.growth import command
result = CliRunner().invoke(command, ["--format", "parquet", "--out", sys.argv[1], {LOG!r}])
assert result.exit_code == 0, result.output
assert "pyarrow" in sys.modules
assert "pandas" not in sys.modules
import pandas
import pyarrow
assert len(pyarrow.table({{"a": [1]}}).to_pandas()) == 1
"""
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "out.parquet")], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr


def test_only_pandas_is_refused():
    finder = WithoutPandas()
    assert finder.find_spec("pandas.core", None) is None
    with pytest.raises(ModuleNotFoundError):
        finder.find_spec("pandas", None)
