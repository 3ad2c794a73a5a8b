"""Plays golden conversations against a server in this process, without a socket or a clock.

The player and its comparison are ``play.py`` of ``../shared/golden/wire``; only its connections
are ours, and what it waits for is the time of the cluster.
"""

import importlib.util
import json
import struct
from functools import cache
from types import SimpleNamespace
from unittest.mock import patch

from coterie.server.api.call import Dispatcher
from coterie.server.cluster import Cluster, Listener, Node
from coterie.server.net.connection import Connection
from coterie.server.releases import release_of
from coterie.server.services.users import users_of
from support.golden_data import shared

START_MS = 1_760_000_000_000  # later than the records of the conversations, as it was then
# The brokers that the conversations were recorded with: golden/wire/README.md, "Brokers".
BROKER = {
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 2,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
    "auto.create.topics.enable": False,
    "socket.request.max.bytes": 200000,
    "offset.metadata.max.bytes": 64,
    "log.retention.ms": -1,
    "listener.name.sasl_plaintext.scram-sha-512.connections.max.reauth.ms": 3000,
}
CONFIGS = {"default": BROKER, "delay": {**BROKER, "group.initial.rebalance.delay.ms": 1500}}
FOLDERS = {"3.9": "conversations", "4.1": "conversations-4.1.1"}
BROKERS = {"3.9": "3.9.1", "4.1": "4.1.1"}
USERS = {
    name: {
        "password": f"{name}-secret",
        "scram-sha-256": {"salt": salt, "iterations": 4096},
        "scram-sha-512": {"salt": salt, "iterations": 4096},
    }
    for name, salt in (("alice", "YWxpY2Utc2FsdC0wMDAx"), ("bob", "Ym9iLXNhbHQtMDAwMDAx"))
}
LISTENERS = {"plain": Listener("plaintext"), "sasl": Listener("sasl_plaintext", 1)}
ADDRESSES = {"plain": ("127.0.0.1", 9092), "sasl": ("127.0.0.1", 9093)}


@cache
def play():
    """The player's module; its codec by the schemas of 3.9.1."""
    path = shared("wire") / "play.py"
    spec = importlib.util.spec_from_file_location("golden_play", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def schemas(release="3.9.1"):
    path = shared("wire") / "schemas.json"
    return play().Schemas(json.loads(path.read_text(encoding="utf-8"))[release])


@cache
def conversations(release="3.9"):
    """Name -> (head, steps) of each conversation; none where there is no golden data."""
    found = {}
    for path in sorted((shared("wire") / FOLDERS[release]).glob("*.jsonl")):
        head, *steps = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        found[path.stem] = (head, steps)
    return found


class Server:
    """A cluster of one broker whose time is moved by hand: the clock's and that of waits."""

    def __init__(self, config=None, *, seed=1, now_ms=START_MS, users=USERS, kafka="3.9"):
        self.log_lines = []
        self.cluster = Cluster(
            config,
            now_ms=now_ms,
            seed=seed,
            log=self.log_lines.append,
            users=users_of(users),
            release=release_of(kafka),
        )
        addresses = {LISTENERS[name]: ADDRESSES[name] for name in LISTENERS}
        self.node = Node(1, addresses, self.cluster.config.rack)
        self.cluster.nodes[1] = self.node
        self.dispatcher = Dispatcher(self.cluster)

    def connect(self, listener="plain"):
        return Peer(self, listener)

    def run(self, ms, until=lambda: False):
        """Let time pass, from deadline to deadline, until something is so."""
        cluster, waits = self.cluster, self.cluster.waits
        ms = round(ms)
        clock_end, waits_end = cluster.now_ms + ms, waits.now_ms + ms
        while not until():
            left = waits_end - waits.now_ms
            due = cluster.next_deadline_ms()
            steps = [left] if due is None else [left, max(due - cluster.now_ms, 0)]
            if (due := waits.next_deadline_ms()) is not None:
                steps.append(max(due - waits.now_ms, 0))
            step = min(steps)
            if left <= 0:
                break
            cluster.clock.move(min(cluster.now_ms + step, clock_end))
            waits.advance(waits.now_ms + step)


def server_of_kafka_4():
    """A broker 4.1 with a topic of two partitions."""
    server = Server(BROKER, kafka="4.1")
    server.cluster.topics.create("t", 2)
    return server


class Peer:
    """The other end of a connection, in the terms of the player's own."""

    def __init__(self, server, listener="plain"):
        self.server = server
        self.connection = Connection(server.dispatcher, server.node, LISTENERS[listener])
        self.received = b""
        self.s = SimpleNamespace(close=self.leave)

    def leave(self):
        """Close the connection from this end."""
        self.connection.lost()

    def send(self, data):
        self.connection.receive(data)

    def take(self):
        self.received += b"".join(map(bytes, self.connection.output))
        self.connection.output.clear()
        return self.received

    def whole(self):
        """Whether a frame has come."""
        data = self.take()
        return len(data) >= 4 and len(data) >= 4 + struct.unpack_from(">i", data)[0]

    def frame(self, timeout):
        self.server.run(timeout * 1000, lambda: self.whole() or self.connection.closing)
        if not self.whole():
            ended = self.connection.closing
            raise play().Mismatch("closed by the other side" if ended else f"no answer: {timeout}")
        (size,) = struct.unpack_from(">i", self.received)
        frame, self.received = self.received[4 : 4 + size], self.received[4 + size :]
        return frame

    def silent(self, seconds):
        self.server.run(seconds * 1000, lambda: self.take() or self.connection.closing)
        if self.received or self.connection.closing:
            raise play().Mismatch("an answer or the end came, none was wanted")

    def closed(self, timeout):
        self.server.run(timeout * 1000, lambda: self.take() or self.connection.closing)
        if self.received or not self.connection.closing:
            raise play().Mismatch("the end was wanted")


def player(server):
    """A player whose connections lead to the server, and whose time is its."""
    module = play()
    broker = BROKERS[server.cluster.release.name]
    made = module.Player(schemas(broker), ADDRESSES)
    made.served = True
    plain_step = made.step

    time = SimpleNamespace(sleep=lambda seconds: server.run(seconds * 1000))

    @patch.object(module, "time", time)
    def step(each):
        if each["step"] == "open":
            made.connections[each["connection"]] = server.connect(each["listener"])
        else:
            plain_step(each)

    made.step = step
    return made


def run(server, steps):
    """Play steps; an error names the number of the first step that differs."""
    playing = player(server)
    for number, step in enumerate(steps, 2):
        take(playing, server, number, step)
    return playing


def take(playing, server, number, step):
    try:
        playing.step(step)
    except (play().Mismatch, play().WireError, KeyError, struct.error) as error:
        what = f"line {number}: {step['step']} {step.get('api', '')} {step.get('version', '')}"
        raise AssertionError(f"{what}: {error!r}; the server said {server.log_lines}") from error
