"""The loads of ``run.py`` on ``coterie serve`` and on a warm broker of Kafka 3.9.1, in turn.

    python benchmarks/load/beside_kafka.py [--warm-s 60] [--seconds 5] [--rounds 5] [ROW ...]

Starts ``coterie serve`` and a broker by ``tests/support/broker/kafka_broker.py``, which needs a
JDK and Maven. The broker first gets each load for ``--warm-s`` seconds, so that its JVM has
compiled the code; then both get it in turn. Prints medians over the rounds: answers a second by
the clock, and a second of the server's CPU.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import run as loads

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

COMPARED = ("beats 100x8", "beats 1000x1", "commits 100x4")


def made_topics(broker):
    """Create what commits name, and the offsets topic: the first search for a coordinator does."""
    from support.broker import kafka_broker

    main = "org.apache.kafka.tools.TopicCommand"
    create = ["--bootstrap-server", broker.address, "--create", "--topic", "load"]
    subprocess.run(kafka_broker.java(main, *create, "--partitions", 10), check=True)
    reset = ["--group", "first", "--topic", "load", "--reset-offsets", "--to-earliest"]
    broker.groups_tool(*reset, "--execute")


def medians(found):
    """The median rate by the clock and by CPU, of the rounds of one server."""
    by_cpu = [one["answers"] / one["server_cpu_s"] for one in found]
    return statistics.median(one["per_s"] for one in found), statistics.median(by_cpu)


def main():
    from support.broker import kafka_broker

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(COMPARED))
    parser.add_argument("--warm-s", type=float, default=60.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = loads.build(folder)
        serve = [sys.executable, *loads.SERVE]
        with (
            kafka_broker.running_broker(Path(folder)) as broker,
            loads.running(serve) as pid,
        ):
            made_topics(broker)
            host, port = broker.address.rsplit(":", 1)
            servers = {
                "coterie serve": (loads.PORT, pid, "127.0.0.1"),
                "Kafka 3.9.1, warm": (port, broker.process.pid, host),
            }
            rows = options.rows or COMPARED
            for name in rows:
                work = loads.ROWS[name]
                warmed = loads.load(program, port, work, options.warm_s, broker.process.pid, host)
                print(f"warmed by {name}: {warmed['answers']:,} answers", flush=True)
            print("| load | server | answers/s | times | answers/CPU s | times |")
            print("| --- | --- | --- | --- | --- | --- |", flush=True)
            for name in rows:
                found = {server: [] for server in servers}
                for _ in range(options.rounds):
                    for server, (at, process, where) in servers.items():
                        work = loads.ROWS[name]
                        one = loads.load(program, at, work, options.seconds, process, where)
                        if one["errors"]:
                            raise SystemExit(f"{server}: {one['errors']} answers were errors")
                        found[server].append(one)
                slow, slow_by_cpu = medians(found["Kafka 3.9.1, warm"])
                for server, rounds in found.items():
                    rate, by_cpu = medians(rounds)
                    print(f"| {name} | {server} | {rate:,.0f} | {rate / slow:.2f} | "
                          f"{by_cpu:,.0f} | {by_cpu / slow_by_cpu:.2f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
