"""Run every command over logs of real size: ``make large`` (``MB=`` of all large logs together).

The logs: one partition, whole and in segments of 1 MB; 50 partitions with 3,000 groups; one that
grows while it is read; the golden logs and incidents. A command must end as documented, and with
the same answer however a log is cut into segments, and on Spark. Large logs are read in several
parts, whatever their size.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]

import make_steady_log as steady  # noqa: E402
from coterie.cli import COMMANDS  # noqa: E402
from coterie.messages import partition_for  # noqa: E402
from support.answers.command_output import cut  # noqa: E402
from support.commandline import coterie  # noqa: E402

AT = "1700000300000"
TABLES = "--out OUT --engine local --overwrite"
NO_LOG = {"fetch", "serve", "designs", "trace"}  # commands that read no log
SERVERS = {"watch", "mcp"}  # end by a signal; tests/watch follows growing logs
COPIES = {"compare"}  # reads both cuts of the partition
LINES: dict[str, tuple[str, ...]] = {  # the options of each command that reads a log
    "replay": (f"{TABLES}", f"{TABLES} --history"),
    "groups": ("--list --state --format csv", "--describe --all-groups --format csv"),
    "explain": ("--format json",),
    "undo": (f"--all-groups --at {AT} --format json",),
    "expire": ("--format json", "--offsets --format json"),
    "growth": ("--format json",),
    "audit": ("--format json",),
    "lag": ("--end-offsets ENDS --format json",),
    "metrics": ("", "--format json"),
    "report": ("-o PAGE --overwrite",),
    "records": ("",),
    "verify": ("",),
    "rehearse": ("--to protocol=consumer --plays 1 --format json",),
}  # fmt: skip
OF_A_GROUP = {"records": 0, "groups": 1}  # which line takes --group; the others: the first
ONLY_A_GROUP = {"records", "rehearse"}  # all records: more than the log; all groups: not offered
WITHOUT_A_GROUP = {"replay", "verify"}
ON_SPARK = ("metrics", "audit", "expire")
PLACES = re.compile(r'"(file|position|segment)": ?("[^"]*"|\d+|null)')
SMALL_SEGMENT_BYTES = 1_000_000


class Run:
    """The commands that failed; prints a line for each step with its time."""

    def __init__(self, home: Path) -> None:
        self.home, self.failures, self.count = home, 0, 0
        (home / "ends").write_text("".join(f"orders:{n}:999999999\n" for n in range(64)))

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Time a step."""
        began, count = time.monotonic(), self.count
        yield
        print(
            f"{title}: {self.count - count} commands, {time.monotonic() - began:.1f} s", flush=True
        )

    def answer(self, log: Path, line: str) -> str:
        """Return what a command prints, without places in files; note if it fails."""
        names = {"OUT": self.home / "out", "PAGE": self.home / "page.html",
                 "ENDS": self.home / "ends"}  # fmt: skip
        name, *options = [str(names.get(word, word)) for word in line.split()]
        self.count += 1
        done = coterie(name, log, *options)
        if done.returncode not in (0, 1) or "Traceback" in done.stderr or (
                "fault of coterie" in done.stderr):  # fmt: skip
            self.fails(f"status {done.returncode}: {done.stderr.strip()[-300:]}", log, line)
        return f"{done.returncode}\n{PLACES.sub('', done.stdout)}"

    def fails(self, what: str, log: Path, line: str) -> None:
        """Print a failure with the command that shows it."""
        self.failures += 1
        print(f"FAILS  coterie {line.replace(' ', f' {log} ', 1)}\n       {what}", flush=True)


def lines(group: str | None) -> Iterator[str]:
    """Yield the lines of all commands, of all groups or of one."""
    for name, options in LINES.items():
        if group is None and name not in ONLY_A_GROUP:
            yield from (f"{name} {each}" for each in options)
        elif group is not None and name not in WITHOUT_A_GROUP:
            line = options[OF_A_GROUP.get(name, 0)].replace("--all-groups", "")
            yield f"{name} {line} --group {group}"


def one_partition(home: Path, size_bytes: int) -> tuple[Path, Path]:
    """Write a partition twice: as one segment, and as segments of 1 MB."""
    whole, small = home / "one" / "__consumer_offsets-0", home / "segments" / "__consumer_offsets-0"
    whole.mkdir(parents=True)
    small.mkdir(parents=True)
    written = small_end = 0
    with (whole / f"{0:020}.log").open("wb") as file:
        for data in steady.rounds(2000, 20):
            file.write(data)
            if not written or written >= small_end:
                name = f"{int.from_bytes(data[:8], 'big'):020}.log"
                small_end = written + SMALL_SEGMENT_BYTES
            with (small / name).open("ab") as segment:
                segment.write(data)
            written += len(data)
            if written >= size_bytes:
                return whole.parent, small.parent
    raise AssertionError("rounds never end")


