"""Transactions of Python's clients: readers see committed records, old producers are fenced.

Each client does the same: "a" with the group's offset 3, committed; "b" with offset 9, aborted;
"c", committed. Then another producer begins under its id.
"""

import asyncio

import pytest

from coterie.server import Broker
from support.clients.python_clients import GROUP, TOPIC
from support.clients.scenarios import RELEASES
from support.patience import HANG_S

SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 2,
}
ROUNDS = ((b"a", 3, True), (b"b", 9, False), (b"c", None, True))


def confluent(bootstrap):
    """Do the rounds; what each isolation reads, the group's offset, how the first one is fenced."""
    kafka = pytest.importorskip("confluent_kafka")
    partition = kafka.TopicPartition(TOPIC, 0)
    offsets = kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})

    def producer():
        made = kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": "x"})
        made.init_transactions(HANG_S)
        return made

    def read(isolation):
        own = {"bootstrap.servers": bootstrap, "group.id": isolation, "isolation.level": isolation}
        consumer = kafka.Consumer({**own, "enable.partition.eof": True})
        consumer.assign([kafka.TopicPartition(TOPIC, 0, 0)])
        values = []
        while (record := consumer.poll(HANG_S)).error() is None:
            values.append(record.value())
        assert record.error().code() == kafka.KafkaError._PARTITION_EOF
        consumer.close()
        return values

    first = producer()
    for value, offset, commits in ROUNDS:
        first.begin_transaction()
        first.produce(TOPIC, value, partition=0)
        if offset is not None:
            to = [kafka.TopicPartition(TOPIC, 0, offset)]
            first.send_offsets_to_transaction(to, offsets.consumer_group_metadata())
        (first.commit_transaction if commits else first.abort_transaction)(HANG_S)
    producer()
    fenced = None
    try:
        first.begin_transaction()
        first.produce(TOPIC, b"d", partition=0)
        first.commit_transaction(HANG_S)
    except kafka.KafkaException as error:
        fenced = error.args[0].code()
    (committed,) = offsets.committed([partition], HANG_S)
    offsets.close()
    assert fenced == kafka.KafkaError._FENCED
    return read("read_committed"), read("read_uncommitted"), committed.offset


def aiokafka(bootstrap):
    """As ``confluent``."""
    kafka = pytest.importorskip("aiokafka")
    from aiokafka.errors import ProducerFenced

    partition = kafka.TopicPartition(TOPIC, 0)

    async def read(isolation):
        consumer = kafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation)
        async with consumer:
            consumer.assign([partition])
            end = (await consumer.end_offsets([partition]))[partition]
            consumer.seek(partition, 0)
            values = []
            while await consumer.position(partition) < end:
                found = await consumer.getmany(timeout_ms=1000)
                values += [record.value for record in found.get(partition, ())]
            return values

    async def run():
        first = kafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="x")
        second = kafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="x")
        await first.start()
        for value, offset, commits in ROUNDS:
            await first.begin_transaction()
            await first.send_and_wait(TOPIC, value, partition=0)
            if offset is not None:
                await first.send_offsets_to_transaction({partition: offset}, GROUP)
            await (first.commit_transaction if commits else first.abort_transaction)()
        await second.start()
        with pytest.raises(ProducerFenced):
            async with first.transaction():
                await first.send_and_wait(TOPIC, b"d", partition=0)
        await second.stop()
        await first.stop()
        consumer = kafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=GROUP)
        async with consumer:
            offset = await consumer.committed(partition)
        return await read("read_committed"), await read("read_uncommitted"), offset

    return asyncio.run(asyncio.wait_for(run(), HANG_S))


