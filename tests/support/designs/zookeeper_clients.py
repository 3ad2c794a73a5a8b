"""ZooKeeper on a clock of its own, its nodes, and a client that writes down what reaches it."""

from coterie.base.schedule import Schedule, Task
from coterie.designs.zookeeper import Connection, ZooKeeper


def service(tick_ms=500):
    schedule = Schedule()
    return schedule, ZooKeeper(schedule, tick_ms=tick_ms)


def nodes(zookeeper):
    """Path, data and owner of every node but the root."""
    return {
        path: (node.data, node.owner) for path, node in zookeeper.tree.nodes.items() if path != "/"
    }


class Client:
    """A client that writes down what reaches it."""

    def __init__(self, zookeeper, timeout_ms=6000, delivery_ms=5, reconnect_ms=500):
        self.events = []
        self.expired = 0
        self.connection = Connection(
            *(zookeeper, "c", timeout_ms, lambda *e: self.events.append(e), self._ended),
            delivery_ms=delivery_ms,
            reconnect_ms=reconnect_ms,
        )

    def _ended(self):
        self.expired += 1

    def ask(self, function, *args):
        """Ask for something as a task; give the list that the answer comes into."""
        answers = []

        def run():
            answers.append((yield from self.connection.call(function, *args)))

        Task(self.connection.zookeeper.schedule, run())
        return answers
