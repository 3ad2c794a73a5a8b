"""Which tests a fault meets, and in which order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from faults.change import Change
from faults.rooms import SLOW_LAST, Room, all_tests, tests_of
from faults.tests_by_line import TestsByLine

SHORTEST_S = 0.02  # of a test: less is noise
FIRST_S, FIRST_FILES = 10.0, 6  # the first run: importing many test files takes longer than that
SECOND_S, SECOND_FILES = 60.0, 40
NEAREST = 4  # files
RANDOM = re.compile(r"random|seed|propert|fuzz|hypothesis")


@dataclass(frozen=True)
class Selection:
    """The tests of one fault.

    ``runs`` are runs of pytest for it alone, the most likely to fail first. ``rest`` are the other
    tests that may detect it: they run once for all faults that survive. ``near`` are the test files
    of its room and of its name.
    """

    runs: Sequence[Sequence[str]]
    rest: Sequence[str] = ()
    near: Sequence[str] = field(default=())

    def unrelated(self, test: str) -> bool:
        """Whether a test is of another room, or has random input: it may detect this by luck."""
        return test.partition("::")[0] not in self.near or bool(RANDOM.search(test))


def select(table: TestsByLine, room: Room, change: Change, root: Path) -> Selection:
    """Return the tests of a fault: those that execute its lines, near and short ones first.

    A test file that is not recorded may execute any line. What other processes execute (of Spark,
    of commands), and what a module executes when it is imported, is in no record, so all tests of
    the room run with the rest.
    """
    text = room.files[change.file]
    near = tests_of(room.name, change.file, root)
    files = all_tests(change.file, root, [])
    allowed = set(files)
    ranks = {file: turn for turn, file in enumerate(files)}
    near_ranks = {file: turn for turn, file in enumerate(near)}
    executing = [
        test for test in table.executing(change, text) if test.partition("::")[0] in allowed
    ]

    def cost(test: str) -> tuple[float, int, str]:
        file = test.partition("::")[0]
        far = 1 if near_ranks.get(file, NEAREST) < NEAREST else 2 if file in near_ranks else 4
        far *= 8 if any(part in file for part in SLOW_LAST) else 1
        return max(table.seconds.get(test, 0.0), SHORTEST_S) * far, ranks.get(file, 0), test

    ordered = sorted(executing, key=cost)
    first, later = _within(ordered, table.seconds, FIRST_S, FIRST_FILES)
    second, later = _within(later, table.seconds, SECOND_S, SECOND_FILES)
    unrecorded = table.unrecorded(files, root)
    if not executing:
        first = [file for file in near if file in set(unrecorded)][:NEAREST]
    runs = [run for run in (first, second) if run]
    return Selection(runs, list(dict.fromkeys([*later, *unrecorded, *near])), near)


def _within(
    tests: Sequence[str], seconds: dict[str, float], most_s: float, most_files: int
) -> tuple[list[str], list[str]]:
    """Split tests: those that take ``most_s`` together and are in ``most_files``, and the rest."""
    chosen: list[str] = []
    rest: list[str] = []
    files = set[str]()
    total = 0.0
    for test in tests:
        file, took = test.partition("::")[0], max(seconds.get(test, 0.0), SHORTEST_S)
        if total + took > most_s or (file not in files and len(files) == most_files):
            rest.append(test)
        else:
            files.add(file)
            total += took
            chosen.append(test)
    return chosen, rest
