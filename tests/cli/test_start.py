"""Which modules are imported: no command imports modules that it does not use."""

import ast
import json
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import click
import pytest

import coterie
from coterie.cli import COMMANDS, Commands
from coterie.errors import CoterieError
from coterie.state.replay_engine import ENGINES, OWN, find_engine
from support.golden_data import LOGS

CLI = Path(coterie.__file__).parent / "cli"
SMALL = str(LOGS / "basic")
# Modules of the library that take long to import, and the search through all that is installed.
SLOW = {"numpy", "rich", "pyarrow", "importlib.metadata"}
PRINT = "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
RUN = f"import json, sys; from coterie.cli import run; [run(line) for line in {{}}]; {PRINT}"


def loaded(code):
    """Run code in a new process; return the JSON in its last line on standard error."""
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return json.loads(ran.stderr.splitlines()[-1])


def loaded_by(*lines):
    """Run command lines in turn; return the names of the imported modules."""
    return set(loaded(RUN.format([list(line) for line in lines])))


def commands_in(modules):
    return {name for name in COMMANDS if f"coterie.cli.{name}" in modules}


def test_importing_the_library_loads_nothing_but_itself():
    modules = set(loaded(f"import coterie, json, sys; {PRINT}"))
    assert not modules & {*SLOW, "click", "cramjam"}
    assert {name for name in modules if name.split(".")[0] == "coterie"} == {"coterie"}


def test_a_scan_and_its_groups_load_nothing_slow():
    scanned = "coterie.merge([coterie.scan(b'')]).groups()"
    assert not set(loaded(f"import coterie, json, sys; {scanned}; {PRINT}")) & {*SLOW, "click"}


def test_listing_the_commands_loads_none_of_them():
    modules = loaded_by([], ["--help"])
    assert not modules & SLOW
    assert not commands_in(modules)
    assert not [name for name in modules if name.startswith("coterie._core")]


def test_only_the_groups_of_a_log_with_consumer_groups_load_the_coordinator():
    coordinator = "coterie._core.coordinator"
    for case, needs_it in (("basic", False), ("kip848", True)):
        modules = loaded_by(["groups", str(LOGS / case), "--list"])
        assert any(name.startswith(coordinator) for name in modules) == needs_it


def test_the_groups_of_a_log_need_nothing_slow_and_no_other_command():
    views = (["--list"], ["--describe", "--all-groups"], ["--list", "--format", "json"])
    modules = loaded_by(*(["groups", SMALL, *view] for view in views))
    assert not modules & SLOW
    assert commands_in(modules) == {"groups"}


def test_help_of_a_command_draws_nothing_and_searches_for_nothing():
    quick = ("replay", "groups", "records", "verify", "trace")
    assert not loaded_by(*([name, "--help"] for name in quick)) & SLOW
    modules = loaded_by(*([name, "--help"] for name in COMMANDS))
    assert commands_in(modules) == set(COMMANDS)
    assert not modules & (SLOW - {"numpy"})


def test_rich_is_loaded_where_something_is_drawn():
    as_data = [["expire", SMALL, "--format", form] for form in ("json", "csv")]
    assert "rich" not in loaded_by(*as_data)
    assert "rich" in loaded_by(*as_data, ["expire", SMALL])


def test_public_names_are_those_that_a_checker_of_types_sees():
    tree = ast.parse(Path(coterie.__file__).read_text(encoding="utf-8"))
    (checked,) = (node for node in tree.body if ast.unparse(node).startswith("if TYPE_CHECKING"))
    seen = {
        alias.name: node.module.removeprefix("coterie.")
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == coterie._HOME_OF
    assert sorted(seen) == coterie.__all__


@pytest.mark.parametrize("name", coterie.__all__)
def test_a_public_name_is_what_its_module_has(name):
    home = f"coterie.{coterie._HOME_OF[name]}"
    assert getattr(coterie, name) is getattr(sys.modules[home], name)
    assert name in dir(coterie)


def test_the_library_has_its_version_and_its_modules():
    told = "json.dumps([coterie.__version__, coterie.errors.__name__])"
    code = f"import coterie, json, sys; print({told}, file=sys.stderr)"
    assert loaded(code) == [distribution("coterie").version, "coterie.errors"]


@pytest.mark.parametrize("name", ["nothing", "_private", "__wrapped__", "Scan"])
def test_what_the_library_has_not_is_an_attribute_error(name):
    with pytest.raises(AttributeError, match=f"'coterie' has no attribute '{name}'"):
        getattr(coterie, name)
    assert name not in vars(coterie)


def test_a_module_that_fails_says_itself_what_it_lacks(tmp_path, monkeypatch):
    (tmp_path / "lacking.py").write_text("import no_such_module_anywhere\n")
    monkeypatch.setattr(coterie, "__path__", [*coterie.__path__, str(tmp_path)])
    with pytest.raises(ModuleNotFoundError, match="no_such_module_anywhere"):
        _ = coterie.lacking


def test_every_command_is_listed_with_what_it_is_for():
    commands = {path.stem for path in CLI.glob("*.py") if "\ndef command(" in path.read_text()}
    assert commands == set(COMMANDS)
    group = Commands("coterie")
    context = click.Context(group, terminal_width=80)
    lines = group.get_help(context).splitlines()
    assert group.list_commands(context) == list(COMMANDS)
    for name, summary in COMMANDS.items():
        assert f"  {name:8}  {summary}" in lines  # whole, on a terminal of 80 columns
        command = group.get_command(context, name)
        assert command.name == name
        assert command.get_short_help_str(80) == summary
    assert group.get_command(context, "no-such") is None


def test_own_engines_are_those_that_the_package_registers():
    registered = {
        (entry.group, entry.name): entry.value
        for entry in distribution("coterie").entry_points
        if entry.group.startswith("coterie.")
    }
    assert registered == OWN


def test_an_engine_of_another_package_is_found_by_its_entry_point(tmp_path, monkeypatch):
    info = tmp_path / "other-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: other\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{ENGINES}]\nother = other_engine:replay\n")
    (tmp_path / "other_engine.py").write_text("def replay(request, progress): return 'other'\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_engine("other")(None, None) == "other"
    with pytest.raises(CoterieError, match="no engine 'nobody' is installed"):
        find_engine("nobody")
