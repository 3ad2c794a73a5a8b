"""Programs for the module ``aiokafka``, and what they see: callbacks, results, errors.

Each is a coroutine of a :class:`World`, which has the module and writes down what happens.
"""

import asyncio
import time

from support.clients import world
from support.clients.world import LAST_S, RECORDS, TOPIC

SETTINGS = {
    "group_id": "g",
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "heartbeat_interval_ms": 100,
    "session_timeout_ms": 1000,
    "fetch_max_wait_ms": 20,
    "metadata_max_age_ms": 10_000,
}


class World(world.World):
    """The world of a module ``aiokafka``."""

    def consumer(self, name, *topics, **settings):
        chosen = {"bootstrap_servers": self.servers, "client_id": name} | SETTINGS | settings
        return self.module.AIOKafkaConsumer(*topics, **chosen)

    async def started(self, name, *topics, listener=None, **settings):
        consumer = self.consumer(name, **settings)
        if topics:
            consumer.subscribe(topics, listener=listener)
        await consumer.start()
        return consumer

    def listener(self, name, *, on_assign=None):
        """A listener that writes down what it gets."""
        world = self

        class Noted(self.module.ConsumerRebalanceListener):
            def on_partitions_revoked(self, revoked):
                world.note(name, "revoked", world.shown(revoked))

            async def on_partitions_assigned(self, assigned):
                world.note(name, "assigned", world.shown(assigned))
                if on_assign is not None:
                    await on_assign(assigned)

        return Noted()

    async def tries(self, what, call, *args, **named):
        """Note what an awaitable call returns or raises, and return it."""
        try:
            found = await call(*args, **named)
        except Exception as failure:
            self.note(what, "raised", type(failure).__name__)
        else:
            self.note(what, self.shown(found))
            return found

    def described(self, failure):
        return (type(failure).__name__,)

    def shown(self, found):
        if isinstance(found, set | list | frozenset):
            return sorted(self.shown(each) for each in found)
        if isinstance(found, dict):
            return sorted((self.shown(key), self.shown(value)) for key, value in found.items())
        if isinstance(found, self.module.TopicPartition):
            return f"{found.topic}-{found.partition}"
        if isinstance(found, self.module.ConsumerRecord):
            return found.partition, found.offset, found.value
        return found

    def partition(self, number, topic=TOPIC):
        return self.module.TopicPartition(topic, number)

    async def produce(self, counts):
        """Produce so many records to each partition; values ``P-N``."""
        async with self.module.AIOKafkaProducer(bootstrap_servers=self.servers) as producer:
            for number, count in enumerate(counts):
                for n in range(count):
                    await producer.send(TOPIC, f"{number}-{n}".encode(), partition=number)
            await producer.flush()

    async def read(self, count, consumer):
        found = []
        while len(found) < count:
            found += await asyncio.wait_for(self._some(consumer), LAST_S)
        self.note("read", self.shown(found))

    @staticmethod
    async def _some(consumer):
        found = await consumer.getmany(timeout_ms=1000)
        return [record for records in found.values() for record in records]

    async def sizes(self, *pairs):
        """Wait until each consumer has so many partitions: pairs of it and their number."""
        end_s = time.monotonic() + LAST_S
        while not all(len(one.assignment()) == size for one, size in pairs):
            assert time.monotonic() < end_s, self.events
            await asyncio.sleep(0.01)


async def a_loop(world):
    """Read, commit, and read again as another member."""
    await world.produce([3])
    one = await world.started("a", TOPIC, listener=world.listener("a"))
    world.tried("assignment", one.assignment)
    world.tried("subscription", one.subscription)
    async for record in one:
        world.note("record", world.shown(record), record.key, record.timestamp_type)
        await world.tries("position", one.position, world.partition(0))
        if record.offset == 2:
            break
    await world.tries("commit", one.commit)
    await world.tries("committed", one.committed, world.partition(0))
    await world.tries("committed", one.committed, world.partition(1))
    await world.tries("topics", one.topics)
    world.tried("partitions", one.partitions_for_topic, TOPIC)
    await world.tries("nothing", one.getmany)
    await world.tries("nothing", one.getmany, timeout_ms=50)
    await world.tries("stop", one.stop)
    await world.tries("closed", one.getone)
    await world.tries("closed", one.stop)
    async with world.consumer("b", TOPIC) as two:
        await world.tries("position", two.position, world.partition(0))
        world.tried("assignment", two.assignment)


