"""``coterie serve`` as a process: its lines, its end, and what it refuses."""

import os
import signal
import subprocess
from contextlib import contextmanager

import pytest

from coterie import run_trace
from support.commandline import COTERIE, ENVIRONMENT, coterie, default_sigint, fails
from support.patience import HANG_S
from support.server import asking, sockets
from support.server.playing import play


@contextmanager
def serving(*args):
    """A server that is ready, with its lines on standard output."""
    command = [*COTERIE, "serve", *args]
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | ENVIRONMENT, preexec_fn=default_sigint,
    )  # fmt: skip
    try:
        lines = []
        while not lines or lines[-1] != "ready":
            line = server.stdout.readline()
            assert line, server.stderr.read()
            lines.append(line.rstrip("\n"))
        yield server, lines
    finally:
        server.kill()
        server.communicate()


def connect(line):
    """Connect to the address of a line ``listening PROTOCOL HOST:PORT``."""
    host, _, port = line.split()[2].rpartition(":")
    return play().Connection((host.strip("[]"), int(port)))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_listens_then_ready_and_ends_well_when_told_to(number, tmp_path):
    trace = tmp_path / "served.trace.jsonl"
    with serving(
        "--listen", "127.0.0.1:0", "--listen", "plaintext://localhost:0", "--topic", "t:3",
        "--set", "group.initial.rebalance.delay.ms=0", "--seed", "4", "--trace", str(trace),
    ) as (server, lines):  # fmt: skip
        assert [line.split()[:2] for line in lines[:-1]] == [["listening", "plaintext"]] * 2
        assert lines[1].split()[2].startswith("localhost:")
        connection = connect(lines[0])
        told = sockets.ask(connection, "Metadata", 9, {"topics": [{"name": "t"}]})
        assert len(told["topics"][0]["partitions"]) == 3
        assert told["brokers"][0]["port"] == int(lines[0].rpartition(":")[2])
        body = {"coordinatorKeys": ["g"], "keyType": 0}
        found = sockets.ask(connect(lines[1]), "FindCoordinator", 4, body)
        assert found["coordinators"][0]["port"] == int(lines[1].rpartition(":")[2])
        joined = sockets.ask(connection, "JoinGroup", 3, asking.joining("g"))
        assert joined["errorCode"] == 0
        server.send_signal(number)
        out, err = server.communicate()
        assert (server.returncode, out, err) == (0, "", "")
        connection.closed(HANG_S)
    ran = list(run_trace(trace.read_text(encoding="utf-8").splitlines()))
    assert [line["op"] for line in ran if line["event"] == "response"] == ["join_group"]


def test_clients_are_told_the_address_that_is_advertised():
    with serving("--listen", "127.0.0.1:0", "--advertise", "kafka.test:19092") as (_, lines):
        told = sockets.ask(connect(lines[0]), "Metadata", 9, {"topics": []})
        assert (told["brokers"][0]["host"], told["brokers"][0]["port"]) == ("kafka.test", 19092)


def test_all_addresses_are_listened_on_where_another_is_advertised():
    arguments = ("--listen", "0.0.0.0:0", "--advertise", "kafka.test:19092", "--insecure")
    with serving(*arguments) as (_, lines):
        here = lines[0].replace("0.0.0.0", "127.0.0.1")
        told = sockets.ask(connect(here), "Metadata", 9, {"topics": []})
        assert told["brokers"][0]["host"] == "kafka.test"


