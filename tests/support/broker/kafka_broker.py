"""A local Kafka broker from jars that Maven downloads, and Kafka's own tools.

No wait has a fixed time: the broker logs that it has started. If Maven, a JDK or the jars are
missing, the test is skipped by name.
"""

import functools
import os
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from support import jvm, maven
from support.patience import HANG_S

PROJECT = Path(__file__).parent
VERSION = "3.9.1"
CLUSTER = "Y290ZXJpZS10ZXN0LTAwMQ"
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
initial.broker.registration.timeout.ms=600000
"""
LOGGING = """\
log4j.rootLogger=INFO, stdout, server
log4j.logger.kafka.request.logger={requests}, requests
log4j.additivity.kafka.request.logger=false
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.server=org.apache.log4j.FileAppender
log4j.appender.server.File={folder}/server.log
log4j.appender.requests=org.apache.log4j.FileAppender
log4j.appender.requests.File={folder}/kafka-request.log
"""
LOGGING_2 = """\
rootLogger.level=info
rootLogger.appenderRefs=stdout, server
rootLogger.appenderRef.stdout.ref=stdout
rootLogger.appenderRef.server.ref=server
logger.requests.name=kafka.request.logger
logger.requests.level={requests}
logger.requests.additivity=false
logger.requests.appenderRef.requests.ref=requests
appender.stdout.type=Console
appender.server.type=File
appender.server.fileName={folder}/server.log
appender.requests.type=File
appender.requests.fileName={folder}/kafka-request.log
"""
OPS = """\
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},OPS://127.0.0.1:{ops}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},OPS://127.0.0.1:{ops}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OPS:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.ops.plain.sasl.jaas.config={login} user_{user}="secret";
"""
LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="{user}" password="secret"'
)
OPS_CLIENT = """\
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config={login};
client.id={client_id}
"""
APPENDER_2 = """\
appender.{name}.name={name}
appender.{name}.layout.type=PatternLayout
appender.{name}.layout.pattern=[%d] %p %m (%c)%n
"""
APPENDER = """\
log4j.appender.{name}.layout=org.apache.log4j.PatternLayout
log4j.appender.{name}.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


@functools.cache
def classpath(version=VERSION, *profiles):
    """The class path of a version of Kafka; skips the test if something is missing.

    ``profiles`` are those of ``pom.xml``: ``connect``.
    """
    options = [f"-Dkafka.version={version}", *(f"-P{name}" for name in profiles)]
    options += [] if version < "4" else ["-Plog4j2"]
    return maven.classpath(PROJECT, "broker", *options)


def java(main, *arguments, options=(), version=VERSION):
    fixed = ["-Xmx400m", *jvm.SHORT_LIVED, "-Duser.timezone=UTC"]
    fixed += [*options, "-cp", classpath(version)]
    return ["java", *fixed, main, *map(str, arguments)]


def built_clock(folder):
    """Build the library of ``wall_clock.c``; return its path and that of the file it reads."""
    library, offset = folder / "wall_clock.so", folder / "clock"
    source = PROJECT / "wall_clock.c"
    command = ["cc", "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"]
    subprocess.run(command, check=True)
    offset.write_bytes(bytes(8))
    return library, offset


def free_ports(count):
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    return ports


