"""Programs for the module ``confluent_kafka``, and what they see: callbacks, results, errors.

Each is a function of a :class:`World`, which has the module and writes down what happens.
"""

import time
from contextlib import suppress

from support.clients import world
from support.clients.world import RECORDS, STEP_S, TOPIC

SETTINGS = {
    "group.id": "g",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "heartbeat.interval.ms": 50,
    "fetch.wait.max.ms": 20,
    "topic.metadata.refresh.interval.ms": 100,
    "partition.assignment.strategy": "range",
}


class World(world.World):
    """The world of a module ``confluent_kafka``."""

    def consumer(self, name, **settings):
        chosen = {key.replace("_", "."): value for key, value in settings.items()}
        return self.module.Consumer(
            {
                **{"bootstrap.servers": self.servers, "client.id": name},
                **{"on_commit": lambda *args: self.on_commit(name, *args)},
                **SETTINGS,
                **chosen,
            }
        )

    def on_commit(self, name, error, partitions):
        self.note(name, "on_commit", error and error.name(), shown(partitions))

    def callbacks(self, name, *, on_assign=None):
        """Callbacks of a rebalance that write down what they get."""

        def noted(what):
            def callback(consumer, partitions):
                self.note(name, what, shown(partitions))
                if on_assign is not None and what == "on_assign":
                    on_assign(consumer, partitions)

            return callback

        return {what: noted(what) for what in ("on_assign", "on_revoke", "on_lost")}

    def described(self, failure):
        if not isinstance(failure, self.module.KafkaException):
            return type(failure).__name__, str(failure)
        error = failure.args[0]
        return error.name(), error.retriable(), error.fatal()

    def shown(self, found):
        return shown(found) if isinstance(found, list) else found

    def partition(self, number, *args):
        return self.module.TopicPartition(TOPIC, number, *args)

    def produce(self, counts):
        """Produce so many records to each partition; values ``P-N``."""
        producer = self.module.Producer({"bootstrap.servers": self.servers})
        for number, count in enumerate(counts):
            for n in range(count):
                producer.produce(TOPIC, f"{number}-{n}".encode(), partition=number)
        producer.flush()

    def polled(self, consumer):
        """The message of a poll; one that is an error is noted instead."""
        message = consumer.poll(STEP_S)
        if message is not None and message.error() is not None:
            self.note("message", message.error().name())
            return []
        return [] if message is None else [message]

    def read(self, count, consumer):
        found = self.until(lambda found: len(found) >= count, consumer)
        self.note("read", sorted((m.partition(), m.offset(), m.value()) for m in found))
        return found


def shown(partitions):
    """Partitions as texts, with offsets, metadata and errors if they have some."""
    return sorted(
        ":".join(
            [
                f"{tp.partition}",
                *([str(tp.offset)] if tp.offset != -1001 else []),
                *([tp.metadata] if tp.metadata else []),
                *([tp.error.name()] if tp.error else []),
            ]
        )
        if hasattr(tp, "partition") and not callable(tp.partition)
        else repr(tp)
        for tp in partitions
    )


def a_loop(world):
    """Read, commit, and read again as another member."""
    world.produce([3])
    one = world.consumer("a")
    one.subscribe([TOPIC], **world.callbacks("a"))
    world.tried("assignment", one.assignment)
    world.tried("nothing", one.commit, asynchronous=False)
    world.read(3, one)
    world.tried("position", one.position, [world.partition(0), world.partition(1)])
    world.tried("commit", one.commit, asynchronous=False)
    world.tried("committed", one.committed, [world.partition(0), world.partition(1)], 5)
    one.poll(STEP_S)
    world.tried("close", one.close)
    world.tried("closed", one.poll, 0)
    world.tried("closed", one.close)
    two = world.consumer("b")
    two.subscribe([TOPIC], **world.callbacks("b"))
    world.settled(b=(two, RECORDS))
    world.tried("position", two.position, [world.partition(0)])
    two.close()


