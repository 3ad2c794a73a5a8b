"""The scenarios of ``scenarios.py`` for confluent-kafka (librdkafka)."""

import os

from common import (
    ARGS,
    BOOTSTRAP,
    GROUP,
    LEVELS,
    PROTOCOL,
    SCENARIO,
    TOPIC,
    TRANSACTIONS,
    WAIT_S,
    is_divided,
    late,
    tell,
)  # fmt: skip
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka import ConsumerGroupTopicPartitions as GroupOffsets
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

OF_PROTOCOL = {
    "classic": {"heartbeat.interval.ms": 100, "partition.assignment.strategy": "range"},
    "consumer": {"group.protocol": "consumer"},  # the group coordinator decides the rest
}


def consumer(protocol=PROTOCOL, **settings):
    return Consumer(
        {
            "bootstrap.servers": BOOTSTRAP,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 500,
            **OF_PROTOCOL[protocol],
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )


def owned(one, topic=TOPIC):
    return sorted(each.partition for each in one.assignment() if each.topic == topic)


def poll_until(consumers, fact):
    check = late()
    while not fact():
        for one in consumers:
            one.poll(0.01)
        check([owned(one) for one in consumers])


def divided(consumers):
    poll_until(consumers, lambda: is_divided([owned(one) for one in consumers]))
    return sorted(len(owned(one)) for one in consumers)


def join():
    one = consumer()
    one.subscribe([TOPIC])
    divided([one])
    tell(assigned=owned(one))
    one.close()


def stay():
    one = consumer()
    one.subscribe([TOPIC])
    divided([one])
    tell(assigned=owned(one))
    while True:
        one.poll(1)


def rebalance():
    members = []
    for _ in range(3):
        members.append(consumer())
        members[-1].subscribe([TOPIC])
        tell(sizes=divided(members))
    members.pop(0).close()
    tell(sizes=divided(members))
    for one in members:
        one.close()


def cooperative():
    revoked = []

    def on_revoke(one, partitions):
        revoked.extend(partitions)

    members = []
    incremental = {"partition_assignment_strategy": "cooperative-sticky"}
    for _ in range(2):
        members.append(consumer(**incremental if PROTOCOL == "classic" else {}))
        members[-1].subscribe([TOPIC], on_revoke=on_revoke)
        tell(sizes=divided(members))
    tell(revoked=len(revoked))
    for one in members:
        one.close()


def static():
    members = {}
    for name in ("one", "two", "two"):
        if name in members:
            members.pop(name).close()
        members[name] = consumer(group_instance_id=name)
        members[name].subscribe([TOPIC])
        divided(list(members.values()))
        if "two" in members:
            tell(**{each: owned(one) for each, one in members.items()})
    for one in members.values():
        one.close()


def regex():
    names = set()
    one = consumer()
    one.subscribe(["^ord.*"])

    def covers(topics):
        names.clear()
        names.update(each.topic for each in one.assignment())
        return names == set(topics)

    poll_until([one], lambda: covers([TOPIC]))
    tell(topics=sorted(names))
    client = AdminClient({"bootstrap.servers": BOOTSTRAP})
    done(client.create_topics([NewTopic("orders-2", 1, 1)]))
    tell(made="orders-2")
    poll_until([one], lambda: covers([TOPIC, "orders-2"]))
    tell(topics=sorted(names))
    one.close()


def migrate():
    members = [consumer("classic"), consumer("classic")]
    protocols = ["classic", "classic"]
    for one in members:
        one.subscribe([TOPIC])
    steps = (None, "consumer", "consumer", "classic", "classic")
    for offset, protocol in enumerate(steps, 1):
        if protocol is not None:
            members.pop(0).close()
            members.append(consumer(protocol))
            members[-1].subscribe([TOPIC])
            protocols = [*protocols[1:], protocol]
        sizes = divided(members)
        owner = next(one for one in members if 0 in owned(one))
        owner.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
        (found,) = members[-1].committed([TopicPartition(TOPIC, 0)], WAIT_S)
        tell(protocols=protocols, sizes=sizes, committed=found.offset)
    for one in members:
        one.close()


def fenced():
    lost = []
    one = consumer()
    one.subscribe([TOPIC], on_lost=lambda _, partitions: lost.extend(partitions))
    divided([one])
    tell(assigned=owned(one))
    poll_until([one], lambda: lost)
    tell(lost=len(lost))
    divided([one])
    tell(assigned=owned(one))
    one.close()


def late_revocation():
    """Keep partitions that another member is to get, until the coordinator takes them away."""
    one, two = (consumer(max_poll_interval_ms=50000) for _ in range(2))
    given = set()  # to the second one, ever: the first one joins again once it is fenced

    def on_revoke(_, partitions):
        tell(revoking=len(partitions))
        poll_until([two], lambda: len(given) == 3)
        tell(assigned=sorted(given))
        os._exit(0)  # librdkafka may never end a consumer whose revocation has not returned

    one.subscribe([TOPIC], on_revoke=on_revoke)
    divided([one])
    tell(assigned=owned(one))
    two.subscribe([TOPIC], on_assign=lambda _, parts: given.update(p.partition for p in parts))
    poll_until([one, two], lambda: False)


def commit():
    one = consumer()
    one.assign([TopicPartition(TOPIC, number) for number in range(3)])
    offsets = [
        TopicPartition(TOPIC, 0, 5, metadata="five"),
        TopicPartition(TOPIC, 1, 7),
    ]
    one.commit(offsets=offsets, asynchronous=False)
    one.close()
    other = consumer()
    found = other.committed([TopicPartition(TOPIC, number) for number in range(3)])
    tell(
        committed={
            each.partition: None if each.offset < 0 else [each.offset, each.metadata or ""]
            for each in found
        }
    )
    other.close()


def read_all(partition, **settings):
    """All messages of a partition, to its end."""
    one = consumer(enable_partition_eof=True, **settings)
    one.assign([TopicPartition(TOPIC, partition, 0)])
    found = []
    while True:
        message = one.poll(WAIT_S)
        if message is None:
            raise SystemExit("no end")
        if message.error():
            break
        found.append(message)
    one.close()
    return found


def transactions():
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "transactional.id": f"{GROUP}-id"})
    member = consumer()
    producer.init_transactions(WAIT_S)
    for values, offset, commits in TRANSACTIONS:
        producer.begin_transaction()
        for value in values:
            producer.produce(TOPIC, value.encode(), partition=0)
        if offset is not None:
            offsets = [TopicPartition(TOPIC, 0, offset)]
            producer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), WAIT_S)
        producer.flush()
        (producer.commit_transaction if commits else producer.abort_transaction)(WAIT_S)
    for level in LEVELS:
        found = read_all(0, isolation_level=level)
        tell(**{level: [message.value().decode() for message in found]})
    tell(offset=member.committed([TopicPartition(TOPIC, 0)])[0].offset)
    member.close()


