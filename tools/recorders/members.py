"""Consumers in processes of their own, which can be killed, and the events that they report.

`Member` starts this module as a program and is the driver's side of it. The program reads orders
from its standard input, one a line: ``commit``, ``quiet``, ``go on``, ``leave``. It prints JSON
lines with the clock's ms: partitions assigned and revoked, offsets committed, its end.
"""

import json
import queue
import socket
import subprocess
import sys
import threading
import time

DEFAULTS = {
    "instance": None,
    "host": None,  # an address of this machine to connect from: 127.0.0.2
    "commit_s": 0.5,
    "records": 20,  # at most so many in a poll, of which there are ten a second
    "session_s": 10.0,
    "reconnect_s": 1.0,
}


def now_ms():
    return int(time.time() * 1000)


class Member:
    """A running consumer; ``seen`` has the events that it has reported so far."""

    program, defaults = __file__, DEFAULTS

    def __init__(self, address, name, group, topics, **options):
        self.name = name
        what = {**self.defaults, **options, "name": name, "group": group, "topics": topics}
        self.what = what
        self.seen = []
        self._news = threading.Condition()
        self._ended = False
        self.process = subprocess.Popen(
            [sys.executable, self.program, address, json.dumps(what)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.process.stdout:
            with self._news:
                self.seen.append(json.loads(line))
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def tell(self, order):
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()

    def await_(self, event, since=0, timeout_s=60):
        """Return the first event of this name after the first ``since`` events."""
        with self._news:
            self._news.wait_for(lambda: self._find(event, since) or self._ended, timeout_s)
        found = self._find(event, since)
        assert found, f"{self.name}: no {event}: {self.seen[-3:]}"
        return found

    def _find(self, event, since):
        return next((row for row in self.seen[since:] if row["event"] == event), None)

    def order(self, order, answer):
        """Send an order and wait for the event that confirms it."""
        since = len(self.seen)
        self.tell(order)
        return self.await_(answer, since)

    def leave(self):
        """Close it in order: it leaves its group unless it is a static member."""
        self.order("leave", "left")
        self.process.wait()

    def kill(self):
        self.process.kill()
        self.process.wait()


def tell(event, **details):
    sys.stdout.write(json.dumps({"at_ms": now_ms(), "event": event, **details}) + "\n")
    sys.stdout.flush()


def connect_from(host):
    """Make every connection of this process from one address of the machine."""

    class Bound(socket.socket):
        def __init__(self, family=-1, type=-1, proto=-1, fileno=None):
            super().__init__(family, type, proto, fileno)
            if self.family == socket.AF_INET and fileno is None:
                self.bind((host, 0))

    socket.socket = Bound


def spelled(places):
    return sorted(f"{place.topic}-{place.partition}" for place in places)


def consumer_of(address, what):
    import kafka
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    class Listener(kafka.ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned):
            consumer.may_commit = bool(assigned)
            tell("assigned", partitions=spelled(assigned))

        def on_partitions_revoked(self, revoked):
            consumer.may_commit = False
            tell("revoked", partitions=spelled(revoked))

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=address,
        client_id=what["name"],
        group_id=what["group"],
        group_instance_id=what["instance"],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_poll_records=what["records"],
        session_timeout_ms=int(what["session_s"] * 1000),
        heartbeat_interval_ms=int(what["session_s"] * 300),
        fetch_max_wait_ms=100,
        reconnect_backoff_ms=int(what["reconnect_s"] * 500),
        reconnect_backoff_max_ms=int(what["reconnect_s"] * 1000),
        partition_assignment_strategy=[RangePartitionAssignor],
    )
    consumer.may_commit = False  # a commit amid a rebalance keeps this client from joining
    consumer.subscribe(what["topics"], listener=Listener())
    return consumer


def commit(consumer):
    """Commit the position of each assigned partition, and report it."""
    from kafka.errors import FencedInstanceIdError, KafkaError
    from kafka.structs import OffsetAndMetadata

    at = {place: consumer.position(place) for place in sorted(consumer.assignment())}
    before_ms = now_ms()
    try:
        if at:
            offsets = {place: OffsetAndMetadata(offset, "", -1) for place, offset in at.items()}
            consumer.commit(offsets, timeout_ms=5000)
    except KafkaError as error:
        tell("commit refused", error=type(error).__name__)
        if isinstance(error, FencedInstanceIdError):
            raise
        return
    offsets = {f"{place.topic}-{place.partition}": offset for place, offset in at.items()}
    tell("committed", since_ms=before_ms, offsets=offsets)


def consume(consumer, what, orders):
    """Poll ten times a second and commit in between, until an order or an error ends it."""
    quiet, due_s = False, time.monotonic()
    while True:
        consumer.poll(timeout_ms=50)
        due = what["commit_s"] and time.monotonic() >= due_s
        if due and consumer.may_commit and not quiet:
            commit(consumer)
            due_s = time.monotonic() + what["commit_s"]
        order = None if orders.empty() else orders.get()
        if order in ("quiet", "go on"):
            quiet = order == "quiet"
            tell(order)
        elif order == "commit":
            commit(consumer)
        elif order == "leave":
            return
        time.sleep(0.05)


def main(address, what):
    if what["host"]:
        connect_from(what["host"])
    orders = queue.Queue()

    def listen():
        for line in sys.stdin:
            orders.put(line.strip())

    threading.Thread(target=listen, daemon=True).start()
    tell("started")
    consumer = consumer_of(address, what)
    try:
        consume(consumer, what, orders)
    except Exception as error:  # such as fencing; the driver reads the reason
        tell("failed", error=type(error).__name__)
        consumer.close(autocommit=False)
        return
    consumer.close(autocommit=False)
    tell("left")


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
