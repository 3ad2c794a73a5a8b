"""Consumers of a simulated cluster in one thread, and what their listeners and commits show."""

from coterie import GroupCoordinator
from coterie.testing import Cluster, Consumer
from coterie.testing.process import Process
from support.limited import limited

SETTINGS = {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}


class Recorder(GroupCoordinator):
    """Writes down the requests of members: (time, operation, arguments, fields)."""

    def __init__(self, *args, **options):
        self.seen = []
        super().__init__(*args, **options)

    def of(self, op):
        """The arguments and fields of all requests of an operation."""
        return [(args, fields) for _, name, args, fields in self.seen if name == op]

    def times(self, op):
        """When the requests of an operation came."""
        return [at for at, name, _, _ in self.seen if name == op]


def _recorded(op):
    def call(self, *args, **fields):
        self.seen.append((self.now_ms, op, args, fields))
        return getattr(super(Recorder, self), op)(*args, **fields)

    return call


for _op in ("join_group", "sync_group", "heartbeat", "leave_group", "offset_commit",
            "offset_fetch", "consumer_group_heartbeat"):  # fmt: skip
    setattr(Recorder, _op, _recorded(_op))


def polling(consumer):
    """The program of a consumer that does nothing with its records."""
    while True:
        consumer.poll(1000)


class Listener:
    """Writes each call to a list: (name of the consumer, what, numbers of the partitions)."""

    def __init__(self, name, calls):
        self._name, self._calls = name, calls

    def _called(self, what, partitions):
        self._calls.append((self._name, what, [number for _, number in partitions]))

    def on_partitions_assigned(self, partitions):
        self._called("assigned", partitions)

    def on_partitions_revoked(self, partitions):
        self._called("revoked", partitions)

    def on_partitions_lost(self, partitions):
        self._called("lost", partitions)


class Story:
    """A cluster with one topic, and its consumers by name."""

    def __init__(self, partitions=3, config=None, **cluster):
        self.cluster = Cluster({"orders": partitions}, config, schedule=limited(), **cluster)
        self.calls = []
        self.notes = []
        self.consumers = {}
        self.processes = {}
        self.cluster.on_note = lambda *note: self.notes.append(note)

    def start(self, name, settings=(), *, subscribe=True, listener=None):
        """A consumer of this name; it subscribes, but does not poll."""
        chosen = SETTINGS | dict(settings)
        process = self.processes[name] = Process(self.cluster.schedule, name)
        consumer = self.consumers[name] = Consumer(self.cluster, chosen, process=process)
        if subscribe:
            consumer.subscribe(["orders"], listener or Listener(name, self.calls))
        return consumer

    def run(self, name, settings=(), program=None):
        """A consumer in a process of its own, whose program polls for ever by default."""
        process = self.processes[name] = Process(self.cluster.schedule, name)
        consumer = Consumer(self.cluster, SETTINGS | dict(settings), process=process)
        consumer.subscribe(["orders"], Listener(name, self.calls))
        self.consumers[name] = consumer
        process.start(program or polling, consumer)
        return consumer

    def kill(self, name):
        """The consumer's process dies."""
        self.consumers.pop(name)
        self.processes[name].kill()

    def poll(self, ms=10_000, step_ms=100):
        """Let all poll in turn for a time; the values of the records that came."""
        until = self.cluster.now_ms + ms
        values = []
        while self.cluster.now_ms < until:
            for consumer in self.consumers.values():
                values += [record.value for record in consumer.poll(step_ms)]
        return values

    def take_calls(self):
        """The calls of listeners since the last time."""
        calls = self.calls[:]
        self.calls.clear()
        return calls

    def of(self, kind):
        """The details of all notes of a kind."""
        return [details for _, _, noted, details in self.notes if noted == kind]

    def pass_time(self, ms):
        """Nobody polls for a time."""
        self.cluster.schedule.run_until(self.cluster.now_ms + ms)

    def owned(self):
        """The numbers of the partitions of each consumer."""
        return {name: sorted(n for _, n in c.assignment()) for name, c in self.consumers.items()}