def fifty_partitions(home: Path, size_bytes: int) -> Path:
    """Write 3,000 groups, each in the partition that its hash gives."""
    folder, groups = home / "fifty", 3000
    of = [partition_for(f"group-{number:06}", 50) for number in range(groups)]
    for number in range(50):
        (folder / f"__consumer_offsets-{number}").mkdir(parents=True)
    files = [(folder / f"__consumer_offsets-{n}" / f"{0:020}.log").open("ab") for n in range(50)]
    written = 0
    for data in steady.rounds(groups, 4):
        at = 0
        for number in range(groups):
            end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
            files[of[number]].write(data[at:end])
            at = end
        written += at
        if written >= size_bytes:
            break
    for file in files:
        file.close()
    return folder


@contextmanager
def growing(log: Path, home: Path) -> Iterator[Path]:
    """Append the rest of a log, batch by batch, while commands read what is there."""
    (source,) = log.glob("*/*.log")
    target = home / "growing" / source.parent.name / source.name
    target.parent.mkdir(parents=True)
    ends, stop = threading.Event(), threading.Event()
    with source.open("rb") as file:
        head = file.read(source.stat().st_size // 2)
        target.write_bytes(head)

        def append() -> None:
            with target.open("ab", buffering=0) as out:
                while not stop.is_set() and (data := file.read(50_000)):
                    out.write(data)
                    ends.wait(0.002)

        thread = threading.Thread(target=append)
        thread.start()
        try:
            yield target.parents[1]
        finally:
            stop.set()
            thread.join()


def golden() -> Iterator[Path]:
    """Yield the golden logs and incidents."""
    places = (ROOT / "tests/golden/logs", ROOT.parent / "shared/golden/incidents/logs")
    for place in places:
        yield from sorted(folder for folder in place.glob("*") if list(folder.glob("__consumer*")))
    yield from sorted((ROOT / "tests/golden/incidents").glob("*/log"))


def compared(run: Run, log: Path, other: Path, line: str) -> None:
    """Check that two cuts of a log have one answer."""
    if line.startswith(("replay", "report", "verify", "growth")):
        run.answer(other, line)  # names files, writes its answer, or knows the active segment
    elif run.answer(log, line) != run.answer(other, line):
        run.fails("another answer than of the log in one segment", other, line)


def main() -> int:
    """Run all steps; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, default=3000, help="of all large logs together")
    parser.add_argument("--spark", action="store_true", help="compare with Spark, too")
    options = parser.parse_args()
    unknown = set(COMMANDS) ^ (set(LINES) | NO_LOG | SERVERS | COPIES)
    assert not unknown, f"commands without a line here: {', '.join(sorted(unknown))}"
    home = Path(tempfile.mkdtemp(prefix="coterie-large-"))
    run, size = Run(home), options.mb * 1_000_000 // 3
    group = "group-000007"
    try:
        with run.step("logs"):
            one, segments = one_partition(home, size)
            fifty = fifty_partitions(home, size)
        parts = cut("threads", size) if size < 1_000_000_000 else nullcontext()
        with parts:
            with run.step("one partition, in one segment and in many"):
                for line in (*lines(None), *lines(group)):
                    compared(run, one, segments, line)
                run.answer(one, f"compare {segments} --format json")
            with run.step("50 partitions, 3,000 groups"):
                for line in (*lines(None), *lines(group)):
                    run.answer(fifty, line)
            with run.step("a log that grows"), growing(one, home) as log:
                for line in (*lines(None), *lines(group)):
                    run.answer(log, line)
        with run.step("golden logs and incidents"):
            for log in golden():
                for line in lines(None):
                    if not line.startswith("report"):
                        run.answer(log, line)
        if options.spark:
            with run.step("Spark"):
                for name in ON_SPARK:
                    line = f"{name} {LINES[name][-1]}"
                    if run.answer(fifty, line) != run.answer(fifty, f"{line} --engine spark"):
                        run.fails(
                            "another answer than of this process", fifty, f"{line} --engine spark"
                        )
    finally:
        shutil.rmtree(home)
    print(f"{run.count - run.failures} passed, {run.failures} failed")
    return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(main())
