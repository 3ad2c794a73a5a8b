"""How time and memory of each question grow with a partition, under a limit of memory.

    python benchmarks/questions_by_size.py DIR [--gb 1 5 20] [--engine local] [--limit-mb 1000]

Logs of ``make_steady_log.py`` are made in DIR unless they are there. Each question is a process
whose memory (its data: what no file stands behind) is limited; on Spark it is that of each
Python worker, by ``spark.executor.pyspark.memory``, and the table tells of those: the CPU time of
all, the peak of the largest. Prints a table as it goes.
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

from make_steady_log import BEGIN_MS, write

QUESTIONS = ("undo", "lag", "expire", "metrics", "growth", "audit", "explain", "report")
LOCAL = ("report",)
FORMATS = {"metrics": "prometheus", "report": "html"}
GROUPS, PARTITIONS = 2000, 50
LOOK_EVERY_S = 0.1


def options_of(question: str, home: Path) -> list[str]:
    """Return what a question has to be told."""
    if question == "undo":
        return ["--at", str(BEGIN_MS + 60_000), "--all-groups"]
    if question == "lag":
        ends = home / "ends.csv"
        ends.write_text("topic,partition,offset\n" + "".join(f"orders,{n},99\n" for n in range(3)))
        return ["--end-offsets", str(ends)]
    return []


def limited(limit_mb: int) -> None:
    """Limit the data of this process."""
    resource.setrlimit(resource.RLIMIT_DATA, (limit_mb << 20, limit_mb << 20))


def asked(question: str, log: Path, given: argparse.Namespace) -> str:
    """Put a question and return its row of the table."""
    home, engine, limit_mb = given.dir, given.engine, given.limit_mb
    out = home / f"{question}.out"
    form = ["--format", FORMATS.get(question, "csv")]
    options = [question, str(log), *form, *options_of(question, home)]
    options += ["--out", str(out), "--overwrite"]
    if question not in LOCAL:
        options += ["--engine", engine]
    if engine == "spark":
        memory = f"spark.executor.pyspark.memory={limit_mb}m"
        options += ["--master", f"local[{given.cores}]", "--conf", memory]
    command = [str(Path(sys.executable).parent / "coterie"), *options]
    began = time.monotonic()
    limit = (lambda: limited(limit_mb)) if engine == "local" else None
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stderr=said, preexec_fn=limit)
        workers = Workers(process.pid)
        while True:
            pid, status, used = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            workers.look()
            time.sleep(LOOK_EVERY_S)
        said.seek(0)
        lines = said.read().decode().strip().splitlines()
    wall = time.monotonic() - began
    if os.waitstatus_to_exitcode(status) > 1:
        return f"| {question} | failed: {lines[-1]} |"
    with out.open("rb") as file:
        rows = sum(1 for _ in file)
    cpu, peak = used.ru_utime + used.ru_stime, used.ru_maxrss >> 10
    if engine == "spark":
        cpu, peak = sum(workers.cpu.values()), max(workers.peak.values(), default=0) >> 10
    return f"| {question} | {rows:,} | {cpu:.0f} s | {wall:.0f} s | {peak} MB |"


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
    given = parser.parse_args()
    for size in given.gb:
        log = given.dir / f"steady-{size:g}"
        if not log.exists():
            write(log / "__consumer_offsets-0", int(size * 1e9), GROUPS, PARTITIONS)
        print(f"\n{size:g} GB, {given.engine}, at most {given.limit_mb} MB of data:\n")
        print("| question | lines | CPU | wall | peak resident, with the mapped segment |")
        print("| --- | --- | --- | --- | --- |", flush=True)
        for question in given.questions:
            if question in LOCAL and given.engine != "local":
                continue
            row = asked(question, log, given)
            print(row, flush=True)


if __name__ == "__main__":
    main()
