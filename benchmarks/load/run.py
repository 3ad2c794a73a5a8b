"""Load on ``coterie serve`` and on servers that only answer: requests a second, and a CPU second.

    python benchmarks/load/run.py [--seconds 5] [--kafka 4.4] [ROW ...]
    python benchmarks/load/run.py --address HOST:PORT --pid PID [ROW ...]
    python benchmarks/load/run.py "life 1000" [--hours 24]

Builds ``load.c`` with the C compiler, starts each server in a process of its own, and prints a
line of a table for each. ``--address``: loads this server instead, Kafka's broker or another, which
needs a topic ``load`` of ten partitions for commits; ``--pid`` is its process. ``life`` is a
virtual life of so many groups of one member, each of which sends a heartbeat every three seconds.

With one request in flight on each of 1,000 connections, a read brings one request, and the event
loop is the limit: ``coterie serve`` reaches 83 % of a Python server that only splits frames. With
eight in flight, ``_core/fast_path/dispatch.pyx`` answers all requests of a read in one call.
kfake's commits are not comparable, as it refuses them without a member.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROWS = {  # name -> work, connections, in flight, members a group
    "beats 100x8": ("beats", 100, 8, 1),
    "beats 1000x1": ("beats", 1000, 1, 1),
    "commits 100x4": ("commits", 100, 4, 1),
    "herd 500": ("herd", 500, 1, 500),
    "life 1000": ("life", 1000, 1, 1),
}
PORT, CONTROL = 19092, 19093
HOUR_S = 3600
SERVE = ["-m", "coterie", "serve", "--listen", f"127.0.0.1:{PORT}", "--topic", "load:10",
         "--set", "group.initial.rebalance.delay.ms=0",
         "--set", "offsets.topic.num.partitions=4"]  # fmt: skip

ALIVE = ["--clock", "virtual", "--control", f"127.0.0.1:{CONTROL}"]


def build(folder):
    """Compile the generator; its path."""
    program = Path(folder) / "load"
    compiler = os.environ.get("CC", "cc")
    options = ["-O2", "-std=c11", "-Wall", "-Wextra", "-o", program, HERE / "load.c"]
    subprocess.run([compiler, *options], check=True)
    return program


@contextlib.contextmanager
def running(command):
    """Start a server and wait for the line that says it listens."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stdout:
                if line.startswith(("ready", "listening")):
                    break
            yield process.pid
        finally:
            process.terminate()


def load(program, port, row, seconds, pid, host="127.0.0.1"):
    """Give one load; what the generator says of it."""
    work, connections, in_flight, members = row
    given = [host, port, work, connections, in_flight, seconds, members, pid, CONTROL]
    done = subprocess.run([program, *map(str, given)], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"the load {work} on {host}:{port} ended with {done.returncode}")
    return json.loads(done.stdout)


def show(name, server, told):
    """Print a line of the table."""
    cpu = told["server_cpu_s"]
    if told["work"] == "herd":
        print(f"| {name} | {server} | all synced after {told['seconds']:.2f} s, {told['errors']} "
              f"put out | {cpu:.2f} s | | |")  # fmt: skip
        return
    if told["work"] == "life":
        print(f"| {name} | {server} | {told['answers']:,} heartbeats in {told['seconds']:.1f} s | "
              f"{cpu:.1f} s, generator {told['own_cpu_s']:.1f} s | | |")  # fmt: skip
        if told["errors"]:
            raise SystemExit(f"{told['errors']} answers were errors")
        return
    each = f"{told['answers'] / cpu:,.0f}" if cpu else ""
    print(f"| {name} | {server} | {told['per_s']:,} | {each} | {told['p50_us'] / 1000:.2f} | "
          f"{told['p99_us'] / 1000:.2f} |", flush=True)  # fmt: skip
    if told["errors"]:
        raise SystemExit(f"{told['errors']} answers were errors")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--hours", type=float, default=1.0, help="of a virtual life")
    parser.add_argument("--kafka", default="3.9", help="the release that coterie serve follows")
    parser.add_argument("--address", metavar="HOST:PORT")
    parser.add_argument("--pid", type=int, default=0)
    args = parser.parse_args()
    print("| load | server | answers/s | answers/CPU s | median ms | 99 % ms |")
    print("| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        program = build(folder)
        fixed = {
            "fixed, C: the generator's ceiling": [program, "fixed", PORT],
            "fixed, Python": [sys.executable, HERE / "fixed_server.py", PORT],
        }
        for name in args.rows or ROWS:
            row = ROWS[name]
            if args.address:
                host, port = args.address.rsplit(":", 1)
                show(name, args.address, load(program, port, row, args.seconds, args.pid, host))
                continue
            if row[0] == "beats":
                for server, command in fixed.items():
                    with running([*map(str, command)]) as pid:
                        told = load(program, PORT, ("plain", *row[1:]), args.seconds, pid)
                    show(name, server, told)
            beside, seconds = ["--kafka", args.kafka], args.seconds
            if row[0] == "life":
                beside, seconds = [*beside, *ALIVE], args.hours * HOUR_S
            with running([sys.executable, *SERVE, *beside]) as pid:
                show(name, "coterie serve", load(program, PORT, row, seconds, pid))


if __name__ == "__main__":
    main()
