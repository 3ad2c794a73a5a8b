"""Record tests/golden/incidents/protocols: a Kafka 4.1.1 broker, Java consumers, the written truth.

    PYTHONPATH=tests:tools python tools/recorders/record_protocols.py [--into FOLDER]

Runs in real time, about two minutes; Maven brings broker and clients. Nothing here is a test:
tests read what was recorded. Truth is what this program ordered and what the clients said, each
with the ms of the clock that all of them share.
"""

import argparse
import gzip
import json
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from support.broker.kafka_broker import Broker, classpath

VERSION = "4.1.1"
FOLDER = Path(__file__).parents[2] / "tests/golden/incidents" / "protocols"
SETTINGS = """\
offsets.topic.num.partitions=2
group.initial.rebalance.delay.ms=500
group.min.session.timeout.ms=1000
group.consumer.min.session.timeout.ms=1000
group.consumer.session.timeout.ms=6000
group.consumer.min.heartbeat.interval.ms=500
group.consumer.heartbeat.interval.ms=1000
"""
COMMON = {"auto.commit.interval.ms": 5000, "topics": "orders"}
CLASSIC = COMMON | {"session.timeout.ms": 10000, "heartbeat.interval.ms": 1000}
NEWER = COMMON | {"group.protocol": "consumer"}
APIS = re.compile(r'"requestApiKeyName":"(\w*GROUP\w*|HEARTBEAT|OFFSET_\w+|TXN_OFFSET_COMMIT)"')
SAID = re.compile(r"coordinator\.group|Kafka Server started|KafkaRaftServer|BrokerServer")
HANG_S = 90


class Clients:
    """The Java program, with its orders and its output."""

    def __init__(self, broker):
        self.truth = []
        self._news = threading.Condition()
        command = ["java", "-Xmx256m", "-cp", classpath(VERSION), "Consumers.java", broker.address]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=Path(__file__).parent,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.process.stdout:
            if line.startswith("{"):  # its libraries write errors of their own
                self.note(json.loads(line))

    def note(self, event):
        with self._news:
            self.truth.append({"at_ms": int(time.time() * 1000)} | event)
            self._news.notify_all()

    def order(self, order, name, **settings):
        """Give an order; return from where on its answers are."""
        words = [f"{key.replace('_', '.')}={value}" for key, value in settings.items()]
        begin = len(self.truth)
        self.process.stdin.write(" ".join([order, name, *words]) + "\n")
        self.process.stdin.flush()
        return begin

    def await_(self, what, name, since=0, holds=None):
        """Return the first such event of a client; ``holds``: that has so many partitions."""

        def found():
            for event in self.truth[since:]:
                if event["what"] == what and event["name"] == name:
                    count = len(event.get("partitions", "").split())
                    if holds is None or count == holds:
                        return event
            return None

        with self._news:
            event = self._news.wait_for(found, HANG_S)
        assert event, f"{name}: no {what} in {HANG_S} s: {self.truth[-5:]}"
        return event

    def start(self, name, group, kind, ends="assigned", **settings):
        """Start a client, and wait until it has partitions, or has come to another end."""
        names = {"group.id": group, "client.id": name}
        since = self.order("start", name, **names, **kind, **settings)
        return self.await_(ends, name, since)

    def refused(self, name, group, kind, **settings):
        """Start a client that the broker does not take."""
        return self.start(name, group, kind, ends="failed", **settings)

    def stop(self, name, how="DEFAULT"):
        since = self.order("stop", name, how=how)
        self.await_("stopped", name, since)


def old_fetch(broker, group):
    """Ask for a group's offset as a client of 2017 did: OffsetFetch version 3."""

    def text(value):
        return struct.pack(">h", len(value)) + value.encode()

    body = struct.pack(">hhi", 9, 3, 1) + text("old-client") + text(group)
    body += struct.pack(">i", 1) + text("orders") + struct.pack(">iii", 2, 0, 1)
    host, _, port = broker.address.partition(":")
    with socket.create_connection((host, int(port))) as wire:
        wire.sendall(struct.pack(">i", len(body)) + body)
        assert wire.recv(4096)


