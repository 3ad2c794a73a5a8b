"""Programs for the module ``kafka``, and what they see: callbacks, results, errors.

Each is a function of a :class:`World`, which has the module and writes down what happens.
"""

import time

from support.clients import world
from support.clients.world import RECORDS, TOPIC

SETTINGS = {
    "group_id": "g",
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "heartbeat_interval_ms": 300,
    "fetch_max_wait_ms": 20,
    "metadata_max_age_ms": 100,
}
STEP_MS = 50


class World(world.World):
    """The world of a module ``kafka``."""

    def consumer(self, name, *topics, **settings):
        chosen = {"bootstrap_servers": self.servers, "client_id": name} | SETTINGS | settings
        consumer = self.module.KafkaConsumer(**chosen)
        if topics:
            self.subscribe(consumer, topics)
        return consumer

    @staticmethod
    def subscribe(consumer, *args, **named):
        """Subscribe, and wait for the metadata: else it may join again when they come."""
        consumer.subscribe(*args, **named)
        consumer.topics()

    def listener(self, name, *, on_assign=lambda _: None):
        """A listener that writes down what it gets."""
        world = self

        class Noted(self.module.ConsumerRebalanceListener):
            def on_partitions_revoked(self, revoked):
                world.note(name, "revoked", type(revoked).__name__, world.shown(revoked))

            def on_partitions_assigned(self, assigned):
                world.note(name, "assigned", type(assigned).__name__, world.shown(assigned))
                if assigned:
                    on_assign(assigned)

            def on_partitions_lost(self, lost):
                world.note(name, "lost", world.shown(lost))

        return Noted()

    def described(self, failure):
        return type(failure).__name__, getattr(failure, "retriable", None)

    def shown(self, found):
        if isinstance(found, set | list):
            return sorted(self.shown(each) for each in found)
        if isinstance(found, dict):
            return sorted((self.shown(key), self.shown(value)) for key, value in found.items())
        if isinstance(found, self.module.TopicPartition):
            return f"{found.topic}-{found.partition}"
        return found

    def partition(self, number, topic=TOPIC):
        return self.module.TopicPartition(topic, number)

    def offsets(self, *numbers):
        """Offsets of partitions 0, 1, ...; None: none."""
        return {
            self.partition(n): self.module.OffsetAndMetadata(at, "", -1)
            for n, at in enumerate(numbers)
            if at is not None
        }

    def produce(self, counts):
        """Produce so many records to each partition; values ``P-N``."""
        producer = self.module.KafkaProducer(bootstrap_servers=self.servers)
        for number, count in enumerate(counts):
            for n in range(count):
                producer.send(TOPIC, f"{number}-{n}".encode(), partition=number)
        producer.flush()
        producer.close()

    def polled(self, consumer):
        return [record for records in consumer.poll(STEP_MS).values() for record in records]

    def read(self, count, consumer):
        found = self.until(lambda found: len(found) >= count, consumer)
        self.note("read", sorted((m.partition, m.offset, m.value) for m in found))
        return found


def a_loop(world):
    """Read, commit, and read again as another member."""
    world.produce([3])
    one = world.consumer("a")
    world.subscribe(one, [TOPIC], listener=world.listener("a"))
    world.tried("assignment", one.assignment)
    world.tried("nothing", one.poll)
    world.read(3, one)
    for number in (0, 1):
        world.tried("position", one.position, world.partition(number))
    world.tried("commit", one.commit)
    for number in (0, 1):
        world.tried("committed", one.committed, world.partition(number))
    world.tried("metadata", lambda: one.committed(world.partition(0), metadata=True)[:2])
    world.tried("subscription", one.subscription)
    world.tried("topics", one.topics)
    world.tried("partitions", one.partitions_for_topic, TOPIC)
    world.tried("close", one.close)
    world.tried("closed", one.poll)
    world.tried("closed", one.close)
    two = world.consumer("b", TOPIC)
    world.settled(b=(two, RECORDS))
    world.tried("position", two.position, world.partition(0))
    two.close()


