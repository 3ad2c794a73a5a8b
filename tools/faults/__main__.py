"""Plant faults in copies of the sources, and see which of them the tests catch.

    PYTHONPATH=tools python -m faults [--count 40] [--seed 7] [--rooms ROOM ...] [--only ID ...]

The seed draws the faults. Each is planted in a copy of the sources (``build/faults``), and the
tests that execute its lines run, near and short ones first. A recorded run of the suites says which
these are; it is made once, and again for test files that have changed. The faults that survive are
planted together for one run of the tests that have not met them all; those that fail then run for
each of them alone. The test that caught a fault is run again without it. A fault that does not
compile, or compiles to the same code, is replaced by the next draw.

A fault is caught by luck if a single test detects it, and that is one of another room or one with
random input.
"""

from __future__ import annotations

import argparse
import json
import queue
import resource
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

from faults.change import Change
from faults.copies import HOME, ROOT, Copy, Ran, make_library
from faults.draw import Slot, changes_of, drawn, fields_of
from faults.rooms import SLOW_LAST, all_tests, rooms_of, tests_of
from faults.selection import Selection, select
from faults.tests_by_line import TestsByLine

T = TypeVar("T")
R = TypeVar("R")
PROCESSES = 2  # of a run that no fault has to itself
AT_ONCE = 20  # test files of one recorded run; an interrupted recording goes on from there


@dataclass(frozen=True)
class Outcome:
    """The result of a fault, and how many draws before it could not be planted.

    It is unsure if the test that caught it also fails without it. It is caught by luck if only one
    test detects it, and an unrelated one.
    """

    slot: Slot
    change: Change
    ran: Ran
    seconds: float
    skipped: int = 0
    unsure: bool = False
    lucky: bool = False
    selection: Selection | None = None

    def line(self, lives: str = "SURVIVED") -> str:
        """Return one line about it; ``lives`` is the verdict if no test has caught it."""
        caught = "LUCK" if self.lucky else "caught"
        verdict = "UNSURE" if self.unsure else caught if self.ran.how else lives
        place = f"{self.change.file}:{self.change.line(self.slot.room.files[self.change.file])}"
        head = f"{verdict:8}  {self.change.id}  {self.seconds:4.0f} s  {self.change.operator:17}"
        return f"{head}  {place}  {self.ran}".rstrip()


def judged(copy: Copy, slot: Slot, tests_for: Callable[[Change], Selection]) -> Outcome:
    """Plant the first possible fault of a slot and run its tests.

    Returns
    -------
    Outcome
        The result of that fault.
    """
    began = time.monotonic()
    for skipped, change in enumerate(slot.changes):
        lucky, ran = False, Ran()
        try:
            if copy.plant([change]):
                continue
            selection = tests_for(change)
            for tests in selection.runs:
                ran = copy.run(tests)
                if ran.how:
                    lucky = selection.unrelated(ran.test) and alone(copy, selection, ran.test)
                    break
        finally:
            copy.restore()
        unsure = bool(ran.test) and not copy.passes(ran.test)
        seconds = time.monotonic() - began
        return Outcome(slot, change, ran, seconds, skipped, unsure, lucky, selection)
    raise SystemExit(f"faults: no change of {slot.room.name} compiles")


def alone(copy: Copy, selection: Selection, test: str) -> bool:
    """Whether no other test of the selection detects the planted fault."""
    return bool(test) and not any(copy.run(tests, test).how for tests in selection.runs)


def worked(
    slots: Sequence[Slot], copies: Sequence[Copy], select: Callable[[Slot, Change], Selection]
) -> list[Outcome]:
    """Judge the faults in several copies, and print each outcome.

    The selected tests run for each fault alone. The rest then runs once with all survivors planted,
    because it may take minutes. The tests that failed run for each survivor alone.
    """
    compiled_first = sorted(slots, key=lambda slot: slot.changes[0].file.endswith(".py"))

    def by_its_tests(copy: Copy, slot: Slot) -> Outcome:
        outcome = judged(copy, slot, lambda change: select(slot, change))
        print(outcome.line("not yet"), flush=True)
        return outcome

    outcomes = spread(copies, compiled_first, by_its_tests)
    survivors = [outcome for outcome in outcomes if not outcome.ran.how]
    failed = copies[0].sound(failed_of(copies[0], survivors, PROCESSES), PROCESSES)

    def by_the_rest(copy: Copy, outcome: Outcome) -> Outcome:
        if outcome.ran.how:
            return outcome
        near = outcome.selection.near if outcome.selection else ()
        slot = replace(outcome.slot, changes=[outcome.change])
        now = judged(copy, slot, lambda _: Selection([failed], near=near))
        now = replace(now, seconds=now.seconds + outcome.seconds, skipped=outcome.skipped)
        print(now.line(), flush=True)
        return now

    return spread(copies, outcomes, by_the_rest) if failed else outcomes


def failed_of(copy: Copy, survivors: Sequence[Outcome], workers: int) -> list[str]:
    """Plant faults together, and return which of the rest of their tests fail."""
    selections = [outcome.selection for outcome in survivors if outcome.selection]
    tests = list(dict.fromkeys(test for selection in selections for test in selection.rest))
    files = {test for test in tests if "::" not in test}
    tests = [test for test in tests if test in files or test.partition("::")[0] not in files]
    if not tests:
        return []
    print(f"{len(survivors)} faults meet {len(tests)} tests and test files together", flush=True)
    try:
        if copy.plant([outcome.change for outcome in survivors]):
            return tests  # not all can be planted together: all run for each
        return copy.failing(tests, workers)
    finally:
        copy.restore()