def records():
    for number, codec in enumerate(ARGS):
        producer = Producer(
            {"bootstrap.servers": BOOTSTRAP, "compression.type": codec, "linger.ms": 50}
        )
        for n in range(3):
            headers = {"h": f"h{n}".encode()}
            producer.produce(TOPIC, f"v{n}", f"k{n}", number, headers=headers)
        producer.flush()
    for number, codec in enumerate(ARGS):
        found = [
            [each.key().decode(), each.value().decode(), each.headers()[0][1].decode()]
            for each in read_all(number)
        ]
        tell(codec=codec, records=found)


def done(futures):
    return {name: future.result(WAIT_S) for name, future in futures.items()}


def name_of(call):
    """The name of the error with which a call ends."""
    try:
        call()
    except KafkaException as error:
        return error.args[0].name()
    return None


def admin():
    client = AdminClient({"bootstrap.servers": BOOTSTRAP})
    topic = NewTopic("made", 2, 1, config={"retention.ms": "60000"})
    resource = ConfigResource(ResourceType.TOPIC, "made")

    def topics():
        names = client.list_topics(timeout=WAIT_S).topics
        return sorted(name for name in names if not name.startswith("__"))

    def made():
        return client.list_topics("made", timeout=WAIT_S).topics["made"]

    def retention():
        (found,) = done(client.describe_configs([resource])).values()
        return found["retention.ms"].value

    done(client.create_topics([topic]))
    tell(topics=topics())
    tell(partitions=len(made().partitions), replicas=len(made().partitions[0].replicas))
    tell(retention=retention())
    entry = ConfigEntry("retention.ms", "90000", incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ResourceType.TOPIC, "made", incremental_configs=[entry])
    done(client.incremental_alter_configs([changed]))
    tell(altered=retention())
    done(client.create_partitions([NewPartitions("made", 4)]))
    tell(grown=len(made().partitions))
    tell(again=name_of(lambda: done(client.create_topics([topic]))))
    admin_of_groups(client)
    done(client.delete_topics(["made"]))
    tell(kept=topics())


def admin_of_groups(client):
    def groups():
        found = client.list_consumer_groups().result(WAIT_S).valid
        return sorted(each.group_id for each in found)

    def offsets():
        (found,) = done(client.list_consumer_group_offsets([GroupOffsets(GROUP)])).values()
        return {each.partition: each.offset for each in found.topic_partitions if each.offset >= 0}

    one = consumer()
    one.subscribe(["made"])
    poll_until([one], lambda: owned(one, "made") == [0, 1, 2, 3])
    tell(groups=groups())
    (found,) = done(client.describe_consumer_groups([GROUP])).values()
    tell(
        state=found.state.name.capitalize(),
        protocol=found.partition_assignor,
        members=len(found.members),
        assigned=sorted(each.partition for each in found.members[0].assignment.topic_partitions),
    )
    tell(refused=name_of(lambda: done(client.delete_consumer_groups([GROUP]))))
    one.close()
    wanted = [TopicPartition("made", 0, 11), TopicPartition("made", 1, 12)]
    done(client.alter_consumer_group_offsets([GroupOffsets(GROUP, wanted)]))
    tell(offsets=offsets())
    done(client.delete_consumer_groups([GROUP]))
    tell(after=groups())


globals()[SCENARIO]()