def an_iterator(world):
    """The position moves with each record of the iterator, and is committed so."""
    world.produce([4])
    one = world.consumer("a", TOPIC, consumer_timeout_ms=500)
    for record in one:
        world.note("record", record.offset, record.value, record.key, record.headers)
        world.tried("position", one.position, world.partition(0))
        if record.offset == 1:
            break
    world.tried("commit", one.commit)
    world.tried("committed", one.committed, world.partition(0))
    world.tried("seek", one.seek, world.partition(0), 0)
    world.tried("next", lambda: next(one).offset)
    world.tried("pause", one.pause, world.partition(0))
    world.tried("paused", one.paused)
    world.tried("over", lambda: [record.offset for record in one])
    world.tried("resume", one.resume, world.partition(0))
    world.tried("rest", lambda: [record.offset for record in one])
    one.close()
    world.tried("closed", lambda: list(one))


def automatic_commits(world):
    """Positions are committed at the end, unless an exception leaves a ``with``."""
    world.produce([3])
    for failing in (True, False):
        with_all = {"enable_auto_commit": True, "auto_commit_interval_ms": 60_000}
        try:
            with world.consumer("a", TOPIC, **with_all) as one:
                world.note(next(one).offset)
                if failing:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            world.note("failed")
        two = world.consumer("b")
        world.tried("committed", two.committed, world.partition(0))
        two.close(autocommit=False)
    seen = []

    def committed(offsets, response):
        seen.append((world.shown(offsets), response))

    chosen = {"enable_auto_commit": True, "auto_commit_interval_ms": 100}
    three = world.consumer("a", TOPIC, **chosen, default_offset_commit_callback=committed)
    world.read(2, three)
    world.until(lambda _: three.committed(world.partition(0)) == 3, three)
    three.unsubscribe()
    world.tried("assignment", three.assignment)
    world.tried("subscription", three.subscription)
    world.tried("nothing", three.poll, 50)
    three.close()


def commits(world):
    """Every way to commit."""
    world.produce([3, 2])
    one = world.consumer("a", TOPIC)
    world.tried("too early", one.commit, world.offsets(1))
    world.read(5, one)
    world.tried("offsets", one.commit, world.offsets(1, None, 7))
    world.tried("type", one.commit, {world.partition(0): 1})
    world.tried("type", one.commit_async, {(TOPIC, 0): 1})
    world.tried("none", one.commit, {})

    def done(offsets, response):
        world.note("a", "callback", world.shown(offsets), response)

    future = one.commit_async(world.offsets(2), done)
    world.until(lambda _: world.events[-1][1] == "callback", one)
    world.note(future.succeeded(), future.is_done, future.value)
    for number in (0, 1, 2):
        world.tried("committed", one.committed, world.partition(number))
    world.tried("all", one.commit)
    world.tried("committed", one.committed, world.partition(1))
    one.close()
    alone = world.consumer("b", group_id=None)
    world.tried("alone", alone.commit)
    world.tried("alone", alone.commit_async)
    world.tried("alone", alone.committed, world.partition(0))
    alone.close()


def rebalances(world, **settings):
    """A second member comes, and goes."""
    one, two = world.consumer("a", **settings), world.consumer("b", **settings)
    world.subscribe(one, [TOPIC], listener=world.listener("a"))
    world.settled(a=(one, 4))
    world.subscribe(two, [TOPIC], listener=world.listener("b"))
    world.settled(a=(one, 2), b=(two, 2))
    two.close()
    world.settled(a=(one, 4))
    world.tried("state", lambda: one.group_metadata().state)
    world.tried("unsubscribe", one.unsubscribe)
    world.tried("state", lambda: one.group_metadata().state)
    world.tried("assignment", one.assignment)
    world.tried("nothing", one.poll, 50)
    one.close()