def migrate(run):
    """`moved` goes to the newer protocol and back while its members work; `idle` while empty."""
    run.start("app-1", "moved", CLASSIC)
    run.start("app-2", "moved", CLASSIC)
    run.start("idle-1", "idle", CLASSIC)
    run.stop("idle-1")
    time.sleep(3)
    run.start("app-3", "moved", NEWER)  # upgrades the group
    time.sleep(4)
    run.stop("app-1")
    time.sleep(2)
    run.stop("app-2")
    run.start("app-4", "moved", NEWER)
    run.start("idle-2", "idle", NEWER)
    run.stop("idle-2")
    time.sleep(3)
    run.start("app-5", "moved", CLASSIC)
    time.sleep(4)
    run.stop("app-3")
    time.sleep(2)
    run.start("idle-3", "idle", CLASSIC)
    run.stop("app-4")  # the last one of the newer protocol: downgrades the group
    time.sleep(3)
    run.start("app-6", "moved", CLASSIC)
    run.stop("idle-3")


def static(run):
    """Static members that come back under other client ids, in both protocols."""
    one, two = {"group.instance.id": "s-1"}, {"group.instance.id": "s-2"}
    run.start("vault-a", "vault", NEWER, **one)
    run.start("vault-b", "vault", NEWER, **two)
    time.sleep(2)
    run.stop("vault-a")
    time.sleep(1)
    run.start("vault-a2", "vault", NEWER, **one)
    time.sleep(1)
    run.stop("vault-a2")
    time.sleep(1)
    run.start("vault-a3", "vault", NEWER, **one)
    run.refused("vault-x", "vault", NEWER, **two)  # its place is taken
    run.order("subscribe", "vault-b", topics="orders,payments")
    time.sleep(3)
    run.stop("vault-a3")  # and does not come back

    run.start("till-a", "till", CLASSIC, **{"group.instance.id": "k-1"})
    run.start("till-b", "till", CLASSIC, **{"group.instance.id": "k-2"})
    run.start("till-c", "till", CLASSIC)
    time.sleep(2)
    run.stop("till-a")
    run.start("till-a2", "till", CLASSIC, **{"group.instance.id": "k-1"})
    time.sleep(1)
    run.stop("till-b")
    run.start("till-b2", "till", CLASSIC, **{"group.instance.id": "k-2"})


def troubles(run):
    """A session that ends, and joins that are refused."""
    run.start("plain-1", "plain", NEWER)
    run.start("plain-2", "plain", NEWER)
    time.sleep(2)
    run.stop("plain-2", how="REMAIN_IN_GROUP")
    strategy = "partition.assignment.strategy"
    package = "org.apache.kafka.clients.consumer"
    run.start("clash-1", "clash", CLASSIC, **{strategy: f"{package}.RangeAssignor"})
    run.refused("clash-2", "clash", CLASSIC, **{strategy: f"{package}.RoundRobinAssignor"})
    run.start("solo-1", "solo", CLASSIC)
    run.start("solo-2", "solo", CLASSIC)
    time.sleep(7)


def outage(run, broker):
    """The broker stops and starts; `solo-2` ends meanwhile, and nobody hears of it."""
    run.note({"what": "broker stops", "name": ""})
    broker.stop()
    run.note({"what": "broker stopped", "name": ""})
    run.order("stop", "solo-2", how="REMAIN_IN_GROUP")
    time.sleep(3)
    broker.start()
    run.note({"what": "broker started", "name": ""})
    time.sleep(20)
    old_fetch(broker, "till")
    old_fetch(broker, "solo")
    run.stop("clash-1")
    run.start("solo-3", "solo", CLASSIC)
    run.stop("app-6")
    time.sleep(4)  # until its group has its next generation


def packed(path, text):
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def keep(broker, run, into):
    """Put the recording into its folder."""
    for path in broker.logs.glob("__consumer_offsets-*/*.log"):
        place = into / path.parent.name
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    lines = (broker.folder / "kafka-request.log").read_text().splitlines(keepends=True)
    packed(into / "kafka-request.log.gz", "".join(line for line in lines if APIS.search(line)))
    lines = (broker.folder / "server.log").read_text().splitlines(keepends=True)
    packed(into / "server.log.gz", "".join(line for line in lines if SAID.search(line)))
    events = sorted(run.truth, key=lambda event: event["at_ms"])
    (into / "truth.json").write_text("[\n" + ",\n".join(map(json.dumps, events)) + "\n]\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--into", type=Path, default=FOLDER)
    into = parser.parse_args().into
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder), version=VERSION, settings=SETTINGS, request_log=True)
        broker.start()
        try:
            run = Clients(broker)
            for topic, partitions in (("orders", 6), ("payments", 3)):
                run.order("topic", topic, partitions=partitions, records=60)
                run.await_("topic", topic)
            migrate(run)
            static(run)
            troubles(run)
            outage(run, broker)
            run.process.kill()
        finally:
            broker.stop()
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir(parents=True)
        keep(broker, run, into)


if __name__ == "__main__":
    main()
