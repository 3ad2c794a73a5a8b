"""How time and memory of each question grow with a partition, under a limit of memory.

    python benchmarks/questions_by_size.py DIR [--gb 1 5 20] [--engine local] [--limit-mb 1000]

Logs of ``make_steady_log.py`` are made in DIR unless they are there. Each question is a process
whose memory (its data: what no file stands behind) is limited; on Spark it is that of the
Python worker, by ``spark.executor.pyspark.memory``. Prints a table as it goes.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from make_steady_log import BEGIN_MS, write

QUESTIONS = ("undo", "lag", "expire", "metrics", "growth", "audit", "explain")
GROUPS, PARTITIONS = 2000, 50


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


def asked(question: str, log: Path, home: Path, engine: str, limit_mb: int) -> str:
    """Put a question and return its row of the table."""
    out = home / f"{question}.out"
    form = ["--format", "prometheus" if question == "metrics" else "csv"]
    given = [question, str(log), *form, "--engine", engine, *options_of(question, home)]
    given += ["--out", str(out), "--overwrite"]
    if engine == "spark":
        given += ["--master", "local[1]", "--conf", f"spark.executor.pyspark.memory={limit_mb}m"]
    command = [str(Path(sys.executable).parent / "coterie"), *given]
    began = time.monotonic()
    limit = (lambda: limited(limit_mb)) if engine == "local" else None
    process = subprocess.Popen(command, stderr=subprocess.PIPE, preexec_fn=limit)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    wall = time.monotonic() - began
    if os.waitstatus_to_exitcode(status) > 1:
        return f"| {question} | failed: {said.decode().strip().splitlines()[-1]} |"
    with out.open("rb") as file:
        rows = sum(1 for _ in file)
    cpu = used.ru_utime + used.ru_stime
    return f"| {question} | {rows:,} | {cpu:.0f} s | {wall:.0f} s | {used.ru_maxrss >> 10} MB |"


def main() -> None:
    """Make the logs, and put every question to each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", type=Path)
    parser.add_argument("--gb", type=float, nargs="+", default=[1, 5, 20])
    parser.add_argument("--engine", choices=["local", "spark"], default="local")
    parser.add_argument("--limit-mb", type=int, default=1000)
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
            row = asked(question, log, given.dir, given.engine, given.limit_mb)
            print(row, flush=True)


if __name__ == "__main__":
    main()