def seeks_in_on_partitions_assigned(world):
    """``seek`` in the listener chooses where to begin."""
    world.produce([3, 3])
    one = world.consumer("a")

    def on_assign(assigned):
        world.tried("seek", one.seek, world.partition(0), 2)
        world.tried("pause", one.pause, world.partition(1))
        world.tried("seek", one.seek, world.partition(0, "other"), 2)

    world.subscribe(one, [TOPIC], listener=world.listener("a", on_assign=on_assign))
    world.read(1, one)
    world.tried("resume", one.resume, world.partition(1))
    world.read(3, one)
    world.tried("begin", one.seek_to_beginning, world.partition(1))
    world.read(3, one)
    world.tried("end", one.seek_to_end)
    world.tried("position", one.position, world.partition(0))
    world.tried("alien", one.pause, world.partition(0, "other"))
    world.tried("alien", one.position, world.partition(0, "other"))
    world.tried("alien", one.seek_to_end, world.partition(0, "other"))
    world.tried("type", one.seek, (TOPIC, 0), 1)
    world.tried("value", one.seek, world.partition(0), -1)
    one.close()


def a_listener_that_raises(world):
    """What a listener raises leaves ``poll`` as a KafkaError."""

    def on_assign(assigned):
        raise ValueError("bad")

    one = world.consumer("a")
    world.subscribe(one, [TOPIC], listener=world.listener("a", on_assign=on_assign))
    world.tried("poll", world.until, lambda _: False, one)
    world.tried("assignment", one.assignment)
    one.close()


def assigned_partitions(world):
    """No group: ``assign``, begins and ends, times."""
    world.produce([3, 2])
    one = world.consumer("a", group_id=None)
    world.tried("nothing", one.poll, 50)
    one.assign([world.partition(0), world.partition(1)])
    world.tried("subscribe", one.subscribe, [TOPIC])
    one.seek(world.partition(0), 2)
    world.read(3, one)
    both = [world.partition(0), world.partition(3)]
    world.tried("begins", one.beginning_offsets, both)
    world.tried("ends", one.end_offsets, both)
    world.tried("negative", one.offsets_for_times, {world.partition(0): -1})
    world.tried("time", lambda: one.offsets_for_times({world.partition(0): 0})[both[0]].offset)
    world.tried("later", one.offsets_for_times, {world.partition(3): 0})
    world.tried("highwater", one.highwater, world.partition(0))
    one.assign([])
    world.tried("assignment", one.assignment)
    one.close()


def all_partitions(world):
    """A subscription without a group."""
    world.produce([1, 1, 1, 1])
    one = world.consumer("a", TOPIC, group_id=None)
    world.read(4, one)
    world.tried("assignment", one.assignment)
    world.tried("group", one.group_metadata)
    one.close()


def batches(world):
    """``poll`` returns as many records as wished."""
    world.produce([5])
    one = world.consumer("a", TOPIC)
    world.settled(a=(one, 4))
    one.seek(world.partition(0), 0)
    for most in (2, 1, 500):
        found = {}
        while not found:
            found = one.poll(1000, max_records=most)
        world.note({tp: [each.offset for each in records] for tp, records in found.items()})
    world.tried("type", one.poll, 0, max_records="1")
    world.tried("value", one.poll, 0, max_records=0)
    world.tried("value", one.poll, -1)
    one.close()


def a_pattern(world):
    """A pattern matches the begin of names."""
    world.produce([2])
    one = world.consumer("a")
    world.subscribe(one, pattern="ord")
    world.settled(a=(one, 4))
    world.tried("subscription", one.subscription)
    one.close()


def refused_commits(world):
    """A commit is refused, in each way."""
    world.produce([3])
    one = world.consumer("a", session_timeout_ms=500)
    world.subscribe(one, [TOPIC], listener=world.listener("a"))
    world.read(3, one)
    for error in ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS"):
        world.fail("a", error)
        world.tried(error, one.commit)
        world.tried("again", one.commit)
        world.settled(a=(one, 4))
        world.until(lambda _: one.group_metadata().state == "<stable>", one)
        world.until(lambda _: one.position(world.partition(0)) == 3, one)
    world.fail("a", "OFFSET_METADATA_TOO_LARGE")
    world.tried("large", one.commit)
    world.tried("commit", one.commit)
    one.close()


