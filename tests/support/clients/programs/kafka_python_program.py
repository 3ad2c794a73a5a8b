"""The scenarios of ``scenarios.py`` for kafka-python."""

from concurrent.futures import ThreadPoolExecutor

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
from kafka import (
    ConsumerRebalanceListener,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
)
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import TopicAlreadyExistsError
from kafka.structs import OffsetAndMetadata


def consumer(*topics, listener=None, **settings):
    one = KafkaConsumer(
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
    if topics:
        # It knows the topic before it joins; else it would divide nothing first, and join again.
        one.subscribe(topics, listener=listener)
        for topic in topics:
            one.partitions_for_topic(topic)
    return one


def owned(one, topic=TOPIC):
    return sorted(each.partition for each in one.assignment() if each.topic == topic)


def poll_until(consumers, fact):
    check = late()
    # Each in a thread of its own, as applications do: a poll that ends while its member joins makes
    # it join again, so that members polled in turn may rebalance for ever.
    with ThreadPoolExecutor(len(consumers)) as pool:
        while not fact():
            list(pool.map(lambda one: one.poll(1000), consumers))
            check([owned(one) for one in consumers])


def divided(consumers):
    poll_until(consumers, lambda: is_divided([owned(one) for one in consumers]))
    return sorted(len(owned(one)) for one in consumers)


def join():
    one = consumer(TOPIC)
    divided([one])
    tell(assigned=owned(one))
    one.close()


def stay():
    one = consumer(TOPIC)
    divided([one])
    tell(assigned=owned(one))
    while True:
        one.poll(1000)


def rebalance():
    members = []
    for _ in range(3):
        members.append(consumer(TOPIC))
        tell(sizes=divided(members))
    members.pop(0).close()
    tell(sizes=divided(members))
    for one in members:
        one.close()


def cooperative():
    revoked = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, partitions):
            revoked.extend(partitions)

        def on_partitions_assigned(self, partitions):
            pass

    members = []
    for _ in range(2):
        settings = {"partition_assignment_strategy": [CooperativeStickyAssignor]}
        members.append(consumer(TOPIC, listener=Listener(), **settings))
        tell(sizes=divided(members))
    tell(revoked=len(revoked))
    for one in members:
        one.close()


def static():
    members = {}
    for name in ("one", "two", "two"):
        if name in members:
            members.pop(name).close()
        members[name] = consumer(TOPIC, group_instance_id=name)
        divided(list(members.values()))
        if "two" in members:
            tell(**{each: owned(one) for each, one in members.items()})
    for one in members.values():
        one.close()


def commit():
    parts = [TopicPartition(TOPIC, number) for number in range(3)]
    one = consumer()
    one.assign(parts)
    one.commit({parts[0]: OffsetAndMetadata(5, "five", -1), parts[1]: OffsetAndMetadata(7, "", -1)})
    one.close()
    other = consumer()
    found = [other.committed(part, metadata=True) for part in parts]
    tell(committed={n: each and [each.offset, each.metadata] for n, each in enumerate(found)})
    other.close()


def read_all(partition, **settings):
    """All messages of a partition, to its end."""
    part = TopicPartition(TOPIC, partition)
    one = consumer(group_id=None, **settings)
    one.assign([part])
    one.seek_to_beginning(part)
    (end,) = one.end_offsets([part]).values()
    found, check = [], late()
    while one.position(part) < end:
        for each in one.poll(100).values():
            found.extend(each)
        check(one.position(part))
    one.close()
    return found


def transactions():
    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id=f"{GROUP}-id")
    part = TopicPartition(TOPIC, 0)
    producer.init_transactions()
    for values, offset, commits in TRANSACTIONS:
        producer.begin_transaction()
        for value in values:
            producer.send(TOPIC, value.encode(), partition=0)
        if offset is not None:
            offsets = {part: OffsetAndMetadata(offset, "", -1)}
            producer.send_offsets_to_transaction(offsets, GROUP)
        producer.flush()
        (producer.commit_transaction if commits else producer.abort_transaction)()
    producer.close()
    for level in LEVELS:
        found = read_all(0, isolation_level=level)
        tell(**{level: [message.value.decode() for message in found]})
    member = consumer()
    tell(offset=member.committed(part))
    member.close()


def records():
    for number, codec in enumerate(ARGS):
        kind = None if codec == "none" else codec
        producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, compression_type=kind, linger_ms=50)
        for n in range(3):
            producer.send(
                TOPIC, b"v%d" % n, key=b"k%d" % n, headers=[("h", b"h%d" % n)], partition=number
            )
        producer.flush()
        producer.close()
    for number, codec in enumerate(ARGS):
        found = [
            [each.key.decode(), each.value.decode(), each.headers[0][1].decode()]
            for each in read_all(number)
        ]
        tell(codec=codec, records=found)


def admin():
    client = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    topic = NewTopic("made", 2, 1, topic_configs={"retention.ms": "60000"})

    def topics():
        return sorted(name for name in client.list_topics() if not name.startswith("__"))

    def partitions():
        return client.describe_topics(["made"])[0]["partitions"]

    def retention():
        resource = ConfigResource(ConfigResourceType.TOPIC, "made")
        return client.describe_configs([resource])["topic"]["made"]["retention.ms"]["value"]

    client.create_topics([topic])
    tell(topics=topics())
    tell(partitions=len(partitions()), replicas=len(partitions()[0]["replica_nodes"]))
    tell(retention=retention())
    changed = ConfigResource(ConfigResourceType.TOPIC, "made", {"retention.ms": "90000"})
    client.alter_configs([changed])
    tell(altered=retention())
    client.create_partitions({"made": NewPartitions(4)})
    tell(grown=len(partitions()))
    try:
        client.create_topics([topic])
    except TopicAlreadyExistsError as error:
        tell(again=error.message)
    admin_of_groups(client)
    client.delete_topics(["made"])
    tell(kept=topics())
    client.close()


def admin_of_groups(client):
    parts = [TopicPartition("made", number) for number in range(2)]

    def groups():
        return sorted(each["group_id"] for each in client.list_groups())

    def offsets():
        found = client.list_group_offsets({GROUP: None})[GROUP]
        return {part.partition: each.offset for part, each in found.items()}

    one = consumer("made")
    poll_until([one], lambda: owned(one, "made") == [0, 1, 2, 3])
    tell(groups=groups())
    found = client.describe_groups([GROUP])[GROUP]
    (assigned,) = found["members"][0]["member_assignment"]["assigned_partitions"]
    tell(
        state=found["group_state"],
        protocol=found["protocol_data"],
        members=len(found["members"]),
        assigned=assigned["partitions"],
    )
    refused = client.delete_groups([GROUP])[GROUP]
    tell(refused={"NonEmptyGroupError": "NON_EMPTY_GROUP"}.get(refused, refused))
    one.close()
    wanted = {part: OffsetAndMetadata(11 + n, "", -1) for n, part in enumerate(parts)}
    client.alter_group_offsets(GROUP, wanted)
    tell(offsets=offsets())
    client.delete_group_offsets(GROUP, parts[1:])
    tell(left=offsets())
    client.delete_groups([GROUP])
    tell(after=groups())


globals()[SCENARIO]()