async def automatic_commits(world):
    """Positions are committed at the end, and in the background while the program works."""
    await world.produce([3])
    own = {"enable_auto_commit": True, "auto_commit_interval_ms": 60_000}
    async with world.consumer("a", TOPIC, **own) as one:
        await world.tries("one", one.getone)
    async with world.consumer("b", TOPIC, **own | {"auto_commit_interval_ms": 100}) as two:
        await world.tries("committed", two.committed, world.partition(0))
        await world.tries("one", two.getone)
        await asyncio.sleep(1)
        await world.tries("committed", two.committed, world.partition(0))


async def commits(world):
    """Every way to commit."""
    await world.produce([3, 2])
    one = world.consumer("a")
    await one.start()
    await world.tries("unsubscribed", one.commit)
    one.subscribe([TOPIC])
    await world.sizes((one, RECORDS))
    await world.read(5, one)
    first, second = world.partition(0), world.partition(1)
    await world.tries("number", one.commit, {first: 1})
    await world.tries("pair", one.commit, {first: (2, "note")})
    own = world.module.OffsetAndMetadata(1, "")
    await world.tries("offset", one.commit, {second: own})
    await world.tries("none", one.commit, {})
    await world.tries("type", one.commit, {(TOPIC, 0): 1})
    await world.tries("metadata", one.commit, {first: (2, 5)})
    await world.tries("alien", one.commit, {world.partition(0, "other"): 1})
    for tp in (first, second, world.partition(2)):
        await world.tries("committed", one.committed, tp)
    await world.tries("all", one.commit)
    await world.tries("committed", one.committed, second)
    await world.tries("seek", one.seek_to_committed, first)
    await one.stop()
    alone = await world.started("b", TOPIC, group_id=None)
    await world.tries("alone", alone.commit)
    await world.tries("alone", alone.committed, first)
    await alone.stop()


async def rebalances(world):
    """A second member comes, and goes; no listener hears of the end."""
    one = await world.started("a", TOPIC, listener=world.listener("a"))
    two = await world.started("b", TOPIC, listener=world.listener("b"))
    await world.sizes((one, 2), (two, 2))
    await two.stop()
    await world.sizes((one, 4))
    await one.stop()


async def calls_in_listeners(world):
    """A listener may seek, commit and look up what is committed."""
    await world.produce([3, 3])

    async def on_assign(assigned):
        one.seek(world.partition(0), 2)
        one.pause(world.partition(1))
        await world.tries("a", one.committed, world.partition(0))

    one = world.consumer("a")
    one.subscribe([TOPIC], listener=world.listener("a", on_assign=on_assign))
    await one.start()
    await world.read(1, one)
    world.tried("paused", one.paused)
    one.resume(world.partition(1))
    await world.read(3, one)
    await one.stop()


async def a_listener_that_raises(world):
    """What a listener raises is logged, and nothing else happens."""

    async def on_assign(assigned):
        raise ValueError("bad")

    await world.produce([1])
    one = await world.started("a", TOPIC, listener=world.listener("a", on_assign=on_assign))
    world.tried("assignment", one.assignment)
    await world.read(1, one)
    await one.stop()


