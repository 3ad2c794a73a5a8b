"""`coterie fetch` beside librdkafka and beside a bare loop of Fetch requests: CPU time and MB/s.

    python benchmarks/fetch_beside.py [--mb 500] [--rounds 3]

Fills a partition of `coterie serve` with commits of a consumer of 500 partitions, a batch each.
Then, in turn, each client reads it as a process of its own: `coterie fetch` writes a copy to
TMPDIR, librdkafka (confluent-kafka, with settings for throughput) reads all records, the bare loop
receives responses of the same size and drops them. All read the same offsets; the size of the copy
is checked. Prints medians.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from coterie import wire
from coterie.live.client_config import DEFAULTS, ClientConfig
from coterie.live.cluster import Cluster, addresses_of
from coterie.messages import encode_batch, encode_key, encode_value

TOPIC, GROUP, PARTITIONS, IN_FLIGHT, MB = "copied", "payments", 500, 50, 1_000_000
NOW_MS = time.time_ns() // 1_000_000  # retention would remove what is older
COTERIE = [sys.executable, "-c", "from coterie.cli import main; main()"]
CLIENTS = ("coterie fetch", "librdkafka", "bare loop")
FETCH = next(api.key for api in wire.APIS.values() if api.name == "Fetch")


def commits(offset: int) -> bytes:
    """Return the batch of a request to commit."""
    records = []
    for partition in range(PARTITIONS):
        key = {"type": "offset_commit", "version": 1}
        key["data"] = {"group": GROUP, "topic": "orders", "partition": partition}
        data = {"offset": offset, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 1}
        value = encode_value(1, {"version": 3, "data": data})
        records.append((partition, NOW_MS, encode_key(key), value))
    return encode_batch(records)


async def fill(address: str, size: int) -> int:
    """Append batches until there are so many bytes; return the end offset."""
    batch = commits(1)
    part = {"index": 0, "records": batch}
    body = {"acks": 1, "timeoutMs": 30_000}
    body |= {"topicData": [{"name": TOPIC, "partitionData": [part]}]}
    count = -(-size // len(batch))
    async with Cluster(addresses_of(address), ClientConfig()) as cluster:
        await cluster.topic(TOPIC)
        connection = await cluster.connection(cluster.nodes[0])
        for start in range(0, count, IN_FLIGHT):
            some = range(min(IN_FLIGHT, count - start))
            for answered in await asyncio.gather(*(connection.ask("Produce", body) for _ in some)):
                assert not answered["responses"][0]["partitionResponses"][0]["errorCode"]
    return count * PARTITIONS


def read_records(address: str, end: int) -> None:
    """Read all records with librdkafka."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            **{"bootstrap.servers": address, "group.id": "reader", "enable.auto.commit": False},
            **{"auto.offset.reset": "error", "queued.min.messages": 1_000_000},
            **{"fetch.queue.backoff.ms": 1, "fetch.message.max.bytes": 8 << 20},
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    count = 0
    while count < end:
        found = consumer.consume(10_000, 1.0)
        assert not any(message.error() for message in found)
        count += len(found)
    consumer.close()


def read_frames(address: str, end: int) -> None:
    """Receive the responses to Fetch requests, and look at the last batch's offset alone."""
    host, _, port = address.rpartition(":")
    size = int(DEFAULTS["max.partition.fetch.bytes"])
    buffer, offset = bytearray(size + MB), 0
    with socket.create_connection((host, int(port))) as connection:
        while offset < end:
            part = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": size}
            body = {"replicaId": -1, "maxWaitMs": 500, "minBytes": 1, "maxBytes": size}
            body["topics"] = [{"topic": TOPIC, "partitions": [part]}]
            frame = wire.encode_request(FETCH, 4, body, correlation_id=1, client_id="bare")
            connection.sendall(len(frame).to_bytes(4, "big") + frame)
            length, at = int.from_bytes(received(connection, 4), "big"), 0
            view = memoryview(buffer)[:length]
            while at < length:
                at += connection.recv_into(view[at:])
            # The response ends with the records, all batches of one size.
            batch = len(commits(1))
            offset += (length - length % batch) // batch * PARTITIONS


def received(connection: socket.socket, size: int) -> bytes:
    """Return so many bytes."""
    data = b""
    while len(data) < size:
        data += connection.recv(size - len(data))
    return data


def measured(command: list[str]) -> tuple[float, float, float]:
    """Run a process; return its CPU seconds, its seconds, and its largest memory in MB."""
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return used.ru_utime + used.ru_stime, seconds, used.ru_maxrss / 1024


def command_of(client: str, address: str, end: int, out: str) -> list[str]:
    """Return the command of a client."""
    if client == CLIENTS[0]:
        at = ["--bootstrap-server", address, "--topic", TOPIC, "--out", out]
        return [*COTERIE, "fetch", *at]
    return [sys.executable, __file__, "--client", client, "--at", address, "--end", str(end)]


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--client", help=argparse.SUPPRESS)
    parser.add_argument("--at", help=argparse.SUPPRESS)
    parser.add_argument("--end", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client is not None:
        read = read_records if options.client == CLIENTS[1] else read_frames
        read(options.at, options.end)
        return
    serve = [*COTERIE, "serve", "--listen", "127.0.0.1:0", "--topic", f"{TOPIC}:1"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[-1]
            end = asyncio.run(fill(address, options.mb * MB))
            compare(address, end, options.rounds)
        finally:
            server.terminate()


def compare(address: str, end: int, rounds: int) -> None:
    """Let the clients read in turn, and print the medians."""
    size = end // PARTITIONS * len(commits(1))
    found: dict[str, list[tuple[float, float, float]]] = {client: [] for client in CLIENTS}
    for _ in range(rounds):
        for client in CLIENTS:
            with tempfile.TemporaryDirectory() as out:
                row = measured(command_of(client, address, end, out))
                print(f"{client}: {row[0]:.2f} CPU s, {row[1]:.2f} s", file=sys.stderr)
                found[client].append(row)
                copied = sum(path.stat().st_size for path in Path(out).rglob("*.log"))
                assert copied == (size if client == CLIENTS[0] else 0)
    print(f"{size / MB:,.0f} MB, {end:,} records, {rounds} rounds\n")
    print("| client | CPU s/GB | MB/s | memory MB |\n| --- | --- | --- | --- |")
    for client, runs in found.items():
        cpu, seconds, memory = (statistics.median(row[at] for row in runs) for at in range(3))
        print(f"| {client} | {cpu / size * 1e9:.2f} | {size / MB / seconds:.0f} | {memory:.0f} |")


if __name__ == "__main__":
    main()