def commits(world):
    """Every way to commit."""
    world.produce([3, 2])
    one = world.consumer("a")
    one.subscribe([TOPIC])
    found = world.read(5, one)
    first = next(m for m in found if m.offset() == 0 and m.partition() == 0)
    world.tried("of a message", one.commit, message=first, asynchronous=False)
    world.tried("asynchronous", one.commit, message=first)
    world.until(lambda _: ("a", "on_commit", None, ["0:1"]) in world.events, one)
    offsets = [world.partition(0, 2, "two"), world.partition(3, 7)]
    world.tried("offsets", one.commit, offsets=offsets, asynchronous=False)
    world.tried("both", one.commit, message=first, offsets=offsets)
    world.tried("committed", one.committed, [world.partition(n) for n in (0, 1, 3)], 5)
    world.tried("all", one.commit, asynchronous=False)
    world.tried("again", one.commit, asynchronous=False)
    world.tried("async again", one.commit)
    world.until(lambda _: world.events[-1][1] == "on_commit", one)
    one.close()


def stored_offsets(world):
    """``enable.auto.offset.store`` is false, or not."""
    world.produce([3])
    one = world.consumer("a", enable_auto_offset_store=False)
    one.subscribe([TOPIC])
    found = world.read(3, one)
    world.tried("nothing", one.commit, asynchronous=False)
    world.tried("store", one.store_offsets, found[0])
    world.tried("commit", one.commit, asynchronous=False)
    world.tried("store", one.store_offsets, offsets=[world.partition(0, 2), world.partition(1, 9)])
    world.tried("commit", one.commit, asynchronous=False)
    world.tried("none", one.store_offsets)
    one.assign([world.partition(0), world.partition(2)])
    world.tried("not assigned", one.store_offsets, offsets=[world.partition(1, 4)])
    both = [world.partition(1, 4), world.partition(0, 1)]
    world.tried("one of two", one.store_offsets, offsets=both)
    world.tried("commit", one.commit, asynchronous=False)
    world.tried("alien", one.store_offsets, offsets=[world.module.TopicPartition("other", 0, 1)])
    one.close()
    two = world.consumer("b")
    two.subscribe([TOPIC])
    found = world.read(1, two)
    world.tried("refused", two.store_offsets, found[0])
    two.close()


def automatic_commits(world):
    """What has been read is committed at the end, and what has been stored."""
    world.produce([3])
    one = world.consumer("a", enable_auto_commit=True, auto_commit_interval_ms=60000)
    one.subscribe([TOPIC], **world.callbacks("a"))
    world.read(2, one)
    one.close()
    two = world.consumer("b", enable_auto_commit=True, auto_commit_interval_ms=100)
    two.subscribe([TOPIC], **world.callbacks("b"))
    world.read(1, two)
    world.until(lambda _: ("b", "on_commit", None, ["0:3", "1", "2", "3"]) in world.events, two)
    two.close()


def rebalances(world, **settings):
    """A second member comes, and goes."""
    one, two = world.consumer("a", **settings), world.consumer("b", **settings)
    one.subscribe([TOPIC], **world.callbacks("a"))
    world.settled(a=(one, 4))
    two.subscribe([TOPIC], **world.callbacks("b"))
    world.settled(a=(one, 2), b=(two, 2))
    two.close()
    world.settled(a=(one, 4))
    world.tried("unsubscribe", one.unsubscribe)
    one.poll(0.2)
    world.tried("assignment", one.assignment)
    one.close()


def cooperative_rebalances(world):
    """The same with the cooperative assignor; librdkafka's takes other partitions than Kafka's."""
    rebalances(world, partition_assignment_strategy="cooperative-sticky")


def offsets_in_on_assign(world):
    """``assign`` in the callback chooses where to begin; ``seek`` is too early there."""
    world.produce([3, 3])

    def on_assign(consumer, partitions):
        world.tried("seek", consumer.seek, world.partition(0, 2))
        world.tried("assigned", consumer.assignment)
        for tp in partitions:
            tp.offset = 2 if tp.partition == 0 else world.module.OFFSET_STORED
        consumer.assign(partitions)
        world.tried("pause", consumer.pause, [world.partition(1)])

    one = world.consumer("a")
    one.subscribe([TOPIC], **world.callbacks("a", on_assign=on_assign))
    world.read(1, one)
    one.poll(0.2)
    world.tried("position", one.position, [world.partition(0), world.partition(1)])
    world.tried("resume", one.resume, [world.partition(1)])
    world.read(3, one)
    world.tried("seek", one.seek, world.partition(0, 1))
    world.read(2, one)
    world.tried("commit", one.commit, asynchronous=False)
    world.tried("alien", one.seek, world.module.TopicPartition("other", 0, 0))
    world.tried("alien", one.pause, [world.module.TopicPartition("other", 0)])
    one.close()


