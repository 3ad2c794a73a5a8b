"""Applications as they are, on virtual time: modules, clocks, threads and signals."""

import asyncio
import queue
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from time import sleep as nap

import pytest

from coterie.testing import Cluster, confluent, kafka_python, virtual_clients

REPLACED = [
    *((time, name) for name in ("sleep", "time", "monotonic", "perf_counter", "time_ns")),
    *((threading, name) for name in ("Lock", "RLock")),
    *((threading.Thread, name) for name in ("start", "join", "is_alive")),
    *((signal, "signal"), (queue, "SimpleQueue"), (sys.modules[__name__], "nap")),
]


def present():
    module = sys.modules.get("confluent_kafka")
    return [module, *(getattr(owner, name) for owner, name in REPLACED)]


def test_within_all_is_replaced_and_afterwards_nothing_whatever_happens():
    before = present()
    within = []

    def fail():
        with virtual_clients(Cluster({"orders": 1})):
            from confluent_kafka import Consumer

            within.extend([Consumer, *present()])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert within[0] is confluent.Consumer
    assert not any(old is new for old, new in zip(before, within[1:], strict=True))
    assert present() == before


def test_modules_first_imported_within_have_the_real_clients_afterwards(tmp_path, monkeypatch):
    confluent_kafka = pytest.importorskip("confluent_kafka")
    billing = tmp_path / "billing"
    billing.mkdir()
    (billing / "__init__.py").touch()
    (billing / "client.py").write_text(
        "import confluent_kafka\n\nclass Own(confluent_kafka.Consumer): ..."
    )
    (billing / "main.py").write_text("from billing.client import Own")
    monkeypatch.syspath_prepend(tmp_path)
    with virtual_clients(Cluster({"orders": 1})):
        from billing import client, main

        assert main.Own is client.Own
        assert issubclass(main.Own, confluent.Consumer)
    from billing import client as client_again
    from billing import main as main_again

    assert main_again.Own is client_again.Own
    assert issubclass(main_again.Own, confluent_kafka.Consumer)


def test_classes_of_an_application_inherit_from_the_stand_ins_within():
    aiokafka = pytest.importorskip("aiokafka")

    class Listener(aiokafka.ConsumerRebalanceListener):
        on_partitions_revoked = on_partitions_assigned = print

    class Own(aiokafka.AIOKafkaConsumer):
        async def first(self):
            async with self:
                return await self.getone()

    async def read():
        one = Own(group_id="g", auto_offset_reset="earliest")
        one.subscribe(["orders"], listener=Listener())
        return (await one.first()).offset

    with virtual_clients(Cluster({"orders": 1}, interval_ms=1000)):
        assert asyncio.run(read()) == 0
    assert Own.__bases__ == (aiokafka.AIOKafkaConsumer,)
    assert Listener.__bases__ == (aiokafka.ConsumerRebalanceListener,)


def test_other_modules_of_an_installed_library_use_the_stand_ins_within():
    pytest.importorskip("confluent_kafka")
    pytest.importorskip("aiokafka")
    for name in [one for one in sys.modules if one.startswith("confluent_kafka.serialization")]:
        del sys.modules[name]
    with virtual_clients(Cluster({"orders": 1})):
        from aiokafka.helpers import create_ssl_context
        from confluent_kafka.serialization import SerializationError, StringDeserializer

        assert StringDeserializer()(b"text") == "text"
        assert issubclass(SerializationError, confluent.KafkaException)
        assert create_ssl_context().check_hostname
    from confluent_kafka.serialization import SerializationError as Real

    assert not issubclass(Real, confluent.KafkaException)


def test_a_producer_that_polls_waits_and_lets_others_produce_meanwhile():
    at = []

    def poll(producer):
        while not at:
            producer.poll(1.0)

    with virtual_clients(Cluster({"orders": 1}, interval_ms=None)):
        producer = confluent.Producer({})
        poller = threading.Thread(target=poll, args=(producer,))
        poller.start()
        time.sleep(10.5)
        producer.produce("orders", b"v", on_delivery=lambda *_: at.append(time.monotonic()))
        poller.join()
    assert len(at) == 1
    assert 10.5 < at[0] < 10.6


def test_the_modules_of_kafka_python_are_found_in_each_way_to_import_them():
    with virtual_clients(Cluster({"orders": 1})):
        import kafka.consumer.group as group
        import kafka.errors
        from kafka.structs import TopicPartition

        assert group.KafkaConsumer is kafka.KafkaConsumer is kafka_python.KafkaConsumer
        assert kafka.structs.TopicPartition is TopicPartition
        refused = kafka.errors.for_code(25)
        assert issubclass(refused, kafka.errors.KafkaError)
        assert refused is kafka.errors.UnknownMemberIdError


