"""What is recorded of each log, and what is said of it now, as digests.

``recorded.txt`` has a line for each log: its name, a digest of the log and of what is asked, and
then one of each answer.
"""

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from .asked_logs import opened
from .telling import DIGEST_LETTERS, digest, told

RECORDED = Path(__file__).parents[2] / "answers" / "recorded.txt"
AT_ONCE = 200


def answers(name):
    """Return what is to be recorded of a log."""
    with opened(name) as (home, size, asked, lines):
        return digest(asked) + "".join(digest(told(home, "log", size, *one)) for one in lines)


def all_answers(names, jobs):
    """Yield (name, answers) of each log, in order, from so many processes."""
    if jobs == 1:
        yield from ((name, answers(name)) for name in names)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from zip(names, pool.map(answers, names, chunksize=4), strict=True)


def one_answer(name, number):
    """Return the text of an answer."""
    with opened(name) as (home, size, _, lines):
        return told(home, "log", size, *lines[number])


def recorded():
    """Return name -> what is recorded of it."""
    rows = RECORDED.read_text(encoding="ascii").splitlines()
    return dict(row.split(" ") for row in rows)


def record(names, jobs):
    """Record the answers of logs, some at a time; of others what is recorded stays."""
    kept = recorded() if RECORDED.exists() else {}
    for first in range(0, len(names), AT_ONCE):
        kept |= all_answers(names[first : first + AT_ONCE], jobs)
        ordered = sorted(kept, key=lambda name: (name.isdigit(), len(name) * name.isdigit(), name))
        lines = [f"{name} {kept[name]}\n" for name in ordered]
        RECORDED.write_text("".join(lines), encoding="ascii")


def differences(name, expected, found):
    """Yield the number and the command of each answer that differs; None: the log does."""
    width = DIGEST_LETTERS
    if found[:width] != expected[:width]:
        yield None, "the log, or what is asked of it, is another: by the generator or its writers"
        return
    with opened(name) as (*_, lines):
        for number, (mode, line) in enumerate(lines):
            at = slice(width * (number + 1), width * (number + 2))
            if expected[at] != found[at]:
                yield number, f"coterie {' '.join(line)}  (read as {mode})"
