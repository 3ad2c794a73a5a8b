"""An engine is an entry point; the command line accepts the name of any installed engine."""

import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from coterie.cli.replay import command
from coterie.log.folders import Listing
from coterie.state.partial import PartialState
from coterie.state.replay_engine import ENGINES, OWN, read_of, summarize
from support import golden_data

ASKED = []


def engine(request, progress):
    """Write one file, and say that nothing was read."""
    ASKED.append(request)
    (request.out / "told").write_text("by an engine of somebody else")
    return summarize(read_of(PartialState()), 0)


@pytest.fixture
def installed(monkeypatch):
    ASKED.clear()
    monkeypatch.setitem(sys.modules, "somebodys", SimpleNamespace(engine=engine))
    known = EntryPoints([EntryPoint("mine", "somebodys:engine", ENGINES)])
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **asked: known.select(**asked))


def run(*options):
    return CliRunner().invoke(command, [str(golden_data.log("basic")), *map(str, options)])


def test_an_engine_that_is_installed_is_asked_with_the_log_as_it_was_listed(installed, tmp_path):
    done = run("--engine", "mine", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    (request,) = ASKED
    assert isinstance(request.log, Listing)
    assert [segment.path for segment in request.log.segments] == list(
        map(str, golden_data.segments("basic"))
    )
    assert (tmp_path / "out" / "told").is_file()


def test_an_engine_that_nobody_installed_is_wrong_usage(installed, tmp_path):
    done = run("--engine", "other", "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "'other' is not one of" in done.output
    assert not (tmp_path / "out").exists()


def test_the_engines_of_this_project_are_its_entry_points():
    tomllib = pytest.importorskip("tomllib")
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    points = tomllib.loads(text)["project"]["entry-points"]
    assert {
        (group, name): at
        for group in points
        if group.startswith("coterie.")
        for name, at in points[group].items()
    } == OWN
