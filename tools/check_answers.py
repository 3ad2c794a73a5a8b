"""Check what the library answers to 2,000 random and all golden logs against what is recorded.

``python tools/check_answers.py [NAME ...]``: a name is a seed or a golden log; without one, all.
``--record`` records them anew. ``--old DIR`` names a checkout of the code that gave the recorded
answers, built there: of each difference it shows the first line of both. ``--show NUMBER`` prints
one answer of a log.
"""

import argparse
import itertools
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.answers import recorded
from support.answers.asked_logs import names


def old_answer(checkout, name, number):
    """Return the text of an answer as another checkout gives it."""
    command = [checkout / ".venv/bin/python", checkout / "tools/check_answers.py"]
    done = subprocess.run(
        [*command, name, "--show", str(number)], stdout=subprocess.PIPE, check=True
    )
    return done.stdout.decode("utf-8", "surrogateescape")


def first_difference(old, new):
    """Return the first line in which two answers differ, of both."""
    pairs = itertools.zip_longest(old.splitlines(), new.splitlines(), fillvalue="(nothing)")
    for number, (one, other) in enumerate(pairs, 1):
        if one != other:
            return f"    line {number}\n    old: {one}\n    new: {other}"
    return "    the same text: is that the checkout of the recorded answers?"


def check(chosen, jobs, most, old):
    """Compare, say what differs, and return how many logs do."""
    expected, done, wrong = recorded.recorded(), 0, 0
    for name, found in recorded.all_answers(chosen, jobs):
        done += 1
        if found == expected.get(name):
            continue
        wrong += 1
        print(f"log {name}", flush=True)
        for number, what in recorded.differences(name, expected.get(name, ""), found):
            print(f"  {number}: {what}", flush=True)
            if old is not None and number is not None:
                now = recorded.one_answer(name, number)
                print(first_difference(old_answer(old, name, number), now), flush=True)
        if wrong == most:
            break
    print(f"answers: {done:,} logs, {wrong:,} with another answer than is recorded")
    return wrong


def main():
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--show", type=int, metavar="NUMBER")
    parser.add_argument("--old", type=Path, metavar="DIR")
    parser.add_argument("--jobs", type=int, default=1, metavar="N")
    parser.add_argument("--most", type=int, default=10, metavar="N", help="that differ, then stop")
    given = parser.parse_args()
    chosen = given.names or names()
    if given.show is not None:
        text = recorded.one_answer(chosen[0], given.show)
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    elif given.record:
        recorded.record(chosen, given.jobs)
    else:
        sys.exit(check(chosen, given.jobs, given.most, given.old) > 0)


if __name__ == "__main__":
    main()