def record(table: TestsByLine, copy: Copy, files: list[str], seconds: float, workers: int) -> None:
    """Record test files that are new or changed, for as long as ``seconds`` allow, some at a time.

    Those that are left out run with the survivors.
    """
    end = time.monotonic() + seconds
    left = table.unrecorded(files, copy.tree)
    while left and time.monotonic() < end:
        some, left = left[:AT_ONCE], left[AT_ONCE:]
        print(f"recording {len(some)} test files; then {len(left)} more", flush=True)
        with tempfile.TemporaryDirectory(dir=HOME) as folder:
            copy.record(some, Path(folder), workers)
            copy.restore()
            table.add(Path(folder), copy.tree, copy.objects, some)


def spread(copies: Sequence[Copy], items: Sequence[T], work: Callable[[Copy, T], R]) -> list[R]:
    """Work on the items in all copies, a thread each; return the results in order."""
    numbers = queue.SimpleQueue[int]()
    for number in range(len(items)):
        numbers.put(number)
    results: dict[int, R] = {}
    failures: list[BaseException] = []

    def run(copy: Copy) -> None:
        try:
            while not failures:
                number = numbers.get_nowait()
                results[number] = work(copy, items[number])
        except queue.Empty:
            pass
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(copy,)) for copy in copies]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt as error:
        failures.append(error)
        for copy in copies:
            copy.stop()
    if failures:
        raise failures[0]
    return [results[number] for number in sorted(results)]


def as_entry(change: Change) -> str:
    """Return a change as a line of ``equivalent.jsonl``, with an empty reason."""
    return json.dumps([*change.key, ""], ensure_ascii=False)


def report(outcomes: Sequence[Outcome]) -> str:
    """Return the score by room, and the survivors, also as lines for ``equivalent.jsonl``."""
    drawn_by, caught_by = Counter[str](), Counter[str]()
    for outcome in outcomes:
        drawn_by[outcome.slot.room.name] += 1
        caught_by[outcome.slot.room.name] += bool(outcome.ran.how)
    lines = ["", "room                caught / drawn"]
    lines += [f"{room:18}  {caught_by[room]:6} / {drawn_by[room]}" for room in sorted(drawn_by)]
    skipped = sum(outcome.skipped for outcome in outcomes)
    lines.append(f"{'all':18}  {sum(caught_by.values()):6} / {len(outcomes)}")
    lines.append(f"{sum(outcome.lucky for outcome in outcomes)} of these caught by luck")
    lines.append(f"{skipped} more did not compile, or to the same")
    for outcome in outcomes:
        if not outcome.ran.how or outcome.lucky:
            change = outcome.change
            lines += ["", outcome.line(), *change.diff(outcome.slot.room.files[change.file])]
            lines.append(as_entry(change))
    return "\n".join(lines)


def chosen(options: argparse.Namespace) -> list[Slot]:
    """Return the requested faults."""
    rooms = rooms_of(ROOT)
    fields = fields_of(rooms)
    unknown = set(options.rooms) - {room.name for room in rooms}
    if unknown:
        raise SystemExit(
            f"faults: no room {', '.join(unknown)}: {', '.join(r.name for r in rooms)}"
        )
    chosen_rooms = [room for room in rooms if not options.rooms or room.name in options.rooms]
    if not options.only:
        return list(drawn(chosen_rooms, fields, options.count, options.seed))
    slots = [
        Slot(room, [change])
        for room in chosen_rooms
        for change in changes_of(room, fields)
        if change.id in options.only
    ]
    if len(slots) < len(options.only):
        raise SystemExit("faults: the sources have no fault of this id")
    return slots


def main() -> int:
    """Plant faults, and print which were caught."""
    parser = argparse.ArgumentParser(prog="faults", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--rooms", nargs="+", default=[], metavar="ROOM")
    parser.add_argument("--only", nargs="+", default=[], metavar="ID")
    parser.add_argument("--workers", type=int, default=2, help="copies, each built once")
    parser.add_argument(
        "--record-minutes", type=float, default=60, help="of the run that says which tests to run"
    )
    parser.add_argument("--list", action="store_true", help="show what is drawn first, and end")
    options = parser.parse_args()
    began = time.monotonic()
    slots = chosen(options)
    if options.list:
        for slot in slots:
            change = slot.changes[0]
            text = slot.room.files[change.file]
            place = f"{change.file}:{change.line(text)}"
            print(f"{change.id}  {slot.room.name}  {change.operator}  {place}")
            print("\n".join(change.diff(text)))
        return 0
    make_library()
    copies = [Copy(number + 1) for number in range(min(options.workers, len(slots)))]
    spread(copies, list(copies), lambda _, copy: copy.make())
    table = TestsByLine(HOME / "tests.db")
    root = copies[0].tree  # a test that is written meanwhile takes no part
    near = [tests_of(slot.room.name, slot.changes[0].file, root) for slot in slots]
    nearest_first = [file for turn in zip_longest(*near) for file in turn if file]
    all_files = all_tests(slots[0].changes[0].file, root, [])  # those that take long are last
    late = {file for file in all_files if any(part in file for part in SLOW_LAST)}
    files = sorted(dict.fromkeys([*nearest_first, *all_files]), key=lambda file: file in late)
    record(table, copies[0], files, 60 * options.record_minutes, PROCESSES)
    outcomes = worked(slots, copies, lambda slot, change: select(table, slot.room, change, root))
    print(report(outcomes))
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu_s = sum(usage.ru_utime + usage.ru_stime for usage in used)
    print(f"{(time.monotonic() - began) / 60:.1f} minutes, {cpu_s / 60:.1f} of a core")
    return 1 if any(outcome.unsure for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
