"""Other clients' latencies beside readers of large fetches, on ``coterie serve`` and on Kafka.

    python benchmarks/load/beside_readers.py [--seconds 8] [--rounds 3] [--alone] [ROW ...]

Fills a partition of each server with the same batches of 16 KB. Then, in turn, one client sends a
heartbeat each millisecond while 1 or 20 readers ask for 50 MB and never read, or while 4 readers
read such fetches without a pause (``readers.c``). Needs a JDK and Maven for the broker of Kafka
3.9.1; ``--alone`` does without. Two more servers only copy bytes of their memory into sockets
(``fixed_fetches.py``), one with send buffers as the system chooses them, one with Kafka's; the
broker sends those of a file without a copy. Prints medians over the rounds, and the worst latency
of all.
Memory is what the resident set of the server grew by at most.
"""

import argparse
import contextlib
import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import run as loads

from coterie import wire
from coterie._core.codec.batch import encode_batch

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

ROWS = {  # name -> silent readers, honest readers
    "alone": (0, 0),
    "1 never reads": (1, 0),
    "20 never read": (20, 0),
    "4 read": (0, 4),
}
KEY = {api.name: api.key for api in wire.APIS.values()}
TOPIC, FETCH_BYTES, MB = "readers", 50 << 20, 1 << 20
RECORDS, VALUE = 16, os.urandom(1000)  # of a batch
IN_FLIGHT = 20
FIXED = {"only copies": (19094,), "only copies, Kafka's buffers": (19095, 102400)}


def build(folder):
    program = Path(folder) / "readers"
    options = ["-O2", "-std=c11", "-Wall", "-Wextra", "-pthread", "-o", program]
    subprocess.run(
        [os.environ.get("CC", "cc"), *options, Path(__file__).parent / "readers.c"], check=True
    )
    return program


def framed(api, version, body):
    frame = wire.encode_request(KEY[api], version, body, correlation_id=1, client_id="readers")
    return struct.pack(">i", len(frame)) + frame


def fetching():
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": FETCH_BYTES}
    return {"replicaId": -1, "maxWaitMs": 100, "minBytes": 1, "maxBytes": FETCH_BYTES,
            "topics": [{"topic": TOPIC, "partitions": [partition]}]}  # fmt: skip


class Client:
    """A blocking connection."""

    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port))
        self.file = self.socket.makefile("rb")

    def send(self, api, version, body):
        self.socket.sendall(framed(api, version, body))

    def response(self, api, version):
        (size,) = struct.unpack(">i", self.file.read(4))
        return wire.decode_response(KEY[api], version, self.file.read(size)).body

    def ask(self, api, version, body):
        self.send(api, version, body)
        return self.response(api, version)


def fill(host, port, size_mb):
    """Create the topic and write batches of 16 KB into its only partition."""
    client = Client(host, port)
    topic = {"name": TOPIC, "numPartitions": 1, "replicationFactor": 1}
    created = client.ask("CreateTopics", 5, {"topics": [topic], "timeoutMs": 10_000})
    assert created["topics"][0]["errorCode"] == 0, created
    now_ms = time.time_ns() // 1_000_000  # retention deletes old records
    batch = encode_batch([(n, now_ms, None, VALUE) for n in range(RECORDS)])
    rows = [{"name": TOPIC, "partitionData": [{"index": 0, "records": batch}]}]
    body = {"acks": -1, "timeoutMs": 10_000, "topicData": rows}

    def error(response):
        return response["responses"][0]["partitionResponses"][0]["errorCode"]

    while error(client.ask("Produce", 7, body)):
        time.sleep(0.1)  # a broker takes a moment to lead a new partition
    count = size_mb * MB // len(batch)
    for number in range(count + IN_FLIGHT):
        if number < count:
            client.send("Produce", 7, body)
        if number >= IN_FLIGHT:
            assert not error(client.response("Produce", 7))


def measure(program, folder, host, port, row, seconds, pid):
    beat, fetch = Path(folder) / "beat", Path(folder) / "fetch"
    body = {"groupId": "readers", "generationId": 1, "memberId": "nobody"}
    beat.write_bytes(framed("Heartbeat", 3, body))
    fetch.write_bytes(framed("Fetch", 12, fetching()))
    given = [program, host, port, beat, fetch, *row, seconds, pid]
    done = subprocess.run([*map(str, given)], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"the readers of {host}:{port} ended with {done.returncode}")
    return json.loads(done.stdout)


def show(name, server, rounds):
    def median(of):
        return statistics.median(of(one) for one in rounds)

    memory = max(one["highest_kb"] - one["before_kb"] for one in rounds) / 1024
    cells = [
        f"{median(lambda one: one['p50_ms']):.2f}",
        f"{median(lambda one: one['p99_ms']):.2f}",
        f"{max(one['most_ms'] for one in rounds):.1f}",
        f"{memory:.0f}",
    ]
    if rounds[0]["bytes"]:
        cells.append(f"{median(lambda one: one['bytes'] / one['seconds']) / 1e6:,.0f}")
        cells.append(f"{median(lambda one: one['bytes'] / one['server_cpu_s']) / 1e6:,.0f}")
    else:
        cells += ["", ""]
    cells.append(f"{median(lambda one: one['server_cpu_s'] / one['seconds']):.2f}")
    print(f"| {name} | {server} | {' | '.join(cells)} |", flush=True)


def compare(program, folder, servers, options):
    for name, (host, port, _) in servers.items():
        if name not in FIXED:
            fill(host, port, options.mb)
    print("| readers | server | median ms | 99 % ms | most ms | memory MB | MB/s | MB/CPU s "
          "| cores |")  # fmt: skip
    print("| --- " * 9 + "|", flush=True)
    for host, port, pid in servers.values():  # Kafka's JVM compiles the code
        measure(program, folder, host, port, ROWS["4 read"], options.seconds, pid)
    for name in options.rows or ROWS:
        row = ROWS[name]
        some = {s: place for s, place in servers.items() if row[1] or s not in FIXED}
        found = {server: [] for server in some}
        for server, (host, port, pid) in [*some.items()] * options.rounds:
            found[server].append(measure(program, folder, host, port, row, options.seconds, pid))
        for server, rounds in found.items():
            show(name, server, rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mb", type=int, default=64, help="of data in the partition")
    parser.add_argument("--alone", action="store_true", help="without Kafka's broker")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = build(folder)
        fixed = [sys.executable, str(Path(__file__).parent / "fixed_fetches.py")]
        with contextlib.ExitStack() as until_end:
            start = until_end.enter_context
            pid = start(loads.running([sys.executable, *loads.SERVE]))
            servers = {"coterie serve": ("127.0.0.1", loads.PORT, pid)}
            for name, given in FIXED.items():
                pid = start(loads.running([*fixed, *map(str, given)]))
                servers[name] = ("127.0.0.1", given[0], pid)
            if options.alone:
                return compare(program, folder, servers, options)
            from support.broker import kafka_broker

            with kafka_broker.running_broker(Path(folder)) as broker:
                host, port = broker.address.rsplit(":", 1)
                servers["Kafka 3.9.1, warm"] = (host, int(port), broker.process.pid)
                return compare(program, folder, servers, options)


if __name__ == "__main__":
    main()
