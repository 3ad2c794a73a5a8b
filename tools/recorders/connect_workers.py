"""Workers of Kafka Connect in distributed mode, in processes of their own, and their REST API."""

import json
import subprocess
from time import sleep
from urllib.request import Request, urlopen

from support import jvm
from support.broker.kafka_broker import classpath, free_ports

SETTINGS = """\
bootstrap.servers={address}
client.id={name}
group.id={group}
connect.protocol={protocol}
listeners=http://127.0.0.1:{port}
rest.advertised.host.name=127.0.0.1
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.topic={group}-offsets
config.storage.topic={group}-configs
status.storage.topic={group}-status
offset.storage.partitions=1
status.storage.partitions=1
offset.storage.replication.factor=1
config.storage.replication.factor=1
status.storage.replication.factor=1
offset.flush.interval.ms=5000
session.timeout.ms=6000
heartbeat.interval.ms=1000
scheduled.rebalance.max.delay.ms=8000
"""
START_STEPS = 180  # seconds that a worker may take to start
MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"


class Worker:
    """A running worker; ``url`` is its place in its group."""

    def __init__(self, run, name, group, protocol="sessioned"):
        (port,) = free_ports(1)
        broker = run.broker
        self.run, self.name, self.url = run, name, f"http://127.0.0.1:{port}"
        file, self._log = broker.folder / f"{name}.properties", broker.folder / f"{name}.log"
        values = {"address": broker.address, "name": name, "group": group, "port": port}
        file.write_text(SETTINGS.format(**values, protocol=protocol))
        command = ["java", "-Xmx200m", *jvm.SHORT_LIVED]
        command += ["-cp", classpath(broker.version, "connect"), MAIN, str(file)]
        run.note("worker started", worker=name, group=group, url=self.url, protocol=protocol)
        with open(self._log, "w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        run.on_close(self.end)

    def await_up(self):
        for _ in range(START_STEPS):
            if self.attempt("GET", "/connectors") is not None:
                return
            assert self.process.poll() is None, self._log.read_text()[-2000:]
            sleep(1)
        raise AssertionError(f"{self.name} has not started: {self._log.read_text()[-2000:]}")

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, data, {"Content-Type": "application/json"})
        request.method = method
        with urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")

    def attempt(self, *request):
        """The answer, or None while the worker does not serve (it starts, or rebalances)."""
        try:
            return self.call(*request)
        except OSError as error:  # URLError and HTTPError among them
            if getattr(error, "code", 409) not in (404, 409, 500, 503):
                raise
            return None

    def configure(self, connector, **config):
        """Add or change a connector."""
        self.run.note("connector configured", connector=connector, config=config)
        for _ in range(30):
            if self.attempt("PUT", f"/connectors/{connector}/config", config) is not None:
                return
            sleep(1)
        raise AssertionError(f"{connector} could not be configured")

    def await_running(self, **tasks):
        """Wait until each connector has so many running tasks; record where they are."""
        for _ in range(60):
            paths = {name: f"/connectors/{name}/status" for name in tasks}
            status = {name: self.attempt("GET", path) for name, path in paths.items()}
            if all(runs(status[name], count) for name, count in tasks.items()):
                return self.run.note("status", status=status)
            sleep(1)
        raise AssertionError(f"not running: {status}")

    def stop(self):
        self.run.note("worker being stopped", worker=self.name)
        self.process.terminate()
        self.process.wait()
        return self.run.note("worker stopped", worker=self.name)

    def kill(self):
        self.process.kill()
        self.process.wait()
        return self.run.note("worker killed", worker=self.name)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def runs(status, count):
    if status is None:
        return False
    states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
    return len(status["tasks"]) == count and set(states) == {"RUNNING"}