async def positions(world):
    """Seeks, begins and ends, times; no group."""
    await world.produce([3, 2])
    one = await world.started("a", group_id=None)
    one.assign([world.partition(0), world.partition(1)])
    one.seek(world.partition(0), 2)
    await world.read(3, one)
    first, both = world.partition(0), [world.partition(0), world.partition(3)]
    await world.tries("begins", one.beginning_offsets, both)
    await world.tries("ends", one.end_offsets, both)
    await world.tries("negative", one.offsets_for_times, {first: -1})
    await world.tries("later", one.offsets_for_times, {world.partition(3): 0})
    await world.tries("begin", one.seek_to_beginning, first)
    await world.tries("position", one.position, first)
    await world.tries("one", one.getone, first)
    await world.tries("end", one.seek_to_end)
    await world.tries("position", one.position, first)
    world.tried("negative", one.seek, first, -1)
    world.tried("alien", one.seek, world.partition(0, "other"), 1)
    await world.tries("alien", one.position, world.partition(3))
    await world.tries("alien", one.seek_to_end, world.partition(3))
    await world.tries("type", one.seek_to_end, (TOPIC, 0))
    await one.stop()


async def all_partitions(world):
    """A subscription without a group."""
    await world.produce([1, 1, 1, 1])
    async with world.consumer("a", TOPIC, group_id=None) as one:
        await world.read(4, one)
        world.tried("assignment", one.assignment)


async def batches(world):
    """``getmany`` returns as many records as wished, of the partitions wished."""
    await world.produce([5, 2])
    async with world.consumer("a", TOPIC) as one:
        first = world.partition(0)
        for most in (2, 1, 500):
            await world.tries("some", one.getmany, first, timeout_ms=1000, max_records=most)
        await world.tries("one", one.getone, world.partition(1))
        await world.tries("value", one.getmany, max_records=0)
        await world.tries("late", asyncio.wait_for, one.getone(first), 0.05)


async def refused_commits(world):
    """A commit is refused, in each way."""
    await world.produce([3])
    one = await world.started("a", TOPIC, listener=world.listener("a"))
    await world.read(3, one)
    for error in ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"):
        world.fail("a", error)
        await world.tries(error, one.commit)
        await asyncio.sleep(3)
        await world.read(3, one)
    world.fail("a", "OFFSET_METADATA_TOO_LARGE")
    await world.tries("large", one.commit)
    await world.tries("commit", one.commit)
    await one.stop()


async def no_offset(world):
    """No committed offset, and no reset."""
    one = await world.started("a", TOPIC, auto_offset_reset="none")
    await world.tries("one", one.getone)
    await one.stop()


async def deliveries(world):
    """A producer's futures."""
    settings = {"value_serializer": lambda of: of and of.encode()}
    async with world.module.AIOKafkaProducer(
        bootstrap_servers=world.servers, **settings
    ) as producer:
        future = await producer.send(TOPIC, "v", b"k", partition=1)
        sent = await future
        world.note(sent.topic, sent.partition, sent.offset, world.shown(sent.topic_partition))
        sent = await producer.send_and_wait(TOPIC, "w", partition=1, headers=[("h", b"1")])
        world.note(sent.offset, sent.timestamp_type)
        batch = producer.create_batch()
        for n in range(3):
            world.note(batch.append(key=b"k", value=f"{n}", timestamp=None).offset)
        world.note(batch.record_count(), batch.closed())
        batch.close()
        world.note(batch.append(key=None, value="4", timestamp=None), batch.closed())
        sent = await (await producer.send_batch(batch, TOPIC, partition=1))
        world.note(sent.partition, sent.offset)
        await world.tries("nothing", producer.send, TOPIC)
        await world.tries("alien", producer.send, TOPIC, "v", partition=9)
        await world.tries("partitions", producer.partitions_for, TOPIC)
        await world.tries("begin", producer.begin_transaction)
    async with world.consumer("a", group_id=None, value_deserializer=bytes.decode) as one:
        one.assign([world.partition(1)])
        found = await one.getone()
        world.note(world.shown(found), found.key, found.headers, found.checksum)
        world.note(found.serialized_key_size, found.serialized_value_size)
        found = [await one.getone() for _ in range(4)]
        world.note([(each.offset, each.key, each.value, each.headers) for each in found])