def kafka_python(bootstrap):
    """As ``confluent``."""
    kafka = pytest.importorskip("kafka")
    from kafka.errors import ProducerFencedError
    from kafka.structs import OffsetAndMetadata

    partition = kafka.TopicPartition(TOPIC, 0)

    def producer():
        made = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id="x")
        made.init_transactions()
        return made

    def read(isolation):
        consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation)
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        consumer.seek(partition, 0)
        values = []
        while consumer.position(partition) < end:
            found = consumer.poll(timeout_ms=1000)
            values += [record.value for record in found.get(partition, ())]
        consumer.close()
        return values

    first = producer()
    offsets = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=GROUP)
    for value, offset, commits in ROUNDS:
        first.begin_transaction()
        first.send(TOPIC, value, partition=0).get(HANG_S)
        if offset is not None:
            first.send_offsets_to_transaction({partition: OffsetAndMetadata(offset, "", -1)}, GROUP)
        (first.commit_transaction if commits else first.abort_transaction)()
    second = producer()
    first.begin_transaction()
    with pytest.raises(ProducerFencedError):
        first.send(TOPIC, b"d", partition=0).get(HANG_S)
    committed = offsets.committed(partition)
    for each in (first, second, offsets):
        each.close()
    return read("read_committed"), read("read_uncommitted"), committed


@pytest.mark.parametrize("kafka", RELEASES)
@pytest.mark.parametrize("client", [confluent, aiokafka, kafka_python])
def test_readers_see_what_was_committed(client, kafka):
    with Broker(SETTINGS, topics={TOPIC: 1}, kafka=kafka) as broker:
        committed, uncommitted, offset = client(broker.bootstrap_servers)
    assert committed == [b"a", b"c"]
    # what was aborted may never have been sent; the fenced one never is
    assert [value for value in uncommitted if value != b"b"] == [b"a", b"c"]
    assert offset == 3


def test_a_transaction_runs_out_when_the_clock_says_so():
    kafka = pytest.importorskip("confluent_kafka")
    with Broker(SETTINGS, topics={TOPIC: 1}, clock="virtual") as broker:
        own = {"bootstrap.servers": broker.bootstrap_servers}
        producer = kafka.Producer({**own, "transactional.id": "x"})  # 60 s, by its defaults
        producer.init_transactions(HANG_S)
        producer.begin_transaction()
        producer.produce(TOPIC, b"a", partition=0)
        assert producer.flush(HANG_S) == 0
        broker.advance(70_001)
        with pytest.raises(kafka.KafkaException) as refused:
            producer.commit_transaction(HANG_S)
        assert refused.value.args[0].code() == kafka.KafkaError._FENCED


def test_an_admin_client_finds_an_open_transaction_and_aborts_it():
    kafka = pytest.importorskip("kafka")
    from kafka.admin import AbortTransactionSpec, KafkaAdminClient
    from kafka.errors import TransactionalIdNotFoundError

    partition = kafka.TopicPartition(TOPIC, 0)
    with Broker(SETTINGS, topics={TOPIC: 1}) as broker:
        own = {"bootstrap_servers": broker.bootstrap_servers}
        producer = kafka.KafkaProducer(**own, transactional_id="x", transaction_timeout_ms=60_000)
        producer.init_transactions()
        admin = KafkaAdminClient(**own)

        def listed(**filters):
            (found,) = admin.list_transactions(**filters).values()
            return [(each.transactional_id, each.state.value) for each in found]

        assert listed() == [("x", "Empty")]
        producer.begin_transaction()
        producer.send(TOPIC, b"a", partition=0).get(HANG_S)
        assert listed(state_filters=["Ongoing"]) == [("x", "Ongoing")]
        assert listed(state_filters=["Empty"]) == listed(duration_filter_ms=3_600_000) == []
        found = admin.describe_transactions(["x"])["x"]
        assert (found.state.value, found.transaction_timeout_ms) == ("Ongoing", 60_000)
        assert found.topic_partitions == {partition}
        assert listed(producer_id_filters=[found.producer_id]) == [("x", "Ongoing")]
        assert listed(producer_id_filters=[found.producer_id + 1]) == []
        with pytest.raises(TransactionalIdNotFoundError):
            admin.describe_transactions(["nobody"])
        (writing,) = admin.describe_producers([partition])[partition].active_producers
        assert (writing.producer_id, writing.current_transaction_start_offset) == (
            found.producer_id, 0)  # fmt: skip
        admin.abort_transaction(
            AbortTransactionSpec(partition, found.producer_id, found.producer_epoch)
        )
        (writing,) = admin.describe_producers([partition])[partition].active_producers
        assert writing.current_transaction_start_offset == -1
        admin.close()
        producer.close(0)
