"""Plant faults in copies of the sources, and see which of them the tests catch.

    PYTHONPATH=tools python -m faults [--count 40] [--seed 7] [--rooms ROOM ...] [--only ID ...]

The seed draws the faults. Each is planted in a copy of the sources (``build/faults``), and the
tests of its room run. The faults that survive are planted together for one run of all suites but
``tests/clients``, ``tests/package`` and ``tests/site``; then the tests that failed run for each of
them alone. The test that caught a fault is run again without it. A fault that does not compile, or
compiles to the same code, is replaced by the next draw.
"""

from __future__ import annotations

import argparse
import json
import queue
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from faults.change import Change
from faults.copies import ROOT, Copy, Ran
from faults.draw import Slot, changes_of, drawn, fields_of
from faults.rooms import all_tests, rooms_of, tests_of

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Outcome:
    """The result of a fault, and how many draws before it could not be planted.

    It is unsure if the test that caught it also fails without it.
    """

    slot: Slot
    change: Change
    ran: Ran
    seconds: float
    skipped: int = 0
    unsure: bool = False

    def line(self, lives: str = "SURVIVED") -> str:
        """Return one line about it; ``lives`` is the verdict if no test has caught it."""
        verdict = "UNSURE" if self.unsure else "caught" if self.ran.how else lives
        place = f"{self.change.file}:{self.change.line(self.slot.room.files[self.change.file])}"
        head = f"{verdict:8}  {self.change.id}  {self.seconds:4.0f} s  {self.change.operator:17}"
        return f"{head}  {place}  {self.ran}".rstrip()


def judged(copy: Copy, slot: Slot, tests: list[str] | None = None) -> Outcome:
    """Plant the first possible fault of a slot and run tests; ``None`` means those of its room.

    Returns
    -------
    Outcome
        The result of that fault.
    """
    began = time.monotonic()
    for skipped, change in enumerate(slot.changes):
        try:
            if copy.plant([change]):
                continue
            chosen_tests = tests_of(slot.room.name, change.file, ROOT) if tests is None else tests
            ran = copy.run(chosen_tests)
        finally:
            copy.restore()
        unsure = bool(ran.test) and not copy.passes(ran.test)
        return Outcome(slot, change, ran, time.monotonic() - began, skipped, unsure)
    raise SystemExit(f"faults: no change of {slot.room.name} compiles")


def worked(slots: Sequence[Slot], workers: int) -> list[Outcome]:
    """Judge the faults in several copies, and print each outcome.

    The tests of its room run for each fault alone. All other tests then run once with all survivors
    planted, because the suites take minutes. The tests that failed run for each survivor alone.
    """
    copies = [Copy(number + 1) for number in range(workers)]
    spread(copies, list(copies), lambda _, copy: copy.make())
    compiled_first = sorted(slots, key=lambda slot: slot.changes[0].file.endswith(".py"))

    def in_its_room(copy: Copy, slot: Slot) -> Outcome:
        outcome = judged(copy, slot)
        print(outcome.line("its room lets live"), flush=True)
        return outcome

    outcomes = spread(copies, compiled_first, in_its_room)
    survivors = [outcome for outcome in outcomes if not outcome.ran.how]
    failed = failed_of(copies[0], [outcome.change for outcome in survivors], workers)

    def in_the_suites(copy: Copy, outcome: Outcome) -> Outcome:
        if outcome.ran.how:
            return outcome
        now = judged(copy, replace(outcome.slot, changes=[outcome.change]), failed)
        now = replace(now, seconds=now.seconds + outcome.seconds, skipped=outcome.skipped)
        print(now.line(), flush=True)
        return now

    return spread(copies, outcomes, in_the_suites) if failed else outcomes


def failed_of(copy: Copy, changes: Sequence[Change], workers: int) -> list[str]:
    """Plant faults together, and return which tests of all suites fail."""
    if not changes:
        return []
    print(f"{len(changes)} faults meet all suites together", flush=True)
    tests = all_tests(changes[0].file, ROOT, [])
    try:
        if copy.plant(changes):  # not all can be planted together: all tests run for each
            return tests
        return copy.failing(tests, workers)
    finally:
        copy.restore()


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
    """Return a change as ``equivalent.toml`` has it, without the reason."""
    names = ("file", "function", "operator", "was", "becomes")
    values = zip(names, change.key, strict=True)
    return "\n".join(
        ["[[equivalent]]", *(f"{name} = {json.dumps(value)}" for name, value in values)]
    )


def report(outcomes: Sequence[Outcome]) -> str:
    """Return the score by room, and the survivors, also as entries for ``equivalent.toml``."""
    drawn_by, caught_by = Counter[str](), Counter[str]()
    for outcome in outcomes:
        drawn_by[outcome.slot.room.name] += 1
        caught_by[outcome.slot.room.name] += bool(outcome.ran.how)
    lines = ["", "room                caught / drawn"]
    lines += [f"{room:18}  {caught_by[room]:6} / {drawn_by[room]}" for room in sorted(drawn_by)]
    skipped = sum(outcome.skipped for outcome in outcomes)
    lines.append(f"{'all':18}  {sum(caught_by.values()):6} / {len(outcomes)}")
    lines.append(f"{skipped} more did not compile, or to the same")
    for outcome in outcomes:
        if not outcome.ran.how:
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
    parser.add_argument("--list", action="store_true", help="show what is drawn first, and end")
    options = parser.parse_args()
    slots = chosen(options)
    if options.list:
        for slot in slots:
            change = slot.changes[0]
            text = slot.room.files[change.file]
            place = f"{change.file}:{change.line(text)}"
            print(f"{change.id}  {slot.room.name}  {change.operator}  {place}")
            print("\n".join(change.diff(text)))
        return 0
    outcomes = worked(slots, min(options.workers, len(slots)))
    print(report(outcomes))
    return 1 if any(outcome.unsure for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
