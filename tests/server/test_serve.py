"""``coterie serve`` as a process: its lines, its end, and what it refuses."""

import errno
import os
import resource
import signal
import socket
from pathlib import Path

import pytest

from coterie import run_trace
from coterie.server.shutdown import end_signals
from support.commandline import coterie, fails
from support.patience import HANG_S
from support.server import asking, sockets
from support.server.serve_process import connect, serving


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
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


@pytest.mark.parametrize(("handler", "ends"), [(signal.SIG_IGN, False), (signal.SIG_DFL, True)])
def test_a_hangup_that_is_ignored_as_by_nohup_ends_no_server(handler, ends):
    before = signal.signal(signal.SIGHUP, handler)
    try:
        assert (signal.SIGHUP in end_signals()) is ends
    finally:
        signal.signal(signal.SIGHUP, before)


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


def test_the_variables_of_a_usual_container_make_a_server(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("log.retention.hours = 1\nnum.partitions = 2\n")
    variables = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": "INSIDE://127.0.0.1:0,PLAINTEXT_HOST://0.0.0.0:0,CONTROLLER://:9093",
        "KAFKA_ADVERTISED_LISTENERS": "INSIDE://kafka:29092,PLAINTEXT_HOST://localhost:9092",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,INSIDE:PLAINTEXT,"
        "PLAINTEXT_HOST:PLAINTEXT",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "INSIDE",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "KAFKA_NUM_PARTITIONS": "3",
    }
    args = ("--config", str(file), "--environment", "--insecure", "--topic", "t")
    with serving(*args, environment=variables) as (server, lines):
        assert [line.split()[1] for line in lines[:-1]] == ["INSIDE", "PLAINTEXT_HOST"]
        for line, address in zip(lines, [("kafka", 29092), ("localhost", 9092)], strict=False):
            connection = connect(line.replace("0.0.0.0", "127.0.0.1"))
            told = sockets.ask(connection, "Metadata", 9, {"topics": [{"name": "t"}]})
            assert (told["brokers"][0]["host"], told["brokers"][0]["port"]) == address
            assert len(told["topics"][0]["partitions"]) == 3
        server.terminate()
        ignored = server.stderr.readline()
    assert ignored == (
        "settings that have no effect here: controller.quorum.voters, "
        "offsets.topic.replication.factor, process.roles\n"
    )


def test_a_topic_has_the_settings_that_it_is_given():
    topic = "t:2:1,cleanup.policy=compact,delete,retention.ms=5"
    with serving("--listen", "127.0.0.1:0", "--topic", topic) as (_, lines):
        keys = ["cleanup.policy", "retention.ms"]
        resource = {"resourceType": 2, "resourceName": "t", "configurationKeys": keys}
        body = {"resources": [resource], "includeSynonyms": False}
        told = sockets.ask(connect(lines[0]), "DescribeConfigs", 1, body)
        found = {row["name"]: row["value"] for row in told["results"][0]["configs"]}
        assert found == {"cleanup.policy": "compact,delete", "retention.ms": "5"}


def test_a_trace_replaces_a_file_only_if_it_is_told_to(tmp_path):
    trace = tmp_path / "t.trace.jsonl"
    trace.write_text("mine")
    args = ("serve", "--listen", "127.0.0.1:0", "--trace", str(trace))
    fails(*args, status=2, says="is there already; name another file, or give --overwrite")
    assert trace.read_text() == "mine"
    with serving(*args[1:], "--overwrite") as (server, _):
        server.terminate()
        server.communicate()
    assert "coterie-trace" in trace.read_text()


def test_a_trace_is_no_pipe_and_no_device(tmp_path):
    os.mkfifo(pipe := tmp_path / "pipe")
    for path in (pipe, "/dev/null"):
        fails("serve", "--trace", str(path), "--overwrite", status=2, says="not a regular file")


def test_all_missing_folders_of_a_trace_are_made(tmp_path):
    """Before the server listens, which it cannot here."""
    folder = tmp_path / "a" / "b"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        trace = str(folder / "t.trace.jsonl")
        fails("serve", "--listen", listen, "--trace", trace, says="cannot be listened on")
    assert folder.is_dir()


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
        (["--trace", "/"], "'/' is a directory"),
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
        *("--metrics", "--clock", "--control", "--seed", "--make-credential", "--config"),
        *("--environment", "--overwrite"),
    ):
        assert option in told


def ended_trace(trace, meanwhile):
    """The last line of a server with a trace, which ends after something happened; its status."""
    with serving("--listen", "127.0.0.1:0", "--trace", str(trace)) as (server, _):
        meanwhile(server)
        server.terminate()
        _, errors = server.communicate()
    return errors.rstrip("\n").splitlines()[-1], server.returncode


def test_a_trace_replaces_no_file_that_appeared_meanwhile_and_is_not_lost(tmp_path):
    trace = tmp_path / "t.trace.jsonl"
    line, status = ended_trace(trace, lambda _: trace.write_text("mine"))
    assert status == 1
    assert trace.read_text() == "mine"
    assert "is there already" in line
    other = Path(line.partition("; the trace is in ")[2])
    assert "coterie-trace" in other.read_text()
    other.unlink()


def test_a_trace_whose_folder_is_a_file_by_now_is_not_lost(tmp_path):
    trace = tmp_path / "folder" / "t.trace.jsonl"

    def replace_folder(_):
        trace.parent.rmdir()
        trace.parent.write_text("mine")

    line, status = ended_trace(trace, replace_folder)
    assert status == 1
    assert line.startswith(f"coterie: --trace {trace}: ")
    other = Path(line.partition("; the trace is in ")[2])
    assert "coterie-trace" in other.read_text()
    other.unlink()


def test_a_trace_that_fits_nowhere_ends_with_a_line(tmp_path):
    trace = tmp_path / "t.trace.jsonl"
    line, status = ended_trace(
        trace, lambda server: resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1, 1))
    )
    assert status == 1
    too_large = os.strerror(errno.EFBIG)
    lost = f"the trace is lost: it fits nowhere else ({too_large})"
    assert line == f"coterie: --trace {trace}: {too_large}; {lost}"
    assert not list(tmp_path.iterdir())
