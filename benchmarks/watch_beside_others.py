"""``coterie watch``, Burrow and kminion beside each other on one broker of Kafka 3.9.1.

    python benchmarks/watch_beside_others.py --burrow PROGRAM --kminion PROGRAM [--seconds 45]

Starts the broker by ``tests/support/broker/kafka_broker.py``, which needs a JDK and Maven, and the
three monitors. Groups commit 20,000 offsets a second, each monitor is scraped every 15 seconds, and
one group has an incident: a member dies, another takes over and goes back. Prints the CPU time and
the memory of each monitor while the commits come, and what each knows of the incident. Both
programs are built by ``go build`` in a copy of their sources.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

GROUPS, PARTITIONS, CONNECTIONS = 100, 50, 4
COMMITS_PER_S = 20_000
SCRAPE_S = 15
MARK = 0x1122334455667788
SESSION_MS = 6_000
INCIDENT, TOPIC = "incident", "load"
BURROW = """
[logging]
level="error"
[client-profile.here]
client-id="burrow"
kafka-version="2.0.0"
[cluster.local]
class-name="kafka"
servers=["{broker}"]
client-profile="here"
topic-refresh=120
offset-refresh=30
[consumer.local]
class-name="kafka"
cluster="local"
servers=["{broker}"]
client-profile="here"
[httpserver.default]
address="127.0.0.1:{port}"
"""
KMINION = """
kafka:
  brokers: ["{broker}"]
minion:
  consumerGroups:
    scrapeMode: offsetsTopic
exporter:
  host: 127.0.0.1
  port: {port}
logger:
  level: error
