"""A small log on Spark beside an empty session that counts a range and ends, run in turn.

    python benchmarks/small_on_spark.py [--rounds 5] [--master local[2]] [--log DIR] [--json]

Each is a process of its own, from its start to its end: the wall clock, and the CPU time of the
process with its JVM. On a busy machine the CPU time says more. Prints a table of medians; with
``--json`` each round's seconds by the clock and of CPU, for ``test_small_bench.py``.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

LOG = Path(__file__).parents[1] / "tests/golden/logs/basic"
PR_SET_CHILD_SUBREAPER = 36  # so that a JVM whose parent ended is this process's to wait for
EMPTY = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master({master!r}).config("spark.ui.enabled", "false").getOrCreate()
assert spark.range(1_000_000).count() == 1_000_000
spark.stop()
"""


def once(command: list[str]) -> tuple[float, float]:
    """Run a command; return seconds by the clock, and seconds of CPU, its JVM's among them."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    wall_s = time.perf_counter() - began
    with suppress(ChildProcessError):
        while True:
            os.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def in_turn(rounds: int, master: str, log: Path) -> dict[str, list[tuple[float, float]]]:
    """Run both in turn; return what ``once`` says of each round."""
    empty = [sys.executable, "-c", EMPTY.format(master=master)]
    found: dict[str, list[tuple[float, float]]] = {"an empty session that counts": [], "replay": []}
    with tempfile.TemporaryDirectory() as home:
        for number in range(rounds):
            out = f"{home}/{number}"
            replay = [sys.executable, "-m", "coterie", "replay", str(log), "--out", out]
            commands = empty, [*replay, "--engine", "spark", "--master", master]
            for name, command in zip(found, commands, strict=True):
                found[name].append(once(command))
    return found


def main() -> None:
    """Run both in turn and tell of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--log", type=Path, default=LOG)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    runs_by_name = in_turn(options.rounds, options.master, options.log)
    if options.json:
        print(json.dumps(runs_by_name))
        return
    print("| median of", options.rounds, "| wall | CPU |")
    print("| --- | --- | --- |")
    for name, runs in runs_by_name.items():
        wall_s, cpu_s = (statistics.median(column) for column in zip(*runs, strict=True))
        print(f"| {name} | {wall_s:.1f} s | {cpu_s:.1f} s |")


if __name__ == "__main__":
    main()
