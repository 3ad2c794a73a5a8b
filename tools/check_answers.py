"""Compare the library's answers to 2,000 random and all golden logs with the recorded answers.

``python tools/check_answers.py [NAME ...]``: a name is a seed or a golden log; by default all.
``--record`` records the answers. ``--old DIR`` names a built checkout of the code that gave the
recorded answers: for each difference, the first differing line of both is shown. ``--show NUMBER``
prints one answer of a log.
"""

import argparse
import itertools
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.answers import recorded
from support.answers.named_logs import names


def old_answer(checkout, name, number):
    """Return the text of an answer as another checkout gives it."""
    command = [checkout / ".venv/bin/python", checkout / "tools/check_answers.py"]
    done = subprocess.run(
        [*command, name, "--show", str(number)], stdout=subprocess.PIPE, check=True
    )
    return done.stdout.decode("utf-8", "surrogateescape")


def first_difference(old, new):
    """Return the first differing line of two answers."""
    pairs = itertools.zip_longest(old.splitlines(), new.splitlines(), fillvalue="(nothing)")
    for number, (old_line, new_line) in enumerate(pairs, 1):
        if old_line != new_line:
            return f"    line {number}\n    old: {old_line}\n    new: {new_line}"
    return "    the same text: is that the checkout of the recorded answers?"


def check(chosen, jobs, limit, old):
    """Compare the answers, print the differences, and return the number of logs that differ."""
    expected, done, different = recorded.recorded(), 0, 0
    for name, found in recorded.all_answers(chosen, jobs):
        done += 1
        if found == expected.get(name):
            continue
        different += 1
        print(f"log {name}", flush=True)
        for number, what in recorded.differences(name, expected.get(name, ""), found):
            print(f"  {number}: {what}", flush=True)
            if old is not None and number is not None:
                now = recorded.one_answer(name, number)
                print(first_difference(old_answer(old, name, number), now), flush=True)
        if different == limit:
            break
    print(f"answers: {done:,} logs, {different:,} with another answer than is recorded")
    return different


def main():
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--show", type=int, metavar="NUMBER")
    parser.add_argument("--old", type=Path, metavar="DIR")
    parser.add_argument("--jobs", type=int, default=1, metavar="N")
    parser.add_argument("--most", type=int, default=10, metavar="N", help="that differ, then stop")
    options = parser.parse_args()
    chosen = options.names or names()
    if options.show is not None:
        text = recorded.one_answer(chosen[0], options.show)
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    elif options.record:
        recorded.record(chosen, options.jobs)
    else:
        sys.exit(check(chosen, options.jobs, options.most, options.old) > 0)


if __name__ == "__main__":
    main()