async def topics(world):
    """An admin client: what becomes of topics."""
    admin = __import__("aiokafka.admin").admin
    one = admin.AIOKafkaAdminClient(bootstrap_servers=world.servers)
    await one.start()
    new = [admin.NewTopic("one", 1, 1), admin.NewTopic("two", 2, 1), admin.NewTopic(TOPIC, 1, 1)]
    found = await one.create_topics(new)
    world.note(sorted(row[:2] for row in found.topic_errors))
    await one.create_topics([admin.NewTopic("unmade", 1, 1)], validate_only=True)
    await one.create_partitions({"one": admin.NewPartitions(3)})
    await world.tries("alien", one.create_partitions, {"alien": admin.NewPartitions(3)})
    for each in sorted(await one.describe_topics(["one", "two"]), key=lambda of: of["topic"]):
        numbers = sorted(part["partition"] for part in each["partitions"])
        world.note(each["topic"], each["error_code"], each["is_internal"], numbers)
    world.note(sorted({"one", "two", "unmade", TOPIC} & set(await one.list_topics())))
    found = await one.delete_topics(["one", "alien"])
    world.note(sorted(row[:2] for row in found.topic_error_codes))
    world.note("one" in await one.list_topics())
    await one.close()


async def transactions(world):
    """Two transactions, one of them aborted; a second producer fences the first."""
    chosen = {"bootstrap_servers": world.servers, "transactional_id": "t"}
    await world.produce([2])
    one = world.module.AIOKafkaProducer(**chosen)
    await one.start()
    await world.tries("outside", one.send, TOPIC, b"early")
    async with one.transaction():
        await one.send(TOPIC, b"first", partition=2)
        offsets = {world.partition(0): 1}
        await world.tries("offsets", one.send_offsets_to_transaction, offsets, "g")
        await world.tries("group", one.send_offsets_to_transaction, offsets, "")
    try:
        async with one.transaction():
            await one.send_and_wait(TOPIC, b"second", partition=2)
            raise ZeroDivisionError
    except ZeroDivisionError:
        world.note("aborted")
    two = world.module.AIOKafkaProducer(**chosen)
    await two.start()
    async with two.transaction():
        await two.send(TOPIC, b"third", partition=2)
    await two.stop()
    await one.stop()
    settings = {"isolation_level": "read_committed"}
    async with world.consumer("b", TOPIC, **settings) as reader:
        await world.tries("committed", reader.committed, world.partition(0))
        await world.read(3, reader)


async def values(world):
    """The types of the module."""
    lib = world.module
    world.note(repr(lib.TopicPartition("t", 1)), repr(lib.OffsetAndMetadata(1, "m")))
    errors = __import__("aiokafka.errors").errors
    for name in ("KafkaError", "CommitFailedError", "IllegalStateError", "UnknownMemberIdError"):
        world.note(name, issubclass(getattr(errors, name), errors.KafkaError))
    for name in ("NotCoordinatorForGroupError", "InvalidTxnState"):
        world.note(name, getattr(errors, name).errno, getattr(errors, name).retriable)
    one = world.consumer("a")
    world.tried("neither", one.subscribe)
    world.tried("both", one.subscribe, [TOPIC], "x")
    world.tried("type", one.subscribe, TOPIC)
    world.tried("listener", one.subscribe, [TOPIC], listener=5)
    world.tried("setting", world.consumer, "a", group="g")
    await one.stop()


def _run(script):
    return lambda world: asyncio.run(script(world))


SCRIPTS = {
    script.__name__: _run(script)
    for script in (
        a_loop, automatic_commits, commits, rebalances, calls_in_listeners, a_listener_that_raises,
        positions, all_partitions, batches, refused_commits, no_offset, deliveries, topics,
        transactions, values,
    )
}  # fmt: skip
