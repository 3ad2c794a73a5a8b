"""Odd logs give on Spark what they give in one process: odd versions, a clock that went back."""

import json

import pytest

from support.clock_back import AT, COUNTED_HERE, write_clock_back
from support.commandline import coterie, coterie_ok, folder_of
from support.unknown_versions import UNKNOWN_KEYS, write_log

pytest.importorskip("pyspark")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return write_log(tmp_path_factory.mktemp("log"))


def test_a_replay_passes_over_what_it_does_not_know(spark, log, tmp_path):
    outputs = {}
    for engine in ("local", "spark"):
        options = ("--engine", engine, "--format", "json", "--out", tmp_path / engine)
        ran = coterie("replay", log, "--history", *options)
        assert ran.returncode == 0, ran.stderr
        outputs[engine] = [x for x in ran.stderr.splitlines() if x.startswith("key version")]
    assert len(outputs["spark"]) == len(UNKNOWN_KEYS)
    assert outputs["spark"] == outputs["local"]
    for name in folder_of(tmp_path / "local"):
        ours, theirs = ((tmp_path / engine / name).read_bytes() for engine in outputs)
        assert ours == theirs, name


@pytest.mark.parametrize("question", ["explain", "growth"])
def test_a_question_passes_over_what_it_does_not_know(question, spark, log):
    local, other = (
        coterie(question, log, "--format", "json", "--engine", engine)
        for engine in ("local", "spark")
    )
    assert (other.returncode, local.returncode) == (0, 0), other.stderr
    assert json.loads(other.stdout) == json.loads(local.stdout) != []


def test_a_replay_goes_by_record_times_and_names_the_logs_order(spark, tmp_path):
    folder, at = write_clock_back(tmp_path), ("--at", str(AT))
    command = ("replay", "log", *at, "--out", "tables", "--format", "json", "--engine", "spark")
    ran = coterie_ok(*command, cwd=folder)
    (group,) = json.loads((folder / "tables/groups.json").read_text())["groups"]
    assert [offset["offset"] for offset in group["offsets"]] == [20]
    assert COUNTED_HERE in ran.stderr
