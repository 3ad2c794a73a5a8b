"""Three brokers of Kafka in one cluster, each also a controller, and the links between them.

Each broker's listener for the other brokers is reached through a :class:`Link`, which can be cut:
its followers then get no more records, while clients and controllers go on.
"""

import socket
import threading
from contextlib import contextmanager, suppress

from support.broker.kafka_broker import Broker, free_ports

SETTINGS = """\
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{port},LINK://127.0.0.1:{inner},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},LINK://127.0.0.1:{link}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,LINK:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=LINK
offsets.topic.replication.factor=3
min.insync.replicas=1
unclean.leader.election.enable=true
unclean.leader.election.interval.ms=2000
replica.lag.time.max.ms=4000
replica.fetch.wait.max.ms=200
broker.session.timeout.ms=4000
broker.heartbeat.interval.ms=1000
controlled.shutdown.enable=true
"""


class Link:
    """Passes bytes between a port and another one, until it is cut."""

    def __init__(self, port, target):
        self._target, self._pairs, self._cut = target, [], False
        self._server = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                one, _ = self._server.accept()
            except OSError:
                return
            try:
                other = socket.create_connection(("127.0.0.1", self._target), 5)
            except OSError:
                one.close()
                continue
            if self._cut:
                one.close()
                other.close()
                continue
            other.settimeout(None)
            self._pairs.append((one, other))
            for pair in ((one, other), (other, one)):
                threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            shut(end)

    def cut(self):
        """End all connections, and take no more."""
        self._cut = True
        for pair in self._pairs:
            for end in pair:
                shut(end)

    def mend(self):
        self._cut = False

    def close(self):
        self.cut()
        self._server.close()


def shut(end):
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


class Cluster:
    """Brokers 1 to 3; ``address`` has all three for clients, ``links`` one for each broker."""

    def __init__(self, folder, *, version, settings="", **options):
        ports = free_ports(12)
        controllers = dict(zip((1, 2, 3), ports[:3], strict=True))
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in controllers.items())
        self.brokers, self.links = {}, {}
        for node in (1, 2, 3):
            port, inner, link = ports[3 * node : 3 * node + 3]
            values = {"node": node, "voters": voters, "port": port, "inner": inner, "link": link}
            own = SETTINGS.format(**values, controller=controllers[node])
            place = folder / f"broker-{node}"
            place.mkdir()
            self.brokers[node] = Broker(
                place, version=version, settings=own + settings, address=f"127.0.0.1:{port}"
            )
            self.links[node] = Link(link, inner)
        self.address = ",".join(broker.address for broker in self.brokers.values())

    def start(self):
        """Start all at the same time: none has started before the controllers have elected."""
        threads = [threading.Thread(target=broker.start) for broker in self.brokers.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def close(self):
        for broker in self.brokers.values():
            broker.end()
        for link in self.links.values():
            link.close()


@contextmanager
def running_cluster(folder, **options):
    cluster = Cluster(folder, **options)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.close()
