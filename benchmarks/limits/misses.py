"""Cache misses of a timer's operations, counted by valgrind's model of this machine's caches.

    python benchmarks/limits/misses.py [TIMERS]

Runs a small program with and without the operation and divides what it adds by the timers. A
model, as virtual machines seldom hand out the processor's own counters: no prefetching, so what a
prefetch hides is counted as well. With caches of 32 KiB and 32 MiB, of 1,000,000 timers:

    a timer             instructions   first level   last level
    re-arm, in order           47.91          0.78         0.68
    re-arm, all over           47.16          1.78         1.29
    fire                       59.46          3.73         1.12
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

CACHES = ["--D1=32768,8,64", "--LL=33554432,16,64"]
PROGRAM = """
import sys
import numpy as np
from coterie import TimerWheel
from test_timers_bench import SPAN_MS, deadlines_of, order_of
work, timers = sys.argv[1], int(sys.argv[2])
first, later = deadlines_of(timers, 0), SPAN_MS + deadlines_of(timers, 7)
wheel = TimerWheel()
handles = wheel.add_many(first, np.arange(timers))
shuffled = order_of(timers, True)
moved, later_moved = handles[shuffled], later[shuffled]
if work == "re-arm, in order":
    wheel.rearm_many(handles, later)
elif work == "re-arm, all over":
    wheel.rearm_many(moved, later_moved)
elif work == "fire":
    wheel.advance(SPAN_MS)
"""
WORKS = ["re-arm, in order", "re-arm, all over", "fire"]
COUNTERS = {"instructions": ["Ir"], "first level": ["D1mr", "D1mw"], "last level": ["DLmr", "DLmw"]}


def counted(work, timers):
    """Counter by name of one run."""
    with TemporaryDirectory() as folder:
        out = Path(folder, "counts")
        command = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", *CACHES]
        command += [
            f"--cachegrind-out-file={out}",
            sys.executable,
            "-c",
            PROGRAM,
            work,
            str(timers),
        ]
        path = str(Path(__file__).parent.parent)
        environment = os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": path}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            raise SystemExit(f"valgrind: {done.stderr.strip().splitlines()[-1]}")
        lines = out.read_text().splitlines()
    names = next(line for line in lines if line.startswith("events:")).split()[1:]
    totals = next(line for line in lines if line.startswith("summary:")).split()[1:]
    return dict(zip(names, map(int, totals), strict=True))


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description="cache misses of a timer's operations")
    parser.add_argument("timers", nargs="?", type=int, default=1_000_000)
    timers = parser.parse_args().timers
    if timers < 1:
        parser.error(f"timers must be at least 1, not {timers}")
    if shutil.which("valgrind") is None:
        print("valgrind is not installed: it counts the misses", file=sys.stderr)
        return 1
    nothing = counted("nothing", timers)
    print(f"| {timers:,} timers | {' | '.join(COUNTERS)} |")
    print(f"| --- |{' --- |' * len(COUNTERS)}")
    for work in WORKS:
        found = counted(work, timers)
        added = [sum(found[n] - nothing[n] for n in names) for names in COUNTERS.values()]
        print(f"| {work} | {' | '.join(f'{one / timers:.2f}' for one in added)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