def assignments_of_the_wrong_kind(world):
    """An eager member assigns all at once, a cooperative one what is new."""
    for number, strategy in enumerate(("range", "cooperative-sticky")):

        def on_assign(consumer, partitions):
            for call in (consumer.assign, consumer.incremental_assign):
                world.tried(call.__name__, call, partitions)
            for call in (consumer.unassign, consumer.assignment):
                world.tried(call.__name__, call)

        one = world.consumer("a", partition_assignment_strategy=strategy, group_id=f"g{number}")
        one.subscribe([TOPIC], **world.callbacks("a", on_assign=on_assign))
        world.until(lambda _: "assignment" in {event[0] for event in world.events[-1:]}, one)
        one.close()


def a_callback_that_raises(world):
    """What a callback raises leaves ``poll``."""
    one = world.consumer("a")

    def on_assign(consumer, partitions):
        raise ValueError("bad")

    one.subscribe([TOPIC], **world.callbacks("a", on_assign=on_assign))
    with suppress(ValueError):
        world.until(lambda _: False, one)
    world.note("poll", "raised")
    world.tried("assignment", one.assignment)
    one.close()


def assigned_partitions(world):
    """No group: ``assign``, the end of partitions, ``consume``, watermarks."""
    world.produce([3, 2])
    one = world.consumer("a", enable_partition_eof=True)
    one.assign([world.partition(0, 1), world.partition(1, world.module.OFFSET_END)])
    world.until(lambda _: len(world.events) >= 2, one)
    world.tried("position", one.position, [world.partition(0), world.partition(1)])
    world.tried("incremental", one.incremental_assign, [world.partition(2)])
    world.tried("again", one.incremental_assign, [world.partition(2)])
    world.tried("assignment", one.assignment)
    world.tried("incremental", one.incremental_unassign, [world.partition(2)])
    world.tried("not assigned", one.seek, world.partition(3, 0))
    world.tried("watermarks", one.get_watermark_offsets, world.partition(0), 5)
    world.tried("unassign", one.unassign)
    one.assign([world.partition(0, world.module.OFFSET_BEGINNING)])
    found = []
    while len(found) < 4:
        found += one.consume(4 - len(found), 1.0)
    world.note([(m.offset(), m.error() and m.error().name()) for m in found])
    world.tried("consume", one.consume, 5, 0.05)
    world.tried("too many", one.consume, -1, 0.05)
    one.close()


def refused_commits(world):
    """A commit is refused, in each way."""
    world.produce([3])
    one = world.consumer("a", session_timeout_ms=500)
    one.subscribe([TOPIC], **world.callbacks("a"))
    world.read(3, one)
    for error in ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"):
        world.fail("a", error)
        world.tried(error, one.commit, asynchronous=False)
        world.read(3, one)
    world.tried("commit", one.commit, asynchronous=False)
    one.close()


def a_pause_over_a_rebalance(world):
    """A paused partition stays paused when the group rebalances."""
    one, two = world.consumer("a"), world.consumer("b")
    one.subscribe([TOPIC], **world.callbacks("a"))
    world.settled(a=(one, 4))
    world.tried("pause", one.pause, [world.partition(0)])
    two.subscribe([TOPIC])
    world.settled(a=(one, 2), b=(two, 2))
    two.close()
    world.settled(a=(one, 4))
    world.produce([1, 1])
    world.read(1, one)
    world.tried("nothing", one.poll, 0.2)
    world.tried("resume", one.resume, [world.partition(0)])
    world.read(1, one)
    one.close()


def a_resume_before_the_assignment(world):
    """A callback resumes what it is about to get, and what was paused before."""
    one, two = world.consumer("a"), world.consumer("b")
    one.subscribe([TOPIC], **world.callbacks("a", on_assign=lambda each, of: each.resume(of)))
    world.settled(a=(one, 4))
    world.tried("pause", one.pause, [world.partition(0)])
    two.subscribe([TOPIC])
    world.settled(a=(one, 2), b=(two, 2))
    two.close()
    world.settled(a=(one, 4))
    world.produce([1])
    world.read(1, one)
    one.close()


