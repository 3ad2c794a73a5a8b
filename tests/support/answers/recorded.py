"""The recorded answers and today's, as digests.

``recorded.txt`` has a line for each log: its name, a digest of the log and its command lines, and a
digest of each answer.
"""

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from .command_output import DIGEST_LETTERS, command_output, digest
from .named_logs import opened

RECORDED = Path(__file__).parents[2] / "answers" / "recorded.txt"
AT_ONCE = 200


def answers(name):
    """Return the digests of a log: its own, and one for each answer."""
    with opened(name) as (home, size, log_digest, lines):
        outputs = (command_output(home, "log", size, *line) for line in lines)
        return digest(log_digest) + "".join(map(digest, outputs))


def all_answers(names, jobs):
    """Yield (name, answers) of each log in order, computed by ``jobs`` processes."""
    if jobs == 1:
        yield from ((name, answers(name)) for name in names)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from zip(names, pool.map(answers, names, chunksize=4), strict=True)


def one_answer(name, number):
    """Return the text of an answer."""
    with opened(name) as (home, size, _, lines):
        return command_output(home, "log", size, *lines[number])


def recorded():
    """Return name -> recorded digests."""
    rows = RECORDED.read_text(encoding="ascii").splitlines()
    return dict(row.split(" ") for row in rows)


def record(names, jobs):
    """Record the answers of logs in groups; the records of other logs are unchanged."""
    rows = recorded() if RECORDED.exists() else {}
    for first in range(0, len(names), AT_ONCE):
        rows |= all_answers(names[first : first + AT_ONCE], jobs)
        ordered = sorted(rows, key=lambda name: (name.isdigit(), len(name) * name.isdigit(), name))
        lines = [f"{name} {rows[name]}\n" for name in ordered]
        RECORDED.write_text("".join(lines), encoding="ascii")


def differences(name, expected, actual):
    """Yield the number and the command of each differing answer; None if the log differs."""
    width = DIGEST_LETTERS
    if actual[:width] != expected[:width]:
        yield None, "the log or its command lines differ: the generator or its writers changed"
        return
    with opened(name) as (*_, lines):
        for number, (mode, line) in enumerate(lines):
            at = slice(width * (number + 1), width * (number + 2))
            if expected[at] != actual[at]:
                yield number, f"coterie {' '.join(line)}  (read as {mode})"
