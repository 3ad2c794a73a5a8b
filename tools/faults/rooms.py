"""The rooms of the sources (see CONTRIBUTING.md), and the tests of each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

SUFFIXES = {".py", ".pyx", ".pxd", ".h"}
CORE, LIBRARY, SPARK = "src/coterie/_core", "pycore/coterie", "spark_udfs/coterie_spark"
FACES = {"__init__", "__main__", "messages", "aio", "pytest_plugin"}
OTHERS = ("tests/clients", "tests/package", "tests/site")  # other programs and environments
# These tests read the sources: they notice changed text, not broken behaviour.
FORM = {"tests/test_tidy.py", "tests/test_layers.py", "tests/tools/test_made_faults.py"}
SLOW_LAST = ("tests/spark", "browser", "memory", "tests/cli/test_interruption.py", "machines")
# Room -> tests, the most likely to fail first; a folder means all of its files. A room whose tests
# are all in the folder of its own name is not listed.
TESTS = {
    "c": "codec/test_checksum.py structures fold/test_fold*.py fold/test_columns*.py",
    "core": "test_arguments.py coordinator/test_refusals.py codec",
    "core/codec": "codec cli/test_records.py fold state/test_value_versions.py"
    " cli/test_verify.py state/test_newer.py coordinator/test_load.py",
    "core/wire": "wire coordinator/test_what_the_wire_carries.py",
    "core/structures": "structures coordinator/test_clock.py"
    " coordinator/test_coordinator_deferred.py test_arguments.py",
    "core/fold": "fold log/test_trust.py state/test_state_bounds.py state/test_replay_local.py"
    " coordinator/test_load.py",
    "core/coordinator": "coordinator structures/test_machine_bounds.py structures/test_offsets.py",
    "core/testing": "testing/client testing/cluster testing histories codec/test_hostile_core.py",
    "core/fast_path": "wire/test_quick.py server/test_groups_over_the_wire.py"
    " server/test_two_ways.py",
    "base": "test_arguments.py base state/test_messages.py coordinator/test_operations.py"
    " coordinator/test_refusals.py testing state/test_groups_view.py state/test_replay_local.py",
    "log": "log cli/test_records.py cli/test_verify.py cli/test_bad_input.py"
    " state/test_portable.py",
    "state": "state fold/test_fold_properties.py"
    " fold/test_history.py cli/test_as_of_a_time.py cli/test_progress.py",
    "insight": "insight log/test_trust.py",
    "report": "report designs/test_designs_page.py designs/test_comparison_page.py",
    "coordinator": "coordinator testing spark/test_sessions.py test_arguments.py"
    " cli/test_trace_command.py",
    "wire": "wire coordinator/test_requestlog.py coordinator/test_request_log_outages.py"
    " coordinator/test_what_the_wire_carries.py",
    "testing": "testing designs/test_today.py",
    "faces": "testing state/test_messages.py cli/test_start.py coordinator/test_clock.py"
    " test_readme.py",
    "cli": "cli state/test_groups_view.py state/test_replay_local.py insight/test_asking.py"
    " insight/test_questions.py insight/test_undo.py server/test_serve.py",
}


@dataclass(frozen=True)
class Room:
    """A part of the sources: file -> text."""

    name: str
    files: dict[str, str]

    @cached_property
    def size(self) -> int:
        """Number of lines that are not blank."""
        return sum(bool(line.strip()) for text in self.files.values() for line in text.split("\n"))


def rooms_of(root: Path) -> list[Room]:
    """Return the rooms of a checkout, by name."""
    files: dict[str, dict[str, str]] = {}
    for top in ("src", LIBRARY, SPARK):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SUFFIXES:
                name = path.relative_to(root).as_posix()
                files.setdefault(room_of(name), {})[name] = path.read_text(encoding="utf-8")
    return [Room(name, texts) for name, texts in sorted(files.items())]


def room_of(file: str) -> str:
    """Return the name of the room that a source is in."""
    path = Path(file)
    if file.startswith("src/c/"):
        return "c"
    for top, prefix in ((CORE, "core/"), (LIBRARY, "")):
        if file.startswith(f"{top}/"):
            inside = path.relative_to(top).parts
            if len(inside) > 1 and inside[0] != "_core":
                return prefix + inside[0]
            return (
                "core" if prefix or len(inside) > 1 else "faces" if path.stem in FACES else "base"
            )
    return "spark"


def tests_of(room: str, file: str, root: Path) -> list[str]:
    """Return the test files of a room, and others named after a source.

    Files with its name come first, then those that use it.
    """
    tests: dict[str, None] = {}
    for pattern in TESTS.get(room, room).split():
        for path in sorted((root / "tests").glob(pattern)):
            files = sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
            tests.update((test.relative_to(root).as_posix(), None) for test in files)
    named_so = [test for test in all_tests(file, root, []) if f"/test_{Path(file).stem}" in test]
    return _nearest_first(runnable(tests | dict.fromkeys(named_so)), file, root)


def all_tests(file: str, root: Path, excluded: list[str]) -> list[str]:
    """Return the test files of all suites, without ``OTHERS`` and ``excluded``."""
    paths = sorted((root / "tests").rglob("test_*.py"))
    names = (path.relative_to(root).as_posix() for path in paths)
    tests = [name for name in names if not name.startswith(OTHERS) and name not in excluded]
    return _nearest_first(runnable(dict.fromkeys(tests)), file, root)


def runnable(tests: dict[str, None]) -> list[str]:
    """Return the tests without those that read sources or need a broker."""
    return [test for test in tests if test not in FORM and not test.startswith("tests/broker")]


def _nearest_first(tests: list[str], file: str, root: Path) -> list[str]:
    stem = Path(file).stem if Path(file).stem != "__init__" else Path(file).parent.name
    module = re.compile(rf"\b{re.escape(stem)}\b")

    def distance(test: str) -> tuple[bool, int]:
        late = any(part in test for part in SLOW_LAST)
        if stem in Path(test).stem:
            return late, 0
        return late, 1 if module.search((root / test).read_text(encoding="utf-8")) else 2

    return sorted(tests, key=distance)
