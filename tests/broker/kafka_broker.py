"""A Kafka broker of this machine's own, from jars that Maven brings; and Kafka's own tools.

Nothing waits for a time: the broker says when it has started. Where Maven, a JDK or the jars are
missing, the test that asks is skipped by name.
"""

import functools
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent
HANG_S = 1800  # only what never comes takes that long, however busy the machine
SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={logs}
auto.create.topics.enable=false
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""
LOGGING = """\
log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


@functools.cache
def classpath():
    """The jars of the project, or a skip that says what is missing."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"no broker: {tool} is not installed")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "classpath"
        goal = ["dependency:build-classpath", f"-Dmdep.outputFile={file}"]
        told = subprocess.run(
            ["mvn", "-q", "-B", *goal], cwd=PROJECT, capture_output=True, text=True, check=False
        )
        if told.returncode:
            pytest.skip(f"no broker: Maven brought no jars: {told.stdout.strip()[:200]}")
        return file.read_text()


def java(main, *arguments, options=()):
    return ["java", "-Xmx512m", *options, "-cp", classpath(), main, *map(str, arguments)]


def free_ports(count):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


class Broker:
    """A running broker: ``address`` for clients, ``logs`` the folder of its partitions."""

    def __init__(self, address, logs):
        self.address = address
        self.logs = logs

    def groups_tool(self, *arguments):
        """Run kafka-consumer-groups; it gives 0 whatever happens, so its words count."""
        main = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        command = java(main, "--bootstrap-server", self.address, *arguments)
        told = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
        return told.stdout


@contextmanager
def running_broker(folder):
    """A fresh broker in ``folder``, stopped at the end."""
    port, controller = free_ports(2)
    logs, settings, logging = folder / "logs", folder / "server.properties", folder / "log4j"
    settings.write_text(SETTINGS.format(port=port, controller=controller, logs=logs))
    logging.write_text(LOGGING)
    cluster = "Y290ZXJpZS10ZXN0LTAwMQ"
    made = java("kafka.tools.StorageTool", "format", "-t", cluster, "-c", settings)
    subprocess.run(made, check=True, capture_output=True, timeout=HANG_S)
    command = java("kafka.Kafka", settings, options=[f"-Dlog4j.configuration={logging.as_uri()}"])
    environment = {**os.environ, "LOG_DIR": str(folder)}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    late = threading.Timer(HANG_S, process.kill)
    late.start()
    try:
        said = []
        for line in process.stdout:
            said.append(line)
            if "Kafka Server started" in line:
                break
        else:
            pytest.fail(f"the broker did not start: {''.join(said[-20:])}")
        late.cancel()
        # Whoever does not read what it says would stop it when the pipe is full.
        reading = threading.Thread(target=process.stdout.read, daemon=True)
        reading.start()
        yield Broker(f"127.0.0.1:{port}", logs)
    finally:
        late.cancel()
        process.terminate()
        try:
            process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
