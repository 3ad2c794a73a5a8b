"""The scenarios of ``scenarios.py`` for aiokafka."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, OffsetAndMetadata, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from common import (
    ARGS,
    BOOTSTRAP,
    GROUP,
    LEVELS,
    SCENARIO,
    TOPIC,
    TRANSACTIONS,
    is_divided,
    late,
    tell,
)  # fmt: skip


async def consumer(*topics, **settings):
    one = AIOKafkaConsumer(
        *topics,
        **{
            "bootstrap_servers": BOOTSTRAP,
            "group_id": GROUP,
            "enable_auto_commit": False,
            "heartbeat_interval_ms": 100,
            "session_timeout_ms": 45000,
            "partition_assignment_strategy": [RangePartitionAssignor],
            **settings,
        },
    )
    await one.start()
    return one


def owned(one, topic=TOPIC):
    return sorted(each.partition for each in one.assignment() if each.topic == topic)


async def poll_until(consumers, fact):
    check = late()
    while not fact():
        for one in consumers:
            await one.getmany(timeout_ms=10)
        check([owned(one) for one in consumers])


async def divided(consumers):
    await poll_until(consumers, lambda: is_divided([owned(one) for one in consumers]))
    return sorted(len(owned(one)) for one in consumers)


async def join():
    one = await consumer(TOPIC)
    await divided([one])
    tell(assigned=owned(one))
    await one.stop()


async def stay():
    one = await consumer(TOPIC)
    await divided([one])
    tell(assigned=owned(one))
    while True:
        await one.getmany(timeout_ms=1000)


async def rebalance():
    members = []
    for _ in range(3):
        members.append(await consumer(TOPIC))
        tell(sizes=await divided(members))
    await members.pop(0).stop()
    tell(sizes=await divided(members))
    for one in members:
        await one.stop()


async def static():
    members = {}
    for name in ("one", "two", "two"):
        if name in members:
            await members.pop(name).stop()
        members[name] = await consumer(TOPIC, group_instance_id=name)
        await divided(list(members.values()))
        if "two" in members:
            tell(**{each: owned(one) for each, one in members.items()})
    for one in members.values():
        await one.stop()


async def commit():
    parts = [TopicPartition(TOPIC, number) for number in range(3)]
    one = await consumer()
    one.assign(parts)
    await one.commit({parts[0]: OffsetAndMetadata(5, "five"), parts[1]: OffsetAndMetadata(7, "")})
    await one.stop()
    client = AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    await client.start()
    told = await client.list_consumer_group_offsets(GROUP, partitions=parts)
    found = {part.partition: told[part] for part in parts}
    tell(
        committed={
            number: None if each.offset < 0 else [each.offset, each.metadata]
            for number, each in found.items()
        }
    )
    await client.close()


async def read_all(partition, **settings):
    """All messages of a partition, to its end."""
    part = TopicPartition(TOPIC, partition)
    one = await consumer(group_id=None, **settings)
    one.assign([part])
    await one.seek_to_beginning(part)
    (end,) = (await one.end_offsets([part])).values()
    found, check = [], late()
    while await one.position(part) < end:
        for each in (await one.getmany(timeout_ms=100)).values():
            found.extend(each)
        check(await one.position(part))
    await one.stop()
    return found


async def transactions():
    producer = AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id=f"{GROUP}-id")
    await producer.start()
    part = TopicPartition(TOPIC, 0)
    for values, offset, commits in TRANSACTIONS:
        await producer.begin_transaction()
        for value in values:
            await producer.send_and_wait(TOPIC, value.encode(), partition=0)
        if offset is not None:
            await producer.send_offsets_to_transaction({part: offset}, GROUP)
        await (producer.commit_transaction if commits else producer.abort_transaction)()
    await producer.stop()
    for level in LEVELS:
        found = await read_all(0, isolation_level=level)
        tell(**{level: [message.value.decode() for message in found]})
    member = await consumer()
    tell(offset=await member.committed(part))
    await member.stop()


async def records():
    for number, codec in enumerate(ARGS):
        kind = None if codec == "none" else codec
        producer = AIOKafkaProducer(
            bootstrap_servers=BOOTSTRAP, compression_type=kind, linger_ms=50
        )
        await producer.start()
        sent = [
            await producer.send(
                TOPIC, b"v%d" % n, key=b"k%d" % n, headers=[("h", b"h%d" % n)], partition=number
            )
            for n in range(3)
        ]
        await asyncio.gather(*sent)
        await producer.stop()
    for number, codec in enumerate(ARGS):
        found = [
            [each.key.decode(), each.value.decode(), each.headers[0][1].decode()]
            for each in await read_all(number)
        ]
        tell(codec=codec, records=found)


async def admin():
    client = AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    await client.start()
    topic = NewTopic("made", 2, 1, topic_configs={"retention.ms": "60000"})

    async def topics():
        return sorted(name for name in await client.list_topics() if not name.startswith("__"))

    async def partitions():
        return (await client.describe_topics(["made"]))[0]["partitions"]

    async def retention():
        resource = ConfigResource(ConfigResourceType.TOPIC, "made")
        (told,) = await client.describe_configs([resource])
        return next(each[1] for each in told.resources[0][4] if each[0] == "retention.ms")

    await client.create_topics([topic])
    tell(topics=await topics())
    found = await partitions()
    tell(partitions=len(found), replicas=len(found[0]["replicas"]))
    tell(retention=await retention())
    changed = ConfigResource(ConfigResourceType.TOPIC, "made", {"retention.ms": "90000"})
    await client.alter_configs([changed])
    tell(altered=await retention())
    await client.create_partitions({"made": NewPartitions(4)})
    tell(grown=len(await partitions()))
    again = await client.create_topics([topic])
    tell(again={36: "TOPIC_ALREADY_EXISTS"}.get(again.topic_errors[0][1]))
    one = await consumer("made")
    await poll_until([one], lambda: owned(one, "made") == [0, 1, 2, 3])
    tell(groups=sorted(each[0] for each in await client.list_consumer_groups()))
    (told,) = await client.describe_consumer_groups([GROUP])
    _, _, state, _, protocol, members, *_ = told.groups[0]
    tell(state=state, protocol=protocol, members=len(members), assigned=owned(one, "made"))
    await one.stop()
    await client.delete_topics(["made"])
    tell(kept=await topics())
    await client.close()


asyncio.run(globals()[SCENARIO]())
