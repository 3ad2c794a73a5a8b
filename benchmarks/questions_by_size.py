"""How time and memory of each question grow with a partition, under a limit of memory.

    python benchmarks/questions_by_size.py DIR [--gb 1 5 20] [--engine local] [--limit-mb 1000]

Logs of ``make_steady_log.py`` are made in DIR unless they are there. Each question is a process
whose memory (its data: what no file stands behind) is limited; on Spark it is that of each
Python worker, by ``spark.executor.pyspark.memory``, and the table tells of those: the CPU time of
all, the peak of the largest. Prints a table as it goes. ``test_questions_bench.py`` measures one
size by the same functions, beside the fold; this chooses sizes, engine and limit.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from make_steady_log import BEGIN_MS, write

QUESTIONS = ("undo", "lag", "expire", "metrics", "growth", "audit", "explain", "report")
LOCAL = ("report",)
FORMATS = {"metrics": "prometheus", "report": "html"}
GROUPS, PARTITIONS = 2000, 50
LOOK_EVERY_S = 0.1


def options_of(question: str, home: Path, group: str | None = None) -> list[str]:
    """Return the options of a question, for all groups or for one."""
    options = [] if group is None else ["--group", group]
    if question == "undo":
        return ["--at", str(BEGIN_MS + 60_000), *(options or ["--all-groups"])]
    if question == "lag":
        ends = home / "ends.csv"
        lines = (f"orders,{number},99\n" for number in range(PARTITIONS))
        ends.write_text("topic,partition,offset\n" + "".join(lines))
        return ["--end-offsets", str(ends), *options]
    return options


def limited(limit_mb: int) -> None:
    """Limit the data of this process."""
    resource.setrlimit(resource.RLIMIT_DATA, (limit_mb << 20, limit_mb << 20))


class Cost(NamedTuple):
    """What an answer took: lines of it, seconds, megabytes of resident memory at the peak.

    On Spark the CPU time is that of all Python workers, the peak that of the largest.
    """

    lines: int
    cpu_s: float
    wall_s: float
    peak_mb: int


def ask(
    question: str,
    log: Path,
    out: Path,
    engine: str = "local",
    limit_mb: int = 1000,
    cores: int = 1,
    form: str | None = None,
    group: str | None = None,
) -> Cost:
    """Put a question in a process of its own, its answer into ``out``; return what it took."""
    form = form or FORMATS.get(question, "csv")
    options = [question, str(log), "--format", form, *options_of(question, out.parent, group)]
    options += ["--out", str(out), "--overwrite"]
    if question not in LOCAL:
        options += ["--engine", engine]
    if engine == "spark":
        memory = f"spark.executor.pyspark.memory={limit_mb}m"
        options += ["--master", f"local[{cores}]", "--conf", memory]
    command = [str(Path(sys.executable).parent / "coterie"), *options]
    on_spark = engine == "spark"
    cost = cost_of(command, None if on_spark else limit_mb, on_spark)
    with out.open("rb") as file:
        return cost._replace(lines=sum(1 for _ in file))


def cost_of(command: list[str], limit_mb: int | None = None, on_spark: bool = False) -> Cost:
    """Run a command as a process and return what it took, its children with it; no lines."""
    began = time.monotonic()
    limit = None if limit_mb is None else lambda: limited(limit_mb)
    with tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(command, stderr=stderr, preexec_fn=limit)
        workers = Workers(process.pid)
        while True:
            pid, status, used = os.wait4(process.pid, os.WNOHANG if on_spark else 0)
            if pid:
                break
            workers.look()
            time.sleep(LOOK_EVERY_S)
        wall = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)  # it was waited for behind its back
        stderr.seek(0)
        lines = stderr.read().decode().strip().splitlines()
    if process.returncode not in (0, 1):  # 1: there are findings
        raise RuntimeError(f"{command[:2]}: {lines[-1] if lines else process.returncode}")
    cpu, peak = used.ru_utime + used.ru_stime, used.ru_maxrss >> 10
    if on_spark:
        cpu, peak = sum(workers.cpu.values()), max(workers.peak.values(), default=0) >> 10
    return Cost(0, cpu, wall, peak)


def row_of(question: str, log: Path, options: argparse.Namespace) -> str:
    """Put a question and return its row of the table."""
    out = options.dir / f"{question}.out"
    try:
        cost = ask(question, log, out, options.engine, options.limit_mb, options.cores)
    except RuntimeError as failure:
        return f"| {question} | failed: {failure} |"
    figures = f"{cost.cpu_s:.0f} s | {cost.wall_s:.0f} s | {cost.peak_mb} MB"
    return f"| {question} | {cost.lines:,} | {figures} |"


class Workers:
    """Spark's Python workers below a process: their CPU time and peak memory so far, by pid."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.cpu: dict[int, float] = {}
        self.peak: dict[int, int] = {}  # KiB

    def look(self) -> None:
        """Look at those there are."""
        parents: dict[int, int] = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                stat = (folder / "stat").read_text().rpartition(")")[2].split()
                pid = int(folder.name)
                parents[pid] = int(stat[1])
                if b"pyspark.daemon" not in (folder / "cmdline").read_bytes():  # not the JVM
                    continue
                status = (folder / "status").read_text()
            except (OSError, ValueError):  # it has ended
                continue
            if self.is_below(pid, parents) and "VmHWM:" in status:
                ticks = int(stat[11]) + int(stat[12])
                self.cpu[pid] = ticks / os.sysconf("SC_CLK_TCK")
                self.peak[pid] = int(status.partition("VmHWM:")[2].split()[0])

    def is_below(self, pid: int, parents: dict[int, int]) -> bool:
        """Whether a process is a descendant of ours."""
        while pid > 1 and pid != self.pid:
            if pid not in parents:
                stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                parents[pid] = int(stat[1])
            pid = parents[pid]
        return pid == self.pid


def main() -> None:
    """Make the logs, and put every question to each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", type=Path)
    parser.add_argument("--gb", type=float, nargs="+", default=[1, 5, 20])
    parser.add_argument("--engine", choices=["local", "spark"], default="local")
    parser.add_argument("--limit-mb", type=int, default=1000)
    parser.add_argument("--cores", type=int, default=1, help="of Spark")
    parser.add_argument("--questions", nargs="+", choices=QUESTIONS, default=QUESTIONS)
    options = parser.parse_args()
    for size in options.gb:
        log = options.dir / f"steady-{size:g}"
        if not log.exists():
            write(log / "__consumer_offsets-0", int(size * 1e9), GROUPS, PARTITIONS)
        print(f"\n{size:g} GB, {options.engine}, at most {options.limit_mb} MB of data:\n")
        print("| question | lines | CPU | wall | peak resident, with the mapped segment |")
        print("| --- | --- | --- | --- | --- |", flush=True)
        for question in options.questions:
            if question in LOCAL and options.engine != "local":
                continue
            row = row_of(question, log, options)
            print(row, flush=True)


if __name__ == "__main__":
    main()