def calls_in_listeners(world):
    """A listener may not make calls that wait."""
    world.produce([3])
    one, two = world.consumer("a"), world.consumer("b")
    lib = world.module

    class Calls(lib.ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked):
            world.note("a", "revoked", world.shown(revoked))

        def on_partitions_assigned(self, assigned):
            world.note("a", "assigned", world.shown(assigned))
            if assigned:
                world.tried("a", one.committed, world.partition(0))

    world.subscribe(one, [TOPIC], listener=Calls())
    world.read(3, one)
    one.commit()
    world.subscribe(two, [TOPIC])
    world.settled(a=(one, 2), b=(two, 2))
    two.close()
    one.close()


def no_offset(world):
    """No committed offset, and no reset."""
    one = world.consumer("a", TOPIC, auto_offset_reset="none")
    world.tried("poll", world.until, lambda _: False, one)
    one.close()


def late_poll(world):
    """The application polls too late, and its partitions are lost."""
    one = world.consumer(
        "a", session_timeout_ms=300, max_poll_interval_ms=300, heartbeat_interval_ms=50
    )
    world.subscribe(one, [TOPIC], listener=world.listener("a"))
    world.settled(a=(one, 4))
    time.sleep(1.2)
    world.until(lambda _: len(world.events) >= 4, one)
    world.settled(a=(one, 4))
    one.close()


def deliveries(world):
    """A producer's futures."""
    producer = world.module.KafkaProducer(
        bootstrap_servers=world.servers, value_serializer=lambda of: of and of.encode()
    )
    future = producer.send(TOPIC, "v", b"k", [("h", b"12")], partition=1)
    future.add_callback(lambda extra, sent: world.note("a", "sent", extra, sent.offset), "first")
    future.add_errback(lambda error: world.note("a", "failed", error))
    sent = future.get(10)
    world.note(sent.topic, sent.partition, sent.offset, world.shown(sent.topic_partition))
    world.note(sent.serialized_key_size, sent.serialized_value_size, sent.serialized_header_size)
    world.tried("headers", producer.send, TOPIC, "v", headers={"h": b"1"})
    world.tried("header", producer.send, TOPIC, "v", headers=[("h", "1")])
    world.note(future.is_done, future.succeeded(), future.failed(), future.retriable())
    time.sleep(0.1)
    world.tried("nothing", producer.send, TOPIC)
    world.tried("alien", producer.send, TOPIC, "v", partition=9)
    world.tried("key", producer.send, TOPIC, "v", key="text")
    world.tried("partitions", producer.partitions_for, TOPIC)
    world.tried("flush", producer.flush)
    world.tried("begin", producer.begin_transaction)
    producer.close()
    world.tried("closed", producer.send, TOPIC, "v")
    one = world.consumer("a", group_id=None, value_deserializer=lambda of: of.decode())
    one.assign([world.partition(1)])
    (found,) = world.read(1, one)
    world.note(found.key, found.serialized_key_size, found.serialized_value_size)
    world.note(found.headers, found.serialized_header_size)
    world.note(found.topic, found.checksum, found.timestamp_type, found.leader_epoch)
    one.close()


def topics(world):
    """An admin client: what becomes of topics."""
    admin = __import__("kafka.admin").admin
    one = world.module.KafkaAdminClient(bootstrap_servers=world.servers)

    def tried(what, call, *args, **named):
        found = world.tried(what, lambda: _errors(call(*args, **named)))
        assert found is None or found

    tried("create", one.create_topics, [admin.NewTopic("one"), admin.NewTopic("two", 2, 1)])
    tried("again", one.create_topics, {TOPIC: {"num_partitions": 1}}, raise_errors=False)
    world.tried("again", one.create_topics, [TOPIC])
    tried("check", one.create_topics, ["unmade"], validate_only=True)
    tried("grow", one.create_partitions, {"one": 3})
    world.tried("alien", one.create_partitions, {"alien": 3})
    for each in sorted(one.describe_topics(["one", "two"]), key=lambda of: of["name"]):
        numbers = sorted(part["partition_index"] for part in each["partitions"])
        world.note(each["name"], each["error_code"], each["is_internal"], numbers)
    world.note(sorted({"one", "two", "unmade", TOPIC} & set(one.list_topics())))
    tried("delete", one.delete_topics, ["one"])
    world.tried("alien", one.delete_topics, ["alien"])
    world.note("one" in one.list_topics())
    one.close()