def test_threads_queues_events_pools_and_clocks_share_the_virtual_time():
    at = {}

    def work(waiting):
        while (seconds := waiting.get()) is not None:
            time.sleep(seconds)
            at[seconds] = time.monotonic()

    start = time.perf_counter()
    with virtual_clients(Cluster({"orders": 1})):
        waiting = queue.Queue(maxsize=2)
        worker = threading.Thread(target=work, args=(waiting,))
        worker.start()
        for each in (100, 200, 300, None):
            waiting.put(each)
        assert worker.is_alive()
        worker.join()
        assert not worker.is_alive()
        done = threading.Event()
        threading.Timer(50, done.set).start()
        assert not done.wait(10)
        assert done.wait()
        at["event"] = time.monotonic()
        with ThreadPoolExecutor(2) as pool:
            ends = list(pool.map(lambda s: (nap(s), time.time())[1], (10, 20, 30)))
            at["pool"] = [end - time.time() for end in ends]
    assert at == {100: 100, 200: 300, 300: 600, "event": 650, "pool": [-30, -20, 0]}
    assert time.perf_counter() - start < 60


def test_event_loops_of_threads_take_virtual_time():
    at = {}

    async def work(name, seconds):
        try:
            await asyncio.wait_for(asyncio.sleep(seconds), 25)
        except TimeoutError:
            name = f"{name} too late"
        at[name] = await asyncio.to_thread(lambda: (time.sleep(1), time.monotonic())[1])

    start = time.perf_counter()
    with virtual_clients(Cluster({"orders": 1})):
        workers = [
            threading.Thread(target=lambda pair=pair: asyncio.run(work(*pair)))
            for pair in (("one", 10), ("two", 20), ("three", 30))
        ]
        for worker in workers:
            worker.start()
        asyncio.run(work("main", 15))
        for worker in workers:
            worker.join()
        assert asyncio.run(asyncio.sleep(3600, time.monotonic() + 3600)) == time.monotonic()
    assert at == {"one": 11, "main": 16, "two": 21, "three too late": 26}
    assert time.perf_counter() - start < 60


def test_without_an_offset_and_a_policy_each_partition_is_a_message_with_the_error():
    with virtual_clients(Cluster({"orders": 2})):
        from confluent_kafka import Consumer, KafkaError

        consumer = Consumer({"group.id": "g", "auto.offset.reset": "error"})
        consumer.subscribe(["orders"])
        messages = [consumer.poll(10) for _ in range(2)]
        assert {one.error().code() for one in messages} == {KafkaError._AUTO_OFFSET_RESET}
        assert sorted((one.topic(), one.partition()) for one in messages) == [
            ("orders", 0),
            ("orders", 1),
        ]
        consumer.close()


def test_threads_share_a_consumer_and_a_commit_does_not_wait_for_the_end_of_a_poll():
    with virtual_clients(Cluster({"orders": 1}, interval_ms=1000)):
        from confluent_kafka import Consumer

        consumer = Consumer({"group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["orders"])
        message = consumer.poll(30)
        ends = []

        def commit():
            time.sleep(0.5)
            consumer.commit(message, asynchronous=False)
            ends.append(time.monotonic())

        begin = time.monotonic()
        consumer.pause(consumer.assignment())
        worker = threading.Thread(target=commit)
        worker.start()
        assert consumer.poll(30) is None
        worker.join()
        assert time.monotonic() == begin + 30
        assert begin + 0.5 < ends[0] < begin + 0.6
        assert consumer.committed(consumer.assignment())[0].offset == message.offset() + 1
        consumer.close()


@pytest.mark.parametrize(
    ("name", "partitions", "error"),
    [
        ("", 1, "InvalidTopicError"),
        ("..", 1, "InvalidTopicError"),
        ("a b", 1, "InvalidTopicError"),
        ("a" * 250, 1, "InvalidTopicError"),
        ("orders", 1, "TopicAlreadyExistsError"),
        ("other", 0, "InvalidPartitionsError"),
        ("other", 10**9, "InvalidPartitionsError"),
    ],
)
@pytest.mark.parametrize("only_checks", [False, True])
def test_an_admin_is_refused_what_a_broker_refuses(name, partitions, error, only_checks):
    with virtual_clients(Cluster({"orders": 1})):
        from kafka import errors
        from kafka.admin import KafkaAdminClient, NewPartitions, NewTopic

        admin = KafkaAdminClient()
        with pytest.raises(getattr(errors, error)):
            admin.create_topics([NewTopic(name, partitions)], validate_only=only_checks)
        with pytest.raises(errors.InvalidPartitionsError):
            admin.create_partitions({"orders": NewPartitions(10**9)}, validate_only=only_checks)
        assert admin.list_topics() == ["orders"]
