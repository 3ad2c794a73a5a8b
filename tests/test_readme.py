"""The commands and the code of the user guide run as they stand there.

``copy/`` in the guide is a folder off a broker, and ``payments`` a group: here a golden log and one
of its groups. Commands that start Spark are
run by the local engine, which gives the same rows; those that name a cluster are left out, and
``serve``, which runs until it gets a signal (``tests/server/test_serve.py``).
"""

import re
import shlex
from pathlib import Path

import pytest

from support import golden_data
from support.commandline import coterie_ok
from support.terminal import at_terminal, plain

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = ("replay", "groups", "log", "python")  # the others have tests of their own
GUIDE = README + "".join((ROOT / f"docs/{page}.md").read_text(encoding="utf-8") for page in PAGES)
COMMANDS = [
    re.split(r" +# | \|\|? | > ", line.strip().removeprefix("$ "))[0]
    for line in GUIDE.splitlines()
    if re.match(r" {4}(\$ )?coterie (?!serve )", line)
    and not re.search("spark://|--bootstrap-server", line)
]
PYTHON = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "copy").symlink_to(golden_data.log("basic"))
    (tmp_path / "tests").symlink_to(Path(__file__).parent)
    return tmp_path


def test_the_guide_shows_each_command():
    shown = {"replay", "groups", "explain", "undo", "records", "verify"}
    assert {line.split()[1] for line in COMMANDS} == shown


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_guide_runs(folder, line):
    arguments = shlex.split(line.replace("payments", "grp-mix-range"))[1:]
    if arguments[0] == "replay" and "--engine" not in arguments:
        arguments += ["--engine", "local"]
    coterie_ok(*arguments, cwd=folder)


SHOWN = re.compile(r"^    \$ coterie (.*)\n((?:    (?!\$ ).*\n|\n)+)", re.M)


@pytest.mark.parametrize(("command", "shown"), SHOWN.findall(README))
def test_an_output_in_the_readme_is_that_of_a_terminal_of_120_columns(folder, command, shown):
    printed = plain(at_terminal(120, *command.split(), cwd=folder).stdout)
    assert lines_of(shown) == [line.rstrip() for line in printed.splitlines() if line.strip()]


@pytest.mark.parametrize(("command", "shown"), SHOWN.findall(GUIDE.removeprefix(README)))
def test_an_output_on_a_page_is_what_the_command_prints_into_a_pipe(folder, command, shown):
    done = coterie_ok(*command.split(), cwd=folder)
    output = done.stdout or done.stderr
    assert lines_of(shown) == [line.rstrip() for line in output.splitlines() if line.strip()]


def lines_of(shown):
    return [line.removeprefix("    ") for line in shown.splitlines() if line.strip()]


def test_the_readme_is_short_and_its_table_has_each_extra():
    assert len(README.splitlines()) <= 120
    tomllib = pytest.importorskip("tomllib")
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    assert {*extras} - {"all"} <= {*re.findall(r"^\| `(\w+)` \|", README, re.M)}


def test_every_page_is_found_from_the_guide_and_every_link_leads_somewhere():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    found = set()
    for page in pages:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
            found.add((page.parent / link).resolve())
    assert set(pages) - found == {ROOT / "README.md"}


def test_lines_for_contributors_are_short():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        assert len(line) <= 100 or line.startswith("|"), f"CONTRIBUTING.md:{number}"


def test_lines_of_the_guide_are_short():
    for number, line in enumerate(README.splitlines(), 1):
        indented = 4 if line.startswith("    ") else 0  # what commands print at 120 columns
        assert len(line) <= 120 + indented or line.startswith("!["), f"README.md:{number}"


def test_the_code_in_the_guide_runs(folder, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(folder)
    first, code = (text for text in PYTHON if "import coterie\n" in text)
    exec(first.replace("payments", "grp-mix-range"), {})
    names = {}
    exec(code, names)
    in_partition = [group for group in golden_data.json_of("basic", "groups.json")["groups"]]
    expected = [group["group_id"] for group in in_partition if group["offsets_partition"] == 7]
    assert [group["group_id"] for group in names["state"].groups()] == expected
    assert names["offsets"].num_rows == sum(
        len(group["offsets"]) for group in in_partition if group["offsets_partition"] == 7
    )
