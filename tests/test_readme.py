"""The commands and the code of the user guide run as they stand there.

``copy/`` in the guide is a folder off a broker, and ``payments`` a group: here a golden log and one
of its groups. Commands that start Spark are
run by the local engine, which gives the same rows; those that name a cluster are left out.
"""

import re
import shlex
from pathlib import Path

import pytest

import golden_data
from commandline import coterie_ok

GUIDE = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    re.split(r" +# | \|\|? | > ", line.strip().removeprefix("$ "))[0]
    for line in GUIDE.splitlines()
    if re.match(r" {4}(\$ )?coterie ", line) and "spark://" not in line
]
PYTHON = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "copy").symlink_to(golden_data.log("basic"))
    (tmp_path / "tests").symlink_to(Path(__file__).parent)
    return tmp_path


def test_the_guide_shows_each_command():
    shown = {"replay", "groups", "explain", "undo", "report", "records", "verify"}
    assert {line.split()[1] for line in COMMANDS} == shown


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_guide_runs(folder, line):
    arguments = shlex.split(line.replace("payments", "grp-mix-range"))[1:]
    if arguments[0] == "replay" and "--engine" not in arguments:
        arguments += ["--engine", "local"]
    if arguments[0] == "report":
        pytest.importorskip("jinja2")
    coterie_ok(*arguments, cwd=folder)


def test_the_output_in_the_guide_is_what_the_command_prints(folder):
    command, shown = re.search(r"    \$ coterie (.*)\n((?:    .*\n|\n)+)", GUIDE).groups()
    done = coterie_ok(*command.split(), cwd=folder)
    told = [line.rstrip() for line in done.stdout.splitlines() if line.strip()]
    assert [line.strip() for line in shown.splitlines() if line.strip()] == told


def test_the_code_in_the_guide_runs(folder, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(folder)
    (code,) = [text for text in PYTHON if "import coterie\n" in text]
    names = {}
    exec(code, names)
    in_partition = [group for group in golden_data.json_of("basic", "groups.json")["groups"]]
    expected = [group["group_id"] for group in in_partition if group["offsets_partition"] == 7]
    assert [group["group_id"] for group in names["state"].groups()] == expected
    assert names["offsets"].num_rows == sum(
        len(group["offsets"]) for group in in_partition if group["offsets_partition"] == 7
    )