"""


def load(address: str, committed: Synchronized[int]) -> None:
    """Commit offsets that rise, 20,000 of them a second, until the process is ended; count them."""
    from coterie import wire
    from support.server.asking import KEY, commit, framed

    frames = []
    for number in range(GROUPS):
        body = commit(f"group-{number:03}", TOPIC, dict.fromkeys(range(PARTITIONS), MARK))
        frames.append(framed(wire.encode_request(KEY["OffsetCommit"], 2, body)))
    host, port = address.rsplit(":", 1)
    connections = [socket.create_connection((host, int(port))) for _ in range(CONNECTIONS)]
    answers = [connection.makefile("rb") for connection in connections]
    mark, begin, offset = MARK.to_bytes(8, "big"), time.monotonic(), 0
    while True:
        offset += 1
        written = offset.to_bytes(8, "big")
        for place, connection in enumerate(connections):
            mine = frames[place::CONNECTIONS]
            connection.sendall(b"".join(frame.replace(mark, written) for frame in mine))
        for place, answer in enumerate(answers):
            for _ in frames[place::CONNECTIONS]:
                answer.read(int.from_bytes(answer.read(4), "big"))
        committed.value += GROUPS * PARTITIONS
        due = begin + offset * GROUPS * PARTITIONS / COMMITS_PER_S
        time.sleep(max(due - time.monotonic(), 0))


def incident(address: str) -> None:
    """A member commits and dies; another joins, goes back to 0, commits and leaves."""
    from support.server.asking import commit, heartbeat, joining
    from support.server.playing import play
    from support.server.sockets import ask

    host, port = address.rsplit(":", 1)
    offsets = dict.fromkeys(range(10), 1_000)
    for turn in range(2):
        connection = play().Connection((host, int(port)))
        body = joining(INCIDENT, sessionTimeoutMs=SESSION_MS)
        joined = ask(connection, "JoinGroup", 3, body)
        member, generation = joined["memberId"], joined["generationId"]
        sync = heartbeat(INCIDENT, member, generation)
        sync["assignments"] = [{"memberId": member, "assignment": b""}]
        ask(connection, "SyncGroup", 2, sync)
        for round_ in range(3):
            now = {number: offset * (not turn) + round_ for number, offset in offsets.items()}
            ask(connection, "OffsetCommit", 2, commit(INCIDENT, TOPIC, now, member, generation))
            time.sleep(1)


@contextmanager
def running(command: list[str], ready_url: str | None, **options):
    """Run a monitor; yield its process once it answers."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, **options)
    try:
        while ready_url is not None:
            assert process.poll() is None, command
            with suppress(OSError):
                get(ready_url)
                break
            time.sleep(0.1)
        yield process
    finally:
        process.terminate()
        process.wait()


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def used(pid: int) -> tuple[float, float]:
    """Return the CPU seconds of a process so far, and its resident MB now."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks, pages = int(fields[11]) + int(fields[12]), int(fields[21])
    return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def lines_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if f'"{INCIDENT}"' in line]


def what_each_saw(urls: dict[str, str]) -> None:
    """Print what each monitor knows of the incident."""
    base = urls["coterie watch"].removesuffix("/metrics")
    print("\n## coterie watch", *lines_of(get(urls["coterie watch"])), sep="\n")
    for row in json.loads(get(f"{base}/api/explain?group={INCIDENT}")):
        print(json.dumps(row))
    base = urls["Burrow"].removesuffix("/metrics")
    print("\n## Burrow", *lines_of(get(urls["Burrow"])), sep="\n")
    print(get(f"{base}/v3/kafka/local/consumer/{INCIDENT}/status"))
    print("\n## kminion", *lines_of(get(urls["kminion"])), sep="\n")


def monitors(stack: ExitStack, options: argparse.Namespace, broker, folder: Path):
    """Start the monitors; return the process and the URL of the metrics of each."""
    from support.commandline import COTERIE
    from support.server.sockets import free_port

    ports = [free_port() for _ in range(3)]
    urls = [f"http://127.0.0.1:{port}/metrics" for port in ports]
    for name, text, port in (("burrow.toml", BURROW, ports[1]), ("minion.yml", KMINION, ports[2])):
        (folder / name).write_text(text.format(broker=broker.address, port=port))
    watch = [*COTERIE, "watch", str(broker.logs), "--listen", f"127.0.0.1:{ports[0]}"]
    environment = os.environ | {"CONFIG_FILEPATH": str(folder / "minion.yml")}
    started = {
        "coterie watch": running(watch, urls[0]),
        "Burrow": running([options.burrow, "--config-dir", str(folder)], urls[1], cwd=folder),
        "kminion": running([options.kminion], urls[2], env=environment),
    }
    processes = {name: stack.enter_context(one) for name, one in started.items()}
    return processes, dict(zip(processes, urls, strict=True))


def measure(processes, urls, seconds: int) -> dict[str, tuple[float, float]]:
    """Scrape each monitor now and then; return its CPU seconds meanwhile, and its memory."""
    before, end = {}, time.monotonic() + seconds
    for name, process in processes.items():
        before[name] = used(process.pid)[0]
    most = dict.fromkeys(processes, 0.0)
    scrape = time.monotonic()
    while time.monotonic() < end:
        time.sleep(0.5)
        if time.monotonic() >= scrape:
            scrape += SCRAPE_S
            for url in urls.values():
                get(url)
        for name, process in processes.items():
            most[name] = max(most[name], used(process.pid)[1])
    return {name: (used(p.pid)[0] - before[name], most[name]) for name, p in processes.items()}


def main() -> None:
    """Print the tables."""
    from support.broker import kafka_broker

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--burrow", required=True)
    parser.add_argument("--kminion", required=True)
    parser.add_argument("--seconds", type=int, default=45)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        broker = stack.enter_context(kafka_broker.running_broker(folder))
        main = "org.apache.kafka.tools.TopicCommand"
        create = ["--bootstrap-server", broker.address, "--create", "--topic", TOPIC]
        subprocess.run(kafka_broker.java(main, *create, "--partitions", PARTITIONS), check=True)
        reset = ["--group", "first", "--topic", TOPIC, "--reset-offsets", "--to-earliest"]
        broker.groups_tool(*reset, "--execute")
        processes, urls = monitors(stack, options, broker, folder)
        committed = multiprocessing.Value("q")
        arguments = broker.address, committed
        loading = multiprocessing.Process(target=load, args=arguments, daemon=True)
        loading.start()
        happening = multiprocessing.Process(target=incident, args=(broker.address,), daemon=True)
        happening.start()
        found = measure(processes, urls, options.seconds)
        loading.terminate()
        print(f"{committed.value / options.seconds:,.0f} commits/s, {options.seconds} s\n")
        print("| monitor | CPU, s | memory, MB |\n| --- | --- | --- |")
        for monitor, (cpu, memory) in found.items():
            print(f"| {monitor} | {cpu:.2f} | {memory:.0f} |")
        happening.join()
        time.sleep(12)  # a step of watch
        what_each_saw(urls)


if __name__ == "__main__":
    main()
