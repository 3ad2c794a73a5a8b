"""Consumers on librdkafka, in processes of their own, with the orders and events of `members`.

They can do more: commit by themselves, process slowly, stick at a record, rewind, seek. Orders
besides those of `members`: ``go past`` (the record that it is stuck at) and
``seek TOPIC-PARTITION OFFSET``.
"""

import json
import queue
import sys
import threading
import time

from recorders.members import DEFAULTS, Member, now_ms, spelled, tell

MORE = {
    "auto_commit_s": None,  # enable.auto.commit; ``commit_s`` is ignored then
    "assignor": "range",
    "reset": "earliest",
    "poll_interval_s": 300.0,
    "loop_s": 0.1,
    "slow_s": 0.0,  # so long it processes what a poll returned
    "stuck_at": {},  # TOPIC-PARTITION: the record that it cannot process, and tries again
    "rewind": {},  # TOPIC-PARTITION: [at this position or a later one, seek to this offset]
}


class NativeMember(Member):
    """A running consumer on librdkafka; see `Member`."""

    program, defaults = __file__, {**DEFAULTS, **MORE}


def place_of(name, offset=-1001):
    import confluent_kafka

    topic, _, partition = name.rpartition("-")
    return confluent_kafka.TopicPartition(topic, int(partition), offset)


class Application:
    """The consumer of this process: what it has read, and which orders it has."""

    def __init__(self, address, what):
        import confluent_kafka

        self.what, self.at, self.fresh = what, {}, set()
        self.stuck_at, self.quiet, self.sent_ms = dict(what["stuck_at"]), False, [0, 0]
        auto_s = what["auto_commit_s"]
        settings = {
            "bootstrap.servers": address,
            "client.id": what["name"],
            "group.id": what["group"],
            "enable.auto.commit": auto_s is not None,
            "auto.commit.interval.ms": int((auto_s or 5) * 1000),
            "auto.offset.reset": what["reset"],
            "partition.assignment.strategy": what["assignor"],
            "session.timeout.ms": int(what["session_s"] * 1000),
            "heartbeat.interval.ms": int(what["session_s"] * 100),
            "max.poll.interval.ms": int(max(what["poll_interval_s"], what["session_s"]) * 1000),
            "fetch.wait.max.ms": 100,
            "topic.metadata.refresh.interval.ms": 2000,
            "reconnect.backoff.max.ms": int(what["reconnect_s"] * 1000),
            "log_level": 0,
            "on_commit": self.committed_by_itself,
        }
        if what["instance"]:
            settings["group.instance.id"] = what["instance"]
        self.consumer = confluent_kafka.Consumer(settings)
        self.consumer.subscribe(
            what["topics"], on_assign=self.assigned, on_revoke=self.revoked, on_lost=self.lost
        )

    # ---- callbacks ----

    def assigned(self, consumer, places):
        names = spelled(places)
        tell("assigned", partitions=names, member_id=consumer.memberid())
        self.fresh |= set(names)
        for place in consumer.committed(places, 10) if places else ():
            if place.offset >= 0:
                self.at[spelled([place])[0]] = place.offset

    def revoked(self, _consumer, places):
        if self.what["commit_s"] and self.what["auto_commit_s"] is None:
            self.commit()  # as an application should before it gives up its partitions
        tell("revoked", partitions=spelled(places))
        self.forget(places)

    def lost(self, _consumer, places):
        tell("lost", partitions=spelled(places))
        self.forget(places)

    def forget(self, places):
        for name in spelled(places):
            self.at.pop(name, None)
            self.fresh.discard(name)

    def committed_by_itself(self, error, places):
        if self.what["auto_commit_s"] is not None:
            self.report(error, [place for place in places if place.offset >= 0])

    def report(self, error, places):
        if error is not None:
            tell("commit refused", error=error.name())
        elif places:
            offsets = {spelled([place])[0]: place.offset for place in places}
            # A commit by itself may be sent before the answer to the one before it is reported.
            tell("committed", since_ms=self.sent_ms[0], offsets=offsets)
        self.sent_ms = [self.sent_ms[1], now_ms()]

    # ---- work ----

    def commit(self):
        import confluent_kafka

        self.sent_ms = [now_ms()] * 2
        places = [place_of(name, at) for name, at in sorted(self.at.items())]
        if not places:
            return
        try:
            self.consumer.commit(offsets=places, asynchronous=False)
        except confluent_kafka.KafkaException as failure:
            error = failure.args[0]
            self.report(error, [])
            if error.fatal():
                raise
        else:
            self.report(None, places)

    def process(self, messages):
        ended = set()  # partitions whose position was set back within this batch
        for message in messages:
            if message.error():
                tell("error", error=message.error().name())
                if message.error().fatal():
                    raise RuntimeError(message.error().name())
                continue
            name, offset = f"{message.topic()}-{message.partition()}", message.offset()
            if name in ended:
                continue
            if name in self.fresh:
                self.fresh.remove(name)
                tell("first record", partition=name, offset=offset)
            self.at[name] = offset + 1
            span = self.what["rewind"].get(name)
            if self.stuck_at.get(name) == offset:
                self.at[name] = offset
                self.consumer.seek(place_of(name, offset))
                ended.add(name)
            elif span and offset + 1 >= span[0]:
                self.commit()
                self.seek(name, span[1])
                ended.add(name)

    def seek(self, name, offset):
        before = self.at.get(name)
        self.consumer.seek(place_of(name, offset))
        self.at[name] = offset
        tell("sought", partition=name, before=before, offset=offset)

    def obey(self, order):
        if order in ("quiet", "go on"):
            self.quiet = order == "quiet"
            tell(order)
        elif order == "commit":
            self.commit()
        elif order == "go past":
            self.stuck_at = {}
            tell(order)
        elif order.startswith("seek"):
            _, name, offset = order.split()
            self.seek(name, int(offset))

    def run(self, orders):
        """Poll and commit until an order or an error ends it."""
        due_s = time.monotonic()
        while True:
            if not self.quiet:
                messages = self.consumer.consume(self.what["records"], 0.05)
                self.process(messages)
                if messages and self.what["slow_s"]:
                    time.sleep(self.what["slow_s"])
            else:
                self.consumer.poll(0)
            manual = self.what["commit_s"] if self.what["auto_commit_s"] is None else None
            if manual and time.monotonic() >= due_s and not self.quiet:
                self.commit()
                due_s = time.monotonic() + manual
            while not orders.empty():
                order = orders.get()
                if order == "leave":
                    return
                self.obey(order)
            time.sleep(self.what["loop_s"])


def main(address, what):
    orders = queue.Queue()

    def listen():
        for line in sys.stdin:
            orders.put(line.strip())
        orders.put("leave")  # the driver has ended

    threading.Thread(target=listen, daemon=True).start()
    tell("started")
    application = Application(address, what)
    try:
        application.run(orders)
    except Exception as error:  # such as fencing; the driver reads the reason
        tell("failed", error=f"{type(error).__name__}: {error}")
    application.consumer.close()
    tell("left")


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