def commits_in_callbacks(world):
    """A member commits what it gives up; the coordinator refuses it the second time."""
    world.produce([3])
    one, two = world.consumer("a", session_timeout_ms=500), world.consumer("b")

    def on_revoke(consumer, partitions):
        world.note("a", "on_revoke", shown(partitions), shown(consumer.assignment()))
        chosen = [world.partition(0, 1)]
        if world.tried("commit", consumer.commit, offsets=chosen, asynchronous=False):
            world.tried("commit", consumer.commit, asynchronous=False)
        world.tried("unassign", consumer.unassign)
        world.tried("assignment", consumer.assignment)

    one.subscribe([TOPIC], on_revoke=on_revoke)
    world.read(3, one)
    two.subscribe([TOPIC])
    world.settled(a=(one, 2), b=(two, 2))
    two.close()
    world.settled(a=(one, 4))
    one.seek(world.partition(0, 0))
    world.read(3, one)
    world.fail("a", "ILLEGAL_GENERATION")
    one.close()


def no_offset(world):
    """No committed offset, and no reset: an error for each partition, once."""
    one = world.consumer("a", auto_offset_reset="error")
    one.subscribe([TOPIC], **world.callbacks("a"))
    found = one.consume(RECORDS, 5)
    world.note(sorted((m.topic(), m.partition(), m.error().name()) for m in found))
    world.tried("nothing", one.consume, 1, 0.2)
    one.close()


def unknown_topic(world):
    """A subscription to a topic that does not exist: an error in ``poll``."""
    one = world.consumer("a", allow_auto_create_topics=False)
    one.subscribe(["nothing"], **world.callbacks("a"))
    world.until(lambda _: ("message", "UNKNOWN_TOPIC_OR_PART") in world.events, one)
    one.close()


def late_poll(world):
    """The application polls too late: an error in ``poll``, and the partitions are lost."""
    one = world.consumer("a", session_timeout_ms=300, max_poll_interval_ms=300)
    one.subscribe([TOPIC], **world.callbacks("a"))
    world.settled(a=(one, 4))
    time.sleep(1.2)
    world.until(lambda _: len(world.events) >= 3, one)
    world.settled(a=(one, 4))
    one.close()


def deliveries(world):
    """A producer's callbacks."""
    producer = world.module.Producer({"bootstrap.servers": world.servers})

    def delivered(error, message):
        at = message.topic(), message.partition(), message.offset()
        world.note("delivered", error, *at, message.key(), message.value())

    producer.produce(TOPIC, "v", "k", 1, on_delivery=delivered, headers={"h": "1"})
    headers = [("h", b"1"), ("h", None)]
    producer.produce(TOPIC, value=b"w", partition=1, callback=delivered, headers=headers)
    world.tried("length", len, producer)
    world.tried("flush", producer.flush)
    world.tried("length", len, producer)
    world.tried("poll", producer.poll, 0)
    world.tried("type", producer.produce, TOPIC, 5)
    one = world.consumer("a")
    one.assign([world.partition(1, 0)])
    found = world.read(2, one)
    world.note([(m.key(), m.headers(), len(m), m.timestamp()[0], m.topic()) for m in found])
    one.close()


def topics(world):
    """An admin client: what becomes of topics."""
    admin = __import__("confluent_kafka.admin").admin
    one = admin.AdminClient({"bootstrap.servers": world.servers})

    def tried(what, futures):
        for name, future in futures.items():
            world.tried(f"{what} {name}", future.result, 10)

    new = [admin.NewTopic("one"), admin.NewTopic("two", 2, 1), admin.NewTopic(TOPIC, 1)]
    tried("create", one.create_topics([*new, admin.NewTopic("none", 0)]))
    tried("check", one.create_topics([admin.NewTopic("unmade", 1)], validate_only=True))
    parts = [admin.NewPartitions("one", 3), admin.NewPartitions("two", 1)]
    tried("grow", one.create_partitions([*parts, admin.NewPartitions("alien", 2)]))
    described = one.describe_topics(world.module.TopicCollection(["one", "two"]))
    for name, future in described.items():
        found = future.result(10)
        world.note(name, found.name, found.is_internal, [part.id for part in found.partitions])
    listed = one.list_topics(timeout=10).topics
    world.note([(name, len(listed[name].partitions)) for name in ("one", "two", TOPIC)])
    tried("delete", one.delete_topics(["one", "alien"]))
    world.note("one" in one.list_topics(timeout=10).topics)