def test_an_address_that_is_taken_ends_it_with_a_line():
    with serving("--listen", "127.0.0.1:0") as (_, lines):
        fails("serve", "--listen", lines[0].split()[2], says="cannot be listened on")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--data", "folder"], "--data"),
        (["--sync", "commit"], "--sync"),
        (["--brokers", "3"], "--brokers"),
        (["--listen", "0.0.0.0:9092"], "--insecure"),
        (["--listen", "ssl://0.0.0.0:9092"], "--insecure"),
        (["--listen", "0.0.0.0:9092", "--insecure"], "--advertise HOST:PORT"),
        (["--listen", "[::]:9092", "--insecure"], "--advertise HOST:PORT"),
        (["--listen", "127.0.0.1:0", "--advertise", "0.0.0.0:9092"], "would be told 0.0.0.0:9092"),
        (["--listen", "example.org:9092"], "loopback"),
        (["--listen", "127.0.0.1"], "HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "HOST:PORT"),
        (["--listen", "quic://127.0.0.1:0"], "quic"),
        (["--listen", "ssl://127.0.0.1:0"], "--tls-cert"),
        (["--listen", "sasl_plaintext://127.0.0.1:0"], "--sasl-users"),
        (["--tls-cert", "c.pem"], "--tls-key"),
        (["--advertise", "a:1", "--advertise", "b:2"], "--advertise"),
        (["--topic", "a b"], "a b"),
        (["--topic", "a:0"], "PARTITIONS"),
        (["--topic", "a:x"], "NAME[:PARTITIONS[:REPLICAS]]"),
        (["--topic", "a:3:2"], "REPLICAS must be 1, not 2: one broker is served"),
        (["--topic", "a:3:1:1"], "NAME[:PARTITIONS[:REPLICAS]]"),
        (["--topic", "a", "--topic", "b", "--topic", "a:2"], "--topic a is given twice"),
        (["--topic", "a,retention.ms=1,retention.ms=2"], "retention.ms is set twice"),
        (["--topic", "a,retention.ms=soon"], "topic a: Invalid value soon"),
        (["--topic", "a,retention=5"], "topic a: Unknown topic config name: retention"),
        (["--topic", "a,compact"], "topic a: a setting is KEY=VALUE, not 'compact'"),
        (["--set", "log.segment.bytes=x"], "log.segment.bytes: Invalid value x"),
        (["--set", "node.id=1", "--set", "broker.id=2"], "node.id and broker.id"),
        (["--set", "retention.hours=2"], "did you mean 'log.retention.hours'?"),
        (["--listen", "INSIDE://127.0.0.1:0"], "listener.security.protocol.map"),
        (["--set", "listener.security.protocol.map=INSIDE"], "NAME:PROTOCOL"),
        (["--set", "listeners=PLAINTEXT://:9092"], "--insecure"),
        (["--set", "listeners=PLAINTEXT://h:1,PLAINTEXT://h:2"], "listeners has a name twice"),
        (["--set", "advertised.listeners=SSL://h:1"], "there is no listener SSL"),
        (["--set", "inter.broker.listener.name=INSIDE"], "there is no listener INSIDE"),
        (["--config", "no-such-file"], "--config no-such-file: No such file"),
        (["--topic", "__consumer_offsets:3"], "offsets.topic.num.partitions says"),
        (["--set", "num.partitons=3"], "num.partitions"),
        (["--set", "num.partitions=many"], "num.partitions"),
        (["--set", "num.partitions"], "KEY=VALUE"),
        (["--clock", "virtual"], "--control"),
        (["--control", "0.0.0.0:1"], "loopback"),
        (["--metrics", "0.0.0.0:1"], "--insecure"),
        (["--trace", "/dev/null/trace.jsonl"], "--trace"),
        (["--trace", "/"], "--trace"),
        (["--seed", "x"], "x"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_what_cannot_be_served_is_wrong_usage_in_one_line(args, says):
    fails("serve", *args, status=2, says=says)


def test_help_names_every_option_that_is_specified():
    told = coterie("serve", "--help").stdout
    for option in (
        *("--listen", "--advertise", "--data", "--brokers", "--topic", "--set", "--sync"),
        *("--tls-cert", "--tls-key", "--tls-client-ca", "--sasl-users", "--insecure", "--trace"),
        *("--metrics", "--clock", "--control", "--seed", "--make-credential"),
    ):
        assert option in told