def _errors(found):
    """The error of each topic in a response, which is a dict or an object."""
    rows = found if isinstance(found, dict) else found.to_dict()
    rows = rows.get("topics") or rows["results"]
    return sorted((row["name"], row["error_code"]) for row in rows)


def transactions(world):
    """Two transactions, one of them aborted.

    What a fenced producer hears first depends on its thread, so no program shows it.
    """
    chosen = {"bootstrap_servers": world.servers, "transactional_id": "t"}
    world.produce([2])
    member = world.consumer("a", TOPIC)
    world.read(2, member)
    one = world.module.KafkaProducer(**chosen)
    world.tried("too early", one.begin_transaction)
    world.tried("too early", one.send, TOPIC, b"early")
    world.tried("init", one.init_transactions)
    world.tried("begin", one.begin_transaction)
    one.send(TOPIC, b"first", partition=2)
    group = member.group_metadata()
    world.tried("offsets", one.send_offsets_to_transaction, world.offsets(1), group)
    world.tried("commit", one.commit_transaction)
    one.begin_transaction()
    one.send(TOPIC, b"second", partition=2)
    one.flush()
    world.tried("abort", one.abort_transaction)
    world.tried("outside", one.send, TOPIC, b"outside")
    world.tried("committed", member.committed, world.partition(0))
    member.close()
    one.close()
    reader = world.consumer("b", group_id=None, isolation_level="read_committed")
    reader.assign([world.partition(2)])
    world.read(1, reader)
    reader.close()


def values(world):
    """The types of the module."""
    lib = world.module
    tp = lib.TopicPartition("t", 1)
    world.note(repr(tp), tp == ("t", 1), tuple(tp), repr(lib.OffsetAndMetadata(1, "m", 2)))
    world.note(repr(lib.OffsetAndMetadata(1)), repr(lib.ConsumerGroupMetadata("g")))
    errors = __import__("kafka.errors").errors
    for code in (-1, 0, 3, 14, 15, 16, 22, 25, 27, 79, 82):
        kind = errors.for_code(code)
        world.note(kind.__name__, kind.errno, kind.retriable, kind.invalid_metadata)
        world.note(issubclass(kind, errors.BrokerResponseError), str(kind()))
    world.note(str(errors.KafkaError()), str(errors.KafkaTimeoutError("late")))
    world.tried("setting", lib.KafkaConsumer, group="g")
    world.tried("setting", lib.KafkaProducer, group="g")
    world.tried("instance", world.consumer, "a", group_id=None, group_instance_id="i")
    one = world.consumer("a")
    world.tried("type", one.subscribe, TOPIC)
    world.tried("listener", one.subscribe, [TOPIC], listener=5)
    one.unsubscribe()
    world.tried("neither", one.subscribe)
    world.tried("unsubscribed", one.poll, 0)
    world.tried("unassigned", one.seek, world.partition(0), 1)
    world.tried("unassigned", one.seek_to_end)
    one.close()


SCRIPTS = {
    script.__name__: script
    for script in (
        a_loop, an_iterator, automatic_commits, commits, rebalances,
        seeks_in_on_partitions_assigned, a_listener_that_raises, assigned_partitions,
        all_partitions, batches, a_pattern, refused_commits, calls_in_listeners, no_offset,
        late_poll, deliveries, topics, transactions, values,
    )
}  # fmt: skip