def transactions(world):
    """Two transactions, one of them aborted; a second producer fences the first."""
    chosen = {"bootstrap.servers": world.servers, "transactional.id": "t"}
    world.produce([2])
    member = world.consumer("a")
    member.subscribe([TOPIC])
    world.read(2, member)
    one = world.module.Producer(chosen)
    world.tried("too early", one.begin_transaction)
    world.tried("init", one.init_transactions, 5)
    world.tried("begin", one.begin_transaction)
    one.produce(TOPIC, b"first", partition=2)
    group = member.consumer_group_metadata()
    world.tried("offsets", one.send_offsets_to_transaction, [world.partition(0, 1)], group)
    world.tried("commit", one.commit_transaction)
    one.begin_transaction()
    one.produce(TOPIC, b"second", partition=2)
    one.flush()
    world.tried("abort", one.abort_transaction)
    world.tried("committed", member.committed, [world.partition(0)], 5)
    member.close()
    two = world.module.Producer(chosen)
    two.init_transactions(5)
    world.tried("begin", one.begin_transaction)
    one.produce(TOPIC, b"third", partition=2)
    world.tried("fenced", one.commit_transaction)
    reader = world.consumer("b", isolation_level="read_committed")
    reader.assign([world.partition(2, 0)])
    world.read(1, reader)
    reader.close()


def values(world):
    """The types of the module."""
    lib = world.module
    tp, other = lib.TopicPartition("t", 1, 5, metadata="m"), lib.TopicPartition("t", 2)
    for value in (tp, other, [tp], lib.KafkaError(-185, "late", fatal=True)):
        world.note(repr(value), str(value))
    world.note(tp == lib.TopicPartition("t", 1), tp < other, hash(tp) == hash(other), tp.error)
    error = lib.KafkaError(-191)
    world.note(error.code(), error.name(), error.fatal(), error.retriable())
    world.note(error == -191, error == lib.KafkaError(-191), error.txn_requires_abort())
    world.note(lib.KafkaError._PARTITION_EOF, lib.KafkaError.UNKNOWN_TOPIC_OR_PART)
    message = lib.Message("t", 1, 2, b"k", b"value")
    world.note(len(message), message.error(), message.timestamp(), message.key())
    world.note(lib.OFFSET_BEGINNING, lib.OFFSET_END, lib.OFFSET_STORED, lib.OFFSET_INVALID)
    world.tried("no group", lib.Consumer, {"bootstrap.servers": world.servers})
    world.tried("no setting", lib.Consumer, {"group.id": "g", "enable.auto.comit": False})
    world.tried("no value", lib.Consumer, {"group.id": "g", "auto.offset.reset": "begin"})
    one = world.consumer("a")
    world.tried("type", one.subscribe, TOPIC)
    world.tried("callback", one.subscribe, [TOPIC], on_assign=5)
    world.tried("unsubscribed", one.poll, 0)
    world.tried("unassigned", one.seek, world.partition(0, 1))
    one.close()


OF_CONNECTIONS = {
    **{"security.protocol": "plaintext", "socket.timeout.ms": 60_000, "log_level": 3},
    **{
        "reconnect.backoff.ms": 100,
        "reconnect.backoff.max.ms": 10_000,
        "metadata.max.age.ms": 9000,
    },
    **{"socket.connection.setup.timeout.ms": 5000, "topic.metadata.propagation.max.ms": 3000},
    **{"topic.metadata.refresh.fast.interval.ms": 250, "broker.address.ttl": 1000},
    **{"statistics.interval.ms": 0, "error_cb": print, "stats_cb": print},
}


def settings_of_a_deployed_application(world):
    """What belongs to connections and batches has no effect on virtual time, but is known."""
    chosen = OF_CONNECTIONS | {"bootstrap.servers": world.servers}
    of_consumers = {"fetch.error.backoff.ms": 500, "coordinator.query.interval.ms": 1000}
    one = world.module.Consumer(chosen | of_consumers | {"group.id": "g"})
    world.note("consumer", one.assignment())
    one.close()
    of_producers = {"linger.ms": 5, "request.timeout.ms": 3000, "partitioner": "murmur2"}
    world.note("producer", len(world.module.Producer(chosen | of_producers)))


SCRIPTS = {
    script.__name__: script
    for script in (
        a_loop, commits, stored_offsets, automatic_commits, rebalances, cooperative_rebalances,
        offsets_in_on_assign, assignments_of_the_wrong_kind,
        a_callback_that_raises, assigned_partitions, refused_commits, a_pause_over_a_rebalance,
        a_resume_before_the_assignment,
        commits_in_callbacks, no_offset, unknown_topic, late_poll, deliveries, topics, transactions,
        values, settings_of_a_deployed_application,
    )
}  # fmt: skip
