"""docs/designs.md: it shows what its commands print, and names every op, setting and cost."""

import re
import shlex
from pathlib import Path

import pytest

from coterie.designs import COSTS, DESIGNS
from coterie.designs.consumer08_cluster import KNOWN
from coterie.designs.ops import MOMENTS, OPS
from coterie.designs.simple08 import NEEDS
from support.commandline import coterie_ok

PAGE = (Path(__file__).parents[2] / "docs/designs.md").read_text(encoding="utf-8")
CONSOLE = re.findall(r"^```console\n(.*?)^```", PAGE, re.M | re.S)


def section(title):
    """The part of the page below a heading."""
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(text):
    """The first cells of the rows of tables that begin with a name."""
    return [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]


@pytest.mark.parametrize("heading", ["In Python", "SimpleConsumer: a program without a group"])
def test_the_example_ends_as_it_says(heading):
    (code,) = re.findall(r"^```python\n(.*?)^```", section(heading), re.M | re.S)
    exec(compile(code, "designs.md", "exec"), {})


@pytest.mark.parametrize("block", CONSOLE, ids=[block.partition("\n")[0] for block in CONSOLE])
def test_the_page_shows_what_its_command_prints(block):
    command, _, shown = block.removeprefix("$ coterie ").partition("\n")
    assert coterie_ok(*shlex.split(command)).stdout == shown


def test_the_history_is_told_with_runs_of_its_three_faults_and_of_a_coordinators_death():
    shown = {block.split()[4] for block in CONSOLE}
    assert {"herd", "long-cut", "stale-views", "coordinator-dies-4"} <= shown


def test_the_tables_have_every_op_once():
    named = [re.findall(r"`(\w+)`", row) for row in rows(section("What each op means"))]
    assert sorted(op for row in named for op in row) == sorted(OPS)
    assert all(f"`{design}`" in section("What each op means") for design in DESIGNS)
    assert all(f"`{moment}`" in section("What each op means") for moment in MOMENTS)


def test_the_table_of_requests_has_each_with_its_fields():
    told = section("SimpleConsumer: a program without a group")
    cells = [line.split("|") for line in told.splitlines() if line.startswith("| `")]
    fields = {row[1].strip(" `"): re.findall(r"`(\w+)`", row[2]) for row in cells}
    assert fields == {api: [*needs] for api, needs in NEEDS.items() if api != "znodes"}


def test_every_cost_has_its_formula():
    assert [row.strip(" `") for row in rows(section("What is a cost"))] == list(COSTS)


def test_every_setting_is_named():
    assert not [name for name in KNOWN if f"`{name}`" not in PAGE and f"`{name}:" not in PAGE]