class Broker:
    """A broker in a folder: ``address`` for clients, ``logs`` the folder of its partitions.

    ``settings`` are properties that override the defaults (``overrides`` has them by name). With
    ``request_log``, each request is in ``kafka-request.log`` beside ``server.log``, in UTC.
    ``ops`` is a user name: Kafka's tools then log in as this user, on a listener of its own.
    With ``clock``, ``set_clock`` moves its wall clock while it
    runs. ``address`` is where ``settings`` make it listen for clients.
    """

    def __init__(
        self,
        folder,
        *,
        version=VERSION,
        settings="",
        request_log=False,
        ops=None,
        clock=False,
        address=None,
    ):
        port, controller, ops_port = free_ports(3)
        self.process, self._environment, self._ops = None, {}, ops
        if clock:
            library, self._clock = built_clock(folder)
            self._environment = {"LD_PRELOAD": str(library), "COTERIE_CLOCK": str(self._clock)}
        self.folder, self.version, self.logs = folder, version, folder / "logs"
        self.address = address or f"127.0.0.1:{port}"
        self._settings, self._logging = folder / "server.properties", folder / "log.properties"
        defaults = SETTINGS.format(port=port, controller=controller, logs=self.logs)
        self.overrides = dict(line.split("=", 1) for line in settings.splitlines())
        if ops:
            login = LOGIN.format(user=ops)
            ports = {"port": port, "controller": controller, "ops": ops_port}
            defaults += OPS.format(**ports, login=login, user=ops)
            self.ops_address = f"127.0.0.1:{ops_port}"
            self._ops_client = folder / "ops.properties"
            client = OPS_CLIENT.format(login=login, client_id=f"{ops}-console")
            self._ops_client.write_text(client)
        self._settings.write_text(defaults + settings)
        level = "DEBUG" if request_log else "WARN"
        log4j = version < "4"  # then log4j 2
        head, appender = (LOGGING, APPENDER) if log4j else (LOGGING_2, APPENDER_2)
        appenders = [appender.format(name=name) for name in ("stdout", "server", "requests")]
        self._logging.write_text(head.format(folder=folder, requests=level) + "".join(appenders))
        option = "log4j.configuration" if log4j else "log4j2.configurationFile"
        self._logging_option = f"-D{option}={self._logging.as_uri()}"
        output = self._run("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", self._settings)
        assert "Formatting" in output, output

    def start(self):
        """Start or restart it, and return once it has started."""
        options = [self._logging_option]
        command = java("kafka.Kafka", self._settings, options=options, version=self.version)
        environment = {**os.environ, "LOG_DIR": str(self.folder), **self._environment}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        late = threading.Timer(HANG_S, self.process.kill)
        late.start()
        lines = []
        try:
            for line in self.process.stdout:
                lines.append(line)
                if "Kafka Server started" in line:
                    break
            else:
                pytest.fail(f"the broker did not start: {''.join(lines[-20:])}")
        except BaseException:
            self.process.kill()
            raise
        finally:
            late.cancel()
        # The broker would stop at a full pipe if its output were not read.
        self._reading = threading.Thread(target=self.process.stdout.read, daemon=True)
        self._reading.start()

    def stop(self):
        """Stop it in order, as an operator does."""
        self.process.terminate()
        try:
            self.process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._end()

    def kill(self):
        """Kill it without a shutdown."""
        self.process.kill()
        self._end()

    def end(self):
        """Kill it if it runs."""
        if self.process and self.process.poll() is None:
            self.kill()

    def _end(self):
        self.process.wait()
        self._reading.join()
        self.process.stdout.close()

    def set_clock(self, offset_s):
        """Move the wall clock of the running broker so many seconds from the true time."""
        with open(self._clock, "r+b") as file:
            file.write(offset_s.to_bytes(8, sys.byteorder, signed=True))

    def groups_tool(self, *arguments):
        """Run kafka-consumer-groups and return its output: its exit status is always 0."""
        return self.tool("consumer.group.ConsumerGroupCommand", *arguments)

    def tool(self, main, *arguments):
        """Run a class of Kafka's tools, as the user of ``ops`` if there is one."""
        at = ["--bootstrap-server", self.address]
        if self._ops:
            at = ["--bootstrap-server", self.ops_address, "--command-config", self._ops_client]
        return self._run(f"org.apache.kafka.tools.{main}", *at, *arguments)

    def end_offsets_tool(self, *arguments):
        """Run kafka-get-offsets: a line ``topic:partition:offset`` for each partition."""
        main = "org.apache.kafka.tools.GetOffsetShell"
        return self._run(main, "--bootstrap-server", self.address, *arguments)

    def _run(self, main, *arguments):
        command = java(main, *arguments, version=self.version)
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=HANG_S, check=False
        )
        return result.stdout


@contextmanager
def running_broker(folder, **options):
    """A fresh broker in ``folder``, stopped at the end; ``options`` as of ``Broker``."""
    broker = Broker(folder, **options)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()
